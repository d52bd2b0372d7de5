"""Logistic regression with Gaussian priors, its evidence, and draws from its posterior (MacKay
1992; Laplace's approximation).

`Expansion` averages the models with subsets of the groups of weights, by their evidence, from one
fit of all groups. The log-likelihood is approximated by its quadratic expansion at the fit, so that
weights and evidence of every subset of the groups take small matrices only. One model of all groups
has the noise of the weights of groups of no use; the best subset alone depends on chance.
`sum_of_trees` evaluates regression trees, whose sum is a part of a score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, xlogy

from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols import FloatArray

_NEWTON_STEPS, _EVIDENCE_ROUNDS = 25, 40
_MAX_STEP = 4.0  # maximum change of the logarithm of a precision in a round
CONSTANT_PRECISION = 1e-4
MIN_PRECISION, MAX_PRECISION = 1e-2, 1e6  # range of the prior precision of a group of weights


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Posterior mode of the weights, with a Cholesky factor of the Hessian and the penalized
    negative log-likelihood.
    """

    weights: FloatArray
    factor: FloatArray  # lower triangular, L L^T = Hessian
    loss: float
    information: FloatArray  # the Hessian of the likelihood, without the priors

    def draw(self, number: int, rng: Generator) -> FloatArray:
        """Return draws from the Gaussian around the mode: (number, weights)."""
        noise = rng.standard_normal((len(self.weights), number))
        return np.asarray(
            self.weights + solve_triangular(self.factor, noise, lower=True, trans="T").T
        )

    def variances(self) -> FloatArray:
        """Return the posterior variance of each weight."""
        inverse = solve_triangular(self.factor, np.eye(len(self.weights)), lower=True)
        return np.asarray((inverse**2).sum(axis=0))


def fit_logistic(
    features: FloatArray,
    ones: FloatArray,
    zeros: FloatArray,
    precision: FloatArray,
    start: FloatArray | None = None,
    steps: int = _NEWTON_STEPS,
    information: FloatArray | None = None,
) -> Fit:
    """Fit logistic regression on weighted counts by Newton's method, halving steps that raise the
    loss.

    The curvature, which costs most, is reused once steps gain little. `information` is the
    curvature at `start`, if known.
    """
    begin = np.zeros(features.shape[1]) if start is None else start
    arrays = [
        np.ascontiguousarray(each, dtype=float)
        for each in (features, ones + zeros, ones, precision, begin)
    ]
    known = np.zeros((0, 0)) if information is None else information
    return Fit(*_newton(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], steps, known))


@jit
def _newton(
    features: FloatArray,
    total: FloatArray,
    ones: FloatArray,
    precision: FloatArray,
    start: FloatArray,
    steps: int,
    known: FloatArray,
) -> tuple[FloatArray, FloatArray, float, FloatArray]:
    """Return the weights, the Cholesky factor of the Hessian, the loss, and the Hessian without
    priors; an empty `known` is computed.
    """
    size = len(precision)
    weights, found, step, scaled = (
        start.copy(),
        start.copy(),
        np.empty(size),
        np.empty(features.shape),
    )
    rates = np.empty(len(total))  # probabilities at `found`
    loss = _loss(features, total, ones, precision, found, rates)
    if known.size == 0:
        known = _curvature(features, total, rates, scaled)
    factor = np.zeros((size, size))
    for _ in range(steps):
        _factorize(known, precision, factor)
        for j in range(size):
            step[j] = precision[j] * weights[j]
        step += np.dot(features.T, total * rates - ones)
        _solve(factor, step)
        length = 1.0
        while True:
            for j in range(size):
                found[j] = weights[j] - length * step[j]
            new = _loss(features, total, ones, precision, found, rates)
            if new <= loss + 1e-9 * abs(loss) or length <= 1e-4:
                break
            length *= 0.5
        for j in range(size):
            weights[j] = found[j]
        gain, loss = loss - new, new
        # after a step of a small relative gain, the curvature is reused
        if gain > 1e-5 * (1 + abs(loss)):
            known = _curvature(features, total, rates, scaled)
        elif gain < 1e-8 * (1 + abs(loss)):
            break
    _factorize(known, precision, factor)
    return weights, factor, loss, known


