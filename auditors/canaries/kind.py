"""The kind of canary audits: facts of their cards, and bounds recomputed from the counts in a
written result or a witness. No training and no mechanism is run.
"""

from __future__ import annotations

import math
from typing import Any

from dpwitness.auditors.canaries.audit import ASSUMED, result_of_counts
from dpwitness.auditors.canaries.bounds import Theorem, certified_epsilon
from dpwitness.auditors.canaries.result import CanaryResult, GuessTest
from dpwitness.auditors.witnesses.facts import Fact, Facts, run_facts
from dpwitness.auditors.witnesses.kinds import Kind
from dpwitness.auditors.witnesses.recompute import (
    Recomputed,
    require_allowed_error,
    require_field,
    require_stated_value,
    require_verdict,
)
from dpwitness.auditors.witnesses.replay import Replay, RunOptions
from dpwitness.auditors.witnesses.verdicts import Verdict
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
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import count, figure
from dpwitness.core.values.wording import number as as_number

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
    verdict = Verdict(document["verdict"])
    claim, size = (
        exact_claim(document["claim"], document["claim_numbers"]).for_canaries("canaries"),
        int(document["canaries"]),
    )
    delta, tested = float(document["delta"]), document["tested"]
    theorem = Theorem(document["method"], claim, size, delta, bool(document["fixed"]))
    require_allowed_error(
        document, sum(float(each["alpha"]) for each in tested), 1 - float(document["confidence"])
    )
    largest_bound = 0.0
    for each in tested:
        right, guesses, alpha = int(each["right"]), int(each["guesses"]), float(each["alpha"])
        if not 0 <= right <= guesses <= size:
            raise InvalidArgument(
                f"canaries: counts must have right <= guesses <= canaries, got {right}, "
                f"{guesses} and {size}"
            )
        (lower,) = theorem.refuted([right], [guesses], alpha)
        require_stated_value({"name": document["name"]} | each, "lower", lower, _RELATIVE_TOLERANCE)
        largest_bound = max(largest_bound, lower)
    require_stated_value(document, "parameter_lower", largest_bound, _RELATIVE_TOLERANCE)
    stated = float(document["parameter_lower"])
    require_stated_value(
        document, "epsilon_lower", certified_epsilon(claim, stated, delta), _RELATIVE_TOLERANCE
    )
    require_verdict(
        document, verdict, stated > claim.parameter, f"a bound of {stated:.6g} against {claim}"
    )
    return Recomputed(True, {"parameter_lower": largest_bound})


def _result_of_witness(raw: Json, confidence: float) -> CanaryResult:
    """Return the result that the counts of a checked witness certify at a confidence. Raises
    InvalidArgument if the counts contradict each other.
    """
    claim, counts = (
        exact_claim(raw["claim"], raw["claim_numbers"]).for_canaries("witness"),
        raw["counts"],
    )
    size, guesses, right, alpha, delta = (
        *(counts[key] for key in ("canaries", "guesses", "right")),
        raw["alpha"],
        raw["delta"],
    )
    if right > guesses:
        refuse("counts.guesses", f"be at least {right}", guesses)
    if guesses > size:
        refuse("counts.canaries", f"be at least {guesses}", size)
    if counts["included"] > size:
        refuse("counts.included", f"be at most {size}", counts["included"])
    if alpha > (1 - raw["confidence"]) * (1 + 1e-9):
        refuse("alpha", f"be at most 1 - confidence, {1 - raw['confidence']:g}", alpha)
    theorem = Theorem(raw["method"], claim, size, delta, raw["fixed"])
    (lower,) = theorem.refuted([right], [guesses], alpha)
    if not math.isclose(lower, float(raw["bound"]), rel_tol=_RELATIVE_TOLERANCE):
        refuse("bound", f"be what the counts certify, {lower:.9g}", raw["bound"])
    if confidence != raw["confidence"]:  # keep each tested bound's share of the error
        alpha *= (1 - confidence) / (1 - raw["confidence"])
        (lower,) = theorem.refuted([right], [guesses], alpha)
    return result_of_counts(
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


def _replay(case: Replay, mechanism: Any, options: RunOptions) -> tuple[Any, str, tuple[str, ...]]:
    """Recompute the bound from the counts in the file."""
    with case.naming():
        result = _result_of_witness(case.raw, options.confidence)
    note = (
        "replay of a canary witness: its bound, recomputed from the counts in the file; nothing "
        "was run"
    )
    return result, note, ()


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
            "method": one_of("counting", "steinke", "curve"),
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
