"""Tests of features that combine columns: crosses, projections, and distances in coordinates
without correlation.
"""

import numpy as np
import pytest

from dpwitness import Pair, audit

PAIR = Pair(np.array([0.0]), np.array([1.0]))
MIXED = np.array([[1.0, 0.9], [0.9, 1.0]])


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


def radial(dataset, size, rng):
    """Return noise in two dimensions whose density falls with the norm, on a shift of 1."""
    angle, radius = rng.uniform(0, 2 * np.pi, size), rng.gamma(2, 1 / 3, size)
    return np.column_stack([radius * np.cos(angle) + dataset[0], radius * np.sin(angle)])


def strip(dataset, size, rng):
    """Return noise of which a thin strip is 41 times as probable on D1: epsilon is 3.7."""
    x = rng.standard_normal((size, 2)) * 3
    return np.where(
        (rng.random(size) < 0.01 * (1 + 40 * dataset[0]))[:, None] & np.array([True, False]),
        x * 0.003,
        x,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("run", "share"), [(radial, 0.97), (strip, 0.9)])
def test_correlated_columns_lose_little(run, share):
    def mixed(dataset, size, rng):
        return run(dataset, size, rng) @ MIXED

    assert bound(mixed, 60_000) > share * bound(run, 60_000) > 1
