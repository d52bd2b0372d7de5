"""Utility audit: bounds with explicit constants on the failure probability or on the mean of an error, and scaling laws.

Every VIOLATED rests on a confidence limit that holds for all laws that the claim allows. The limit is exact binomial for frequencies and
medians. For means it uses a stated range or moment (`mean_limits.py`), because no test of a mean holds for all laws. Claims such as
O(1/sqrt(n)) name an exponent and no constant: the audit tests the least-squares slope of the log of the error's statistic over the grid.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import stats

from dpwitness.auditors.bounds.utility_claims import FailureBound, MeanBound, Scaling, UtilityClaim
from dpwitness.auditors.results.verdicts import Result, Verdict, environment, strict
from dpwitness.auditors.results.witness import function_witness, named
from dpwitness.auditors.statistics.mean_limits import combined_limits, median_limits, moment_limits, range_limits
from dpwitness.mechanisms.core.json_codec import to_jsonable
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument, require_integer, require_probability, require_type, shown
from dpwitness.mechanisms.numerics.solvers import ConvergenceError
from dpwitness.mechanisms.protocols.mechanism import FloatArray, name_of

_MARGIN = 0.05  # excess of a slope that slower terms may explain


@dataclass(frozen=True, slots=True)
class UtilityPoint:
    """One measured point of a scaling claim: parameter value, statistic of the error, standard error, and simultaneous limits."""

    value: float
    error: float
    standard_error: float
    lower: float = math.nan
    upper: float = math.nan


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UtilityResult(Result):
    """Result of a utility audit.

    Attributes
    ----------
    estimate : float
        Frequency of failure, mean error, or slope of the log error against the log of the parameter.
    lower, upper : float
        One-sided confidence limits of the estimate, each at the stated confidence, under the assumptions of `claim`; see `evidence`.
    standard_error : float
        Standard error of the estimate, for information only.
    points : tuple of UtilityPoint
        For scaling claims, the points of the regression.
    constant : float
        For scaling claims, the fitted factor of the power.
    verdict : Verdict
        VIOLATED if the confidence limits contradict the claim, ERROR if the function failed, NOT_REFUTED otherwise.
    name, function, claim, runs, confidence, seed
        Arguments of `dpwitness.audit_utility`.
    notes : tuple of str
        Remarks for the reader.
    seconds : float
        Duration, in seconds.
    """

    name: str
    claim: UtilityClaim
    verdict: Verdict
    runs: int
    confidence: float
    seed: int
    estimate: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    standard_error: float = math.nan
    points: tuple[UtilityPoint, ...] = ()
    constant: float = math.nan
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0)
    function: Callable[..., Any] | None = field(default=None, repr=False)

    @property
    def witness(self) -> Json | None:
        """Return error function and claim, which `dpwitness.replay` measures again; None unless the claim is violated."""
        claim, transform = self.claim, None
        if isinstance(claim, Scaling) and claim.transform is not None:
            transform, claim = named(claim.transform), replace(claim, transform=None)
            if transform is None:
                return None
        if self.verdict is not Verdict.VIOLATED or self.function is None:
            return None
        numbers = {"runs": self.runs, "confidence": self.confidence, "estimate": strict(self.estimate)}
        more = {"kind": "utility", "claim": to_jsonable(claim), "transform": transform, **numbers}
        return function_witness(self.name, self.function, self.seed, more)

    @property
    def evidence(self) -> str:
        """Return the kind of evidence behind the verdict.

        ``statistical`` at the stated confidence, or ``assumed`` if a moment is assumed or the verdict is not a test.
        """
        claim = self.claim
        if isinstance(claim, MeanBound):
            return "statistical" if claim.deviation is None else "assumed"
        return "assumed" if isinstance(claim, Scaling) and claim.statistic == "mean" else "statistical"

    def headline(self) -> str:
        """Return the verdict, the estimate and its limits in one line."""
        if self.verdict is Verdict.ERROR:
            return f"ERROR: {self.notes[0]}"
        word, claim = self.verdict.value.replace("_", " "), self.claim
        limits = f"limits {self.lower:.4g} and {self.upper:.4g} at confidence {self.confidence:.12g} each"
        if isinstance(claim, Scaling):
            if claim.statistic == "mean" and claim.spread is None:
                limits = f"{self.lower:.4g} to {self.upper:.4g}"
            slope = f"slope {self.estimate:.4g} of the {claim.statistic} error against the claimed {claim.exponent:g}"
            return f"{word}: {claim}: {slope}, from {len(self.points)} points of {self.runs} runs ({limits}, {claim.given})"
        what, given = ("failure frequency", "") if isinstance(claim, FailureBound) else ("mean error", f", {claim.given}")
        if math.isinf(self.upper):
            limits = f"lower limit {self.lower:.4g} at confidence {self.confidence:.12g}"
        return f"{word}: {claim}: {what} {self.estimate:.4g} in {self.runs} runs ({limits}{given})"

    def to_json(self) -> Json:
        numbers = {key: strict(getattr(self, key)) for key in ("estimate", "lower", "upper", "standard_error", "constant")}
        return {
            "kind": "utility",
            "name": self.name,
            "claim": str(self.claim),
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "runs": self.runs,
            "confidence": self.confidence,
            "claimed": self._claimed(),
            "seed": self.seed,
            **numbers,
            **self._scaling(),
            "notes": list(self.notes),
            "environment": environment(),
            "seconds": round(self.seconds, 3),
        }

    def _claimed(self) -> Json:
        """Return the numbers of the claim that decide the verdict, for `recompute_bounds`."""
        claim = self.claim
        if isinstance(claim, Scaling):
            return {"kind": "scaling", "limit": claim.exponent, "margin": _MARGIN}
        return {"kind": "failures", "limit": claim.beta} if isinstance(claim, FailureBound) else {"kind": "mean", "limit": claim.bound}

    def _scaling(self) -> Json:
        """Return the exponent, parameter and points of a scaling claim."""
        claim = self.claim
        if not isinstance(claim, Scaling):
            return {"points": []}
        points = [{"regressor": claim.regressor(p.value), **{key: strict(value) for key, value in asdict(p).items()}} for p in self.points]
        return {"exponent": claim.exponent, "regressor": claim.name, "points": points}


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
        ``error(size, rng)`` returns the errors of `size` independent runs, (size,). For `Scaling`, ``error(value, size, rng)``.
    claim : FailureBound, MeanBound or Scaling
        A `FailureBound` is refuted if the exact binomial lower limit of the frequency exceeds beta. A `MeanBound` is refuted if a lower
        limit of the mean exceeds the bound; the limit holds for all errors in the stated range, or with the stated standard deviation. A
        `Scaling` is refuted if the lower limit of the slope exceeds the exponent, and the slope exceeds the exponent by more than 0.05: an
        error below the bound is allowed. Without a stated `spread`, a `Scaling` of means is not a test at a stated error probability: the
        verdict is INCONCLUSIVE instead of VIOLATED.
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
        If an argument is invalid, or `error` returns values that are not numbers or contradict the claim's assumptions.

    Examples
    --------
    >>> noise = lambda size, rng: abs(rng.laplace(size=size))
    >>> audit_utility(noise, FailureBound(3.0, beta=0.04)).verdict.value
    'VIOLATED'
    >>> audit_utility(noise, MeanBound(1.1)).verdict.value
    'NOT_REFUTED'
    """
    if not callable(error):
        raise InvalidArgument(f"audit_utility: error must be callable, got {shown(error)}")
    if not isinstance(claim, FailureBound | MeanBound | Scaling):
        raise InvalidArgument(f"audit_utility: claim must be a FailureBound, MeanBound or Scaling, got {shown(claim)}")
    least = 200 if isinstance(claim, Scaling) else 2
    count = require_integer("runs", (200 if least == 200 else 2000) if runs is None else runs, "audit_utility", least=least, most=10**9)
    require_probability("confidence", confidence, "audit_utility")
    seed = require_integer("seed", seed, "audit_utility", least=0)
    require_type("name", name, str, "be a text", "audit_utility", optional=True)
    begin = time.perf_counter()
    request = _Request(name or name_of(error), error, count, confidence, seed)
    try:
        found = _scaling(request, claim) if isinstance(claim, Scaling) else _test_bound(request, claim)
    except ConvergenceError as problem:
        found = request.answered(claim, Verdict.ERROR, notes=(f"a run did not converge: {problem}",))
    return replace(found, seconds=time.perf_counter() - begin)


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """Arguments of a utility audit, except for the claim."""

    name: str
    error: Callable[..., Any]
    runs: int
    confidence: float
    seed: int

    def answered(self, claim: UtilityClaim, verdict: Verdict, **measured: Any) -> UtilityResult:
        """Return the result."""
        return UtilityResult(self.name, claim, verdict, self.runs, self.confidence, self.seed, function=self.error, **measured)


