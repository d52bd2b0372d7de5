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

from dpwitness.auditors.traces.calls import Call, CallTable
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.recording.primitives import LOCATION_LAWS

MOST = 24  # largest number of noise variables that are shifted one by one
_RELATIVE_TOLERANCE = 2e-6  # outputs may be rounded to 32 bits
_SYMMETRIC = ("laplace", "gaussian", "geometric", "discrete_gaussian")
_TWO_SIDED = {"exponential": "laplace", "one_sided_geometric": "geometric"}
_TOLERANCE = 1e-5  # relative; outputs may be rounded to 32 bits
# replay of a recording with shifted draws, each the index of a call and its shift
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
    replay: Replay, recorded: Json, replayed: Json, calls: CallTable
) -> Alignment | str | None:
    """Return the alignment of a recording with the other dataset; None if none was found, a reason
    if a proof shows that there is none.

    `replay(shifts)` replays the record on the other dataset with shifted noise; `replayed` and
    `calls` are those of the unshifted replay.
    """
    y1, y0 = np.asarray(recorded["numbers"]), np.asarray(replayed["numbers"])
    free = [call for call in calls if call.free and call.drawn is not None]
    comparable = y1.shape == y0.shape and y1.size > 0 and recorded["texts"] == replayed["texts"]
    if not comparable or replayed["differences"] or not free or not np.isfinite(y1 - y0).all():
        return None
    noise = ShiftedNoise(replay, free, y0)
    goal, size = y1 - y0, largest(y1) + largest(y1 - y0)
    columns: FloatArray | None = None
    # where each number has one draw, one run gives all slopes
    for slopes in (noise.own_slopes, noise.slopes):
        columns = slopes()
        shift, only = (None, False) if columns is None else noise.shift(columns, goal, noise.drawn)
        found = None if shift is None else _verified(noise, shift, y1, size, only=only)
        if found is not None:
            return found
    return None if columns is None else _contradiction(noise, columns, goal, size)


def _contradiction(
    noise: ShiftedNoise, jacobian: FloatArray, goal: FloatArray, size: float
) -> str | None:
    """Return that noisy numbers of the output differ as no shift of the noise can explain; None if
    that is not proved.
    """
    noisy = np.abs(jacobian).max(axis=1) > 0
    if not noisy.any():
        return None
    explained, *_ = np.linalg.lstsq(jacobian[noisy], goal[noisy], rcond=1e-10)
    if largest(jacobian[noisy] @ explained - goal[noisy]) <= 1e3 * _RELATIVE_TOLERANCE * size:
        return None
    points = (noise.steps, -3.0 * noise.steps * np.linspace(0.5, 1.0, len(noise.steps)))
    if not all(follows(noise.run(by), noise.output + jacobian @ by, size) for by in points):
        return None
    return (
        f"{int(noisy.sum())} noisy numbers of the output share "
        f"{np.linalg.matrix_rank(jacobian[noisy])} noise terms: no shift of the noise explains "
        "their difference"
    )


