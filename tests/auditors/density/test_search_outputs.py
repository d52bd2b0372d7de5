"""The output that betrays most: exact losses, singular points, rays to infinity, impossible
outputs. Reference values from the algebra.
"""

import math

import numpy as np
import pytest

from dpwitness import mechanisms as m
from dpwitness.auditors.density.search import worst_output


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
