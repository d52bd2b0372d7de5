"""Benchmark of first contact: modules as people write them are audited from claim and domain alone,
for 60 CPU seconds each, and so are their right forms.
"""

from __future__ import annotations

from dpwitness.benchmarks.own.modules import MODULES
from dpwitness.benchmarks.table import Table
from dpwitness.benchmarks.twins import compare_twins

SECONDS = 60.0  # CPU time of each audit
FOUND = 10 / 12  # required share of the faults


def measure(seed: int | None = None) -> Table:
    """Run all audits, in half an hour, and return the shares of faults found and of right modules
    accused.
    """
    members = {f"{maker.__name__} ({kind})": maker for kind, maker in MODULES}
    return compare_twins(
        "own",
        members,
        {"faults found": list(members)},
        FOUND,
        seed=seed,
        seconds=SECONDS,
        bits=False,
    )
