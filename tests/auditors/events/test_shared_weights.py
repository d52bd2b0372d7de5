"""Weights that features share, the priors of groups, and the choice of thresholds with
few outputs.
"""

import numpy as np
import pytest

from dpwitness.auditors.events.outputs import TrainingSet, encode
from dpwitness.auditors.events.scorers import fit_model
from dpwitness.benchmarks.families import FAMILIES, members


def fitted(one, zero, rng):
    """Return the scorer that is fitted to outputs of both sides."""
    return fit_model(
        TrainingSet.build(encode(np.concatenate([one, zero]), len(one) + len(zero)), len(one), rng)
    )


def test_many_weak_bits_share_one_weight():
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 2, 50)

    def draw(side, size):
        return np.where(
            rng.random((size, 50)) < 0.54, bits if side else 1 - bits, 1 - bits if side else bits
        )

    model = fitted(draw(1, 3000), draw(0, 3000), rng)
    test = np.concatenate([draw(1, 2000), draw(0, 2000)])
    assert (
        np.corrcoef(model.score(encode(test, 4000).matrix()), (test == bits).sum(axis=1))[0, 1]
        > 0.97
    )


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_losses_of_families_are_exact(family):
    """E_Q[exp(L)] = E_P[exp(-L)] = 1, where the law's masses add to 1 on both sides."""
    for _, _, law in members(family, 1, 5):
        assert law.p.sum() == pytest.approx(1, abs=0.02) and law.q.sum() == pytest.approx(
            1, abs=0.02
        )
