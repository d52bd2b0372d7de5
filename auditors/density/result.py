"""Result of a white-box audit: bounds on the privacy profile of a pair with the evidence for each,
and the verdict that they allow.

There are four grades of evidence:

- *Proved*: rational or ball arithmetic over the whole output space.
- *Statistical*: a limit at a stated error that holds for every law allowed by what is known.
- *Numerical*: quadrature, grids and sums in floating point, which may miss peaks between nodes.
- *Assumed*: a bound that rests on an assumption, which the report states.

Only the first two grades refute or certify.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import ClassVar

import numpy as np

from dpwitness.auditors.density.mismatch import Mismatch
from dpwitness.auditors.density.search import WorstOutput
from dpwitness.auditors.witnesses.result import ClaimResult, numbers_of, pair_line
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import figure

SOUND = ("proved", "statistical")
EVIDENCE = (*SOUND, "numerical", "assumed")


def grade_of(why: str) -> str:
    """Return the grade at the start of the description of a bound; "numerical" if there is none."""
    word = why.partition(" ")[0].partition("(")[0].partition(":")[0]
    return word if word in EVIDENCE else "numerical"


@dataclass(frozen=True, slots=True)
class End:
    """Lower or upper bound on the claim's parameter, with its evidence."""

    value: float  # bound on the claim's own parameter: epsilon, mu or rho
    # evidence for the bound: a grade with its detail, such as ``statistical(0.001)`` or ``assumed:
    # no output ...``
    why: str
    epsilon: float  # bound on epsilon at the claim's delta (at 0 for GDP, zCDP and RDP)

    @property
    def grade(self) -> str:
        """Return the grade of evidence, one of `EVIDENCE`."""
        return grade_of(self.why)

    @property
    def sound(self) -> bool:
        """Return whether the bound is proved or statistical."""
        return self.grade in SOUND


@dataclass(frozen=True, slots=True, eq=False)
class RouteBounds:
    """Bounds that one route gives for a pair: the claim's parameter, the privacy profile and the
    best attack.
    """

    route: str
    lowers: tuple[End, ...]
    uppers: tuple[End, ...]
    epsilons: FloatArray
    delta_lower: FloatArray
    delta_upper: FloatArray
    fpr: FloatArray = field(default_factory=lambda: np.empty(0))
    tpr_lower: FloatArray = field(default_factory=lambda: np.empty(0))
    tpr_upper: FloatArray = field(default_factory=lambda: np.empty(0))
    worst: WorstOutput | None = None
    notes: tuple[str, ...] = ()

    def with_lower(self, value: float, why: str, epsilon: float) -> RouteBounds:
        """Return these bounds with another lower bound."""
        return replace(self, lowers=(*self.lowers, End(value, why, epsilon)))


