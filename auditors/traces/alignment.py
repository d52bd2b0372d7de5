"""Randomness alignment: the shift of the noise after which both datasets give the same output.

The module covers noise that is drawn without the data and added later. Where the output is the
data's part plus a linear function of the noise, the shift transforms the law of one run into the
law of the other run. This is the randomness alignment of Wang, Ding, Wang, Kifer and Zhang (2019),
found from runs instead of from a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from dpwitness.auditors.traces.calls import Calls
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_reader import Json

MOST = 24  # largest number of noise variables that are shifted one by one
_RELATIVE_TOLERANCE = 2e-6  # outputs may be rounded to 32 bits
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
    replay: Callable[[list[Any]], Json], recorded: Json, replayed: Json, calls: Calls
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
    explanation = _describe_unreachable(jacobian, goal, size)
    points = (steps, -3.0 * steps * np.linspace(0.5, 1.0, len(steps))) if explanation else ()
    linear = all(follows(noise.run(by), y0 + jacobian @ by, size) for by in points)
    return explanation if explanation and linear else None


class ShiftedNoise:
    """Draws of the calls `which`, as one vector that can be shifted; `output` is that of a run
    without shifts.
    """

    def __init__(
        self,
        replay: Callable[[list[Any]], Json],
        calls: Calls,
        which: list[int],
        output: FloatArray,
    ) -> None:
        self._replay, self.calls, self._which, self._output = replay, calls, which, output
        drawn = [np.asarray(calls.output(i)) for i in which]
        self._borders = np.cumsum([len(each) for each in drawn])[:-1]
        self.drawn: FloatArray = np.concatenate(drawn)
        self.laws = tuple(calls.law(i) for i, each in zip(which, drawn, strict=True) for _ in each)
        self.scales = np.concatenate(
            [
                np.broadcast_to(scale_of(calls, i), len(each))
                for i, each in zip(which, drawn, strict=True)
            ]
        )
        self.whole = np.isin(self.laws, WHOLE)
        self.steps = np.where(self.whole, 1.0, self.scales)

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


def _describe_unreachable(jacobian: FloatArray, goal: FloatArray, size: float) -> str:
    """Return a description of a difference between noisy numbers that no shift of the noise gives;
    empty if there is none.
    """
    noisy = np.abs(jacobian).max(axis=1) > 0
    if not noisy.any():
        return ""
    explained, *_ = np.linalg.lstsq(jacobian[noisy], goal[noisy], rcond=1e-10)
    if largest(jacobian[noisy] @ explained - goal[noisy]) <= 1e3 * _RELATIVE_TOLERANCE * size:
        return ""
    rank = np.linalg.matrix_rank(jacobian[noisy])
    return (
        f"{int(noisy.sum())} noisy numbers of the output share {rank} noise terms: no shift of "
        "the noise explains their difference"
    )


def largest(values: Any) -> float:
    """Return the largest magnitude in an array; 0 for an empty one, as of an output without
    numbers.
    """
    return float(np.max(np.abs(values), initial=0.0))


def close(a: Any, b: Any) -> bool:
    """Return whether two arrays are equal to 1e-4 of their largest entry."""
    size = float(max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0)))
    return bool(np.isfinite(size) and np.max(np.abs(a - b), initial=0.0) <= 1e-4 * size)


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
    if all(law in ("gaussian", "discrete_gaussian") for law in laws):
        return _least_squares(jacobian, goal, scales)
    return _least_loss(jacobian, goal, scales, _smallest_values(laws) - drawn)


def _smallest_values(laws: Sequence[str]) -> FloatArray:
    """Return the smallest value of a draw of each law."""
    return np.array([_SMALLEST_VALUE.get(law, -np.inf) for law in laws])


def draws_matter(
    replay: Callable[[list[Any]], Json], calls: Calls, which: list[int], numbers: Any
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


def scale_of(calls: Calls, i: int) -> FloatArray:
    """Return the scale of the numbers that a call draws; 1 if the scale is unknown."""
    scale = np.atleast_1d(np.asarray(calls.scale(i), dtype=float))
    if calls.law(i) == "one_sided_geometric":
        scale = 1 / -np.log1p(-np.clip(scale, 0.0, 1 - 1e-15))
    return np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)


def _least_squares(jacobian: FloatArray, goal: FloatArray, scales: FloatArray) -> FloatArray | None:
    """Return the shift of normal noise with the smallest length in units of the noise's standard
    deviations, or None.
    """
    with np.errstate(all="ignore"):
        found, *_ = np.linalg.lstsq(jacobian * scales, goal, rcond=1e-10)
    return found * scales if np.isfinite(found).all() else None


def _least_loss(
    jacobian: FloatArray, goal: FloatArray, scales: FloatArray, lowest: FloatArray
) -> FloatArray | None:
    """Return the shift with the smallest sum of |shift| / scale within the support of the noise, or
    None.
    """
    size = max(largest(goal), 1e-300)
    down = [(0.0, None if low == -np.inf else max(-low, 0.0) / size) for low in lowest]
    bounds = [(0.0, None)] * len(scales) + down
    found = linprog(
        np.tile(1 / scales, 2),
        A_eq=np.hstack([jacobian, -jacobian]),
        b_eq=goal / size,
        bounds=bounds,
        method="highs",
    )
    return (found.x[: len(scales)] - found.x[len(scales) :]) * size if found.status == 0 else None
