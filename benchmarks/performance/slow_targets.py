"""Benchmark of slow mechanisms: targets that sort, fit and group tables for milliseconds in each
run, audited with default options.

Half of the targets are sound. The others have one fault each, of the kinds that libraries have had:
a wrong sensitivity, a bound that is not enforced, noise that is left out or reused, a list of the
groups that exist, an exception. A run costs at least 5 ms of real work, most of it on public
records that are joined with the private ones, so that a minute of CPU time is enough for some
thousand runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.clocks import cpu_seconds
from dpwitness.benchmarks.table import Row, Table
from dpwitness.core.domains.records import Records
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import InvalidArgument

BUDGET = 60.0  # CPU seconds of each audit
_COMPARED_RUNS, _REPETITIONS = 1500, 2  # of a sound target with and without a trace
_PUBLIC = 60_000  # public records that a run sorts or groups
_UNIT, _WIDE, _CODES = (
    Records(12, 0.0, 1.0),
    Records(12, 0.0, 10.0),
    Records(12, 0, 3, integer=True),
)

Run = Callable[[FloatArray, Generator], Any]


@dataclass(frozen=True, slots=True)
class SlowTarget:
    """Mechanism whose run is one call of `run`, with a pure claim of 1; `fault` is empty for a
    sound target.
    """

    run: Run
    domain: Records
    fault: str = ""

    @property
    def name(self) -> str:
        return self.run.__name__.lstrip("_")

    def mechanism(self) -> Any:
        """Return the mechanism as a plain function, which audits treat as code of a user."""

        def sample(dataset: FloatArray, size: int, rng: Generator) -> list[Any]:
            return [self.run(dataset, rng) for _ in range(size)]

        found: Any = sample
        found.claim, found.domain, found.__name__ = "pure:1", self.domain, self.name
        return found


@cache
def _public(low: float = 0.0, high: float = 1.0) -> FloatArray:
    return np.random.default_rng(0).uniform(low, high, _PUBLIC)


def _ranked(x: FloatArray) -> FloatArray:
    """Return the private records in the order of their ranks among the public ones."""
    joined = np.concatenate([_public(), x])
    order = np.argsort(joined, kind="stable")
    return joined[order[order >= _PUBLIC]]


def _frame(x: FloatArray) -> Any:
    """Return a table of public and private records, with their group and owner."""
    import pandas as pd

    values = np.concatenate([_public(), x])
    owner = np.arange(len(values)) >= _PUBLIC
    return pd.DataFrame(
        {"value": values, "group": np.floor(values * 4).astype(int), "private": owner}
    )


def _grouped(x: FloatArray) -> Any:
    return _frame(x).groupby(["private", "group"])["value"].agg(["count", "sum", "median"])


def _responses(x: FloatArray) -> FloatArray:
    """Return the responses of the private records, predicted by a fit to public records and
    clipped.
    """
    public = np.vander(_public()[:6000], 24)
    fitted, *_ = np.linalg.lstsq(public, np.sin(6 * _public()[:6000]), rcond=None)
    return np.clip(np.vander(x, 24) @ fitted, 0.0, 1.0)


# sound targets


def _clipped_sum(x: FloatArray, rng: Generator) -> float:
    return float(np.clip(_ranked(x), 0.0, 1.0).sum() + rng.laplace(0.0, 1.0))


def _grouped_counts(x: FloatArray, rng: Generator) -> FloatArray:
    found = _grouped(np.clip(x, 0, 1)).loc[True]["count"].reindex(range(5), fill_value=0)
    return np.asarray(found.to_numpy() + rng.laplace(0.0, 2.0, 5))


def _ridge_from_moments(x: FloatArray, rng: Generator) -> FloatArray:
    """Perturb the sums of x, x^2, y and xy, each of which moves by at most 1."""
    y = _responses(x)
    sums = np.array([x.sum(), x @ x, y.sum(), x @ y]) + rng.laplace(0.0, 4.0, 4)
    gram = np.array([[len(x), sums[0]], [sums[0], sums[1]]]) + 5.0 * np.eye(2)
    return np.asarray(np.linalg.solve(gram, sums[2:]))


def _median_by_exponential_mechanism(x: FloatArray, rng: Generator) -> float:
    grid, ordered = np.linspace(0.0, 1.0, 33), _ranked(x)
    utility = -np.abs(np.searchsorted(ordered, grid) - len(x) / 2)
    return float(grid[np.argmax(utility / 2 + rng.gumbel(size=33))])


def _most_frequent_code(x: FloatArray, rng: Generator) -> str:
    _ranked(x / 4)
    counts = np.bincount(x.astype(int), minlength=4)
    return "ABCD"[int(np.argmax(counts + rng.exponential(2.0, 4)))]


def _above_threshold(x: FloatArray, rng: Generator) -> list[bool]:
    """Stop at the first of eight counts whose noisy value is above a noisy threshold."""
    ordered, threshold, answers = _ranked(x), 6.0 + rng.laplace(0.0, 2.0), list[bool]()
    for cut in np.linspace(0.1, 0.9, 8):
        answers.append(bool(np.count_nonzero(ordered > cut) + rng.laplace(0.0, 4.0) > threshold))
        if answers[-1]:
            break
    return answers


def _two_means(x: FloatArray, rng: Generator) -> FloatArray:
    """Run two steps of Lloyd's algorithm with noisy counts and sums; a record moves two counts and
    two sums.
    """
    ordered, centers = _ranked(x), np.array([0.25, 0.75])
    for _ in range(2):
        nearest = np.argmin(np.abs(ordered[:, None] - centers), axis=1)
        counts = np.bincount(nearest, minlength=2) + rng.laplace(0.0, 8.0, 2)
        sums = np.bincount(nearest, weights=ordered, minlength=2) + rng.laplace(0.0, 8.0, 2)
        centers = np.clip(sums / np.maximum(counts, 1.0), 0.0, 1.0)
    return centers


def _noisy_stump(x: FloatArray, rng: Generator) -> tuple[float, float, float]:
    """Choose a split by the exponential mechanism and count both sides, each half of the budget."""
    ordered, cuts = _ranked(x), np.linspace(0.1, 0.9, 9)
    balance = -np.abs(np.searchsorted(ordered, cuts) - len(x) / 2)
    cut = float(cuts[np.argmax(balance / 4 + rng.gumbel(size=9))])
    left = np.count_nonzero(ordered <= cut)
    return cut, float(left + rng.laplace(0.0, 4.0)), float(len(x) - left + rng.laplace(0.0, 4.0))


def _clipped_gradients(x: FloatArray, rng: Generator) -> float:
    """Make four steps with clipped gradients, each a quarter of the budget; a record moves the sum
    by 2.
    """
    y = _responses(x)
    weight = 0.0
    for _ in range(4):
        gradients = np.clip((weight * x - y) * x, -1.0, 1.0)
        weight -= 0.02 * float(gradients.sum() + rng.laplace(0.0, 8.0))
    return weight


def _count_in_words(x: FloatArray, rng: Generator) -> str:
    found = (
        np.count_nonzero(_ranked(x) > 0.5)
        + rng.geometric(1 - np.exp(-1.0))
        - rng.geometric(1 - np.exp(-1.0))
    )
    return f"about {int(found)} records"


# the same kinds of work with a fault


def _sum_clipped_at_the_wrong_bound(x: FloatArray, rng: Generator) -> float:
    return float(np.clip(_ranked(x / 10) * 10, 0.0, 10.0).sum() + rng.laplace(0.0, 1.0))


def _groups_that_exist(x: FloatArray, rng: Generator) -> dict[str, float]:
    found = _grouped(np.clip(x, 0, 1)).loc[True]["count"]
    return {
        f"group {group}": float(count + rng.laplace(0.0, 2.0)) for group, count in found.items()
    }


def _ridge_with_the_scale_of_a_mean(x: FloatArray, rng: Generator) -> FloatArray:
    """Divide the noise by the number of records, although the sums are not divided."""
    y = _responses(x)
    sums = np.array([x.sum(), x @ x, y.sum(), x @ y]) + rng.laplace(0.0, 4.0 / len(x), 4)
    gram = np.array([[len(x), sums[0]], [sums[0], sums[1]]]) + 5.0 * np.eye(2)
    return np.asarray(np.linalg.solve(gram, sums[2:]))


def _median_by_local_sensitivity(x: FloatArray, rng: Generator) -> float:
    ordered = _ranked(x)
    gap = max(ordered[7] - ordered[6], ordered[6] - ordered[5], 1e-3)
    return float(ordered[6] + rng.laplace(0.0, gap))


def _most_frequent_code_without_the_factor(x: FloatArray, rng: Generator) -> str:
    """Add noise of scale 1/2 instead of 2."""
    _ranked(x / 4)
    counts = np.bincount(x.astype(int), minlength=4)
    return "ABCD"[int(np.argmax(counts + rng.exponential(0.5, 4)))]


def _threshold_without_a_stop(x: FloatArray, rng: Generator) -> list[bool]:
    """Answer 40 queries with the budget of one; a record moves half of them up and half of them
    down.
    """
    above, threshold = np.count_nonzero(_ranked(x) > 0.5), 6.0 + rng.laplace(0.0, 2.0)
    return [
        bool(count + rng.laplace(0.0, 4.0) > threshold)
        for count in (above, len(x) - above)
        for _ in range(20)
    ]


def _two_means_with_exact_counts(x: FloatArray, rng: Generator) -> FloatArray:
    """Add noise to the sums only."""
    ordered, centers = _ranked(x), np.array([0.25, 0.75])
    nearest = np.argmin(np.abs(ordered[:, None] - centers), axis=1)
    sums = np.bincount(nearest, weights=ordered, minlength=2) + rng.laplace(0.0, 2.0, 2)
    return np.append(
        sums / np.maximum(np.bincount(nearest, minlength=2), 1), np.bincount(nearest, minlength=2)
    )


def _stump_with_the_best_split(x: FloatArray, rng: Generator) -> tuple[float, float]:
    """Choose the split without noise."""
    ordered, cuts = _ranked(x), np.linspace(0.1, 0.9, 9)
    cut = float(cuts[np.argmin(np.abs(np.searchsorted(ordered, cuts) - len(x) / 2))])
    return cut, float(np.count_nonzero(ordered <= cut) + rng.laplace(0.0, 4.0))


def _gradients_clipped_after_the_sum(x: FloatArray, rng: Generator) -> float:
    y = _responses(x / 40)
    weight = 0.0
    for _ in range(4):
        gradient = float(((weight * x - y) * x).sum())
        weight -= 2e-4 * float(np.clip(gradient, -100.0, 100.0) + rng.laplace(0.0, 8.0))
    return weight


def _mean_of_positive_records(x: FloatArray, rng: Generator) -> float:
    """Raise where no record is positive."""
    ordered = _ranked(x)
    positive = ordered[ordered > 0]
    if not len(positive):
        raise ZeroDivisionError("no positive record")
    return float(positive.mean() + rng.laplace(0.0, 1.0))


SOUND = [
    SlowTarget(run, domain)
    for run, domain in [
        (_clipped_sum, _UNIT),
        (_grouped_counts, _UNIT),
        (_ridge_from_moments, _UNIT),
        (_median_by_exponential_mechanism, _UNIT),
        (_most_frequent_code, _CODES),
        (_above_threshold, _UNIT),
        (_two_means, _UNIT),
        (_noisy_stump, _UNIT),
        (_clipped_gradients, _UNIT),
        (_count_in_words, _UNIT),
    ]
]
FAULTY = [
    SlowTarget(_sum_clipped_at_the_wrong_bound, _WIDE, "the noise is for records of at most 1"),
    SlowTarget(_groups_that_exist, _UNIT, "the names of the groups depend on one record"),
    SlowTarget(
        _ridge_with_the_scale_of_a_mean, _UNIT, "the noise is divided by the number of records"
    ),
    SlowTarget(_median_by_local_sensitivity, _UNIT, "the scale of the noise depends on the data"),
    SlowTarget(_most_frequent_code_without_the_factor, _CODES, "the noise is four times too small"),
    SlowTarget(_threshold_without_a_stop, _UNIT, "the answers do not stop"),
    SlowTarget(_two_means_with_exact_counts, _UNIT, "the counts have no noise"),
    SlowTarget(_stump_with_the_best_split, _UNIT, "the split has no noise"),
    SlowTarget(_gradients_clipped_after_the_sum, _WIDE, "gradients are clipped after the sum"),
    SlowTarget(_mean_of_positive_records, _UNIT, "an exception depends on one record"),
]


PARTS = ("faulty", "sound", "trace")


def measure(parts: Sequence[str] = ()) -> Table:
    """Audit targets with default options, compare the CPU time of audits with and without a trace,
    and return the table.

    All parts run by default. ``faulty`` and ``sound`` may be followed by a colon and a text that
    names of targets must contain.
    """
    chosen = [part.partition(":") for part in parts or PARTS]
    if unknown := [name for name, _, _ in chosen if name not in PARTS]:
        raise InvalidArgument(f"--part must be one of {', '.join(PARTS)}, got {unknown[0]!r}")
    rows, details = list[Row](), list[dict[str, Any]]()
    for part, _, only in chosen:
        if part == "trace":
            rows.append(
                Row(
                    "CPU time with / without a trace, sound targets",
                    1.05,
                    trace_cost(SOUND[:4]),
                    "ratio",
                    at_most=True,
                )
            )
            continue
        found = [
            _details(part, target)
            for target in (FAULTY if part == "faulty" else SOUND)
            if only in target.name
        ]
        right = sum(
            (each["verdict"] == Verdict.VIOLATED.value) == (part == "faulty") for each in found
        )
        case = (
            f"violations found within {BUDGET:g} CPU s"
            if part == "faulty"
            else "sound targets without a violation"
        )
        rows.append(Row(case, float(len(found)), float(right), "targets"))
        details += found
    wrong = [
        each["name"]
        for each in details
        if (each["verdict"] == Verdict.VIOLATED.value) != (each["part"] == "faulty")
    ]
    notes = [
        "All targets claim pure:1; most pairs come from the domain of 12 records.",
        *(f"wrong verdict: {name}" for name in wrong),
    ]
    return Table("slow", tuple(rows), tuple(notes), tuple(details))


def _details(part: str, target: SlowTarget) -> dict[str, Any]:
    """Audit a target, and return what the JSON of the benchmark shows of it."""
    found = audit_one(target)
    bounds = {
        "certified": found.parameter_lower,
        "runs": found.trials,
        "cpu_seconds": round(found.cpu_seconds, 1),
    }
    return {
        "part": part,
        "name": target.name,
        "fault": target.fault,
        "verdict": found.verdict.value,
        **bounds,
    }


def audit_one(target: SlowTarget, seconds: float = BUDGET, **options: Any) -> Any:
    """Audit a target within a budget of CPU time."""
    return audit(target.mechanism(), seconds=seconds, clock="cpu", **options)


def trace_cost(targets: list[SlowTarget]) -> float:
    """Return the CPU time of audits with a trace, divided by that of the same audits without one,
    in turn.
    """
    spent = {True: 0.0, False: 0.0}
    for _ in range(_REPETITIONS):
        for target in targets:
            for trace in spent:
                begin = cpu_seconds()
                audit(target.mechanism(), trials=_COMPARED_RUNS, trace=trace)
                spent[trace] += cpu_seconds() - begin
    return spent[True] / spent[False]
