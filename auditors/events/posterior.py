"""Posterior of an order of outputs given training data, and the event with the largest expected
certificate under it.

An order divides the outputs into cells. The mass of a cell under both datasets together is drawn
from a Gamma distribution given its count (a Bayesian bootstrap). D1's share of that mass is drawn
from a posterior of the odds.

For scores, the log-odds are a curve in the score that bends at the octaves of either tail, with a
prior on the size of the bends, or a plain curve of two weights. The evidence (the
Laplace approximation of the marginal likelihood) weighs the curves and the priors. For atoms, the
odds of each atom have a mixture of Beta priors around the odds of a model. The weights of the
mixture are fitted by maximum likelihood (empirical Bayes).

Averaging the certificate over the draws counters the winner's curse: a threshold in a tail with ten
outputs is worth only what ten outputs certify on average over the posterior. A bias remains where
the priors are wrong, and is measured: `validated_choice` chooses events on one half of the outputs
and evaluates them on the other half, to find how rare an event may be.

**Detectable violation** of a run: the smallest violation *of the learned event's kind* that is
refuted with a given power.

The kind is a parametric family of pairs of distributions. Training data give the distribution of
the score: cells with masses p on D1 and q on D0, and a smoothed loss L = ln p/q. The members of the
family are p_s ~ sqrt(pq) e^(sL/2) and q_s ~ sqrt(pq) e^(-sL/2). For s = 1 the member is the learned
distribution. For a shift of Gaussian noise the shift is s times as large. For randomized response
the odds are raised to the power s.

For each member, `_true_parameter` computes the smallest parameter for which the claim is true.
`_certified_parameter` computes what the best pair of thresholds certifies when the counts lie `z`
standard errors on the unfavorable side. Relearning the event costs further standard errors, which
were calibrated over the zoo (`dpwitness bench calibration`). A violation of another kind, for
example a raw value in one of 1e4 runs, does not show in a score that was trained without it. The
number does not cover such violations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import betaln, expit, logsumexp, ndtri

from dpwitness.auditors.events.event import ORDERS, cell_starts, expected_renyi_bound
from dpwitness.auditors.statistics.certificate import (
    SHARE_FOR_FREQUENCY,
    parameter_from_rates,
    wilson_lower,
)
from dpwitness.auditors.statistics.columns import bent_curves, plain_curves
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.auditors.statistics.regression import Fit, evidence, fit_logistic
from dpwitness.core.claims import Claim
from dpwitness.core.protocols import FloatArray

_BULK_BENDS = (0.1, 1.0)  # standard deviations of a bend of the log-odds over one octave
# the same in the tails, with log prior weights: tails rarely bend
_TAIL_BENDS = ((0.01, 0.0), (0.05, -1.0), (0.2, -4.0), (0.6, -7.0))
_PLAIN_PRECISION = np.array([1e-4, 1e-2])  # prior precision of the level and of the slope


# Components of the prior of an atom's log-odds: offset from the model, number of pseudo-counts, and
# prior weight. Six are around the model; the others are a grid of levels.
_STRENGTHS = np.array([1.0, 5.0, 30.0, 200.0, 1500.0, 1e5])
_LEVELS, _LEVEL_STRENGTHS = np.linspace(-8.0, 8.0, 65), np.array([30.0, 200.0, 1500.0])
_COMPONENTS = _LEVELS.size * _LEVEL_STRENGTHS.size
_PRIOR_OFFSETS = np.append(np.zeros(_STRENGTHS.size), np.repeat(_LEVELS, _LEVEL_STRENGTHS.size))
_PRIOR_STRENGTHS = np.append(_STRENGTHS, np.tile(_LEVEL_STRENGTHS, _LEVELS.size))
_PRIOR_WEIGHTS = np.append(np.full(_STRENGTHS.size, 0.3), np.full(_COMPONENTS, 1 / _COMPONENTS))


@dataclass(frozen=True, slots=True)
class CertificateGoal:
    """Objective of the event: the claim, and the error probability and number of rounds of the
    later test.

    `rough` selects fewer draws and thresholds, which is accurate enough to rank pairs.
    """

    claim: Claim
    alpha: float
    rounds: int
    rough: bool = False

    @property
    def thresholds(self) -> tuple[int, int]:
        """Number of posterior draws, and of thresholds on each side: fewer where the certificate is
        expensive to compute.
        """
        if self.rough:
            return (8, 16)
        return (16, 20) if self.claim.coarse() is not self.claim else (48, 44)

    def value(
        self, right: FloatArray, wrong: FloatArray, directions: FloatArray | int
    ) -> FloatArray:
        """Return the parameter that the test certifies in the median, if these are the
        probabilities of right and wrong guesses.
        """
        guess_rate = np.maximum(right + wrong, 1e-12)
        guess_rate, theta, number = np.broadcast_arrays(guess_rate, right / guess_rate, directions)
        z, z_frequency = float(-ndtri(self.alpha)), float(-ndtri(self.alpha * SHARE_FOR_FREQUENCY))
        value, claim = np.zeros(guess_rate.shape), self.claim.coarse()
        for k in (1, 2):
            at = number == k
            frequency = wilson_lower(guess_rate[at], self.rounds, z_frequency)
            value[at] = parameter_from_rates(
                claim, frequency, wilson_lower(theta[at], self.rounds * guess_rate[at], z), k
            )
        return value


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """Training counts of a score in about 200 cells of ascending order, finest in the tails; equal
    scores share a cell.
    """

    bounds: FloatArray  # thresholds between adjacent cells
    mean: FloatArray  # mean score of each cell, up to a power of two
    ones: FloatArray
    total: FloatArray
    cell: NDArray[np.intp]  # cell of each output

    @classmethod
    def build(cls, score: FloatArray, label: NDArray[np.bool_]) -> ScoreTable:
        """Build the table from the scores of all training outputs and their labels (whether an
        output came from D1).
        """
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
        # scores are divided by a power of two if their squares or sums would leave the range of
        # floats
        size = float(np.abs(pooled[np.isfinite(pooled)]).max(initial=0.0))
        extreme = size != 0 and not 1e-120 < size < 1e120
        unit = float(2.0 ** np.clip(np.frexp(size)[1], -1000, 1000)) if extreme else 1.0
        mean = np.add.reduceat(pooled / unit, starts) / total
        if unit != 1:  # means that round to the same number stay in order
            mean = mean + 1e-9 * np.arange(len(mean))
        # adjacent floats have no float between them
        bounds = np.where((middle >= below) & (middle < above), middle, below)
        cell = np.empty(n, dtype=np.intp)
        cell[order] = np.repeat(np.arange(len(starts)), total.astype(int))
        return cls(bounds, mean, np.add.reduceat(label[order].astype(float), starts), total, cell)

    def half(self, label: NDArray[np.bool_], which: int | None) -> ScoreTable:
        """Return the same cells with counts of the even outputs (0), of the odd outputs (1), or of
        all (None).
        """
        if which is None:
            return self
        cell, label, size = self.cell[which::2], label[which::2], len(self.total)
        return ScoreTable(self.bounds, self.mean, *cell_counts(cell, label, size), cell)

    @property
    def zeros(self) -> FloatArray:
        """Number of outputs on D0 in each cell."""
        return self.total - self.ones

    @property
    def size(self) -> float:
        """Total number of outputs."""
        return float(self.total.sum())

    def mirrored(self) -> ScoreTable:
        """Return the table of the negated score with the two datasets exchanged."""
        cell = len(self.total) - 1 - self.cell
        return ScoreTable(
            -self.bounds[::-1], -self.mean[::-1], self.zeros[::-1], self.total[::-1], cell
        )

    def threshold(self, cell: int) -> float:
        """Return the score that separates `cell` from the cells below it; infinite at both ends."""
        return (
            -np.inf
            if cell <= 0
            else np.inf
            if cell > len(self.bounds)
            else float(self.bounds[cell - 1])
        )


def cell_counts(
    cell: NDArray[np.intp], label: NDArray[np.bool_], cells: int
) -> tuple[FloatArray, FloatArray]:
    """Return the number of outputs on D1 in each cell, and the number of all outputs in
    each cell.
    """
    ones, total = np.bincount(cell[label], minlength=cells), np.bincount(cell, minlength=cells)
    return ones.astype(np.float64), total.astype(np.float64)


@dataclass(frozen=True)
class PosteriorDraws:
    """Posterior draws of the masses of the cells, in ascending order, under D1 (p) and D0 (q):
    (draws, cells) each.

    The masses sum to at most 1: the rest is that of outputs in no cell.
    """

    p: FloatArray
    q: FloatArray
    _grids: dict[tuple[bytes, bytes], tuple[NDArray[Any], ...]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def of(
        cls, total: FloatArray, odds_share: FloatArray, rng: Generator, other: float = 0.0
    ) -> PosteriorDraws:
        """Draw the masses, given total counts of the cells, draws of D1's share of each cell, and
        the count of outputs in no cell.
        """
        mass = rng.gamma(np.maximum(total, 1e-3), 1.0, odds_share.shape)
        rest = 0.5 * rng.gamma(other, 1.0, (len(mass), 1)) if other else 0.0
        p, q = mass * odds_share, mass * (1 - odds_share)
        return cls(
            *(side / np.maximum(side.sum(axis=1, keepdims=True) + rest, 1e-300) for side in (p, q))
        )

    @cached_property
    def beyond(self) -> tuple[FloatArray, FloatArray]:
        """Mass of all cells from each cell upward, under D1 and D0; 0 in the last place."""
        return _from_right(self.p), _from_right(self.q)

    @cached_property
    def below(self) -> tuple[FloatArray, FloatArray]:
        """Mass of all cells below each cell, under D1 and D0."""
        beyond1, beyond0 = self.beyond
        return beyond1[:, :1] - beyond1, beyond0[:, :1] - beyond0

    def on_grid(
        self, goal: CertificateGoal, upper: NDArray[np.intp], lower: NDArray[np.intp]
    ) -> tuple[NDArray[Any], ...]:
        """Return means over the draws for events with these cells: certificate, right, wrong and
        all guesses, number of directions.

        A second call with these cells returns the same arrays: the goal must be the same too.
        """
        if (key := (upper.tobytes(), lower.tobytes())) not in self._grids:
            (up1, up0), (low1, low0) = self.beyond, self.below
            right, wrong = (
                0.5 * (up[:, upper][:, :, None] + low[:, lower][:, None, :])
                for up, low in ((up1, low0), (up0, low1))
            )
            directions = (upper < self.p.shape[1]).astype(int)[:, None] + (lower > 0).astype(int)[
                None, :
            ]
            with np.errstate(invalid="ignore"):
                value = goal.value(right, wrong, directions[None]).mean(axis=0)
            self._grids[key] = (
                value,
                right.mean(axis=0),
                wrong.mean(axis=0),
                (right + wrong).mean(axis=0),
                directions,
            )
        return self._grids[key]


def _from_right(mass: FloatArray) -> FloatArray:
    """Return cumulative sums from each column to the last; 0 in the last place."""
    sums = np.cumsum(mass[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([sums, np.zeros((len(mass), 1))], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Chosen event in an ordered list of cells: D1 is guessed from cell `upper` on, D0 before cell
    `lower`.

    `expected` is the expected certificate. `right` and `wrong` are the expected shares of right and
    wrong guesses.
    """

    upper: int
    lower: int
    expected: float
    right: float
    wrong: float
    directions: int


