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
from dataclasses import dataclass
from typing import Any, ClassVar

from dpwitness.auditors.functions.bounds.utility_claims import UtilityClaim, UtilityPoint
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.witnesses.witness import FunctionResult
from dpwitness.core.numerics.solvers import ConvergenceError
from dpwitness.core.protocols.mechanism import name_of
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_probability,
    require_type,
    short_repr,
)


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
    name, function, claim, runs, confidence, seed
        Arguments of `dpwitness.audit_utility`.
    notes, seconds
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

        ``statistical`` at the stated confidence, or ``assumed`` if a moment is assumed or the
        verdict is not a test.
        """
        return self.claim.evidence

    def _summary(self) -> str:
        """Return the estimate and its limits in one line."""
        claim = self.claim
        limits = claim.describe_limits(self.lower, self.upper, self.confidence)
        assumption = f", {claim.assumption}" if claim.assumption else ""
        return f"{claim}: {claim.describe(self.estimate, self.runs)} ({limits}{assumption})"

    def _fields(self) -> Json:
        return {
            "claim": str(self.claim),
            "runs": self.runs,
            "confidence": self.confidence,
            "claimed": self.claim.limit_to_json(),
            **{
                key: strict(getattr(self, key))
                for key in ("estimate", "lower", "upper", "standard_error", "constant")
            },
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
        exponent by more than 0.05: an error below the bound is allowed. Without a stated `spread`,
        a `Scaling` of means is not a test at a stated error probability: the verdict is
        INCONCLUSIVE instead of VIOLATED.
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
    if not callable(error):
        raise InvalidArgument(f"audit_utility: error must be callable, got {short_repr(error)}")
    if not isinstance(claim, UtilityClaim):
        raise InvalidArgument(
            "audit_utility: claim must be a FailureBound, MeanBound or Scaling, got "
            f"{short_repr(claim)}"
        )
    count = require_integer(
        "runs",
        claim.default_runs if runs is None else runs,
        "audit_utility",
        least=claim.least_runs,
        most=10**9,
    )
    require_probability("confidence", confidence, "audit_utility")
    seed = require_integer("seed", seed, "audit_utility", least=0)
    require_type("name", name, str, "be a text", "audit_utility", optional=True)
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
        function=error,
    )