@jit
def _loss(
    features: FloatArray,
    total: FloatArray,
    ones: FloatArray,
    precision: FloatArray,
    weights: FloatArray,
    rates: FloatArray,
) -> float:
    """Return the penalized negative log-likelihood, and write the probabilities to `rates`."""
    loss, lines = 0.0, np.dot(features, weights)
    for i in range(len(total)):
        line = lines[i]
        small = math.exp(-abs(line))
        rates[i] = (1.0 if line >= 0.0 else small) / (1.0 + small)
        loss += total[i] * (max(line, 0.0) + math.log1p(small)) - ones[i] * line
    for j in range(len(weights)):
        loss += 0.5 * precision[j] * weights[j] * weights[j]
    return loss


@jit
def _curvature(
    features: FloatArray, total: FloatArray, rates: FloatArray, scaled: FloatArray
) -> FloatArray:
    """Return the Hessian of the negative log-likelihood; `scaled` is overwritten."""
    for i in range(len(total)):
        root = math.sqrt(total[i] * rates[i] * (1.0 - rates[i]))
        for j in range(features.shape[1]):
            scaled[i, j] = features[i, j] * root
    hessian: FloatArray = np.dot(scaled.T, scaled)
    return hessian


@jit
def _factorize(known: FloatArray, precision: FloatArray, factor: FloatArray) -> None:
    """Write the lower Cholesky factor of a Hessian with priors to `factor`, with jitter added to
    the diagonal if needed.
    """
    jitter, j = 0.0, 0
    while j < len(precision):
        diagonal = (known[j, j] + precision[j] * (1.0 + 1e-9)) * (1.0 + jitter)
        for k in range(j):
            diagonal -= factor[j, k] * factor[j, k]
        if not diagonal > 0.0:
            jitter, j = max(1e-12, 10.0 * jitter), 0
            if jitter > 1.0:
                raise ValueError("the curvature of the likelihood is not finite")
            continue
        factor[j, j] = math.sqrt(diagonal)
        for i in range(j + 1, len(precision)):
            rest = known[i, j]
            for k in range(j):
                rest -= factor[i, k] * factor[j, k]
            factor[i, j] = rest / factor[j, j]
        j += 1


@jit
def _solve(factor: FloatArray, x: FloatArray) -> None:
    """Replace x by the solution of L L^T y = x."""
    for i in range(len(x)):
        for k in range(i):
            x[i] -= factor[i, k] * x[k]
        x[i] /= factor[i, i]
    for i in range(len(x) - 1, -1, -1):
        for k in range(i + 1, len(x)):
            x[i] -= factor[k, i] * x[k]
        x[i] /= factor[i, i]


def evidence(fit: Fit, precision: FloatArray) -> float:
    """Return the log marginal likelihood under these prior precisions, by Laplace's approximation,
    up to a constant.
    """
    return float(-fit.loss + 0.5 * np.sum(np.log(precision)) - np.sum(np.log(np.diag(fit.factor))))


def fit_grouped(
    features: FloatArray,
    ones: FloatArray,
    zeros: FloatArray,
    group: NDArray[np.intp],
    precision: FloatArray,
    *,
    learn: bool = True,
) -> tuple[Fit, FloatArray]:
    """Fit logistic regression on counts of two labels, with one prior for each group of weights;
    the constant has none.

    A precision is learned by MacKay's fixed point, overrelaxed: the number of weights that the data
    determine, over |w|^2.
    """
    found, last_step = precision.copy(), np.zeros(len(precision))
    start: FloatArray | None = None
    information: FloatArray | None = None
    for turn in range(_EVIDENCE_ROUNDS if learn else 1):
        prior = np.append(CONSTANT_PRECISION, found[group])
        fit = fit_logistic(
            features, ones, zeros, prior, start, _NEWTON_STEPS if turn == 0 else 4, information
        )
        start, information = fit.weights, fit.information
        if not learn:
            break
        size, square, variance = (
            np.bincount(group, v, len(found))
            for v in (np.ones(len(group)), start[1:] ** 2, fit.variances()[1:])
        )
        determined = np.maximum(size - found * variance, 0.0)
        step = np.log(
            np.clip((determined + 0.02) / (square + 2e-6), MIN_PRECISION, MAX_PRECISION) / found
        )
        # overrelaxed steps of changing signs could repeat forever
        factor = np.where(step * last_step >= 0, 1.7, 0.7)
        step = np.clip(factor * step, -_MAX_STEP, _MAX_STEP)
        new = np.clip(found * np.exp(step), MIN_PRECISION, MAX_PRECISION)
        converged = np.max(np.abs(np.log(new / found))) < 0.05
        found, last_step = new, step
        if converged:
            break
    return fit, found


