"""Replaying a witness of canaries: the bound is computed from its counts once more. Nothing is trained or run."""

from __future__ import annotations

import math

from dpwitness.auditors.canaries.audit import ASSUMED, lower_of
from dpwitness.auditors.canaries.curves import epsilon_told, held
from dpwitness.auditors.results.canary_result import CanaryResult, Guessed
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.terms.notions import exact_claim
from dpwitness.mechanisms.terms.reading import Json, refuse

LEAST = 0.95  # confidence, unless the user asks for less; the default of `audit_canaries`


def certified_again(raw: Json, confidence: float | None = None) -> CanaryResult:
    """Return what the counts of a checked witness certify. Raise InvalidArgument if the counts contradict each other.

    `confidence` is by default the recorded one, at least `LEAST`: whoever wrote the file chose the recorded one.
    """
    claim, counts = held(exact_claim(raw["claim"], raw["claim_numbers"]), "witness"), raw["counts"]
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
    lower = lower_of(raw["method"], claim, right, guesses, size, delta, alpha, fixed=raw["fixed"])
    if not math.isclose(lower, float(raw["bound"]), rel_tol=1e-3):
        refuse("bound", f"be what the counts certify, {lower:.9g}", raw["bound"])
    confidence = max(raw["confidence"], LEAST) if confidence is None else confidence
    if confidence != raw["confidence"]:  # the same share of the error for each of the bounds that were tried
        alpha *= (1 - confidence) / (1 - raw["confidence"])
        lower = lower_of(raw["method"], claim, right, guesses, size, delta, alpha, fixed=raw["fixed"])
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
        epsilon_lower=epsilon_told(claim, lower, delta),
        p_value=math.nan,
        tested=(Guessed(guesses, right, alpha, lower),),
        notes=(ASSUMED,),
    )
