"""Evidence from traced runs of a pair: findings, calls of noise primitives, and the privacy loss to
which the calls compose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.json_reader import Json

# kind of finding -> meaning, the same for every library
FINDINGS = {
    "CALLS": "which primitives are called, or how often, depends on the data",
    "SCALE": "the scale of the noise depends on the data",
    "SHAPE": "the number or the type of the random draws depends on the data",
    "PARAMETER": "a parameter of a primitive depends on the data",
    "SENSITIVITY": "an input moves further than its declared sensitivity",
    "NOISE": "the noise is smaller than its declared sensitivity and epsilon need",
    "OUTPUT": "the output depends on the data outside the primitives",
    "EXCEPTION": "one dataset raises, its neighbor does not",
    "LOSS": "the losses of the calls add up to more than the claim",
    "ACCOUNT": "the accountant recorded less privacy loss than was spent",
    "SOURCE": "randomness that the trace cannot see, or that the seed does not control",
}


_ASSUMPTION = "the traced laws are the laws of the noise"


def describe_composed(claim: Claim, loss: float, claimed: float, digits: int = 4) -> str:
    """Return the parameter to which the losses of calls compose, and the claimed one."""
    symbol, delta = claim.symbol, claim.delta_budget
    reached = f"no finite {symbol}" if math.isinf(loss) else f"{symbol} = {loss:.{digits}g}"
    at = f" at delta = {delta:g}" if delta else ""
    return f"{reached}{at}, claimed {claimed:.{digits}g}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Difference or defect that a trace shows.

    Attributes
    ----------
    kind : str
        A key of `FINDINGS`.
    message : str
        Observation in one sentence.
    where : str
        File and line of the call; empty for a finding that is not about a call.
    """

    kind: str
    message: str
    where: str = ""

    def to_json(self) -> Json:
        return {"kind": self.kind, "told": self.message, "where": self.where}

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" + (f" (at {self.where})" if self.where else "")


