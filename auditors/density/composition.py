"""Composition of the privacy losses of independent factors, through dp-accounting's privacy-loss
distributions.

Each factor's law is put on a grid of losses, from below and from above, in a way that composition
preserves:

* *above*, every atom (p, q) between two grid points is split over the two points with both masses
  kept ("connect the dots", Doroshenko et al. 2022);
* *below*, atoms are merged, in descending order of loss and cut where needed, into groups whose log
  p/q is exactly a grid point. Merging is post-processing, and so is cutting an atom by a coin.
  Plain rounding loses half a grid step per factor; merging and splitting lose about the square of a
  grid step.

Both orders of the pair are composed: one order gives the mass under P, the other the mass under Q.

`content_key` finds equal factors. Identity and equality cannot serve as keys: an array inside may
have changed, and a field may be excluded from comparisons. A key holds the JSON of every field, the
class itself and its methods. If an object has no JSON, there is no key.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpwitness.auditors.statistics.loss_law import EnclosedLaw, LossLaw
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_codec import same_value, to_jsonable
from dpwitness.core.values.validation import InvalidArgument

_METHODS = ("sample", "log_density", "support", "factors", "breakpoints", "atoms")


def content_key(mechanism: Any, *values: Any) -> Any:
    """Return a hashable key of the current content of a mechanism and of `values`, or None if some
    content cannot be read.
    """
    kind = type(mechanism)
    methods = tuple(getattr(kind, name) for name in _METHODS if hasattr(kind, name))
    # a function that closes over variables, or is not a plain function, may behave differently
    # later; attributes that are not fields are not part of the JSON
    if not dataclasses.is_dataclass(mechanism) or any(
        getattr(method, "__closure__", method) is not None for method in methods
    ):
        return None
    fields = dataclasses.fields(mechanism)
    others = set(getattr(mechanism, "__dict__", ())) - {field.name for field in fields}
    if others or not all(field.init for field in fields):
        return None
    try:
        return kind, methods, repr([to_jsonable(value) for value in (mechanism, *values)])
    except InvalidArgument:
        return None


def differing_factors(mechanism: Any, d0: Any, d1: Any) -> list[tuple[Any, Any, Any]]:
    """Return the independent parts of a mechanism, with their datasets, that differ between `d0`
    and `d1`; none if it declares no parts.
    """
    parts = mechanism.factors(d0, d1) if hasattr(mechanism, "factors") else []
    return [part for part in parts if not same_value(*part[1:])]


def declared_points(mechanism: Any, name: str, d0: Any, d1: Any) -> FloatArray:
    """Return the atoms or the breakpoints that a mechanism declares on either dataset by its method
    `name`, sorted; none without the method.
    """
    declared = getattr(mechanism, name, lambda _: ())
    return np.unique(np.concatenate([np.ravel(declared(d)).astype(float) for d in (d0, d1)]))


_TAIL = 1e-15  # total mass that truncations may move, in either direction
_FOURIER_ERROR = 1e-13  # numerical error of Fourier transforms, as unseen mass of the upper law
# largest numbers of atoms of a factor, and of a product, that are multiplied out
_FEW_ATOMS, _MANY_ATOMS = 64, 4096


def compose(parts: Sequence[tuple[EnclosedLaw, int]]) -> EnclosedLaw:
    """Enclose the law of a sum of independent losses; each part is a law and the number of its
    occurrences.
    """
    # a loss that is always zero changes nothing
    moving = _multiply_small([(law, times) for law, times in parts if not _is_zero(law)])
    factors = sum(times for _, times in parts)
    if not moving:
        constant = LossLaw(np.zeros(1), np.ones(1), np.ones(1))
        return EnclosedLaw(constant, constant, "identical factors", "exact")
    if len(moving) == 1 and moving[0][1] == 1:
        law = moving[0][0]
        if factors > 1:
            law = replace(law, route=f"product of {factors} factors, multiplied out")
        return law
    step = _grid_step(moving, sum(times for _, times in moving))
    routes = sorted({law.route.split(",")[0].split(" of ")[0] for law, _ in moving})
    route = (
        f"composition of {factors} factors, privacy-loss distributions on a grid of {step:.3g}; "
        f"factors by {' and '.join(routes)}"
    )
    laws = [
        _composed_law([(getattr(law, side), times) for law, times in moving], step, side == "upper")
        for side in ("lower", "upper")
    ]
    return EnclosedLaw(
        laws[0],
        laws[1],
        route,
        "enclosure",
        max(law.dimension for law, _ in moving),
        sum(times * law.missing for law, times in moving),
    )


def _is_zero(law: EnclosedLaw) -> bool:
    """Return whether a privacy loss is always zero."""
    known = law.lower.extremes in (None, (0.0, 0.0))
    return known and bool(np.all(np.abs(law.upper.loss) < 1e-15))


def _multiply_small(parts: Sequence[tuple[EnclosedLaw, int]]) -> list[tuple[EnclosedLaw, int]]:
    """Multiply out factors with few atoms while their products stay small.

    A grid works worst for distant atoms: an atom between grid points must be merged with a piece of
    a distant atom.
    """
    pooled: list[tuple[EnclosedLaw, int]] = []
    current: EnclosedLaw | None = None
    for law, times in parts:
        atoms = len(law.lower.loss)
        if atoms > _FEW_ATOMS or not np.all(np.isfinite(law.lower.loss)):
            pooled.append((law, times))
            continue
        power, left = law, times
        size = 1
        while size < left and len(power.lower.loss) * atoms <= _MANY_ATOMS:
            power, size = _product(power, law), size + 1
        if size > 1:
            pooled.append((power, left // size))
            left %= size
        for _ in range(left):
            if current is not None and len(current.lower.loss) * atoms > _MANY_ATOMS:
                pooled.append((current, 1))
                current = None
            current = law if current is None else _product(current, law)
    return pooled if current is None else [*pooled, (current, 1)]


def _product(first: EnclosedLaw, second: EnclosedLaw) -> EnclosedLaw:
    """Return the law of the sum of two independent losses, multiplied out. Atoms whose losses agree
    to rounding are merged.
    """
    one, other = first.lower, second.lower
    loss = np.add.outer(one.loss, other.loss).ravel()
    p, q = np.multiply.outer(one.p, other.p).ravel(), np.multiply.outer(one.q, other.q).ravel()
    order = np.argsort(loss, kind="stable")
    loss, p, q = loss[order], p[order], q[order]
    starts = np.flatnonzero(np.append(True, np.diff(loss) > 1e-12))
    lower = LossLaw(loss[starts], np.add.reduceat(p, starts), np.add.reduceat(q, starts))
    upper = replace(
        lower,
        unseen_p=first.upper.unseen_p + second.upper.unseen_p,
        unseen_q=first.upper.unseen_q + second.upper.unseen_q,
    )
    return EnclosedLaw(
        lower,
        upper,
        first.route,
        first.label,
        max(first.dimension, second.dimension),
        first.missing + second.missing,
    )


def _grid_step(parts: Sequence[tuple[EnclosedLaw, int]], count: int) -> float:
    """Return the grid step.

    The step is fine compared with the spread of the sum. It divides the largest loss of a factor,
    so that plateaus fall on the grid.
    """
    variance, largest = 0.0, 0.0
    for law, times in parts:
        variances = []
        for side in (law.lower, law.lower.swapped()):
            some = np.isfinite(side.loss) & (side.p > 0)
            mean = np.average(side.loss[some], weights=side.p[some])
            variances.append(float(np.average((side.loss[some] - mean) ** 2, weights=side.p[some])))
            tops = side.loss[some & (side.p > 1e-9)]
            largest = max(largest, float(np.abs(tops).max(initial=0.0)))
        variance += times * max(variances)
    spread = math.sqrt(variance) or largest or 1.0
    # 1500 steps per standard deviation of the composed loss, over which the sum of the factors'
    # squared steps is at most 4e-4
    step = min(spread / 1500, math.sqrt(4e-4 * spread / count))
    return largest / math.ceil(largest / step) if largest else step


def _composed_law(parts: Sequence[tuple[LossLaw, int]], step: float, above: bool) -> LossLaw:
    """Return the composed law on the grid: a bound from above if `above`, otherwise from below."""
    count = sum(times for _, times in parts)
    start_p, p, lost_p = _compose_one_order(parts, step, above, count)
    swapped = [(law.swapped(), times) for law, times in parts]
    start_q, q, lost_q = _compose_one_order(swapped, step, above, count)
    start_q = -(start_q + len(q) - 1)  # losses change sign with the order of the pair
    first, last = min(start_p, start_q), max(start_p + len(p), start_q + len(q))
    full_p, full_q = np.zeros(last - first), np.zeros(last - first)
    full_p[start_p - first :][: len(p)], full_q[start_q - first :][: len(q)] = p, q[::-1]
    infinite = [
        -math.expm1(sum(t * math.log1p(-min(_at_infinity(w), 1 - 1e-16)) for w, t in side))
        for side in (parts, swapped)
    ]
    law = LossLaw(
        np.concatenate([[-np.inf], step * np.arange(first, last), [np.inf]]),
        np.concatenate([[0.0], full_p, infinite[:1]]),
        np.concatenate([infinite[1:], full_q, [0.0]]),
        extremes=(-sum(t * w.supremum for w, t in swapped), sum(t * w.supremum for w, t in parts)),
        parts=tuple(parts),
    )
    if not above:
        return law
    return replace(
        law,
        unseen_p=max(0.0, lost_p - infinite[0]) + _FOURIER_ERROR,
        unseen_q=max(0.0, lost_q - infinite[1]) + _FOURIER_ERROR,
    )


def _at_infinity(law: LossLaw) -> float:
    """Return the mass at infinite loss."""
    return float(law.p[np.isposinf(law.loss)].sum())


def _compose_one_order(
    parts: Sequence[tuple[LossLaw, int]], step: float, above: bool, count: int
) -> tuple[int, FloatArray, float]:
    """Return (first grid index, masses under P, mass at infinity) of the composed law, by
    dp-accounting.
    """
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    pending = []
    for law, times in parts:
        start, masses, infinite = (split if above else merged)(law, step, _TAIL / count)
        pmf = DensePLDPmf(step, start, masses, min(infinite, 1.0), above)
        pending.append(pmf.self_compose(times, _TAIL) if times > 1 else pmf)
    while len(pending) > 1:  # smallest first, which is fastest
        pending.sort(key=lambda pmf: -pmf.size)
        first, second = pending.pop(), pending.pop()
        pending.append(first.compose(second, _TAIL / len(parts)))
    pmf = pending[0]
    return (
        int(pmf._lower_loss),
        np.clip(np.asarray(pmf._probs, dtype=float), 0.0, None),
        float(pmf._infinity_mass),
    )


def split(law: LossLaw, step: float, tail: float = 0.0) -> tuple[int, FloatArray, float]:
    """Return a law on the grid that dominates `law`: (first index, masses, mass at infinity). Tails
    of mass `tail` move up.
    """
    some = np.isfinite(law.loss) & (law.p > 0)
    loss, p = law.loss[some], law.p[some]
    infinite = _at_infinity(law) + law.unseen_p
    if loss.size == 0:
        return 0, np.zeros(1), infinite
    far = np.cumsum(p[::-1])[::-1] <= tail
    infinite += float(p[far].sum())
    loss, p = loss[~far], p[~far]
    enough = np.flatnonzero(np.cumsum(p) > tail)
    loss = np.maximum(loss, loss[enough[0]]) if enough.size else loss
    below = _floor(loss, step)
    high = p * np.clip(np.expm1(below * step - loss) / math.expm1(-step), 0.0, 1.0)
    start = int(below.min())
    index = below.astype(np.int64) - start
    masses = np.zeros(int(index.max()) + 2)
    np.add.at(masses, index, p - high)
    np.add.at(masses, index + 1, high)
    return start, masses, infinite


def _floor(loss: FloatArray, step: float) -> FloatArray:
    """Return the grid index at or below each loss; losses within rounding of a grid point are on
    the point.
    """
    nearest = np.rint(loss / step)
    return np.where(
        np.abs(loss / step - nearest) < 1e-9 * np.maximum(1.0, np.abs(nearest)),
        nearest,
        np.floor(loss / step),
    )


def merged(law: LossLaw, step: float, tail: float = 0.0) -> tuple[int, FloatArray, float]:
    """Return a law on the grid that `law` dominates: (first index, masses, mass at infinity). Tails
    of mass `tail` move down.

    With D(t) = P-mass - e^g Q-mass of the atoms from the current one to t, a group of log-ratio g
    ends where D, which first rises, is back at zero. g is the largest grid point below the current
    loss. Where D stays positive, the remaining mass goes to g, rounded down.
    """
    finite = ~np.isposinf(law.loss)
    loss, p, q = law.loss[finite][::-1], law.p[finite][::-1], law.q[finite][::-1]
    after_tail = np.flatnonzero(np.cumsum(p) > tail)
    if after_tail.size == 0:
        return 0, np.zeros(1), _at_infinity(law)
    top = loss[after_tail[0]]
    q = np.where(loss > top, p * np.exp(-top), q)
    loss = np.minimum(loss, top)
    keep = np.cumsum(p[::-1])[::-1] > tail  # atoms beyond which the mass is not negligible
    keep[0] = True
    last = int(np.flatnonzero(keep)[-1]) + 1
    loss, p, q = (
        np.append(v[:last], w) for v, w in ((loss, -np.inf), (p, 0.0), (q, q[last:].sum()))
    )
    sum_p, sum_q = np.append(0.0, np.cumsum(p)), np.append(0.0, np.cumsum(q))
    found: dict[int, float] = {}
    i, used_p, used_q = 0, 0.0, 0.0
    floors = _floor(np.where(np.isfinite(loss), loss, 0.0), step)
    while i < len(loss) and np.isfinite(loss[i]):
        grid = int(floors[i])
        if abs(loss[i] - grid * step) <= 1e-9 * step * max(1.0, abs(grid)):
            found[grid] = found.get(grid, 0.0) + sum_p[i + 1] - used_p
            i, used_p, used_q = i + 1, sum_p[i + 1], sum_q[i + 1]
            continue
        ratio, start, width = math.exp(grid * step), i + 1, 64
        while True:
            surplus = (sum_p[start : start + width] - used_p) - ratio * (
                sum_q[start : start + width] - used_q
            )
            under = np.flatnonzero(surplus <= 0)
            if under.size or start + width >= len(sum_p):
                break
            start, width = start + width, 2 * width
        if under.size == 0 or start + under[0] == i + 1:
            rest = sum_p[-1] - used_p if under.size == 0 else sum_p[i + 1] - used_p
            found[grid] = found.get(grid, 0.0) + rest
            if under.size == 0:
                break
            i, used_p, used_q = i + 1, sum_p[i + 1], sum_q[i + 1]
            continue
        j = int(start + under[0]) - 1  # the atom in which the group ends
        before = (sum_p[j] - used_p) - ratio * (sum_q[j] - used_q)
        part = before / (before - ((sum_p[j + 1] - used_p) - ratio * (sum_q[j + 1] - used_q)))
        end_p, end_q = sum_p[j] + part * p[j], sum_q[j] + part * q[j]
        found[grid] = found.get(grid, 0.0) + end_p - used_p
        i, used_p, used_q = j, end_p, end_q
    start = min(found)
    masses = np.zeros(max(found) - start + 1)
    for index, mass in found.items():
        masses[index - start] += max(mass, 0.0)
    return start, masses, _at_infinity(law)
