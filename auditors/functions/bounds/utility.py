"""Utility audit: bounds with explicit constants on the failure probability or on the mean of an
error, and scaling laws.

Every VIOLATED rests on a confidence limit that holds for all laws that the claim allows. The limit
is exact binomial for frequencies and medians. For means it uses a stated range or moment
(`mean_limits.py`), because no test of a mean holds for all laws. Claims such as O(1/sqrt(n)) name
an exponent and no constant: the audit tests the least-squares slope of the log of the error's
statistic over the grid.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dpwitness.auditors.functions.bounds.utility_claims import Scaling, UtilityClaim, UtilityPoint
from dpwitness.auditors.search.catalogue import require_settings
from dpwitness.auditors.statistics.certificate import clopper_pearson_lower
from dpwitness.auditors.witnesses.kinds import (
    Measure,
    Recomputed,
    figures,
    function_kind,
    is_measured,
    line,
    require_stated_value,
    require_verdict,
)
from dpwitness.auditors.witnesses.replay import Replay, RunOptions
from dpwitness.auditors.witnesses.result import FunctionResult, named, numbers_of
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.witnesses.witness_reader import CONFIDENCE, EXTENDED, FUNCTION
from dpwitness.core.numerics.solvers import ConvergenceError
from dpwitness.core.protocols.mechanism import name_of
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json, anything, integer, nullable, refuse
from dpwitness.core.values.validation import (
    require_callable,
    require_integer,
    require_probability,
    require_type,
)
from dpwitness.core.values.wording import count, figure


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class UtilityResult(FunctionResult):
    """Result of a utility audit.

    Attributes
    ----------
    estimate : float
        Frequency of failure, mean error, or slope of the log error against the log of the
        parameter.
    lower, upper : float
        One-sided confidence limits of the estimate, each at the stated confidence, under the
        assumptions of `claim`; see `evidence`.
    standard_error : float
        Standard error of the estimate, for information only.
    points : tuple of UtilityPoint
        For scaling claims, the points of the regression.
    constant : float
        For scaling claims, the fitted factor of the power.
    verdict : Verdict
        VIOLATED if the confidence limits contradict the claim, ERROR if the function failed,
        NOT_REFUTED otherwise.
    name, subject, claim, runs, confidence, seed
        Arguments of `dpwitness.audit_utility`.
    notes, seconds, target
        As in other results.
    """

    kind: ClassVar[str] = "utility"

    claim: UtilityClaim
    runs: int
    confidence: float
    estimate: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    standard_error: float = math.nan
    points: tuple[UtilityPoint, ...] = ()
    constant: float = math.nan

    def _claim_text(self) -> str:
        return str(self.claim)

    def _witness_fields(self) -> Json | None:
        recorded = self.claim.for_witness()
        if recorded is None or self.verdict is not Verdict.VIOLATED:
            return None
        claim, transform = recorded
        return {
            "claim": to_jsonable(claim),
            "transform": transform,
            "runs": self.runs,
            "confidence": self.confidence,
            "estimate": strict(self.estimate),
        }

    @property
    def evidence(self) -> str:
        """Return the kind of evidence behind the verdict.

        ``statistical`` at the stated confidence, or ``assumed`` if a moment is assumed.
        """
        return self.claim.evidence

    def _summary(self) -> str:
        """Return the estimate and its limits in one line."""
        claim = self.claim
        at = f"at confidence {self.confidence:.12g}"
        limits = (
            f"lower limit {self.lower:.4g} {at}"
            if math.isinf(self.upper)
            else f"limits {self.lower:.4g} and {self.upper:.4g} {at} each"
        )
        assumption = f", {claim.assumption}" if claim.assumption else ""
        return f"{claim}: {claim.describe(self.estimate, self.runs)} ({limits}{assumption})"

    def _fields(self) -> Json:
        return {
            "runs": self.runs,
            "confidence": self.confidence,
            "claimed": self.claim.limit_to_json(),
            **numbers_of(self, "estimate", "lower", "upper", "standard_error", "constant"),
            **self.claim.points_to_json(self.points),
        }


def audit_utility(
    error: Callable[..., Any],
    claim: UtilityClaim,
    *,
    runs: int | None = None,
    confidence: float = 0.999,
    seed: int = 0,
    name: str | None = None,
) -> UtilityResult:
    """Measure an error and test a utility claim.

    Parameters
    ----------
    error : callable
        ``error(size, rng)`` returns the errors of `size` independent runs, (size,). For `Scaling`,
        ``error(value, size, rng)``.
    claim : FailureBound, MeanBound or Scaling
        A `FailureBound` is refuted if the exact binomial lower limit of the frequency exceeds beta.
        A `MeanBound` is refuted if a lower limit of the mean exceeds the bound; the limit holds for
        all errors in the stated range, or with the stated standard deviation. A `Scaling` is
        refuted if the lower limit of the slope exceeds the exponent, and the slope exceeds the
        exponent by more than 0.05: an error below the bound is allowed.
    runs : int, optional
        Number of runs. Default 2000; for `Scaling`, 200 at each point, which is also the minimum.
    confidence : float
        Confidence level of each one-sided limit.
    seed : int
        Seed of the runs.
    name : str, optional
        Name of the error in the report.

    Returns
    -------
    UtilityResult
        Verdict, estimate and confidence limits. The verdict is ERROR if a run does not converge.

    Raises
    ------
    InvalidArgument
        If an argument is invalid, or `error` returns values that are not numbers or contradict the
        claim's assumptions.

    Examples
    --------
    >>> from dpwitness.auditors.functions.bounds.utility_claims import FailureBound, MeanBound
    >>> noise = lambda size, rng: abs(rng.laplace(size=size))
    >>> audit_utility(noise, FailureBound(3.0, beta=0.04)).verdict.value
    'VIOLATED'
    >>> audit_utility(noise, MeanBound(1.1)).verdict.value
    'NOT_REFUTED'
    """
    require_callable("error", error, "audit_utility")
    require_type(
        "claim", claim, UtilityClaim, "be a FailureBound, MeanBound or Scaling", "audit_utility"
    )
    count = require_integer(
        "runs",
        claim.default_runs if runs is None else runs,
        "audit_utility",
        least=claim.least_runs,
        most=10**9,
    )
    require_probability("confidence", confidence, "audit_utility")
    seed, _ = require_settings("audit_utility", seed, name=name)
    begin = time.perf_counter()
    try:
        found = claim.measure(error, count, confidence, seed)
    except ConvergenceError as problem:
        found = {"verdict": Verdict.ERROR, "notes": (f"a run did not converge: {problem}",)}
    return UtilityResult(
        name=name or name_of(error),
        claim=claim,
        runs=count,
        confidence=confidence,
        seed=seed,
        **found,
        seconds=time.perf_counter() - begin,
        target=named(error),
        subject=error,
    )


def _is_scaling(result: Json) -> bool:
    return result.get("exponent") is not None


def _estimate(result: Json) -> str:
    (estimate,), (error,) = figures(result, 6, "estimate"), figures(result, 3, "standard_error")
    return f"{estimate}, standard error {error}"


_FACTS = (
    line("claim", lambda r: r.get("claim", "")),
    line("slope of log error", _estimate, lambda r: is_measured(r) and _is_scaling(r)),
    line("measured", _estimate, lambda r: is_measured(r) and not _is_scaling(r)),
    line(
        "limits",
        lambda r: "{} and {}: one-sided limits at confidence {} each".format(
            *figures(r, 6, "lower", "upper"), *figures(r, 12, "confidence")
        ),
        is_measured,
    ),
    line(
        "points",
        lambda r: "; ".join(
            f"{figure(point['error'])} ± {figure(point['standard_error'], 2)} at "
            f"{figure(point['value'], 8)}"
            for point in r.get("points") or []
        ),
        is_measured,
    ),
    line(
        "budget",
        lambda r: f"{count(r.get('runs'))} runs{' at each point' if _is_scaling(r) else ''}",
    ),
)


def _recompute(result: Json) -> Recomputed:
    """Check the limits of a frequency by its counts, and the verdict of a mean or a slope by its
    measured limits.
    """
    keys = ("claimed", "lower", "estimate", "runs", "confidence")
    verdict, claimed = Verdict(result["verdict"]), result.get("claimed")
    if claimed is None or verdict is Verdict.ERROR or not all(key in result for key in keys):
        return Recomputed()
    lower, values = float(result["lower"]), dict[str, float]()
    if claimed["kind"] == "failures":
        runs, alpha = int(result["runs"]), 1 - float(result["confidence"])
        failures = round(float(result["estimate"]) * runs)
        require_stated_value(result, "estimate", failures / runs)
        values = {
            "lower": float(clopper_pearson_lower(failures, runs, alpha)),
            "upper": 1 - float(clopper_pearson_lower(runs - failures, runs, alpha)),
        }
        for key, found in values.items():
            require_stated_value(result, key, found)
    limit = claimed["limit"]
    refuted = lower > limit and (
        "margin" not in claimed or float(result["estimate"]) > limit + claimed["margin"]
    )
    require_verdict(
        result, verdict, refuted, f"a lower limit of {lower:.6g} against {result['claim']}"
    )
    return Recomputed(bool(values), values)


def _rerun(case: Replay, function: Any, options: RunOptions) -> UtilityResult:
    """Measure the error of a witness again. A recorded transform passes the trust rules."""
    raw = case.raw
    claim = from_jsonable(raw["claim"], "claim")
    if not isinstance(claim, UtilityClaim):
        refuse("claim", "be a claim about an error", raw["claim"])
    if raw["transform"] is not None:
        if not isinstance(claim, Scaling):
            refuse("transform", "be null: only a scaling claim has one", raw["transform"])
        claim = replace(claim, transform=case.load_function(raw["transform"], "transform"))
    return audit_utility(
        function,
        claim,
        runs=raw["runs"],
        confidence=options.confidence,
        seed=options.seed,
        name=case.mechanism_name(function),
    )


KIND = function_kind(
    "utility",
    _FACTS,
    _rerun,
    "replay of a utility witness",
    advice={
        Verdict.VIOLATED.value: (
            "the error is larger than claimed: promise less, or repair the mechanism."
        ),
        Verdict.NOT_REFUTED.value: "no change is needed on this evidence.",
    },
    topic="utility",
    rule="UTILITY",
    measure=Measure("error", "estimate", "lower", "upper", "{estimate} in [{lower}, {upper}]"),
    recompute=_recompute,
    witness=(
        {},
        {
            "claim": anything,
            "transform": nullable(FUNCTION),
            "runs": integer(1, 10**9),
            "confidence": CONFIDENCE,
            "estimate": EXTENDED,
        },
    ),
)
