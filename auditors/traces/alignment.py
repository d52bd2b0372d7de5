"""Randomness alignment: the shift of the noise after which both datasets give the same output.

The module covers noise that is drawn without the data and added later. Where the output is the
data's part plus a linear function of the noise, the shift transforms the law of one run into the
law of the other run. This is the randomness alignment of Wang, Ding, Wang, Kifer and Zhang (2019),
found from runs instead of from a proof.

The laws of the noise on each dataset explain differences without such a shift. A trace couples two
runs by equal draws. Equal laws need not have equal draws: ``x - laplace`` and ``x + laplace``
differ in every run and have the same law. Where an output is a constant plus a linear function of
independent draws, the law of the noise is known:

- normal draws matter by their covariance only,
- each draw of another law matters by its column, times its scale; the order of the columns is
  irrelevant, and so is the sign of a column where the law is symmetric,
- two one-sided draws with opposite columns are one two-sided draw.

Equal laws of noise leave a shift between the two constants, which has a privacy loss. Unequal laws
confirm the difference. Where the output is not linear in the draws, or depends on other randomness,
the law is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog

from dpwitness.auditors.traces.calls import CallTable
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.recording.primitives import LOCATION_LAWS

MOST = 24  # largest number of noise variables that are shifted one by one
_RELATIVE_TOLERANCE = 2e-6  # outputs may be rounded to 32 bits
_SYMMETRIC = ("laplace", "gaussian", "geometric", "discrete_gaussian")
_TWO_SIDED = {"exponential": "laplace", "one_sided_geometric": "geometric"}
_TOLERANCE = 1e-5  # relative; outputs may be rounded to 32 bits
Replay = Callable[[list[Any] | None], Json]
Column = tuple[str, float, FloatArray]  # law, scale (1 if the column includes the scale), column
WHOLE = ("geometric", "discrete_gaussian", "one_sided_geometric")
_SMALLEST_VALUE = {"exponential": 0.0, "one_sided_geometric": 1.0}  # smallest value of the noise


@dataclass(frozen=True, slots=True)
class Alignment:
    """Shifts of the noise that align two runs."""

    moved: dict[int, FloatArray]  # shift of the numbers of each call
    only: bool  # whether no other shift aligns the runs
    normal: bool  # whether all noise is normal
    some: bool  # whether some noise is normal


def align(
    replay: Callable[[list[Any]], Json], recorded: Json, replayed: Json, calls: CallTable
) -> Alignment | str | None:
    """Return the alignment of a recording with the other dataset; None if none was found, a reason
    if a proof shows that there is none.

    `replay(shifts)` replays the record on the other dataset with shifted noise; `replayed` and
    `calls` are those of the unshifted replay.
    """
    y1, y0 = np.asarray(recorded["numbers"]), np.asarray(replayed["numbers"])
    free = [i for i in range(len(calls)) if calls.free(i) and calls.output(i) is not None]
    fits = (
        y1.shape == y0.shape
        and y1.size > 0
        and recorded["texts"] == replayed["texts"]
        and not replayed["differences"]
    )
    if not fits or not free or not np.isfinite(y1 - y0).all():
        return None
    noise = ShiftedNoise(replay, calls, free, y0)
    steps, goal, size = noise.steps, y1 - y0, largest(y1) + largest(y1 - y0)
    # as many noise variables as numbers: one more run may give all slopes
    if len(steps) == len(y0):
        moved = noise.run(steps)
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = None if moved is None else np.where(goal == 0, 0.0, goal * steps / (moved - y0))
        found = _verified(noise, shift, y1, size, only=True)
        if found is not None:
            return found
    if len(steps) > MOST:
        return None
    jacobian = noise.slopes()
    if jacobian is None:
        return None
    shift = cheapest_shift(jacobian, goal, noise.scales, noise.laws, noise.drawn)
    only = bool(np.linalg.matrix_rank(jacobian) == len(steps))
    found = _verified(noise, shift, y1, size, only=only)
    if found is not None:
        return found
    # a difference between noisy numbers that no shift of the noise gives
    noisy = np.abs(jacobian).max(axis=1) > 0
    if not noisy.any():
        return None
    explained, *_ = np.linalg.lstsq(jacobian[noisy], goal[noisy], rcond=1e-10)
    if largest(jacobian[noisy] @ explained - goal[noisy]) <= 1e3 * _RELATIVE_TOLERANCE * size:
        return None
    points = (steps, -3.0 * steps * np.linspace(0.5, 1.0, len(steps)))
    if not all(follows(noise.run(by), y0 + jacobian @ by, size) for by in points):
        return None
    return (
        f"{int(noisy.sum())} noisy numbers of the output share "
        f"{np.linalg.matrix_rank(jacobian[noisy])} noise terms: no shift of the noise explains "
        "their difference"
    )


class ShiftedNoise:
    """Draws of the calls `which`, as one vector that can be shifted; `output` is that of a run
    without shifts.
    """

    def __init__(
        self,
        replay: Callable[[list[Any]], Json],
        calls: CallTable,
        which: list[int],
        output: FloatArray,
    ) -> None:
        self._replay, self.calls, self._which, self._output = replay, calls, which, output
        drawn = [np.asarray(calls.output(i)) for i in which]
        self._borders = np.cumsum([len(each) for each in drawn])[:-1]
        self.drawn: FloatArray = np.concatenate(drawn)
        self.laws = tuple(calls.law(i) for i, each in zip(which, drawn, strict=True) for _ in each)
        self.scales: FloatArray = np.concatenate(
            [
                np.broadcast_to(scale_of(calls, i), len(each))
                for i, each in zip(which, drawn, strict=True)
            ]
        )
        self.whole = np.isin(self.laws, WHOLE)
        self.steps: FloatArray = np.where(self.whole, 1.0, self.scales)

    def _by_call(self, shift: FloatArray) -> list[tuple[int, FloatArray]]:
        """Return the parts of a shift that are not zero, with the index of their call."""
        return [
            (i, by)
            for i, by in zip(self._which, np.split(shift, self._borders), strict=True)
            if np.any(by)
        ]

    def run(self, shift: FloatArray) -> FloatArray | None:
        """Return the output with shifted noise, or None if the shift changes more than
        the numbers.
        """
        found = self._replay(self._by_call(shift))
        numbers = np.asarray(found["numbers"], dtype=float)
        return (
            None
            if found["differences"] or found["raised"] or numbers.shape != self._output.shape
            else numbers
        )

    def slopes(self) -> FloatArray | None:
        """Return the effect of a unit of each draw on each number of the output, or None as in
        `run`.
        """
        places = np.arange(len(self.steps))
        found = [self.run(self.steps * (places == j)) for j in places]
        if any(moved is None for moved in found):
            return None
        return ((np.array(found) - self._output) / self.steps[:, None]).T

    def alignment(self, shift: FloatArray, only: bool) -> Alignment:
        """Return the alignment of a shift; `only` states that there is no other."""
        gaussian = [law in ("gaussian", "discrete_gaussian") for law in self.laws]
        return Alignment(dict(self._by_call(shift)), only, all(gaussian), any(gaussian))


def _verified(
    noise: ShiftedNoise, shift: FloatArray | None, recorded: FloatArray, size: float, *, only: bool
) -> Alignment | None:
    """Return the alignment for `shift` if the shift is in the noise's support and reproduces the
    recorded output; otherwise None.
    """
    if (
        shift is None
        or not np.isfinite(shift).all()
        or np.any(noise.drawn + shift < _smallest_values(noise.laws))
    ):
        return None
    shift = np.where(noise.whole, np.round(shift), shift)
    found = noise.run(shift)
    if found is None or largest(found - recorded) > _RELATIVE_TOLERANCE * size:
        return None
    return noise.alignment(
        np.where(np.abs(shift) > 1e-9 * np.abs(shift).max(initial=0.0), shift, 0.0), only
    )


def largest(values: Any) -> float:
    """Return the largest magnitude in an array; 0 for an empty one, as of an output without
    numbers.
    """
    return float(np.max(np.abs(values), initial=0.0))


def close(a: Any, b: Any, *, tolerance: float = 1e-4) -> bool:
    """Return whether two arrays have one shape and are equal to `tolerance` of their largest
    entry.
    """
    if a.shape != b.shape:
        return False
    size = max(largest(a), largest(b))
    return bool(np.isfinite(size) and largest(a - b) <= tolerance * size)


def follows(found: FloatArray | None, expected: FloatArray, size: float) -> bool:
    """Return whether an output equals the expected output, up to rounding to 32 bits."""
    return found is not None and largest(found - expected) <= 10 * _RELATIVE_TOLERANCE * (
        size + largest(expected)
    )


def cheapest_shift(
    jacobian: FloatArray,
    goal: FloatArray,
    scales: FloatArray,
    laws: Sequence[str],
    drawn: FloatArray,
) -> FloatArray | None:
    """Return the cheapest shift of draws of these laws that moves the output by `goal`, within the
    laws' support, or None.
    """
    # of normal noise, the smallest length in units of the noise's standard deviations
    if all(law in ("gaussian", "discrete_gaussian") for law in laws):
        with np.errstate(all="ignore"):
            steps, *_ = np.linalg.lstsq(jacobian * scales, goal, rcond=1e-10)
        return steps * scales if np.isfinite(steps).all() else None
    # of other noise, the smallest sum of |shift| / scale within the support
    size, lowest = max(largest(goal), 1e-300), _smallest_values(laws) - drawn
    down = [(0.0, None if low == -np.inf else max(-low, 0.0) / size) for low in lowest]
    found = linprog(
        np.tile(1 / scales, 2),
        A_eq=np.hstack([jacobian, -jacobian]),
        b_eq=goal / size,
        bounds=[(0.0, None)] * len(scales) + down,
        method="highs",
    )
    return (found.x[: len(scales)] - found.x[len(scales) :]) * size if found.status == 0 else None


def _smallest_values(laws: Sequence[str]) -> FloatArray:
    """Return the smallest value of a draw of each law."""
    return np.array([_SMALLEST_VALUE.get(law, -np.inf) for law in laws])


def draws_matter(
    replay: Callable[[list[Any]], Json], calls: CallTable, which: list[int], numbers: Any
) -> bool:
    """Return whether shifts of the draws of calls `which` change the output from `numbers`."""
    if not which:
        return False
    found = replay([(i, np.ones(int(calls.table["size"][i]))) for i in which])
    return bool(
        found["differences"]
        or found["raised"]
        or not np.array_equal(found["numbers"], numbers, equal_nan=True)
    )


def scale_of(calls: CallTable, i: int) -> FloatArray:
    """Return the scale of the numbers that a call draws; 1 if the scale is unknown."""
    scale = np.atleast_1d(np.asarray(calls.scale(i), dtype=float))
    if calls.law(i) == "one_sided_geometric":
        scale = 1 / -np.log1p(-np.clip(scale, 0.0, 1 - 1e-15))
    return np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class NoiseLaw:
    """Output as a constant plus a linear function of independent draws."""

    constant: FloatArray  # output without noise
    # effect of a unit of each draw on each number; a vector if each number has one draw, in the
    # same order
    columns: FloatArray
    draws: FloatArray  # recorded draws, minus their location
    noise: ShiftedNoise

    def deviations(self) -> FloatArray:
        """Return the root of the sum of squared scales of the noise in each number."""
        found = self.columns * self.noise.scales
        return np.abs(found) if found.ndim == 1 else np.sqrt((found**2).sum(axis=1))

    def same_noise(self, other: NoiseLaw) -> bool:
        """Return whether the noise of both has the same law."""
        if self.columns.ndim != other.columns.ndim or self.constant.shape != other.constant.shape:
            return False
        if self.columns.ndim == 1:
            first, second = self.columns * self.noise.scales, other.columns * other.noise.scales
            symmetric = np.isin(self.noise.laws, _SYMMETRIC)
            whole = not self.noise.whole.any() or np.array_equal(
                self.noise.scales, other.noise.scales
            )
            sides = (np.where(symmetric, np.abs(side), side) for side in (first, second))
            return (
                self.noise.laws == other.noise.laws
                and whole
                and close(*sides, tolerance=_TOLERANCE)
            )
        # normal noise by its covariance, other noise by its columns
        normal = [
            side.columns * side.noise.scales * np.isin(side.noise.laws, "gaussian")
            for side in (self, other)
        ]
        covariances = (side @ side.T for side in normal)
        return close(*covariances, tolerance=_TOLERANCE) and _same_columns(
            _other_columns(self), _other_columns(other)
        )

    def repeats(self, other: NoiseLaw) -> bool:
        """Return whether two recordings on one dataset have the same law."""
        size = float(self.deviations().max(initial=0.0) + largest(self.constant))
        return self.same_noise(other) and bool(
            largest(self.constant - other.constant) <= 10 * _TOLERANCE * size
        )

    def alignment(self, other: NoiseLaw) -> Alignment | None:
        """Return the cheapest shift of the draws that gives the output of `other`, or None if no
        shift does.
        """
        goal = self.constant - other.constant
        if self.columns.ndim == 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                shift: FloatArray | None = np.where(goal == 0, 0.0, goal / self.columns)
            only = True
        else:
            noise = self.noise
            shift = cheapest_shift(self.columns, goal, noise.scales, noise.laws, self.draws)
            only = bool(np.linalg.matrix_rank(self.columns) == len(noise.laws))
        if shift is None or not np.isfinite(shift).all():
            return None
        explained = _effect(self.columns, shift)
        size = float(self.deviations().max(initial=0.0) + largest(self.constant))
        if largest(explained - goal) > 10 * _TOLERANCE * size:
            return None
        return self.noise.alignment(shift, only)


def noise_law(replay: Replay, recorded: Json) -> NoiseLaw | str:
    """Return the law of the noise in a recorded output, from replays of the recording on the same
    dataset.

    Returns ``"mixed"`` if the output is not linear in the draws, ``"unknown"`` if the law is
    unknown for another reason.
    """
    calls = CallTable(replay(None)["table"])
    output = np.asarray(recorded["numbers"], dtype=float)
    located = [i for i in range(len(calls)) if calls.law(i) in LOCATION_LAWS]
    free = [i for i in located if calls.output(i) is not None]
    plain = all(calls.source(i) or calls.law(i) == "spend" for i in range(len(calls)))
    if (
        not plain
        or not free
        or recorded["raised"]
        or recorded["texts"]
        or not np.isfinite(output).all()
    ):
        return "unknown"
    noise = ShiftedNoise(replay, calls, free, output)
    # the linear function of the draws, verified at two further points
    steps, columns = noise.steps, _slopes(noise, output)
    if columns is None:
        return "unknown"
    for by in (
        -3.0 * steps * np.round(np.linspace(1.0, 4.0, len(steps))),
        2.0 * steps * (1 + np.arange(len(steps)) % 3),
    ):
        if not follows(noise.run(by), output + _effect(columns, by), largest(output)):
            return "mixed"
    others = [i for i in range(len(calls)) if calls.source(i) and i not in located]
    if draws_matter(replay, calls, others, recorded["numbers"]):
        return "unknown"
    centers = [
        np.broadcast_to(np.asarray(calls.table["center"][i], dtype=float), len(calls.output(i)))  # type: ignore[arg-type]
        for i in free
    ]
    draws = noise.drawn - np.nan_to_num(np.concatenate(centers))
    return NoiseLaw(output - _effect(columns, draws), columns, draws, noise)


def _slopes(noise: ShiftedNoise, output: FloatArray) -> FloatArray | None:
    """Return the slopes of the output in the draws: a column per draw, or, for many draws, the
    slope of each number in the draw at its place. None if a shifted run gives no output.
    """
    if len(noise.steps) <= MOST:
        return noise.slopes()
    moved = noise.run(noise.steps) if len(noise.steps) == len(output) else None
    return None if moved is None else (moved - output) / noise.steps


def _effect(columns: FloatArray, by: FloatArray) -> FloatArray:
    """Return the effect of shifts of the draws on the output."""
    return np.asarray(columns * by if columns.ndim == 1 else columns @ by)


def _other_columns(law: NoiseLaw) -> list[Column]:
    """Return the columns of draws that are not normal; opposite pairs of one-sided draws are merged
    into two-sided draws.
    """
    found: list[Column] = []
    for name, scale, column in zip(
        law.noise.laws, law.noise.scales.tolist(), law.columns.T, strict=True
    ):
        if name == "gaussian" or not np.any(column):
            continue
        new: Column = (name, scale, column) if name in WHOLE else (name, 1.0, column * scale)
        twin = next(
            (
                k
                for k, each in enumerate(found)
                if name in _TWO_SIDED and _equal(each, (*new[:2], -new[2]))
            ),
            None,
        )
        if twin is None:
            found.append(new)
        else:
            del found[twin]
            found.append((_TWO_SIDED[name], *new[1:]))
    return found


def _same_columns(first: list[Column], second: list[Column]) -> bool:
    """Return whether two lists of columns are equal up to order, and up to sign for
    symmetric laws.
    """
    if len(first) != len(second) or not first:
        return not first and not second
    equal = np.array(
        [
            [_equal(a, b) or (a[0] in _SYMMETRIC and _equal(a, (*b[:2], -b[2]))) for b in second]
            for a in first
        ]
    )
    return bool(equal[linear_sum_assignment(equal, maximize=True)].all())


def _equal(first: Column, second: Column) -> bool:
    """Return whether two columns have the same law, scale and entries, up to rounding."""
    return (
        first[0] == second[0]
        and bool(np.isclose(first[1], second[1], rtol=_TOLERANCE))
        and close(first[2], second[2], tolerance=_TOLERANCE)
    )
