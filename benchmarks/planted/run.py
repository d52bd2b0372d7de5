"""Benchmark of the search for pairs: functions with a planted fault are audited from their domain
alone for 20 CPU seconds each, and so are their sound twins.
"""

from __future__ import annotations

from dpwitness.benchmarks.planted.functions import LATER, PLANTED
from dpwitness.benchmarks.table import Table
from dpwitness.benchmarks.twins import compare_twins

SECONDS = 20.0  # CPU time of each audit
FOUND = 0.95  # required share of the faults


def measure(seed: int | None = None) -> Table:
    """Run all audits, in half an hour, and return the shares of faults found and of twins
    accused.
    """
    members = {f"{planted.name} ({planted.kind})": planted.audited for planted in PLANTED}
    names = list(members)
    return compare_twins(
        "planted",
        members,
        {
            "faults found, of functions written before the search": names[:LATER],
            "faults found, of functions written after the search": names[LATER:],
        },
        FOUND,
        seed=seed,
        seconds=SECONDS,
        bits=True,
    )
