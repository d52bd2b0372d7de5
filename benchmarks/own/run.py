"""Benchmark of first contact: modules as people write them are audited from claim and domain alone,
for 60 CPU seconds each, and so are their right forms.
"""

from __future__ import annotations

from dpwitness.benchmarks.own.modules import MODULES
from dpwitness.benchmarks.table import Table
from dpwitness.benchmarks.twins import share_row, violated

SECONDS = 60.0  # CPU time of each audit
FOUND = 10 / 12  # required share of the faults


def measure() -> Table:
    """Run all audits, in half an hour, and return the shares of faults found and of right modules
    accused.
    """
    members = {maker.__name__: maker for _, maker in MODULES}
    found = violated(members, fault=True, seconds=SECONDS, bits=False)
    accused = violated(members, fault=False, seconds=SECONDS, bits=False)
    missed = [f"{maker.__name__} ({kind})" for kind, maker in MODULES if not found[maker.__name__]]
    return Table(
        "own",
        (
            share_row("faults found", FOUND, found),
            share_row("right modules accused", 0.0, accused, at_most=True),
        ),
        (f"not found: {', '.join(missed) or 'none'}",),
        tuple(
            {"module": name, "found": found[name], "right form accused": accused[name]}
            for name in found
        ),
    )
