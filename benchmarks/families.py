"""Random members of families of mechanisms on which small budgets are hard, and an oracle that
learns, for the benchmark of power.

Each family draws a random member with an exact log-likelihood ratio. The law of the loss is that of
a large sample with exact losses, each of which has its share of mass under both datasets.

The oracle has the training data of an audit: what the best learner could certify if it knew the
losses, but not their outputs. The audit's stages are simulated with the known law of the loss:
training, and a first test whose outputs train the second event. If there are few atoms, the oracle
knows which losses occur, but not which output has which: the prior of each output's loss is uniform
over them. Otherwise it knows the order of all outputs by their loss, and chooses thresholds from
the training counts. Neither is available to an audit. Where an audit certifies as much as this
oracle, only more runs help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit, gammaln, logsumexp

from dpwitness.auditors.audit.options import EARLY_ALPHA, RARE_GUESSES, is_staged, training_rounds
from dpwitness.auditors.events.posterior import (
    CertificateGoal,
    PosteriorDraws,
    ScoreTable,
    direct_choice,
    draw_shares,
    validated_choice,
)
from dpwitness.auditors.events.scorers import MAX_PLAIN_ATOMS
from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.core.claims import ApproxDP, Claim, PureDP
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.numerics.laplace_laws import laplace_log_cdf, laplace_log_density, laplace_nodes
from dpwitness.core.protocols import FloatArray

PURE, APPROX = PureDP(1.0), ApproxDP(1.0, 1e-3)
_LAW_ROWS = 60_000


@dataclass(frozen=True, slots=True)
class Member:
    """Mechanism on the datasets [0] and [1]: `draw(side, size, rng)` returns outputs,
    `loss(outputs)` their exact privacy losses.
    """

    draw: Callable[[int, int, Generator], Any]
    loss: Callable[[Any], FloatArray]
    claim: Claim

    def sample(self, dataset: FloatArray, size: int, rng: Generator) -> Any:
        return self.draw(int(dataset[0]), size, rng)

    @property
    def pair(self) -> Pair:
        """The pair of the two datasets."""
        return Pair(np.array([0.0]), np.array([1.0]))

    def law(self, rng: Generator) -> LossLaw:
        """Return the law of the loss of a large sample from both sides."""
        loss = np.sort(
            np.concatenate([self.loss(self.draw(side, _LAW_ROWS, rng)) for side in (1, 0)])
        )
        return LossLaw(loss, expit(loss) / _LAW_ROWS, expit(-loss) / _LAW_ROWS)


def hot_cell(rng: Generator) -> Member:
    """Draw from a Dirichlet distribution, of which one parameter moves by 1 (simplex sampling)."""
    first = rng.integers(1, 8, rng.integers(4, 20)).astype(float)
    second, cell = first.copy(), rng.integers(len(first))
    second[cell] += 1
    constant = sum(
        sign * (gammaln(a.sum()) - gammaln(a).sum()) for sign, a in ((1, second), (-1, first))
    )
    return Member(
        lambda side, n, r: r.dirichlet((first, second)[side], n),
        lambda x: constant + np.log(x[:, cell]),
        PURE,
    )


def sparse_vector(rng: Generator) -> Member:
    """Draw the answers of a sparse vector technique that never stops, to many queries that all move
    by 1.
    """
    size, epsilon, up = rng.integers(20, 101), rng.uniform(0.3, 1.0), rng.random() < 0.5
    rising = rng.integers(0, 2, size).astype(bool) | up
    threshold, scale, noise = (
        rng.uniform(0, 6) / epsilon,
        1 / epsilon,
        rng.uniform(0.7, 2) / epsilon,
    )
    level, log_weight = laplace_nodes(np.array([0.0, 1.0, threshold]), scale, min(scale, noise))
    log_weight += laplace_log_density(level - threshold, scale)

    def draw(side: int, n: int, r: Generator) -> Any:
        answers = (rising == side) + r.laplace(scale=noise, size=(n, size))
        return (answers >= threshold + r.laplace(scale=scale, size=(n, 1))).astype(np.int64)

    def loss(x: Any) -> FloatArray:
        above = np.stack([x[:, rising].sum(axis=1), x[:, ~rising].sum(axis=1)], axis=1)
        counts, place = np.unique(above, axis=0, return_inverse=True)
        below = (rising.sum(), size - rising.sum()) - counts
        logs = []
        for side in (1, 0):
            gap = (np.array([side, 1 - side])[:, None] - level) / noise
            log_mass = counts @ laplace_log_cdf(gap, 1.0) + below @ laplace_log_cdf(-gap, 1.0)
            logs.append(logsumexp(log_mass + log_weight, axis=1))
        return np.asarray(logs[0] - logs[1])[place.ravel()]

    return Member(draw, loss, PURE)


def radius(rng: Generator) -> Member:
    """Draw a random direction with a normal radius, whose mean moves by 1 (a ring)."""
    size, mean, width = rng.integers(2, 8), rng.uniform(2, 8), rng.uniform(0.7, 2)

    def draw(side: int, n: int, r: Generator) -> Any:
        z = r.standard_normal((n, size))
        return (
            z
            / np.linalg.norm(z, axis=1, keepdims=True)
            * np.abs(mean + side + width * r.standard_normal((n, 1)))
        )

    def log_density(t: FloatArray, center: float) -> FloatArray:
        return np.logaddexp(
            -((t - center) ** 2) / 2 / width**2, -((t + center) ** 2) / 2 / width**2
        )

    return Member(
        draw,
        lambda x: log_density(t := np.linalg.norm(x, axis=1), mean + 1) - log_density(t, mean),
        APPROX,
    )


def scale(rng: Generator) -> Member:
    """Draw Laplace or normal noise in several columns, whose scale moves."""
    size, factor, normal = rng.integers(2, 8), rng.uniform(1.1, 1.4), rng.random() < 0.5
    power = 2 if normal else 1

    def draw(side: int, n: int, r: Generator) -> Any:
        return (r.standard_normal((n, size)) if normal else r.laplace(size=(n, size))) * (
            factor if side else 1.0
        )

    return Member(
        draw,
        lambda x: (
            (np.abs(x) ** power).sum(axis=1) / power * (1 - factor**-power) - size * np.log(factor)
        ),
        APPROX,
    )


def weak_bits(rng: Generator) -> Member:
    """Draw many randomized bits, each of which moves a little."""
    size, epsilon = rng.integers(10, 61), rng.uniform(0.08, 0.35)
    bits = rng.integers(0, 2, size)
    rates = expit(epsilon)
    return Member(
        lambda side, n, r: np.where(
            r.random((n, size)) < rates, (1 - bits, bits)[side], (bits, 1 - bits)[side]
        ),
        lambda x: np.asarray(epsilon * (2 * (x == bits) - 1).sum(axis=1)),
        PURE,
    )


def poisson(rng: Generator) -> Member:
    """Draw Poisson counts, of which the first has a mean that moves."""
    mean, size = rng.uniform(2, 40), rng.integers(1, 4)
    step = rng.uniform(0.5, 1.0) * np.sqrt(mean)
    means = np.full((2, size), mean)
    means[1, 0] += step
    return Member(
        lambda side, n, r: r.poisson(means[side], (n, size)),
        lambda x: x[:, 0] * np.log1p(step / mean) - step,
        APPROX,
    )


def heavy_tails(rng: Generator) -> Member:
    """Draw Student noise of one or two degrees of freedom, on columns of which several move
    together.
    """
    size, freedom = rng.integers(3, 13), rng.integers(1, 3)
    moving = rng.integers(2, size + 1)
    steps = np.zeros(size)
    steps[:moving] = rng.choice([-1.0, 1.0], moving) * rng.uniform(0.5, 1.2) / np.sqrt(moving)

    def loss(x: Any) -> FloatArray:
        ratio = np.log1p(x**2 / freedom) - np.log1p((x - steps) ** 2 / freedom)
        return np.asarray((freedom + 1) / 2 * ratio.sum(axis=1))

    return Member(lambda side, n, r: r.standard_t(freedom, (n, size)) + side * steps, loss, APPROX)


def objective(rng: Generator) -> Member:
    """Draw the minimizer of a quadratic loss with a perturbed objective: Gamma noise around two
    centers, in a skew basis.
    """
    size, noise = int(rng.integers(2, 5)), rng.uniform(0.8, 2.0)
    basis = np.linalg.inv(np.eye(size) + 0.3 * rng.standard_normal((size, size)))
    step = rng.standard_normal(size)
    step /= np.linalg.norm(step)

    def draw(side: int, n: int, r: Generator) -> Any:
        z = r.standard_normal((n, size))
        return (
            z / np.linalg.norm(z, axis=1, keepdims=True) * r.gamma(size, noise, (n, 1))
            + side * step
        ) @ basis

    def loss(x: Any) -> FloatArray:
        b = x @ np.linalg.inv(basis)
        return np.asarray((np.linalg.norm(b, axis=1) - np.linalg.norm(b - step, axis=1)) / noise)

    return Member(draw, loss, PURE)


def category_lists(rng: Generator) -> Member:
    """Draw lists of randomized categories, several of which move."""
    size, kinds = rng.integers(3, 21), rng.integers(3, 9)
    first = rng.integers(0, kinds, size)
    moving = rng.random(size) < rng.uniform(0.2, 1.0)
    moving[0] = True
    second = np.where(moving, (first + rng.integers(1, kinds, size)) % kinds, first)
    epsilon = rng.uniform(0.5, 1.2) / np.sqrt(moving.sum())
    kept = np.expm1(epsilon) / (np.exp(epsilon) + kinds - 1)
    return Member(
        lambda side, n, r: np.where(
            r.random((n, size)) < kept, (first, second)[side], r.integers(0, kinds, (n, size))
        ),
        lambda x: np.asarray(
            epsilon * ((x == second).sum(axis=1) - (x == first).sum(axis=1)), dtype=float
        ),
        PURE,
    )


FAMILIES = (
    hot_cell,
    sparse_vector,
    radius,
    scale,
    weak_bits,
    poisson,
    heavy_tails,
    objective,
    category_lists,
)


def members(
    family: Callable[[Generator], Member], count: int, seed: int
) -> Iterator[tuple[str, Member, LossLaw]]:
    """Yield `count` members of a family with their names and laws."""
    for number in range(count):
        rng = np.random.default_rng([seed, number, FAMILIES.index(family)])
        member = family(rng)
        yield f"{family.__name__}-{number}", member, member.law(rng)


FEW_ATOMS = 64  # largest number of atoms whose order is not known
_Guess = NDArray[np.float64]  # guess of the event at each atom: 1, 0 or -1


def learning_oracle(
    law: LossLaw, claim: Claim, trials: int, alpha: float, rng: Generator, width: int = 1
) -> float:
    """Return the bound that one simulated audit of this oracle certifies; outputs have `width`
    numbers.
    """
    masses = np.array([law.p / law.p.sum(), law.q / law.q.sum()])
    staged, error = is_staged(trials, width), alpha * (1 - EARLY_ALPHA)
    wanted = training_rounds(
        trials, width, easy=staged and (width == 1 or len(law.loss) <= MAX_PLAIN_ATOMS)
    )
    first = 2 * training_rounds(trials, width) - wanted
    counts, rounds = _drawn(masses, wanted, rng), trials - wanted
    goal = CertificateGoal(claim, error, rounds)
    guess, parts = _learned_guess(law, counts, goal, rng), list[Part]()
    if staged or counts[:, guess != 0].sum() < RARE_GUESSES:
        tested = _drawn(masses, first, rng)
        parts.append(Part(_tally(guess, tested), math.sqrt(first / rounds)))
        guess, rounds = _learned_guess(law, counts + tested, goal, rng), rounds - first
    parts.append(Part(_tally(guess, _drawn(masses, rounds, rng))))
    return combined_bound(claim, parts, error)


def _drawn(masses: FloatArray, rounds: int, rng: Generator) -> NDArray[np.int64]:
    """Return the counts of the atoms on D1 and on D0 in coin-flip rounds."""
    ones = int(rng.binomial(rounds, 0.5))
    return np.array(
        [rng.multinomial(n, mass) for n, mass in zip((ones, rounds - ones), masses, strict=True)]
    )


def _tally(guess: _Guess, counts: NDArray[np.int64]) -> Tally:
    """Return the counts of the event."""
    right = counts[0, guess > 0].sum() + counts[1, guess < 0].sum()
    made = counts[:, guess != 0].sum()
    return Tally(
        int(right), int(made - right), int(counts.sum()), max(1, len(np.unique(guess[guess != 0])))
    )


def _learned_guess(
    law: LossLaw, counts: NDArray[np.int64], goal: CertificateGoal, rng: Generator
) -> _Guess:
    """Return the guess at each atom that the training counts choose."""
    guess, seen = np.zeros(len(law.loss)), np.flatnonzero(counts.sum(axis=0))
    if len(law.loss) <= FEW_ATOMS:
        order, draws = _drawn_atoms(law, counts[:, seen], goal, rng)
        choice, _ = direct_choice(lambda _: (order, draws), goal)
        ones, zeros = order[choice.upper :], order[: choice.lower]
        guess[seen[ones]], guess[seen[zeros]] = 1.0, -1.0
        return guess
    label = np.repeat([True, False], counts.sum(axis=1))
    place = np.concatenate([np.repeat(np.arange(len(guess)), side) for side in counts])
    mixed = rng.permutation(len(place))
    label, place = label[mixed], place[mixed]
    finite = law.loss[np.isfinite(law.loss)]
    score = np.clip(law.loss, finite.min(initial=0.0) - 1, finite.max(initial=0.0) + 1)
    table = ScoreTable.build(score[place], label)
    cells = np.arange(len(table.total))

    def draw(which: int | None) -> tuple[NDArray[np.intp], PosteriorDraws]:
        part = table.half(label, which)
        return cells, PosteriorDraws.of(part.total, draw_shares(part, goal, rng), rng)

    choice, _ = validated_choice(draw, goal)
    guess[score > table.threshold(choice.upper)] = 1.0
    guess[score <= table.threshold(choice.lower)] = -1.0
    return guess


def _drawn_atoms(
    law: LossLaw, counts: NDArray[np.int64], goal: CertificateGoal, rng: Generator
) -> tuple[NDArray[np.intp], PosteriorDraws]:
    """Return the order of the atoms by their expected share of D1, and draws of their masses, if
    each atom has one of the law's losses.
    """
    share = np.clip(expit(law.loss), 1e-12, 1 - 1e-12)
    log_weight = counts[0][:, None] * np.log(share) + counts[1][:, None] * np.log1p(-share)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    order = np.argsort(weight @ share, kind="stable")
    cumulative = np.cumsum(weight[order], axis=1)
    uniform = rng.random((8 * goal.thresholds[0], len(order), 1))
    drawn = np.minimum((uniform > cumulative).sum(axis=2), len(share) - 1)
    return order, PosteriorDraws.of(counts.sum(axis=0)[order].astype(float), share[drawn], rng)
