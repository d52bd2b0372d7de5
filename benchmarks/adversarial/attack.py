"""An attack, its runs, and the exact binomial test of its success rate; the benchmark that runs
every attack many times under one seed, in worker processes.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence
from scipy.stats import binom

from dpwitness import InvalidArgument, Pair, Verdict
from dpwitness.benchmarks.table import Row, Table, root_seed, seed_note
from dpwitness.executors.pools import pool

PAIR = Pair(np.array([0.0]), np.array([1.0]))
RUNS = 120  # of an attack that must never succeed
RATE_RUNS = 400  # of an attack on a stated error
CHANCE = 1e-3  # probability that a correct program misses any row of the table


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one run: the failure of the program (empty if none), and the error probability that
    the program stated for this run.
    """

    fault: str
    stated: float


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack on one statement of the program.

    `run` draws parameters from the generator and attacks once. It returns a description of the
    failure, or "" if the program was right, or an `Outcome` if the stated error differs between
    runs. An exception counts as a failure.
    """

    name: str
    run: Callable[[Generator], str | Outcome]
    stated: float = 0.0  # stated probability of a failure; 0 for a failure that must never happen
    runs: int = RUNS

    def attempt(self, seed: int, number: int) -> Outcome:
        """Execute run `number` under a root seed."""
        rng = np.random.default_rng(SeedSequence(seed, spawn_key=(*self.name.encode(), number)))
        try:
            found = self.run(rng)
        except Exception as error:  # an exception counts as a failure, and the benchmark continues
            found = f"raises {type(error).__name__}: {str(error)[:200]}"
        return found if isinstance(found, Outcome) else Outcome(found, self.stated)


@dataclass(slots=True)
class Rate:
    """Failure count of one attack, with the sum of stated errors and the failures by run number."""

    failures: int = 0
    runs: int = 0
    stated_sum: float = 0.0
    faults: dict[int, str] = field(default_factory=dict)

    def add(self, number: int, outcome: Outcome) -> None:
        self.failures += bool(outcome.fault)
        self.runs += 1
        self.stated_sum += outcome.stated
        if outcome.fault:
            self.faults[number] = outcome.fault

    def __add__(self, other: Rate) -> Rate:
        sums = (
            self.failures + other.failures,
            self.runs + other.runs,
            self.stated_sum + other.stated_sum,
        )
        return Rate(*sums, {**self.faults, **other.faults})

    @property
    def stated(self) -> float:
        """Mean of the stated errors.

        If the errors differ, the binomial tail at their mean bounds the exact tail (Hoeffding
        1956).
        """
        return min(1.0, self.stated_sum / max(self.runs, 1))

    @property
    def p_value(self) -> float:
        """Probability of at least this number of failures if each run fails with the stated
        probability.
        """
        if self.stated <= 0:
            return 0.0 if self.failures else 1.0
        return float(binom.sf(self.failures - 1, self.runs, self.stated))

    def row(self, name: str, threshold: float) -> Row:
        """Return the row of the table; the row is met if the p-value exceeds `threshold`."""
        allowed_failures = (
            int(binom.isf(threshold, self.runs, self.stated)) if self.stated > 0 else 0
        )
        unit = f"of {self.runs}, stated {self.stated:.3g}, p-value {self.p_value:.2g}"
        return Row(
            name,
            allowed_failures / self.runs,
            self.failures / self.runs,
            unit,
            at_most=True,
            counts=(self.failures, self.runs),
        )

    def details(self, name: str) -> Mapping[str, Any]:
        first = [
            f"run {number}: {self.faults[number]}"
            # number of failures per attack in the JSON
            for number in sorted(self.faults)[:5]
        ]
        return {
            "attack": name,
            "stated": self.stated,
            "counts": [self.failures, self.runs],
            "p_value": self.p_value,
            "failures": first,
        }


def refusal(call: Callable[[], Any], what: str) -> str:
    """Return "" if the call raises InvalidArgument, else a description of its result."""
    try:
        found = call()
    except InvalidArgument:
        return ""
    return f"accepted {what}: {getattr(found, 'verdict', found)!s:.60}"


def failure_unless_verdict(found: Any, allowed: Iterable[Verdict], what: str) -> str:
    """Return "" if the verdict of a result is allowed, else a failure message."""
    return "" if found.verdict in tuple(allowed) else f"{found.verdict.value}: {what}"


def false_alarm(found: Any, what: str) -> str:
    """Return a failure message if a mechanism that satisfies its claim is reported as VIOLATED,
    else "".
    """
    return f"VIOLATED: {what}" if found.verdict is Verdict.VIOLATED else ""


def response(epsilon: float) -> Callable[..., Any]:
    """Return randomized response on the parity of the first record, with odds e^epsilon. The
    mechanism is exactly epsilon-DP.
    """

    def run(dataset: Any, size: int, rng: Generator) -> Any:
        truth = int(np.asarray(dataset).flat[0]) % 2
        return np.where(rng.random(size) < 1 / (1 + np.exp(-epsilon)), truth, 1 - truth)

    return run


def seed_of(rng: Generator) -> int:
    """Draw the seed of an audit."""
    return int(rng.integers(2**40))


FAMILIES = (
    "stopping",
    "alarms",
    "dependence",
    "leaves",
    "pairs",
    "files",
    "promises",
    "publishers",
    "traces",
    "commands",
)
_FAST_RUNS_PER_TASK = 1000  # runs per worker task for attacks that take about a millisecond


def attacks() -> dict[str, Attack]:
    """Return all attacks by name."""
    found = [
        attack
        for family in FAMILIES
        for attack in import_module(f"dpwitness.benchmarks.adversarial.{family}").ATTACKS
    ]
    return {attack.name: attack for attack in found}


def measure(
    seed: int | None = None,
    parts: Sequence[str] = (),
    *,
    share: float = 1.0,
    workers: int | None = None,
) -> Table:
    """Run the attacks and return the table of their failure rates, one row per attack.

    `share` is the fraction of each attack's runs to execute. `parts` are texts, of which the names
    of the attacks to run must contain one. Without a seed, one is drawn from the operating system
    and stated in the table.
    """
    lacking = [name for name in ("networkx", "pandas", "z3") if find_spec(name) is None]
    if lacking:
        raise InvalidArgument(
            f"bench adversarial needs {' and '.join(lacking)}: pip install "
            "'dpwitness[frames,graphs,proofs]'"
        )
    seed, wanted = root_seed(seed), parts or ("",)
    runs = {
        name: max(1, round(share * attack.runs))
        for name, attack in attacks().items()
        if any(part in name for part in wanted)
    }
    if not runs:
        raise InvalidArgument(
            f"--part must be a part of the name of an attack ({', '.join(attacks())}), got "
            f"{', '.join(parts)!r}"
        )
    tasks = [task for name, count in runs.items() for task in _tasks(name, seed, count)]
    rates: defaultdict[str, Rate] = defaultdict(Rate)
    with pool(workers or os.cpu_count() or 1) as executor:
        for name, rate in executor.map(_run_task, *zip(*tasks, strict=True)):
            rates[name] += rate
            if rates[name].runs == runs[name]:
                print(f"{len(rates)} of {len(runs)} attacks: {name}", file=sys.stderr, flush=True)
    threshold = CHANCE / len(runs)
    rows = tuple(rates[name].row(name, threshold) for name in runs)
    success_count = sum(not row.met for row in rows)
    notes = (
        f"{seed_note('adversarial', seed)}; only draws from the operating system differ",
        f"a row is missed if its p-value is below {threshold:.2g}, which is {CHANCE:g} "
        f"divided by the {len(runs)} attacks: "
        "a program that attains every stated rate misses a row with probability at most "
        f"{CHANCE:g}",
        f"{success_count} of {len(rows)} attacks succeed",
    )
    details = tuple(rates[name].details(name) for name in runs)
    return Table("adversarial", rows, notes, details, binding=True)


def _tasks(name: str, seed: int, runs: int) -> list[tuple[str, int, int, int]]:
    """Return the tasks of an attack for workers: name, seed, and the range of its runs."""
    size = _FAST_RUNS_PER_TASK if runs > 10 * _FAST_RUNS_PER_TASK else 20
    return [(name, seed, first, min(first + size, runs)) for first in range(0, runs, size)]


def _run_task(name: str, seed: int, first: int, last: int) -> tuple[str, Rate]:
    """Execute the runs `first`, ..., `last` - 1 of one attack, and return its name and their
    failure rate.
    """
    attack, rate = attacks()[name], Rate()
    for number in range(first, last):
        rate.add(number, attack.attempt(seed, number))
    return name, rate
