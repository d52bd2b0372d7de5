"""Limit of black-box audits: the median of the parameter that the best audit of a pair certifies if
the loss law is known.

The best events are {L > t1} (guess D1) and {L < -t2} (guess D0). The limit is the certificate of
`certificate.py` at the expected counts of the best pair of thresholds, with one or two directions.
Half of such audits certify at least the limit: the certificate is monotone, and the median of a
binomial lies within one count of its mean. The limit is not a ceiling: almost half of the audits
with an equally good event certify more, by luck. For RDP and zCDP, the limit is the binned form
(`event.py`) at expected counts if this is larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.event import best_expected_renyi_bound, cell_starts
from dpwitness.auditors.statistics.certificate import certified
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.core.claims import Claim, promised
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import require_integer, require_probability, require_type

_MAX_CELLS = 60
# thresholds per side in the first pass; later passes search between the neighbors of the best
# threshold
_THRESHOLDS = 48


def limit(
    mechanism: Any, pair: Pair, claim: Claim | str, trials: int, confidence: float
) -> float | None:
    """Return the median of the parameter that the best audit of this size certifies.

    Half of the audits with the best event, or the best cells, certify more.

    Parameters
    ----------
    mechanism : Mechanism
        A mechanism with ``log_density``.
    pair : Pair
        Pair of neighboring datasets.
    claim : Claim or str
        Privacy notion and, for (epsilon, delta)-DP, its delta. The parameter itself is not used.
    trials : int
        Number of runs of the mechanism, on both datasets together.
    confidence : float
        Confidence level of the audit, in (0, 1).

    Returns
    -------
    float or None
        Median certified parameter. None if the exact law of the loss cannot be computed, 0 if no
        parameter can be certified.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace, PureDP
    >>> laplace = Laplace(1.0)
    >>> round(limit(laplace, laplace.worst_pair(), PureDP(1.0), 20_000, 0.95), 3)
    0.968
    """
    from dpwitness.auditors.density.routes import loss_law  # not loaded with the audit

    require_type("pair", pair, Pair, "be a Pair", "limit")
    claim = promised(None, claim, "limit").on(pair)
    trials = require_integer("trials", trials, "limit", most=10**12)
    require_probability("confidence", confidence, "limit")
    law = loss_law(mechanism, pair)
    return None if law is None else limit_of_law(law, claim, trials, 1 - confidence)


@dataclass(frozen=True, slots=True)
class BestEvent:
    """Rates of right and wrong guesses of the best event, its number of directions, and the
    parameter certified at these rates.
    """

    right: float
    wrong: float
    directions: int
    value: float


def limit_of_law(law: LossLaw, claim: Claim, trials: int, alpha: float) -> float:
    """Return the median of the parameter that the best audit certifies, from the law of
    the loss.
    """
    best = best_event(law, claim, trials, alpha).value
    return max(best, _binned_limit(law, claim, trials, alpha)) if claim.bounds_renyi else best


def best_event(law: LossLaw, claim: Claim, trials: int, alpha: float) -> BestEvent:
    """Return the pair of thresholds on the loss that certifies the largest parameter."""
    sides = [_event_rates(side, trials) for side in (law, law.swapped())]

    def value(first: NDArray[np.intp], second: NDArray[np.intp]) -> FloatArray:
        """Return the parameter certified at each pair of thresholds; index 0 means that a direction
        is not used.
        """
        (right1, wrong1), (right2, wrong2) = sides
        right = 0.5 * trials * (right1[first][:, None] + right2[second][None, :])
        wrong = 0.5 * trials * (wrong1[first][:, None] + wrong2[second][None, :])
        # overlapping events: every round is guessed exactly once
        excess = np.maximum(right + wrong - trials, 0.0) / 2
        both = certified(claim, right - excess, np.maximum(wrong - excess, 0.0), trials, alpha, 2)
        both = np.where((right + wrong <= trials * (1 + 1e-12)), both, 0.0)
        for one_way in ((slice(None), second == 0), (first == 0, slice(None))):  # one direction
            if right[one_way].size:
                both[one_way] = np.maximum(
                    both[one_way],
                    certified(claim, right[one_way], wrong[one_way], trials, alpha, 1),
                )
        return both

    grids = [_spread_indices(0, len(right) - 1) for right, _ in sides]
    best = BestEvent(0.0, 0.0, 1, 0.0)
    for _ in range(4):
        with np.errstate(invalid="ignore"):
            found = value(*grids)
        i, j = np.unravel_index(int(np.argmax(found)), found.shape)
        if found[i, j] > best.value:
            first, second = int(grids[0][i]), int(grids[1][j])
            right, wrong = (0.5 * float(sides[0][k][first] + sides[1][k][second]) for k in (0, 1))
            excess = max(right + wrong - 1, 0.0) / 2
            best = BestEvent(
                right - excess,
                wrong - excess,
                max(1, (first > 0) + (second > 0)),
                float(found[i, j]),
            )
        # between the neighbors of the best thresholds
        ends = [
            (grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)])
            for grid, k in zip(grids, (int(i), int(j)), strict=True)
        ]
        grids = [_spread_indices(low, high) for low, high in ends]
    return best


def _binned_limit(law: LossLaw, claim: Claim, trials: int, alpha: float) -> float:
    """Return the limit of the binned form with at most `_MAX_CELLS` cells between quantiles of the
    loss.

    The better of two divisions counts: cells that are finest where the loss is large, or cells of
    equal mass.
    """
    if len(law.p) <= _MAX_CELLS:
        return best_expected_renyi_bound(claim, law.p, law.q, trials, alpha)
    total = (law.p + law.q) / 2
    share = np.cumsum(total) / total.sum()
    tail = np.geomspace(1e-4, 0.5, _MAX_CELLS // 2)
    finest_in_tails = cell_starts(share, np.concatenate([tail, 1 - tail]))
    equal = cell_starts(share, np.linspace(0, 1, 2 * _MAX_CELLS // 3 + 1)[1:-1])
    divided = [
        [np.add.reduceat(side, starts) for side in (law.p, law.q)]
        for starts in (finest_in_tails, equal)
    ]
    return max(best_expected_renyi_bound(claim, p, q, trials, alpha) for p, q in divided)


def _event_rates(law: LossLaw, trials: int) -> tuple[FloatArray, FloatArray]:
    """Return the masses under P (right) and Q (wrong) of the events {L > t} for descending t > 0,
    starting with the empty event.

    Thresholds whose expected counts hardly differ are left out.
    """
    thresholds, wrong, right = law.roc()
    use = np.append(True, thresholds > 0)
    right, wrong = np.append(0.0, right)[use], np.append(0.0, wrong)[use]
    # finer steps than a quarter of a standard error of the count do not matter
    count = np.floor(8 * np.sqrt(trials * (right + wrong) + 1e-12))
    keep = np.append(True, np.diff(count) > 0)
    keep[-1] = True
    plateau = (
        np.append(np.diff(thresholds[use[1:]]) < -1e-9, True)
        if len(right) > 1
        else np.empty(0, dtype=bool)
    )
    keep[1:] &= plateau
    return right[keep], wrong[keep]


def _spread_indices(low: int, high: int) -> NDArray[np.intp]:
    """Return at most `_THRESHOLDS` indices from `low` to `high`, evenly spread."""
    steps = np.linspace(0, high - low, min(_THRESHOLDS, high - low + 1))
    return low + np.unique(steps.astype(np.intp))
