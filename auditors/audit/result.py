"""Result of a black-box audit: its verdict, the certified bound with its confidence, and a witness
of a violation; and `audit_outputs`, the audit of two given batches of outputs, which runs no
mechanism.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from dpwitness.auditors.events.event import Event, EventHistogram, describe_event_in_words
from dpwitness.auditors.events.learning import learn
from dpwitness.auditors.events.outputs import (
    Outputs,
    Score,
    encode,
    opaque_type_notes,
    unrepeated_text_notes,
)
from dpwitness.auditors.events.posterior import detectable
from dpwitness.auditors.statistics.certificate import (
    CertifiedPoint,
    Part,
    Tally,
    certified_point,
    split_batches,
)
from dpwitness.auditors.traces.evidence import TraceEvidence, explanations
from dpwitness.auditors.witnesses.counts import Basis, Cause, describe_causes
from dpwitness.auditors.witnesses.result import ClaimResult, pair_line
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.workers.fitness import (
    check_rows,
    check_training,
    environment_failure,
    is_environment_fault,
)
from dpwitness.auditors.workers.pair_exercise import OutputComparison, exercised
from dpwitness.auditors.workers.rounds import audit_key, stream
from dpwitness.core.claims import Claim, promised, resolved
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    error_text,
    require_integer,
    require_probability,
    require_type,
)
from dpwitness.core.values.wording import figure, format_times


def _json(part: Any) -> Json | None:
    """Return the JSON form of a part of a result that may be missing."""
    return None if part is None else part.to_json()


@dataclass(frozen=True, slots=True)
class BitLevel:
    """Verdict on the low bits of floating-point outputs, separate from the verdict on
    their values.
    """

    verdict: Verdict
    epsilon_lower: float
    pair: Pair | None = None
    event: Event | None = None
    tally: Tally | None = None
    alpha: float = 0.0  # error probability at which the tally was tested
    lost: int = 0  # wrong guesses that are rounds whose output was lost

    def basis(self, confidence: float) -> Basis:
        """Return the counts of the bound, and the error of their test."""
        assert self.tally is not None
        return Basis(self.alpha or 1 - confidence, (Part(self.tally, lost=self.lost),))

    def describe(self, *, counts: bool) -> str:
        """Return the verdict in words; `counts` states whether a leak counts for the exit code."""
        if self.verdict is not Verdict.VIOLATED:
            not_refuted = self.verdict is Verdict.NOT_REFUTED
            return (
                "nothing found in the last bits of the outputs"
                if not_refuted
                else self.verdict.value
            )
        found = f"epsilon > {figure(self.epsilon_lower)} certified from floating-point bits alone"
        if counts:
            return f"VIOLATED: float rounding, {found}"
        return (
            f"float rounding: distinguishable, {found}; not counted (--bits counts it): round "
            "outputs to a grid"
        )

    def to_json(self) -> Json:
        return {
            "verdict": self.verdict.value,
            "pair": _json(self.pair),
            "epsilon_lower": strict(self.epsilon_lower),
            "event": _json(self.event),
            "description": self.event.describe() if self.event else None,
            "tally": asdict(self.tally) if self.tally else None,
        } | ({"alpha": self.alpha, "lost": self.lost} if self.alpha else {})


@dataclass(frozen=True, slots=True)
class PairScore:
    """Pair that the pilot tried, with the parameter that an audit on it is expected to certify."""

    pair: Pair
    expected: float
    confirmed: bool


REFUTED = (Verdict.VIOLATED, Verdict.SUSPECT)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class AuditResult(ClaimResult):
    """Result of a black-box audit.

    Attributes
    ----------
    verdict : Verdict
        Verdict at the level of values: VIOLATED, SUSPECT (violated, if a scan's guess is right),
        NOT_REFUTED, INCONCLUSIVE (interrupted, or no pair exercises the mechanism) or ERROR.
    exercised : bool or None
        True where outputs on D0 and D1 differ. False where outputs look the same on every pair,
        although a tenth of the claim would have shown a difference: the audit then gives no
        evidence about the claim. None where there were too few runs to decide, the audit was
        interrupted or failed, or a given event was tested.
    epsilon_lower : float
        Certified lower bound on epsilon at the claim's delta (at delta = 0 for GDP, zCDP and
        RDP).
    parameter_lower : float
        Certified lower bound on the claim's own parameter: epsilon, mu or rho.
    detectable : float
        Smallest parameter at which a mechanism *with this kind of event* would have been refuted
        with probability 0.9, with its event learned again. Such a mechanism has the same kind of
        difference in its outputs, only larger. Other kinds, such as a raw value in one of 1e4
        runs, are not covered.
    bit_level : BitLevel or None
        Verdict on the low bits; None where outputs are not floating-point numbers.
    picture : EventHistogram or None
        Histogram of the test's outputs on each dataset, with the event's guesses: an illustration
        that certifies nothing.
    p_value : float
        Smallest error at which the claim is refuted, corrected for all interim analyses and all
        pairs.
    claim, confidence, seed, name, target, subject
        Arguments of `dpwitness.audit`; `subject` is the mechanism, and `target` its location for
        the witness.
    requested, trials : int
        Requested number of runs, and number of runs made, both datasets together.
    pair, event : Pair, Event
        The audited pair and the tested event; None if the audit ended before the test.
    pairs : tuple of PairScore
        Candidate pairs with the scores of the pilot.
    notes : tuple of str
        Remarks for the reader.
    seconds, cpu_seconds : float
        Duration, and CPU time of this process and all workers, in seconds. The CPU time is 0 if it
        is unknown: on systems without /proc, and for workers that this process has not started.
    trace : TraceEvidence or None
        Evidence of a few traced runs: the noise, by how much its input moves, and the loss to which
        the calls compose. A loss above the claim makes a verdict that would be NOT_REFUTED
        INCONCLUSIVE.
    causes : tuple of Cause
        Separate verdicts on exceptions, repeated values and all other outputs, if exceptions or
        repeated values suffice to violate the claim. All these statements together hold with the
        audit's confidence, separately from the verdict.
    guessed : str
        Guess of a scan about claim, relation or domain; empty for a stated claim.
    tally, stages, basis, alpha, looks, method, scores, unstored
        Counts and records from which witness and report are computed.
    """

    kind: ClassVar[str] = "black box"
    headline_is_note: ClassVar[tuple[Verdict, ...]] = (Verdict.ERROR, Verdict.INCONCLUSIVE)

    trials: int  # runs of the mechanism in all phases
    requested: int
    epsilon_lower: float = 0.0
    parameter_lower: float = 0.0
    p_value: float = 1.0
    detectable: float = math.inf
    pair: Pair | None = None
    event: Event | None = None
    tally: Tally | None = None
    # counts of all events, if several were tested in turn; the last is `tally`
    stages: tuple[Part, ...] = ()
    # error of the last interim look at the tally, after the correction for looks and pairs
    alpha: float = 0.0
    # counts that certified the bounds, at the interim look that certified most
    basis: Basis | None = None
    method: str = ""
    # runs made before each interim look, and the bound certified by then
    looks: tuple[tuple[int, float], ...] = ()
    picture: EventHistogram | None = None
    exercised: bool | None = None
    bit_level: BitLevel | None = None
    pairs: tuple[PairScore, ...] = ()
    cpu_seconds: float = 0.0
    scores: tuple[Score, ...] = ()  # scores whose columns precede those of the outputs
    guessed: str = ""
    trace: TraceEvidence | None = None
    causes: tuple[Cause, ...] = ()
    unstored: str = ""  # why writing to the store failed, if it failed

    @property
    def evidence(self) -> str:
        """Return ``statistical`` for a verdict from counts; ``assumed`` if the verdict is
        INCONCLUSIVE because a trace contradicts the claim.
        """
        return (
            "assumed"
            if self.verdict is Verdict.INCONCLUSIVE
            and self.trace is not None
            and self.trace.contradicts
            else "statistical"
        )

    @property
    def limit(self) -> float | None:
        """Return the median bound that the best possible test certifies at this number of trials.

        None without a law of the privacy loss, or if its computation fails: the counts do not
        depend on it.
        """
        from dpwitness.auditors.density.limit import limit

        if self.pair is None or not hasattr(self.subject, "log_density"):
            return None
        try:
            return limit(self.subject, self.pair, self.claim, self.requested, self.confidence)
        except Exception:
            return None

    @property
    def point(self) -> CertifiedPoint | None:
        """Return the point under the pair's trade-off curve that the tally proves; None if there
        were no guesses.
        """
        tally = self.tally
        return (
            certified_point(tally, self.alpha)
            if tally and tally.correct + tally.wrong and self.alpha > 0
            else None
        )

    def _witness_fields(self) -> Json | None:
        """Return pair, event and counts of a claim that is violated, or SUSPECT, at the level of
        values or of bits.
        """
        level = self.bit_level
        if self.verdict in REFUTED and self.basis is not None:
            counts, text = self.basis.counts(), str(self.description)
            # an earlier look may have certified more than the last; a replay makes all rounds
            parts = self.stages or ((Part(self.tally),) if self.tally else ())
            tested, certified = (
                sum(part.tally.rounds for part in each) for each in (parts, self.basis.parts)
            )
            more = {"tested": tested} if certified < tested else {}
            bound = self.parameter_lower
            return self._witness_of("value", self.pair, self.event, bound, text, counts | more)
        if level is not None and level.verdict in REFUTED and level.event and level.tally:
            counts, text = level.basis(self.confidence).counts(), level.event.describe()
            return self._witness_of(
                "bit", level.pair, level.event, level.epsilon_lower, text, counts
            )
        return None

    def _witness_of(
        self,
        level: str,
        pair: Pair | None,
        event: Event | None,
        bound: float,
        description: str,
        counts: Json,
    ) -> Json | None:
        """Return the fields of a witness at a level; None if its pair cannot be written."""
        if pair is None or not pair.writable or event is None:
            return None
        return self._claim_witness(pair, bound) | {
            "level": level,
            "event": event.to_json(),
            "description": description,
            "counts": counts,
            "trials": self.requested,
            **({"scores": [score.to_json() for score in self.scores]} if self.scores else {}),
        }

    @property
    def description(self) -> str | None:
        """Return a one-line description of the event, with the meaning of its score columns."""
        if self.event is None:
            return None
        labels = [label for score in self.scores for label in score.labels]
        score_columns = "; ".join(
            f"output {i} is the score {label}" for i, label in enumerate(labels)
        )
        return self.event.describe() + (
            f" ({score_columns}; the output's own numbers follow)" if labels else ""
        )

    def headline(self) -> str:
        """Return the verdict, the bound and the confidence in one line."""
        first = self.notes[0] if self.notes else ""
        return headline_of(
            self.claim, self.verdict, self.parameter_lower, self.confidence, self.detectable, first
        )

    def _fields(self) -> Json:
        fields = {
            **self._claim_fields(self.pair),
            "confidence": self.confidence,
            "epsilon_lower": strict(self.epsilon_lower),
            "parameter": self.claim.symbol,
            "parameter_lower": strict(self.parameter_lower),
            "p_value": self.p_value,
            "limit": strict(self.limit),
            "detectable": strict(self.detectable),
            "exercised": self.exercised,
            "pair": _json(self.pair),
            "event": _json(self.event),
            "description": self.description,
            "method": self.method,
            "tally": asdict(self.tally) if self.tally else None,
            "stages": [part.to_json() for part in self.stages],
            "alpha": self.alpha,
            "looks": [[runs, strict(lower)] for runs, lower in self.looks],
            "picture": _json(self.picture),
            "certified_point": asdict(self.point) if self.point else None,
            "bit_level": _json(self.bit_level),
            "pairs": [
                {
                    "why": score.pair.why,
                    "expected": strict(score.expected),
                    "confirmed": score.confirmed,
                }
                for score in self.pairs
            ],
            "trials": self.trials,
            "requested": self.requested,
        }
        optional = {
            "basis": _json(self.basis),
            "guessed": self.guessed,
            "cpu_seconds": round(self.cpu_seconds, 3),
            "trace": _json(self.trace),
            "causes": [cause.to_json() for cause in self.causes],
            "scores": [score.to_json() for score in self.scores],
        }
        return fields | {key: value for key, value in optional.items() if value}

    def lines(self, data: Json, *, bits: bool = False) -> list[tuple[str, str]]:
        symbol = self.claim.symbol
        relation = f", relation {self.pair.relation}" if self.pair else ""
        rows = [("audited", f"{self.name}, claim {self.claim}{relation}")]
        if self.pair is not None:
            limit = data.get("limit")
            median_text = (
                f"; the median of the best test of this size is {figure(limit)}"
                if isinstance(limit, float)
                else ""
            )
            confidence_text = (
                f"confidence {self.confidence:.12g}, p-value {self.p_value:.2g}, "
                f"{self.trials:,} runs, seed {self.seed}"
            )
            rows += [
                ("certified", f"{symbol} > {figure(self.parameter_lower)}{median_text}"),
                (
                    "detectable",
                    f"a violation of {figure(self.detectable)} or more, of the same shape, would "
                    "have been found 9 times in 10"
                    if math.isfinite(self.detectable)
                    else "too few runs to detect any violation: raise --trials",
                ),
                ("how sure", confidence_text),
                pair_line(data["pair"]),
            ]
        if self.event is not None:
            rows.append(("event", describe_event_in_words(str(self.description))))
        if data.get("causes"):
            rows.append(("causes", describe_causes(data)))
        rows += [("trace", line) for line in explanations(data)]
        if self.bit_level is not None:
            rows.append(("rounding", self.bit_level.describe(counts=bits)))
        times = format_times(self.seconds, self.cpu_seconds)
        return [*rows, ("time", times)] if self.seconds else rows


def headline_of(
    claim: Claim, verdict: Verdict, lower: float, confidence: float, detectable: float, note: str
) -> str:
    """Return the headline of an audit from its numbers; `note` is the first of its notes."""
    symbol, confidence_text = claim.symbol, f"confidence {confidence:.12g}"
    bound = f"no finite {symbol} holds" if math.isinf(lower) else f"{symbol} > {lower:.4g}"
    if verdict is Verdict.VIOLATED:
        comma = "," if math.isinf(lower) else ""
        return f"VIOLATED: {bound}{comma} certified against the claim {claim} ({confidence_text})"
    if verdict is Verdict.SUSPECT:
        return (
            f"SUSPECT: {bound} certified; the claim {claim} is violated if it is what the "
            f"library promises ({confidence_text})"
        )
    if verdict is Verdict.NOT_REFUTED:
        found = (
            f"; a violation of {detectable:.4g} or more, of the same shape, would have been "
            "found 9 times in 10"
            if math.isfinite(detectable)
            else ""
        )
        return (
            f"NOT REFUTED: no violation of {claim} found; {symbol} > {lower:.4g} certified "
            f"({confidence_text}){found}"
        )
    return f"{verdict.value}: {note or 'no verdict'}"


def audit_outputs(
    outputs0: Any,
    outputs1: Any,
    claim: Claim | str,
    *,
    confidence: float = 0.99,
    seed: int = 0,
    name: str = "given outputs",
) -> AuditResult:
    """Audit two batches of outputs of independent runs, one batch on each of two neighboring
    datasets.

    The event is chosen on one half of each batch, drawn by `seed`, and certified on the other half.
    There a coin is flipped for every round, as if the mechanism were run. The few rows that the
    coins do not select are not used (`split_batches`).

    Parameters
    ----------
    outputs0, outputs1 : array or list
        Outputs on D0 and on D1, one per run, of any kind, as for `audit`: at least 1,000 each. The
        longer batch is truncated.
    claim : Claim or str
        The claim to test.
    confidence : float
        The probability of a false VIOLATED is at most 1 - confidence.
    seed : int
        Seed of the halves and the coins.
    name : str
        Name of the audit in the report.

    Returns
    -------
    AuditResult
        Without a pair and without a witness, because there is nothing to run again. ERROR if nearby
        rows are correlated, or outputs are repeated. Other dependence does not show in outputs, so
        independence is an assumption.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> audit_outputs(rng.laplace(0.0, 0.5, 50_000), rng.laplace(1.0, 0.5, 50_000),
    ...     "pure:1").verdict
    <Verdict.VIOLATED: 'VIOLATED'>
    """
    started = time.perf_counter()
    claim, more = resolved(promised(None, claim, "audit_outputs"), None)
    require_probability("confidence", confidence, "audit_outputs")
    require_type("name", name, str, "be a text", "audit_outputs")
    seed, alpha = require_integer("seed", seed, "audit_outputs", least=0), 1 - confidence
    batches = [_encode_batch("outputs0", outputs0), _encode_batch("outputs1", outputs1)]
    runs = min(map(len, batches))
    result = AuditResult(
        name=name,
        claim=claim,
        verdict=Verdict.ERROR,
        confidence=confidence,
        seed=seed,
        trials=2 * runs,
        requested=2 * runs,
    )
    try:
        for raw, where in ((outputs0, "outputs0"), (outputs1, "outputs1")):
            if all(isinstance(item, Exception) for item in raw) and is_environment_fault(raw[0]):
                raise environment_failure(where, error_text(raw[0]))
        check_training([(batches[1], batches[0])])
    except MechanismFailed as error:
        return replace(result, notes=(str(error),))
    # the event is learned on one half of each batch, and counted on the other
    rng = stream(seed, audit_key(name))
    half, orders = runs // 2, [rng.permutation(len(batch))[:runs] for batch in batches]
    train0, train1 = (
        batch.take(order[:half]) for batch, order in zip(batches, orders, strict=True)
    )
    rounds, ones, zeros = split_batches(runs - half, rng)
    learned = learn(train1, train0, claim, alpha=alpha, rounds=rounds)
    wrong0, right0 = learned.event.count(batches[0].take(orders[0][half : half + zeros]))
    right1, wrong1 = learned.event.count(batches[1].take(orders[1][half : half + ones]))
    tally = Tally(right1 + right0, wrong1 + wrong0, rounds, learned.event.directions)
    try:
        check_rows((batches[1], batches[0]), learned.event)
    except MechanismFailed as error:
        return replace(result, notes=(str(error),))
    basis = Basis(alpha, (Part(tally),))
    lower, epsilon = basis.bounds(claim, learned.event)
    unaudited = [*opaque_type_notes(*batches), *unrepeated_text_notes(train1, train0)]
    refuted, comparison = lower > claim.parameter, OutputComparison().with_batch(train1, train0)
    moved, idle = (True, "") if refuted else exercised(claim, basis.parts, comparison, 1)
    unrefuted = Verdict.INCONCLUSIVE if unaudited or moved is False else Verdict.NOT_REFUTED
    return replace(
        result,
        verdict=Verdict.VIOLATED if refuted else unrefuted,
        exercised=moved,
        epsilon_lower=epsilon,
        parameter_lower=lower,
        p_value=basis.p_value(claim, alpha),
        detectable=detectable(claim, learned.law, tally.rounds, alpha),
        event=learned.event,
        tally=tally,
        alpha=alpha,
        basis=basis,
        method=learned.method,
        notes=(
            *unaudited,
            *([idle] if idle else []),
            *more,
            "outputs were given and no mechanism was run: neighboring datasets and "
            "independent outputs are assumed; of dependence, only "
            "that of nearby rows and repeated outputs would show",
        ),
        seconds=time.perf_counter() - started,
    )


def _encode_batch(name: str, raw: Any) -> Outputs:
    """Return the encoded outputs of one argument; raise InvalidArgument if there are fewer than
    1,000.
    """
    try:
        size = len(raw)
        outputs = encode(raw, size) if size else None
    except Exception as error:  # any object may be given, with any exception
        raise InvalidArgument(
            f"audit_outputs: {name} must be an array or a list with one output per run: "
            f"{error_text(error)}"
        ) from None
    if outputs is None or size < 1000:
        raise InvalidArgument(f"audit_outputs: {name} must hold at least 1000 outputs, got {size}")
    return outputs
