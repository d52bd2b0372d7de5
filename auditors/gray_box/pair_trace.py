"""Evidence from the trace of one pair."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dpwitness.auditors.gray_box.calls import Calls
from dpwitness.auditors.results.trace_result import Finding
from dpwitness.mechanisms.data.pairs import Pair

_COUPLED = ("CALLS", "SCALE", "SHAPE", "PARAMETER", "OUTPUT")  # kinds of findings that rest on runs with equal draws
FOR_ALL_NOISE = ", whatever the noise"


@dataclass(slots=True)
class Seen:
    """Evidence from the trace of one pair."""

    pair: Pair
    calls: Calls
    findings: list[Finding] = field(default_factory=list)
    suspicions: list[Finding] = field(default_factory=list)  # may be chance; become findings if an audit confirms them
    loss: float = math.nan
    priced: bool = True  # whether `loss` may be compared with the claim
    charged: float = math.nan
    notes: list[str] = field(default_factory=list)
    laws: str = ""  # noise laws on both sides: same, different, mixed or unknown; empty before the comparison

    def plain(self) -> bool:
        """Return whether all randomness comes from the draws of generators.

        Then the code may use the draws in any way that gives the right law.
        """
        return all(self.calls.source(i) or self.calls.law(i) == "spend" for i in range(len(self.calls)))

    def coupled(self) -> list[Finding]:
        """Return findings that rest on equal draws on both sides; the laws of the outputs need not show them."""
        return [f for f in self.findings if f.kind in _COUPLED and not (f.kind == "OUTPUT" and f.told.endswith(FOR_ALL_NOISE))]

    def add(self, kind: str, told: str, where: str = "", certain: bool = True) -> None:
        """Add a finding, or a suspicion if not `certain`, unless the same kind was added for the same primitive."""
        finding = Finding(kind, told, where)
        group = self.findings if certain else self.suspicions
        if not any(f.kind == kind and f.told.partition(":")[0] == told.partition(":")[0] for f in group):
            group.append(finding)
