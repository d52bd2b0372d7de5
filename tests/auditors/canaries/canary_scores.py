"""Scores of canaries whose law is known."""

import numpy as np
from scipy.special import expit


def normal_scores(seed, size, shift):
    """Return scores N(shift, 1) of the included and N(0, 1) of the excluded among
    `size` canaries.
    """
    rng = np.random.default_rng(seed)
    coins = rng.random(size) < 0.5
    scores = rng.normal(size=size) + shift * coins
    return scores[coins], scores[~coins]


def leaking_response(rng, coins, epsilon, delta):
    """Return scores 1 and -1 of randomized response; with probability delta, 3 or -3, which reveal
    the coin.
    """
    answers = np.where(rng.random(coins.size) < expit(epsilon), coins, ~coins)
    return np.where(
        rng.random(coins.size) < delta, np.where(coins, 3.0, -3.0), np.where(answers, 1.0, -1.0)
    )
