"""Which canaries are guessed, and how: from all scores, and from the coins of canaries that are not guessed.

The theorems let the guesser use any function of what was released, and the coins of canaries that it does not name. So the coins of the
middle of all scores, where guesses are worst, and of a few others drawn at random, are given away: they tell how scores order canaries, and
cost nothing but these canaries. A logistic regression with a slope on each side is fitted to them. The rest are named in the order of their
odds, most certain first. Equal scores are ordered at random: their order in the caller's arrays knows the coins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpwitness.mechanisms.terms.protocol import FloatArray

_MIDDLE, _OTHERS = 0.55, 0.02  # shares of the canaries whose coins are given away: the middle scores, and of the others
_FITTED = 20_000  # coins that the regression looks at, at most
_PRIOR = np.array(
    [0.02, 0.12, 0.02]
)  # standard deviations: of log-odds at the middle; of the slope, which is 0.25 before anything is seen; of its
# difference between the sides
_LARGEST = 12.0  # log-odds, and distances from the middle in its own units


@dataclass(frozen=True, slots=True, eq=False)
class Guesses:
    """Canaries in the order in which they are guessed.

    Attributes
    ----------
    chosen : array of int
        Their places, most certain first; those that were given away are not among them.
    included : array of bool
        What is guessed of each.
    odds : array of float
        Expected log-odds of each guess.
    """

    chosen: np.ndarray
    included: np.ndarray
    odds: FloatArray

    def right(self, coins: np.ndarray) -> np.ndarray:
        """How many of the first r guesses are right, for r = 0, 1, ..."""
        return np.concatenate([[0], np.cumsum(coins[self.chosen] == self.included)])

    def expected(self, factor: float = 1.0) -> FloatArray:
        """The same, as the fit has it, were its log-odds larger by a factor."""
        return np.concatenate([[0.0], np.cumsum(1 / (1 + np.exp(-factor * self.odds)))])


def ordered(scores: FloatArray, coins: np.ndarray, rng: np.random.Generator) -> Guesses:
    """Order canaries by how sure a guess about them is; `coins` is looked at only where it is given away."""
    shuffled = rng.permutation(scores.size)
    order = shuffled[np.argsort(scores[shuffled], kind="stable")]
    given = np.zeros(scores.size, dtype=bool)
    side = int(scores.size * (1 - _MIDDLE) / 2)
    given[order[side : scores.size - side]] = True
    given |= rng.random(scores.size) < _OTHERS
    seen = order[given[order]]
    features = _features(scores, order)
    fitted = rng.choice(seen, _FITTED, replace=False) if seen.size > _FITTED else seen
    odds = np.clip(features @ _fit(features[fitted], coins[fitted]), -_LARGEST, _LARGEST)
    left = shuffled[~given[shuffled]]
    chosen = left[np.argsort(-np.abs(odds[left]), kind="stable")]
    return Guesses(chosen, odds[chosen] > 0, np.abs(odds[chosen]))


def _features(scores: FloatArray, order: np.ndarray) -> FloatArray:
    """One, the distance from the middle in units of the middle half, and its size."""
    n = scores.size
    low, middle, high = (scores[order[int(share * (n - 1))]] for share in (0.25, 0.5, 0.75))
    if low < high and middle in (low, high):  # few values: the median is one of them, whose guesses would otherwise count as coin flips
        middle = (low + high) / 2
    unit = 0.7413 * (high - low) or float(np.std(scores)) or 1.0
    x = np.clip((scores - middle) / unit, -_LARGEST, _LARGEST)
    return np.stack([np.ones(n), x, np.abs(x)], axis=1)


def _fit(features: FloatArray, coins: np.ndarray) -> FloatArray:
    """The mode of the posterior of a logistic regression, by Newton's method."""
    center, precision = np.array([0.0, 0.25, 0.0]), 1 / _PRIOR**2
    found = center.copy()
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(features @ found, -30, 30)))
        gradient = features.T @ (coins - p) - precision * (found - center)
        hessian = (features * (p * (1 - p))[:, None]).T @ features + np.diag(precision)
        step = np.linalg.solve(hessian, gradient)
        found = found + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return found
