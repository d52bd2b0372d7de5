"""Bets on additional outputs that the noise has another scale or another center than the
log-density states.

The alternatives are fixed before the outputs are drawn, so the bets use all outputs (theorem in
`density_bets`). Each alternative is the density under a map y -> c + s (y - c) + h with w = 1/2;
near p, this is the density of half the change. The changes are the smallest change that this number
of outputs can show, and twice as much. The smallest change follows from the Fisher information of
scale and center, estimated from earlier outputs. These bets evaluate the density only a few times
per output. They are much cheaper than the bets of `density_bets`, which look for all other
mismatches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpwitness.auditors.density.density_bets import Side
from dpwitness.auditors.density.density_check import (
    SCALE_ALARM,
    BadOracle,
    CheckedOracle,
    log_density_on,
    rows_of,
)
from dpwitness.auditors.density.singular_laws import column_spread, moved
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.mechanism import FloatArray

_CHUNK = 100_000  # outputs in memory at a time
_MIN_OUTPUTS = 1000  # smallest number of earlier outputs per side that maps may move
_DEVIATIONS = 7.0  # size of the smallest detectable change, in standard errors
_TEST_CHANGE = 1e-3  # change at which the Fisher information is estimated
_MAX_CHANGE = 0.5  # largest change of an alternative


@dataclass(frozen=True, eq=False)
class ScaleBets:
    """Settings of the bets on scale and center, from which `mismatch` computes the
    noticed error.
    """

    runs: int  # outputs of each dataset
    steps: tuple[float, ...]  # logarithms of the scale factors of the alternatives
    threshold: float  # ln of the capital of one alternative at which the density is refused


@dataclass(frozen=True, eq=False)
class _Map:
    """An alternative: scale and shift of the outputs of some sides."""

    scale: float
    shift: FloatArray
    which: tuple[int, ...]
    name: str

    def log_factors(self, side: Side, center: FloatArray) -> FloatArray:
        """Return the logarithms of the bet's factors on a side."""
        ratio = side.mapped(center, np.full(len(center), self.scale), self.shift)
        return np.where(side.alone, 0.0, np.logaddexp(0.0, np.minimum(ratio, 600.0))) - math.log(2)


def check_scale(
    mechanism: Any, pair: Pair, checked: CheckedOracle, size: int, rng: np.random.Generator
) -> ScaleBets | None:
    """Raise BadOracle if `size` further outputs per side show another scale or center than the
    density.

    False alarms have probability at most `SCALE_ALARM`. Returns None unless outputs are continuous
    numbers without repeated values, since the test rescales and shifts outputs. The earlier outputs
    in `checked` determine centers and alternatives.
    """
    if size <= 0 or not all(
        side.continuous.any() and np.count_nonzero(~side.alone) >= _MIN_OUTPUTS
        for side in checked.sides
    ):
        return None
    if any(side.alone.mean() > 0.01 for side in checked.sides):
        return None
    centers = [side.center for side in checked.sides]
    steps, maps = _alternatives(checked, centers, size)
    log_capital = np.zeros(len(maps))
    for i, (dataset, side) in enumerate(zip((pair.d1, pair.d0), checked.sides, strict=True)):
        for start in range(0, size, _CHUNK):
            rows = rows_of(mechanism, dataset, min(_CHUNK, size - start), rng)
            own = log_density_on(mechanism, rows, dataset, ("D1", "D0")[i])
            # `check_oracle` tests for impossible outputs
            rows, own = rows[np.isfinite(own)], own[np.isfinite(own)]
            part = Side(
                rows, own, own, side.density, side.continuous, _may_be_atoms(side, rows, own, rng)
            )
            sums = [
                bet.log_factors(part, centers[i]).sum() if i in bet.which else 0.0 for bet in maps
            ]
            log_capital += np.nan_to_num(sums, nan=-np.inf)
    total = float(logsumexp(log_capital)) - math.log(len(maps))
    if total >= math.log(1 / SCALE_ALARM):
        name = maps[int(np.argmax(log_capital))].name
        raise BadOracle(
            f'log_density disagrees with the sampler: a bet on "{name}" wins e^{total:.4g} '
            "where a right one wins e^0"
        )
    return ScaleBets(size, steps, math.log(len(maps) / SCALE_ALARM))


def _may_be_atoms(
    side: Side, rows: FloatArray, own: FloatArray, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return which outputs may be atoms, which a map would mistake for a density.

    These are repeated outputs, and outputs next to which the density differs.
    """
    with np.errstate(all="ignore"):
        jumps = ~(
            np.abs(side.density(moved(rows, side.continuous, rng, column_spread(rows))) - own)
            <= 1e-2
        )
    _, at, counts = np.unique(
        rows[:, int(np.argmax(side.continuous))], return_inverse=True, return_counts=True
    )
    return np.asarray(jumps | (counts[at] > 1))


def _alternatives(
    checked: CheckedOracle, centers: list[FloatArray], size: int
) -> tuple[tuple[float, ...], list[_Map]]:
    """Return changes of the scale on both sides, and of the center of each side along the line
    between the centers.
    """
    some = [side.part(0, 4096) for side in checked.sides]
    width = len(centers[0])
    none, between = np.zeros(width), centers[0] - centers[1]

    def smallest_change(scale: float, shift: FloatArray, which: tuple[int, ...]) -> float:
        """Return the smallest detectable change, from the Fisher information at a change of size
        `_TEST_CHANGE`.
        """
        scores = np.concatenate(
            [
                np.clip(some[i].mapped(centers[i], np.full(width, scale), shift), -1, 1)
                for i in which
            ]
        )
        information = float(np.mean(scores**2)) / _TEST_CHANGE**2
        return min(
            _MAX_CHANGE, 2 * _DEVIATIONS / math.sqrt(max(information, 1e-12) * size * len(which))
        )

    scale = smallest_change(math.exp(_TEST_CHANGE), none, (0, 1))
    steps = tuple(sign * times * scale for times in (1.0, 2.0) for sign in (1.0, -1.0))
    maps = [
        _Map(math.exp(step), none, (0, 1), f"scale off by about {abs(step) / 2:.2g}")
        for step in steps
    ]
    if np.any(between):
        for i in (0, 1):
            shift = smallest_change(1.0, _TEST_CHANGE * between, (i,))
            maps += [
                _Map(1.0, sign * shift * between, (i,), f"center of {('D1', 'D0')[i]} shifted")
                for sign in (1.0, -1.0)
            ]
    return steps, maps
