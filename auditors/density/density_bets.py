"""Bets that a sampler does not follow its log-density.

**Theorem.** Let p be the law of independent outputs and g_1, g_2, ... sub-densities (integral at
most 1), each chosen from the outputs before it. The capital prod_i (1 - w_i + w_i g_i(y_i) /
p(y_i)), 0 <= w_i <= 1, reaches 1/alpha with probability at most alpha.

*Proof.* Given the past, a factor is non-negative and has expectation 1 - w_i + w_i times the
integral of g_i over {p > 0}, at most 1; the rest is Ville's inequality.  []

The theorem holds for any p: nothing is fitted to p, and no tail is assumed. The alternatives g are:
p itself under a map (y -> c + s (y - c), a shift; the density of a map of outputs needs no
quadrature), the other dataset's law, a ball where outputs crowd, a normal law, and frequencies of
repeated outputs. A w near 1/2 looks for another law, a small w for additional mass. Maps would
mistake atoms for a density. So atoms that repeat in earlier outputs keep their mass under maps. All
other outputs next to which the density differs count 1 - w, as if g had no mass there.

**Flips.** If T swaps two values of a column, an output belongs to a pair {y, Ty}, and is the
likelier one with probability m = max(p, p')/(p + p'). So 1{y is the likelier} - m has expectation
zero given the pair, and 1 + b (1{..} - m), |b| < 1, is a fair factor too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from dpwitness.core.protocols.mechanism import FloatArray

LogDensity = Callable[[FloatArray], FloatArray]

# ends of the blocks; the first is for learning, later ones are bet on after learning from all
# before
_BLOCKS = (0.1, 0.4, 1.0)
TESTED = _BLOCKS[-1] - _BLOCKS[0]  # share of the outputs that are bet on
# outputs per side on which all alternatives are compared, and on which the finalists are compared
_SCREEN, _LEARN = 6144, 32768
# numbers of alternatives that are compared again, and that share the capital
_FINALISTS, _BACKED = 24, 5
_SCALES = np.exp(np.array([0.02, 0.04, 0.06, 0.1, 0.16, 0.3, 0.6, 1.2]))
_SHIFTS = np.array([0.02, 0.04, 0.08, 0.16, 0.3, 0.6])  # in units of the spread
_ODD_SHARES = (0.003, 0.01, 0.03, 0.1)
_CROWD, _PLACES = 20_000, 4000  # numbers of outputs, and of places, in the search for crowds
_MAX_COLUMNS = 8  # largest number of columns that are scaled, shifted or flipped separately


@dataclass(frozen=True, eq=False)
class Side:
    """Outputs of one dataset with the values of the log-densities."""

    rows: FloatArray
    own: FloatArray  # log-density of this dataset's law at the outputs
    other: FloatArray  # log-density of the other dataset's law
    density: LogDensity  # log-density of this dataset's law as a function
    continuous: NDArray[np.bool_]  # columns that maps may move
    alone: NDArray[np.bool_]  # outputs that may be atoms

    def part(self, first: int, last: int) -> Side:
        """Return the outputs from `first` to `last`."""
        cut = slice(first, last)
        return Side(
            self.rows[cut],
            self.own[cut],
            self.other[cut],
            self.density,
            self.continuous,
            self.alone[cut],
        )

    @property
    def center(self) -> FloatArray:
        """Return the median of the continuous columns; 0 for other columns."""
        return np.where(self.continuous, np.median(self.rows, axis=0), 0.0)

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
    """An alternative: ln g/p on a side, and w; or the logarithms of fair factors themselves, if `w`
    is None.
    """

    name: str
    log_ratio: Callable[[Side], FloatArray]
    w: float | None
    which: tuple[int, ...] = (0, 1)
    masses: str = "kept"  # mass of atoms in g: that of p, none, or given by the ratio itself

    def factors(
        self, side: Side, known: dict[bytes, float], ratio: FloatArray | None = None
    ) -> FloatArray:
        """Return the logarithms of the factors. `ratio` may be passed if it was computed before,
        for another w.
        """
        ratio = self.log_ratio(side) if ratio is None else ratio
        if self.w is None:
            return ratio
        with np.errstate(divide="ignore"):
            logs = np.logaddexp(math.log1p(-self.w), math.log(self.w) + np.minimum(ratio, 600.0))
        if self.masses != "given" and side.alone.any():
            kept = np.array(
                [self.masses == "kept" and row.tobytes() in known for row in side.rows[side.alone]]
            )
            logs[side.alone] = np.where(kept, 0.0, math.log1p(-self.w))
        return logs


def log_capital_won(sides: list[Side]) -> tuple[float, str]:
    """Return ln of the capital won on both datasets together, and the name of the alternative that
    won most.
    """
    size = min(len(side.rows) for side in sides)
    block_ends = [int(share * size) for share in _BLOCKS]
    total, name, most = 0.0, "", 0.0
    for first, last in itertools.pairwise(block_ends):
        before = [side.part(0, first) for side in sides]
        known = [_repeated_outputs(side) for side in before]
        chosen = _best_alternatives(before, known)
        if not chosen:
            continue
        test = [side.part(first, last) for side in sides]
        log_gains = np.array(
            [0.0]
            + [
                sum(float(bet.factors(test[i], known[i]).sum()) for i in bet.which)
                for bet in chosen
            ]
        )
        log_gains = np.where(np.isnan(log_gains), -np.inf, log_gains)
        total += float(logsumexp(log_gains)) - math.log(len(log_gains))
        if log_gains.max() > most:
            most, name = float(log_gains.max()), chosen[int(np.argmax(log_gains)) - 1].name
    return total, name


def _repeated_outputs(side: Side) -> dict[bytes, float]:
    """Return outputs that occur more than once, with their log-mass under p."""
    rows, at, counts = np.unique(side.rows, axis=0, return_index=True, return_counts=True)
    return {
        row.tobytes(): float(side.own[i])
        for row, i, count in zip(rows, at, counts, strict=True)
        if count > 1
    }


def _best_alternatives(sides: list[Side], known: list[dict[bytes, float]]) -> list[Bet]:
    """Return the alternatives that would have won most on earlier outputs, on one dataset or on
    both.
    """
    bets = _alternatives(sides, known)
    for size, keep in ((_SCREEN, _FINALISTS), (_LEARN, _BACKED)):
        parts = [side.part(max(0, len(side.rows) - size), len(side.rows)) for side in sides]
        scored, ratios = [], {}
        for bet in bets:
            for i in bet.which:
                if (bet.log_ratio, i) not in ratios:
                    ratios[bet.log_ratio, i] = bet.log_ratio(parts[i])
            log_gains = {
                i: float(
                    np.nan_to_num(
                        bet.factors(parts[i], known[i], ratios[bet.log_ratio, i]).sum(), nan=-np.inf
                    )
                )
                for i in bet.which
            }
            options = [
                (sum(log_gains.values()), bet.which),
                *((log_gains[i], (i,)) for i in bet.which if len(bet.which) > 1),
            ]
            scored += [
                (value, Bet(bet.name, bet.log_ratio, bet.w, which, bet.masses))
                for value, which in options
            ]
        scored.sort(key=lambda entry: -entry[0])
        bets = [bet for value, bet in scored[:keep] if value > 0]
    return bets


def _alternatives(sides: list[Side], known: list[dict[bytes, float]]) -> list[Bet]:
    """Return all alternatives for these outputs."""
    k = sides[0].rows.shape[1]
    bets: list[Bet] = []
    one, zero = np.ones(k), np.zeros(k)
    moving = np.flatnonzero(sides[0].continuous & sides[1].continuous)
    if len(moving):
        centers = {id(side.density): side.center for side in sides}
        modes = {
            id(side.density): side.rows[
                int(np.argmax(np.where(side.alone | ~np.isfinite(side.own), -np.inf, side.own)))
            ]
            for side in sides
        }
        spread = np.max(
            [np.subtract(*np.percentile(side.rows, [75, 25], axis=0)) for side in sides], axis=0
        )

        def mapped(
            scale: FloatArray, shift: FloatArray, about: dict[int, FloatArray] = centers
        ) -> Callable[[Side], FloatArray]:
            return lambda side: side.mapped(about[id(side.density)], scale, shift)

        units = [one * sides[0].continuous]
        if 1 < len(moving) <= _MAX_COLUMNS:
            units += list(np.eye(k)[moving])
        for unit in units:
            where = (
                "" if unit.sum() > 1 or len(units) == 1 else f" of column {int(np.argmax(unit))}"
            )
            for scale in [*_SCALES, *(1 / _SCALES)]:
                bets.append(
                    Bet(
                        f"scale{where} off by about {abs(scale - 1) / 2:.2g}",
                        mapped(np.where(unit > 0, scale, 1.0), zero),
                        0.5,
                    )
                )
        between = (sides[0].center - sides[1].center) * sides[0].continuous
        directions = [*np.eye(k)[moving[:_MAX_COLUMNS]] * spread, between]
        for direction in directions:
            bets += [
                Bet("shifted", mapped(one, h * direction), 0.5)
                for h in [*_SHIFTS, *-_SHIFTS]
                if np.any(direction)
            ]
        # noise of odd runs, in units of the regular noise
        for noise in (1e-6, 1e-3, 1e-2, 0.1, 0.3, 3.0, 10.0, 100.0):
            for about in (centers, modes):
                ratio = mapped(np.full(k, 1 / noise), zero, about)
                bets += [
                    Bet(f"a share of about {w:g} of the runs with {noise:g} of the noise", ratio, w)
                    for w in _ODD_SHARES
                ]
        if len(moving) == k:
            bets += [
                bet
                for i, side in enumerate(sides)
                for bet in [*_crowd_bets(side, i), *_normal_bets(side, i)]
            ]
    bets += [
        Bet("runs on the other dataset", _other_log_ratio, w, masses="given")
        for w in (*_ODD_SHARES, 0.5)
    ]
    frequent = _frequency_ratio(sides, known)
    bets += [Bet("frequencies of outputs", frequent, w, masses="given") for w in (0.5, 0.97)]
    return bets + [
        Bet("two values of a column swapped", flip, None) for flip in _flip_factors(sides)
    ]


def _other_log_ratio(side: Side) -> FloatArray:
    """Return ln q/p for the law of the other dataset."""
    with np.errstate(invalid="ignore"):
        return side.other - side.own


def _frequency_ratio(
    sides: list[Side], known: list[dict[bytes, float]]
) -> Callable[[Side], FloatArray]:
    """Return a log-ratio for the observed frequencies of repeated outputs, with the remaining mass
    for all other outputs.
    """
    tables: dict[int, tuple[dict[bytes, float], float]] = {}
    for side, logs in zip(sides, known, strict=True):
        rest = 1 - math.fsum(math.exp(min(value, 0.0)) for value in logs.values())
        # too many repeated outputs, or densities instead of masses: no bet
        if not logs or len(logs) > 5000 or rest < -1e-9:
            tables[id(side.density)] = {}, 0.0
            continue
        counts = dict.fromkeys(logs, 0.5)
        for row in side.rows:
            if (key := row.tobytes()) in counts:
                counts[key] += 1
        others = len(side.rows) + 0.5 * len(counts) - sum(counts.values())
        total = sum(counts.values()) + others + 0.5
        left = math.log((others + 0.5) / total / rest) if rest > 1e-9 else -math.inf
        tables[id(side.density)] = (
            {key: math.log(counts[key] / total) - logs[key] for key in logs},
            left,
        )

    def ratio(part: Side) -> FloatArray:
        table, left = tables[id(part.density)]
        return (
            np.array([table.get(row.tobytes(), left) for row in part.rows])
            if table
            else np.zeros(len(part.rows))
        )

    return ratio


def _flip_factors(sides: list[Side]) -> list[Callable[[Side], FloatArray]]:
    """Return fair factors from swaps of the two likeliest values of a column."""
    found: list[Callable[[Side], FloatArray]] = []
    for j in range(min(sides[0].rows.shape[1], 2 * _MAX_COLUMNS)):
        values, counts = np.unique(
            np.concatenate([side.rows[:, j] for side in sides]), return_counts=True
        )
        if (
            any(side.continuous[j] for side in sides)
            or len(values) < 2
            or not np.all(np.isfinite(values))
        ):
            continue
        a, b = values[np.argsort(-counts)[:2]]

        def likelier(part: Side, j: int = j, a: float = a, b: float = b) -> FloatArray:
            """Return 1{output is the likelier of its pair} minus the probability of this event; 0
            for outputs with other values.
            """
            column = part.rows[:, j]
            rows = part.rows.copy()
            rows[:, j] = np.where(column == a, b, np.where(column == b, a, column))
            with np.errstate(all="ignore"):
                log_odds = part.own - np.asarray(part.density(rows), dtype=float)
            chance = 1 / (1 + np.exp(-np.minimum(np.abs(log_odds), 700.0)))
            inside = ((column == a) | (column == b)) & ~np.isnan(log_odds) & (log_odds != 0)
            return np.where(inside, (log_odds > 0) - chance, 0.0)

        found += [
            lambda part, f=likelier, b=tilt: np.log1p(b * f(part))  # type: ignore[misc]
            for tilt in (-0.4, -0.15, -0.05, -0.02, 0.02, 0.05, 0.15, 0.4)
        ]
    return found


def _crowd_bets(side: Side, i: int) -> list[Bet]:
    """Return bets on balls, for several numbers of neighbors, where outputs crowd most compared
    with the density.
    """
    rows, k = side.rows[-_CROWD:], side.rows.shape[1]
    own, alone = side.own[-_CROWD:], side.alone[-_CROWD:]
    scale = np.subtract(*np.percentile(rows, [75, 25], axis=0))
    if k > 8 or not np.all(scale > 0):
        return []
    from scipy.spatial import cKDTree  # takes longer to load than a short audit

    points = rows / scale
    tree = cKDTree(points)
    some = np.arange(0, len(rows), max(1, len(rows) // _PLACES))
    unit = 0.5 * k * math.log(math.pi) - float(gammaln(0.5 * k + 1))
    bets = []
    for neighbor_count in (8, 30, 120, 360):
        if len(rows) < 8 * neighbor_count:
            continue
        radius = tree.query(points[some], k=[neighbor_count + 1])[0][:, 0]
        with np.errstate(divide="ignore", over="ignore"):
            volume = unit + k * np.log(radius) + float(np.log(scale).sum())
            expected = np.exp(np.minimum(math.log(len(rows)) + own[some] + volume, 700.0))
            gain = (
                neighbor_count * (math.log(neighbor_count) - np.log(expected))
                - neighbor_count
                + expected
            )
        gain[~np.isfinite(gain) | alone[some] | (expected > neighbor_count)] = -np.inf
        at = int(np.argmax(gain))
        if not np.isfinite(gain[at]):
            continue
        ball_radius, middle, content = (
            1.2 * radius[at],
            points[some[at]],
            float(volume[at]) + k * math.log(1.2),
        )

        def ratio(
            part: Side,
            ball_radius: float = ball_radius,
            middle: FloatArray = middle,
            content: float = content,
        ) -> FloatArray:
            inside = np.sum((part.rows / scale - middle) ** 2, axis=1) <= ball_radius**2
            return np.where(inside, -content - part.own, -np.inf)

        bets += [
            Bet(f"a share of about {w:g} of the runs crowded at one place", ratio, w, (i,), "none")
            for w in _ODD_SHARES
        ]
    return bets


def _normal_bets(side: Side, i: int) -> list[Bet]:
    """Return bets on a normal law that is fitted to the outputs."""
    rows, k = side.rows, side.rows.shape[1]
    if k > 20 or len(rows) < 20 * k:
        return []
    normal = fitted_normal(rows)
    if normal is None:
        return []
    log_normal = normal[0]

    def ratio(part: Side) -> FloatArray:
        return log_normal(part.rows) - part.own

    return [Bet("a normal law", ratio, w, (i,), "none") for w in (0.1, 0.9)]


def fitted_normal(rows: FloatArray) -> tuple[LogDensity, FloatArray, FloatArray] | None:
    """Return the log-density, the mean and the Cholesky root of the covariance of a normal law
    fitted to outputs; None if degenerate.
    """
    middle, k = rows.mean(axis=0), rows.shape[1]
    try:
        root = np.linalg.cholesky(np.atleast_2d(np.cov(rows.T)))
    except np.linalg.LinAlgError:
        return None

    def log_density(y: FloatArray) -> FloatArray:
        z = np.linalg.solve(root, (y - middle).T)
        return np.asarray(
            -0.5 * (z**2).sum(axis=0)
            - np.log(np.diag(root)).sum()
            - 0.5 * k * math.log(2 * math.pi)
        )

    return log_density, middle, root
