"""Benchmark that runs every attack many times under one seed, in worker processes, with an exact
test of each failure rate.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from dpwitness import InvalidArgument
from dpwitness.benchmarks.adversarial.attack import CHANCE, Attack, Rate
from dpwitness.benchmarks.table import Table, root_seed, seed_note
from dpwitness.executors.pools import pool

FAMILIES = (
    "stopping",
    "alarms",
    "dependence",
    "leaves",
    "pairs",
    "files",
    "promises",
    "publishers",
    "kernel",
    "traces",
    "few_runs",
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