@dataclass(frozen=True, slots=True)
class TracedCall:
    """Calls of one primitive from one line of code."""

    primitive: str  # dotted name
    law: str  # law of the noise
    where: str  # line that calls the primitive
    times: int  # number of calls
    norm: str  # norm of `distance` and `total`
    # largest distance of the inputs on D1 and on D0 over these calls, in the `norm` of the law.
    # Infinite where only one side is a number; NaN where there is no input to compare.
    distance: float
    total: float  # distance over all these calls together
    declared: float  # sensitivity that the library declares; NaN if it declares none
    scale: float  # smallest scale of the noise
    # privacy loss of these calls at delta = 0; infinite for normal noise, NaN if the law is not
    # known
    epsilon: float
    # input of the call that moves furthest, on D1 and on D0: the first position at which they
    # differ
    input: str = ""
    # whether the distance is the one by which the noise has to move for the same output, since the
    # noise is drawn independently of the data
    aligned: bool = False

    def describe(self) -> str:
        """Return a one-line description: name, law, number of calls, distance, declared
        sensitivity, scale and loss.
        """
        parts = [f"{self.times} x {self.primitive} ({self.law})"]
        if not math.isnan(self.distance):
            moved_object = "noise has to move by" if self.aligned else "input moves by"
            declared = f", declared {self.declared:.4g}" if not math.isnan(self.declared) else ""
            parts.append(f"{moved_object} {self.distance:.4g} ({self.norm}){declared}")
        if not math.isnan(self.scale):
            parts.append(f"scale {self.scale:.4g}")
        if self.distance > 0 or self.epsilon != 0:
            parts.append(
                "loss not known" if math.isnan(self.epsilon) else f"epsilon {self.epsilon:.4g}"
            )
        return ", ".join(parts)

    def to_json(self) -> Json:
        return {name: strict(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """Return the call, or group of equal calls, that `to_json` wrote."""
        values: Json = {
            name: float(value) if cls.__annotations__[name] == "float" else value
            for name, value in data.items()
        }
        return cls(**values)


# limits of the CPU time of traced runs, and as a share of a time budget and of the audit's runs
_SECONDS, _SHARE = 2.0, 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the traced runs of one audit: their number, and their CPU time in seconds."""

    runs: int
    seconds: float

    @classmethod
    def of(cls, trials: int, seconds: float | None) -> Limits:
        """Return the limits for an audit with this budget."""
        return cls(
            int(_SHARE * trials), _SECONDS if seconds is None else min(5.0, _SHARE * seconds)
        )


@dataclass(frozen=True, slots=True)
class TraceEvidence:
    """Evidence from a few traced runs of one pair, which a black-box audit makes before its own
    runs.

    Attributes
    ----------
    pair : str
        Name of the traced pair.
    claimed : float
        The claim's parameter on this pair.
    loss : float
        Parameter of the claim's notion to which the losses of the calls compose; NaN if a law is
        unknown.
    exceeds : bool
        Whether the claim is violated if the traced laws are the laws of the noise: the loss is
        above the claim, all noise reaches the output, and no draw hides a part of the loss.
    findings : tuple of Finding
    calls : tuple of TracedCall
    runs : int
        Number of traced runs. No test counts these runs.
    doubt : str
        Why the calls do not account for the outputs, so that the trace supports nothing; empty if
        they do.
    """

    pair: str
    claimed: float
    loss: float
    exceeds: bool
    findings: tuple[Finding, ...]
    calls: tuple[TracedCall, ...]
    runs: int
    doubt: str = ""

    @property
    def verdict(self) -> Verdict:
        """Verdict on this pair if the recorded primitives draw from the laws that they declare. A
        trace alone certifies nothing.

        Calls that do not account for the outputs, or no calls at all, support nothing.
        """
        if self.exceeds:
            return Verdict.VIOLATED
        explained = bool(self.calls) and not self.findings and not self.doubt
        return (
            Verdict.SUPPORTED
            if explained and self.loss <= self.claimed * (1 + 1e-3)
            else Verdict.INCONCLUSIVE
        )

    def refuted_by_counts(self) -> Self:
        """Return the evidence for an audit whose counts refute the claim: if the trace supported
        the claim, the evidence gets a doubt, because the traced runs did not show all that the
        mechanism does.
        """
        if self.verdict is not Verdict.SUPPORTED:
            return self
        return replace(
            self,
            doubt="the counts exceed the claim: noise is not recorded, or not as declared, or "
            "these runs did not take a rare branch",
        )

    @property
    def contradicts(self) -> bool:
        """Whether the trace contradicts the claim: its loss exceeds the claim, or the accounting
        that the claim rests on does not hold.
        """
        return self.exceeds or bool(self._accounting)

    @property
    def _accounting(self) -> list[str]:
        """What the trace shows about the accounting."""
        return [finding.message for finding in self.findings if finding.kind == "ACCOUNT"]

    @property
    def explanation(self) -> tuple[str, ...]:
        """Descriptions of the calls whose loss is not zero, largest loss first, and of the
        findings.
        """
        moved = [call for call in self.calls if call.distance > 0 or call.epsilon != 0]
        moved.sort(
            key=lambda call: -math.inf if math.isnan(call.epsilon) else call.epsilon, reverse=True
        )
        lines = [call.describe() + (f" (at {call.where})" if call.where else "") for call in moved]
        if self.verdict is Verdict.SUPPORTED:
            lines.append(
                f"the calls compose to {self.loss:.4g}, claimed {self.claimed:.4g}, and "
                f"account for the outputs of {self.runs} runs: "
                f"SUPPORTED on this pair, if {_ASSUMPTION} and no run differs from these"
            )
        elif self.doubt:
            lines.append(f"INCONCLUSIVE: {self.doubt}")
        return (*lines, *(str(finding) for finding in self.findings))

    def headline(self, claim: Claim) -> str:
        """Return one sentence for a trace that contradicts the claim: its finding and its
        assumption.
        """
        if not self.exceeds:
            return (
                f"a traced run on the pair ({self.pair}) contradicts the accounting of the "
                f"claim: {'; '.join(self._accounting)}; "
                "no count of this audit shows a violation"
            )
        composed = describe_composed(claim, self.loss, self.claimed)
        return (
            f"the calls of a traced run on the pair ({self.pair}) compose to {composed}: "
            f"VIOLATED if {_ASSUMPTION}, which no count of this audit confirms"
        )

    def to_json(self) -> Json:
        return {
            "pair": self.pair,
            "claimed": strict(self.claimed),
            "loss": strict(self.loss),
            "exceeds": self.exceeds,
            "verdict": self.verdict.value,
            "evidence": f"assumed: {_ASSUMPTION}",
            "findings": [finding.to_json() for finding in self.findings],
            "calls": [call.to_json() for call in self.calls],
            "runs": self.runs,
            "doubt": self.doubt,
        }

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """Return the evidence that `to_json` wrote."""
        return cls(
            data["pair"],
            float(data["claimed"]),
            float(data["loss"]),
            data["exceeds"],
            tuple(Finding(each["kind"], each["told"], each["where"]) for each in data["findings"]),
            tuple(map(TracedCall.from_json, data["calls"])),
            data["runs"],
            data["doubt"],
        )


@dataclass(frozen=True, slots=True, eq=False)
class TraceRequest:
    """Request of an audit for traced runs of a mechanism on pairs; `time_limit` is that of one run,
    in seconds.
    """

    mechanism: Any
    pairs: Sequence[Pair]
    claim: Claim
    seed: int
    limits: Limits
    time_limit: float


def explanations(result: Json) -> tuple[str, ...]:
    """Return the evidence of an audit's traced runs as text, one line for each kind of call and
    each finding; empty without a readable trace.
    """
    try:
        return TraceEvidence.from_json(result["trace"]).explanation
    except (KeyError, TypeError, ValueError):
        return ()
