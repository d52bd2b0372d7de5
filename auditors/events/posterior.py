"""What training data leave uncertain about an order of outputs, and the event with the largest expected certificate under it.

An order cuts the outputs into cells. How much mass both datasets put on a cell together is drawn from a Gamma law given its count (a
Bayesian bootstrap); which of the two put it there is drawn from a posterior of the odds. For scores the odds are a curve in the score that
bends by octaves of either tail: either straight or flat beyond the last octave that the data speak of, with bends whose size has a prior;
evidence (the Laplace approximation of the marginal likelihood) weighs these priors. For atoms each one's odds have a mixture of Beta priors
around those of a model, with weights by maximum likelihood (empirical Bayes).

Averaging the certificate over the draws is what meets the winner's curse: a threshold in a tail that ten outputs reach is no better than
what all that could lie behind ten outputs certifies in the mean. What is left of it, where the priors are wrong, is measured: how rare an
event may be is settled by choosing on one half of the outputs and judging on the other (`judged`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import betaln, expit, ndtri

from dpwitness.auditors.statistics.certificate import SHARE_FOR_FREQUENCY, parameter_shown, wilson_lower
from dpwitness.auditors.statistics.regression import evidence, fit_logistic
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.protocol import FloatArray

_DRAWS, _THRESHOLDS = 48, 44
_ROUGH = (8, 16)
_TAIL = 0.12  # ranks below this and above its mirror image are a tail
_BULK_BENDS = (0.1, 1.0)  # standard deviations of a bend of the log-odds over one octave
_TAIL_BENDS = ((0.01, 0.0), (0.05, -1.0), (0.2, -4.0), (0.6, -7.0))  # the same in the tails, and log prior weights: tails rarely bend
_RAREST = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)  # shares of the outputs that an event must name at least


def _atom_priors() -> tuple[FloatArray, FloatArray, FloatArray]:
    """What an atom's log-odds may be: how far from what a model says, around it with how many pseudo-counts; prior counts of each."""
    plain, steps, around = np.array([1.0, 5.0, 30.0, 200.0, 1500.0, 1e5]), np.linspace(-8.0, 8.0, 65), np.array([30.0, 200.0, 1500.0])
    levels = steps.size * around.size
    return (
        np.concatenate([np.zeros(plain.size), np.repeat(steps, around.size)]),
        np.concatenate([plain, np.tile(around, steps.size)]),
        np.concatenate([np.full(plain.size, 0.3), np.full(levels, 1 / levels)]),
    )


_LEVELS, _STRENGTHS, _WEIGHTS = _atom_priors()


