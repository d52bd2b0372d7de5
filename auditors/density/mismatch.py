"""Bets on additional outputs that the noise has another scale or another center than the
log-density states.

The alternatives are fixed before the outputs are drawn, so the bets use all outputs (theorem in
`density_bets`). Each alternative is the density under a map y -> c + s (y - c) + h with w = 1/2;
near p, this is the density of half the change. The changes are the smallest change that this number
of outputs can show, and twice as much. The smallest change follows from the Fisher information of
scale and center, estimated from earlier outputs. These bets evaluate the density only a few times
per output. They are much cheaper than the bets of `density_bets`, which look for all other
mismatches.

`smallest_mismatch` states the size of a mismatch between sampler and density that these bets and
those of `density_bets` would have noticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from dpwitness.auditors.density.density_bets import TESTED, Bet, Side
from dpwitness.auditors.density.density_check import (
    SCALE_ALARM,
    BadOracle,
    CheckedOracle,
    density_jumps,
    log_density_on,
    rows_of,
)
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.mechanism import FloatArray

_CHUNK = 100_000  # outputs in memory at a time
_TEST_CHANGE = 1e-3  # change at which the Fisher information is estimated


@dataclass(frozen=True, eq=False)
class ScaleBets:
    """Settings of the bets on scale and center, from which `mismatch` computes the
    noticed error.
    """

    runs: int  # outputs of each dataset
    steps: tuple[float, ...]  # logarithms of the scale factors of the alternatives
    threshold: float  # ln of the capital of one alternative at which the density is refused


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
        side.continuous.any()
        and np.count_nonzero(~side.alone) >= 1000
        and side.alone.mean() <= 0.01
        for side in checked.sides
    ):
        return None
    steps, scale_bets = _alternatives(checked, size)
    log_capital = np.zeros(len(scale_bets))
    for i, (dataset, side) in enumerate(zip((pair.d1, pair.d0), checked.sides, strict=True)):
        for start in range(0, size, _CHUNK):
            rows = rows_of(mechanism, dataset, min(_CHUNK, size - start), rng)
            own = log_density_on(mechanism, rows, dataset, ("D1", "D0")[i])
            # `check_oracle` tests for impossible outputs
            rows, own = rows[np.isfinite(own)], own[np.isfinite(own)]
            # a map would mistake atoms for a density: repeated outputs, and outputs next to which
            # the density differs
            jumps = density_jumps(side.density, rows, own, side.continuous, rng)
            _, at, counts = np.unique(
                rows[:, int(np.argmax(side.continuous))], return_inverse=True, return_counts=True
            )
            atoms = jumps | (counts[at] > 1)
            part = Side(rows, own, own, side.density, side.continuous, atoms)
            sums = [bet.factors(part, {}).sum() if i in bet.which else 0.0 for bet in scale_bets]
            log_capital += np.nan_to_num(sums, nan=-np.inf)
    total = float(logsumexp(log_capital)) - math.log(len(scale_bets))
    if total >= math.log(1 / SCALE_ALARM):
        name = scale_bets[int(np.argmax(log_capital))].name
        raise BadOracle(
            f'log_density disagrees with the sampler: a bet on "{name}" wins e^{total:.4g} '
            "where a right one wins e^0"
        )
    return ScaleBets(size, steps, math.log(len(scale_bets) / SCALE_ALARM))


def _alternatives(checked: CheckedOracle, size: int) -> tuple[tuple[float, ...], list[Bet]]:
    """Return changes of the scale on both sides, and bets on these and on changes of the center of
    each side along the line between the centers.
    """
    some = [side.part(0, 4096) for side in checked.sides]
    centers = {id(side.density): side.center for side in checked.sides}
    first, second = centers.values()
    none, between = np.zeros(len(first)), first - second

    def mapped(scale: float, shift: FloatArray) -> Callable[[Side], FloatArray]:
        return lambda side: side.mapped(centers[id(side.density)], none + scale, shift)

    def smallest_change(ratio: Callable[[Side], FloatArray], which: tuple[int, ...]) -> float:
        """Return the smallest detectable change, from the Fisher information at a change of size
        `_TEST_CHANGE`.
        """
        scores = np.concatenate([np.clip(ratio(some[i]), -1, 1) for i in which])
        information = float(np.mean(scores**2)) / _TEST_CHANGE**2
        runs = size * len(which)
        # seven standard errors, at twice the change
        return min(0.5, 14.0 / math.sqrt(max(information, 1e-12) * runs))

    scale = smallest_change(mapped(math.exp(_TEST_CHANGE), none), (0, 1))
    steps = tuple(sign * times * scale for times in (1.0, 2.0) for sign in (1.0, -1.0))
    found = [
        Bet(f"scale off by about {abs(step) / 2:.2g}", mapped(math.exp(step), none), 0.5)
        for step in steps
    ]
    if np.any(between):
        for i in (0, 1):
            shift = smallest_change(mapped(1.0, _TEST_CHANGE * between), (i,))
            found += [
                Bet(
                    f"center of {('D1', 'D0')[i]} shifted",
                    mapped(1.0, sign * shift * between),
                    0.5,
                    (i,),
                )
                for sign in (1.0, -1.0)
            ]
    return steps, found


POWER = 0.9  # probability that a mismatch of the stated size would have been noticed
# largest relative mismatch of scale at which a certificate of the density may apply to the
# mechanism
TOLERANCE = 0.02
_ROWS = 4096  # outputs per side from which capitals are predicted
_DEVIATIONS = 1.2816  # standard errors for probability `POWER`
_SCALE_ERRORS = np.exp(np.linspace(math.log(0.001), math.log(2.0), 60))
_ODD_SHARES = np.exp(np.linspace(math.log(0.0005), math.log(0.5), 25))


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Smallest mismatches of sampler and density that would have been noticed with probability
    `POWER`; infinite if not applicable.
    """

    # relative error of the noise's scale about its center, on both datasets, for continuous outputs
    scale: float
    odd: float  # share of runs with a tenth of the noise, for continuous outputs
    atom: float  # error of the probability of the likeliest output, for other outputs
    runs: int  # outputs that were compared with the density, both datasets together

    def describe(self) -> str:
        """Return a one-line description."""
        parts = []
        if math.isfinite(self.scale):
            parts.append(f"a noise scale that differs by {100 * self.scale:.2g} % or more")
        if math.isfinite(self.atom):
            parts.append(
                f"a probability of an output that differs by {100 * self.atom:.2g} "
                "percentage points or more"
            )
        if not parts:
            return (
                "the size of a mismatch of sampler and density that would have been noticed is "
                "unknown"
            )
        return (
            f"{' or '.join(parts)} would have been noticed with probability {POWER:g} (sampler "
            f"against density, {self.runs:,} runs)"
        ) + (
            f"; also {100 * self.odd:.2g} % of runs with a tenth of the noise"
            if math.isfinite(self.odd)
            else ""
        )

    def room(self, value: float, edge: float) -> bool:
        """Return whether an upper bound `value` stays within `edge` if the noise scale is smaller
        by the stated mismatch.

        Epsilon and rho grow at most with the square of 1 / scale for added noise: linearly for
        Laplace noise, quadratically for normal noise.
        """
        return self.scale <= TOLERANCE and value * (1 + self.scale) ** 2 <= edge

    def to_json(self) -> dict[str, Any]:
        """Return the figures by name; None for figures that do not apply."""
        sizes = {"scale": self.scale, "odd_runs": self.odd, "atom": self.atom}
        return {name: v if math.isfinite(v) else None for name, v in sizes.items()} | {
            "probability": POWER,
            "runs": self.runs,
        }


