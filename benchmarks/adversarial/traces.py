"""Attacks on traces and checks: outputs that may be empty, names that only one dataset can release,
noise that is not recorded or missing, and sound mechanisms whose number of draws depends on the
data, which is not an output.
"""

from __future__ import annotations

import ctypes
import math
import random
import secrets
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import Pair, Verdict, audit, check_mechanism, trace
from dpwitness.benchmarks.adversarial.attack import Attack, false_alarm, seed_of
from dpwitness.mechanisms import ApproxDP, PureDP, Records


def _frame(values: list[float]) -> Any:
    import pandas

    return pandas.DataFrame({"x": values, "name": [str(round(value)) for value in values]})


_FORMS: dict[str, Callable[[list[float]], Any]] = {
    "array": lambda v: np.array(v, dtype=float),
    "(n, 0)": lambda v: np.zeros((len(v), 0)),
    "(0, n)": lambda v: np.ones((len(v), 3)),
    "list": list,
    "ragged": lambda v: [[x] * (k + 1) for k, x in enumerate(v)],
    "dict": lambda v: {str(k): x for k, x in enumerate(v)},
    "set": lambda v: {round(x) for x in v},
    "text": lambda v: ",".join(str(round(x)) for x in v),
    "none": lambda v: v[0] if v else None,
    "frame": _frame,
}


def empty_output(rng: Generator) -> str:
    """Attack with noisy records above a threshold in an empty form on one side, on both, or
    sometimes: a trace must not fail.
    """
    name, random_choice = str(rng.choice(list(_FORMS))), bool(rng.random() < 0.3)
    threshold, law = (
        float(rng.choice([0.5, 1.5, 9.0])),
        str(rng.choice(["laplace", "normal", "gumbel"])),
    )
    around = bool(rng.random() < 0.5)

    def run(dataset: Any, size: int, rng: Generator) -> Any:
        found = []
        for _ in range(size):
            kept = dataset[
                dataset + (rng.normal(size=len(dataset)) if random_choice else 0) > threshold
            ]
            draw = getattr(rng, law)
            found.append(
                _FORMS[name](
                    (draw(kept, 5.0) if around else kept + draw(0.0, 5.0, len(kept))).tolist()
                )
            )
        return found

    pair = Pair(np.array([1.0]), np.array([1.0, 2.0]), "add-remove")
    traced = trace(run, pair, "pure:1", confirm=False, seed=int(rng.integers(1000)))
    audited = audit(run, claim="pure:1", pair=pair, trials=1000, seed=seed_of(rng), bits=False)
    failed = any(note.startswith("no trace") and "would take" not in note for note in audited.notes)
    wrong = failed or Verdict.ERROR in (traced.verdict, audited.verdict)
    return (
        f"{name}, {law}, threshold {threshold}: {traced.headline():.90}; {audited.headline():.90}"
        if wrong
        else ""
    )


def _names(
    probability: float, epsilon: float, stable: bool
) -> Callable[[Any, int, Generator], Any]:
    """Return noisy counts of names above a threshold that one record passes with `probability`.

    A stable function counts all names that it knows, so that its epsilon is as stated.
    """
    threshold = 1 - math.log(2 * probability) / epsilon

    def run(dataset: Any, size: int, rng: Generator) -> Any:
        names, counts = np.unique(
            np.array([*dataset, *(_KNOWN if stable else ())]), return_counts=True
        )
        counts = counts - (1 if stable else 0)
        noisy = counts + rng.laplace(0.0, 1 / epsilon, (size, len(names)))
        return [
            dict(zip(names[row > threshold].tolist(), row[row > threshold].tolist(), strict=True))
            for row in noisy
        ]

    return run


_KNOWN = ("ann", "bob", "cat", "dora", "eve", "finn")


def _audited(rng: Generator, stable: bool) -> tuple[Any, str]:
    """Return the audit of released names on four pairs, one of which adds a name to the names of
    the dataset, and a description.
    """
    probability, epsilon = float(10 ** rng.uniform(-2.3, -1.7)), float(rng.uniform(0.5, 1.0))
    base = [name for name in _KNOWN[:3] for _ in range(int(rng.integers(6, 16)))]
    pairs = [
        Pair(base, [*base, name], "add-remove", name)
        for name in rng.permutation([*_KNOWN[:3], str(rng.choice(_KNOWN[3:]))]).tolist()
    ]
    claim = PureDP(epsilon * float(rng.uniform(1.0, 1.5)))
    mechanism = _names(probability, epsilon, stable)
    result = audit(
        mechanism,
        claim=claim,
        pair=pairs,
        trials=60_000,
        confidence=0.999,
        seed=seed_of(rng),
        bits=False,
        causes=False,
    )
    return result, f"{result.headline():.80}: names of probability {probability:.4f} at {claim}"