def validated_choice(
    draw: Callable[[int | None], tuple[NDArray[np.intp], PosteriorDraws]], goal: CertificateGoal
) -> tuple[Choice, NDArray[np.intp]]:
    """Return the choice with the largest expected certificate, with a minimum mass of events found
    by two-fold cross-validation.

    `draw` takes 0 (even outputs), 1 (odd outputs) or None (all outputs), and returns the order of
    the cells and draws of their masses in that order. Cells may be missing in a half, which has no
    outputs there. `expected` is the mean certificate of choices on one half of the outputs, over
    the draws from the other half.
    """
    halves = [draw(0), draw(1)]
    starts = [_coarse_grids(draws, goal) for _, draws in halves]
    # by event: the smallest of the shares that lead to it, and its certificate in each draw
    found: dict[tuple[int, ...], tuple[float, FloatArray]] = {}
    # minimum shares of the outputs on which an event guesses
    for least in (0.0, 0.003, 0.01, 0.03, 0.1, 0.3):
        choices = [
            _best_choice(draws, goal, least, start)
            for (_, draws), start in zip(halves, starts, strict=True)
        ]
        event = tuple(cell for choice in choices for cell in (choice.upper, choice.lower))
        if event in found:
            continue
        rates = np.zeros((2, goal.thresholds[0]))
        for choice, (own, _), (other, draws) in zip(choices, halves, halves[::-1], strict=True):
            ones, zeros = (
                np.isin(other, cells) for cells in (own[choice.upper :], own[: choice.lower])
            )
            rates[0] += 0.25 * (draws.p[:, ones].sum(axis=1) + draws.q[:, zeros].sum(axis=1))
            rates[1] += 0.25 * (draws.q[:, ones].sum(axis=1) + draws.p[:, zeros].sum(axis=1))
        found[event] = (
            least,
            goal.value(rates[0], rates[1], max(choice.directions for choice in choices)),
        )
    plain = next(iter(found.values()))[1]  # without a minimum share

    def sure_gain(each: tuple[float, FloatArray]) -> float:
        """Return the gain of a minimum share, which must exceed 0 by a standard error."""
        gain = each[1] - plain
        return float(gain.mean() - gain.std())

    least_mass, value = max(found.values(), key=sure_gain)
    order, draws = draw(None)
    choice = _best_choice(draws, goal, least_mass, _coarse_grids(draws, goal))
    return replace(choice, expected=float(value.mean())), order


