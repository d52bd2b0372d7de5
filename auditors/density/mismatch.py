"""Bets on additional outputs that the noise has another scale or another center than the
log-density states, and the size of a mismatch that the bets would have noticed.

The alternatives are fixed before the outputs are drawn, so the bets use all outputs (theorem in
`density_bets`). Each alternative is the density under a map y -> c + s (y - c) + h with w = 1/2;
near p, this is the density of half the change. The change is the smallest one that this number of
outputs can show. It follows from the Fisher information of scale and center, estimated from earlier
outputs. These bets evaluate the density only a few times per output. They are much cheaper than the
bets of `density_bets`, which look for all other mismatches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from dpwitness.auditors.density.density_bets import BACKED, SCALE_STEPS, TESTED, Bet, SampledSide
from dpwitness.auditors.density.density_check import (
    SCALE_ALARM,
    CheckedOracle,
    log_density_on,
    make_side,
    rows_of,
)
from dpwitness.auditors.density.routes import BadOracle, density_of
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray

POWER = 0.9  # probability that a mismatch of the stated size would have been noticed
# largest relative mismatch of scale at which a certificate of the density may apply to the
# mechanism
TOLERANCE = 0.02
_CHUNK = 100_000  # outputs in memory at a time
_TEST_CHANGE = 1e-3  # change at which the Fisher information is estimated
_ROWS = 4096  # outputs per side from which capitals are predicted
_DEVIATIONS = 1.2816  # standard errors for probability `POWER`
_SCALE_ERRORS: list[float] = np.exp(np.linspace(math.log(0.001), math.log(2.0), 60)).tolist()


@dataclass(frozen=True, eq=False)
class ScaleBets:
    """Settings of the test of the scale: number of outputs on each dataset, logarithms of the scale
    factors that are tried, and ln of the evidence for one of them at which the density is refused.
    """

    runs: int
    steps: tuple[float, ...]
    threshold: float


def check_scale(
    mechanism: Any, pair: Pair, checked: CheckedOracle, size: int, rng: np.random.Generator
) -> ScaleBets:
    """Raise BadOracle if `size` further outputs on each dataset show another scale or center than
    the density.

    False alarms have probability at most `SCALE_ALARM`. No bets are made unless outputs are
    continuous numbers without repeated values, since the test rescales and shifts outputs. The
    earlier outputs in `checked` determine centers and alternatives.
    """
    if size <= 0 or not all(
        side.continuous.any()
        and np.count_nonzero(~side.alone) >= 1000
        and side.alone.mean() <= 0.01
        for side in checked.sides
    ):
        return ScaleBets(0, (), math.inf)
    step, bets = _alternatives(checked, size)
    known = [side.repeated() for side in checked.sides]
    log_capital = np.zeros(len(bets))
    for i, (name, dataset) in enumerate((("D1", pair.d1), ("D0", pair.d0))):
        for start in range(0, size, _CHUNK):
            rows = rows_of(mechanism, dataset, min(_CHUNK, size - start), rng)
            own = log_density_on(mechanism, rows, dataset, name)
            # `check_oracle` tests for impossible outputs
            rows, own = rows[np.isfinite(own)], own[np.isfinite(own)]
            part = make_side(density_of(mechanism, dataset), rows, own, own, rng)
            log_capital += [bet.gain(i, part, known[i]) if i in bet.which else 0.0 for bet in bets]
    total = float(logsumexp(log_capital)) - math.log(len(bets))
    if total >= math.log(1 / SCALE_ALARM):
        raise BadOracle(
            f'log_density disagrees with the sampler: a bet on the alternative "'
            f'{bets[int(np.argmax(log_capital))].name}" wins a factor of e^{total:.4g}, which '
            "must be near e^0 for a correct log_density"
        )
    return ScaleBets(size, (step, -step), math.log(len(bets) / SCALE_ALARM))


def _alternatives(checked: CheckedOracle, size: int) -> tuple[float, list[Bet]]:
    """Return the change of the scale, and bets on this change and on changes of the center of each
    side along the line between the centers.
    """
    some = [side.part(slice(_ROWS)) for side in checked.sides]
    centers = [side.center for side in checked.sides]
    none, between = np.zeros(len(centers[0])), centers[0] - centers[1]

    def mapped(scale: float, shift: FloatArray) -> Callable[[int, SampledSide], FloatArray]:
        return lambda i, side: side.mapped(centers[i], none + scale, shift)

    def smallest_change(
        ratio: Callable[[int, SampledSide], FloatArray], which: tuple[int, ...]
    ) -> float:
        """Return the change that is noticed best if it is as small as `size` outputs can show."""
        scores = np.concatenate([np.clip(ratio(i, some[i]), -1, 1) for i in which])
        information = max(float(np.mean(scores**2)) / _TEST_CHANGE**2, 1e-12)
        # about six standard errors, at twice the change
        return min(
            0.5, 2 * math.sqrt(2 * math.log(6 / SCALE_ALARM) / (information * size * len(which)))
        )

    step = smallest_change(mapped(math.exp(_TEST_CHANGE), none), (0, 1))
    bets = [
        Bet(f"scale off by about {step / 2:.2g}", mapped(math.exp(sign * step), none), 0.5)
        for sign in (1.0, -1.0)
    ]
    for i in (0, 1) if np.any(between) else ():
        shift = smallest_change(mapped(1.0, _TEST_CHANGE * between), (i,))
        name = f"center of {('D1', 'D0')[i]} shifted"
        bets += [Bet(name, mapped(1.0, sign * shift * between), 0.5, (i,)) for sign in (1.0, -1.0)]
    return step, bets


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Smallest mismatches of sampler and density that would have been noticed with probability
    `POWER`; infinite if not applicable.
    """

    # relative error of the noise's scale about its center, on both datasets, for continuous outputs
    scale: float
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
        sizes = {"scale": self.scale, "atom": self.atom}
        return {name: v if math.isfinite(v) else None for name, v in sizes.items()} | {
            "probability": POWER,
            "runs": self.runs,
        }


