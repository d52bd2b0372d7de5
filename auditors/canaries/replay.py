"""Recomputation of canary bounds from the counts in a witness or in a result's JSON document.

No training and no mechanism is run.
"""

from __future__ import annotations

import math

from dpwitness.auditors.canaries.audit import ASSUMED, refuted_parameter
from dpwitness.auditors.canaries.bounds import certified_epsilon
from dpwitness.auditors.results.canary_result import CanaryResult, GuessTest
from dpwitness.auditors.results.recompute import RecomputedBounds, require_allowed_error, require_stated_value, require_verdict
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.core.json_reader import Json, refuse
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.privacy import exact_claim

_RELATIVE_TOLERANCE = 1e-3  # allowed between a stated and a computed bound: limits of curves are bisected to 1e-4

LEAST = 0.95  # smallest default confidence; the default of `audit_canaries`


def recompute_witness(raw: Json, confidence: float | None = None) -> CanaryResult:
    """Return the result that the counts of a checked witness certify.

    `confidence` defaults to the recorded confidence, but at least `LEAST`: the author of the file chose the recorded value.
    Raises InvalidArgument if the counts contradict each other.
    """
    claim, counts = exact_claim(raw["claim"], raw["claim_numbers"]).for_canaries("witness"), raw["counts"]
    size, guesses, right, alpha, delta = (*(counts[key] for key in ("canaries", "guesses", "right")), raw["alpha"], raw["delta"])
    for path, least, most in (
        ("counts.guesses", right, guesses),
        ("counts.canaries", guesses, size),
        ("counts.included", counts["included"], size),
    ):
        if least > most:
            refuse(
                path, f"be at {'most ' + str(size) if path.endswith('included') else 'least ' + str(least)}", counts[path.partition(".")[2]]
            )
    if alpha > (1 - raw["confidence"]) * (1 + 1e-9):
        refuse("alpha", f"be at most 1 - confidence, {1 - raw['confidence']:g}", alpha)
    lower = refuted_parameter(raw["method"], claim, right, guesses, size, delta, alpha, fixed=raw["fixed"])
    if not math.isclose(lower, float(raw["bound"]), rel_tol=1e-3):
        refuse("bound", f"be what the counts certify, {lower:.9g}", raw["bound"])
    confidence = max(raw["confidence"], LEAST) if confidence is None else confidence
    if confidence != raw["confidence"]:  # keep each tested bound's share of the error
        alpha *= (1 - confidence) / (1 - raw["confidence"])
        lower = refuted_parameter(raw["method"], claim, right, guesses, size, delta, alpha, fixed=raw["fixed"])
    return CanaryResult(
        name=raw["name"],
        claim=claim,
        verdict=Verdict.VIOLATED if lower > claim.parameter else Verdict.NOT_REFUTED,
        confidence=confidence,
        seed=raw["seed"],
        method=raw["method"],
        fixed=raw["fixed"],
        canaries=size,
        included=counts["included"],
        runs=counts["runs"],
        delta=delta,
        guesses=guesses,
        right=right,
        alpha=alpha,
        parameter_lower=lower,
        epsilon_lower=certified_epsilon(claim, lower, delta),
        p_value=math.nan,
        tested=(GuessTest(guesses, right, alpha, lower),),
        notes=(ASSUMED,),
    )


def recompute_canaries(document: Json) -> RecomputedBounds:
    """Recompute the bounds and the verdict of a canary result from the counts in the result's JSON document.

    Raises
    ------
    InvalidArgument
        If a stated bound or verdict contradicts the counts, or the counts cannot be read.
    """
    try:
        verdict = Verdict(document["verdict"])
        if "fixed" not in document:  # written by an earlier version, without the exact numbers of the claim
            return RecomputedBounds(verdict, {}, ("parameter_lower",))
        claim, size = exact_claim(document["claim"], document["claim_numbers"]).for_canaries("canaries"), int(document["canaries"])
        delta, fixed, tested = float(document["delta"]), bool(document["fixed"]), document["tested"]
        require_allowed_error(document, sum(float(each["alpha"]) for each in tested), 1 - float(document["confidence"]))
        largest_bound = 0.0
        for each in tested:
            right, guesses, alpha = int(each["right"]), int(each["guesses"]), float(each["alpha"])
            if not 0 <= right <= guesses <= size:
                raise InvalidArgument(f"canaries: counts must have right <= guesses <= canaries, got {right}, {guesses} and {size}")
            lower = refuted_parameter(document["method"], claim, right, guesses, size, delta, alpha, fixed=fixed)
            require_stated_value({"name": document["name"]} | each, "lower", lower, _RELATIVE_TOLERANCE)
            largest_bound = max(largest_bound, lower)
        require_stated_value(document, "parameter_lower", largest_bound, _RELATIVE_TOLERANCE)
        stated = float(document["parameter_lower"])
        require_stated_value(document, "epsilon_lower", certified_epsilon(claim, stated, delta), _RELATIVE_TOLERANCE)
        require_verdict(document, verdict, stated > claim.parameter, f"a bound of {stated:.6g} against {claim}")
    except InvalidArgument:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"result {document.get('name', '')!r} cannot be read: {error}") from None
    return RecomputedBounds(verdict, {"parameter_lower": largest_bound})
