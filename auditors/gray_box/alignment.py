"""Noise that is drawn apart from the data and added later: by how much it has to move so that both datasets give one output.

Where the output is the data's part plus a linear function of the noise, shifting the noise by that much takes the law of one run to that of
the other: the randomness alignment of Wang, Ding, Wang, Kifer and Zhang (2019), found from runs instead of from a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from dpwitness.auditors.gray_box.calls import Calls, Place
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.reading import Json

MOST = 24  # numbers of noise that are moved one by one
_CLOSE = 2e-6  # relative: outputs may be rounded to 32 bits
WHOLE = ("geometric", "discrete_gaussian", "one_sided_geometric")
_LEAST = {"exponential": 0.0, "one_sided_geometric": 1.0}  # smallest value of the noise


@dataclass(frozen=True, slots=True)
class Alignment:
    """How far the noise moves, by place; whether that is the `only` way; whether all noise is `normal`, or `some`."""

    moved: dict[Place, FloatArray]
    only: bool
    normal: bool
    some: bool


def align(replay: Callable[[list[Any]], Json], recorded: Json, replayed: Json, calls: Calls) -> Alignment | str | None:
    """The alignment of a recording with the other dataset; where there is none, why there can be none, or None.

    Parameters
    ----------
    replay : callable
        ``replay(shifts)``: the other dataset with the record, its noise shifted.
    recorded, replayed : dict
        The recording, and what its replay gave.
    calls : Calls
        Of that replay.
    """
    y1, y0 = np.asarray(recorded["numbers"]), np.asarray(replayed["numbers"])
    free = [i for i in range(len(calls)) if calls.free(i) and calls.drawn(i) is not None]
    sizes = [len(calls.drawn(i)) for i in free]  # type: ignore[arg-type]
    fits = y1.shape == y0.shape and y1.size > 0 and recorded["texts"] == replayed["texts"] and not replayed["differences"]
    if not fits or not free or not np.isfinite(y1 - y0).all():
        return None
    goal = y1 - y0

    def run(flat: FloatArray) -> FloatArray | None:
        """The output with the noise shifted; None where that changes more."""
        told = [(*calls.place(i), by) for i, by in zip(free, np.split(flat, np.cumsum(sizes)[:-1]), strict=True) if np.any(by)]
        found = replay(told)
        numbers = np.asarray(found["numbers"])
        return None if found["differences"] or found["raised"] or numbers.shape != y0.shape else numbers

    scales, whole, lowest = (
        np.concatenate(parts) for parts in zip(*(_about(calls, i, n) for i, n in zip(free, sizes, strict=True)), strict=True)
    )
    drawn = np.concatenate([calls.drawn(i) for i in free])
    steps = np.where(whole > 0, 1.0, scales)
    size = float(np.max(np.abs(y1)) + np.max(np.abs(goal)))
    gaussian = [calls.law(i) in ("gaussian", "discrete_gaussian") for i in free]

    def settled(shift: FloatArray | None, only: bool) -> Alignment | None:
        if shift is None or not np.isfinite(shift).all() or np.any(drawn + shift < lowest):
            return None
        shift = np.where(whole > 0, np.round(shift), shift)
        found = run(shift)
        if found is None or np.max(np.abs(found - y1)) > _CLOSE * size:
            return None
        shift = np.where(np.abs(shift) > 1e-9 * np.abs(shift).max(initial=0.0), shift, 0.0)
        parts = zip(free, np.split(shift, np.cumsum(sizes)[:-1]), strict=True)
        return Alignment({calls.place(i): by for i, by in parts if np.any(by)}, only, all(gaussian), any(gaussian))

    if len(steps) == len(y0):  # each number has noise of its own: two runs tell
        moved = run(steps)
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = None if moved is None else np.where(goal == 0, 0.0, goal * steps / (moved - y0))
        found = settled(shift, True)
        if found is not None:
            return found
    if len(steps) > MOST:
        return None
    columns = [run(steps * (np.arange(len(steps)) == j)) for j in range(len(steps))]
    if any(column is None for column in columns):
        return None
    jacobian = np.array([(column - y0) / step for column, step in zip(columns, steps, strict=True)]).T
    shift = _least_squares(jacobian, goal, scales) if all(gaussian) else _least_loss(jacobian, goal, scales, lowest - drawn)
    found = settled(shift, bool(np.linalg.matrix_rank(jacobian) == len(steps)))
    if found is not None:
        return found
    told = _out_of_reach(jacobian, goal, size)
    linear = (
        all(follows(run(by), y0 + jacobian @ by, size) for by in (steps, -3.0 * steps * np.linspace(0.5, 1.0, len(steps))))
        if told
        else False
    )
    return told if told and linear else None


def _out_of_reach(jacobian: FloatArray, goal: FloatArray, size: float) -> str:
    """How the noisy numbers of an output differ by what no shift of the noise can give; empty if they do not."""
    noisy = np.abs(jacobian).max(axis=1) > 0
    if not noisy.any():
        return ""
    reached, *_ = np.linalg.lstsq(jacobian[noisy], goal[noisy], rcond=1e-10)
    if np.max(np.abs(jacobian[noisy] @ reached - goal[noisy])) <= 1e3 * _CLOSE * size:
        return ""
    rank = np.linalg.matrix_rank(jacobian[noisy])
    return f"{int(noisy.sum())} noisy numbers of the output have the noise of {rank} only: they differ by what no noise explains"


def follows(found: FloatArray | None, expected: FloatArray, size: float) -> bool:
    """Whether an output is as expected, up to rounding to 32 bits."""
    return found is not None and bool(np.max(np.abs(found - expected)) <= 10 * _CLOSE * (size + np.max(np.abs(expected))))


def least_shift(jacobian: FloatArray, goal: FloatArray, scales: FloatArray, laws: Sequence[str], drawn: FloatArray) -> FloatArray | None:
    """The shift of draws of these laws that reaches `goal` at the least price, within their support."""
    if all(law in ("gaussian", "discrete_gaussian") for law in laws):
        return _least_squares(jacobian, goal, scales)
    return _least_loss(jacobian, goal, scales, np.array([_LEAST.get(law, -np.inf) for law in laws]) - drawn)


def _about(calls: Calls, i: int, size: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scale, whether it is whole, and lowest value, of each number that a call draws."""
    law = calls.law(i)
    return np.broadcast_to(scale_of(calls, i), size), np.full(size, float(law in WHOLE)), np.full(size, _LEAST.get(law, -np.inf))


