"""Witnesses of sensitivity and utility audits: what moved too far, or erred too much, and how to see it again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpwitness.auditors.measured.sensitivity import Norm, SensitivityResult, sensitivity_at
from dpwitness.auditors.measured.utility import UtilityResult, audit_utility
from dpwitness.auditors.measured.utility_claims import Scaling, UtilityClaim
from dpwitness.auditors.results.witness_reading import read_pair
from dpwitness.auditors.targets.trust import Trust
from dpwitness.mechanisms.terms.jsonable import from_jsonable
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.reading import Json, refuse
from dpwitness.mechanisms.terms.validation import InvalidArgument

_MATH: dict[str, Callable[..., float]] = {
    f"math:{name}": getattr(math, name) for name in ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "cbrt", "fabs", "dist")
}


@dataclass(frozen=True, slots=True)
class Measured:
    """A witness of a measured bound, read back: its pair and norm, or its claim."""

    raw: Json
    pair: Pair | None
    norm: Norm
    claim: UtilityClaim | None


def read_measured(raw: Json, trust: Trust) -> Measured:
    """What a checked file says; its norm or transform is a target like any other."""
    if raw["kind"] == "sensitivity":
        if not float(raw["ratio"]) > 1:
            refuse("ratio", "exceed 1, as that of a violated bound does", raw["ratio"])
        told = raw["norm"]
        norm = _rule(told, "norm", trust) if isinstance(told, dict) else math.inf if told == "inf" else int(told)
        return Measured(raw, read_pair(raw["pair"], trust.class_of), norm, None)
    claim = from_jsonable(raw["claim"], "claim")
    if not isinstance(claim, UtilityClaim):
        refuse("claim", "be a claim about an error", raw["claim"])
    if raw["transform"] is not None:
        if not isinstance(claim, Scaling):
            refuse("transform", "be null: only a scaling claim has one", raw["transform"])
        claim = replace(claim, transform=_rule(raw["transform"], "transform", trust))
    return Measured(raw, None, 2, claim)


def _rule(target: Json, what: str, trust: Trust) -> Callable[..., Any]:
    """A norm or a transform: one of the plain functions of `math`, or a target that may run."""
    plain = _MATH.get(target["target"])
    found = plain if plain is not None and not target.get("kwargs") else trust.plan(target, what).load()
    if not callable(found):
        refuse(what, "name a function", target["target"])
    return found


def judged(measured: Measured, function: Callable[..., Any], confidence: float, seed: int, name: str) -> SensitivityResult | UtilityResult:
    """Evaluate the pair again, or measure the error again under `seed`."""
    if not callable(function):
        raise InvalidArgument(f"replay: target must be a function, got {type(function).__name__}")
    raw = measured.raw
    try:
        if measured.pair is not None:
            return sensitivity_at(function, raw["bound"], measured.pair, measured.norm, name=name)
        assert measured.claim is not None
        return audit_utility(function, measured.claim, runs=raw["runs"], confidence=confidence, seed=seed, name=name)
    except InvalidArgument:
        raise
    except Exception as error:  # the user's function, on what the file holds
        raise InvalidArgument(f"replay: {name} could not be evaluated: {type(error).__name__}: {str(error)[:300]}") from error
