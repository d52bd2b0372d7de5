"""The output that betrays most: exact losses, singular points, rays to infinity, impossible outputs. Reference values from the algebra."""

import math

import numpy as np
import pytest

from dpwitness.auditors.privacy_loss.search import worst_output
from dpwitness.mechanisms import (
    GLMObjectivePerturbation,
    GLMOutputPerturbation,
    InvalidArgument,
    KernelLearner,
    LabelledVectors,
    Laplace,
    LinearCosts,
    LogisticObjectivePerturbation,
    LogisticOutputPerturbation,
    Loss,
    Pair,
    PrivateFTRL,
    PrivateInteractivePrediction,
    PrivateRidge,
    SimplexSampling,
    TestDataDependentLearner,
    zoo,
)

E1 = LabelledVectors([[1.0, 0.0]], [1.0]), LabelledVectors([[-1.0, 0.0]], [1.0])


def test_loss_of_objective_perturbation_in_one_dimension():
    """W3: maximise eps/2 (|b'| - |b|) + log(1 + s (1 - s)/(n lambda)) over w by a fine grid, independently of the mechanism."""
    mechanism = LogisticObjectivePerturbation(0.1, 0.1, dimension=1)
    worst = worst_output(mechanism, mechanism.worst_pair())
    w = np.linspace(-5, 5, 2_000_001)
    s = 1 / (1 + np.exp(w))
    loss = -0.05 * (np.abs(-0.1 * w + s) - np.abs(-0.1 * w)) + np.log1p(s * (1 - s) / 0.1)
    assert worst.loss == pytest.approx(np.abs(loss).max(), abs=1e-9)
    assert worst.output[0] == pytest.approx(0.0630, abs=1e-3)
    assert worst.kind == "attained" and worst.likelier == 0


@pytest.mark.parametrize("dimension", [1, 3])
def test_jump_of_the_huber_hessian(dimension):
    """W15: 1 + ln 1.5 is approached at the edge of the quadratic part."""
    mechanism = GLMObjectivePerturbation(loss=Loss("huber"), epsilon=1.0, dimension=dimension)
    worst = worst_output(mechanism, mechanism.worst_pair())
    assert worst.loss == pytest.approx(1 + math.log(1.5), abs=1e-3)
    assert worst.loss <= 1 + math.log(1.5) + 1e-9


@pytest.mark.parametrize("dimension", [2, 3, 10])
@pytest.mark.parametrize("noise", ["laplace_radius_std", "laplace_radius_scale"])
@pytest.mark.parametrize("mechanism", [LogisticOutputPerturbation, LogisticObjectivePerturbation])
def test_printed_noise_is_singular_at_the_minimiser(mechanism, noise, dimension):
    """W1: infinite at the minimiser of one dataset; for n = 1, lambda w = sig(-w)."""
    target = mechanism(1.0, 0.1, noise=noise, dimension=dimension)
    first, second = (LabelledVectors([sign * np.eye(1, dimension)[0]], [1.0]) for sign in (1.0, -1.0))
    worst = worst_output(target, Pair(first, second))
    assert worst.loss == math.inf and worst.kind == "singularity"
    w = abs(worst.output[0])
    assert 0.1 * w == pytest.approx(1 / (1 + math.exp(w)), abs=1e-9)
    assert np.abs(worst.output[1:]).max() < 1e-9
    assert "infinity" in worst.describe()


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_gamma_noise_is_not_taken_for_singular(dimension):
    """Rate eps n lambda/2 times the distance 2 |w*|, lambda |w*| = sig(-|w*|): reached on a ray, bounded, never above."""
    mechanism = LogisticOutputPerturbation(1.0, 1.0, dimension=dimension)
    first, second = (LabelledVectors([sign * np.eye(1, dimension)[0]], [1.0]) for sign in (1.0, -1.0))
    worst = worst_output(mechanism, Pair(first, second))
    assert worst.loss == pytest.approx(0.401058138, abs=1e-6)
    assert worst.loss <= 0.401058138 + 1e-9


def test_ray_of_the_unconstrained_ridge_estimate():
    """W12: without the constraint the loss grows linearly in the tail."""
    mechanism = PrivateRidge(1.0, 0.1, 1.0, 1.0, 2, 1)
    worst = worst_output(mechanism, mechanism.worst_pair())
    assert worst.loss == math.inf and worst.kind == "ray"
    assert abs(worst.ray[0]) > 0.9


