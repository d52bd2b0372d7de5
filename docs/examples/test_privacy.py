import numpy as np
import pytest
from repaired import noisy_sum

import dpwitness as dpw
from dpwitness import mechanisms as m

PAIR = dpw.Pair(np.array([0.0]), np.array([1.0]))


def test_noisy_sum_keeps_epsilon_1(dp_audit):
    result = dp_audit(noisy_sum, claim="pure:1", pair=PAIR)
    assert result.detectable < 1.1  # the test could have seen what matters here


@pytest.mark.dp_audit(claim="pure:1")
def test_laplace():
    return m.Laplace(epsilon=1.0, arithmetic="grid")  # its domain says where to look


def test_noise_played_back(dp_trace):
    dp_trace(noisy_sum, PAIR, "pure:1")


def test_density(dp_audit):
    dp_audit(m.Gaussian(epsilon=1.0, delta=1e-5), white_box=True)


def test_a_mean_moves_by_a_quarter(dp_check):
    dp_check(dpw.audit_sensitivity(np.mean, 0.25, m.Records(size=4), evaluations=300))
