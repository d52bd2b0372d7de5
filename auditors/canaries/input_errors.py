"""Checks for usage errors in the scores of one run: masks, indices, coins or the wrong selection in place of scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpwitness.mechanisms.core.validation import InvalidArgument, require_numbers
from dpwitness.mechanisms.protocols.mechanism import FloatArray

_OWNER = "audit_canaries"
_CORRECT_CALL = "pass scores[included] as scores_in and scores[~included] as scores_out"
_LOG_COINCIDENCE = math.log(1e-9)  # log-probability below which equal sides are not a coincidence
_MIN_MASK_SIZE = 100  # scores of a side from which a side of 0 and 1 counts as a mask if the other side holds whole numbers
_DISTINCT_SHARE = 0.9  # share of scores that occur once from which a shared value means a shared canary
_MIN_LEVELS = 30  # distinct scores whose counts all share a factor with probability below 1e-9


def one_row(name: str, side: Any) -> FloatArray:
    """Return the scores of one side as a vector. Raise InvalidArgument for a table, a mask, or values that are not finite numbers."""
    raw = _as_array_or_none(side)
    if raw is not None and raw.dtype.kind == "b" and raw.size:
        raise InvalidArgument(f"{_OWNER}: {name} must hold scores, got an array of True and False, such as a mask: {_CORRECT_CALL}")
    if raw is not None and raw.dtype.kind == "f" and not np.isfinite(raw).all():
        index = int(np.flatnonzero(~np.isfinite(raw.ravel()))[0])
        wrong = f"{raw.ravel()[index]} at place {index}: find out why this canary has no score; do not drop canaries by their score"
        raise InvalidArgument(f"{_OWNER}: {name} must be an array of finite numbers, got {wrong}")
    found = require_numbers(name, side, _OWNER)
    if found.ndim > 1:
        flat = ": pass its .ravel()" if found.size == max(found.shape) else ": for several runs pass a list with one array for each run"
        raise InvalidArgument(f"{_OWNER}: {name} must be one row of at least one score, got shape {found.shape}{flat}")
    return np.asarray(found)


def _as_array_or_none(side: Any) -> np.ndarray | None:
    """Return the scores as an array, or None if NumPy cannot convert them."""
    try:
        return np.asarray(side)
    except Exception:  # ragged, or an object that cannot be converted: `require_numbers` reports the error
        return None


def require_scores(scores_in: Any, scores_out: Any, sides: list[FloatArray], which: str) -> None:
    """Raise InvalidArgument if a side holds a mask, indices, or the same scores as the other side."""
    for k, (name, given) in enumerate((("scores_in", scores_in), ("scores_out", scores_out))):
        own, other = sides[k], sides[1 - k]
        if _is_mask(own, other):
            raise InvalidArgument(f"{_OWNER}: {name}{which} must hold scores, got only 0 and 1, such as a mask: {_CORRECT_CALL}")
        if _is_index(_as_array_or_none(given), own, other):
            raise InvalidArgument(
                f"{_OWNER}: {name}{which} must hold scores, got rising whole numbers, such as places of canaries: {_CORRECT_CALL}"
            )
    if sides[0].shape != sides[1].shape:
        return
    if _are_complements(*sides):
        raise InvalidArgument(
            f"{_OWNER}: scores_in and scores_out{which} must be of different canaries, got a mask and its complement, "
            f"or products of scores with them: {_CORRECT_CALL}"
        )
    rounded = [side.astype(np.float32).astype(float) for side in sides]
    if np.array_equal(rounded[0], rounded[1]) and _log_equal_orders(rounded[0]) < _LOG_COINCIDENCE:
        raise InvalidArgument(
            f"{_OWNER}: scores_in and scores_out{which} must be of different canaries, got the same array twice: {_CORRECT_CALL}"
        )


def require_distinct_canaries(sides: list[FloatArray], which: str) -> None:
    """Raise InvalidArgument if a canary is on both sides or occurs several times."""
    small, large = sorted(sides, key=lambda side: side.size)
    if (
        small.size >= _MIN_LEVELS
        and min(_share_of_singles(small), _share_of_singles(large)) >= _DISTINCT_SHARE
        and np.isin(small, large).all()
    ):
        name, other = ("scores_in", "scores_out") if small is sides[0] else ("scores_out", "scores_in")
        raise InvalidArgument(
            f"{_OWNER}: {name}{which} must hold other canaries than {other}, got {small.size} scores that occur in both: {_CORRECT_CALL}"
        )
    counts = [np.unique(side, return_counts=True)[1] for side in sides]
    times = int(np.gcd.reduce(np.concatenate(counts)))
    if times > 1 and sum(len(each) for each in counts) >= _MIN_LEVELS:
        advice = "pass each run once; if these are several runs, pass lists with one array for each run"
        raise InvalidArgument(
            f"{_OWNER}: scores{which} must hold each canary once, every score occurs {times} times or a multiple: {advice}"
        )


def require_scores_not_coins(scores_in: FloatArray, scores_out: FloatArray) -> None:
    """Raise InvalidArgument if the scores of all runs are the coins themselves: 0 and 1, or -1 and 1, by side."""
    values = [set(np.unique(side).tolist()) for side in (scores_in, scores_out)]
    if all(len(each) == 1 for each in values) and values[0] | values[1] in ({0.0, 1.0}, {-1.0, 1.0}):
        advice = "score what the training released, for example with prediction_scores; if these are scores, multiply them by 2"
        got = f"{values[0].pop():g} for each included canary and {values[1].pop():g} for each other one"
        raise InvalidArgument(f"{_OWNER}: scores must not be the coins, got {got}: {advice}")


def _is_mask(own: FloatArray, other: FloatArray) -> bool:
    """Return whether a side holds exactly the values 0 and 1 while the other side's scores cannot come from the same score function."""
    if len(own) < 10 or not np.array_equal(np.unique(own), [0.0, 1.0]) or np.isin(other, (0.0, 1.0)).all():
        return False
    if np.any(other != np.round(other)):
        return True
    near_half = abs(own.mean() - 0.5) < 2.5 / math.sqrt(len(own))
    return bool(own.size == other.size >= _MIN_MASK_SIZE and near_half)


