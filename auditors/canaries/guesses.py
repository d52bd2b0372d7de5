"""Choice of the guessed canaries and of the guesses, from all scores and from the coins of canaries
that are not guessed.

The theorems let the guesser use any function of the released output, and the coins of canaries that
the guesser does not name. So the coins of the middle of all scores, where guesses are worst, and of
a few random other canaries are revealed. The revealed coins show how scores order canaries, and
cost only these canaries. A logistic regression with one slope on each side is fitted to the
revealed coins. The other canaries are named in the order of their fitted odds, most certain first.
Equal scores are ordered at random: their order in the caller's arrays depends on the coins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpwitness.core.protocols.mechanism import FloatArray

# shares of canaries with revealed coins: middle scores, and random canaries
_MIDDLE_SHARE, _RANDOM_SHARE = 0.55, 0.02
_MAX_FITTED = 20_000  # largest number of coins in the regression
# prior standard deviations: of the log-odds at the middle; of the slope, with prior mean 0.25; of
# the difference of the two sides' slopes
_PRIOR = np.array([0.02, 0.12, 0.02])
_CLIP = 12.0  # bound on log-odds, and on standardized distances from the middle


@dataclass(frozen=True, slots=True, eq=False)
class Guesses:
    """Canaries in the order in which they are guessed."""

    # indices of the canaries, most certain first, without canaries whose coins were revealed
    chosen: np.ndarray
    included: np.ndarray  # guess for each canary
    odds: FloatArray  # expected log-odds of each guess

    def right(self, coins: np.ndarray) -> np.ndarray:
        """Return the number of right guesses among the first r, for r = 0, 1, ..."""
        return np.concatenate([[0], np.cumsum(coins[self.chosen] == self.included)])

    def expected(self, factor: float = 1.0) -> FloatArray:
        """Return the expected number of right guesses among the first r if all fitted log-odds are
        multiplied by `factor`.
        """
        return np.concatenate([[0.0], np.cumsum(1 / (1 + np.exp(-factor * self.odds)))])


def ordered(scores: FloatArray, coins: np.ndarray, rng: np.random.Generator) -> Guesses:
    """Order canaries by the certainty of a guess about them. The guesses depend on `coins` only
    through the revealed coins.
    """
    shuffled = rng.permutation(scores.size)
    order = shuffled[np.argsort(scores[shuffled], kind="stable")]
    revealed = np.zeros(scores.size, dtype=bool)
    margin = int(scores.size * (1 - _MIDDLE_SHARE) / 2)
    revealed[order[margin : scores.size - margin]] = True
    revealed |= rng.random(scores.size) < _RANDOM_SHARE
    training = order[revealed[order]]
    features = _features(scores, order)
    sample = (
        rng.choice(training, _MAX_FITTED, replace=False)
        if training.size > _MAX_FITTED
        else training
    )
    odds = np.clip(features @ _fit(features[sample], coins[sample]), -_CLIP, _CLIP)
    remaining = shuffled[~revealed[shuffled]]
    chosen = remaining[np.argsort(-np.abs(odds[remaining]), kind="stable")]
    return Guesses(chosen, odds[chosen] > 0, np.abs(odds[chosen]))


def _features(scores: FloatArray, order: np.ndarray) -> FloatArray:
    """Return the features of each score: 1, the distance from the middle in units of the middle
    half, and the absolute distance.
    """
    n = scores.size
    low, middle, high = (scores[order[int(share * (n - 1))]] for share in (0.25, 0.5, 0.75))
    # few distinct values: otherwise guesses at the median would count as coin flips
    if low < high and middle in (low, high):
        middle = (low + high) / 2
    unit = 0.7413 * (high - low) or float(np.std(scores)) or 1.0
    distance = np.clip((scores - middle) / unit, -_CLIP, _CLIP)
    return np.stack([np.ones(n), distance, np.abs(distance)], axis=1)


def _fit(features: FloatArray, coins: np.ndarray) -> FloatArray:
    """Return the posterior mode of a logistic regression, by Newton's method."""
    center, precision = np.array([0.0, 0.25, 0.0]), 1 / _PRIOR**2
    mode = center.copy()
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(features @ mode, -30, 30)))
        gradient = features.T @ (coins - p) - precision * (mode - center)
        hessian = (features * (p * (1 - p))[:, None]).T @ features + np.diag(precision)
        step = np.linalg.solve(hessian, gradient)
        mode = mode + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return mode
