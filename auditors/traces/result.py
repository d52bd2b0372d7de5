"""Result of a gray-box trace: the calls of primitives on a pair, the differences found, the
composed loss, and the audit that tried to confirm the findings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, cast

from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.traces.evidence import Finding, TracedCall, describe_composed
from dpwitness.auditors.witnesses.result import ClaimResult, pair_line
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.json_reader import Json

_MAX_CALLS = 12  # maximum number of lines with calls on a terminal
CONFIRMED = (Verdict.VIOLATED, Verdict.SUSPECT)  # verdicts that an audit has confirmed


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class TraceResult(ClaimResult):
    """Result of a gray-box trace.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED only where an audit on the pair has certified the violation. INCONCLUSIVE where
        findings were not confirmed, or the recorded calls do not account for the outputs (`doubt`);
        NOT_REFUTED where there are no findings, ERROR where the mechanism could not be traced.
    findings : tuple of Finding
        The findings.
    calls : tuple of TracedCall
        The calls on the pair, first to last.
    loss : float
        Parameter of the claim's notion to which the losses of these calls compose, at the claim's
        delta. The loss holds for this pair and this trace, is exact where inputs are functions of
        earlier noise, and is not a bound over other pairs. NaN where a law is not known.
    charged : float
        Loss that the library's own accountant recorded in this run; NaN if it has no known
        accountant.
    doubt : str
        Why the calls do not account for the outputs: none was recorded, or no draw reaches the
        output. Empty if they do.
    audit : AuditResult or None
        The audit that tried to confirm the findings.
    runs : int
        Runs of the mechanism for the trace, without those of the audit.
    primitives : dict
        Primitives that the user declared, by name.
    claim, pair, confidence, seed, name, target, subject
        Arguments of `dpwitness.trace`; `pair` is the pair of `calls`.
    notes : tuple of str
        Remarks for the reader.
    seconds, cpu_seconds : float
        Duration and processor time, in seconds.
    """

    kind: ClassVar[str] = "trace"
    all_lines: ClassVar[bool] = True

    pair: Pair | None
    findings: tuple[Finding, ...]
    calls: tuple[TracedCall, ...]
    loss: float
    charged: float
    runs: int
    primitives: Json = field(default_factory=dict)
    doubt: str = ""
    audit: AuditResult | None = None
    cpu_seconds: float = 0.0

    @property
    def evidence(self) -> str:
        """Return ``statistical`` where an audit has confirmed the findings, otherwise ``one
        trace``.
        """
        return "statistical" if self.verdict in CONFIRMED else "one trace"

    @property
    def epsilon_lower(self) -> float:
        """Return the audit's certified lower bound on epsilon at the claim's delta; 0 without an
        audit.
        """
        return self.audit.epsilon_lower if self.audit is not None else 0.0

    @property
    def parameter_lower(self) -> float:
        """Return the audit's certified lower bound on the claim's own parameter; 0 without an
        audit.
        """
        return self.audit.parameter_lower if self.audit is not None else 0.0

    @property
    def witness(self) -> Json | None:
        """Return the audit's witness if the audit confirmed a violation.

        Otherwise return pair and findings, which `dpwitness.replay` traces again; None without
        findings.
        """
        if self.verdict in CONFIRMED and self.audit is not None:
            return self.audit.witness
        return cast("Json | None", ClaimResult.witness.__get__(self))

    def _witness_fields(self) -> Json | None:
        if not self.findings or self.pair is None:
            return None
        return self._claim_witness(self.pair, self.claim.parameter) | {
            "findings": [f.to_json() for f in self.findings],
            "runs": self.runs,
            "primitives": self.primitives,
        }

    @property
    def advice(self) -> str:
        """The recommended next step in one line; empty for an ERROR."""
        if self.verdict is Verdict.ERROR:
            return ""
        if self.verdict is not Verdict.INCONCLUSIVE:
            return (
                "no change is needed on this evidence; dpwitness audit tests the outputs, --pairs "
                "looks at more pairs"
            )
        if self.findings or self.audit is not None:
            more = "" if self.audit is None else "; more --trials may confirm them"
            return f"look at the lines that the findings name{more}"
        return (
            "dpwitness audit tests the outputs; primitives name functions that draw noise, "
            "another pair may show more"
        )

    @property
    def replay_advice(self) -> str:
        """What to do after a replay that shows the findings again."""
        if not self.findings or self.verdict in CONFIRMED:
            return ""
        return "the trace shows the findings again: look at the lines of code that they name"

    def headline(self) -> str:
        """Return the findings, whether an audit confirmed them, and the number of runs, in one
        line.
        """
        if self.verdict is Verdict.ERROR:
            return f"ERROR: {self.notes[0] if self.notes else 'no trace'}"
        kinds = ", ".join(dict.fromkeys(f.kind for f in self.findings))
        found = f"TRACE {kinds}: {self.findings[0].message}" if kinds else ""
        if self.verdict in CONFIRMED and self.audit is not None:
            return f"{self.audit.headline()}; {found} ({self.runs} runs)"
        name = self.pair.why if self.pair is not None else ""
        pair = f"the pair '{name}'" if name else "this pair"
        if kinds:
            tried = self.audit is not None
            ending = " and was not confirmed by" if tried else ", which was not tried by"
            return f"INCONCLUSIVE: {found}{ending} an audit ({self.runs} runs)"
        if self.doubt:
            return f"INCONCLUSIVE: {self.doubt} ({pair}; {self.runs} runs)"
        return (
            f"NOT REFUTED: the trace shows no violation on {pair} "
            f"({self.describe_loss()}; {self.runs} runs; no proof over other pairs)"
        )

    def describe_loss(self) -> str:
        """Return a description of the composed loss of the trace."""
        if math.isnan(self.loss):
            return "the privacy loss of some calls is unknown"
        return (
            f"its calls compose to {describe_composed(self.claim, self.loss, self.claim.parameter)}"
        )

    def lines(self, data: Json, *, bits: bool = False) -> list[tuple[str, str]]:
        calls, more = list(map(TracedCall.describe, self.calls)), len(self.calls) - _MAX_CALLS
        if more > 0:
            calls[_MAX_CALLS:] = [f"... {more} more lines are in the report"]
        loss = f"{self.describe_loss()} (of this pair and trace only, not a bound for others)"
        rows = [
            *(("finding", str(finding)) for finding in self.findings),
            *(("call", call) for call in calls),
            ("loss", loss),
        ]
        if self.audit is not None and self.audit.verdict is not self.verdict:
            rows.append(("audit", self.audit.headline()))
        return rows + ([pair_line(data["pair"])] if data.get("pair") else [])

    def _fields(self) -> Json:
        return {
            **self._claim_fields(self.pair),
            "parameter": self.claim.symbol,
            "findings": [f.to_json() for f in self.findings],
            "calls": [call.to_json() for call in self.calls],
            "loss": strict(self.loss),
            "charged": strict(self.charged),
            "doubt": self.doubt,
            "runs": self.runs,
            "primitives": self.primitives,
            "epsilon_lower": strict(self.epsilon_lower),
            "parameter_lower": strict(self.parameter_lower),
            "audit": self.audit.to_json() if self.audit is not None else None,
            "pair": self.pair.to_json() if self.pair is not None else None,
            "confidence": self.confidence,
            "cpu_seconds": round(self.cpu_seconds, 3),
        }