def _is_index(raw: np.ndarray | None, own: FloatArray, other: FloatArray) -> bool:
    """Return whether a side holds rising whole numbers, such as np.flatnonzero(included), instead of scores.

    The other side must hold a number that is not whole, or all other indices.
    """
    whole = raw is not None and raw.dtype.kind in "iu" and own.size >= 10 and own[0] >= 0
    return bool(whole and np.all(np.diff(own) > 0) and (np.any(other != np.round(other)) or _all_places(own, other)))


def _all_places(own: FloatArray, other: FloatArray) -> bool:
    """Return whether the two rising sides together hold each index from 0 to n - 1 once."""
    both = np.sort(np.concatenate([own, other]))
    return bool(np.all(np.diff(other) > 0) and np.array_equal(both, np.arange(both.size)))


def _are_complements(one: FloatArray, two: FloatArray) -> bool:
    """Return whether two arrays are complementary beyond chance.

    Exactly one of the arrays is zero at each place, or the sum of the arrays is constant.
    """
    is_zero = one == 0
    masked = is_zero.any() and not is_zero.all() and np.array_equal(is_zero, two != 0)
    with np.errstate(over="ignore", invalid="ignore"):
        constant_sum = np.ptp(one) > 0 and np.ptp(one + two) == 0
    return bool((masked or constant_sum) and _log_equal_orders(one) < _LOG_COINCIDENCE)


def _log_equal_orders(scores: FloatArray) -> float:
    """Return the log-probability that two independent random orders of these scores are equal."""
    counts = np.unique(scores, return_counts=True)[1]
    return sum(math.lgamma(n + 1) for n in counts[counts > 1]) - math.lgamma(scores.size + 1)


def _share_of_singles(scores: FloatArray) -> float:
    """Return the share of scores that occur exactly once."""
    counts = np.unique(scores, return_counts=True)[1]
    return float(np.count_nonzero(counts == 1)) / scores.size
