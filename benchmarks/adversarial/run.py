"""Benchmark that runs every attack many times under one seed, in worker processes, with an exact
test of each failure rate.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec

from dpwitness import InvalidArgument
from dpwitness.benchmarks.adversarial.attack import CHANCE, Attack, Rate
from dpwitness.benchmarks.table import Table
from dpwitness.executors.pools import pool

FAMILIES = (
    "stopping",
    "alarms",
    "adapting",
    "leaves",
    "pairs",
    "stores",
    "files",
    "promises",
    "publishers",
    "kernel",
    "independence",
    "accountants",
    "channels",
    "unrecorded",
    "gradients",
    "empties",
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
    only: str = "",
    workers: int | None = None,
) -> Table:
    """Run the attacks and return the table of their failure rates, one row per attack.

    `share` is the fraction of each attack's runs to execute. `parts` are texts, of which the names
    of the attacks to run must contain one, and all must contain `only`. Without a seed, one is
    drawn from the operating system and stated in the table.
    """
    lacking = [name for name in ("networkx", "pandas", "z3") if find_spec(name) is None]
    if lacking:
        raise InvalidArgument(
            f"bench adversarial needs {' and '.join(lacking)}: pip install "
            "'dpwitness[frames,graphs,proofs]'"
        )
    seed = secrets.randbits(48) if seed is None else seed
    chosen = {
        name: attack
        for name, attack in attacks().items()
        if only in name and any(part in name for part in parts or ("",))
    }
    if not chosen:
        raise InvalidArgument(
            f"--part must be a part of the name of an attack ({', '.join(attacks())}), got "
            f"{', '.join(parts)!r}"
        )
    tasks = []
    for name, attack in chosen.items():
        runs, size = (
            max(1, round(share * attack.runs)),
            # runs of a worker task
            _FAST_RUNS_PER_TASK if attack.runs > 10 * _FAST_RUNS_PER_TASK else 20,
        )
        tasks += [(name, seed, first, min(first + size, runs)) for first in range(0, runs, size)]
    rates: defaultdict[str, Rate] = defaultdict(Rate)
    with pool(workers or os.cpu_count() or 1) if workers != 1 else nullcontext() as executor:
        task_rates = (
            map(_run_task, *zip(*tasks, strict=True))
            if executor is None
            else executor.map(_run_task, *zip(*tasks, strict=True))
        )
        for (name, *_), rate in zip(tasks, task_rates, strict=True):
            rates[name] += rate
            if rates[name].runs == max(1, round(share * chosen[name].runs)):
                print(f"{len(rates)} of {len(chosen)} attacks: {name}", file=sys.stderr, flush=True)
    threshold = CHANCE / len(chosen)
    notes = (
        f"seed {seed}: dpwitness bench adversarial --seed {seed} repeats these attacks; only "
        "draws from the operating system differ",
        f"a row is missed if its p-value is below {threshold:.2g}, which is {CHANCE:g} "
        f"divided by the {len(chosen)} attacks: "
        "a program that attains every stated rate misses a row with probability at most "
        f"{CHANCE:g}",
    )
    rows = tuple(rates[name].row(name, threshold) for name in chosen)
    success_count = sum(not row.met for row in rows)
    outcome = (
        f"{success_count} of {len(rows)} attacks succeed"
        if success_count
        else f"none of {len(rows)} attacks succeeds"
    )
    return Table(
        "adversarial",
        rows,
        (*notes, outcome),
        tuple(rates[name].details(name) for name in chosen),
        binding=True,
    )


def _run_task(name: str, seed: int, first: int, last: int) -> Rate:
    """Execute the runs `first`, ..., `last` - 1 of one attack, and return their failure rate."""
    attack, rate = attacks()[name], Rate()
    for number in range(first, last):
        rate.add(number, attack.attempt(seed, number))
    return rate
