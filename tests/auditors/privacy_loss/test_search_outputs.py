"""The output that betrays most: exact losses, singular points, rays to infinity, impossible
outputs. Reference values from the algebra.
"""

import math

import numpy as np
import pytest

from dpwitness import mechanisms as m
from dpwitness.auditors.density.search import worst_output

E1 = m.LabelledVectors([[1.0, 0.0]], [1.0]), m.LabelledVectors([[-1.0, 0.0]], [1.0])


def test_loss_of_objective_perturbation_in_one_dimension():
    """W3: maximise eps/2 (|b'| - |b|) + log(1 + s (1 - s)/(n lambda)) over w by a fine grid,
    independently of the mechanism.
    """
    mechanism = m.LogisticObjectivePerturbation(0.1, 0.1, dimension=1)
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
    mechanism = m.GLMObjectivePerturbation(loss=m.Loss("huber"), epsilon=1.0, dimension=dimension)
    worst = worst_output(mechanism, mechanism.worst_pair())
    assert worst.loss == pytest.approx(1 + math.log(1.5), abs=1e-3)
    assert worst.loss <= 1 + math.log(1.5) + 1e-9


@pytest.mark.parametrize("dimension", [2, 3, 10])
@pytest.mark.parametrize("noise", ["laplace_radius_std", "laplace_radius_scale"])
@pytest.mark.parametrize(
    "mechanism", [m.LogisticOutputPerturbation, m.LogisticObjectivePerturbation]
)
def test_printed_noise_is_singular_at_the_minimiser(mechanism, noise, dimension):
    """W1: infinite at the minimiser of one dataset; for n = 1, lambda w = sig(-w)."""
    target = mechanism(1.0, 0.1, noise=noise, dimension=dimension)
    first, second = (
        m.LabelledVectors([sign * np.eye(1, dimension)[0]], [1.0]) for sign in (1.0, -1.0)
    )
    worst = worst_output(target, m.Pair(first, second))
    assert worst.loss == math.inf and worst.kind == "singularity"
    w = abs(worst.output[0])
    assert 0.1 * w == pytest.approx(1 / (1 + math.exp(w)), abs=1e-9)
    assert np.abs(worst.output[1:]).max() < 1e-9
    assert "infinity" in worst.describe()


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_gamma_noise_is_not_taken_for_singular(dimension):
    """Rate eps n lambda/2 times the distance 2 |w*|, lambda |w*| = sig(-|w*|): reached on a ray,
    bounded, never above.
    """
    mechanism = m.LogisticOutputPerturbation(1.0, 1.0, dimension=dimension)
    first, second = (
        m.LabelledVectors([sign * np.eye(1, dimension)[0]], [1.0]) for sign in (1.0, -1.0)
    )
    worst = worst_output(mechanism, m.Pair(first, second))
    assert worst.loss == pytest.approx(0.401058138, abs=1e-6)
    assert worst.loss <= 0.401058138 + 1e-9


RIDGE = m.PrivateRidge(1.0, 0.1, 1.0, 1.0, 2, 1)
SHIFTED = m.GLMOutputPerturbation(
    loss=m.Loss("hinge"), epsilon=1.0, delta=1e-5, noise="gaussian", dimension=2, regularization=1.0
)


@pytest.mark.parametrize(
    ("mechanism", "pair"),
    [(RIDGE, RIDGE.worst_pair()), (SHIFTED, m.Pair(*E1))],
    ids=["ridge", "gaussian"],
)
def test_losses_that_are_linear_in_the_output_have_a_ray(mechanism, pair):
    """W12, the ridge estimate without its constraint, and a Gaussian shift."""
    worst = worst_output(mechanism, pair)
    assert worst.loss == math.inf and worst.kind == "ray" and abs(worst.ray[0]) > 0.9


@pytest.mark.parametrize(
    "name", sorted(name for name in m.zoo() if not name.startswith("gaussian"))
)
def test_zoo_reaches_its_truth_and_not_more(name):
    """On the worst pair of each specimen the exact epsilon is the one proved."""
    specimen = m.zoo()[name]
    worst = worst_output(specimen, specimen.worst_pair())
    truth = specimen.truth.parameter
    if math.isinf(truth):
        assert worst.loss == math.inf and worst.kind == "impossible"
    else:
        assert worst.loss <= truth * (1 + 1e-9)
        assert worst.loss >= truth * (1 - 1e-6)


FTRL = m.PrivateFTRL(1.0, 1e-5, 1.0, 2, 40)
ANSWERS = m.TestDataDependentLearner(
    m.KernelLearner(m.Loss("absolute"), 1.0, 1, 1000), 1.0, 1e-3, [[1.0]] * 10, constant=1.0
)
LONG = {  # outputs that no sample shows and no list holds
    "JT-10, all draws on the rare index": (
        m.SimplexSampling(1.0, 4.0, m.Loss("linear"), dimension=4, records=1, draws=2000),
        None,
    ),
    "every round after the first adds 2R/lambda": (FTRL, 39 * 2 / FTRL.regularization),
    "JK-10, ten Laplace answers about one point": (
        ANSWERS,
        10 * 2 / math.sqrt(10 * math.log(1000)),
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_losses_of_long_outputs_add_up(name):
    mechanism, loss = LONG[name]
    worst = worst_output(mechanism, mechanism.worst_pair())
    assert worst.loss == pytest.approx(
        loss or mechanism.truth.parameter, rel=1e-6 if mechanism is ANSWERS else 1e-9
    )


def test_answers_that_no_sample_shows():
    """PINP: a noisy answer has probability 1e-5 or less; the loss of one, epsilon_0 times the
    shift, is found all the same.
    """
    learner = m.KernelLearner(m.Loss("absolute"), 1.0, 1, 10**5)
    mechanism = m.PrivateInteractivePrediction(
        learner, 1.0, 1e-3, 0.1, 1.0, test_points=np.array([[1.0]] * 3)
    )
    pair = mechanism.worst_pair()
    worst = worst_output(mechanism, pair)
    shift = abs(
        float(
            learner.fit(pair.d0)(np.array([[1.0]]))[0] - learner.fit(pair.d1)(np.array([[1.0]]))[0]
        )
    )
    assert worst.loss >= 0.99 * shift * mechanism.answer_epsilon > 0


@pytest.mark.parametrize(
    ("base", "method", "message"),
    [
        (
            m.Laplace,
            {
                "log_density": lambda self, outputs, dataset: np.where(
                    outputs[:, 0] > 0, np.nan, -1.0
                )
            },
            "log_density must be a number, got nan on D0 at",
        ),
        (
            object,
            {"sample": lambda self, dataset, size, rng: np.zeros((size, 1))},
            "mechanism must offer log_density, got Mine",
        ),
        (
            m.Laplace,
            {"sample": lambda self, dataset, size, rng: ["a"] * size},
            "mechanism must give rows of numbers",
        ),
    ],
)
def test_mechanisms_without_a_loss_are_refused(base, method, message):
    mechanism = type("Mine", (base,), method)(*([1.0] if base is m.Laplace else []))
    with pytest.raises(m.InvalidArgument, match=message):
        worst_output(mechanism, m.Pair(np.array([0.0]), np.array([1.0])))
