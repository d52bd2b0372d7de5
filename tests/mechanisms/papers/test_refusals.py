"""Parameters that the papers' mechanisms refuse: the message names the class, the parameter, the
rule and the value.
"""

import math

import numpy as np
import pytest
from numba import njit

from dpwitness import mechanisms as m
from dpwitness.mechanisms import InvalidArgument, Kernel, Loss
from dpwitness.mechanisms.papers.logistic import QuadraticPenalty

HINGE, LINEAR = Loss("hinge"), Loss("linear")
LEARNER = m.KernelLearner(Loss("logistic"), 0.1, 2, 4)
RADIAL = m.KernelLearner(HINGE, 1.0, 1, 1, Kernel("rbf"))
FOUR = m.LabelledVectors([[1.0, 0.0], [0.8, 0.1], [-0.3, 0.9], [0.6, 0.6]], [1.0, 1.0, -1.0, 1.0])
POINTS = np.array([[0.3, 0.1], [0.2, 0.4]])
REPAIRED = {"loss": Loss("huber"), "regularization": 1.0, "repaired": True}
EPSILON = "epsilon must be positive and finite, got 0.0"
NO_POINTS = "test_points must have at least one row of length 2, got shape (0, 2)"


@njit
def rule(t, points, answers, weights, z):
    z[0] = 0.3


ANSWERS = {"learner": LEARNER, "delta": 0.1, "test_points": POINTS}
GOOD = {
    m.LogisticObjectivePerturbation: {"epsilon": 1.0, "regularization": 0.1},
    m.LogisticOutputPerturbation: {"epsilon": 1.0, "regularization": 1.0},
    m.GLMOutputPerturbation: {"loss": HINGE, "epsilon": 1.0, "regularization": 1.0},
    m.GLMObjectivePerturbation: {"loss": LINEAR, "epsilon": 1.0},
    m.ConvexObjectivePerturbation: {
        "epsilon": 1.0,
        "kappa": 1.0,
        "loss": Loss("logistic"),
        "penalty": QuadraticPenalty(1.0),
    },
    QuadraticPenalty: {},
    Loss: {},
    m.PrivateRidge: {
        "epsilon": 1.0,
        "regularization": 0.1,
        "radius": 1.0,
        "label_bound": 1.0,
        "dimension": 1,
        "records": 3,
    },
    m.PrivateFTRL: {"epsilon": 1.0, "delta": 0.1, "bound": 1.0, "actions": 2, "horizon": 3},
    m.SimplexSampling: {
        "epsilon": 1.0,
        "regularization": 40.0,
        "loss": LINEAR,
        "dimension": 2,
        "records": 1,
    },
    m.PrivateInteractivePrediction: ANSWERS | {"epsilon": 1e4, "beta": 0.1, "norm_bound": 5.0},
    m.TestDataDependentLearner: ANSWERS | {"epsilon": 20.0},
    m.TestDataIndependentLearner: {
        "learner": LEARNER,
        "epsilon": 200.0,
        "delta": 0.5,
        "beta": 0.9,
        "units": "repaired",
    },
}


