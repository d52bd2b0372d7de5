"""Building blocks of the domains' pairs: places of a changed record, numbers inside an interval,
tables with an inserted record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.mechanism import FloatArray

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

A = TypeVar("A")
B = TypeVar("B")

# catalogues cover this many labels between the extremes; random pairs cover the rest
NAMED_LABELS = 4
# Index of the changed record among n others.
PLACES: Sequence[tuple[str, Callable[[int], int]]] = (
    ("first", lambda n: 0),
    ("in the middle", lambda n: (n + 1) // 2),
    ("last", lambda n: n),
)
CHANGES = ("label flipped", "features flipped", "label and features flipped", "one feature moved")
MAX_LISTED_CATEGORIES = 4096  # up to this many categories are listed and matched completely
_SAMPLED_PAIRS = 24  # pairs drawn from more categories than `MAX_LISTED_CATEGORIES`
# smaller magnitudes of changed numbers, as shares of those at the ends of an interval
MAGNITUDES = (10**-0.5, 0.1, 10**-1.5)
DIGITS = (1, 2, 3, 4, 6)  # numbers of digits tried in simpler pairs


def insert_record(crowd: FloatArray, record: FloatArray, place: Callable[[int], int]) -> FloatArray:
    """Return the crowd with a record inserted at `place` among its rows."""
    return np.insert(crowd, place(len(crowd)), record, axis=0)


def between(low: Any, high: Any, share: Any) -> Any:
    """Return low + share (high - low), inside the interval despite rounding and overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.subtract(high, low)
        found = np.where(
            np.isfinite(width),
            low + width * share,
            np.multiply(low, np.subtract(1.0, share)) + np.multiply(high, share),
        )
    return np.clip(found, np.minimum(low, high), np.maximum(low, high))


def smaller_magnitudes(low: Any, high: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield points on both sides of zero, or of the point of the interval nearest to zero, at
    shares of the distance to its ends.
    """
    center = np.clip(0.0, low, high)
    for share in MAGNITUDES:
        yield f"{share:.2g}", between(center, low, share), between(center, high, share)


def far_outside_interval(low: Any, high: Any) -> tuple[Any, Any]:
    """Return points ten widths below and above an interval, limited to finite floats."""
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        far = 10 * np.where(np.equal(low, high), 1.0, np.subtract(high, low))
        return np.clip(low - far, -largest, largest), np.clip(high + far, -largest, largest)


def ranked(first: Sequence[A], second: Sequence[B], rank: int) -> Iterator[tuple[int, A, B]]:
    """Yield the pairs of items whose indices add up to `rank`, each with 0, 1 or 2, cycling along
    diagonals, rows and columns.
    """
    for i in range(max(0, rank - len(second) + 1), min(len(first), rank + 1)):
        yield 0 if rank < 2 else (2 * i - rank) % 3, first[i], second[rank - i]


def matching(low: float, high: float, rng: Generator) -> list[tuple[float, float]]:
    """Return a random matching of the integers in [low, high], of which there are at least two.

    Each integer occurs once; an unpaired integer is matched with one that is already paired. From
    `MAX_LISTED_CATEGORIES` integers on, only some pairs are drawn.
    """
    if high - low < MAX_LISTED_CATEGORIES:
        order = low + rng.permutation(int(high - low) + 1).astype(float)
        if len(order) % 2:
            order = np.append(order, order[0])
        return list(zip(order[::2].tolist(), order[1::2].tolist(), strict=True))
    ends = np.full(2 * _SAMPLED_PAIRS, low), np.full(2 * _SAMPLED_PAIRS, high)
    values = integers_between(*ends, rng.random(2 * _SAMPLED_PAIRS)).reshape(-1, 2).tolist()
    return [(a, b) for a, b in values if a != b] or [(low, high)]


def changed_row_index(longer: FloatArray, shorter: FloatArray) -> int:
    """Return the index of the row of `longer` that `shorter` lacks or has with other values."""
    same = [a.tobytes() == b.tobytes() for a, b in zip(longer, shorter, strict=False)]
    return same.index(False) if False in same else len(longer) - 1


def integers_between(low: FloatArray, high: FloatArray, shares: FloatArray) -> FloatArray:
    """Return integers in [low, high] for uniform shares, each equally likely up to rounding. The
    bounds must be integers.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low + 1.0
        small = low + np.floor(shares * width)
    return np.clip(
        np.where(width < 2.0**52, small, np.round(between(low, high, shares))), low, high
    )


def truncated_tables(
    first: FloatArray, second: FloatArray, low: float, high: float
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield both tables with common rows set to zero or rounded, then with the changed row rounded,
    all within the bounds.
    """
    common = np.all((first == second) | (np.isnan(first) & np.isnan(second)), axis=1)
    for digits in (0, *DIGITS):
        for rows in (common, ~common):
            if digits == 0 and rows is not common:
                continue
            left, right = first.copy(), second.copy()
            for table in (left, right):
                table[rows] = shorter(table[rows], digits, low, high)
            changed = not (
                np.array_equal(left, first, equal_nan=True)
                and np.array_equal(right, second, equal_nan=True)
            )
            if changed and not np.array_equal(left, right, equal_nan=True):
                yield left, right


def shorter(values: FloatArray, digits: int, low: float, high: float) -> FloatArray:
    """Return the values with fewer decimals, or zeros for digits=0, within the bounds.

    A value that would leave the bounds becomes the nearest number with as many decimals inside
    them, or else the nearest bound.
    """
    scale = 10.0 ** max(digits - 1, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        shorter = (
            np.where(np.isnan(values), values, 0.0)
            if digits == 0
            else np.trunc(values * scale) / scale
        )
        ends = np.ceil(low * scale) / scale, np.floor(high * scale) / scale
        inward = np.where(shorter < low, ends[0], np.where(shorter > high, ends[1], shorter))
    inside = np.isnan(inward) | ((inward >= low) & (inward <= high))
    return np.where(
        np.isfinite(values) | np.isnan(values),
        np.where(inside, inward, np.clip(values, low, high)),
        values,
    )


def rounded(value: float, digits: int) -> float:
    """Return a positive number truncated to `digits` significant digits."""
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale


def drop_invalid_pairs(strategy: SearchStrategy[Pair | None]) -> SearchStrategy[Pair]:
    """Return the strategy without None, which represents invalid pairs."""
    return strategy.filter(lambda pair: pair is not None)  # type: ignore[return-value]
