"""How large a mismatch of sampler and density the bets of `oracle_bets` would have shown."""

from __future__ import annotations

import math

import numpy as np

from dpwitness.auditors.loss.oracle import Checked
from dpwitness.auditors.loss.oracle_bets import TESTED, Side
from dpwitness.mechanisms.terms.protocol import FloatArray

_ROWS = 4096  # outputs a side on which capitals are foretold
_POWER = 1.2816  # standard errors: probability .9
_SHARED = math.log(30.0)  # of the capital, among alternatives in two blocks
_OFF = np.exp(np.linspace(math.log(0.005), math.log(2.0), 25))
_ODD = np.exp(np.linspace(math.log(0.0005), math.log(0.5), 25))
_NOISE = 0.1


def smallest_mismatch(checked: Checked, rng: np.random.Generator) -> str:
    """One line: mismatches that would have been refused with probability .9, foretold on the outputs that were drawn.

    The capital of the alternative that says what is wrong is foretold from its mean and variance at runs of such a sampler. With r its
    density over the one claimed, and 1 + e the factor of the bet, that mean is E_P[(r - 1) ln(1 + e)] + E_P[ln(1 + e) - e], as E_P e = 0:
    two averages over the outputs that were drawn, each of the second order in the mismatch. Other kinds of mismatch may need more runs.
    """
    told = []
    sides = [_some(side, rng) for side in checked.sides]
    size = TESTED * len(checked.sides[0].rows)
    if all(side.continuous.any() and len(side.rows) > 100 for side in sides):
        scale = max(_least(sides, size, checked.threshold, _OFF, sign) for sign in (1.0, -1.0))
        told.append(f"a scale off by more than {100 * scale:.2g} %" if math.isfinite(scale) else "")
        odd = _least(sides, size, checked.threshold, _ODD, 0.0)
        told.append(f"{100 * odd:.2g} % of runs with a tenth of the noise" if math.isfinite(odd) else "")
    atom = max(_atom(side, size, checked.threshold) for side in sides)
    if math.isfinite(atom) and atom > 0:
        told.append(f"a probability of an output off by more than {100 * atom:.2g} %")
    told = [text for text in told if text]
    if not told:
        return "nothing can be said of how large a mismatch of sampler and density would have been seen"
    return (
        f"{' or '.join(told)} would have been seen with probability .9 (sampler against density, {2 * len(checked.sides[0].rows):,} runs)"
    )


def _some(side: Side, rng: np.random.Generator) -> Side:
    """Some of the outputs that maps may move."""
    rows = np.flatnonzero(~side.alone & np.isfinite(side.own))
    rows = rows if len(rows) <= _ROWS else np.sort(rng.choice(rows, _ROWS, replace=False))
    none = np.zeros(len(rows), dtype=bool)
    return Side(side.rows[rows], side.own[rows], side.other[rows], side.density, side.continuous, none)


def _least(sides: list[Side], size: float, threshold: float, sizes: FloatArray, sign: float) -> float:
    """The smallest of `sizes` that is foretold to be seen: of an error of scale, or (`sign` 0) of a share of odd runs."""
    centers = [np.where(side.continuous, np.median(side.rows, axis=0), 0.0) for side in sides]
    zero = np.zeros(sides[0].rows.shape[1])
    odd = [side.mapped(center, zero + 1 / _NOISE, zero) for side, center in zip(sides, centers, strict=True)] if sign == 0 else []
    for value in sizes.tolist():
        mean = spread = 0.0
        for i, side in enumerate(sides):
            if sign:
                off = (1 + value) ** sign
                ratio, drawn = (np.exp(np.minimum(side.mapped(centers[i], zero + off**-power, zero), 50.0)) for power in (2.0, 1.0))
                won = np.log(0.5 + 0.5 * ratio)
                gain = (drawn - 1) * won + won - 0.5 * (ratio - 1)
            else:
                excess = value * np.expm1(np.minimum(odd[i], 50.0))
                won = np.log1p(excess)
                gain = excess * won + won - excess
            mean, spread = mean + float(gain.mean()), spread + float(won.var())
        if size * mean - _POWER * math.sqrt(size * spread) >= threshold + _SHARED:
            return float(value)
    return math.inf


def _atom(side: Side, size: float, threshold: float) -> float:
    """The smallest error of the likeliest output's probability; 0 where no output repeats."""
    own = side.own[side.alone] if side.continuous.any() else side.own
    mass = min(0.5, math.exp(min(float(own.max(initial=-math.inf)), 0.0)))
    if mass <= 0 or side.continuous.any():
        return 0.0
    root = (_POWER * math.sqrt(2) + math.sqrt(2 * _POWER**2 + 4 * (threshold + _SHARED))) / 2
    return root * math.sqrt(2 * mass * (1 - mass) / size)