@dataclass(frozen=True, slots=True)
class Goal:
    """What the event is for: the claim, the error and the number of test rounds of the certificate to come.

    `rough` is enough to rank pairs.
    """

    claim: Claim
    alpha: float
    rounds: int
    rough: bool = False

    @property
    def thresholds(self) -> tuple[int, int]:
        """Draws and thresholds a side that are looked at: fewer where a certificate is costly."""
        if self.rough:
            return _ROUGH
        return (16, 20) if self.claim.coarse() is not self.claim else (_DRAWS, _THRESHOLDS)

    def value(self, right: FloatArray, wrong: FloatArray, directions: FloatArray | int) -> FloatArray:
        """Parameter that the test certifies in the middle if its rounds are right and wrong with these probabilities."""
        made = np.maximum(right + wrong, 1e-12)
        made, theta, number = np.broadcast_arrays(made, right / made, directions)
        z, z_frequency = float(-ndtri(self.alpha)), float(-ndtri(self.alpha * SHARE_FOR_FREQUENCY))
        value, claim = np.zeros(made.shape), self.claim.coarse()
        for k in (1, 2):
            at = number == k
            frequency = wilson_lower(made[at], self.rounds, z_frequency)
            value[at] = parameter_shown(claim, frequency, wilson_lower(theta[at], self.rounds * made[at], z), k)
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Scores in some two hundred cells between equal-score boundaries, finest in the tails, in ascending order."""

    bounds: FloatArray  # thresholds between neighbouring cells
    mean: FloatArray  # up to a factor: see `_unit`
    ones: FloatArray
    total: FloatArray
    cell: NDArray[np.intp]  # of each output

    @classmethod
    def build(cls, score: FloatArray, label: NDArray[np.bool_]) -> Table:
        """From the scores of all training outputs and whether each came from D1."""
        order = np.argsort(score, kind="stable")
        pooled, n = score[order], len(score)
        tail = np.unique(np.geomspace(3, n // 2 + 1, 60).astype(int))
        ranks = np.unique(np.concatenate([tail, n - tail, np.linspace(0, n, 80).astype(int)]))
        ranks = ranks[(ranks > 0) & (ranks < n)]
        ranks = np.unique(np.searchsorted(pooled, pooled[ranks], side="left"))
        ranks = ranks[ranks > 0]
        below, above = pooled[ranks - 1], pooled[ranks]
        middle = 0.5 * below + 0.5 * above
        starts = np.append(0, ranks)
        total = np.diff(np.append(starts, n)).astype(float)
        unit = _unit(pooled)
        mean = np.add.reduceat(pooled, starts) / total if unit == 1 else _ascending(np.add.reduceat(pooled / unit, starts) / total)
        bounds = np.where((middle >= below) & (middle < above), middle, below)  # two floats may have none between them
        cell = np.empty(n, dtype=np.intp)
        cell[order] = np.repeat(np.arange(len(starts)), total.astype(int))
        return cls(bounds, mean, np.add.reduceat(label[order].astype(float), starts), total, cell)

    def half(self, label: NDArray[np.bool_], which: int | None) -> Table:
        """The same cells with the even outputs only (0), with the odd ones (1), or with all (None)."""
        if which is None:
            return self
        cell, label, size = self.cell[which::2], label[which::2], len(self.total)
        return Table(self.bounds, self.mean, *counts_of(cell, label, size), cell)

    @property
    def zeros(self) -> FloatArray:
        """Outputs on D0 in each cell."""
        return self.total - self.ones

    @property
    def size(self) -> float:
        """Outputs in all."""
        return float(self.total.sum())

    def mirrored(self) -> Table:
        """The table with the two sides, and the order, exchanged."""
        cell = len(self.total) - 1 - self.cell
        return Table(-self.bounds[::-1], -self.mean[::-1], self.zeros[::-1], self.total[::-1], cell)

    def threshold(self, cell: int) -> float:
        """The score that separates `cell` from those below it; infinite at the ends."""
        return -np.inf if cell <= 0 else np.inf if cell > len(self.bounds) else float(self.bounds[cell - 1])


def counts_of(cell: NDArray[np.intp], label: NDArray[np.bool_], cells: int) -> tuple[FloatArray, FloatArray]:
    """Outputs on D1 in each cell, and all in it."""
    ones, total = np.bincount(cell[label], minlength=cells), np.bincount(cell, minlength=cells)
    return ones.astype(np.float64), total.astype(np.float64)


@dataclass(frozen=True)
class Draws:
    """Masses of the cells, in ascending order, under D1 and under D0: (draws, cells) each."""

    p: FloatArray
    q: FloatArray

    @classmethod
    def of(cls, total: FloatArray, odds_share: FloatArray, rng: Generator) -> Draws:
        """From counts of both sides together and draws of D1's share of each cell."""
        mass = rng.gamma(np.maximum(total, 1e-3), 1.0, odds_share.shape)
        p, q = mass * odds_share, mass * (1 - odds_share)
        return cls(p / np.maximum(p.sum(axis=1, keepdims=True), 1e-300), q / np.maximum(q.sum(axis=1, keepdims=True), 1e-300))

    @cached_property
    def beyond(self) -> tuple[FloatArray, FloatArray]:
        """Masses of the cells from each one on; zero in the last place."""
        return _from_right(self.p), _from_right(self.q)

    @cached_property
    def below(self) -> tuple[FloatArray, FloatArray]:
        """Masses of the cells before each one."""
        return 1 - self.beyond[0], 1 - self.beyond[1]


