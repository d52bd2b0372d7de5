"""Recomputation of canary bounds from the counts in a witness or in a result's JSON document.

No training and no mechanism is run.
"""

from __future__ import annotations

import math

from dpwitness.auditors.canaries.audit import ASSUMED, result_of_counts
from dpwitness.auditors.canaries.bounds import Theorem, certified_epsilon
from dpwitness.auditors.witnesses.canary_result import CanaryResult, GuessTest
from dpwitness.auditors.witnesses.recompute import (
    RecomputedBounds,
    require_allowed_error,
    require_stated_value,
    require_verdict,
)
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.claims import exact_claim
from dpwitness.core.values.json_reader import Json, refuse
from dpwitness.core.values.validation import InvalidArgument

# allowed between a stated and a computed bound: limits of curves are bisected to 1e-4
_RELATIVE_TOLERANCE = 1e-3

LEAST = 0.95  # smallest default confidence; the default of `audit_canaries`


def recompute_witness(raw: Json, confidence: float | None = None) -> CanaryResult:
    """Return the result that the counts of a checked witness certify.

    `confidence` defaults to the recorded confidence, but at least `LEAST`: the author of the file
    chose the recorded value. Raises InvalidArgument if the counts contradict each other.
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
    if not math.isclose(lower, float(raw["bound"]), rel_tol=1e-3):
        refuse("bound", f"be what the counts certify, {lower:.9g}", raw["bound"])
    confidence = max(raw["confidence"], LEAST) if confidence is None else confidence
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


def recompute_canaries(document: Json) -> RecomputedBounds:
    """Recompute the bounds and the verdict of a canary result from the counts in the result's JSON
    document.

    Raises InvalidArgument if a stated bound or verdict contradicts the counts, or the counts cannot
    be read.
    """
    try:
        verdict = Verdict(document["verdict"])
        claim, size = (
            exact_claim(document["claim"], document["claim_numbers"]).for_canaries("canaries"),
            int(document["canaries"]),
        )
        delta, tested = float(document["delta"]), document["tested"]
        theorem = Theorem(document["method"], claim, size, delta, bool(document["fixed"]))
        require_allowed_error(
            document,
            sum(float(each["alpha"]) for each in tested),
            1 - float(document["confidence"]),
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
            require_stated_value(
                {"name": document["name"]} | each, "lower", lower, _RELATIVE_TOLERANCE
            )
            largest_bound = max(largest_bound, lower)
        require_stated_value(document, "parameter_lower", largest_bound, _RELATIVE_TOLERANCE)
        stated = float(document["parameter_lower"])
        require_stated_value(
            document, "epsilon_lower", certified_epsilon(claim, stated, delta), _RELATIVE_TOLERANCE
        )
        require_verdict(
            document, verdict, stated > claim.parameter, f"a bound of {stated:.6g} against {claim}"
        )
    except InvalidArgument:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"result {document.get('name', '')!r} cannot be read: {error}"
        ) from None
    return RecomputedBounds(verdict, {"parameter_lower": largest_bound})
