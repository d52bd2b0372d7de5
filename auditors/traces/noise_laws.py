"""Laws of the noise in an output, on each dataset separately, to explain differences between
coupled runs.

A trace couples two runs by equal draws. Equal laws need not have equal draws: ``x - laplace`` and
``x + laplace`` differ in every run and have the same law. Where an output is a constant plus a
linear function of independent draws, the law of the noise is known:

- normal draws matter by their covariance only,
- each draw of another law matters by its column, times its scale; the order of the columns is
  irrelevant, and so is the sign of a column where the law is symmetric,
- two one-sided draws with opposite columns are one two-sided draw.

Equal laws of noise leave a shift between the two constants, which has a privacy loss. Unequal laws
confirm the difference. Where the output is not linear in the draws, or depends on other randomness,
the law is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.auditors.traces.alignment import (
    MOST,
    WHOLE,
    Alignment,
    cheapest_shift,
    draws_matter,
    follows,
    scale_of,
)
from dpwitness.auditors.traces.calls import Calls
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.recording.primitives import LOCATION_LAWS

_SYMMETRIC = ("laplace", "gaussian", "geometric", "discrete_gaussian")
_TWO_SIDED = {"exponential": "laplace", "one_sided_geometric": "geometric"}
_TOLERANCE = 1e-5  # relative; outputs may be rounded to 32 bits
Replay = Callable[[list[Any] | None], Json]
Column = tuple[str, float, FloatArray]  # law, scale (1 if the column includes the scale), column


@dataclass(frozen=True, slots=True, eq=False)
class NoiseLaw:
    """Output as a constant plus a linear function of independent draws."""

    constant: FloatArray  # output without noise
    # effect of a unit of each draw on each number; a vector if each number has one draw, in the
    # same order
    columns: FloatArray
    laws: tuple[str, ...]
    scales: FloatArray
    draws: FloatArray  # recorded draws, minus their location
    calls: Calls
    free: list[int]  # calls that draw

    def deviations(self) -> FloatArray:
        """Return the root of the sum of squared scales of the noise in each number."""
        found = self.columns * self.scales
        return np.abs(found) if found.ndim == 1 else np.sqrt((found**2).sum(axis=1))

    def same_noise(self, other: NoiseLaw) -> bool:
        """Return whether the noise of both has the same law."""
        if self.columns.ndim != other.columns.ndim or self.constant.shape != other.constant.shape:
            return False
        if self.columns.ndim == 1:
            first, second = self.columns * self.scales, other.columns * other.scales
            symmetric = np.array([law in _SYMMETRIC for law in self.laws])
            whole = not any(law in WHOLE for law in self.laws) or np.array_equal(
                self.scales, other.scales
            )
            sides = (np.where(symmetric, np.abs(side), side) for side in (first, second))
            return self.laws == other.laws and whole and _close(*sides)
        covariances = [_normal_covariance(side) for side in (self, other)]
        return _close(*covariances) and _same_columns(_other_columns(self), _other_columns(other))

    def repeats(self, other: NoiseLaw) -> bool:
        """Return whether two recordings on one dataset have the same law."""
        size = float(self.deviations().max(initial=0.0) + np.abs(self.constant).max(initial=0.0))
        return self.same_noise(other) and bool(
            np.abs(self.constant - other.constant).max(initial=0.0) <= 10 * _TOLERANCE * size
        )

    def alignment(self, other: NoiseLaw) -> Alignment | None:
        """Return the cheapest shift of the draws that gives the output of `other`, or None if no
        shift does.
        """
        goal = self.constant - other.constant
        gaussian = [law in ("gaussian", "discrete_gaussian") for law in self.laws]
        if self.columns.ndim == 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                shift: FloatArray | None = np.where(goal == 0, 0.0, goal / self.columns)
            only = True
        else:
            shift = cheapest_shift(self.columns, goal, self.scales, self.laws, self.draws)
            only = bool(np.linalg.matrix_rank(self.columns) == len(self.laws))
        if shift is None or not np.isfinite(shift).all():
            return None
        explained = _effect(self.columns, shift)
        size = float(self.deviations().max(initial=0.0) + np.abs(self.constant).max(initial=0.0))
        if np.abs(explained - goal).max(initial=0.0) > 10 * _TOLERANCE * size:
            return None
        boundaries = np.cumsum([len(np.asarray(self.calls.output(i))) for i in self.free])[:-1]
        parts = zip(self.free, np.split(shift, boundaries), strict=True)
        return Alignment(
            {i: by for i, by in parts if np.any(by)}, only, all(gaussian), any(gaussian)
        )


def noise_law(replay: Replay, recorded: Json) -> NoiseLaw | str:
    """Return the law of the noise in a recorded output, from replays of the recording on the same
    dataset.

    Returns ``"mixed"`` if the output is not linear in the draws, ``"unknown"`` if the law is
    unknown for another reason.
    """
    calls = Calls(replay(None)["table"])
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
    drawn = [np.asarray(calls.output(i)) for i in free]
    boundaries = np.cumsum([len(each) for each in drawn])[:-1]

    def moved(by: FloatArray) -> FloatArray | None:
        shifts = [
            (i, part)
            for i, part in zip(free, np.split(by, boundaries), strict=True)
            if np.any(part)
        ]
        found = replay(shifts)
        numbers = np.asarray(found["numbers"], dtype=float)
        return (
            None
            if found["differences"] or found["raised"] or numbers.shape != output.shape
            else numbers
        )

    laws = tuple(calls.law(i) for i, each in zip(free, drawn, strict=True) for _ in each)
    scales = np.concatenate(
        [
            np.broadcast_to(scale_of(calls, i), len(each))
            for i, each in zip(free, drawn, strict=True)
        ]
    )
    centers = [np.nan_to_num(np.asarray(calls.table["center"][i], dtype=float)) for i in free]
    noise = np.concatenate([each - center for each, center in zip(drawn, centers, strict=True)])
    columns = _fit_columns(moved, output, np.where(np.isin(laws, WHOLE), 1.0, scales))
    if isinstance(columns, str):
        return columns
    if draws_matter(
        replay,
        calls,
        [i for i in range(len(calls)) if calls.source(i) and i not in located],
        recorded["numbers"],
    ):
        return "unknown"
    constant = output - _effect(columns, noise)
    return NoiseLaw(constant, columns, laws, scales, noise, calls, free)


def _fit_columns(
    moved: Callable[[FloatArray], FloatArray | None], output: FloatArray, steps: FloatArray
) -> FloatArray | str:
    """Return the linear function of the draws, verified at two further points; otherwise "mixed" or
    "unknown", as in `noise_law`.
    """
    size = float(np.abs(output).max(initial=0.0))
    if len(steps) <= MOST:
        boundaries = [moved(steps * (np.arange(len(steps)) == j)) for j in range(len(steps))]
        if any(moved_output is None for moved_output in boundaries):
            return "unknown"
        columns = np.array(
            [
                (moved_output - output) / step  # type: ignore[operator]
                for moved_output, step in zip(boundaries, steps, strict=True)
            ]
        ).T
    elif len(steps) == len(output):
        moved_output = moved(steps)
        if moved_output is None:
            return "unknown"
        columns = (moved_output - output) / steps
    else:
        return "unknown"
    for by in (
        -3.0 * steps * np.round(np.linspace(1.0, 4.0, len(steps))),
        2.0 * steps * (1 + np.arange(len(steps)) % 3),
    ):
        if not follows(moved(by), output + _effect(columns, by), size):
            return "mixed"
    return columns


def _effect(columns: FloatArray, by: FloatArray) -> FloatArray:
    """Return the effect of shifts of the draws on the output."""
    return np.asarray(columns * by if columns.ndim == 1 else columns @ by)


def _normal_covariance(law: NoiseLaw) -> FloatArray:
    """Return the covariance of the normal noise."""
    normal = (law.columns * law.scales)[:, np.array([each == "gaussian" for each in law.laws])]
    return np.asarray(normal @ normal.T)


def _other_columns(law: NoiseLaw) -> list[Column]:
    """Return the columns of draws that are not normal; opposite pairs of one-sided draws are merged
    into two-sided draws.
    """
    found: list[Column] = []
    for name, scale, column in zip(law.laws, law.scales.tolist(), law.columns.T, strict=True):
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
    left = list(second)
    for each in first:
        signs = (1, -1) if each[0] in _SYMMETRIC else (1,)
        place = next(
            (
                k
                for k, other in enumerate(left)
                for sign in signs
                if _equal(each, (*other[:2], sign * other[2]))
            ),
            None,
        )
        if place is None:
            return False
        del left[place]
    return not left


def _equal(first: Column, second: Column) -> bool:
    """Return whether two columns have the same law, scale and entries, up to rounding."""
    return (
        first[0] == second[0]
        and bool(np.isclose(first[1], second[1], rtol=_TOLERANCE))
        and _close(first[2], second[2])
    )


def _close(first: FloatArray, second: FloatArray) -> bool:
    """Return whether two arrays are equal up to rounding to 32 bits."""
    size = max(np.abs(first).max(initial=0.0), np.abs(second).max(initial=0.0))
    return bool(
        first.shape == second.shape and np.abs(first - second).max(initial=0.0) <= _TOLERANCE * size
    )
