"""Benchmark of the search for pairs: functions with a planted fault are audited from their domain
alone for 20 CPU seconds each, and so are their sound twins.
"""

from __future__ import annotations

from dpwitness.benchmarks.planted.functions import LATER, PLANTED
from dpwitness.benchmarks.table import Table
from dpwitness.benchmarks.twins import share_row, violated

SECONDS = 20.0  # CPU time of each audit
FOUND = 0.95  # required share of the faults


def measure() -> Table:
    """Run all audits, in half an hour, and return the shares of faults found and of twins
    accused.
    """
    members = {planted.name: planted.audited for planted in PLANTED}
    found = violated(members, fault=True, seconds=SECONDS, bits=True)
    accused = violated(members, fault=False, seconds=SECONDS, bits=True)
    rows = [
        share_row(
            f"faults found, of functions written {name} the search",
            FOUND,
            {planted.name: found[planted.name] for planted in some},
        )
        for name, some in (("before", PLANTED[:LATER]), ("after", PLANTED[LATER:]))
    ]
    rows.append(share_row("sound twins accused", 0.0, accused, at_most=True))
    missed = [f"{each.name} ({each.kind})" for each in PLANTED if not found[each.name]]
    return Table(
        "planted",
        tuple(rows),
        (f"not found: {', '.join(missed) or 'none'}",),
        tuple(
            {"function": name, "found": found[name], "twin accused": accused[name]}
            for name in found
        ),
    )