def direct_choice(
    draw: Callable[[int | None], tuple[NDArray[np.intp], PosteriorDraws]], goal: CertificateGoal
) -> tuple[Choice, NDArray[np.intp]]:
    """Return the choice with the largest mean certificate over the draws, without cross-validation:
    for a small number of cells.
    """
    order, draws = draw(None)
    return _best_choice(draws, goal, 0.0, _coarse_grids(draws, goal)), order


_Grids = tuple[NDArray[np.intp], NDArray[np.intp]]  # of the cells `upper` and `lower` of an event


def _best_choice(
    draws: PosteriorDraws, goal: CertificateGoal, least: float, start: _Grids
) -> Choice:
    """Return the choice with the largest mean certificate over the draws, among events with mass at
    least `least`.

    The search refines a grid of pairs of cells until it contains all adjacent cells.
    """
    most, (upper, lower) = goal.thresholds[1], start
    while True:
        mean, right, wrong, mass, directions = draws.on_grid(goal, upper, lower)
        value = np.where(mass < least, mean - 1e6, mean)
        # at most one guess per output, and at least one guess in all
        value[(lower[None, :] > upper[:, None]) | (directions == 0)] = -np.inf
        i, j = np.unravel_index(int(np.argmax(value)), value.shape)
        refined = _refined_grid(upper, int(i), most), _refined_grid(lower, int(j), most)
        if all(
            len(new) <= 3 or set(new.tolist()) <= set(old.tolist())
            for new, old in zip(refined, (upper, lower), strict=True)
        ):
            rates = float(right[i, j]), float(wrong[i, j])
            return Choice(
                int(upper[i]),
                int(lower[j]),
                float(value[i, j]),
                *rates,
                max(1, int(directions[i, j])),
            )
        upper, lower = refined