def smallest_mismatch(
    checked: CheckedOracle, rng: np.random.Generator, bets: ScaleBets | None = None
) -> Mismatch:
    """Return the mismatches that would have been noticed, predicted from the drawn outputs.

    The capital of the alternative that equals the mismatch is predicted from its mean and variance
    under a sampler with the mismatch. Let r be the sampler's density divided by the claimed
    density, and 1 + e the factor of the bet. Then the mean is E_P[(r - 1) ln(1 + e)] + E_P[ln(1 +
    e) - e], as E_P e = 0. Both terms are averages over the drawn outputs, and of the second order
    in the mismatch. Other kinds of mismatch may need more runs.
    """
    sides = [_sample_side(side, rng) for side in checked.sides]
    first = len(checked.sides[0].rows)
    # about 30 alternatives, in two blocks, share the capital
    size, needed = TESTED * first, checked.threshold + math.log(30.0)
    scale = odd = math.inf
    if all(side.continuous.any() and len(side.rows) > 100 for side in sides):
        scale = max(_smallest_scale_error(sides, size, needed, sign) for sign in (1.0, -1.0))
        if bets is not None:
            scale = min(
                scale,
                max(
                    _smallest_scale_error(sides, bets.runs, bets.threshold, sign, bets.steps)
                    for sign in (1.0, -1.0)
                ),
            )
        odd = _smallest_odd_share(sides, size, needed)
    atom = max(_smallest_atom_error(side, size, needed) for side in sides)
    return Mismatch(
        scale,
        odd,
        atom if atom > 0 else math.inf,
        2 * (first + (bets.runs if bets is not None else 0)),
    )


