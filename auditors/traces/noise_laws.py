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
    ShiftedNoise,
    cheapest_shift,
    draws_matter,
    follows,
    largest,
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
            return self.noise.laws == other.noise.laws and whole and _close(*sides)
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
        size = float(self.deviations().max(initial=0.0) + np.abs(self.constant).max(initial=0.0))
        if np.abs(explained - goal).max(initial=0.0) > 10 * _TOLERANCE * size:
            return None
        return self.noise.alignment(shift, only)


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
    noise = ShiftedNoise(replay, calls, free, output)
    columns = _fit_columns(noise, output)
    if isinstance(columns, str):
        return columns
    others = [i for i in range(len(calls)) if calls.source(i) and i not in located]
    if draws_matter(replay, calls, others, recorded["numbers"]):
        return "unknown"
    centers = [
        np.broadcast_to(np.asarray(calls.table["center"][i], dtype=float), len(calls.output(i)))  # type: ignore[arg-type]
        for i in free
    ]
    draws = noise.drawn - np.nan_to_num(np.concatenate(centers))
    return NoiseLaw(output - _effect(columns, draws), columns, draws, noise)


def _fit_columns(noise: ShiftedNoise, output: FloatArray) -> FloatArray | str:
    """Return the linear function of the draws, verified at two further points; otherwise "mixed" or
    "unknown", as in `noise_law`.
    """
    steps, size = noise.steps, largest(output)
    columns = None
    if len(steps) <= MOST:
        columns = noise.slopes()
    elif len(steps) == len(output) and (moved := noise.run(steps)) is not None:
        columns = (moved - output) / steps
    if columns is None:
        return "unknown"
    for by in (
        -3.0 * steps * np.round(np.linspace(1.0, 4.0, len(steps))),
        2.0 * steps * (1 + np.arange(len(steps)) % 3),
    ):
        if not follows(noise.run(by), output + _effect(columns, by), size):
            return "mixed"
    return columns


def _effect(columns: FloatArray, by: FloatArray) -> FloatArray:
    """Return the effect of shifts of the draws on the output."""
    return np.asarray(columns * by if columns.ndim == 1 else columns @ by)


def _normal_covariance(law: NoiseLaw) -> FloatArray:
    """Return the covariance of the normal noise."""
    normal = (law.columns * law.noise.scales)[:, np.isin(law.noise.laws, "gaussian")]
    return np.asarray(normal @ normal.T)


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