def test_ray_of_gaussian_noise():
    """The loss of a Gaussian shift is linear in the output."""
    mechanism = GLMOutputPerturbation(loss=Loss("hinge"), epsilon=1.0, delta=1e-5, noise="gaussian", dimension=2, regularization=1.0)
    worst = worst_output(mechanism, Pair(*E1))
    assert worst.loss == math.inf and worst.kind == "ray"


@pytest.mark.parametrize("name", sorted(name for name in zoo() if not name.startswith("gaussian")))
def test_zoo_reaches_its_truth_and_not_more(name):
    """On the worst pair of each specimen the exact epsilon is the one proved."""
    specimen = zoo()[name]
    worst = worst_output(specimen, specimen.worst_pair())
    truth = specimen.truth.parameter
    if math.isinf(truth):
        assert worst.loss == math.inf and worst.kind == "impossible"
    else:
        assert worst.loss <= truth * (1 + 1e-9)
        assert worst.loss >= truth * (1 - 1e-6)


def test_vertices_of_frequencies_too_many_to_list():
    """JT-10 for m draws: all m on the rare index, which samples do not show."""
    mechanism = SimplexSampling(1.0, 4.0, Loss("linear"), dimension=4, records=1, draws=2000)
    worst = worst_output(mechanism, mechanism.worst_pair())
    assert worst.loss == pytest.approx(mechanism.truth.parameter, rel=1e-9)


def test_products_of_actions_too_many_to_list():
    """FTRL with T = 40: at odds e^(+-2R/lambda) the loss of every later round adds up to at most (T - 1) 2R/lambda for p = 2."""
    mechanism = PrivateFTRL(1.0, 1e-5, 1.0, 2, 40)
    worst = worst_output(mechanism, mechanism.worst_pair())
    assert worst.loss == pytest.approx(39 * 2 / mechanism.regularization, rel=1e-9)
    assert isinstance(mechanism.worst_pair().d0, LinearCosts)


def test_answers_to_the_same_question_compose():
    """JK-10: ten Laplace answers about one point, each at 2/sqrt(T log(1/delta)): the pure loss is their sum."""
    learner = KernelLearner(Loss("absolute"), 1.0, 1, 1000)
    mechanism = TestDataDependentLearner(learner, 1.0, 1e-3, [[1.0]] * 10, constant=1.0)
    worst = worst_output(mechanism, mechanism.worst_pair())
    assert worst.loss == pytest.approx(10 * 2 / math.sqrt(10 * math.log(1000)), rel=1e-6)


def test_answers_that_no_sample_shows():
    """PINP: a noisy answer has probability 1e-5 or less; the loss of one, epsilon_0 times the shift, is found all the same."""
    learner = KernelLearner(Loss("absolute"), 1.0, 1, 10**5)
    mechanism = PrivateInteractivePrediction(learner, 1.0, 1e-3, 0.1, 1.0, test_points=np.array([[1.0]] * 3))
    pair = mechanism.worst_pair()
    worst = worst_output(mechanism, pair)
    shift = abs(float(learner.fit(pair.d0)(np.array([[1.0]]))[0] - learner.fit(pair.d1)(np.array([[1.0]]))[0]))
    assert worst.loss >= 0.99 * shift * mechanism.answer_epsilon > 0


def test_log_density_that_is_nan_is_named():
    class Broken(Laplace):
        def log_density(self, outputs, dataset):
            return np.where(outputs[:, 0] > 0, np.nan, -1.0)

    with pytest.raises(InvalidArgument, match="log_density must be a number, got nan on D0 at"):
        worst_output(Broken(1.0), Pair(np.array([0.0]), np.array([1.0])))


def test_mechanism_without_density_is_refused():
    class Plain:
        def sample(self, dataset, size, rng):
            return np.zeros((size, 1))

    with pytest.raises(InvalidArgument, match="mechanism must offer log_density, got Plain"):
        worst_output(Plain(), Pair(np.array([0.0]), np.array([1.0])))


def test_outputs_that_are_no_numbers_are_refused():
    class Words(Laplace):
        def sample(self, dataset, size, rng):
            return ["a"] * size

    with pytest.raises(InvalidArgument, match="mechanism must give rows of numbers"):
        worst_output(Words(1.0), Pair(np.array([0.0]), np.array([1.0])))