def rare_name(rng: Generator) -> str:
    """Attack with the name of one record, which only one dataset can release.

    The choice of a pair misses names that the pilot hardly sees, at a stated rate of 1/4.
    """
    result, text = _audited(rng, stable=False)
    return "" if result.verdict is Verdict.VIOLATED else text


def known_names(rng: Generator) -> str:
    """Attack with the same release of names that are known, which satisfies its claim."""
    result, text = _audited(rng, stable=True)
    return false_alarm(result, text)


_TABLE = np.random.default_rng(11).random(100_000).tolist()  # noise that was drawn before the audit


def _from_device(_: Generator) -> float:
    with Path("/dev/urandom").open("rb") as device:
        return float(struct.unpack("<Q", device.read(8))[0]) / 2.0**64


def _from_database(_: Generator) -> float:
    with sqlite3.connect(":memory:") as connection:
        return abs(int(connection.execute("SELECT random()").fetchone()[0])) / 2.0**63


def _from_c(_: Generator) -> float:
    return int(ctypes.CDLL(None).rand()) / 2.0**31


def _from_c_seeded(rng: Generator) -> float:
    library = ctypes.CDLL(None)
    library.srand(int(rng.integers(2**31)))
    return int(library.rand()) / 2.0**31


def _from_table(_: Generator) -> float:
    return float(_TABLE.pop() if len(_TABLE) > 1 else _TABLE[0])


_SOURCES: tuple[Callable[[Generator], float], ...] = (
    _from_device,
    _from_database,
    _from_c,
    _from_c_seeded,
    _from_table,
    lambda _: secrets.randbelow(2**53) / 2.0**53,
    lambda _: random.SystemRandom().random(),
)
_SHOWN = ("number", "whole", "bit", "rare bit", "sum", "beside", "unused")


def _value(form: str, moved: float, noisy: float, recorded: float) -> Any:
    """Return the output of one run: `noisy` is the data with noise that is not recorded, `recorded`
    has recorded noise only.
    """
    if form == "sum":
        return 0.1 * moved + noisy + 10 * recorded
    values = {
        "number": noisy,
        "whole": round(noisy),
        "rare bit": int(noisy > 3.5),
        "beside": [recorded, float(noisy > 2)],
    }
    return values.get(form, int(noisy > 0.5))


def supported(rng: Generator) -> str:
    """Attack with noise from a source that no trace records, alone or beside recorded noise: the
    trace must not support any claim.
    """
    source, form = _SOURCES[int(rng.integers(len(_SOURCES)))], str(rng.choice(_SHOWN))
    scale, claim = float(rng.uniform(0.3, 1.0)), float(rng.uniform(1.0, 4.0))

    def run(dataset: Any, size: int, rng: Generator) -> Any:
        found = []
        for _ in range(size):
            u = min(max(source(rng), 1e-12), 1 - 1e-12) - 0.5
            noisy = float(dataset[0]) - scale * np.sign(u) * np.log(1 - 2 * abs(u))
            recorded = rng.laplace(0.0, 1.0) if form in ("sum", "beside", "unused") else 0.0
            found.append(_value(form, float(dataset[0]), noisy, recorded))
        return np.array(found)

    run.seeded = False  # type: ignore[attr-defined]
    pair = Pair(np.array([0.0]), np.array([1.0]), "replace-one")
    result = audit(run, claim=PureDP(claim), pair=pair, trials=2000, seed=seed_of(rng), bits=False)
    if result.trace is not None and any("SUPPORTED" in line for line in result.trace.explanation):
        return f"SUPPORTED: {form} with noise {_SOURCES.index(source)} of scale {scale:.2f}"
    return ""


