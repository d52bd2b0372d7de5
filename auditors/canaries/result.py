"""Result of a canary audit, and the kind of its audits: facts of cards, and bounds recomputed from
the counts in a written result or a witness. No training and no mechanism is run for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from dpwitness.auditors.canaries.bounds import Theorem, certified_epsilon
from dpwitness.auditors.witnesses.kinds import (
    Fact,
    Facts,
    Kind,
    Recomputed,
    require_allowed_error,
    require_field,
    require_stated_value,
    require_verdict,
    run_facts,
)
from dpwitness.auditors.witnesses.replay import Replay, RunOptions
from dpwitness.auditors.witnesses.result import ClaimResult
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.witnesses.witness_reader import BOUND, CONFIDENCE
from dpwitness.core.claims import exact_claim
from dpwitness.core.values.json_reader import (
    Json,
    boolean,
    integer,
    listing,
    number,
    one_of,
    record,
    refuse,
    text,
)
from dpwitness.core.values.validation import require_that
from dpwitness.core.values.wording import count, figure
from dpwitness.core.values.wording import number as as_number

ASSUMED = (
    "assumed: each canary was included by a fair coin, independent of all other coins and of "
    "the training's randomness, and scores depend "
    "on the coins only through the released output"
)


@dataclass(frozen=True, slots=True)
class GuessTest:
    """Number of guesses and of right guesses, the error `alpha` of their test, and the parameter
    that they refute.
    """

    guesses: int
    right: int
    alpha: float
    lower: float


@dataclass(frozen=True, slots=True)
class CanaryPicture:
    """Histograms of the canaries' scores."""

    edges: tuple[float, ...]  # edges of the histogram's cells
    included: tuple[int, ...]  # counts of canaries in the training set
    left_out: tuple[int, ...]
    guessed_in: tuple[int, ...]  # counts of canaries guessed to be in the training set
    guessed_out: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class CanaryResult(ClaimResult):
    """Result of an audit of private training by canaries.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED where the claim is refuted at the confidence, else NOT_REFUTED.
    parameter_lower : float
        Certified lower bound on the claim's own parameter: epsilon, mu, or the parameter of the
        curve.
    epsilon_lower : float
        The same bound as an epsilon at `delta`. For the claim of a curve, this is the epsilon of
        that curve and says nothing about other curves.
    gaussian_lower : float
        Epsilon at `delta` of the largest Gaussian curve that is refuted, at the same confidence
        and without sharing the error with other tests. Useful where the noise is known to be
        Gaussian. NaN where delta is 0.
    detectable : float
        Smallest epsilon at `delta` of Gaussian noise on isolated canaries that would have been
        refuted with probability 0.9. Where delta is 0, the noise is randomized response.
    p_value : float
        Smallest error at which the claim is refuted, corrected for the choice of the number of
        guesses.
    guesses, right : int
        Number of guesses that certify the bound, and how many of them are right.
    tested : tuple of GuessTest
        All numbers of guesses that share the error.
    canaries, runs : int
        Number of canaries in all runs together, and number of runs.
    method : str
        ``counting`` or ``curve``.
    fixed : bool
        Whether the numbers of guesses were fixed before the scores were seen.
    claim, delta, confidence, seed, name, target, subject
        Arguments of `dpwitness.audit_canaries`.
    included : int
        Number of canaries in the training data, in all runs together.
    alpha : float
        Error of the test that certifies the bound, after the correction for all tests.
    picture : CanaryPicture or None
        Histograms of the scores, an illustration that certifies nothing.
    notes : tuple of str
        Remarks for the reader.
    seconds : float
        Duration, in seconds.
    """

    kind: ClassVar[str] = "canaries"

    method: str
    fixed: bool
    canaries: int
    included: int
    runs: int
    delta: float
    guesses: int
    right: int
    alpha: float
    parameter_lower: float
    epsilon_lower: float
    p_value: float
    gaussian_lower: float = math.nan
    detectable: float = math.inf
    tested: tuple[GuessTest, ...] = ()
    picture: CanaryPicture | None = None

    @property
    def evidence(self) -> str:
        """Return ``statistical``: the verdict rests on counts and a theorem for independent fair
        coins.
        """
        return "statistical"

    @property
    def advice(self) -> str:
        """What to do next, if the claim is not refuted."""
        return (
            "no change is needed on this evidence; more canaries or runs find smaller violations: "
            "dpwitness plan --canaries M --runs R"
        )

    @property
    def replay_advice(self) -> str:
        """What to do after the bound was recomputed from the counts of a witness."""
        if self.verdict is not Verdict.VIOLATED:
            return "the counts do not refute this claim"
        return (
            "the bound follows from the counts of the file; nothing was run: audit the canaries "
            "again to confirm the counts"
        )

    def _witness_fields(self) -> Json | None:
        """Return the counts, from which a replay recomputes the bound; None unless the claim is
        violated.
        """
        if self.verdict is not Verdict.VIOLATED:
            return None
        return {
            "claim": str(self.claim),
            "claim_numbers": list(self.claim.numbers),
            "method": self.method,
            "fixed": self.fixed,
            "delta": self.delta,
            "counts": {
                "canaries": self.canaries,
                "included": self.included,
                "runs": self.runs,
                "guesses": self.guesses,
                "right": self.right,
            },
            "alpha": self.alpha,
            "bound": strict(self.parameter_lower),
            "confidence": self.confidence,
        }

    def headline(self) -> str:
        """Return the verdict, the bound, the confidence and the counts in one line."""
        bound = f"{self.claim.symbol} > {self.parameter_lower:.4g}"
        if self.claim.symbol != "epsilon":
            bound += f" (epsilon > {self.epsilon_lower:.4g} at delta = {self.delta:g})"
        of = (
            f"(confidence {self.confidence:.12g}; {self.right} of {self.guesses} guesses right, "
            f"{self.canaries:,} canaries, {self.runs} run{'s' if self.runs > 1 else ''})"
        )
        if self.verdict is Verdict.VIOLATED:
            return f"VIOLATED: {bound} certified against the claim {self.claim} {of}"
        law = "Gaussian noise" if self.delta else "randomized response"
        found = (
            f"with this few canaries, no epsilon of {law} would be found with probability 0.9"
            if math.isinf(self.detectable)
            else f"{law} of epsilon = {self.detectable:.4g} on isolated canaries would have been "
            "found with probability 0.9"
        )
        return f"NOT REFUTED: no violation of {self.claim} found; {bound} certified {of}; {found}"

    def _fields(self) -> Json:
        return {
            **self._claim_fields(None),
            "confidence": self.confidence,
            "method": self.method,
            "fixed": self.fixed,
            "parameter": self.claim.symbol,
            "parameter_lower": strict(self.parameter_lower),
            "epsilon_lower": strict(self.epsilon_lower),
            "delta": self.delta,
            "gaussian_lower": strict(self.gaussian_lower),
            "p_value": self.p_value,
            "detectable": strict(self.detectable),
            "canaries": self.canaries,
            "included": self.included,
            "runs": self.runs,
            "guesses": self.guesses,
            "guessed_right": self.right,
            "alpha": self.alpha,
            "tested": [strict(asdict(each)) for each in self.tested],
            "picture": strict(asdict(self.picture)) if self.picture else None,
        }


