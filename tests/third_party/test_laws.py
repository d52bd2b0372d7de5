"""Exact laws of third-party mechanisms against closed forms."""

import math

import pytest

from dpwitness.auditors.density import known_laws as reference_laws
from dpwitness.benchmarks.libraries import laws as law


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