def _coarse_grids(draws: PosteriorDraws, goal: CertificateGoal) -> _Grids:
    """Return the grids at which the search for a choice begins."""
    (up1, up0), (low1, low0), most = draws.beyond, draws.below, goal.thresholds[1]
    return _log_spaced_cells(up1 + up0, most), _log_spaced_cells(low1 + low0, most)


def _log_spaced_cells(mass: FloatArray, most: int) -> NDArray[np.intp]:
    """Return the cells at which the mean mass passes logarithmically spaced levels, at
    most `most`.
    """
    mean = mass.mean(axis=0)
    if len(mean) <= most:
        return np.arange(len(mean))
    levels = np.geomspace(max(float(mean[mean > 0].min()), 1e-9), float(mean.max()), most - 2)
    falling = mean[0] > mean[-1]
    crossings = np.searchsorted(-mean, -levels) if falling else np.searchsorted(mean, levels)
    return np.unique(np.concatenate([[0, len(mean) - 1], np.minimum(crossings, len(mean) - 1)]))


def _refined_grid(grid: NDArray[np.intp], k: int, most: int) -> NDArray[np.intp]:
    """Return at most `most` cells between the neighbors of grid point `k`, and the grid point."""
    low, high = int(grid[max(k - 1, 0)]), int(grid[min(k + 1, len(grid) - 1)])
    if high - low < most:
        return np.arange(low, high + 1)
    cells = np.linspace(low, high, most).astype(np.intp)
    return np.unique(np.append(cells, grid[k]))


