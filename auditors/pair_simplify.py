"""Make a witness simple: fewer common records, fewer digits, rounder multiplicities, as long as it loses next to nothing.

What is simple is looked for inside the domain: where zero or the shorter number lies outside, the nearest that lies inside stands for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import numpy as np

from dpwitness.auditors.catalogue_labelled import build_labelled, padding
from dpwitness.mechanisms.datasets import LinearCosts
from dpwitness.mechanisms.domains import Costs, Domain, LabelledBall, Records
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.protocol import FloatArray

__all__ = ["simplified"]

_DIGITS = (1, 2, 3, 4, 6)


def simplified(domain: Domain, pair: Pair, score: Callable[[Pair], float], least: float, *, seconds: float) -> Pair:
    """The simplest pair of the domain on the way from `pair` whose score stays at `least` or above."""
    deadline = time.monotonic() + seconds
    moved = True
    while moved:
        moved = False
        seen = 0
        while time.monotonic() < deadline:
            candidate = next(_skip(_simpler(domain, pair), seen), None)
            if candidate is None:
                break
            if score(candidate) >= least:
                pair, moved, seen = candidate, True, 0
            else:
                seen += 1
    return pair


def _skip(candidates: Iterator[Pair], count: int) -> Iterator[Pair]:
    for i, candidate in enumerate(candidates):
        if i >= count:
            yield candidate


def _simpler(domain: Domain, pair: Pair) -> Iterator[Pair]:
    """Neighbours of `pair` in the domain that are simpler, boldest first. None that equals it."""
    if isinstance(domain, LabelledBall):
        yield from _labelled(domain, pair)
    elif isinstance(domain, Costs):
        for first, second in _tables(pair.d0.x, pair.d1.x, -domain.bound, domain.bound):
            yield from _one(domain.pair(LinearCosts(first), LinearCosts(second), pair.why))
    elif isinstance(domain, Records) and pair.relation == "replace-one":
        columns = [np.asarray(d, dtype=float)[:, None] for d in (pair.d0, pair.d1)]
        low, high = (-math.inf, math.inf) if domain.outside else domain.ends
        for first, second in _tables(columns[0], columns[1], low, high):
            yield from _one(domain.pair(first[:, 0], second[:, 0], pair.why))


def _one(pair: Pair | None) -> Iterator[Pair]:
    if pair is not None:
        yield pair


def _labelled(domain: LabelledBall, pair: Pair) -> Iterator[Pair]:
    parts = _parts(domain, pair)
    if parts is None:
        return
    changed, common = parts

    def build(changed: list[tuple[FloatArray, float]], common: list[tuple[FloatArray, float, int]]) -> Iterator[Pair]:
        return _one(build_labelled(domain, changed[0], changed[-1], common, pair.why))

    for i in range(len(common)):
        yield from build(changed, common[:i] + common[i + 1 :])
    for i, (x, y, count) in enumerate(common):
        for digits in (1, 2):
            rounder = int(_rounded(float(count), digits))
            if rounder != count and rounder >= 1:
                yield from build(changed, [*common[:i], (x, y, rounder), *common[i + 1 :]])
                break
        for simple in _rounder(x, domain):
            yield from build(changed, [*common[:i], (simple, y, count), *common[i + 1 :]])
    for i, (x, y) in enumerate(changed):
        for simple in _rounder(x, domain):
            yield from build([*changed[:i], (simple, y), *changed[i + 1 :]], common)


def _parts(domain: LabelledBall, pair: Pair) -> tuple[list[tuple[FloatArray, float]], list[tuple[FloatArray, float, int]]] | None:
    """The changed records and the common ones without padding."""
    gone, new = pair.d0.counts() - pair.d1.counts(), pair.d1.counts() - pair.d0.counts()

    def decoded(key: tuple[bytes, float]) -> tuple[FloatArray, float]:
        return np.frombuffer(key[0]).copy(), key[1]

    if pair.relation == "replace-one" and (len(gone) != 1 or len(new) != 1):
        return None
    if pair.relation == "add-remove" and (len(gone) != 1 or new):
        return None
    changed = [decoded(key) for key in (*gone, *new)]
    blank = padding(domain)
    shared = [(*decoded(key), count) for key, count in (pair.d0.counts() & pair.d1.counts()).items()]
    return changed, [(x, y, count) for x, y, count in shared if np.any(x != blank[0]) or y != blank[1]]


def _rounder(x: FloatArray, domain: LabelledBall) -> Iterator[FloatArray]:
    """The vector with entries dropped or rounded, within the domain."""
    size = float(np.abs(x).max())
    if size == 0:
        return
    for j in np.flatnonzero(x):
        rest = x.copy()
        rest[j] = 0.0
        length = float(domain.length(rest))
        if domain.norm == "l2" and length > 0 and domain.length(x) >= domain.radius * (1 - 1e-9):
            yield domain.pulled(rest * (domain.radius / length))
        yield rest
    magnitude = math.floor(math.log10(size))
    if not -300 < magnitude < 300:  # powers of ten that floats do not have
        return
    for digits in _DIGITS:
        scale = 10.0 ** (digits - 1 - magnitude)
        for simple in (np.round(x * scale) / scale, np.trunc(x * scale) / scale):
            if domain.length(simple) <= domain.radius and np.any(simple != x):
                yield simple
        if np.array_equal(np.round(x * scale) / scale, x):
            return


def _tables(first: FloatArray, second: FloatArray, low: float, high: float) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Both tables with common rows brought to zero or rounded, then the row that differs rounded, all within the bounds."""
    common = np.all((first == second) | (np.isnan(first) & np.isnan(second)), axis=1)
    for digits in (0, *_DIGITS):
        for rows in (common, ~common):
            if digits == 0 and rows is not common:
                continue
            left, right = first.copy(), second.copy()
            for table in (left, right):
                table[rows] = _shorter(table[rows], digits, low, high)
            changed = not (np.array_equal(left, first, equal_nan=True) and np.array_equal(right, second, equal_nan=True))
            if changed and not np.array_equal(left, right, equal_nan=True):
                yield left, right


def _shorter(values: FloatArray, digits: int, low: float, high: float) -> FloatArray:
    """Zero, or fewer decimals; the nearest number of so many decimals inside the bounds, and if there is none the nearest bound."""
    scale = 10.0 ** max(digits - 1, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        shorter = np.where(np.isnan(values), values, 0.0) if digits == 0 else np.trunc(values * scale) / scale
        ends = np.ceil(low * scale) / scale, np.floor(high * scale) / scale
        inward = np.where(shorter < low, ends[0], np.where(shorter > high, ends[1], shorter))
    inside = np.isnan(inward) | ((inward >= low) & (inward <= high))
    return np.where(np.isfinite(values) | np.isnan(values), np.where(inside, inward, np.clip(values, low, high)), values)


def _rounded(value: float, digits: int) -> float:
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale
