"""Witnesses of sensitivity and utility audits: what moved too far, or erred too much, and how to see it again."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dpwitness.auditors.result import SCHEMA, Verdict, environment, strict
from dpwitness.auditors.sensitivity import SensitivityResult, sensitivity_at
from dpwitness.auditors.utility import Scaling, UtilityResult, audit_utility
from dpwitness.auditors.witness import describe_target, load_target
from dpwitness.mechanisms.jsonable import from_jsonable, to_jsonable
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.validation import InvalidArgument

__all__ = ["KINDS", "measured_witness", "replay_measured"]

KINDS = ("sensitivity", "utility")


def measured_witness(result: SensitivityResult | UtilityResult) -> dict[str, Any] | None:
    """The witness of a violated bound; None if there is none, or if its norm or transform cannot be named."""
    if result.verdict is not Verdict.VIOLATED:
        return None
    found = {
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
    return found | more


def _named(function: Callable[..., Any] | None) -> dict[str, Any] | None:
    """Where to find a function again; None for a method, a lambda, or one defined within another."""
    return None if function is None or inspect.ismethod(function) else describe_target(function)


def replay_measured(raw: dict[str, Any], function: Callable[..., Any] | None, seed: int | None) -> SensitivityResult | UtilityResult:
    """Evaluate the pair again, or measure the error again with fresh randomness."""
    try:
        if function is None:
            if raw["target"] is None:
                raise InvalidArgument("replay: mechanism must be given, the witness names no importable target")
            function = load_target(raw["target"]["target"], raw["target"].get("kwargs"))
        if raw["kind"] == "sensitivity":
            norm = raw["norm"]
            rule = load_target(norm["target"]) if isinstance(norm, dict) else math.inf if norm == "inf" else int(norm)
            pair = Pair(**{key: from_jsonable(value) for key, value in raw["pair"].items()})
            return sensitivity_at(function, raw["bound"], pair, rule, name=raw["name"])
        claim = from_jsonable(raw["claim"])
        if raw["transform"] is not None:
            claim = replace(claim, transform=load_target(raw["transform"]["target"]))
        seed = raw["seed"] + 1 if seed is None else seed
        return audit_utility(function, claim, runs=raw["runs"], confidence=raw["confidence"], seed=seed, name=raw["name"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument(f"replay: no complete witness: {type(error).__name__} {error}") from None
