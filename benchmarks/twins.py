"""Audits of faulty functions and of their sound twins, for benchmarks of what an audit finds from
claim and domain alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.table import Row

Arguments = dict[str, Any]  # of `audit`; `mechanism` among them


def violated(
    members: Mapping[str, Callable[[bool], Arguments]], *, fault: bool, seconds: float, bits: bool
) -> dict[str, bool]:
    """Return whether an audit of some CPU seconds refutes the claim of each member, with its fault
    or without.
    """
    return {
        name: audit(
            **arguments(fault), seconds=seconds, clock="cpu", bits=bits, seed=1, name=name
        ).verdict
        is Verdict.VIOLATED
        for name, arguments in members.items()
    }


def share_row(name: str, limit: float, some: Mapping[str, bool], *, at_most: bool = False) -> Row:
    """Return the row of the share of members that are violated."""
    hits = sum(some.values())
    return Row(name, limit, hits / len(some), "share", at_most=at_most, counts=(hits, len(some)))
