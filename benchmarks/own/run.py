"""Benchmark of first contact: modules as people write them are audited from claim and domain alone,
for 60 CPU seconds each, and so are their right forms.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from dpwitness.benchmarks.own.modules import MODULES, UNTUNED
from dpwitness.benchmarks.table import Table
from dpwitness.benchmarks.twins import compare_twins

SECONDS = 60.0  # CPU time of each audit
FOUND = 10 / 12  # required share of the faults


def measure(seed: int | None = None) -> Table:
    """Run all audits, in an hour, and return the shares of faults found and of right modules
    accused.

    A module of PyTorch is left out, with a note, where PyTorch is not installed.
    """
    left_out = [maker.__name__ for _, maker in MODULES if "torch" in maker.__name__]
    if find_spec("torch"):
        left_out = []
    members = {
        f"{maker.__name__} ({kind})": maker
        for kind, maker in MODULES
        if maker.__name__ not in left_out
    }
    fresh = [name for name, maker in members.items() if maker.__name__ in UNTUNED]
    table = compare_twins(
        "own",
        members,
        {"faults found": list(members), "faults found, never tuned to": fresh},
        FOUND,
        seed=seed,
        seconds=SECONDS,
        bits=False,
    )
    notes = [f"left out, because PyTorch is not installed: {name}" for name in left_out]
    return replace(table, notes=(*table.notes, *notes))
