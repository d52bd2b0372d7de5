"""What the domains' pairs are made of: places of a changed record, numbers inside an interval, tables with a record put in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.random import Generator

from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import FloatArray

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

A = TypeVar("A")
B = TypeVar("B")

NAMED_LABELS = 4  # of those between the extremes, as many by name; the rest have their turns in pairs that are drawn
# Places of the changed record among n others.
PLACES: Sequence[tuple[str, Callable[[int], int]]] = (
    ("first", lambda n: 0),
    ("in the middle", lambda n: (n + 1) // 2),
    ("last", lambda n: n),
)
CHANGES = ("label turned over", "features turned over", "label and features turned over", "one feature moved")
LISTED = 4096  # categories that are listed, and of which a whole matching is drawn
_SOME = 24  # pairs of more of them
DIGITS = (1, 2, 3, 4, 6)  # that a simpler number may have


def inserted(crowd: FloatArray, record: FloatArray, place: Callable[[int], int]) -> FloatArray:
    """The crowd with a record in that place among its rows."""
    return np.insert(crowd, place(len(crowd)), record, axis=0)


def between(low: Any, high: Any, share: Any) -> Any:
    """low + share (high - low), inside the interval whatever rounds and however wide it is."""
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.subtract(high, low)
        found = np.where(np.isfinite(width), low + width * share, np.multiply(low, np.subtract(1.0, share)) + np.multiply(high, share))
    return np.clip(found, low, high)


def far_outside(low: Any, high: Any) -> tuple[Any, Any]:
    """Ten widths below and above an interval, as far as floats go."""
    most = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        far = 10 * np.where(np.equal(low, high), 1.0, np.subtract(high, low))
        return np.clip(low - far, -most, most), np.clip(high + far, -most, most)


def ranked(first: Sequence[A], second: Sequence[B], rank: int) -> Iterator[tuple[int, A, B]]:
    """Pairs of items whose places add up to `rank`, each with a turn 0, 1 or 2: along a diagonal, a row and a column it goes round."""
    for i in range(max(0, rank - len(second) + 1), min(len(first), rank + 1)):
        yield 0 if rank < 2 else (2 * i - rank) % 3, first[i], second[rank - i]


def matching(low: float, high: float, rng: Generator) -> list[tuple[float, float]]:
    """Pairs of different whole numbers in [low, high], of which there are at least two: each once, the odd one out with another that is.

    Of very many numbers, some.
    """
    if high - low < LISTED:
        order = low + rng.permutation(int(high - low) + 1).astype(float)
        if len(order) % 2:
            order = np.append(order, order[0])
        return list(zip(order[::2].tolist(), order[1::2].tolist(), strict=True))
    ends = np.full(2 * _SOME, low), np.full(2 * _SOME, high)
    values = whole_numbers(*ends, rng.random(2 * _SOME)).reshape(-1, 2).tolist()
    return [(a, b) for a, b in values if a != b] or [(low, high)]


def changed_place(longer: FloatArray, shorter: FloatArray) -> int:
    """The row of `longer` that `shorter` lacks or has otherwise."""
    same = [a.tobytes() == b.tobytes() for a, b in zip(longer, shorter, strict=False)]
    return same.index(False) if False in same else len(longer) - 1


def whole_numbers(low: FloatArray, high: FloatArray, shares: FloatArray) -> FloatArray:
    """Whole numbers in [low, high], which are whole too, each equally likely as far as floats tell."""
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low + 1.0
        small = low + np.floor(shares * width)
    return np.clip(np.where(width < 2.0**52, small, np.round(between(low, high, shares))), low, high)


def shorter_tables(first: FloatArray, second: FloatArray, low: float, high: float) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Both tables with common rows brought to zero or rounded, then the row that differs rounded, all within the bounds."""
    common = np.all((first == second) | (np.isnan(first) & np.isnan(second)), axis=1)
    for digits in (0, *DIGITS):
        for rows in (common, ~common):
            if digits == 0 and rows is not common:
                continue
            left, right = first.copy(), second.copy()
            for table in (left, right):
                table[rows] = shorter(table[rows], digits, low, high)
            changed = not (np.array_equal(left, first, equal_nan=True) and np.array_equal(right, second, equal_nan=True))
            if changed and not np.array_equal(left, right, equal_nan=True):
                yield left, right


def shorter(values: FloatArray, digits: int, low: float, high: float) -> FloatArray:
    """Zero, or fewer decimals; the nearest number of so many decimals inside the bounds, and if there is none the nearest bound."""
    scale = 10.0 ** max(digits - 1, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        shorter = np.where(np.isnan(values), values, 0.0) if digits == 0 else np.trunc(values * scale) / scale
        ends = np.ceil(low * scale) / scale, np.floor(high * scale) / scale
        inward = np.where(shorter < low, ends[0], np.where(shorter > high, ends[1], shorter))
    inside = np.isnan(inward) | ((inward >= low) & (inward <= high))
    return np.where(np.isfinite(values) | np.isnan(values), np.where(inside, inward, np.clip(values, low, high)), values)


def rounded(value: float, digits: int) -> float:
    """A positive number cut to so many digits."""
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale


def only_pairs(strategy: SearchStrategy[Pair | None]) -> SearchStrategy[Pair]:
    """Without what is no pair of the domain."""
    return strategy.filter(lambda pair: pair is not None)  # type: ignore[return-value]
