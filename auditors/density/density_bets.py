"""Bets that a sampler does not follow its log-density.

**Theorem.** Let p be the law of independent outputs and g_1, g_2, ... sub-densities (integral at
most 1), each chosen from the outputs before it. The capital prod_i (1 - w_i + w_i g_i(y_i) /
p(y_i)), 0 <= w_i <= 1, reaches 1/alpha with probability at most alpha.

*Proof.* Given the past, a factor is non-negative and has expectation 1 - w_i + w_i times the
integral of g_i over {p > 0}, at most 1; the rest is Ville's inequality.  []

The theorem holds for any p: nothing is fitted to p, and no tail is assumed. The alternatives g are:
p itself under a map (y -> c + s (y - c), a shift; the density of a map of outputs needs no
quadrature), the other dataset's law, a ball where outputs crowd, and frequencies of repeated
outputs. A w near 1/2 looks for another law, a small w for additional mass. Maps would mistake atoms
for a density. So atoms that repeat in earlier outputs keep their mass under maps. All other outputs
that may be atoms count 1 - w, as if g had no mass there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from dpwitness.auditors.density.routes import LogDensity
from dpwitness.core.protocols import FloatArray

_LEARNED = 0.25  # share of the outputs from which the alternatives are chosen
TESTED = 1 - _LEARNED  # share of the outputs that are bet on
BACKED = 5  # number of alternatives that share the capital
SCALE_STEPS = (0.02, 0.04, 0.06, 0.1, 0.16, 0.3, 0.6, 1.2)  # logarithms of scale factors
_SHIFTS = np.array([0.02, 0.04, 0.08, 0.16, 0.3, 0.6])  # in units of the spread
_ODD_NOISES = (1e-6, 1e-3, 1e-2, 0.1, 0.3, 3.0, 10.0, 100.0)  # in units of the regular noise
_ODD_SHARES = (0.003, 0.01, 0.03, 0.1)
_MAX_COLUMNS = 8  # largest number of columns that are scaled or shifted separately


@dataclass(frozen=True, eq=False)
class SampledSide:
    """Outputs of one dataset (D1 or D0), with the log-densities under both datasets."""

    rows: FloatArray
    own: FloatArray  # log-density of this dataset's law at the outputs
    other: FloatArray  # log-density of the other dataset's law
    density: LogDensity  # log-density of this dataset's law as a function
    continuous: NDArray[np.bool_]  # columns that maps may move
    jumps: NDArray[np.bool_]  # outputs next to which the density differs, as it does at an atom
    alone: NDArray[np.bool_]  # outputs that may be atoms: those with a jump, and repeated ones

    def part(self, rows: slice | NDArray[np.intp]) -> SampledSide:
        """Return some of the outputs."""
        fields = ("rows", "own", "other", "jumps", "alone")
        return replace(self, **{name: getattr(self, name)[rows] for name in fields})

    @property
    def center(self) -> FloatArray:
        """Return the median of the continuous columns; 0 for other columns."""
        return np.where(self.continuous, np.median(self.rows, axis=0), 0.0)

    def repeated(self) -> dict[bytes, float]:
        """Return outputs that occur more than once, with their log-mass under p."""
        rows, at, counts = np.unique(self.rows, axis=0, return_index=True, return_counts=True)
        return {rows[i].tobytes(): float(self.own[at[i]]) for i in np.flatnonzero(counts > 1)}

    def mapped(self, center: FloatArray, scale: FloatArray, shift: FloatArray) -> FloatArray:
        """Return ln g/p, where g is the law under which center + scale (y - center) + shift has law
        p.
        """
        to = np.where(self.continuous, center + scale * (self.rows - center) + shift, self.rows)
        with np.errstate(all="ignore"):
            value = (
                np.asarray(self.density(to), dtype=float)
                + float(np.log(np.where(self.continuous, scale, 1.0)).sum())
                - self.own
            )
        return np.where(np.isnan(value), -np.inf, value)


@dataclass(frozen=True, eq=False)
class Bet:
    """An alternative: ln g/p at the outputs of side 0 (D1) or 1 (D0), and w."""

    name: str
    log_ratio: Callable[[int, SampledSide], FloatArray]
    w: float
    which: tuple[int, ...] = (0, 1)
    masses: str = "kept"  # mass of atoms in g: that of p, none, or given by the ratio itself

    def gain(self, i: int, side: SampledSide, known: dict[bytes, float]) -> float:
        """Return the logarithm of the capital won on the outputs of one dataset: D1 for i = 0, D0
        for i = 1.
        """
        ratio = np.minimum(self.log_ratio(i, side), 600.0)
        logs = np.logaddexp(math.log1p(-self.w), math.log(self.w) + ratio)
        if self.masses != "given" and side.alone.any():
            kept = [
                self.masses == "kept" and row.tobytes() in known for row in side.rows[side.alone]
            ]
            logs[side.alone] = np.where(kept, 0.0, math.log1p(-self.w))
        return float(np.nan_to_num(logs.sum(), nan=-np.inf))


def log_capital_won(sides: list[SampledSide]) -> tuple[float, str]:
    """Return ln of the capital won on both datasets together, and the name of the alternative that
    won most.
    """
    size = min(len(side.rows) for side in sides)
    before = [side.part(slice(int(_LEARNED * size))) for side in sides]
    test = [side.part(slice(int(_LEARNED * size), size)) for side in sides]
    known = [side.repeated() for side in before]
    gains, name = [0.0], ""
    for bet in _best_alternatives(before, known):
        gains.append(sum(bet.gain(i, test[i], known[i]) for i in bet.which))
        if gains[-1] == max(gains):
            name = bet.name
    return float(logsumexp(gains)) - math.log(len(gains)), name


def _best_alternatives(sides: list[SampledSide], known: list[dict[bytes, float]]) -> list[Bet]:
    """Return the alternatives that would have won most on earlier outputs, on one dataset or on
    both.
    """
    # outputs per side on which the alternatives are compared
    parts = [side.part(slice(-8192, None)) for side in sides]
    scored: list[tuple[float, Bet]] = []
    for bet in _alternatives(sides, known):
        gains = {i: bet.gain(i, parts[i], known[i]) for i in bet.which}
        scored.append((sum(gains.values()), bet))
        scored += [(gain, replace(bet, which=(i,))) for i, gain in gains.items() if len(gains) > 1]
    scored.sort(key=lambda entry: -entry[0])
    return [bet for value, bet in scored[:BACKED] if value > 0]


def _alternatives(sides: list[SampledSide], known: list[dict[bytes, float]]) -> list[Bet]:
    """Return all alternatives for these outputs."""
    tables = [_frequencies(side, logs) for side, logs in zip(sides, known, strict=True)]

    def other(i: int, part: SampledSide) -> FloatArray:
        with np.errstate(invalid="ignore"):
            return part.other - part.own

    def frequent(i: int, part: SampledSide) -> FloatArray:
        table, left = tables[i]
        return np.array([table.get(row.tobytes(), left) for row in part.rows])

    bets = _bets("runs on the other dataset", other, (*_ODD_SHARES, 0.5), masses="given")
    bets += _bets("frequencies of outputs", frequent, (0.5, 0.97), masses="given")
    continuous = sides[0].continuous & sides[1].continuous
    moving = np.flatnonzero(continuous)
    if len(moving) == 0:
        return bets
    k = len(continuous)
    centers = [side.center for side in sides]
    spread = np.max(
        [np.subtract(*np.percentile(side.rows, [75, 25], axis=0)) for side in sides], axis=0
    )

    def mapped(scale: FloatArray, shift: FloatArray) -> Callable[[int, SampledSide], FloatArray]:
        return lambda i, part: part.mapped(centers[i], scale, shift)

    units = [continuous * 1.0]
    if 1 < len(moving) <= _MAX_COLUMNS:
        units += list(np.eye(k)[moving])
    for unit, step, sign in product(units, SCALE_STEPS, (1.0, -1.0)):
        where = f" of column {int(np.argmax(unit))}" if unit.sum() < len(moving) else ""
        scale = math.exp(sign * step)
        ratio = mapped(np.where(unit > 0, scale, 1.0), np.zeros(k))
        bets += _bets(f"scale{where} off by about {abs(scale - 1) / 2:.2g}", ratio)
    between = (centers[0] - centers[1]) * continuous
    directions = np.vstack([np.diag(spread)[moving[:_MAX_COLUMNS]], between])
    for direction, h in product(directions[directions.any(axis=1)], (*_SHIFTS, *-_SHIFTS)):
        bets += _bets("shifted", mapped(np.ones(k), h * direction))
    for noise in _ODD_NOISES:
        name = f"a share of about {{:g}} of the runs with {noise:g} of the noise"
        bets += _bets(name, mapped(np.full(k, 1 / noise), np.zeros(k)), _ODD_SHARES)
    if len(moving) == k <= _MAX_COLUMNS:
        bets += [bet for i, side in enumerate(sides) for bet in _crowds(side, i)]
    return bets


def _bets(
    name: str,
    log_ratio: Callable[[int, SampledSide], FloatArray],
    shares: Sequence[float] = (0.5,),
    which: tuple[int, ...] = (0, 1),
    masses: str = "kept",
) -> list[Bet]:
    """Return one bet for each w in `shares`; the ratio is computed once for all of them."""
    ratio = cache(log_ratio)
    return [Bet(name.format(w), ratio, w, which, masses) for w in shares]


def _frequencies(side: SampledSide, known: dict[bytes, float]) -> tuple[dict[bytes, float], float]:
    """Return log-ratios for the observed frequencies of atoms, and one for all other outputs, which
    share the remaining mass.

    Repeated numbers without a jump of the density are not used: numbers of few digits repeat, and
    their densities are not masses.
    """
    if side.continuous.any():
        atoms = {row.tobytes() for row in side.rows[side.jumps]}
        known = {key: value for key, value in known.items() if key in atoms}
    rest = 1 - math.fsum(math.exp(min(value, 0.0)) for value in known.values())
    # too many repeated outputs, or densities instead of masses: no bet
    if not known or len(known) > 5000 or rest < -1e-9:
        return {}, 0.0
    counts = dict.fromkeys(known, 0.5)
    for row in side.rows:
        if (key := row.tobytes()) in counts:
            counts[key] += 1
    total = len(side.rows) + 0.5 * len(counts) + 0.5
    others = total - sum(counts.values())
    left = math.log(others / total / rest) if rest > 1e-9 else -math.inf
    return {key: math.log(counts[key] / total) - known[key] for key in known}, left


def _crowds(side: SampledSide, i: int) -> list[Bet]:
    """Return bets on balls, for several numbers of neighbors, where outputs crowd most compared
    with the density.
    """
    from scipy.spatial import cKDTree  # takes longer to load than a short audit

    scale, k = np.subtract(*np.percentile(side.rows, [75, 25], axis=0)), side.rows.shape[1]
    # numbers of neighbors in a crowd
    crowds = [count for count in (8, 30, 120, 360) if len(side.rows) >= 8 * count]
    if not crowds or not np.all(scale > 0):
        return []
    points = side.rows / scale
    # number of places in the search for crowds
    some = np.arange(0, len(points), max(1, len(points) // 4000))
    radii = cKDTree(points).query(points[some], k=[count + 1 for count in crowds])[0]
    unit = 0.5 * k * math.log(math.pi) - float(gammaln(0.5 * k + 1)) + float(np.log(scale).sum())
    bets = []
    for count, radius in zip(crowds, 1.2 * radii.T, strict=True):
        with np.errstate(divide="ignore", over="ignore"):
            volume = unit + k * np.log(radius)
            expected = np.exp(np.minimum(math.log(len(points)) + side.own[some] + volume, 700.0))
            gain = count * (math.log(count) - np.log(expected)) - count + expected
        gain[~np.isfinite(gain) | side.alone[some] | (expected > count)] = -np.inf
        at = int(np.argmax(gain))
        if np.isfinite(gain[at]):
            ratio = partial(
                _in_ball,
                scale=scale,
                middle=points[some[at]],
                radius=radius[at],
                content=volume[at],
            )
            name = "a share of about {:g} of the runs crowded at one place"
            bets += _bets(name, ratio, _ODD_SHARES, (i,), "none")
    return bets


def _in_ball(
    _: int,
    part: SampledSide,
    *,
    scale: FloatArray,
    middle: FloatArray,
    radius: float,
    content: float,
) -> FloatArray:
    """Return ln g/p for the uniform law on a ball, of which `content` is the log-volume."""
    inside = np.sum((part.rows / scale - middle) ** 2, axis=1) <= radius**2
    return np.where(inside, -content - part.own, -np.inf)