def result_of_counts(theorem: Theorem, tested: Sequence[GuessTest], **fields: Any) -> CanaryResult:
    """Return the result of the tested counts, with further fields of CanaryResult."""
    best = best_of(tested)
    return CanaryResult(
        claim=theorem.claim,
        verdict=Verdict.VIOLATED if best.lower > theorem.claim.parameter else Verdict.NOT_REFUTED,
        method=theorem.method,
        fixed=theorem.fixed,
        canaries=theorem.canaries,
        delta=theorem.delta,
        guesses=best.guesses,
        right=best.right,
        alpha=best.alpha,
        parameter_lower=best.lower,
        epsilon_lower=certified_epsilon(theorem.claim, best.lower, theorem.delta),
        tested=tuple(tested),
        **fields,
    )


def best_of(tested: Sequence[GuessTest]) -> GuessTest:
    """Return the counts that refute the largest parameter."""
    return max(tested, key=lambda counts: (counts.lower, counts.alpha))


# allowed between a stated and a computed bound: limits of curves are bisected to 1e-4
_RELATIVE_TOLERANCE = 1e-3


def _facts(result: Json) -> Facts:
    symbol, at = result.get("parameter", "epsilon"), f"at delta = {figure(result.get('delta'))}"
    gaussian = result.get("gaussian_lower")
    right = as_number(result.get("guessed_right")) or 0.0
    guesses = as_number(result.get("guesses")) or 1.0
    chosen = (
        "fixed before the scores were seen"
        if result.get("fixed")
        else "chosen from the scores and the revealed coins"
    )
    epsilon = f"epsilon > {figure(result.get('epsilon_lower'), 6)} {at}"
    return [
        Fact("claim", str(result.get("claim") or ""), code=True),
        Fact("certified", f"{symbol} > {figure(result.get('parameter_lower'), 6)}"),
        Fact("as an epsilon", epsilon if symbol != "epsilon" else ""),
        Fact(
            "if the curve is Gaussian",
            f"epsilon > {figure(gaussian, 6)} {at}" if gaussian not in (None, "nan") else "",
        ),
        Fact(
            "how sure",
            f"confidence {figure(result.get('confidence'), 12)}; p-value "
            f"{figure(result.get('p_value'), 3)}",
        ),
        Fact(
            "guesses", f"{count(right)} of {count(guesses)} right ({right / guesses:.1%}); {chosen}"
        ),
        Fact("theorem", result.get("method", "")),
        Fact(
            "would have been found",
            f"epsilon = {figure(result.get('detectable'))} {at}, with probability 0.9, isolated "
            "canaries",
        ),
        Fact(
            "budget",
            f"{count(result.get('canaries'))} canaries, {count(result.get('included'))} included; "
            f"runs: {count(result.get('runs'))}",
        ),
        *run_facts(result),
    ]


