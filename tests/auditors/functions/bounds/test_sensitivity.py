"""Sensitivity of minimisers and of values of any type: ratios of the ledger (CM-04, JK-01 to JK-03,
JT-10), and rounding.
"""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpwitness import mechanisms as m
from dpwitness.auditors.functions.bounds.sensitivity import (
    audit_sensitivity,
    feature_distance,
    sensitivity_at,
)
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.datasets.pairs import Pair

SHORT = {"evaluations": 1000, "seconds": 60.0}


@pytest.mark.slow
def test_halved_regulariser_is_violated_by_two():
    """JK-02, the mutation: equation (1) as printed has twice the sensitivity of (3)."""
    learner = m.KernelLearner(m.Loss("absolute"), 1.0, 2, 1, label_bound=10.0, equation=1)
    result = audit_sensitivity(
        learner.fit, learner.weight_sensitivity, learner.domain, feature_distance, **SHORT
    )
    assert result.verdict is Verdict.VIOLATED
    assert result.ratio == pytest.approx(2.0, abs=1e-6)
    assert result.headline().startswith("VIOLATED: the function moves by 2 times the claimed 2")


@pytest.mark.parametrize(
    ("regularization", "loss", "dimension", "records", "least", "most"),
    [(4.0, "linear", 2, 10**4, 0.999, 1 + 1e-9), (50.0, "huber", 3, 100, 0.05, 1.0)],
)
def test_log_ratio_of_the_entropic_minimiser(regularization, loss, dimension, records, least, most):
    """JT-10: 4 L R/lambda is approached by costs among common ones that make a coordinate rare.
    JT-11: (L R/lambda)(4 + 2x) has slack.
    """
    sampling = m.SimplexSampling(1.0, regularization, m.Loss(loss), dimension, records, draws=1)
    smooth = 2 * sampling.smoothness_ratio if loss == "huber" else 0.0
    bound = sampling.lipschitz * sampling.bound / regularization * (4 + smooth)
    result = audit_sensitivity(
        lambda d: sampling.minimiser(d).log_theta, bound, sampling.domain, math.inf, **SHORT
    )
    assert result.verdict is Verdict.NOT_REFUTED and least <= result.ratio <= most


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_norms_of_answers(norm):
    """The identity on four answers moves by 4, 2 or 1."""
    exact = {1: 4.0, 2: 2.0, math.inf: 1.0}[norm]
    result = audit_sensitivity(lambda d: d, exact, m.Answers(4), norm, evaluations=300)
    assert result.ratio == pytest.approx(1.0, abs=1e-9) and result.verdict is Verdict.NOT_REFUTED
    assert (
        audit_sensitivity(lambda d: d, 0.999 * exact, m.Answers(4), norm, evaluations=300).verdict
        is Verdict.VIOLATED
    )


def test_radius_decides_near_the_bound():
    """A ratio of 1.01 within an error of 2 % refutes nothing; within 0.1 % it does."""
    loose = audit_sensitivity(lambda d: (1.01 * d[0], 0.01), 1.0, m.Records(1), evaluations=200)
    tight = audit_sensitivity(lambda d: (1.01 * d[0], 0.0005), 1.0, m.Records(1), evaluations=200)
    assert loose.verdict is Verdict.NOT_REFUTED and loose.ratio_lower == pytest.approx(0.99)
    assert tight.verdict is Verdict.VIOLATED and tight.ratio_lower == pytest.approx(1.009)
    assert tight.ratio_upper == pytest.approx(1.011)


@pytest.mark.parametrize("most", [0.9, -1.0])
def test_solver_that_fails_is_counted_and_one_that_always_fails_is_an_error(most):
    def function(dataset):
        if dataset[0] > most:
            raise m.ConvergenceError("step 7 of 7")
        return dataset[0]

    result = audit_sensitivity(function, 1.0, m.Records(1), evaluations=500)
    if most < 0:
        assert result.verdict is Verdict.ERROR and result.to_json()["ratio"] == "nan"
        assert "converged on none of" in result.headline() and "step 7 of 7" in result.headline()
        return
    assert result.verdict is Verdict.NOT_REFUTED and result.skipped > 0
    assert result.notes[0].endswith("evaluations skipped: step 7 of 7")
    assert 0.85 < result.ratio <= 0.9


def test_results_say_what_they_are():
    result = audit_sensitivity(np.mean, 0.25, m.Records(4), evaluations=300, name="the mean")
    assert result.name == "the mean" and result.to_json()["verdict"] == "NOT_REFUTED"
    assert result.to_json()["pair"]["relation"] == "replace-one"
    with pytest.raises(TypeError, match="not a truth value"):
        bool(result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.mean, 0.0, m.Records(2)), "claimed_bound must be positive and finite, got 0.0"),
        ((np.mean, 1.0, m.Records(2), 3), "norm must be 1, 2, inf or a distance function, got 3"),
        (("mean", 1.0, m.Records(2)), "function must be callable, got 'mean'"),
        ((np.mean, 1.0, "Records"), "domain must be one of Answers"),
        ((lambda d: "text", 1.0, m.Records(2)), "function must give a vector of numbers, got str"),
        (
            (lambda d: math.nan, 1.0, m.Records(2)),
            "function must give finite values, got a difference of nan",
        ),
        (
            (lambda d: (1.0, -1.0), 1.0, m.Records(2)),
            "function must give a finite error radius, at least 0, got -1.0",
        ),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(m.InvalidArgument, match=message):
        audit_sensitivity(*arguments, evaluations=50)


PAIR = Pair(np.array([0.0, 0.5]), np.array([1.0, 0.5]), "replace-one")
ROUNDED = {
    "float32": (lambda d: np.float32(1000.1 + 0.3 * d[0]), 0.3),
    "float32 as float": (lambda d: float(np.float32(1000.1 + 0.3 * d[0])), 0.3),
    "float16": (lambda d: np.float16(100.1 + 0.3 * d[0]), 0.3),
    "mixed": (lambda d: [np.float32(1000.1 + 0.3 * d[0]), 0.0], 0.3),
}
EXCESS = {
    "float32": (lambda d: np.float32(0.3 + 0.3 * d[0]), 0.2999),
    "whole numbers": (lambda d: 10_000_001 * int(d[0]), 10_000_000),
    "large whole numbers": (lambda d: 2**60 + int(d[0]), 0.5),
    "whole numbers beyond floats": (lambda d: [10**400 + int(d[0])], 0.5),
    "fractions": (lambda d: Fraction(10**30, 3) + Fraction(int(d[0])), 0.5),
    "decimals": (lambda d: [Decimal(10**20) + Decimal(int(d[0]))], 0.5),
    "unsigned": (lambda d: np.uint8(3 - 3 * int(d[0])), 2.0),
    "longdouble": (lambda d: np.longdouble(d[0]), 0.99),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_an_excess_within_rounding_is_a_note(name):
    function, bound = ROUNDED[name]
    moved = abs(float(np.ravel(function(PAIR.d1))[0]) - float(np.ravel(function(PAIR.d0))[0]))
    found = sensitivity_at(function, min(bound, moved * (1 - 1e-5)), PAIR)
    assert found.verdict is Verdict.NOT_REFUTED and "within the rounding of float" in found.notes[0]
    assert "units in the last place of float" in found.headline()


@pytest.mark.parametrize("name", EXCESS)
def test_a_real_excess_is_violated(name):
    function, bound = EXCESS[name]
    assert sensitivity_at(function, bound, PAIR).verdict is Verdict.VIOLATED
