"""Average of the models with subsets of the groups of weights, by their evidence, from one fit of
all groups.

The log-likelihood is approximated by its quadratic expansion at the fit, so that weights and
evidence of every subset of the groups take small matrices only. One model of all groups has the
noise of the weights of groups of no use; the best subset alone depends on chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, xlogy

from dpwitness.auditors.statistics.regression import (
    CONSTANT_PRECISION,
    MAX_PRECISION,
    MIN_PRECISION,
    Fit,
)
from dpwitness.core.protocols.mechanism import FloatArray

_GROUP_COST = 2.0  # log prior odds against a group
_LEAST_SHARE = 0.01  # share of the average below which a subset is left out
_START_PRECISION = 100.0  # largest prior precision at which a group starts
# maximum number of rounds; change of the logarithm of a precision at which they stop
_ROUNDS, _STOP_CHANGE = 8, 0.2
_Chosen = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Weights of a model or of an average of models, its log evidence, and the number of weights
    that the data determine.
    """

    weights: FloatArray
    log_evidence: float
    determined: float


@dataclass(slots=True)
class Expansion:
    """Quadratic expansion of the log-likelihood at a fit; `group` is that of each weight but the
    first, which is the constant.
    """

    fit: Fit
    group: NDArray[np.intp]
    names: Sequence[str]  # name of each group
    precision: FloatArray  # prior precision of each group at the fit
    _linear: FloatArray = field(init=False)
    _offset: float = field(init=False)  # log-likelihood of the expansion where all weights are 0
    _known: dict[_Chosen, tuple[Model, FloatArray]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        weights = self.fit.weights
        penalty = np.append(CONSTANT_PRECISION, self.precision[self.group]) * weights
        self._linear = self.fit.information @ weights + penalty
        self._offset = (
            0.5 * float(weights @ penalty)
            - self.fit.loss
            + 0.5 * float(weights @ self.fit.information @ weights)
        )
        self._offset -= float(self._linear @ weights)

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
        begin = np.minimum(self.precision, _START_PRECISION)
        for start in ((), tuple(range(len(begin)))):
            self._climb(start, begin)
        values = {chosen: model.log_evidence for chosen, (model, _) in self._known.items()}
        least = logsumexp(list(values.values())) + np.log(_LEAST_SHARE)
        likely = [chosen for chosen, value in values.items() if value >= least]
        return tuple(
            {self.names[each]: float(self._known[chosen][1][each]) for each in chosen}
            for chosen in likely
        )

    def _climb(self, chosen: _Chosen, begin: FloatArray) -> None:
        """Evaluate subsets up to one at which neither adding nor removing a group raises the
        evidence.
        """
        value, start = self._value(chosen, begin)
        while True:
            neighbors = [tuple(sorted(set(chosen) ^ {each})) for each in range(len(begin))]
            found = [self._value(each, start) for each in neighbors]
            best = int(np.argmax([each for each, _ in found]))
            if found[best][0] <= value:
                return
            chosen, (value, start) = neighbors[best], found[best]

    def _value(self, chosen: _Chosen, start: FloatArray) -> tuple[float, FloatArray]:
        """Return the log evidence of a subset, and the precisions of all groups that maximize it
        from `start`.
        """
        if chosen not in self._known:
            model, precision = self._maximized(chosen, start[list(chosen)], _ROUNDS)
            everywhere = start.copy()
            everywhere[list(chosen)] = precision
            self._known[chosen] = model, everywhere
        model, everywhere = self._known[chosen]
        return model.log_evidence, everywhere

    def _maximized(
        self, chosen: _Chosen, precision: FloatArray, rounds: int
    ) -> tuple[Model, FloatArray]:
        """Return the model with these groups, and the precisions that maximize its evidence, by
        MacKay's fixed point.
        """
        at = np.append(0, np.flatnonzero(np.isin(self.group, chosen)) + 1)
        place = np.searchsorted(np.array(chosen), self.group[at[1:] - 1])
        curvature, linear, size = (
            self.fit.information[np.ix_(at, at)],
            self._linear[at],
            np.bincount(place, minlength=len(chosen)),
        )
        best: tuple[float, FloatArray, FloatArray, float] | None = None
        for _ in range(rounds):
            prior = np.append(CONSTANT_PRECISION, precision[place])
            posterior = curvature + np.diag(prior)
            inverse = np.linalg.inv(posterior)
            weights = inverse @ linear
            log_determinant = float(np.linalg.slogdet(posterior)[1] - np.log(prior).sum())
            value = (
                self._offset
                + 0.5 * float(linear @ weights)
                - 0.5 * log_determinant
                - _GROUP_COST * len(chosen)
            )
            determined = np.maximum(
                size - precision * np.bincount(place, np.diag(inverse)[1:], len(chosen)), 0.0
            )
            if best is None or value > best[0]:
                best = value, precision, weights, float(determined.sum())
            square = np.bincount(place, weights[1:] ** 2, len(chosen))
            new = np.clip((determined + 0.02) / (square + 2e-6), MIN_PRECISION, MAX_PRECISION)
            if np.max(np.abs(np.log(new / precision)), initial=0.0) < _STOP_CHANGE:
                break
            precision = new
        assert best is not None
        value, precision, weights, number = best
        everywhere = np.zeros(len(self._linear))
        everywhere[at] = weights
        return Model(everywhere, value, number), precision
