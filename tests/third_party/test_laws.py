"""Exact laws of third-party mechanisms against closed forms."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from dpwitness.auditors.density import limit as reference_laws
from dpwitness.benchmarks.libraries import laws as law
from dpwitness.core.datasets.pairs import Pair


def rows(*entries):
    return np.array(entries, dtype=float)


@pytest.mark.parametrize("shift", [0.1, 1.0, -1.0, 3.0])
def test_laplace(shift):
    found = reference_laws.laplace(shift)
    assert (found.loss[0], found.loss[-1]) == (
        pytest.approx(-abs(shift)),
        pytest.approx(abs(shift)),
    )
    # total variation
    assert found.hockey_stick(0.0) == pytest.approx(1 - math.exp(-abs(shift) / 2), abs=1e-6)


def test_gaussian():
    """The deviation of the analytic Gaussian mechanism for (1, 1e-5) gives that delta back."""
    assert reference_laws.gaussian(1 / 3.73063).hockey_stick(1.0) == pytest.approx(1e-5, rel=1e-3)


def test_discrete_laplace():
    assert reference_laws.discrete_laplace(1).loss[-1] == pytest.approx(1.0)
    assert reference_laws.discrete_laplace(1, -1).loss[-1] == pytest.approx(2.0)


def test_responses():
    assert law.response(4, 1.0)(None).loss[-1] == pytest.approx(1.0)
    p, q = 1 / (1 + math.exp(-0.25)), 1 / (1 + math.exp(0.25))
    assert law.unary_encoding_law(p, q)(None).loss[-1] == pytest.approx(0.5)
    # as in release 1.1.2
    assert law.unary_encoding_law(1 - (1 - p) * (1 - q), q)(None).loss[-1] == pytest.approx(
        1.3694, abs=1e-4
    )


def test_tree():
    one = Pair(rows([0, 0], [0, 0]), rows([0, 0], [0, 1]))
    found = law.decision_tree(one)
    assert max(-found.loss[0], found.loss[-1]) == pytest.approx(2.0)
    # a random threshold may part the rows
    assert law.decision_tree(Pair(rows([0, 0], [0.5, 0]), rows([0, 0], [0.5, 1]))) is None


def test_logistic_regression():
    """The Hessian grows from the extra weight by R^2 / 4 at w = 0, and the noise pays for the moved
    gradient over its scale 4 R.
    """
    found = law.logistic_regression(Pair(rows([0, 0], [0, 1]), rows([0, 0], [100, 1])))
    w, weight = np.linspace(-0.05, 0.05, 20_001), 25 / math.expm1(0.25)
    share = 1 / (1 + np.exp(-100 * w))
    moved, base = 100 * (share - 1) + weight * w, weight * w
    loss = np.log1p(1e4 * share * (1 - share) / weight) - (np.abs(moved) - np.abs(base)) / 400
    assert found.loss[-1] == pytest.approx(loss.max(), abs=1e-4)
    assert found.p.sum() == pytest.approx(1) and found.q.sum() == pytest.approx(1)


def test_linear_regression_without_a_change_loses_nothing():
    same = rows(*[[0.1, 1]] * 20)
    # no `Pair`: it refuses identical datasets
    found = law.linear_regression(SimpleNamespace(d0=same, d1=same.copy()))
    assert np.abs(found.loss).max() == 0
    moved = same.copy()
    moved[0, 0] = 1.0
    far = law.linear_regression(Pair(same, moved))
    assert far.hockey_stick(1.0) > 0.2
