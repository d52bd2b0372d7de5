"""Tests of the first look at many pairs, with few runs of each."""

import numpy as np
import pytest

from dpwitness import Pair, Verdict, audit
from dpwitness.auditors.audit.pair_choice import score
from dpwitness.mechanisms import Records


def slow_leak(dataset, size, rng):
    """Epsilon is 1 on all pairs but those whose last record moves to the end of its range, where it
    is 9.
    """
    return np.clip(dataset, 0, 1).sum() + 8 * (dataset[-1] >= 10) + rng.laplace(0.0, 1.0, size)


def test_a_pair_on_which_the_mechanism_fails_is_left_out():
    from dpwitness.core.protocols import MechanismFailed

    def fails(dataset, size, rng):
        if (dataset == 5).all():
            raise MechanismFailed("no answer on equal records")
        return slow_leak(dataset, size, rng)

    result = audit(
        fails, claim="pure:1", domain=Records(10, 0.0, 10.0), trials=3000, seed=1, trace=False
    )
    assert result.verdict is Verdict.VIOLATED
    assert any("was left out: no answer on equal records" in note for note in result.notes)


@pytest.mark.parametrize("kind", ["shift", "atom", "structure"])
def test_the_score_orders_losses(kind):
    """With 40 outputs on each dataset, a large loss beats no loss in all of 50 repetitions; an
    overlap has probability below 1e-6.
    """
    rng = np.random.default_rng(0)
    for _ in range(50):
        same, base = rng.laplace(size=(40, 3)), rng.laplace(size=(40, 3))
        other = rng.laplace(size=(40, 3))
        if kind == "shift":
            other[:, 1] += 30
        elif kind == "atom":
            other[:, 1] = 0.0
        else:
            other[:, 0] = 1e12
        spread = np.ones(3)
        assert score(other, base, spread) > score(same, base, spread)


def test_a_rare_output_that_the_other_dataset_cannot_have_is_tested():
    """One of 24 pairs gives an output in one of 100 runs that its other dataset never gives. The
    others have a loss of .4 at most, which many runs show sooner.
    """

    def rarely(dataset, size, rng):
        number, moved = divmod(int(dataset[0]), 2)
        if number == 7:
            return (rng.random(size) < 0.01 * moved) * 1.0
        return (rng.random(size) < 0.4 + 0.02 * moved * (number % 8)) * 1.0

    pairs = [Pair(np.array([2.0 * k]), np.array([2.0 * k + 1])) for k in range(24)]
    result = audit(rarely, pair=pairs, claim="approx:1,1e-5", trials=100_000, seed=1, bits=False)
    assert result.verdict is Verdict.VIOLATED
    assert result.pair.d0 == 14
