"""Private follow the regularised leader: every action is one draw from the entropic leader.

Jain and Thakurta (2014), equation (10): theta_{t+1} proportional to exp(-sum_{s<=t} x_s / lambda), action a_{t+1} drawn from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from flint import arb, fmpq

from dpwitness.mechanisms.balls.ball import Ball, Box, NotEnclosed, pick, softmax
from dpwitness.mechanisms.domains import Costs
from dpwitness.mechanisms.numerics.drawing import Draws
from dpwitness.mechanisms.numerics.jit import jit_uncached
from dpwitness.mechanisms.terms.datasets import LinearCosts
from dpwitness.mechanisms.terms.notions import ApproxDP
from dpwitness.mechanisms.terms.optional import offered_when
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.powers import one_law
from dpwitness.mechanisms.terms.protocol import FloatArray, Truth
from dpwitness.mechanisms.terms.validation import InvalidArgument, require, shown
from dpwitness.mechanisms.textbook.categorical import SoftmaxDraw, draw_index, index_draws, log_softmax, output_rows, sum_of_entries

LambdaRule = Literal["printed", "with_log_p"]
# adversary(t, actions, record, cost): writes the cost of round t (from 0) from its record and the actions 0..t played so far.
Adversary = Callable[[int, Any, Any, Any], None]

_MOST_ROWS = 2_000_000


@one_law
@dataclass(frozen=True, slots=True)
class PrivateFTRL:
    """Entropic follow the regularised leader over `actions` experts; releases the T actions it plays, numbered from 0.

    Parameters
    ----------
    epsilon, delta : float
        The paper's promise.
    bound : float
        R: every entry of every cost lies in [-R, R].
    actions : int
        p, at least 2.
    horizon : int
        T, number of rounds and of released actions.
    lambda_rule : {"printed", "with_log_p"}
        lambda = R sqrt(8 T log(1/delta)) / epsilon, the condition of the privacy theorem; or with log p under the root, the value
        that the regret theorem then sets. For p = 2 the second is smaller than the first (claim JT-17).
    adversary : numba-compiled function, optional
        ``adversary(t, actions, record, cost)`` makes the costs adaptive: it fills `cost` for round t from row t of the dataset
        and from ``actions[: t + 1]``. Without it the costs are the rows themselves (an oblivious adversary).

    Examples
    --------
    >>> round(PrivateFTRL(epsilon=1.0, delta=1e-5, bound=1.0, actions=2, horizon=100).regularization, 4)
    95.9705
    """

    epsilon: float
    delta: float
    bound: float
    actions: int
    horizon: int
    lambda_rule: LambdaRule = "printed"
    adversary: Adversary | None = None

    def __post_init__(self) -> None:
        require(self).positive("epsilon", "bound").probability("delta").integer("actions", least=2).integer("horizon")
        require(self).one_of("lambda_rule", ["printed", "with_log_p"])
        if self.adversary is not None and not hasattr(self.adversary, "py_func"):
            raise InvalidArgument(f"PrivateFTRL: adversary must be compiled with numba.njit, got {shown(self.adversary)}")

    @property
    def regularization(self) -> float:
        """The paper's lambda."""
        factor = math.log(self.actions) if self.lambda_rule == "with_log_p" else 1.0
        return self.bound * math.sqrt(8 * self.horizon * factor * math.log(1 / self.delta)) / self.epsilon

    @property
    def claim(self) -> ApproxDP:
        return ApproxDP(self.epsilon, self.delta)

    @property
    def truth(self) -> Truth | None:
        """Unknown in closed form: the worst baseline of the common costs is found numerically only (claim JT-16)."""
        return None

    @property
    def domain(self) -> Costs:
        return Costs(self.horizon, self.actions, self.bound)

    def worst_pair(self, baseline: float = 0.0) -> Pair:
        """First cost (-R, R, ..., R) against its negative (W20 for p = 2).

        `baseline` is the log-odds of action 0 that the following costs build up and the rest, all zero, hold: negative
        values are worse at small T.
        """
        rows = np.zeros((self.horizon, self.actions))
        rows[:, 0], left = 0.0, -baseline * self.regularization / 2
        for t in range(1, self.horizon):
            step = float(np.clip(left, -self.bound, self.bound))
            rows[t] = -step
            rows[t, 0] = step
            left -= step
        first, second = rows.copy(), rows.copy()
        first[0], second[0] = self.bound, -self.bound
        first[0, 0], second[0, 0] = -self.bound, self.bound
        return Pair(LinearCosts(first), LinearCosts(second), "substitution", "W20: the first cost favours one action or all others")

    def probabilities(self, dataset: LinearCosts) -> FloatArray:
        """theta_1, ..., theta_T for oblivious costs: (T, p)."""
        return np.exp(self._table(dataset))

    @offered_when(lambda self: self.adversary is None)
    def draws(self, dataset: LinearCosts) -> Draws:
        """How actions are drawn under oblivious costs."""
        return index_draws(self._table(dataset))

    def sample(self, dataset: LinearCosts, size: int, rng: np.random.Generator) -> FloatArray:
        """(size, T) actions."""
        if self.adversary is None:
            return self.draws(dataset).sample(size, rng)
        out = np.zeros((size, self.horizon))
        self._play(out, dataset, rng)
        return out

    def log_density(self, outputs: FloatArray, dataset: LinearCosts) -> FloatArray:
        """Exact log-mass: the product of the categorical masses along the row; adaptive costs are replayed from the actions."""
        rows = output_rows(outputs, self.horizon, "PrivateFTRL")
        if self.adversary is None:
            return sum_of_entries(self._table(dataset), rows)
        valid = np.all((rows >= 0) & (rows < self.actions) & (rows == np.floor(rows)), axis=1)
        result = np.full(len(rows), -np.inf)
        result[valid] = self._play(np.ascontiguousarray(rows[valid]), dataset, None)
        return result

    @offered_when(lambda self: self.actions**self.horizon <= _MOST_ROWS)
    def support(self, dataset: LinearCosts) -> FloatArray:
        """All p^T rows; only for small T is there such a method."""
        grid = np.indices((self.actions,) * self.horizon).reshape(self.horizon, -1).T
        return np.ascontiguousarray(grid, dtype=np.float64)

    @offered_when(lambda self: self.adversary is None)
    def factors(self, d0: LinearCosts, d1: LinearCosts) -> list[tuple[SoftmaxDraw, FloatArray, FloatArray]]:
        """The T independent draws of the oblivious game; rounds before the first difference carry equal datasets.

        Adaptive rounds depend on each other: with an adversary there is no such method.
        """
        first, second = self._logits(d0), self._logits(d1)
        return [(SoftmaxDraw(self.actions), a, b) for a, b in zip(first, second, strict=True)]

    @offered_when(lambda self: self.adversary is None)
    def draws_ball(self, d1: LinearCosts, d0: LinearCosts) -> list[tuple[list[Ball], list[Ball], int]]:
        """Log-probabilities of the independent draws under D1 and D0, and how often each occurs; equal costs give equal leaders."""
        known: dict[tuple[Fraction, ...], list[Ball]] = {}
        sides = [softmax_rounds(self._checked(d), arb(self.regularization), known) for d in (d1, d0)]
        found: dict[tuple[tuple[Fraction, ...], ...], list[int]] = {}
        for t, key in enumerate(zip(*(totals for totals, _ in sides), strict=True)):
            found.setdefault(key, []).append(t)
        return [(sides[0][1][rounds[0]], sides[1][1][rounds[0]], len(rounds)) for rounds in found.values()]

    def log_density_ball(self, boxes: Sequence[Box], dataset: LinearCosts) -> list[Ball]:
        """Log-mass of the actions in each box, for oblivious costs."""
        if self.adversary is not None:
            raise NotEnclosed("PrivateFTRL: an adversary's costs are known as floats only")
        logs = softmax_rounds(self._checked(dataset), arb(self.regularization), {})[1]
        return [sum((pick(row, [[s]])[0] for row, s in zip(logs, box, strict=True)), arb(0)) for box in boxes]

    def regret(self, outputs: FloatArray, dataset: LinearCosts) -> FloatArray:
        """Cost of each row's actions less that of the best fixed action in hindsight, oblivious costs."""
        costs = self._checked(dataset)
        played = sum_of_entries(costs, output_rows(outputs, self.horizon, "PrivateFTRL"))
        return np.asarray(played - costs.sum(axis=0).min())

    def _play(self, outputs: FloatArray, dataset: LinearCosts, rng: np.random.Generator | None) -> FloatArray:
        generator = np.random.default_rng(0) if rng is None else rng
        records = self._checked(dataset)
        logs, bad = _adaptive(outputs, rng is not None, self.adversary, records, self.regularization, self.bound, self.actions, generator)
        if bad >= 0:
            raise InvalidArgument(
                f"PrivateFTRL: adversary must keep costs in [-{self.bound!r}, {self.bound!r}], it left it in round {bad + 1}"
            )
        return np.asarray(logs)

    def _checked(self, dataset: LinearCosts) -> FloatArray:
        if not isinstance(dataset, LinearCosts):
            raise InvalidArgument(f"PrivateFTRL: dataset must be LinearCosts, got {type(dataset).__name__}")
        x = dataset.x
        if len(x) != self.horizon or (self.adversary is None and x.shape[1] != self.actions):
            raise InvalidArgument(f"PrivateFTRL: dataset must hold {self.horizon} costs of {self.actions} actions, got shape {x.shape}")
        if np.abs(x).max() > self.bound:
            raise InvalidArgument(
                f"PrivateFTRL: dataset must have entries in [-{self.bound!r}, {self.bound!r}], got {float(np.abs(x).max())!r}"
            )
        return x

    def _logits(self, dataset: LinearCosts) -> FloatArray:
        totals = np.zeros((self.horizon, self.actions))
        np.cumsum(self._checked(dataset)[:-1], axis=0, out=totals[1:])
        return -totals / self.regularization

    def _table(self, dataset: LinearCosts) -> FloatArray:
        return log_softmax(self._logits(dataset))


