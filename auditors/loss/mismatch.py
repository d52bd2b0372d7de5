"""How large a mismatch of sampler and density the bets of `oracle_bets` and `scale_bets` would have noticed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.auditors.loss.oracle import Checked
from dpwitness.auditors.loss.oracle_bets import TESTED, Side
from dpwitness.auditors.loss.scale_bets import ScaleBets
from dpwitness.mechanisms.terms.protocol import FloatArray

POWER = 0.9  # with which a mismatch of the stated size would have been noticed
TOLERANCE = 0.02  # of the scale, up to which a certificate of the density may be one of the mechanism
_ROWS = 4096  # outputs a side on which capitals are foretold
_DEVIATIONS = 1.2816  # standard errors: probability `POWER`
_SHARED = math.log(30.0)  # of the capital, among alternatives in two blocks
_OFF = np.exp(np.linspace(math.log(0.001), math.log(2.0), 60))
_ODD = np.exp(np.linspace(math.log(0.0005), math.log(0.5), 25))
_NOISE = 0.1


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Smallest mismatches of sampler and density that would have been noticed with probability `POWER`.

    Attributes
    ----------
    scale : float
        Relative error of the noise's scale about its center, on both datasets. Infinite if the outputs are not continuous.
    odd : float
        Share of runs with a tenth of the noise. Infinite likewise.
    atom : float
        Error of the probability of the likeliest output. Infinite if the outputs are continuous.
    runs : int
        Outputs that were compared with the density, both datasets together.
    """

    scale: float
    odd: float
    atom: float
    runs: int

    def describe(self) -> str:
        """One line for a person."""
        told = []
        if math.isfinite(self.scale):
            told.append(f"a noise scale that differs by {100 * self.scale:.2g} % or more")
        if math.isfinite(self.atom):
            told.append(f"a probability of an output that differs by {100 * self.atom:.2g} percentage points or more")
        if not told:
            return "nothing can be said of how large a mismatch of sampler and density would have been noticed"
        text = f"{' or '.join(told)} would have been noticed with probability {POWER:g} (sampler against density, {self.runs:,} runs)"
        return text + (f"; also {100 * self.odd:.2g} % of runs with a tenth of the noise" if math.isfinite(self.odd) else "")

    def room(self, value: float, edge: float) -> bool:
        """Whether an upper end `value` stays within `edge` if the noise scale is smaller by the stated mismatch.

        Epsilon and rho grow at most with the square of 1 / scale for added noise: linearly for Laplace noise, squared for normal noise.
        """
        return self.scale <= TOLERANCE and value * (1 + self.scale) ** 2 <= edge

    def to_json(self) -> dict[str, Any]:
        """Figures by name; None for those that do not apply."""
        sizes = {"scale": self.scale, "odd_runs": self.odd, "atom": self.atom}
        return {name: v if math.isfinite(v) else None for name, v in sizes.items()} | {"probability": POWER, "runs": self.runs}


def smallest_mismatch(checked: Checked, rng: np.random.Generator, bets: ScaleBets | None = None) -> Mismatch:
    """Return the mismatches that would have been noticed, foretold on the outputs that were drawn.

    The capital of the alternative that says what is wrong is foretold from its mean and variance at runs of such a sampler. With r its
    density over the one claimed, and 1 + e the factor of the bet, that mean is E_P[(r - 1) ln(1 + e)] + E_P[ln(1 + e) - e], as E_P e = 0:
    two averages over the outputs that were drawn, each of the second order in the mismatch. Other kinds of mismatch may need more runs.
    """
    sides = [_some(side, rng) for side in checked.sides]
    first = len(checked.sides[0].rows)
    size, needed = TESTED * first, checked.threshold + _SHARED
    scale = odd = math.inf
    if all(side.continuous.any() and len(side.rows) > 100 for side in sides):
        scale = max(_least_scale(sides, size, needed, sign) for sign in (1.0, -1.0))
        if bets is not None:
            scale = min(scale, max(_least_scale(sides, bets.runs, bets.threshold, sign, bets.steps) for sign in (1.0, -1.0)))
        odd = _least_odd(sides, size, needed)
    atom = max(_atom(side, size, needed) for side in sides)
    return Mismatch(scale, odd, atom if atom > 0 else math.inf, 2 * (first + (bets.runs if bets is not None else 0)))


def _some(side: Side, rng: np.random.Generator) -> Side:
    """Some of the outputs that maps may move."""
    rows = np.flatnonzero(~side.alone & np.isfinite(side.own))
    rows = rows if len(rows) <= _ROWS else np.sort(rng.choice(rows, _ROWS, replace=False))
    none = np.zeros(len(rows), dtype=bool)
    return Side(side.rows[rows], side.own[rows], side.other[rows], side.density, side.continuous, none)


def _centers(sides: list[Side]) -> list[FloatArray]:
    return [np.where(side.continuous, np.median(side.rows, axis=0), 0.0) for side in sides]


def _noticed(gains: Sequence[FloatArray], won: Sequence[FloatArray], size: float, needed: float) -> bool:
    """Whether the capital of one alternative, from its gains on a side, passes `needed` with probability `POWER`."""
    mean, spread = sum(float(gain.mean()) for gain in gains), sum(float(x.var()) for x in won)
    return size * mean - _DEVIATIONS * math.sqrt(size * spread) >= needed


def _least_scale(sides: list[Side], size: float, needed: float, sign: float, steps: Sequence[float] | None = None) -> float:
    """The smallest error of scale that is foretold to be noticed, by alternatives near twice the error, or by those with `steps`."""
    centers, none = _centers(sides), np.zeros(sides[0].rows.shape[1])

    def ratios(log_scale: float) -> list[FloatArray]:
        scale = none + math.exp(log_scale)
        return [np.exp(np.minimum(side.mapped(center, scale, none), 50.0)) for side, center in zip(sides, centers, strict=True)]

    fixed = None if steps is None else [ratios(step) for step in steps]
    for value in _OFF.tolist():
        error = -sign * math.log1p(value)
        drawn = ratios(error)
        for alternative in [ratios(2 * error)] if fixed is None else fixed:
            won = [np.log(0.5 + 0.5 * ratio) for ratio in alternative]
            gains = [(r - 1) * x + x - 0.5 * (ratio - 1) for r, x, ratio in zip(drawn, won, alternative, strict=True)]
            if _noticed(gains, won, size, needed):
                return float(value)
    return math.inf


def _least_odd(sides: list[Side], size: float, needed: float) -> float:
    """The smallest share of runs with `_NOISE` of the noise that is foretold to be noticed."""
    none = np.zeros(sides[0].rows.shape[1])
    odd = [side.mapped(center, none + 1 / _NOISE, none) for side, center in zip(sides, _centers(sides), strict=True)]
    for value in _ODD.tolist():
        excess = [value * np.expm1(np.minimum(logs, 50.0)) for logs in odd]
        won = [np.log1p(x) for x in excess]
        if _noticed([x * w + w - x for x, w in zip(excess, won, strict=True)], won, size, needed):
            return float(value)
    return math.inf


def _atom(side: Side, size: float, needed: float) -> float:
    """The smallest error of the likeliest output's probability; 0 where no output repeats."""
    own = side.own[side.alone] if side.continuous.any() else side.own
    mass = min(0.5, math.exp(min(float(own.max(initial=-math.inf)), 0.0)))
    if mass <= 0 or side.continuous.any():
        return 0.0
    root = (_DEVIATIONS * math.sqrt(2) + math.sqrt(2 * _DEVIATIONS**2 + 4 * needed)) / 2
    return root * math.sqrt(2 * mass * (1 - mass) / size)