class ShiftedNoise:
    """Draws of calls, as one vector that can be shifted; `output` is that of a run without
    shifts.
    """

    def __init__(self, replay: Replay, calls: Sequence[Call], output: FloatArray) -> None:
        self._replay, self._calls, self.output = replay, calls, output
        drawn = [np.asarray(call.drawn) for call in calls]
        sizes = [len(each) for each in drawn]
        self._borders = np.cumsum(sizes)[:-1]
        self.drawn: FloatArray = np.concatenate(drawn)
        self.laws = tuple(np.repeat([call.law for call in calls], sizes).tolist())
        scales = [
            np.broadcast_to(call.noise_scales(), size)
            for call, size in zip(calls, sizes, strict=True)
        ]
        self.scales: FloatArray = np.concatenate(scales)
        self.whole = np.isin(self.laws, WHOLE)
        self.steps: FloatArray = np.where(self.whole, 1.0, self.scales)

    def _by_call(self, shift: FloatArray) -> dict[int, FloatArray]:
        """Return the parts of a shift that are not zero, by the index of their call."""
        parts = zip(self._calls, np.split(shift, self._borders), strict=True)
        return {call.index: by for call, by in parts if np.any(by)}

    def run(self, shift: FloatArray) -> FloatArray | None:
        """Return the output with shifted noise, or None if the shift changes more than
        the numbers.
        """
        found = self._replay(list(self._by_call(shift).items()))
        numbers = np.asarray(found["numbers"], dtype=float)
        changed = found["differences"] or found["raised"] or numbers.shape != self.output.shape
        return None if changed else numbers

    def slopes(self) -> FloatArray | None:
        """Return the effect of a unit of each draw on each number of the output; None as in `run`,
        or for many draws.
        """
        if len(self.steps) > MOST:
            return None
        found = [self.run(step) for step in np.diag(self.steps)]
        if any(moved is None for moved in found):
            return None
        return ((np.array(found) - self.output) / self.steps[:, None]).T

    def own_slopes(self) -> FloatArray | None:
        """Return the effect of a unit of each draw on the number at its place; None as in `run`, or
        where there are not as many numbers as draws.
        """
        moved = self.run(self.steps) if len(self.steps) == len(self.output) else None
        return None if moved is None else (moved - self.output) / self.steps

    def shift(
        self, columns: FloatArray, goal: FloatArray, drawn: FloatArray
    ) -> tuple[FloatArray | None, bool]:
        """Return the cheapest shift of draws that moves the output by `goal`, or None, and whether
        no other shift does; `columns` are slopes of either kind.
        """
        if columns.ndim > 1:
            found = cheapest_shift(columns, goal, self.scales, self.laws, drawn)
            return found, bool(np.linalg.matrix_rank(columns) == len(self.laws))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(goal == 0, 0.0, goal / columns), True

    def alignment(self, shift: FloatArray, only: bool) -> Alignment:
        """Return the alignment of a shift; `only` states that there is no other."""
        gaussian = np.isin(self.laws, ("gaussian", "discrete_gaussian"))
        return Alignment(self._by_call(shift), only, bool(gaussian.all()), bool(gaussian.any()))


def _verified(
    noise: ShiftedNoise, shift: FloatArray, recorded: FloatArray, size: float, *, only: bool
) -> Alignment | None:
    """Return the alignment for `shift` if the shift is in the noise's support and reproduces the
    recorded output; otherwise None.
    """
    outside = noise.drawn + shift < _smallest_values(noise.laws)
    if outside.any() or not np.isfinite(shift).all():
        return None
    shift = np.where(noise.whole, np.round(shift), shift)
    found = noise.run(shift)
    if found is None or largest(found - recorded) > _RELATIVE_TOLERANCE * size:
        return None
    kept = np.abs(shift) > 1e-9 * largest(shift)
    return noise.alignment(np.where(kept, shift, 0.0), only)


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


def draws_matter(replay: Replay, calls: Sequence[Call], numbers: Any) -> bool:
    """Return whether shifts of the draws of calls change the output from `numbers`."""
    if not calls:
        return False
    found = replay([(call.index, np.ones(call.size)) for call in calls])
    unchanged = np.array_equal(found["numbers"], numbers, equal_nan=True)
    return bool(found["differences"] or found["raised"]) or not unchanged


