"""What a trace returns: what the run on one dataset was given and drew, what the other dataset changes in that, and what it may cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.verdicts import SCHEMA, Result, Verdict, environment, strict
from dpwitness.auditors.results.witness import witness_of
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.reading import Json

# kind of finding -> what it says, whatever the library
FINDINGS = {
    "CALLS": "which primitives are called, or how often, depends on the data",
    "SCALE": "the scale of the noise depends on the data",
    "SHAPE": "how many numbers are drawn, or of which type, depends on the data",
    "PARAMETER": "a parameter of a primitive depends on the data",
    "SENSITIVITY": "an input moves further than the sensitivity that is declared for it",
    "NOISE": "the noise is smaller than its declared sensitivity and epsilon need",
    "OUTPUT": "the output depends on the data past the primitives",
    "EXCEPTION": "one dataset raises, its neighbour does not",
    "LOSS": "the losses of the calls add up to more than the claim",
    "ACCOUNT": "the accountant was told of less than was spent",
    "SOURCE": "randomness that the trace cannot see, or that the seed does not decide",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a trace shows.

    Attributes
    ----------
    kind : str
        A key of `FINDINGS`.
    told : str
        What was seen.
    where : str
        File and line of the call, if it is about one.
    """

    kind: str
    told: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.told}" + (f" (at {self.where})" if self.where else "")