def scale_of(calls: Calls, i: int) -> FloatArray:
    """Scale of the numbers that a call draws; 1 where it is not known."""
    scale = np.atleast_1d(np.asarray(calls.scale(i), dtype=float))
    if calls.law(i) == "one_sided_geometric":
        scale = 1 / -np.log1p(-np.clip(scale, 0.0, 1 - 1e-15))
    return np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)


def _least_squares(jacobian: FloatArray, goal: FloatArray, scales: FloatArray) -> FloatArray | None:
    """The shift of normal noise that an attacker sees: the shortest one in units of its deviations."""
    with np.errstate(all="ignore"):
        found, *_ = np.linalg.lstsq(jacobian * scales, goal, rcond=1e-10)
    return found * scales if np.isfinite(found).all() else None


def _least_loss(jacobian: FloatArray, goal: FloatArray, scales: FloatArray, lowest: FloatArray) -> FloatArray | None:
    """The shift with the least sum of |shift| / scale, within the support of the noise."""
    size = max(float(np.abs(goal).max()), 1e-300)
    down = [(0.0, None if low == -np.inf else max(-low, 0.0) / size) for low in lowest]
    bounds = [(0.0, None)] * len(scales) + down
    found = linprog(np.tile(1 / scales, 2), A_eq=np.hstack([jacobian, -jacobian]), b_eq=goal / size, bounds=bounds, method="highs")
    return (found.x[: len(scales)] - found.x[len(scales) :]) * size if found.status == 0 else None