def draw_shares(table: ScoreTable, goal: CertificateGoal, rng: Generator) -> FloatArray:
    """Draw D1's share of each cell from the posterior in which the log-odds are a curve in the
    score: (draws, cells).
    """
    draws, total, ones = goal.thresholds[0], table.total, table.ones
    with np.errstate(over="ignore", invalid="ignore"):
        center = float(np.average(table.mean, weights=total))
        spread = float(np.sqrt(np.average((table.mean - center) ** 2, weights=total)))
    if len(total) < 4 or not 0 < spread < np.inf:
        return np.asarray(rng.beta(ones + 0.5, total - ones + 0.5, (draws, len(total))))
    fits = []
    bulks, tails = (_BULK_BENDS[:1], _TAIL_BENDS[:1]) if goal.rough else (_BULK_BENDS, _TAIL_BENDS)
    x = (table.mean - center) / spread
    for design, inner, outer in bent_curves(x, total):
        weights = None
        for bulk, (tail, weight) in product(bulks, tails):
            precision = np.concatenate(
                [_PLAIN_PRECISION, np.full(inner, bulk**-2), np.full(outer, tail**-2)]
            )
            fit = fit_logistic(design, ones, total - ones, precision, weights)
            weights = fit.weights
            fits.append((evidence(fit, precision) + weight, fit, design))
    for design, weight in plain_curves(x, ones, total):
        fit = fit_logistic(design, ones, total - ones, _PLAIN_PRECISION)
        fits.append((evidence(fit, _PLAIN_PRECISION) + weight, fit, design))
    log_weight = np.array([f[0] for f in fits])
    probability = np.exp(log_weight - log_weight.max())
    fit_counts = rng.multinomial(draws, probability / probability.sum())
    share = [
        expit(fit.draw(number, rng) @ design.T)
        for number, (_, fit, design) in zip(fit_counts, fits, strict=True)
        if number
    ]
    return np.concatenate(share)


