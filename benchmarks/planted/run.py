"""Benchmark of the search for pairs: functions with a planted fault are audited from their domain
alone for 20 CPU seconds each, and so are their sound twins.
"""

from __future__ import annotations

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.planted.functions import LATER, PLANTED, Planted
from dpwitness.benchmarks.table import Row, Table

SECONDS = 20.0  # CPU time of each audit
FOUND = 0.95  # required share of the faults


def measure() -> Table:
    """Run all audits, in half an hour, and return the shares of faults found and of twins
    accused.
    """
    found = {planted.name: _violated(planted, fault=True) for planted in PLANTED}
    accused = {planted.name: _violated(planted, fault=False) for planted in PLANTED}
    rows = []
    for name, members in (("before", PLANTED[:LATER]), ("after", PLANTED[LATER:])):
        hits = sum(found[planted.name] for planted in members)
        rows.append(
            Row(
                f"faults found, of functions written {name} the search",
                FOUND,
                hits / len(members),
                "share",
                counts=(hits, len(members)),
            )
        )
    false = sum(accused.values())
    rows.append(
        Row(
            "sound twins accused",
            0.0,
            false / len(PLANTED),
            "share",
            at_most=True,
            counts=(false, len(PLANTED)),
        )
    )
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


def _violated(planted: Planted, *, fault: bool) -> bool:
    """Return whether an audit refutes the claim epsilon = 1."""
    result = audit(
        planted.mechanism(fault=fault),
        claim="pure:1",
        domain=planted.domain,
        seconds=SECONDS,
        clock="cpu",
        seed=1,
        name=planted.name,
    )
    return result.verdict is Verdict.VIOLATED