@dataclass(frozen=True, slots=True, eq=False)
class NoiseLaw:
    """Output as a constant plus a linear function of independent draws."""

    constant: FloatArray  # output without noise
    # effect of a unit of each draw on each number; a vector if each number has one draw, in the
    # same order
    columns: FloatArray
    draws: FloatArray  # recorded draws, minus their location
    noise: ShiftedNoise
    calls: CallTable  # calls of the recording

    def deviations(self) -> FloatArray:
        """Return the root of the sum of squared scales of the noise in each number."""
        found = self.columns * self.noise.scales
        return np.abs(found) if found.ndim == 1 else np.sqrt((found**2).sum(axis=1))

    @property
    def rounding(self) -> float:
        """Differences of outputs that rounding may cause."""
        return 10 * _TOLERANCE * float(self.deviations().max(initial=0.0) + largest(self.constant))

    def same_noise(self, other: NoiseLaw) -> bool:
        """Return whether the noise in both outputs has the same law."""
        if self.columns.ndim != other.columns.ndim or self.constant.shape != other.constant.shape:
            return False
        scaled = [side.columns * side.noise.scales for side in (self, other)]
        if self.columns.ndim == 1:
            noise = self.noise
            if noise.laws != other.noise.laws or (
                noise.whole.any() and not np.array_equal(noise.scales, other.noise.scales)
            ):
                return False
            symmetric = np.isin(noise.laws, _SYMMETRIC)
            sides = [np.where(symmetric, np.abs(side), side) for side in scaled]
            return close(*sides, tolerance=_TOLERANCE)
        # normal noise by its covariance, other noise by its columns
        normal = [
            side * np.isin(law.noise.laws, "gaussian")
            for side, law in zip(scaled, (self, other), strict=True)
        ]
        covariances = (side @ side.T for side in normal)
        return close(*covariances, tolerance=_TOLERANCE) and _same_columns(
            _other_columns(self), _other_columns(other)
        )

    def repeats(self, other: NoiseLaw) -> bool:
        """Return whether two recordings on one dataset have the same law."""
        return self.same_noise(other) and largest(self.constant - other.constant) <= self.rounding

    def alignment(self, other: NoiseLaw) -> Alignment | None:
        """Return the cheapest shift of the draws that gives the output of `other`, or None if no
        shift does.
        """
        goal = self.constant - other.constant
        shift, only = self.noise.shift(self.columns, goal, self.draws)
        if shift is None or not np.isfinite(shift).all():
            return None
        unexplained = largest(_effect(self.columns, shift) - goal)
        return None if unexplained > self.rounding else self.noise.alignment(shift, only)


def noise_law(replay: Replay, recorded: Json) -> NoiseLaw | str:
    """Return the law of the noise in a recorded output, from replays of the recording on the same
    dataset.

    Returns ``"mixed"`` if the output is not linear in the draws, ``"unknown"`` if the law is
    unknown for another reason.
    """
    calls = CallTable.of(replay(None)["table"])
    output = np.asarray(recorded["numbers"], dtype=float)
    free = [call for call in calls if call.law in LOCATION_LAWS and call.drawn is not None]
    numeric = not recorded["raised"] and not recorded["texts"] and np.isfinite(output).all()
    if not calls.plain or not free or not numeric:
        return "unknown"
    noise = ShiftedNoise(replay, free, output)
    # the linear function of the draws, verified at two further points
    steps = noise.steps
    columns = (noise.slopes if len(steps) <= MOST else noise.own_slopes)()
    if columns is None:
        return "unknown"
    for by in (
        -3.0 * steps * np.round(np.linspace(1.0, 4.0, len(steps))),
        2.0 * steps * (1 + np.arange(len(steps)) % 3),
    ):
        if not follows(noise.run(by), output + _effect(columns, by), largest(output)):
            return "mixed"
    others = [call for call in calls if call.source and call.law not in LOCATION_LAWS]
    if draws_matter(replay, others, recorded["numbers"]):
        return "unknown"
    centers = [np.broadcast_to(call.row["center"], np.asarray(call.drawn).shape) for call in free]
    draws = noise.drawn - np.nan_to_num(np.concatenate(centers).astype(float))
    return NoiseLaw(output - _effect(columns, draws), columns, draws, noise, calls)


def _effect(columns: FloatArray, by: FloatArray) -> FloatArray:
    """Return the effect of shifts of the draws on the output."""
    return np.asarray(columns * by if columns.ndim == 1 else columns @ by)


def _other_columns(law: NoiseLaw) -> list[Column]:
    """Return the columns of draws that are not normal; opposite pairs of one-sided draws are merged
    into two-sided draws.
    """
    found: list[Column] = []
    scales = law.noise.scales.tolist()
    for name, scale, column in zip(law.noise.laws, scales, law.columns.T, strict=True):
        if name == "gaussian" or not np.any(column):
            continue
        new: Column = (name, scale, column) if name in WHOLE else (name, 1.0, column * scale)
        opposite = (*new[:2], -new[2])
        one_sided = name in _TWO_SIDED
        twin = next((each for each in found if one_sided and _equal(each, opposite)), None)
        if twin is not None:
            new = (_TWO_SIDED[name], *new[1:])
        found = [*(each for each in found if each is not twin), new]
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