def _recompute(document: Json) -> Recomputed:
    """Recompute the bounds and the verdict of a result from its counts."""
    if document.get("evidence") is not None:
        require_field(document, "evidence", "statistical", document["evidence"])
    if "tested" not in document or "fixed" not in document:
        return Recomputed()
    claim = exact_claim(document["claim"], document["claim_numbers"]).for_canaries("canaries")
    size, delta, tested = int(document["canaries"]), float(document["delta"]), document["tested"]
    theorem = Theorem(document["method"], claim, size, delta, bool(document["fixed"]))
    require_allowed_error(
        document, sum(float(each["alpha"]) for each in tested), 1 - float(document["confidence"])
    )
    largest_bound = 0.0
    for each in tested:
        right, guesses = int(each["right"]), int(each["guesses"])
        require_that(
            0 <= right <= guesses <= size,
            f"counts must have right <= guesses <= canaries, got {right}, {guesses} and {size}",
            "canaries",
        )
        lower = theorem.refuted(right, guesses, float(each["alpha"]))
        require_stated_value({"name": document["name"]} | each, "lower", lower, _RELATIVE_TOLERANCE)
        largest_bound = max(largest_bound, lower)
    stated = float(document["parameter_lower"])
    for key, value in (
        ("parameter_lower", largest_bound),
        ("epsilon_lower", certified_epsilon(claim, stated, delta)),
    ):
        require_stated_value(document, key, value, _RELATIVE_TOLERANCE)
    require_verdict(
        document,
        Verdict(document["verdict"]),
        stated > claim.parameter,
        f"a bound of {stated:.6g} against {claim}",
    )
    return Recomputed(True, {"parameter_lower": largest_bound})


def _replay(case: Replay, mechanism: Any, options: RunOptions) -> tuple[Any, str, tuple[str, ...]]:
    """Recompute the bound from the counts in the file, at the confidence of `options`. Raise
    InvalidArgument if the counts contradict each other.
    """
    raw, confidence = case.raw, options.confidence
    with case.naming():
        claim = exact_claim(raw["claim"], raw["claim_numbers"]).for_canaries("witness")
        counts, alpha, delta = raw["counts"], raw["alpha"], raw["delta"]
        size, guesses, right = (counts[key] for key in ("canaries", "guesses", "right"))
        for key, most in (("right", guesses), ("guesses", size), ("included", size)):
            if counts[key] > most:
                refuse(f"counts.{key}", f"be at most {most}", counts[key])
        if alpha > (1 - raw["confidence"]) * (1 + 1e-9):
            refuse("alpha", f"be at most 1 - confidence, {1 - raw['confidence']:g}", alpha)
        theorem = Theorem(raw["method"], claim, size, delta, raw["fixed"])
        lower = theorem.refuted(right, guesses, alpha)
        if not math.isclose(lower, float(raw["bound"]), rel_tol=_RELATIVE_TOLERANCE):
            refuse("bound", f"be what the counts certify, {lower:.9g}", raw["bound"])
        if confidence != raw["confidence"]:  # keep each tested bound's share of the error
            alpha *= (1 - confidence) / (1 - raw["confidence"])
            lower = theorem.refuted(right, guesses, alpha)
        result = result_of_counts(
            theorem,
            [GuessTest(guesses, right, alpha, lower)],
            name=raw["name"],
            confidence=confidence,
            seed=raw["seed"],
            included=counts["included"],
            runs=counts["runs"],
            p_value=math.nan,
            notes=(ASSUMED,),
        )
    return (
        result,
        "replay of a canary witness: its bound, recomputed from the counts in the file; nothing "
        "was run",
        (),
    )


KIND = Kind(
    name="canaries",
    facts=_facts,
    advice={
        Verdict.VIOLATED.value: (
            "the training leaks more than claimed, if inclusion was as assumed below: check "
            "sampling, clipping, noise and accounting; the witness holds the counts."
        ),
        Verdict.NOT_REFUTED.value: (
            "no change is needed on this evidence, which does not prove the claim: one run "
            "certifies a part of epsilon. `dpwitness plan --canaries` says which part; more "
            "canaries or runs find smaller violations."
        ),
    },
    recompute=_recompute,
    witness=(
        {},
        {
            "claim": text(200),
            "claim_numbers": listing(number(), 1, 200_000),
            "method": one_of("counting", "curve"),
            "fixed": boolean,
            "delta": number(lambda v: 0 <= v < 1, "a number in [0, 1)"),
            "counts": record(
                canaries=integer(1, 10**9),
                included=integer(),
                runs=integer(1, 10**6),
                guesses=integer(1, 10**9),
                right=integer(),
            ),
            "alpha": CONFIDENCE,
            "bound": BOUND,
            "confidence": CONFIDENCE,
        },
    ),
    replay=_replay,
    again="from its counts",
    runs=False,
    least_confidence=0.95,  # the default of `audit_canaries`
)
