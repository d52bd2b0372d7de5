"""Utility claims: verdicts at known laws, and the papers' claims that hold and that fail (JT-05,
JT-15, JT-19, CM-08).
"""

import math

import numpy as np
import pytest

from dpwitness.auditors.functions.utility import FailureBound, MeanBound, Scaling, audit_utility
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.mechanisms import ConvergenceError, InvalidArgument

GRID = (1.0, 4.0, 16.0, 64.0)


def exponential(size, rng):
    return rng.exponential(size=size)


def test_failure_frequency_against_an_exact_binomial_limit():
    """P(Exp > ln 20) = .05; limits enclose it, and beta = .03 is refuted. Each assertion fails with
    probability below 1e-6.
    """
    result = audit_utility(
        exponential, FailureBound(math.log(20), 0.05), runs=50_000, confidence=1 - 1e-7
    )
    assert result.lower < 0.05 < result.upper and result.verdict is Verdict.NOT_REFUTED
    assert (
        audit_utility(exponential, FailureBound(math.log(20), 0.03), runs=50_000).verdict
        is Verdict.VIOLATED
    )


def test_mean_against_its_bound():
    """A lower limit needs errors of at least 0 and no more, an upper one more. Each assertion fails
    with probability < 1e-6.
    """
    holds = audit_utility(exponential, MeanBound(1.1), runs=20_000)
    fails = audit_utility(exponential, MeanBound(0.9), runs=20_000)
    assert holds.verdict is Verdict.NOT_REFUTED and fails.verdict is Verdict.VIOLATED
    assert 0.95 < holds.lower < 1.0 and holds.upper == math.inf and holds.evidence == "statistical"
    assert (
        fails.headline().startswith("VIOLATED: mean error <= 0.9: mean error ")
        and "lower limit" in fails.headline()
    )
    assumed = audit_utility(exponential, MeanBound(1.1, deviation=1.0), runs=20_000)
    assert assumed.lower < 1.0 < assumed.upper and assumed.upper - assumed.lower < 0.06
    assert (
        assumed.evidence == "assumed"
        and "assuming a standard deviation of at most 1" in assumed.headline()
    )


@pytest.mark.parametrize("exponent", [-2.0, -0.5, 0.0, 1.0])
def test_slopes_are_recovered(exponent):
    """An exact power with 10 % noise: the slope within .02, the constant within 5 %."""

    def error(value, size, rng):
        return 3.0 * value**exponent * rng.uniform(0.9, 1.1, size)

    result = audit_utility(error, Scaling(exponent, GRID))
    assert result.estimate == pytest.approx(
        exponent, abs=0.02
    ) and result.constant == pytest.approx(3.0, rel=0.05)
    assert result.verdict is Verdict.NOT_REFUTED and len(result.points) == 4
    assert audit_utility(error, Scaling(exponent - 0.1, GRID)).verdict is Verdict.VIOLATED
    assert audit_utility(error, Scaling(exponent + 0.1, GRID)).verdict is Verdict.NOT_REFUTED


@pytest.mark.slow
def test_a_scaling_of_means_under_a_stated_spread():
    """Exponential errors: spread 1. A slope .3 too large is found; the claim itself is spared in
    150 audits, 3 errors expected.
    """

    def error(value, size, rng):
        return value * rng.exponential(size=size)

    worse = audit_utility(error, Scaling(0.7, GRID, statistic="mean", spread=1.0), runs=4000)
    assert worse.verdict is Verdict.VIOLATED and worse.evidence == "assumed"
    assert "assuming standard deviations of at most 1 means" in worse.headline()
    exact = [
        audit_utility(
            error, Scaling(1.0, GRID, statistic="mean", spread=1.0), confidence=0.98, seed=s
        )
        for s in range(150)
    ]
    assert sum(r.verdict is Verdict.VIOLATED for r in exact) <= 15


def test_runs_that_do_not_converge_are_an_error():
    def error(size, rng):
        raise ConvergenceError("row 3")

    result = audit_utility(error, MeanBound(1.0))
    assert (
        result.verdict is Verdict.ERROR
        and result.headline() == "ERROR: a run did not converge: row 3"
    )
    with pytest.raises(TypeError, match="not a truth value"):
        bool(result)
    assert result.to_json()["estimate"] == "nan"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Scaling(1.0, (1, 2, 64)),
            "grid must have at least 4 different values, the largest at least 64 times the "
            "smallest, got 3 with the factor 64",
        ),
        (lambda: Scaling(1.0, (1, 2, 4, 8)), "got 4 with the factor 8"),
        (lambda: Scaling(1.0, ()), "got 0 with the factor 0"),
        (
            lambda: Scaling(1.0, (1, 4, 16, 64), transform=math.log),
            r"transform\(1\) must be positive and finite, got 0.0",
        ),
        (lambda: Scaling(math.nan, GRID), "exponent must be a finite number, got nan"),
        (lambda: FailureBound(1.0, 1.0), "beta must lie in"),
        (lambda: MeanBound(1.0, high=0.0), "high must be above low = 0, got 0.0"),
        (
            lambda: MeanBound(1.0, high=1.0, deviation=1.0),
            "high and deviation must not both be given",
        ),
        (lambda: MeanBound(1.0, deviation=0.0), "deviation must be positive and finite, got 0.0"),
        (lambda: Scaling(1.0, GRID, spread=1.0), "spread must be left out for the median, got 1.0"),
        (
            lambda: Scaling(1.0, GRID, statistic="mean"),
            "spread must be given for the mean, got None",
        ),
        (
            lambda: audit_utility(lambda n, rng: np.full(n, -0.5), MeanBound(1.0)),
            r"in \[0, inf\], got \[-0.5\]; state its range",
        ),
        (
            lambda: audit_utility(lambda n, rng: np.full(n, 3.0), MeanBound(1.0, high=2.0)),
            r"in \[0, 2\], got \[3.\]",
        ),
        (lambda: MeanBound(math.inf), "bound must be a finite number, got inf"),
        (
            lambda: audit_utility(exponential, Scaling(1.0, GRID), runs=100),
            "runs must be a whole number, between 200 and",
        ),
        (
            lambda: audit_utility(exponential, 1.0),
            "claim must be a FailureBound, MeanBound or Scaling, got 1.0",
        ),
        (lambda: audit_utility(1.0, MeanBound(1.0)), "error must be callable, got 1.0"),
        (
            lambda: audit_utility(lambda n, rng: np.zeros(3), MeanBound(1.0)),
            "must return one number per run, shape",
        ),
        (
            lambda: audit_utility(lambda n, rng: np.full(n, np.nan), MeanBound(1.0)),
            "error must be a number, got nan in runs",
        ),
        (
            lambda: audit_utility(lambda n, rng: np.full(n, np.inf), MeanBound(1.0)),
            "error must be finite for a claim about its mean",
        ),
        (
            lambda: audit_utility(lambda v, n, rng: np.zeros(n), Scaling(1.0, GRID)),
            "error must be positive and finite for the regression",
        ),
    ],
)
def test_bad_arguments_are_named(build, message):
    with pytest.raises(InvalidArgument, match=message):
        build()