@dataclass(frozen=True, slots=True)
class TracedCall:
    """Calls of one primitive from one line, of which there may be many.

    Attributes
    ----------
    primitive, law, where : str
        Dotted name, law, and the line that calls it.
    times : int
        How often.
    distance : float
        Largest distance of the inputs on D1 and on D0 over these calls, in the `norm` of the law; infinite where a side alone is not a
        number; NaN where there is no input to compare.
    total : float
        The same over all these calls together.
    declared : float
        The sensitivity that the library declares; NaN if it declares none.
    scale : float
        Smallest scale of the noise.
    epsilon : float
        Loss of these calls at delta = 0; infinite for normal noise, NaN if their law is not known.
    input : str
        The input of the call that moves furthest, on D1 and on D0: the first place where they differ.
    aligned : bool
        Whether the distance is that by which the noise has to move for the same output, since the noise is drawn apart from the data.
    """

    primitive: str
    law: str
    where: str
    times: int
    norm: str
    distance: float
    total: float
    declared: float
    scale: float
    epsilon: float
    input: str = ""
    aligned: bool = False

    def told(self) -> str:
        """One line: name, law, how often, how far against how much was declared, scale and loss."""
        parts = [f"{self.times} x {self.primitive} ({self.law})"]
        if not math.isnan(self.distance):
            how = "noise has to move by" if self.aligned else "input moves by"
            declared = f", declared {self.declared:.4g}" if not math.isnan(self.declared) else ""
            parts.append(f"{how} {self.distance:.4g} ({self.norm}){declared}")
        if not math.isnan(self.scale):
            parts.append(f"scale {self.scale:.4g}")
        if self.distance > 0 or self.epsilon != 0:
            parts.append("loss not known" if math.isnan(self.epsilon) else f"epsilon {self.epsilon:.4g}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TraceResult(Result):
    """Result of a gray-box trace.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED only where an audit on that pair has certified it; INCONCLUSIVE where something was found and not confirmed; NOT_REFUTED
        where nothing was found, ERROR where the mechanism could not be traced.
    findings : tuple of Finding
    calls : tuple of TracedCall
        The calls on the pair, first to last.
    loss : float
        Parameter of the claim's notion that the losses of these calls compose to, at the claim's delta: of this pair and this trace, exact
        where inputs are functions of earlier noise; no bound over other pairs. NaN where some law is not known.
    charged : float
        What the library's own accountant was told in this run; NaN if it has none that is known.
    audit : AuditResult or None
        The audit that tried to confirm the findings.
    runs : int
        Runs of the mechanism for the trace, without those of the audit.
    primitives : dict
        Those that the user gave, by name.
    """

    name: str
    claim: Claim
    verdict: Verdict
    pair: Pair | None
    findings: tuple[Finding, ...]
    calls: tuple[TracedCall, ...]
    loss: float
    charged: float
    runs: int
    seed: int
    confidence: float
    primitives: Json = field(default_factory=dict)
    audit: AuditResult | None = None
    notes: tuple[str, ...] = ()
    target: Json | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    mechanism: Any = None

    @property
    def evidence(self) -> str:
        """``statistical`` where an audit has confirmed what was found; otherwise one pair of runs."""
        return "statistical" if self.verdict is Verdict.VIOLATED else "one trace"

    @property
    def epsilon_lower(self) -> float:
        """Certified lower bound of the audit, at the claim's delta; 0 if nothing was confirmed."""
        return self.audit.epsilon_lower if self.audit is not None else 0.0

    @property
    def parameter_lower(self) -> float:
        """The same for the claim's own parameter."""
        return self.audit.parameter_lower if self.audit is not None else 0.0

    @property
    def witness(self) -> Json | None:
        """That of the audit where it has confirmed; otherwise pair and findings, which `dpwitness.replay` traces again."""
        if self.verdict is Verdict.VIOLATED and self.audit is not None:
            return self.audit.witness
        if not self.findings or self.pair is None:
            return None
        found = [{"kind": f.kind, "told": f.told, "where": f.where} for f in self.findings]
        more = {"kind": "trace", "findings": found, "runs": self.runs, "primitives": self.primitives}
        return witness_of(self, "trace", self.pair, self.claim.parameter, more)

    @property
    def advice(self) -> str:
        """What to do now, in one line."""
        if self.verdict is Verdict.INCONCLUSIVE and self.audit is not None:
            return "look at the lines that the findings name; more --trials may confirm them"
        if self.verdict is Verdict.INCONCLUSIVE:
            return "look at the lines that the findings name"
        return "nothing has to change on this evidence; dpwitness audit tests the outputs, --pairs looks at more pairs"

    def headline(self) -> str:
        """What was found, whether it was confirmed, and what the trace cost."""
        if self.verdict is Verdict.ERROR:
            return f"ERROR: {self.notes[0] if self.notes else 'no trace'}"
        kinds = list(dict.fromkeys(f.kind for f in self.findings))
        found = f"TRACE {', '.join(kinds)}: {self.findings[0].told}" if kinds else ""
        if self.verdict is Verdict.VIOLATED and self.audit is not None:
            return f"{self.audit.headline()}; {found} ({self.runs} runs)"
        if kinds:
            tried = " and was not confirmed by an audit" if self.audit is not None else ", which was not tried by an audit"
            return f"INCONCLUSIVE: {found}{tried} ({self.runs} runs)"
        loss = self.told_loss()
        return f"NOT REFUTED: the trace shows nothing on {self._where()} ({loss}; {self.runs} runs; no proof over other pairs)"

    def told_loss(self) -> str:
        """The loss of the trace, in words."""
        if math.isnan(self.loss):
            return "the loss of some calls is not known"
        delta = self.claim.delta_budget
        told = f"its calls compose to {self.claim.symbol} = {self.loss:.4g}" + (f" at delta = {delta:g}" if delta else "")
        return f"{told}, claimed {self.claim.parameter:.4g}"

    def _where(self) -> str:
        return f"the pair '{self.pair.why}'" if self.pair is not None and self.pair.why else "this pair"

    def to_json(self) -> Json:
        fields = list(TracedCall.__dataclass_fields__)
        return {
            "schema_version": SCHEMA,
            "kind": "trace",
            "name": self.name,
            "claim": str(self.claim),
            "claim_numbers": list(self.claim.numbers),
            "relation": self.pair.relation if self.pair is not None else None,
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "parameter": self.claim.symbol,
            "findings": [{"kind": f.kind, "told": f.told, "where": f.where} for f in self.findings],
            "calls": [{name: strict(getattr(call, name)) for name in fields} for call in self.calls],
            "loss": strict(self.loss),
            "charged": strict(self.charged),
            "runs": self.runs,
            "primitives": self.primitives,
            "epsilon_lower": strict(self.epsilon_lower),
            "parameter_lower": strict(self.parameter_lower),
            "audit": self.audit.to_json() if self.audit is not None else None,
            "pair": self.pair.to_json() if self.pair is not None else None,
            "seed": self.seed,
            "confidence": self.confidence,
            "notes": list(self.notes),
            "target": self.target,
            "environment": environment(),
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
        }