def _test_bound(request: _Request, claim: FailureBound | MeanBound) -> UtilityResult:
    """Return the result for a `FailureBound` or `MeanBound`."""
    values = _errors(request.error(request.runs, np.random.default_rng(request.seed)), request.runs)
    n, alpha = len(values), 1 - request.confidence
    if isinstance(claim, FailureBound):
        failures = int(np.sum(values > claim.bound))
        lower = float(stats.beta.ppf(alpha, failures, n - failures + 1)) if failures else 0.0
        upper = float(stats.beta.isf(alpha, failures + 1, n - failures)) if failures < n else 1.0
        estimate, spread, refuted = failures / n, math.sqrt(failures * (n - failures) / n**3), lower > claim.beta
    else:
        if np.isinf(values).any():
            raise InvalidArgument("audit_utility: error must be finite for a claim about its mean, got inf")
        estimate, spread = float(values.mean()), float(values.std(ddof=1) / math.sqrt(n))
        if claim.deviation is not None:
            lower, upper = moment_limits(values, alpha, deviation=claim.deviation)
        else:
            _require_in_range(values, claim)
            lower, upper = range_limits(values, claim.low, claim.high, alpha)
        refuted = lower > claim.bound
    verdict = Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED
    return request.answered(claim, verdict, estimate=estimate, lower=lower, upper=upper, standard_error=spread)