_Chosen = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Weights of a model or of an average of models, its log evidence, and the number of weights
    that the data determine.
    """

    weights: FloatArray
    log_evidence: float
    determined: float


@dataclass(frozen=True, eq=False)
class Expansion:
    """Quadratic expansion of the log-likelihood at a fit; `group` is that of each weight but the
    first, which is the constant.
    """

    fit: Fit
    group: NDArray[np.intp]
    names: Sequence[str]  # name of each group
    precision: FloatArray  # prior precision of each group at the fit

    @cached_property
    def _penalty(self) -> FloatArray:
        """Gradient of the penalty by the priors at the fit."""
        return np.append(CONSTANT_PRECISION, self.precision[self.group]) * self.fit.weights

    @cached_property
    def _linear(self) -> FloatArray:
        """Gradient of the expansion where all weights are 0."""
        return np.asarray(self.fit.information @ self.fit.weights + self._penalty)

    @cached_property
    def _offset(self) -> float:
        """Log-likelihood of the expansion where all weights are 0."""
        weights = self.fit.weights
        offset = (
            0.5 * float(weights @ self._penalty)
            - self.fit.loss
            + 0.5 * float(weights @ self.fit.information @ weights)
        )
        return offset - float(self._linear @ weights)

    def average(self, subsets: Sequence[Mapping[str, float]]) -> Model:
        """Return the average of the models with these groups and prior precisions, weighted by
        their evidence.

        Groups that this fit does not have are left out. Without subsets, return the model of the
        fit.
        """
        known = [
            [(each, subset[name]) for each, name in enumerate(self.names) if name in subset]
            for subset in subsets
        ]
        parts = known or [list(enumerate(self.precision.tolist()))]
        models = [
            self._maximized(
                tuple(each for each, _ in part), np.array([value for _, value in part]), 1
            )[0]
            for part in parts
        ]
        values, weights, determined = (
            np.array([getattr(model, name) for model in models])
            for name in ("log_evidence", "weights", "determined")
        )
        total = float(logsumexp(values))
        share = np.exp(values - total)
        return Model(share @ weights, total, float(share @ determined))

    def chance_share(self, model: Model, counts: FloatArray) -> float:
        """Return about which share of the variance of a model's score is chance: the number of
        determined weights over twice the gain.

        The gain in log-likelihood is that over a constant; `counts` holds the number of outputs on
        either side.
        """
        weights = model.weights
        likelihood = (
            self._offset
            + float(self._linear @ weights)
            - 0.5 * float(weights @ self.fit.information @ weights)
        )
        gain = likelihood - float(xlogy(counts, counts / counts.sum()).sum())
        return model.determined / max(2 * gain, 1e-9)

    def likely_subsets(self) -> tuple[dict[str, float], ...]:
        """Return the subsets of groups that have a share of the average, each with the prior
        precisions of its groups.

        Two searches add and remove one group at a time: from no group, and from all groups.
        """
        begin = np.minimum(self.precision, 100.0)
        # the model of each subset, and the precisions of all groups that maximize its evidence
        known: dict[_Chosen, tuple[Model, FloatArray]] = {}

        def evaluated(chosen: _Chosen, start: FloatArray) -> tuple[float, FloatArray]:
            """Return the log evidence of a subset, and the precisions found from `start`."""
            if chosen not in known:
                model, precision = self._maximized(chosen, start[list(chosen)], 8)
                everywhere = start.copy()
                everywhere[list(chosen)] = precision
                known[chosen] = model, everywhere
            model, everywhere = known[chosen]
            return model.log_evidence, everywhere

        everything: _Chosen = tuple(range(len(begin)))
        for chosen in ((), everything):
            value, start = evaluated(chosen, begin)
            while True:
                neighbors = [tuple(sorted(set(chosen) ^ {each})) for each in everything]
                found = [evaluated(each, start) for each in neighbors]
                best = int(np.argmax([each for each, _ in found]))
                if found[best][0] <= value:
                    break
                chosen, (value, start) = neighbors[best], found[best]  # noqa: PLW2901
        values = {chosen: model.log_evidence for chosen, (model, _) in known.items()}
        # a share of the average of at least 1 %
        least = logsumexp(list(values.values())) + np.log(0.01)
        return tuple(
            {self.names[each]: float(known[chosen][1][each]) for each in chosen}
            for chosen, value in values.items()
            if value >= least
        )

    def _maximized(
        self, chosen: _Chosen, precision: FloatArray, rounds: int
    ) -> tuple[Model, FloatArray]:
        """Return the model with these groups, and the precisions that maximize its evidence, by
        MacKay's fixed point.
        """
        value, number, weights, found = _maximize(
            self.fit.information,
            self._linear,
            self._offset,
            self.group,
            np.array(chosen, dtype=np.intp),
            np.asarray(precision, dtype=float),
            rounds,
        )
        return Model(weights, value, number), found


@jit
def _maximize(
    information: FloatArray,
    linear: FloatArray,
    offset: float,
    group: NDArray[np.intp],
    chosen: NDArray[np.intp],
    precision: FloatArray,
    rounds: int,
) -> tuple[float, float, FloatArray, FloatArray]:
    """Return the largest evidence of an expansion with the chosen groups, the number of weights
    that the data determine, all weights, and the precisions there.
    """
    # the weights of the chosen groups: places in the fit, and in `chosen`; the constant is first
    at, place = [0], [-1]
    for i in range(len(group)):
        for k in range(len(chosen)):
            if group[i] == chosen[k]:
                at.append(i + 1)
                place.append(k)
    size, known = np.zeros(len(chosen)), np.empty((len(at), len(at)))
    for i in range(len(at)):
        for j in range(len(at)):
            known[i, j] = information[at[i], at[j]]
        if i > 0:
            size[place[i]] += 1.0
    prior, factor = np.full(len(at), CONSTANT_PRECISION), np.zeros((len(at), len(at)))
    weights, column = np.empty(len(at)), np.empty(len(at))
    best, number, best_precision = -np.inf, 0.0, precision
    everywhere = np.zeros(len(linear))
    for _ in range(rounds):
        value = offset - 2.0 * len(chosen)  # log prior odds against each group
        for i in range(len(at)):
            weights[i] = linear[at[i]]
            if i > 0:
                prior[i] = precision[place[i]]
        _factorize(known, prior, factor)
        _solve(factor, weights)
        determined, square = size.copy(), np.zeros(len(chosen))
        for i in range(len(at)):
            value += 0.5 * linear[at[i]] * weights[i] + 0.5 * math.log(prior[i])
            value -= math.log(factor[i, i])
            if i > 0:
                determined[place[i]] -= prior[i] * _variance(factor, i, column)
                square[place[i]] += weights[i] * weights[i]
        total, change, new = 0.0, 0.0, np.empty(len(chosen))
        for k in range(len(chosen)):
            determined[k] = max(determined[k], 0.0)
            total += determined[k]
            ratio = (determined[k] + 0.02) / (square[k] + 2e-6)
            new[k] = min(max(ratio, MIN_PRECISION), MAX_PRECISION)
            change = max(change, abs(math.log(new[k] / precision[k])))
        if value > best:
            best, number, best_precision = value, total, precision
            for i in range(len(at)):
                everywhere[at[i]] = weights[i]
        if change < 0.2:
            break
        precision = new
    return best, number, everywhere, best_precision


@jit
def _variance(factor: FloatArray, at: int, column: FloatArray) -> float:
    """Return the diagonal entry of the inverse of L L^T; `column` is overwritten."""
    variance = 0.0
    for i in range(at, len(factor)):
        rest = 1.0 if i == at else 0.0
        for k in range(at, i):
            rest -= factor[i, k] * column[k]
        column[i] = rest / factor[i, i]
        variance += column[i] * column[i]
    return variance


@jit
def sum_of_trees(
    matrix: FloatArray,
    feature: NDArray[np.int64],
    threshold: FloatArray,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    value: FloatArray,
    roots: NDArray[np.int64],
) -> FloatArray:
    """Return the sum of the tree values for each row.

    A row goes left where its number is at most the threshold, else right (also for NaN), until it
    reaches a leaf.
    """
    total = np.zeros(len(matrix))
    for i in range(len(matrix)):
        for root in roots:
            node = root
            while left[node] >= 0:
                node = left[node] if matrix[i, feature[node]] <= threshold[node] else right[node]
            total[i] += value[node]
    return total
