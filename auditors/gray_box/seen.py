"""What the trace of one pair shows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dpwitness.auditors.gray_box.calls import Calls
from dpwitness.auditors.results.trace_result import Finding
from dpwitness.mechanisms.terms.pairs import Pair

_COUPLED = ("CALLS", "SCALE", "SHAPE", "PARAMETER", "OUTPUT")  # kinds that come from runs with equal draws
WHATEVER = ", whatever the noise"


@dataclass(slots=True)
class Seen:
    """What the trace of one pair shows."""

    pair: Pair
    calls: Calls
    findings: list[Finding] = field(default_factory=list)
    suspicions: list[Finding] = field(default_factory=list)  # chance is not ruled out: findings if an audit confirms them
    loss: float = math.nan
    priced: bool = True  # whether that loss is one to hold against the claim
    charged: float = math.nan
    notes: list[str] = field(default_factory=list)
    laws: str = ""  # of the noise on both sides, once compared: same, different, mixed or unknown

    def plain(self) -> bool:
        """Whether generators' own draws are all the randomness: the code may use them as it likes, as long as the law is right."""
        return all(self.calls.source(i) or self.calls.law(i) == "spend" for i in range(len(self.calls)))

    def coupled(self) -> list[Finding]:
        """Findings that equal draws on both sides show, and their law need not."""
        return [f for f in self.findings if f.kind in _COUPLED and not (f.kind == "OUTPUT" and f.told.endswith(WHATEVER))]

    def add(self, kind: str, told: str, where: str = "", certain: bool = True) -> None:
        finding = Finding(kind, told, where)
        group = self.findings if certain else self.suspicions
        if not any(f.kind == kind and f.told.partition(":")[0] == told.partition(":")[0] for f in group):
            group.append(finding)