@pytest.mark.parametrize(
    ("build", "change", "text"),
    [
        (m.LogisticObjectivePerturbation, {"epsilon": 0.0}, EPSILON),
        (
            m.LogisticObjectivePerturbation,
            {"regularization": 0.0},
            "regularization must be positive and finite, got 0.0",
        ),
        (m.LogisticOutputPerturbation, {"noise": "laplace"}, "noise must be one of 'gamma', "),
        (
            m.GLMOutputPerturbation,
            {"regularization": None},
            "regularization must be positive and finite, got None",
        ),
        (
            m.GLMOutputPerturbation,
            {"delta": 1.0, "noise": "gaussian"},
            "delta must lie in (0, 1), got 1.0",
        ),
        (m.GLMOutputPerturbation, {"delta": 0.1}, "delta must be 0 for gamma noise, got 0.1"),
        (m.GLMObjectivePerturbation, {"loss": HINGE}, "loss must be differentiable, got 'hinge'"),
        (
            m.GLMObjectivePerturbation,
            {"loss": Loss("squared")},
            "loss must be 1.0-Lipschitz, got squared with constant inf",
        ),
        (
            m.GLMObjectivePerturbation,
            REPAIRED,
            "regularization must be at least 2 c_2 R^2/epsilon = 2.0 when repaired, got 1.0",
        ),
        (
            m.ConvexObjectivePerturbation,
            {"kappa": 0.5},
            "kappa must bound the slope of the loss, 1.0 for logistic, got 0.5",
        ),
        (m.ConvexObjectivePerturbation, {"loss": 3}, "loss must be a Loss, got 3"),
        (QuadraticPenalty, {"weight": 0.0}, "weight must be positive and finite, got 0.0"),
        (Loss, {"name": "log"}, "name must be one of 'logistic', 'hinge', "),
        (m.PrivateRidge, {"epsilon": 0.0}, EPSILON),
        (
            m.PrivateRidge,
            {"regularization": -0.1},
            "regularization must be non-negative and finite, got -0.1",
        ),
        (
            m.PrivateRidge,
            {"label_bound": math.inf},
            "label_bound must be positive and finite, got inf",
        ),
        (
            m.PrivateRidge,
            {"form": "fixed"},
            "form must be one of 'printed', 'repaired', got 'fixed'",
        ),
        (m.PrivateFTRL, {"epsilon": 0.0}, EPSILON),
        (m.PrivateFTRL, {"delta": 0.0}, "delta must lie in (0, 1), got 0.0"),
        (m.PrivateFTRL, {"horizon": 0}, "horizon must be a whole number, at least 1, got 0"),
        (m.PrivateFTRL, {"actions": 1}, "actions must be a whole number, at least 2, got 1"),
        (
            m.PrivateFTRL,
            {"lambda_rule": "log"},
            "lambda_rule must be one of 'printed', 'with_log_p', got 'log'",
        ),
        (
            m.SimplexSampling,
            {"regularization": 0.0},
            "regularization must be positive and finite, got 0.0",
        ),
        (m.SimplexSampling, {"delta": 1.5}, "delta must lie in (0, 1), got 1.5"),
        (
            m.SimplexSampling,
            {"draws": "approximate"},
            "delta must be given for draws='approximate', got None",
        ),
        (m.SimplexSampling, {"draws": 0}, "draws must be a whole number, at least 1, got 0"),
        (
            m.SimplexSampling,
            {"draws": "fixed"},
            "draws must be one of 'pure', 'approximate', 'approximate_repaired', got 'fixed'",
        ),
        (
            m.SimplexSampling,
            {"loss": HINGE},
            "loss must be a Loss with a bounded second derivative",
        ),
        (m.PrivateInteractivePrediction, {"beta": 1.0}, "beta must lie in (0, 1), got 1.0"),
        (
            m.PrivateInteractivePrediction,
            {"norm_bound": 0.0},
            "norm_bound must be positive and finite, got 0.0",
        ),
        (m.PrivateInteractivePrediction, {"test_points": np.zeros((0, 2))}, NO_POINTS),
        (
            m.PrivateInteractivePrediction,
            {"test_points": [[2.0, 0.0]]},
            "test_points must have finite rows of norm at most 1.0, got 2.0",
        ),
        (
            m.PrivateInteractivePrediction,
            {"test_points": [[np.nan, 0.0]]},
            "test_points must have finite rows of norm at most 1.0, got nan",
        ),
        (
            m.PrivateInteractivePrediction,
            {"rule": rule},
            "exactly one of test_points and rule must be given",
        ),
        (
            m.PrivateInteractivePrediction,
            {"test_points": None, "rule": print, "horizon": 3},
            "rule must be compiled with numba.njit",
        ),
        (
            m.PrivateInteractivePrediction,
            {"test_points": None, "rule": rule},
            "horizon must be a whole number, at least 1, got None",
        ),
        (
            m.PrivateInteractivePrediction,
            {"constants": "fixed"},
            "constants must be one of 'printed', 'theorem9', 'repaired', got 'fixed'",
        ),
        (
            m.TestDataDependentLearner,
            {"constant": 0.0},
            "constant must be positive and finite, got 0.0",
        ),
        (
            m.TestDataDependentLearner,
            {"release": "all"},
            "release must be one of 'answers', 'weights', got 'all'",
        ),
        (m.TestDataDependentLearner, {"test_points": np.zeros((0, 2))}, NO_POINTS),
        (
            m.TestDataDependentLearner,
            {"norm_bound": -1.0},
            "norm_bound must be positive and finite, got -1.0",
        ),
        (
            m.TestDataIndependentLearner,
            {"units": "natural"},
            "units must be one of 'printed', 'repaired', got 'natural'",
        ),
        (m.TestDataIndependentLearner, {"epsilon": 20.0}, "B must be at least one round, got 0."),
        (
            m.TestDataIndependentLearner,
            {"learner": RADIAL, "epsilon": 1e6},
            "learner must have the linear kernel, got rbf",
        ),
    ],
)
def test_a_parameter_out_of_its_range_is_refused(build, change, text):
    with pytest.raises(InvalidArgument) as caught:
        build(**(GOOD[build] | change))
    assert str(caught.value).startswith(f"{build.__name__}: {text}")


