"""Utility audit: claims about a mechanism's error, and their test. A claim bounds the failure
probability or the mean of an error with explicit constants, or states a scaling law.

Every VIOLATED rests on a confidence limit that holds for all laws that the claim allows. The limit
is exact binomial for frequencies and medians. For means it uses a stated range or moment
(`mean_limits.py`), because no test of a mean holds for all laws. Of O(1/sqrt(n)), which has no
constant, it tests the least-squares slope of the log of the error's statistic over the grid.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from scipy import stats

from dpwitness.auditors.search.catalogue import require_settings
from dpwitness.auditors.statistics.certificate import clopper_pearson_lower
from dpwitness.auditors.statistics.mean_limits import (
    combined_limits,
    median_limits,
    moment_limits,
    range_limits,
)
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
from dpwitness.core.protocols import FloatArray, name_of
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json, anything, integer, nullable, refuse
from dpwitness.core.values.validation import (
    InvalidArgument,
    require,
    require_callable,
    require_integer,
    require_positive,
    require_probability,
    require_that,
    require_type,
)
from dpwitness.core.values.wording import count, figure

_MARGIN = 0.05  # excess of a slope that slower terms may explain


@dataclass(frozen=True, slots=True)
class UtilityPoint:
    """One measured point of a scaling claim: parameter value, statistic of the error, standard
    error, and simultaneous limits.
    """

    value: float
    error: float
    standard_error: float
    lower: float
    upper: float


class UtilityClaim(ABC):
    """Claim about an error that an audit measures."""

    __slots__ = ()
    least_runs: ClassVar[int] = 2
    default_runs: ClassVar[int] = 2000
    method: ClassVar[str] = "utility audit"  # name of the test in claims of papers

    @property
    def assumption(self) -> str:
        """Return the assumption on which the limits rest; empty if there is none."""
        return ""

    @property
    def evidence(self) -> str:
        """Return ``statistical``, or ``assumed`` if a moment is assumed."""
        return "assumed" if self.assumption.startswith("assuming") else "statistical"

    @abstractmethod
    def measure(
        self, error: Callable[..., Any], runs: int, confidence: float, seed: int
    ) -> dict[str, Any]:
        """Run `error` and test the claim. Return the measured fields of `UtilityResult`."""

    @abstractmethod
    def describe(self, estimate: float, runs: int) -> str:
        """Return the estimate as text."""

    @abstractmethod
    def limit_to_json(self) -> Json:
        """Return the numbers of the claim that decide the verdict, for `recompute_bounds`."""

    def points_to_json(self, points: Sequence[UtilityPoint]) -> Json:
        """Return the measured points, with the parameter that they belong to."""
        return {"points": []}

    def for_witness(self) -> tuple[UtilityClaim, Json | None] | None:
        """Return the claim as data, and the target of its function; None if the function has no
        importable name.
        """
        return self, None


class _Bound(UtilityClaim):
    """Bound on one number of the law of the error."""

    __slots__ = ()
    quantity: ClassVar[str]
    bound: float

    def describe(self, estimate: float, runs: int) -> str:
        return f"{self.quantity} {estimate:.4g} in {runs} runs"

    def measure(
        self, error: Callable[..., Any], runs: int, confidence: float, seed: int
    ) -> dict[str, Any]:
        values = _errors(error(runs, np.random.default_rng(seed)), runs)
        keys = ("estimate", "lower", "upper", "standard_error")
        found = dict(zip(keys, self._limits(values, 1 - confidence), strict=True))
        refuted = found["lower"] > self.limit_to_json()["limit"]
        return {"verdict": Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED, **found}

    @abstractmethod
    def _limits(self, values: FloatArray, alpha: float) -> tuple[float, float, float, float]:
        """Return the estimate, its two confidence limits and its standard error."""


@dataclass(frozen=True, slots=True)
class FailureBound(_Bound):
    """Claim that P(error > `bound`) <= `beta`."""

    bound: float
    beta: float

    quantity: ClassVar[str] = "failure frequency"

    def __post_init__(self) -> None:
        require(self).finite("bound").probability("beta", zero=True)

    def __str__(self) -> str:
        return f"error <= {self.bound:.6g} with probability {1 - self.beta:.6g}"

    def limit_to_json(self) -> Json:
        return {"kind": "failures", "limit": self.beta}

    def _limits(self, values: FloatArray, alpha: float) -> tuple[float, float, float, float]:
        n, failures = len(values), int(np.sum(values > self.bound))
        lower = float(stats.beta.ppf(alpha, failures, n - failures + 1)) if failures else 0.0
        upper = float(stats.beta.isf(alpha, failures + 1, n - failures)) if failures < n else 1.0
        return failures / n, lower, upper, math.sqrt(failures * (n - failures) / n**3)


@dataclass(frozen=True, slots=True)
class MeanBound(_Bound):
    """Claim that E[error] <= `bound`.

    Parameters
    ----------
    bound : float
        Claimed upper bound on the mean error.
    low : float
        Smallest possible error, which suffices to refute the bound. Not used if `deviation` is
        given.
    high : float, optional
        Largest possible error. Without `high` or `deviation`, no upper confidence limit exists.
    deviation : float, optional
        Assumed upper bound on the standard deviation of the error, instead of a range.
    """

    bound: float
    low: float = 0.0
    high: float | None = None
    deviation: float | None = None

    quantity: ClassVar[str] = "mean error"

    def __post_init__(self) -> None:
        require(self).finite("bound", "low")
        if self.deviation is not None:
            require(self).positive("deviation")
            require_that(
                self.high is None,
                "high and deviation must not both be given: a range is enough",
                "MeanBound",
            )
        elif self.high is not None:
            require(self).finite("high")
            require_that(
                self.high > self.low,
                f"high must be above low = {self.low:g}, got {self.high!r}",
                "MeanBound",
            )

    def __str__(self) -> str:
        return f"mean error <= {self.bound:.6g}"

    @property
    def assumption(self) -> str:
        """Return the assumption on which the limits of the mean rest."""
        if self.deviation is not None:
            return f"assuming a standard deviation of at most {self.deviation:.6g}"
        return (
            f"for errors of at least {self.low:.6g}"
            if self.high is None
            else f"for errors in [{self.low:.6g}, {self.high:.6g}]"
        )

    def limit_to_json(self) -> Json:
        return {"kind": "mean", "limit": self.bound}

    def _limits(self, values: FloatArray, alpha: float) -> tuple[float, float, float, float]:
        require_that(
            not np.isinf(values).any(),
            "error must be finite for a claim about its mean, got inf",
            "audit_utility",
        )
        estimate, spread = float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))
        if self.deviation is not None:
            return estimate, *moment_limits(values, alpha, deviation=self.deviation), spread
        high = math.inf if self.high is None else self.high
        outside = values[(values < self.low) | (values > high)]
        require_that(
            not outside.size,
            f"error must be in [{self.low:g}, {high:g}], got {outside[:1]}; state its range, as in "
            f"MeanBound({self.bound:g}, low=..., high=...)",
            "audit_utility",
        )
        return estimate, *range_limits(values, self.low, self.high, alpha), spread


@dataclass(frozen=True, slots=True)
class Scaling(UtilityClaim):
    """Claim that the error grows at most like `transform`(value)^`exponent` (falls at least as
    fast, for a negative exponent).

    Parameters
    ----------
    exponent : float
        Claimed exponent. Finite.
    grid : sequence of float
        Values of the parameter at which the error is measured: at least 4, positive, spanning a
        factor of at least 64.
    parameter : str
        Name of the parameter in the report.
    transform : callable, optional
        Function of the parameter, such as ``math.log`` for a claim in log p. Positive on the grid.
    statistic : {"median", "mean"}
        Statistic of the error over the runs. The test of medians holds for every law.
    spread : float, optional
        Assumed upper bound on the error's standard deviation, in units of the mean error, at every
        value of the grid. Needed for the test of means only.
    """

    exponent: float
    grid: tuple[float, ...]
    parameter: str = "n"
    transform: Callable[[float], float] | None = None
    statistic: str = "median"
    spread: float | None = None

    least_runs: ClassVar[int] = 200
    default_runs: ClassVar[int] = 200
    method: ClassVar[str] = "slope within limits of every point"

    def __post_init__(self) -> None:
        require(self).finite("exponent").one_of("statistic", ["median", "mean"])
        if self.spread is not None:
            require(self).positive("spread")
        if (self.spread is None) == (self.statistic == "mean"):
            rule = "be given for the mean" if self.spread is None else "be left out for the median"
            raise InvalidArgument(f"Scaling: spread must {rule}, got {self.spread!r}")
        require_type("grid", self.grid, Sequence, "be a sequence of numbers", "Scaling")
        require_callable("transform", self.transform, "Scaling", arguments=1, optional=True)
        values = sorted({require_positive("grid", value, "Scaling") for value in self.grid})
        span = values[-1] / values[0] if values else 0.0
        require_that(
            len(values) >= 4 and span >= 64.0 * (1 - 1e-12),
            "grid must have at least 4 different values, the largest at least 64 times the "
            f"smallest, got {len(values)} with the factor {span:.6g}",
            "Scaling",
        )
        object.__setattr__(self, "grid", tuple(values))
        for value in values:
            require_positive(f"transform({value:g})", self.regressor(value), "Scaling")

    def regressor(self, value: float) -> float:
        """Return the transformed parameter, of which the error is a power."""
        return float(self.transform(value)) if self.transform else float(value)

    @property
    def name(self) -> str:
        """Return the name of the transformed parameter."""
        if self.transform is None:
            return self.parameter
        return f"{getattr(self.transform, '__name__', 'f')}({self.parameter})"

    def __str__(self) -> str:
        return f"error = O({self.name}^{self.exponent:g})"

    @property
    def assumption(self) -> str:
        """Return the assumption on which the limits of the slope rest."""
        if self.spread is None:
            return "exact for every law"
        return f"assuming standard deviations of at most {self.spread:.6g} means"

    def describe(self, estimate: float, runs: int) -> str:
        return (
            f"slope {estimate:.4g} of the {self.statistic} error against the claimed "
            f"{self.exponent:g}, from {len(self.grid)} points of {runs} runs"
        )

    def limit_to_json(self) -> Json:
        return {"kind": "scaling", "limit": self.exponent, "margin": _MARGIN}

    def points_to_json(self, points: Sequence[UtilityPoint]) -> Json:
        return {
            "exponent": self.exponent,
            "regressor": self.name,
            "points": [{"regressor": self.regressor(p.value), **strict(asdict(p))} for p in points],
        }

    def for_witness(self) -> tuple[UtilityClaim, Json | None] | None:
        if self.transform is None:
            return self, None
        transform = named(self.transform)
        return None if transform is None else (replace(self, transform=None), transform)

    def measure(
        self, error: Callable[..., Any], runs: int, confidence: float, seed: int
    ) -> dict[str, Any]:
        """Measure the slope and test the exponent. The slope's limits are its extremes over all
        statistics within their limits; alpha is shared among the points.
        """
        x = np.log([self.regressor(value) for value in self.grid])
        points = []
        for index, value in enumerate(self.grid):
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
            errors = _errors(error(value, runs, rng), runs)
            points.append(self._point(value, errors, rng, (1 - confidence) / len(self.grid)))
        fit = stats.linregress(x, np.log([p.error for p in points]))
        # slope = weights . log errors
        weights = (x - x.mean()) / float(np.sum((x - x.mean()) ** 2))
        # Residuals of few points can be small by chance: use at least the standard error that
        # follows from the runs' spread at each point.
        propagated_error = math.sqrt(
            float(np.sum((weights * [p.standard_error / p.error for p in points]) ** 2))
        )
        slope, spread = float(fit.slope), max(propagated_error, float(fit.stderr))
        lower, upper = combined_limits(
            weights, np.array([p.lower for p in points]), np.array([p.upper for p in points])
        )
        refuted = lower > self.exponent and slope > self.exponent + _MARGIN
        return {
            "verdict": Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED,
            "estimate": slope,
            "lower": lower,
            "upper": upper,
            "standard_error": spread,
            "points": tuple(points),
            "constant": float(np.exp(fit.intercept)),
            "notes": (
                f"refuted by slopes above {self.exponent + max(_MARGIN, slope - lower):.4g}: "
                f"{_MARGIN:g} is left for slower terms",
            ),
        }

    def _point(
        self, value: float, errors: FloatArray, rng: Generator, alpha: float
    ) -> UtilityPoint:
        """Return the measured point at one parameter value."""
        size = len(errors)
        if self.spread is None:
            medians = np.median(errors[rng.integers(0, size, (200, size))], axis=1)
            middle, spread = float(np.median(errors)), float(medians.std(ddof=1))
            point = UtilityPoint(value, middle, spread, *median_limits(errors, alpha))
        else:
            require_that(
                errors.min() >= 0,
                f"error must be at least 0 where spread is stated, got {errors.min():.6g}",
                "audit_utility",
            )
            point = UtilityPoint(
                value,
                float(errors.mean()),
                float(errors.std(ddof=1) / math.sqrt(size)),
                *moment_limits(errors, alpha, spread=self.spread),
            )
        require_that(
            math.isfinite(point.error) and point.error > 0,
            f"error must be positive and finite for the regression, got {point.error!r} "
            f"as the {self.statistic} error at {self.parameter} = {value:g}",
            "audit_utility",
        )
        return point


def _errors(values: Any, runs: int) -> FloatArray:
    """Return the errors as an array. Raise InvalidArgument unless there is one number per run."""
    errors = np.asarray(values, dtype=np.float64)
    require_that(
        errors.shape == (runs,),
        f"error must return one number per run, shape ({runs},), got shape {errors.shape}",
        "audit_utility",
    )
    wrong = np.flatnonzero(np.isnan(errors))
    require_that(
        not wrong.size, f"error must be a number, got nan in runs {wrong[:3]}", "audit_utility"
    )
    return errors


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
        """Return ``statistical``, or ``assumed`` if a moment is assumed."""
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
    >>> from dpwitness.auditors import FailureBound, MeanBound, audit_utility
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
    runs = claim.default_runs if runs is None else runs
    runs = require_integer("runs", runs, "audit_utility", least=claim.least_runs, most=10**9)
    require_probability("confidence", confidence, "audit_utility")
    seed, _ = require_settings("audit_utility", seed, name=name)
    begin = time.perf_counter()
    try:
        found = claim.measure(error, runs, confidence, seed)
    except ConvergenceError as problem:
        found = {"verdict": Verdict.ERROR, "notes": (f"a run did not converge: {problem}",)}
    return UtilityResult(
        name=name or name_of(error),
        claim=claim,
        runs=runs,
        confidence=confidence,
        seed=seed,
        **found,
        seconds=time.perf_counter() - begin,
        target=named(error),
        subject=error,
    )


_FACTS = (
    line("claim", lambda r: r.get("claim", "")),
    line(
        "measured",
        lambda r: "{}, standard error {}{}".format(
            *figures(r, 6, "estimate"),
            *figures(r, 3, "standard_error"),
            ", slope of the log error" if "exponent" in r else "",
        ),
        is_measured,
    ),
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
        lambda r: f"{count(r.get('runs'))} runs{' at each point' if 'exponent' in r else ''}",
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