def _from_right(mass: FloatArray) -> FloatArray:
    sums = np.cumsum(mass[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([sums, np.zeros((len(mass), 1))], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Cells on which D1 and on which D0 is guessed, what that is expected to certify, and how often it is right and wrong.

    `upper` and `lower` are their ends in the order of the cells: D1 from `upper` on, D0 before `lower`.
    """

    upper: int
    lower: int
    expected: float
    right: float
    wrong: float
    directions: int

    def named(self, order: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The cells named D1 and those named D0, of cells in this order."""
        return order[self.upper :], order[: self.lower]


def judged(draw: Callable[[int | None], tuple[NDArray[np.intp], Draws]], goal: Goal) -> tuple[Choice, NDArray[np.intp]]:
    """The choice with the largest expected certificate, among events no rarer than pays on outputs that did not choose.

    Parameters
    ----------
    draw : callable
        Order of the cells and draws of their masses (in that order) from the even outputs (0), from the odd ones (1), or from all (None).
    goal : Goal

    Returns
    -------
    Choice, order
        `expected` is what choices on one half certify in the mean over the draws of the other.
    """
    halves = [draw(0), draw(1)]
    best, least_mass = -1.0, 0.0
    for least in _RAREST:
        values = []
        for (own, draws), (other, fresh) in (halves, halves[::-1]):
            choice = _best_choice(draws, goal, least)
            place = np.argsort(other)
            ones, zeros = (place[cells] for cells in choice.named(own))
            right = 0.5 * (fresh.p[:, ones].sum(axis=1) + fresh.q[:, zeros].sum(axis=1))
            wrong = 0.5 * (fresh.q[:, ones].sum(axis=1) + fresh.p[:, zeros].sum(axis=1))
            values.append(float(goal.value(right, wrong, choice.directions).mean()))
        if np.mean(values) > best + 1e-12:
            best, least_mass = float(np.mean(values)), least
    order, draws = draw(None)
    return replace(_best_choice(draws, goal, least_mass), expected=best), order


def trusted(draw: Callable[[int | None], tuple[NDArray[np.intp], Draws]], goal: Goal) -> tuple[Choice, NDArray[np.intp]]:
    """The choice with the largest certificate in the mean over the draws: for cells so few that each speaks for itself."""
    order, draws = draw(None)
    return _best_choice(draws, goal, 0.0), order


def _best_choice(draws: Draws, goal: Goal, least: float) -> Choice:
    """The two cells with the largest certificate in the mean over the draws, of those that name at least a share `least` of the outputs."""
    cells = draws.p.shape[1]
    most = goal.thresholds[1]
    (up1, up0), (low1, low0) = draws.beyond, draws.below
    upper, lower = _levels(up1 + up0, most), _levels(low1 + low0, most)
    while True:
        right = 0.5 * (up1[:, upper][:, :, None] + low0[:, lower][:, None, :])
        wrong = 0.5 * (up0[:, upper][:, :, None] + low1[:, lower][:, None, :])
        directions = (upper < cells).astype(int)[:, None] + (lower > 0).astype(int)[None, :]
        with np.errstate(invalid="ignore"):
            value = goal.value(right, wrong, directions[None]).mean(axis=0)
        value[(right + wrong).mean(axis=0) < least] -= 1e6
        value[(lower[None, :] > upper[:, None]) | (directions == 0)] = -np.inf  # an output is named once, and some are
        i, j = np.unravel_index(int(np.argmax(value)), value.shape)
        finer = _between(upper, int(i), most), _between(lower, int(j), most)
        if all(len(new) <= 3 or np.isin(new, old).all() for new, old in zip(finer, (upper, lower), strict=True)):
            rates = float(right[:, i, j].mean()), float(wrong[:, i, j].mean())
            return Choice(int(upper[i]), int(lower[j]), float(value[i, j]), *rates, max(1, int(directions[i, j])))
        upper, lower = finer


def _levels(mass: FloatArray, most: int) -> NDArray[np.intp]:
    """Cells at which the mean mass beyond them passes evenly spaced levels of its logarithm."""
    mean = mass.mean(axis=0)
    if len(mean) <= most:
        return np.arange(len(mean))
    levels = np.geomspace(max(float(mean[mean > 0].min()), 1e-9), float(mean.max()), most - 2)
    falling = mean[0] > mean[-1]
    found = np.searchsorted(-mean, -levels) if falling else np.searchsorted(mean, levels)
    return np.unique(np.concatenate([[0, len(mean) - 1], np.minimum(found, len(mean) - 1)]))


def _between(grid: NDArray[np.intp], k: int, most: int) -> NDArray[np.intp]:
    """The cells between the neighbours of a grid point, thinned, with itself."""
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    return np.unique(np.append(np.linspace(low, high, min(most, int(high - low) + 1)).astype(np.intp), grid[k]))


def draw_shares(table: Table, goal: Goal, rng: Generator) -> FloatArray:
    """Draws of D1's share of each cell, where the log-odds are a curve in the score: (draws, cells)."""
    draws, total, ones = goal.thresholds[0], table.total, table.ones
    with np.errstate(over="ignore", invalid="ignore"):
        center = float(np.average(table.mean, weights=total))
        spread = float(np.sqrt(np.average((table.mean - center) ** 2, weights=total)))
    if len(total) < 4 or not 0 < spread < np.inf:
        return np.asarray(rng.beta(ones + 0.5, total - ones + 0.5, (draws, len(total))))
    fits = []
    bulks, tails = (_BULK_BENDS[:1], _TAIL_BENDS[:1]) if goal.rough else (_BULK_BENDS, _TAIL_BENDS)
    for design, inner, outer in _designs((table.mean - center) / spread, total):
        weights = None
        for bulk in bulks:
            for tail, weight in tails:
                precision = np.concatenate([[1e-4, 1e-2], np.full(inner, bulk**-2), np.full(outer, tail**-2)])
                fit = fit_logistic(design, ones, total - ones, precision, weights)
                weights = fit.weights
                fits.append((evidence(fit, precision) + weight, fit, design))
    log_weight = np.array([f[0] for f in fits])
    chance = np.exp(log_weight - log_weight.max())
    drawn = rng.multinomial(draws, chance / chance.sum())
    share = [expit(fit.draw(number, rng) @ design.T) for number, (_, fit, design) in zip(drawn, fits, strict=True) if number]
    return np.concatenate(share)


def _unit(x: FloatArray) -> float:
    """A power of two in which scores are counted whose squares, or sums, are no floats; 1 for all others."""
    size = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
    return 1.0 if size == 0 or 1e-120 < size < 1e120 else float(2.0 ** np.clip(np.frexp(size)[1], -1000, 1000))


def _ascending(mean: FloatArray) -> FloatArray:
    """The same, in order also where what is left of small numbers in that unit is nothing."""
    return np.asarray(mean + 1e-9 * np.arange(len(mean)))


def fitted_odds(table: Table, claim: Claim, rng: Generator) -> FloatArray:
    """Log-odds of D1 in each cell, in the mean over the draws."""
    share = np.clip(draw_shares(table, Goal(claim, 0.05, 1), rng), 1e-12, 1 - 1e-12)
    return np.asarray(np.log(share / (1 - share)).mean(axis=0))


def _designs(x: FloatArray, total: FloatArray) -> list[tuple[FloatArray, int, int]]:
    """Sets of features of the score, with how many bends they have in the bulk and in the tails: straight and flat in the tails.

    Either comes with bends of its own on both sides, and with the same on both, as noise that is added has them.
    """
    rank, n = np.cumsum(total), float(total.sum())
    octaves = n / 2.0 ** np.arange(1, max(2, int(np.log2(max(n / 12, 4)))))
    wanted = np.concatenate([octaves, n - octaves])
    at, which = np.unique(np.clip(np.searchsorted(rank, wanted), 1, len(x) - 2), return_index=True)
    place = wanted[which] / n
    above, tail = place >= 0.5, np.minimum(place, 1 - place) <= _TAIL
    hinges = []
    for k, bend in enumerate(x[at]):
        if above[k]:
            end = x[at[k + 1]] if k + 1 < len(at) else x[-1]
            hinges.append(np.maximum(x - bend, 0) / max(end - bend, 1e-3))
        else:
            end = x[at[k - 1]] if k > 0 else x[0]
            hinges.append(np.maximum(bend - x, 0) / max(bend - end, 1e-3))
    bends = np.array(hinges).T
    low = x[at[tail & ~above].max(initial=0)] if np.any(tail & ~above) else x[0]
    high = x[at[tail & above].min(initial=len(x) - 1)] if np.any(tail & above) else x[-1]
    held = np.clip(x, low, high)
    bulk = np.column_stack([np.interp(held, x, column) for column in bends[:, ~tail].T]) if np.any(~tail) else np.empty((len(x), 0))
    one, inner, outer = np.ones(len(x)), int(np.count_nonzero(~tail)), int(np.count_nonzero(tail))
    straight = np.column_stack([one, x, bends[:, ~tail], bends[:, tail]])
    flat = np.column_stack([one, held, bulk, np.clip(bends[:, tail], 0, 1)])
    free = [(straight, inner, outer), (flat, inner, outer)]
    if np.any(tail != tail[::-1]) or np.count_nonzero(tail & above) * 2 != outer:
        return free
    return free + [(_mirrored(design, inner, outer), inner // 2, outer // 2) for design, inner, outer in free]


def _mirrored(design: FloatArray, inner: int, outer: int) -> FloatArray:
    """The same features with one weight for a bend and its mirror image; bends stand in the order of the score, one in the middle goes."""
    line, *parts = np.split(design, [2, 2 + inner], axis=1)
    halves = [(part[:, : part.shape[1] // 2], part[:, -(part.shape[1] // 2) :]) for part in parts if part.shape[1] > 1]
    return np.column_stack([line, *(upper - lower[:, ::-1] for lower, upper in halves)])


def draw_atoms(ones: FloatArray, total: FloatArray, prior: FloatArray, rng: Generator) -> tuple[NDArray[np.intp], Draws]:
    """The order of atoms by the posterior mean of D1's share, and draws of their masses in that order.

    `prior` holds draws of each one's share by a model, (draws, atoms). Log-odds beside it have a mixture of priors, whose weights the
    counts of all atoms settle: levels that many atoms share, as those of a mechanism on whole numbers do, take up what few of them show.
    """
    middle = _shifted(prior.mean(axis=0), _LEVELS[:, None])
    a, b = _STRENGTHS[:, None] * middle, _STRENGTHS[:, None] * (1 - middle)
    likelihood = betaln(ones + a, total - ones + b) - betaln(a, b)
    likelihood = np.exp(likelihood - likelihood.max(axis=0))
    share = _WEIGHTS / _WEIGHTS.sum()
    for _ in range(60):
        share = share * (likelihood @ (1 / (share @ likelihood))) + _WEIGHTS
        share /= share.sum()
    member = share[:, None] * likelihood
    member /= member.sum(axis=0)
    order = np.argsort((member * (ones + a) / (total + _STRENGTHS[:, None])).sum(axis=0), kind="stable")
    ones, total, prior = ones[order], total[order], prior[:, order]
    reached = np.cumsum(member[:, order], axis=0)
    picked = np.array([(u > reached).sum(axis=0) for u in rng.random((len(prior), len(order)))])
    picked = np.minimum(picked, len(_LEVELS) - 1)
    strength, prior = _STRENGTHS[picked], _shifted(prior, _LEVELS[picked])
    return order, Draws.of(total, rng.beta(ones + strength * prior, total - ones + strength * (1 - prior)), rng)


def _shifted(share: FloatArray, by: FloatArray) -> FloatArray:
    """Shares whose log-odds are moved."""
    return np.asarray(np.clip(expit(np.log(share / (1 - share)) + by), 1e-9, 1 - 1e-9))
