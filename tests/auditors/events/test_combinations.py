"""Tests of features that combine columns: crosses, projections, and distances in coordinates
without correlation.
"""

import numpy as np
import pytest

from dpwitness import Pair, audit

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def bound(run, trials, seed=1):
    return audit(
        run,
        claim="pure:1",
        pair=PAIR,
        trials=trials,
        seed=seed,
        bits=False,
        trace=False,
        stop="never",
    ).epsilon_lower


@pytest.mark.slow_cases("6000")
@pytest.mark.parametrize("trials", [3_000, 6_000])
def test_answers_that_go_together_are_found(trials):
    """Each column alone has the same law on both datasets; the sign of one agrees with that of the
    other on D1 only.
    """

    def run(dataset, size, rng):
        coin = np.where(rng.random(size) < 0.5, -1.0, 1.0)
        return np.column_stack(
            [coin if dataset[0] else -coin, coin * (1 + rng.random(size)), rng.random(size)]
        )

    assert bound(run, trials) > 3
