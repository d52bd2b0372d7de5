"""Witnesses of sensitivity and utility audits: what moved too far, or erred too much, and how to see it again."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpwitness.auditors.result import SCHEMA, Verdict, environment, strict
from dpwitness.auditors.sensitivity import Norm, SensitivityResult, sensitivity_at
from dpwitness.auditors.targets import describe_target, source_of
from dpwitness.auditors.trust import Trust
from dpwitness.auditors.utility import Scaling, UtilityClaim, UtilityResult, audit_utility
from dpwitness.auditors.witness_reading import read_pair, seal
from dpwitness.mechanisms.jsonable import from_jsonable, to_jsonable
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.reading import refuse
from dpwitness.mechanisms.validation import InvalidArgument

__all__ = ["Measured", "judged", "measured_witness", "read_measured"]

_MATH: dict[str, Callable[..., float]] = {
    f"math:{name}": getattr(math, name) for name in ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "cbrt", "fabs", "dist")
}


def measured_witness(result: SensitivityResult | UtilityResult) -> dict[str, Any] | None:
    """The witness of a violated bound; None if there is none, or if its norm or transform cannot be named."""
    if result.verdict is not Verdict.VIOLATED:
        return None
    found: dict[str, Any] = {
        "schema_version": SCHEMA,
        "name": result.name,
        "target": _named(result.function),
        "seed": result.seed,
        "versions": environment(),
    }
    if isinstance(result, SensitivityResult):
        norm = _named(result.norm_used) if callable(result.norm_used) else str(result.norm_used)
        if norm is None or result.pair is None:
            return None
        more = {"kind": "sensitivity", "bound": result.bound, "norm": norm, "pair": result.pair.to_json(), "ratio": result.ratio_lower}
    else:
        claim, transform = result.claim, None
        if isinstance(claim, Scaling) and claim.transform is not None:
            transform, claim = _named(claim.transform), replace(claim, transform=None)
            if transform is None:
                return None
        numbers = {"runs": result.runs, "confidence": result.confidence, "estimate": strict(result.estimate)}
        more = {"kind": "utility", "claim": to_jsonable(claim), "transform": transform, **numbers}
    source = source_of(result.function, found["target"])
    return seal(found | more | ({"source": source} if source else {}))


def _named(function: Callable[..., Any] | None) -> dict[str, Any] | None:
    """Where to find a function again; None for a method, a lambda, or one defined within another."""
    return None if function is None or inspect.ismethod(function) else describe_target(function)


@dataclass(frozen=True, slots=True)
class Measured:
    """A witness of a measured bound, read back: its pair and norm, or its claim."""

    raw: dict[str, Any]
    pair: Pair | None
    norm: Norm
    claim: UtilityClaim | None


def read_measured(raw: dict[str, Any], trust: Trust) -> Measured:
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


def _rule(target: dict[str, Any], what: str, trust: Trust) -> Callable[..., Any]:
    """A norm or a transform: one of the plain functions of `math`, or a target that may run."""
    plain = _MATH.get(target["target"])
    found = plain if plain is not None and not target.get("kwargs") else trust.plan(target, what).load()
    if not callable(found):
        refuse(what, "name a function", target["target"])
    return found


def judged(measured: Measured, function: Callable[..., Any], seed: int | None, name: str) -> SensitivityResult | UtilityResult:
    """Evaluate the pair again, or measure the error again with fresh randomness."""
    if not callable(function):
        raise InvalidArgument(f"replay: target must be a function, got {type(function).__name__}")
    raw = measured.raw
    try:
        if measured.pair is not None:
            return sensitivity_at(function, raw["bound"], measured.pair, measured.norm, name=name)
        assert measured.claim is not None
        seed = raw["seed"] + 1 if seed is None else seed
        return audit_utility(function, measured.claim, runs=raw["runs"], confidence=raw["confidence"], seed=seed, name=name)
    except InvalidArgument:
        raise
    except Exception as error:  # the user's function, on what the file holds
        raise InvalidArgument(f"replay: {name} could not be evaluated: {type(error).__name__}: {str(error)[:300]}") from error