def decide(lowers: Sequence[End], uppers: Sequence[End], edge: float) -> tuple[Verdict, End, End]:
    """Return the verdict on a claim, and the lower and the upper bound to report with it.

    `edge` is the claimed parameter, with an allowance for rounding. A lower bound that exceeds the
    sound bound that decided is reported with the evidence for both: ``statistical(0) up to 1.2,
    numerical beyond``.
    """
    value = attrgetter("value")
    high, low = min(uppers, key=value), max(lowers, key=value)
    refuting = [end for end in lowers if end.sound and end.value > edge]
    certifying = [end for end in uppers if end.sound and end.value <= edge]
    if certifying and not refuting:
        best = min(certifying, key=value)
        if low.value > best.value:
            low = replace(low, value=best.value, epsilon=best.epsilon)
        return Verdict.CERTIFIED, low, best
    verdict = Verdict.SUPPORTED
    if refuting:
        verdict, sound = Verdict.VIOLATED, max(refuting, key=value)
        beyond = f"{sound.why} up to {sound.value:.6g}, {low.grade} beyond"
        low = replace(low, why=beyond) if low.value > sound.value * (1 + 1e-9) else sound
    elif low.value > edge or not high.value <= edge:
        verdict = Verdict.INCONCLUSIVE
    # the lower bound of another route may be larger than the upper bound
    high = replace(high, value=max(high.value, low.value), epsilon=max(high.epsilon, low.epsilon))
    return verdict, low, high


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class CertifyResult(ClaimResult):
    """Result of a white-box audit of one pair. Every number is the larger of the numbers for both
    orders of the pair, (D0, D1) and (D1, D0).

    Attributes
    ----------
    verdict : Verdict
        VIOLATED if the lower bound of the density exceeds the claim and is proved or statistical.
        CERTIFIED (for this pair) if the upper bound is within the claim and is proved or
        statistical, also for the sampler: see `declared`. SUPPORTED if the upper bound is within
        the claim but is numerical or assumed. INCONCLUSIVE otherwise. ERROR if log-density and
        sampler contradict each other.
    evidence : {"proved", "statistical", "numerical", "assumed"}
        Grade of the bound that decided the verdict.
    route : str
        How the law of the privacy loss was computed.
    lower_end, upper_end : str
        Evidence of the two bounds: ``proved``, ``statistical(alpha)``, ``numerical`` (sums and
        quadrature in floating point, up to estimated errors), or ``assumed: ...``.
    epsilon_lower, epsilon_upper : float
        Bounds on epsilon at the claim's delta (at delta = 0 for GDP, zCDP and RDP).
    parameter_lower, parameter_upper : float
        Bounds on the claim's own parameter: epsilon, mu or rho.
    epsilons, delta_lower, delta_upper : array
        The privacy profile.
    fpr, tpr_lower, tpr_upper : array
        The best attacker's true-positive rate at each false-positive rate. Empty where outputs
        were sampled.
    mismatch : Mismatch or None
        Smallest mismatch of sampler and density that the runs would have noticed with probability
        0.9.
    declared : bool
        Whether sampler and density follow from one declared law of this package. If not,
        CERTIFIED needs `mismatch.scale` of at most 0.02 and a claim with room for a noise scale
        that differs by this amount.
    worst : WorstOutput or None
        For pure DP, the output with the largest loss found.
    claim, pair, trials, confidence, seed, name, target, subject
        Arguments of `dpwitness.certify`; `trials` is the number of runs that check the sampler.
    notes : tuple of str
        Remarks for the reader.
    seconds : float
        Duration, in seconds.
    """

    kind: ClassVar[str] = "white box"

    pair: Pair
    route: str
    upper_end: str
    epsilon_lower: float
    epsilon_upper: float
    parameter_lower: float
    parameter_upper: float
    epsilons: FloatArray
    delta_lower: FloatArray
    delta_upper: FloatArray
    fpr: FloatArray
    tpr_lower: FloatArray
    tpr_upper: FloatArray
    trials: int
    worst: WorstOutput | None = None
    lower_end: str = "numerical"
    mismatch: Mismatch | None = None
    declared: bool = False

    @property
    def evidence(self) -> str:
        """Return the grade of the bound that decided the verdict."""
        if self.verdict is Verdict.ERROR:
            return "statistical"
        return grade_of(self.lower_end if self.verdict is Verdict.VIOLATED else self.upper_end)

    @property
    def advice(self) -> str:
        """What to do next, if the claim is not violated."""
        if self.verdict in (Verdict.CERTIFIED, Verdict.SUPPORTED):
            return "no change is needed for this pair; --search looks for a worse one"
        undecided = self.verdict is Verdict.INCONCLUSIVE
        return "raise --trials, which narrows the enclosure" if undecided else ""

    def _witness_fields(self) -> Json | None:
        """Return pair and event, from which a replay encloses the loss again; None unless the claim
        is violated.

        The event is {L > `above`}: P(L > t) - e^t P'(L > t) exceeds delta at every t below the
        lower bound.
        """
        if self.verdict is not Verdict.VIOLATED:
            return None
        worst, output = self.worst, None
        if worst is not None:
            output = {
                "output": strict(worst.output),
                "ray": strict(worst.ray),
                "kind": worst.kind,
                "loss": strict(worst.loss),
            }
        return self._claim_witness(self.pair, self.parameter_lower) | {
            "event": {"kind": "loss", "above": strict(self.epsilon_lower), "output": output},
            "description": self.event,
            "route": self.route,
            "trials": self.trials,
        }

    @property
    def event(self) -> str:
        """Return a description of the event that shows the lower bound."""
        if self.worst is not None:
            return self.worst.describe()
        return f"outputs whose privacy loss exceeds {self.epsilon_lower:.6g}"

    @property
    def about(self) -> str:
        """Return the subject of the verdict, and the mismatch of sampler and density that would
        have been noticed.
        """
        return self._with_mismatch(
            "sampler and density follow from one declared law"
            if self.declared
            else "from the density"
        )

    def _with_mismatch(self, subject: str) -> str:
        """Return `subject`, and which mismatch of sampler and density would have been noticed."""
        return subject if self.mismatch is None else f"{subject}; {self.mismatch.describe()}"

    def headline(self) -> str:
        """Return the verdict, the bounds and their evidence in one line."""
        if self.verdict is Verdict.ERROR or self.route == "none":
            return f"{self.verdict.value}: {next(iter(self.notes), 'no verdict')}"
        symbol, claim, why = self.claim.symbol, self.claim, self.pair.why
        low, high = (f"{end:.5g}" for end in (self.parameter_lower, self.parameter_upper))
        is_certified = self.verdict is Verdict.CERTIFIED
        scope = "this pair" if why in ("", "given") else f"the pair '{why}'"
        if is_certified and low == high and self.lower_end == self.upper_end == "proved":
            proof = self._with_mismatch("proved from its density")
            if self.declared:
                proof = f"proved; {self.about}"
            return (
                f"CERTIFIED: {symbol} is {low} for {scope} only, within the claim {claim} ({proof})"
            )
        bound = f"{symbol} is at least {low}"
        if math.isinf(self.parameter_lower):
            bound = f"no finite {symbol} holds"
        inside = f"{symbol} lies in [{low}, {high}]"
        text = {
            Verdict.VIOLATED: f": {bound} on this pair, against the claim {claim}",
            Verdict.CERTIFIED: f" for {scope} only: {inside}, within the claim {claim}",
            Verdict.SUPPORTED: f" for {scope} only, not proved: {inside}, within the claim {claim}",
            Verdict.INCONCLUSIVE: f": {inside} on this pair, the claim is {claim}",
        }[self.verdict]
        ends = f"lower end: {self.lower_end}; upper end: {self.upper_end}"
        return f"{self.verdict.value}{text} ({self.about}; {self.route}; {ends})"

    def lines(self, data: Json, *, bits: bool = False) -> list[tuple[str, str]]:
        rows = [("enclosed", f"{self.name}, claim {self.claim}, relation {self.pair.relation}")]
        if self.verdict is not Verdict.ERROR:
            low, high = figure(self.parameter_lower, 7), figure(self.parameter_upper, 7)
            rows += [
                (self.claim.symbol, f"at least {low}, at most {high}"),
                ("route", self.route),
                ("evidence", self.evidence),
                ("upper end", self.upper_end),
                ("density", self.about),
                (
                    "how sure",
                    f"confidence {self.confidence:.12g} for all sampled quantities, "
                    f"{self.trials:,} runs, seed {self.seed}",
                ),
                ("event", self.event),
            ]
        return [*rows, pair_line(data["pair"])]

    def _fields(self) -> Json:
        ends = ("epsilon_lower", "epsilon_upper", "parameter_lower", "parameter_upper")
        return {
            **self._claim_fields(self.pair),
            "route": self.route,
            "lower_end": self.lower_end,
            "upper_end": self.upper_end,
            "parameter": self.claim.symbol,
            **numbers_of(self, *ends),
            "profile": numbers_of(self, "epsilons", "delta_lower", "delta_upper"),
            "tradeoff": numbers_of(self, "fpr", "tpr_lower", "tpr_upper"),
            "pair": self.pair.to_json(),
            "description": self.event,
            "confidence": self.confidence,
            "trials": self.trials,
            "mismatch": self.mismatch.describe() if self.mismatch else "",
            "noticed": self.mismatch.to_json() if self.mismatch else None,
            "declared": self.declared,
        }