def _sample_side(side: Side, rng: np.random.Generator) -> Side:
    """Return some of the outputs that maps may move."""
    rows = np.flatnonzero(~side.alone & np.isfinite(side.own))
    rows = rows if len(rows) <= _ROWS else np.sort(rng.choice(rows, _ROWS, replace=False))
    none = np.zeros(len(rows), dtype=bool)
    return Side(
        side.rows[rows], side.own[rows], side.other[rows], side.density, side.continuous, none
    )


def _is_noticed(
    gains: Sequence[FloatArray], log_gains: Sequence[FloatArray], size: float, needed: float
) -> bool:
    """Return whether the capital of one alternative exceeds `needed` with probability `POWER`,
    predicted from its gains per side.
    """
    mean, spread = sum(float(gain.mean()) for gain in gains), sum(float(x.var()) for x in log_gains)
    return size * mean - _DEVIATIONS * math.sqrt(size * spread) >= needed


def _smallest_scale_error(
    sides: list[Side], size: float, needed: float, sign: float, steps: Sequence[float] | None = None
) -> float:
    """Return the smallest relative error of the noise scale that the bets are predicted to detect.

    Each bet assumes twice the error, or one of the given `steps`.
    """
    centers, none = [side.center for side in sides], np.zeros(sides[0].rows.shape[1])

    def ratios(log_scale: float) -> list[FloatArray]:
        scale = none + math.exp(log_scale)
        return [
            np.exp(np.minimum(side.mapped(center, scale, none), 50.0))
            for side, center in zip(sides, centers, strict=True)
        ]

    fixed = None if steps is None else [ratios(step) for step in steps]
    for value in _SCALE_ERRORS.tolist():
        error = -sign * math.log1p(value)
        true_ratios = ratios(error)
        for alternative in [ratios(2 * error)] if fixed is None else fixed:
            log_gains = [np.log(0.5 + 0.5 * ratio) for ratio in alternative]
            gains = [
                (r - 1) * x + x - 0.5 * (ratio - 1)
                for r, x, ratio in zip(true_ratios, log_gains, alternative, strict=True)
            ]
            if _is_noticed(gains, log_gains, size, needed):
                return float(value)
    return math.inf


def _smallest_odd_share(sides: list[Side], size: float, needed: float) -> float:
    """Return the smallest share of runs with a tenth of the noise that is predicted to be
    noticed.
    """
    none = np.zeros(sides[0].rows.shape[1])
    odd = [side.mapped(side.center, none + 10.0, none) for side in sides]
    for value in _ODD_SHARES.tolist():
        excess = [value * np.expm1(np.minimum(logs, 50.0)) for logs in odd]
        log_gains = [np.log1p(x) for x in excess]
        if _is_noticed(
            [x * w + w - x for x, w in zip(excess, log_gains, strict=True)], log_gains, size, needed
        ):
            return float(value)
    return math.inf


def _smallest_atom_error(side: Side, size: float, needed: float) -> float:
    """Return the smallest noticed error of the likeliest output's probability; 0 if no output
    repeats.
    """
    own = side.own[side.alone] if side.continuous.any() else side.own
    mass = min(0.5, math.exp(min(float(own.max(initial=-math.inf)), 0.0)))
    if mass <= 0 or side.continuous.any():
        return 0.0
    root = (_DEVIATIONS * math.sqrt(2) + math.sqrt(2 * _DEVIATIONS**2 + 4 * needed)) / 2
    return root * math.sqrt(2 * mass * (1 - mass) / size)
