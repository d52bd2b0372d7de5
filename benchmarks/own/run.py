"""Benchmark of first contact: modules as people write them are audited from claim and domain alone,
for 60 CPU seconds each, and so are their right forms.
"""

from __future__ import annotations

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.own.modules import MODULES, Maker
from dpwitness.benchmarks.table import Row, Table

SECONDS = 60.0  # CPU time of each audit
FOUND = 10 / 12  # required share of the faults


def measure() -> Table:
    """Run all audits, in half an hour, and return the shares of faults found and of right modules
    accused.
    """
    found = {maker.__name__: _violated(maker, fault=True) for _, maker in MODULES}
    accused = {maker.__name__: _violated(maker, fault=False) for _, maker in MODULES}
    rows = tuple(
        Row(
            name,
            limit,
            sum(some.values()) / len(some),
            "share",
            at_most=at_most,
            counts=(sum(some.values()), len(some)),
        )
        for name, limit, some, at_most in (
            ("faults found", FOUND, found, False),
            ("right modules accused", 0.0, accused, True),
        )
    )
    missed = [f"{maker.__name__} ({kind})" for kind, maker in MODULES if not found[maker.__name__]]
    return Table(
        "own",
        rows,
        (f"not found: {', '.join(missed) or 'none'}",),
        tuple(
            {"module": name, "found": found[name], "right form accused": accused[name]}
            for name in found
        ),
    )


def _violated(maker: Maker, *, fault: bool) -> bool:
    """Return whether an audit refutes the claim of a module."""
    release = maker(fault)
    result = audit(
        release.mechanism,
        claim=release.claim,
        domain=release.domain,
        seconds=SECONDS,
        clock="cpu",
        bits=False,
        seed=1,
        name=maker.__name__,
    )
    return result.verdict is Verdict.VIOLATED