def draw_atoms(
    ones: FloatArray, total: FloatArray, prior: FloatArray, rng: Generator
) -> tuple[NDArray[np.intp], PosteriorDraws]:
    """Return the order of atoms by the posterior mean of D1's share, and draws of their masses in
    that order.

    `prior` holds draws of each atom's share from a model, (draws, atoms). The log-odds relative to
    the model have a mixture of priors, whose weights are fitted to the counts of all atoms. So
    levels that many atoms share, as for mechanisms on integers, are estimated even if each atom has
    few outputs. The mass of an atom that occurred once is that with which it occurs again: without
    atoms that occurred twice, nearly all of that mass is in outputs that have not occurred yet.
    """
    middle = _shift_log_odds(prior.mean(axis=0), _PRIOR_OFFSETS[:, None])
    a, b = _PRIOR_STRENGTHS[:, None] * middle, _PRIOR_STRENGTHS[:, None] * (1 - middle)
    likelihood = betaln(ones + a, total - ones + b) - betaln(a, b)
    likelihood = np.exp(likelihood - likelihood.max(axis=0))
    share = _PRIOR_WEIGHTS / _PRIOR_WEIGHTS.sum()
    for _ in range(60):
        share = share * (likelihood @ (1 / (share @ likelihood))) + _PRIOR_WEIGHTS
        share /= share.sum()
    member = share[:, None] * likelihood
    member /= member.sum(axis=0)
    order = np.argsort(
        (member * (ones + a) / (total + _PRIOR_STRENGTHS[:, None])).sum(axis=0), kind="stable"
    )
    ones, total, prior = ones[order], total[order], prior[:, order]
    cumulative = np.cumsum(member[:, order], axis=0)
    component = np.array(
        [(u > cumulative).sum(axis=0) for u in rng.random((len(prior), len(order)))]
    )
    component = np.minimum(component, len(_PRIOR_OFFSETS) - 1)
    strength, prior = _PRIOR_STRENGTHS[component], _shift_log_odds(prior, _PRIOR_OFFSETS[component])
    share = rng.beta(ones + strength * prior, total - ones + strength * (1 - prior))
    # The expected count, in as many new outputs, of an atom that occurred once, is 2 n2 / n1 (Good
    # and Turing), from the numbers of atoms that occurred once and twice, each plus a pseudo-count.
    once = total == 1
    number = np.count_nonzero(once)
    again = min(1.0, (2 * np.count_nonzero(total == 2) + 1) / (number + 1))
    return order, PosteriorDraws.of(np.where(once, again, total), share, rng, (1 - again) * number)


def _shift_log_odds(share: FloatArray, by: FloatArray) -> FloatArray:
    """Return the shares after adding `by` to their log-odds."""
    return np.asarray(np.clip(expit(np.log(share / (1 - share)) + by), 1e-9, 1 - 1e-9))


LEARNING = 0.8  # standard errors lost by relearning the event; measured, see above
CELL_RELEARNING_LOSS = 4.0  # standard errors lost by relearning cells, their losses and an order
_KNOWN_COUNT = 30.0  # training outputs in an event, from which its mass counts as known


@dataclass(frozen=True, slots=True, eq=False)
class ScoreLaw:
    """Distribution of a score in cells of ascending order: mass and privacy loss of each cell, and
    the number of training rounds.
    """

    mass: FloatArray
    loss: FloatArray
    size: float

    def member(self, strength: float) -> tuple[FloatArray, FloatArray]:
        """Return the masses (p, q) of the family member of this strength: the law with all privacy
        losses about `strength` times as large.
        """
        base = np.log(np.maximum(self.mass, 1e-300)) - np.logaddexp(self.loss / 2, -self.loss / 2)
        p, q = (base + sign * strength * self.loss / 2 for sign in (1.0, -1.0))
        return np.exp(p - logsumexp(p)), np.exp(q - logsumexp(q))

    def mirrored(self) -> ScoreLaw:
        """Return the distribution of the negated score with D1 and D0 exchanged."""
        return ScoreLaw(self.mass[::-1], -self.loss[::-1], self.size)