@dataclass(frozen=True, eq=False)
class _Forecast:
    """Outputs of both datasets that predict which mismatches of sampler and density bets notice.

    The capital of an alternative is predicted from its mean and variance under a sampler with the
    mismatch. Let r be the sampler's density divided by the claimed density, and 1 + e the factor of
    the bet. Then the mean is E_P[(r - 1) ln(1 + e)] + E_P[ln(1 + e) - e], as E_P e = 0. Both terms
    are averages over the drawn outputs, and of the second order in the mismatch. Atoms win nothing,
    and outputs that may be atoms lose.
    """

    samples: list[SampledSide]
    shares: list[float]  # shares of the outputs that are not atoms, on both sides
    lost: float  # share of outputs that bets on maps take for atoms that they do not know

    @classmethod
    def of(cls, sides: tuple[SampledSide, SampledSide], rng: np.random.Generator) -> _Forecast:
        """Return the forecast from random outputs of both sides."""
        samples, shares, lost = [], [], 0.0
        for side in sides:
            half = len(side.rows) // 2
            known, rest = side.part(slice(half)).repeated(), side.part(slice(half, None))
            lost += float(np.mean(rest.alone & [row.tobytes() not in known for row in rest.rows]))
            rows = np.flatnonzero(~side.alone & np.isfinite(side.own))
            chosen = np.sort(rng.choice(rows, min(_ROWS, len(rows)), replace=False))
            samples.append(side.part(chosen))
            shares.append(len(rows) / len(side.rows))
        return cls(samples, shares, lost)

    def ratios(self, log_scale: float) -> list[FloatArray]:
        """Return the density with another scale, divided by the density, on both sides."""
        scale = math.exp(log_scale) + np.zeros(self.samples[0].rows.shape[1])
        return [
            np.exp(np.minimum(side.mapped(side.center, scale, 0 * scale), 50.0))
            for side in self.samples
        ]

    def notices(
        self, true: list[FloatArray], bet: list[FloatArray], runs: int, threshold: float
    ) -> bool:
        """Return whether the capital of a bet with these factors exceeds `threshold` with
        probability `POWER`, if the sampler has the ratio `true` to its density.
        """
        logs = [np.log(factor) for factor in bet]
        mean = sum(
            share * float(np.mean((r - 1) * x + x - (factor - 1)))
            for share, r, x, factor in zip(self.shares, true, logs, bet, strict=True)
        )
        variances = [share * float(x.var()) for share, x in zip(self.shares, logs, strict=True)]
        spread = math.sqrt(runs * sum(variances))
        return runs * (mean - math.log(2) * self.lost) - _DEVIATIONS * spread >= threshold


def smallest_mismatch(
    checked: CheckedOracle, rng: np.random.Generator, scale_bets: ScaleBets
) -> Mismatch:
    """Return the mismatches that would have been noticed, predicted from the drawn outputs. Other
    kinds of mismatch may need more runs.
    """
    first = len(checked.sides[0].rows)
    size, needed = int(TESTED * first), checked.threshold + math.log(BACKED + 1)
    atom = max(_smallest_atom_error(side, size, needed) for side in checked.sides)
    runs = 2 * (first + scale_bets.runs)
    forecast = _Forecast.of(checked.sides, rng)
    scale = math.inf
    if all(side.continuous.any() and len(side.rows) > 100 for side in forecast.samples):
        steps = tuple(sign * step for step in SCALE_STEPS for sign in (1.0, -1.0))
        tests = [
            ([0.5 + 0.5 * r for r in forecast.ratios(step)], bets.runs, bets.threshold)
            for bets in (scale_bets, ScaleBets(size, steps, needed))
            for step in bets.steps
        ]

        def least_noticed(sign: float) -> float:
            """Return the least relative error of the scale that some bet notices."""
            for error in _SCALE_ERRORS:
                true = forecast.ratios(sign * math.log1p(error))
                if any(forecast.notices(true, *test) for test in tests):
                    return error
            return math.inf

        scale = max(map(least_noticed, (1.0, -1.0)))
    return Mismatch(scale, atom if atom > 0 else math.inf, runs)


def _smallest_atom_error(side: SampledSide, size: float, needed: float) -> float:
    """Return the smallest noticed error of the likeliest output's probability; 0 if no output
    repeats.
    """
    if side.continuous.any():
        return 0.0
    mass = min(0.5, math.exp(min(float(side.own.max(initial=-math.inf)), 0.0)))
    root = (_DEVIATIONS * math.sqrt(2) + math.sqrt(2 * _DEVIATIONS**2 + 4 * needed)) / 2
    return root * math.sqrt(2 * mass * (1 - mass) / size)
