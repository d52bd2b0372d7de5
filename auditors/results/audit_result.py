"""What an audit returns: a verdict, the bound behind it, how sure it is, and a witness where a promise is broken."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from dpwitness.auditors.events.picture import Picture
from dpwitness.auditors.events.rules import Event
from dpwitness.auditors.events.scores import Score
from dpwitness.auditors.results.recomputed import Basis
from dpwitness.auditors.results.verdicts import SCHEMA, Result, Verdict, environment, strict
from dpwitness.auditors.results.witness import certifies, witness_of
from dpwitness.auditors.statistics.certificate import Tally
from dpwitness.auditors.statistics.certified_point import CertifiedPoint, certified_point
from dpwitness.auditors.statistics.combination import Part
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.powers import offers
from dpwitness.mechanisms.terms.protocol import WhiteBox
from dpwitness.mechanisms.terms.reading import Json


@dataclass(frozen=True, slots=True)
class BitLevel:
    """Verdict on the low bits of floating-point outputs, apart from the one on their values."""

    verdict: Verdict
    epsilon_lower: float
    pair: Pair | None = None
    event: Event | None = None
    tally: Tally | None = None
    alpha: float = 0.0  # error at which the tally was tested
    lost: int = 0  # of the wrong guesses, rounds whose output nobody saw

    def to_json(self) -> Json:
        return {
            "verdict": self.verdict.value,
            "pair": self.pair.to_json() if self.pair else None,
            "epsilon_lower": strict(self.epsilon_lower),
            "event": self.event.to_json() if self.event else None,
            "description": self.event.describe() if self.event else None,
            "tally": _tally(self.tally),
        } | ({"alpha": self.alpha, "lost": self.lost} if self.alpha else {})


@dataclass(frozen=True, slots=True)
class PairScore:
    """A pair that the pilot tried, and the parameter that it promised to certify."""

    pair: Pair
    expected: float
    confirmed: bool

    def to_json(self) -> Json:
        return {"why": self.pair.why, "expected": strict(self.expected), "confirmed": self.confirmed}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AuditResult(Result):
    """Result of a black-box audit.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED, NOT_REFUTED, INCONCLUSIVE (interrupted, or no pair exercises the mechanism) or ERROR, at the level of values.
    exercised : bool or None
        True where outputs on D0 and D1 differ. False where they look the same on every pair, although a tenth of the claim would have shown
        a difference: the audit then says nothing about the claim. None where there were too few runs to judge, the audit was interrupted
        or failed, or a given event was tested.
    epsilon_lower : float
        Certified lower bound on epsilon at the claim's delta (at delta = 0 for GDP, zCDP and RDP).
    parameter_lower : float
        Certified lower bound on the claim's own parameter: epsilon, mu or rho.
    detectable : float
        Smallest parameter at which a mechanism *of this event's kind* would have been refuted with probability 0.9, its event learned anew:
        one whose outputs differ as these do, only more. Another kind, such as a raw value in one of 1e4 runs, is not covered.
    bit_level : BitLevel or None
        The verdict on low bits; None where the outputs are no floating-point numbers.
    picture : Picture or None
        Where outputs of the test fall on each dataset, and what the event guesses there: for a person, it certifies nothing.
    p_value : float
        Smallest error at which the claim is refuted, all looks and pairs paid for.
    """

    name: str
    claim: Claim
    verdict: Verdict
    confidence: float
    seed: int
    trials: int  # runs of the mechanism, all phases
    requested: int
    epsilon_lower: float = 0.0
    parameter_lower: float = 0.0
    p_value: float = 1.0
    detectable: float = math.inf
    pair: Pair | None = None
    event: Event | None = None
    tally: Tally | None = None
    stages: tuple[Part, ...] = ()  # where several events were tested, each trained on the rounds before it: all, the last being `tally`
    alpha: float = 0.0  # the error at which the last look certified the tally: looks and pairs have taken the rest
    basis: Basis | None = None  # the counts that certified the bounds: those of the last look, or of an earlier one that certified more
    method: str = ""
    looks: tuple[tuple[int, float], ...] = ()  # runs made by each look at the event, and the bound certified by then
    picture: Picture | None = None
    exercised: bool | None = None
    bit_level: BitLevel | None = None
    pairs: tuple[PairScore, ...] = ()
    notes: tuple[str, ...] = ()
    target: Json | None = None
    seconds: float = 0.0
    scores: tuple[Score, ...] = ()  # whose columns stand before the outputs' own
    mechanism: Any = field(default=None, repr=False)
    unstored: str = ""  # why the store could not be written to the end, if it could not

    @property
    def evidence(self) -> str:
        """``statistical``: counts and an exact binomial limit."""
        return "statistical"

    @property
    def limit(self) -> float | None:
        """Median of what the best test certifies at this number of trials: half of such exceed it.

        None without a law of the loss, or with one that fails: what was counted stands without it.
        """
        from dpwitness.auditors.loss.limit import limit

        if self.pair is None or not offers(self.mechanism, WhiteBox):
            return None
        try:
            return limit(self.mechanism, self.pair, self.claim, self.requested, self.confidence)
        except Exception:
            return None

    @property
    def point(self) -> CertifiedPoint | None:
        """The point under the pair's trade-off curve that the tally proves; None if nothing was guessed."""
        tally = self.tally
        return certified_point(tally, self.alpha) if tally and tally.correct + tally.wrong and self.alpha > 0 else None

    @property
    def witness(self) -> Json | None:
        """Everything that `dpwitness.replay` needs to reach the verdict again; None unless a claim was violated at some level."""
        value, level = self.verdict is Verdict.VIOLATED, self.bit_level
        if value:
            pair, event, tally, bound = self.pair, self.event, self.tally, self.parameter_lower
        elif level is not None and level.verdict is Verdict.VIOLATED:
            pair, event, tally, bound = level.pair, level.event, level.tally, level.epsilon_lower
        else:
            return None
        if pair is None or not pair.writable or event is None or tally is None:
            return None
        parts = (self.stages if value else ()) or (Part(tally),)
        earlier = {"stages": [part.to_json() for part in parts[:-1]], "lost": parts[-1].lost} if len(parts) > 1 else {}
        alpha = self.alpha if value else level.alpha or 1 - self.confidence  # type: ignore[union-attr]
        claim = self.claim if value else self.claim.at_delta
        shown = {"alpha": alpha} if certifies(claim, event, parts, alpha, bound) else {}
        more = {
            "event": event.to_json(),
            "description": str(self.description) if value else event.describe(),
            "counts": (_tally(tally) or {}) | earlier | shown,
            "trials": self.requested,
        } | ({"scores": [score.to_json() for score in self.scores]} if self.scores else {})
        return witness_of(self, "value" if value else "bit", pair, bound, more)

    @property
    def description(self) -> str | None:
        """The event in one line, with what its columns of scores are."""
        if self.event is None:
            return None
        labels = [label for score in self.scores for label in score.labels]
        told = "; ".join(f"output {i} is the score {label}" for i, label in enumerate(labels))
        return self.event.describe() + (f" ({told}; the output's own numbers follow)" if labels else "")

    def headline(self) -> str:
        first = self.notes[0] if self.notes else ""
        return headline_of(self.claim, self.verdict, self.parameter_lower, self.confidence, self.detectable, first)

    def to_json(self) -> Json:
        return {
            "schema_version": SCHEMA,
            "kind": "black box",
            "name": self.name,
            "claim": str(self.claim),
            "claim_numbers": list(self.claim.numbers),
            "relation": self.pair.relation if self.pair else None,
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "confidence": self.confidence,
            "epsilon_lower": strict(self.epsilon_lower),
            "parameter": self.claim.symbol,
            "parameter_lower": strict(self.parameter_lower),
            "p_value": self.p_value,
            "limit": strict(self.limit),
            "detectable": strict(self.detectable),
            "exercised": self.exercised,
            "pair": self.pair.to_json() if self.pair else None,
            "event": self.event.to_json() if self.event else None,
            "description": self.description,
            "method": self.method,
            "tally": _tally(self.tally),
            "stages": [part.to_json() for part in self.stages],
            "alpha": self.alpha,
            **({"basis": self.basis.to_json()} if self.basis else {}),
            "looks": [[runs, strict(lower)] for runs, lower in self.looks],
            "picture": self.picture.to_json() if self.picture else None,
            "certified_point": asdict(self.point) if self.point else None,
            "bit_level": self.bit_level.to_json() if self.bit_level else None,
            "pairs": [score.to_json() for score in self.pairs],
            "trials": self.trials,
            "requested": self.requested,
            "seed": self.seed,
            "notes": list(self.notes),
            "target": self.target,
            "environment": environment(),
            "seconds": round(self.seconds, 3),
        } | ({"scores": [score.to_json() for score in self.scores]} if self.scores else {})


def headline_of(claim: Claim, verdict: Verdict, lower: float, confidence: float, detectable: float, note: str) -> str:
    """Return the headline of an audit from its numbers; `note` is the first of its notes."""
    symbol, sure = claim.symbol, f"confidence {confidence:.12g}"
    if verdict is Verdict.VIOLATED:
        if math.isinf(lower):
            return f"VIOLATED: no finite {symbol} holds, certified against the claim {claim} ({sure})"
        return f"VIOLATED: {symbol} > {lower:.4g} certified against the claim {claim} ({sure})"
    if verdict is Verdict.NOT_REFUTED:
        found = f"; a violation of {detectable:.4g} or more, of the same shape, would have been found 9 times in 10"
        found = found if math.isfinite(detectable) else ""
        return f"NOT REFUTED: no violation of {claim} found; {symbol} > {lower:.4g} certified ({sure}){found}"
    return f"{verdict.value}: {note or 'no verdict'}"


def _tally(tally: Tally | None) -> dict[str, int] | None:
    if tally is None:
        return None
    return {"correct": tally.correct, "wrong": tally.wrong, "rounds": tally.rounds, "directions": tally.directions}