def score_law(table: ScoreTable, claim: Claim, rng: np.random.Generator) -> ScoreLaw | None:
    """Return the distribution of a score estimated from its training counts; None if one dataset
    has no outputs.
    """
    ones, zeros = float(table.ones.sum()), float(table.zeros.sum())
    if min(ones, zeros) == 0:
        return None
    share = np.clip(draw_shares(table, CertificateGoal(claim, 0.05, 1), rng), 1e-12, 1 - 1e-12)
    odds = np.log(share / (1 - share)).mean(axis=0)  # averaged over the draws
    law = ScoreLaw(table.total / table.size, odds - math.log(ones / zeros), table.size)
    if 0 < claim.delta_budget * table.size < _KNOWN_COUNT:
        law = _extrapolate_tail(law, table, claim.delta_budget)
        law = _extrapolate_tail(law.mirrored(), table.mirrored(), claim.delta_budget).mirrored()
    return law


def _extrapolate_tail(law: ScoreLaw, table: ScoreTable, delta: float) -> ScoreLaw:
    """Return the distribution with its topmost cell split, down to mass delta / 100.

    The extrapolation assumes that the score is normal in its tail, and that the loss is linear with
    the slope of the outer tenth.
    """
    total = table.total
    tail_mass = np.cumsum(total[::-1])[::-1] / table.size  # at or beyond each cell
    outer = tail_mass <= 0.1  # whose slope extrapolates the loss
    if outer.sum() < 8 or total[-1] > 8:  # the top cell is an atom, which has no tail
        return law
    line = np.polyfit(
        table.mean[outer],
        ndtri(np.maximum(tail_mass[outer], 1e-12)),
        1,
        w=np.sqrt(tail_mass[outer]),
    )
    # the slope of the loss in the score beyond the training data is that of the outer cells, shrunk
    # toward the overall slope where these hold few outputs
    scale = float(np.ptp(table.mean)) or 1.0
    all_cells, outer_cells = (
        _fit_cells(table, part, scale) for part in (np.full(outer.size, True), outer)
    )
    overall, estimate = float(all_cells.weights[1]), float(outer_cells.weights[1])
    prior_variance, variance = (0.25 * overall) ** 2, float(outer_cells.variances()[1])
    slope = (estimate * prior_variance + overall * variance) / (prior_variance + variance) / scale
    if line[0] >= 0 or slope <= 0:
        return law
    masses = np.append(
        np.geomspace(float(law.mass[-1]), min(delta / 100, float(law.mass[-1]) / 10), 40), 0.0
    )
    score = (ndtri(masses[:-1]) - line[1]) / line[0]
    loss = law.loss[-1] + slope * (score - score[0])
    return ScoreLaw(
        np.append(law.mass[:-1], -np.diff(masses)), np.append(law.loss[:-1], loss), law.size
    )


def _fit_cells(table: ScoreTable, part: NDArray[np.bool_], scale: float) -> Fit:
    """Fit a logistic regression of the dataset label on the score, over the selected cells."""
    features = np.column_stack(
        [np.ones(part.sum()), (table.mean[part] - table.mean[part][0]) / scale]
    )
    return fit_logistic(features, table.ones[part], table.zeros[part], np.array([1e-6, 1e-6]))


def detectable(
    claim: Claim, law: ScoreLaw | None, rounds: int, alpha: float, power: float = 0.9
) -> float:
    """Return the smallest claim parameter whose violation a test with `rounds` rounds refutes with
    this power. The violations are the laws of the score with privacy losses scaled by a strength
    (`ScoreLaw.member`).

    The test is assumed to learn its event again. The result is infinite if no strength up to 1000
    is refuted.
    """
    if law is None or not np.isfinite(law.loss).all():
        return math.inf
    # more standard errors are lost where the tail lies beyond the training data
    beyond = 2.8 if 0 < claim.delta_budget * law.size < _KNOWN_COUNT else 0.0
    z = float(ndtri(power)) + LEARNING + beyond
    low, high = 0.0, 1.0
    while _certified_parameter(claim, law, high, rounds, alpha, z)[0] <= claim.parameter:
        low, high = high, 2 * high
        if high > 1e3:
            return math.inf
    _, high = bracket(
        lambda s: _certified_parameter(claim, law, s, rounds, alpha, z)[0] <= claim.parameter,
        low,
        high,
        12,
    )
    event_parameter = _certified_parameter(claim, law, high, rounds, alpha, z)[1]
    return max(event_parameter, _true_parameter(claim, law, high), claim.parameter)