def _require_in_range(values: FloatArray, claim: MeanBound) -> None:
    """Raise InvalidArgument if an error is outside the range of the claim."""
    high = math.inf if claim.high is None else claim.high
    for outside, rule, end in ((values < claim.low, "least", "low"), (values > high, "most", "high")):
        if outside.any():
            run = int(np.flatnonzero(outside)[0])
            advice = f"got {values[run]:.6g} in run {run}; state its range, as in MeanBound({claim.bound:g}, low=..., high=...)"
            raise InvalidArgument(f"audit_utility: error must be at {rule} {end} = {getattr(claim, end):g}, {advice}")


def _scaling(request: _Request, claim: Scaling) -> UtilityResult:
    """Return the result for a scaling claim.

    The slope's limits are its extremes over all statistics within their limits. One limit of each point enters either end, so alpha is
    shared among the points.
    """
    x = np.log([claim.regressor(value) for value in claim.grid])
    points = []
    for index, value in enumerate(claim.grid):
        rng = np.random.default_rng(np.random.SeedSequence(request.seed, spawn_key=(index,)))
        errors = _errors(request.error(value, request.runs, rng), request.runs)
        points.append(_point(claim, value, errors, rng, (1 - request.confidence) / len(claim.grid)))
    fit = stats.linregress(x, np.log([p.error for p in points]))
    weights = (x - x.mean()) / float(np.sum((x - x.mean()) ** 2))  # slope = weights . log errors
    # Residuals of few points can be small by chance: use at least the standard error that follows from the runs' spread at each point.
    propagated_error = math.sqrt(float(np.sum((weights * [p.standard_error / p.error for p in points]) ** 2)))
    slope, spread = float(fit.slope), max(propagated_error, float(fit.stderr))
    if claim.statistic == "mean" and claim.spread is None:
        lower, upper, refuted_verdict = slope - 2 * spread, slope + 2 * spread, Verdict.INCONCLUSIVE
    else:
        lower, upper = combined_limits(weights, np.array([p.lower for p in points]), np.array([p.upper for p in points]))
        refuted_verdict = Verdict.VIOLATED
    verdict = refuted_verdict if lower > claim.exponent and slope > claim.exponent + _MARGIN else Verdict.NOT_REFUTED
    notes = (f"refuted by slopes above {claim.exponent + max(_MARGIN, slope - lower):.4g}: {_MARGIN:g} is left for slower terms",)
    measured = {"estimate": slope, "lower": lower, "upper": upper, "standard_error": spread, "constant": float(np.exp(fit.intercept))}
    return request.answered(claim, verdict, points=tuple(points), notes=notes, **measured)


def _point(claim: Scaling, value: float, errors: FloatArray, rng: Generator, alpha: float) -> UtilityPoint:
    """Return the measured point of a scaling claim at one parameter value."""
    if claim.statistic == "median":
        middle = float(np.median(errors))
        bootstrap_medians = np.median(errors[rng.integers(0, len(errors), (200, len(errors)))], axis=1)
        point = UtilityPoint(value, middle, float(bootstrap_medians.std(ddof=1)), *median_limits(errors, alpha))
    else:
        if claim.spread is not None and errors.min() < 0:
            raise InvalidArgument(f"audit_utility: error must be at least 0 where spread is stated, got {errors.min():.6g}")
        limits = moment_limits(errors, alpha, spread=claim.spread) if claim.spread is not None else (math.nan, math.nan)
        point = UtilityPoint(value, float(errors.mean()), float(errors.std(ddof=1) / math.sqrt(len(errors))), *limits)
    if not (math.isfinite(point.error) and point.error > 0):
        name = f"{claim.statistic} error at {claim.parameter} = {value:g}"
        raise InvalidArgument(f"audit_utility: error must be positive and finite for the regression, got {point.error!r} as the {name}")
    return point


def _errors(values: Any, runs: int) -> FloatArray:
    """Return the errors as an array. Raise InvalidArgument unless there is one number per run."""
    errors = np.asarray(values, dtype=np.float64)
    if errors.shape != (runs,):
        raise InvalidArgument(f"audit_utility: error must return one number per run, shape ({runs},), got shape {errors.shape}")
    if np.isnan(errors).any():
        raise InvalidArgument(f"audit_utility: error must be a number, got nan in run {int(np.flatnonzero(np.isnan(errors))[0])}")
    return errors