@pytest.mark.parametrize("build", [m.PrivateRidge, m.TestDataDependentLearner])
def test_rounded_outputs_are_the_same_outputs_on_a_grid_and_have_no_density(build):
    data = (
        m.LabelledVectors([[0.3], [-0.9], [1.0]], [0.5, 1.0, -0.3])
        if build is m.PrivateRidge
        else FOUR
    )
    plain, rounded = (
        build(**GOOD[build], grid=grid).sample(data, 1000, np.random.default_rng(16))
        for grid in (0.0, 2.0**-6)
    )
    assert (
        np.all(rounded * 64 == np.rint(rounded * 64)) and np.abs(rounded - plain).max() <= 2.0**-7
    )
    assert not hasattr(build(**GOOD[build], grid=0.1), "log_density")


RIDGE = m.PrivateRidge(1.0, 0.1, 1.0, 1.0, 1, 3)
GAME = m.PrivateFTRL(1.0, 0.1, 1.0, 2, 3)
SIMPLEX = m.SimplexSampling(1.0, 40.0, Loss("logistic"), 2, 1, draws=3)
AVERAGING = m.MirrorAveraging(RIDGE, 3, [[0.5]], [0.1], 2.0)
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: RIDGE.sample(m.LabelledVectors([[2.0]], [0.0], [3]), 1, RNG),
            "PrivateRidge: x must lie in the ball of radius 1.0, got norm 2.0 in row 0",
        ),
        (
            lambda: RIDGE.sample(m.LabelledVectors([[1.0]], [2.0], [3]), 1, RNG),
            "PrivateRidge: dataset must have labels in [-1.0, 1.0], got 2.0",
        ),
        (
            lambda: RIDGE.sample(m.LabelledVectors([[1.0]], [0.0], [4]), 1, RNG),
            "PrivateRidge: dataset must hold 3 records, got 4",
        ),
        (
            lambda: RIDGE.sample(m.LabelledVectors([[0.3, 0.2]], [0.5], [3]), 1, RNG),
            "PrivateRidge: dataset must have vectors of length 1, got 2",
        ),
        (
            lambda: m.MirrorAveraging(RIDGE, 0, [[0.5]], [0.1], 2.0),
            "MirrorAveraging: organisations must be a whole number, at least 1, got 0",
        ),
        (
            lambda: AVERAGING.sample(m.Organisations((FOUR,)), 1, RNG),
            "MirrorAveraging: dataset must hold 3 organisations, got 1",
        ),
        (
            lambda: GAME.sample(m.LinearCosts(np.zeros((2, 2))), 1, RNG),
            "PrivateFTRL: dataset must hold 3 costs of 2 actions, got shape (2, 2)",
        ),
        (
            lambda: GAME.sample(m.LinearCosts(np.full((3, 2), 2.0)), 1, RNG),
            "PrivateFTRL: dataset must have entries in [-1.0, 1.0], got 2.0",
        ),
        (
            lambda: SIMPLEX.minimiser(m.LabelledVectors([[2.0, 0.0]], [1.0])),
            "SimplexSampling: x must lie in the ball of radius 1.0, got norm 2.0 in row 0",
        ),
        (
            lambda: SIMPLEX.minimiser(m.LabelledVectors([[1.0, 1.0]], [0.5])),
            "SimplexSampling: y must be -1 or +1, got 0.5 in row 0",
        ),
        (
            lambda: m.KernelLearner(Loss("squared"), 1.0, 1, 1),
            "KernelLearner: loss must be a Loss that is Lipschitz for every prediction, got Loss(",
        ),
        (
            lambda: LEARNER.fit(m.LabelledVectors([[1.0, 0.0]], [0.5], [4])),
            "KernelLearner: y must be -1 or +1, got 0.5 in row 0",
        ),
        (
            lambda: LEARNER.fit(m.LabelledVectors([[1.0, 0.0]], [1.0])),
            "KernelLearner: dataset must hold 4 records, got 1",
        ),
    ],
)
def test_a_dataset_that_does_not_fit_is_refused(call, text):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value).startswith(text)