def _certified_parameter(
    claim: Claim, law: ScoreLaw, strength: float, rounds: int, alpha: float, z: float
) -> tuple[float, float]:
    """Return what the member's best event or cells certify, and the parameter that this event shows
    with exact probabilities.

    The counts lie `z` standard errors on the unfavorable side.
    """
    p, q = law.member(strength)
    # cumulative masses of p and q above candidate thresholds, and of q and p below
    (p1, q1), (p0, q0) = (
        (np.cumsum(p[order]), np.cumsum(q[order])) for order in (slice(None, None, -1), slice(None))
    )
    last = max(len(p) - 1, 0)
    ranks = np.concatenate([np.geomspace(1, max(last, 1), 40), np.linspace(1, max(last, 1), 40)])
    keep = np.unique(ranks.astype(np.intp))[:last] - 1
    # the empty event comes first
    right1, wrong1, right0, wrong0 = (np.append(0.0, side[keep]) for side in (p1, q1, q0, p0))
    right, wrong = (
        0.5 * (upper[:, None] + lower[None, :])
        for upper, lower in ((right1, right0), (wrong1, wrong0))
    )
    binned = claim.bounds_renyi
    share = alpha / 2 if binned else alpha
    # a share above 1 would guess both datasets on the same output
    both = right + wrong <= 1.0 + 1e-12
    guesses_made = [(np.arange(len(side)) > 0).astype(int) for side in (right1, right0)]
    directions = guesses_made[0][:, None] + guesses_made[1][None, :]
    best, event_parameter = 0.0, 0.0
    for k in (1, 2):
        allowed = both & (directions == k) & (right > wrong)
        if not allowed.any():
            continue
        r, w = right[allowed], wrong[allowed]
        theta = wilson_lower(r / (r + w), rounds * (r + w), z - float(ndtri(share)))
        frequency = wilson_lower(r + w, float(rounds), -float(ndtri(share * SHARE_FOR_FREQUENCY)))
        value = parameter_from_rates(claim, frequency, theta, k)
        i = int(np.argmax(value))
        if value[i] > best:
            best, event_parameter = (
                float(value[i]),
                float(parameter_from_rates(claim, r[i] + w[i], r[i] / (r[i] + w[i]), k)),
            )
    if claim.bounds_renyi:
        starts = cell_starts(np.cumsum(law.mass))
        p, q = (np.add.reduceat(side, starts) for side in (p, q))
        best = max(
            best,
            expected_renyi_bound(
                claim, p, q, rounds, share, (z + CELL_RELEARNING_LOSS - LEARNING) / math.sqrt(2)
            ),
        )
    return best, event_parameter


def _true_parameter(claim: Claim, law: ScoreLaw, strength: float) -> float:
    """Return the exact parameter of this family member, for claims with a delta and for Renyi
    claims; 0 for other claims.

    The exact parameter can exceed what any testable event shows.
    """
    p, q = law.member(strength)
    loss_law = LossLaw(np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-300)), p, q)
    if claim.delta_budget > 0:
        return max(side.epsilon(claim.delta_budget) for side in (loss_law, loss_law.swapped()))
    sides = loss_law, loss_law.swapped()
    return max(
        (
            side.renyi(a) / claim.divergence_at(a)
            for side in sides
            for a in claim.orders_among(ORDERS)
        ),
        default=0.0,
    )