def without_noise(rng: Generator) -> str:
    """Attack with a function without noise whose outputs are equal on both datasets: neither
    support nor an accusation.
    """
    size_only, records = bool(rng.random() < 0.5), int(rng.integers(1, 6))
    constant: Any = [3.0, "a", (1, 2.5), None, [], {"n": 1}][int(rng.integers(6))]

    def run(dataset: Any, size: int, rng: Generator) -> Any:
        return [len(dataset) if size_only else constant for _ in range(size)]

    base = rng.normal(size=records)
    pair = Pair(base, np.append(base[:-1], 7.0), "replace-one")
    traced, audited = (
        trace(run, pair, "pure:1"),
        audit(run, claim="pure:1", pair=pair, trials=1000, seed=seed_of(rng)),
    )
    if traced.verdict is not Verdict.INCONCLUSIVE or not traced.doubt or traced.findings:
        return f"trace: {traced.headline():.150}"
    support = audited.trace is not None and any(
        "SUPPORTED" in line for line in audited.trace.explanation
    )
    return (
        f"audit: {audited.headline():.150}"
        if support or audited.verdict is Verdict.VIOLATED
        else ""
    )


_DRAWS = "check_draws_do_not_tell"


class Sampled:
    """Noisy sum of the records that coins choose, with other draws in between: all of it is sound
    under add-remove.
    """

    def __init__(self, rng: Generator) -> None:
        self.size, self.style = int(rng.integers(1, 5)), int(rng.integers(4))
        self.rate, self.epsilon, self.normal = (
            float(rng.uniform(0.2, 0.9)),
            float(rng.uniform(0.5, 3)),
            bool(rng.integers(2)),
        )
        self.domain = Records(self.size, relation="add-remove")
        self.claim = ApproxDP(self.epsilon, 1e-3) if self.normal else PureDP(self.epsilon)

    def sample(self, dataset: Any, size: int, rng: Generator) -> Any:
        values = np.clip(np.nan_to_num(np.asarray(dataset, dtype=float)), 0, 1)
        sums = np.array([self._chosen(values, rng) for _ in range(size)])
        # at most the classic noise
        scale = (math.sqrt(2 * math.log(1250)) if self.normal else 1.0) / min(self.epsilon, 1.0)
        noise = (
            rng.normal(0, scale, size) if self.normal else rng.laplace(0, 1 / self.epsilon, size)
        )
        return np.rint(1024 * (sums + noise)) / 1024

    def _chosen(self, values: Any, rng: Generator) -> float:
        if self.style == 0:  # a coin for each record
            return float(values[rng.random(len(values)) < self.rate].sum())
        if self.style == 1:  # one coin at a time, and a draw for each record that is chosen
            return float(
                sum(value for value in values if rng.random() < self.rate and rng.normal() < 9)
            )
        if self.style == 2:  # randomized rounding of each record
            return float(sum(rng.random() < value for value in values))
        # rejection whose number of tries depends on the data
        while rng.random() > 1 / (1 + values.sum()):
            pass
        return float(values.sum())

    def __repr__(self) -> str:
        return f"style {self.style}, {self.size} records, rate {self.rate:.3f}, {self.claim}"


def sound_check(rng: Generator) -> str:
    """Run an attack on `check_mechanism`: no check of a sound mechanism fails, whatever the number
    of its draws.
    """
    mechanism, trials = Sampled(rng), int(rng.choice([3_000, 20_000, 45_500]))
    report = check_mechanism(mechanism, trials=trials, seed=seed_of(rng))
    # far more noise than claimed
    failed = [
        finding
        for finding in report.failed
        if "may not exercise the mechanism" not in finding.reason
    ]
    return f"{mechanism}, {trials:,} runs: {report.headline()}" if failed else ""


def asked_check(rng: Generator) -> str:
    """Run an attack on the check of draws: a gross difference is a note, and a failure for a caller
    who names the check.
    """
    mechanism, seed = Sampled(rng), seed_of(rng)
    mechanism.style = 0
    note, failure = (
        check_mechanism(mechanism, trials=45_500, seed=seed, checks=[_DRAWS], side_channels=asked)
        .findings[0]
        .status
        for asked in (False, None)
    )
    return (
        ""
        if (note, failure) in (("note", "failed"), ("passed", "passed"))
        else f"{mechanism}: {note} and {failure}"
    )


ATTACKS = (
    Attack("empty outputs end a trace", empty_output, runs=60),
    Attack("name of one record is missed", rare_name, 0.25, runs=6),
    Attack("release of known names VIOLATED", known_names, 0.001, runs=4),
    Attack("noise that is not recorded SUPPORTED by its trace", supported, runs=120),
    Attack("function without noise supported or accused by its trace", without_noise, runs=60),
    Attack("check of a sound mechanism fails by its draws", sound_check, runs=12),
    Attack("number of draws is not a note, or not found", asked_check, runs=20),
)
