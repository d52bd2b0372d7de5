"""The limit: the median of what the best black-box audit of a pair certifies, were the law of the privacy loss known to it.

The best events are {L > t1} ("it was D1") and {L < -t2} ("it was D0"). LIMIT is the certificate of `certificate.py` at the expected counts
of the best pair of thresholds, one or two directions: the parameter that half of such audits would certify (the certificate is monotone,
and the median of a binomial lies within one count of its mean). So it is no ceiling: nearly half of the audits whose event is as good
certify more, by luck. For RDP and zCDP it is that of the binned form (`divergence.py`) at expected counts where that is more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.divergence import oracle_binned
from dpwitness.auditors.loss.routes import loss_law
from dpwitness.auditors.statistics.certificate import certified
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.mechanisms.terms.notions import Claim, promised
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import require_integer, require_probability, require_type

_CELLS = 60
_COARSE = 48  # thresholds a side in the first pass; the second looks between the neighbours of the best


def limit(mechanism: Any, pair: Pair, claim: Claim | str, trials: int, confidence: float) -> float | None:
    """Median of the parameter that the best audit of this size certifies: what half of the audits by the best event, or cells, exceed.

    Parameters
    ----------
    mechanism : Mechanism
        With ``log_density``.
    pair : Pair
    claim : Claim or str
        Its notion and, for (epsilon, delta)-DP, its delta; the parameter itself plays no part.
    trials : int
        Runs of the mechanism, both sides together.
    confidence : float
        In (0, 1).

    Returns
    -------
    float or None
        None where the exact law of the loss cannot be computed. 0 where nothing can be certified.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace, PureDP
    >>> laplace = Laplace(1.0)
    >>> round(limit(laplace, laplace.worst_pair(), PureDP(1.0), 20_000, 0.95), 3)
    0.968
    """
    require_type("pair", pair, Pair, "be a Pair", "limit")
    claim = promised(None, claim, "limit").on(pair)
    trials = require_integer("trials", trials, "limit", most=10**12)
    require_probability("confidence", confidence, "limit")
    law = loss_law(mechanism, pair)
    return None if law is None else limit_of_law(law, claim, trials, 1 - confidence)


@dataclass(frozen=True, slots=True)
class Best:
    """How often the best event guesses right and wrong, in how many directions, and what it certifies at those rates."""

    right: float
    wrong: float
    directions: int
    value: float


def limit_of_law(law: LossLaw, claim: Claim, trials: int, alpha: float) -> float:
    """The same from the law of the loss.

    Examples
    --------
    >>> from dpwitness.mechanisms import PureDP
    >>> coin = LossLaw(np.array([-1.0, 1.0]), np.array([0.268941, 0.731059]), np.array([0.731059, 0.268941]))
    >>> round(limit_of_law(coin, PureDP(1.0), 20_000, 0.05), 3)
    0.974
    """
    best = best_event(law, claim, trials, alpha).value
    return max(best, _of_cells(law, claim, trials, alpha)) if claim.bounds_renyi else best


def best_event(law: LossLaw, claim: Claim, trials: int, alpha: float) -> Best:
    """The pair of thresholds on the loss that certifies most."""
    sides = [_tails(side, trials) for side in (law, law.swapped())]

    def value(first: NDArray[np.intp], second: NDArray[np.intp]) -> FloatArray:
        """Certified at each pair of thresholds; index 0 stands for a direction that is not used."""
        (right1, wrong1), (right2, wrong2) = sides
        right = 0.5 * trials * (right1[first][:, None] + right2[second][None, :])
        wrong = 0.5 * trials * (wrong1[first][:, None] + wrong2[second][None, :])
        excess = np.maximum(right + wrong - trials, 0.0) / 2  # overlapping events: all rounds are guessed, none twice
        both = certified(claim, right - excess, np.maximum(wrong - excess, 0.0), trials, alpha, 2)
        both = np.where((right + wrong <= trials * (1 + 1e-12)), both, 0.0)
        for axis, chosen in ((0, first), (1, second)):  # one direction
            single = np.take(right, np.flatnonzero((second, first)[axis] == 0), 1 - axis)
            if single.size and chosen.size:
                other = np.take(wrong, np.flatnonzero((second, first)[axis] == 0), 1 - axis)
                one = certified(claim, single, other, trials, alpha, 1)
                if axis == 0:
                    both[:, second == 0] = np.maximum(both[:, second == 0], one)
                else:
                    both[first == 0, :] = np.maximum(both[first == 0, :], one)
        return both

    grids = [_spread(np.arange(len(right)), _COARSE) for right, _ in sides]
    best = Best(0.0, 0.0, 1, 0.0)
    for _ in range(4):
        with np.errstate(invalid="ignore"):
            found = value(*grids)
        i, j = np.unravel_index(int(np.argmax(found)), found.shape)
        if found[i, j] > best.value:
            first, second = int(grids[0][i]), int(grids[1][j])
            right, wrong = (0.5 * float(sides[0][k][first] + sides[1][k][second]) for k in (0, 1))
            excess = max(right + wrong - 1, 0.0) / 2
            best = Best(right - excess, wrong - excess, max(1, (first > 0) + (second > 0)), float(found[i, j]))
        grids = [_around(grid, int(k)) for grid, k in zip(grids, (i, j), strict=True)]
    return best


def _of_cells(law: LossLaw, claim: Claim, trials: int, alpha: float) -> float:
    """The binned form on at most `_CELLS` cells between quantiles of the loss: finest where it is large, or all alike."""
    if len(law.p) <= _CELLS:
        return oracle_binned(claim, law.p, law.q, trials, alpha)
    total = (law.p + law.q) / 2
    share = np.cumsum(total) / total.sum()
    tail, best = np.geomspace(1e-4, 0.5, _CELLS // 2), 0.0
    for levels in (np.concatenate([tail, 1 - tail]), np.linspace(0, 1, 2 * _CELLS // 3 + 1)[1:-1]):
        cuts = np.unique(np.searchsorted(share, levels))
        starts = np.append(0, cuts[(cuts > 0) & (cuts < len(total))])
        best = max(best, oracle_binned(claim, np.add.reduceat(law.p, starts), np.add.reduceat(law.q, starts), trials, alpha))
    return best


def _tails(law: LossLaw, trials: int) -> tuple[FloatArray, FloatArray]:
    """(right, wrong): P and Q of {L > t} for descending t, from the empty event on, while L > 0 and thinned where counts hardly differ."""
    thresholds, wrong, right = law.roc()
    use = np.append(True, thresholds > 0)
    right, wrong = np.append(0.0, right)[use], np.append(0.0, wrong)[use]
    # steps by a quarter of a standard error of the count, at most, are all that matters
    count = np.floor(8 * np.sqrt(trials * (right + wrong) + 1e-12))
    keep = np.append(True, np.diff(count) > 0)
    keep[-1] = True
    plateau = np.append(np.diff(thresholds[use[1:]]) < -1e-9, True) if len(right) > 1 else np.empty(0, dtype=bool)
    keep[1:] &= plateau
    return right[keep], wrong[keep]


def _spread(index: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    if len(index) <= most:
        return index
    return index[np.unique(np.linspace(0, len(index) - 1, most).astype(np.intp))]


def _around(grid: NDArray[np.intp], k: int) -> NDArray[np.intp]:
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    return _spread(np.arange(low, high + 1), _COARSE)