def softmax_rounds(
    costs: FloatArray, regularization: Ball, known: dict[tuple[Fraction, ...], list[Ball]]
) -> tuple[list[tuple[Fraction, ...]], list[list[Ball]]]:
    """Exact totals before each round, and the log-probabilities of its draw."""
    totals = [(Fraction(0),) * costs.shape[1]]
    for row in costs[:-1].tolist():
        totals.append(tuple(total + Fraction(x) for total, x in zip(totals[-1], row, strict=True)))
    for total in totals:
        if total not in known:
            known[total] = softmax([-arb(fmpq(x.numerator, x.denominator)) / regularization for x in total])
    return totals, [known[total] for total in totals]


# Not cached on disk: the compiled code is specific to the caller's adversary, which has no stable identity between processes.
@jit_uncached
def _adaptive(
    outputs: FloatArray, draw: bool, adversary: Any, records: FloatArray, lam: float, bound: float, p: int, rng: np.random.Generator
) -> tuple[FloatArray, int]:
    """Play (draw=True, filling `outputs`) or replay the game; log-mass of each row and the round of a cost out of bounds, or -1."""
    size, rounds = outputs.shape
    logs = np.zeros(size)
    totals, weights, cost = np.empty(p), np.empty(p), np.empty(p)
    actions = np.empty(rounds, dtype=np.int64)
    for i in range(size):
        totals[:] = 0.0
        for t in range(rounds):
            least = totals.min()
            mass = 0.0
            for j in range(p):
                mass += math.exp((least - totals[j]) / lam)
                weights[j] = mass
            if draw:
                outputs[i, t] = draw_index(weights, rng.random() * mass)
            actions[t] = int(outputs[i, t])
            logs[i] += (least - totals[actions[t]]) / lam - math.log(mass)
            cost[:] = 0.0
            adversary(t, actions, records[t], cost)
            for j in range(p):
                if not abs(cost[j]) <= bound:
                    return logs, t
                totals[j] += cost[j]
    return logs, -1
