"""Replay of witnesses whose inputs are run again: stability, accountants, metamorphic relations,
sensitivity and utility.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dpwitness.auditors.functions.accounting.audit import AccountantResult
from dpwitness.auditors.functions.bounds.sensitivity import SensitivityResult, sensitivity_at
from dpwitness.auditors.functions.bounds.utility import UtilityResult, audit_utility
from dpwitness.auditors.functions.bounds.utility_claims import Scaling, UtilityClaim
from dpwitness.auditors.functions.declared_targets import (
    replay_figure,
    replay_pair,
    replay_relation,
)
from dpwitness.auditors.functions.metamorphic.audit import MetamorphicResult
from dpwitness.auditors.functions.stability.result import StabilityResult
from dpwitness.auditors.witnesses.witness_reader import read_pair
from dpwitness.auditors.workers.trust import Trust
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import Json, refuse
from dpwitness.core.values.validation import InvalidArgument

RERUN = ("stability", "accountant", "metamorphic")  # kinds of witnesses
RerunResult = StabilityResult | AccountantResult | MetamorphicResult


def rerun(raw: Json, mechanism: Any, trust: Trust, seed: int, name: str) -> tuple[RerunResult, str]:
    """Run the inputs of a witness again, and return the result and a note on what was run."""
    if raw["kind"] == "accountant":
        return replay_figure(
            raw, mechanism, name
        ), "replay of an accountant witness: the figure was computed again"
    if raw["kind"] == "metamorphic":
        found = replay_relation(raw, mechanism, seed, name, trust.resolve_class)
        return found, "replay of a metamorphic witness: the recorded case was run again"
    return replay_pair(
        raw, mechanism, trust, name
    ), "replay of a stability witness: both inputs were run again"


_MATH_FUNCTIONS: dict[str, Callable[..., float]] = {
    f"math:{name}": getattr(math, name)
    for name in ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "cbrt", "fabs", "dist")
}


# function, confidence, seed and name -> result
Measurement = Callable[[Callable[..., Any], float, int, str], SensitivityResult | UtilityResult]


def read_measurement(raw: Json, trust: Trust) -> Measurement:
    """Return the measurement of a sensitivity or utility witness: the pair is evaluated again, or
    the error is measured again.

    A recorded norm or transform that is a function passes the same trust rules as any other
    target.
    """
    if raw["kind"] == "sensitivity":
        if not float(raw["ratio"]) > 1:
            refuse("ratio", "exceed 1, as that of a violated bound does", raw["ratio"])
        recorded = raw["norm"]
        norm = (
            _load_function(recorded, "norm", trust)
            if isinstance(recorded, dict)
            else math.inf
            if recorded == "inf"
            else int(recorded)
        )
        pair = read_pair(raw["pair"], trust.resolve_class)
        return lambda function, confidence, seed, name: sensitivity_at(
            function, raw["bound"], pair, norm, name=name
        )
    claim = from_jsonable(raw["claim"], "claim")
    if not isinstance(claim, UtilityClaim):
        refuse("claim", "be a claim about an error", raw["claim"])
    if raw["transform"] is not None:
        if not isinstance(claim, Scaling):
            refuse("transform", "be null: only a scaling claim has one", raw["transform"])
        claim = replace(claim, transform=_load_function(raw["transform"], "transform", trust))
    return lambda function, confidence, seed, name: audit_utility(
        function, claim, runs=raw["runs"], confidence=confidence, seed=seed, name=name
    )


def _load_function(target: Json, what: str, trust: Trust) -> Callable[..., Any]:
    """Load a norm or a transform: a plain function of `math`, or a target that is
    trusted to run.
    """
    math_function = _MATH_FUNCTIONS.get(target["target"])
    found = (
        math_function
        if math_function is not None and not target.get("kwargs")
        else trust.plan(target, what).load()
    )
    if not callable(found):
        refuse(what, "name a function", target["target"])
    return found


def remeasure(
    measurement: Measurement, function: Any, confidence: float, seed: int, name: str
) -> SensitivityResult | UtilityResult:
    """Return the result of the measurement of a witness on `function`."""
    if not callable(function):
        raise InvalidArgument(f"replay: target must be a function, got {type(function).__name__}")
    try:
        return measurement(function, confidence, seed, name)
    except InvalidArgument:
        raise
    except Exception as error:  # the user's function may raise anything on the file's data
        raise InvalidArgument(
            f"replay: {name} could not be evaluated: {type(error).__name__}: {str(error)[:300]}"
        ) from error
