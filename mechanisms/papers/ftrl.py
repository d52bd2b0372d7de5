"""Private follow-the-regularized-leader with entropy regularization.

Every action is one draw from the entropic leader. Jain and Thakurta (2014), equation (10):
theta_{t+1} proportional to exp(-sum_{s<=t} x_s / lambda), and action a_{t+1} is drawn from
theta_{t+1}.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from flint import arb, fmpq

from dpwitness.core import ApproxDP, Costs, InvalidArgument, LinearCosts, Pair, Truth
from dpwitness.core.balls.ball import Ball, Box, log_mass_of_index, softmax
from dpwitness.core.numerics.draws import Draws, SampledByDraws
from dpwitness.core.protocols import FloatArray, available_if, one_law
from dpwitness.core.values.validation import require
from dpwitness.mechanisms.textbook.categorical import (
    SoftmaxDraw,
    index_draws,
    log_softmax,
    output_rows,
    sum_of_entries,
)
from dpwitness.mechanisms.textbook.zoo import PaperSpecimen

LambdaRule = Literal["printed", "with_log_p"]
_MAX_ROWS = 2_000_000


@one_law
@dataclass(frozen=True, slots=True)
class PrivateFTRL(SampledByDraws):
    """Entropic follow-the-regularized-leader; releases the T actions, numbered from 0.

    Parameters
    ----------
    epsilon, delta : float
        Parameters of the claim in the paper.
    bound : float
        R: every entry of every cost lies in [-R, R].
    actions : int
        p, at least 2.
    horizon : int
        T, number of rounds and of released actions.
    lambda_rule : {"printed", "with_log_p"}
        ``printed``: lambda = R sqrt(8 T log(1/delta)) / epsilon, the condition of the privacy
        theorem. ``with_log_p``: the same with a factor log p under the root, the value that the
        regret theorem then uses. For p = 2 the second is smaller than the first (claim JT-17).

    Examples
    --------
    >>> round(PrivateFTRL(epsilon=1.0, delta=1e-5, bound=1.0, actions=2,
    ...     horizon=100).regularization, 4)
    95.9705
    """

    epsilon: float
    delta: float
    bound: float
    actions: int
    horizon: int
    lambda_rule: LambdaRule = "printed"

    def __post_init__(self) -> None:
        require(self).positive("epsilon", "bound").probability("delta").integer(
            "actions", least=2
        ).integer("horizon").one_of("lambda_rule", ["printed", "with_log_p"])

    @property
    def regularization(self) -> float:
        """Return the paper's lambda."""
        return (
            self.bound
            * math.sqrt(
                8
                * self.horizon
                * (math.log(self.actions) if self.lambda_rule == "with_log_p" else 1.0)
                * math.log(1 / self.delta)
            )
            / self.epsilon
        )

    @property
    def claim(self) -> ApproxDP:
        return ApproxDP(self.epsilon, self.delta)

    @property
    def truth(self) -> Truth | None:
        """Return None: the worst baseline of the common costs has no closed form (claim JT-16).

        The worst baseline is found numerically only.
        """
        return None

    @property
    def domain(self) -> Costs:
        return Costs(self.horizon, self.actions, self.bound)

    def worst_pair(self, baseline: float = 0.0) -> Pair:
        """Return the worst known neighboring pair, W20: the first cost is (-R, R, ..., R) or its
        negative.

        `baseline` is the log-odds of action 0 that the following costs build up; the remaining
        costs are zero and keep it. Negative values are worse at small T.
        """
        rows = np.zeros((self.horizon, self.actions))
        rows[:, 0], remaining = 0.0, -baseline * self.regularization / 2
        for t in range(1, self.horizon):
            step = float(np.clip(remaining, -self.bound, self.bound))
            rows[t] = -step
            rows[t, 0] = step
            remaining -= step
        first, second = rows.copy(), rows.copy()
        first[0], second[0] = self.bound, -self.bound
        first[0, 0], second[0, 0] = -self.bound, self.bound
        return Pair(
            LinearCosts(first),
            LinearCosts(second),
            "substitution",
            "W20: the first cost favours one action or all others",
        )

    def probabilities(self, dataset: LinearCosts) -> FloatArray:
        """Return theta_1, ..., theta_T: (T, p)."""
        return np.exp(self._log_probabilities(dataset))

    def draws(self, dataset: LinearCosts) -> Draws:
        """Return the output law as a compiled kernel."""
        return index_draws(self._log_probabilities(dataset))

    def log_density(self, outputs: FloatArray, dataset: LinearCosts) -> FloatArray:
        """Return the exact log-mass of each row, the sum of the categorical log-masses."""
        rows = output_rows(outputs, self.horizon, "PrivateFTRL")
        return sum_of_entries(self._log_probabilities(dataset), rows)

    @available_if(lambda self: self.actions**self.horizon <= _MAX_ROWS)
    def support(self, dataset: LinearCosts) -> FloatArray:
        """Return all p^T rows; the method exists only for small T."""
        return np.ascontiguousarray(
            np.indices((self.actions,) * self.horizon).reshape(self.horizon, -1).T, dtype=np.float64
        )

    def factors(
        self, d0: LinearCosts, d1: LinearCosts
    ) -> list[tuple[SoftmaxDraw, FloatArray, FloatArray]]:
        """Return the T independent draws; rounds before the first difference have equal logits."""
        first, second = self._logits(d0), self._logits(d1)
        return [(SoftmaxDraw(self.actions), a, b) for a, b in zip(first, second, strict=True)]

    def draws_ball(
        self, d1: LinearCosts, d0: LinearCosts
    ) -> list[tuple[list[Ball], list[Ball], int]]:
        """Return the log-probabilities of the independent draws under D1 and D0, each with its
        number of occurrences.

        Rounds with equal total costs have equal leaders and are merged.
        """
        first, second = (exact_totals(self._validated_costs(d)) for d in (d1, d0))
        logs = {total: self._leader_ball(total) for total in {*first, *second}}
        return [
            (logs[a], logs[b], count)
            for (a, b), count in Counter(zip(first, second, strict=True)).items()
        ]

    def log_density_ball(self, boxes: Sequence[Box], dataset: LinearCosts) -> list[Ball]:
        """Return enclosures of the log-mass of the actions in each box."""
        totals = exact_totals(self._validated_costs(dataset))
        logs = {total: self._leader_ball(total) for total in {*totals}}
        return [
            sum(
                (log_mass_of_index(logs[t], [[s]])[0] for t, s in zip(totals, box, strict=True)),
                arb(0),
            )
            for box in boxes
        ]

    def _leader_ball(self, totals: tuple[Fraction, ...]) -> list[Ball]:
        """Enclose the log-probabilities of a draw, given the total cost of each action."""
        return softmax(
            [-arb(fmpq(x.numerator, x.denominator)) / arb(self.regularization) for x in totals]
        )

    def _validated_costs(self, dataset: LinearCosts) -> FloatArray:
        """Return the cost matrix of the dataset after validation."""
        if not isinstance(dataset, LinearCosts):
            raise InvalidArgument(
                f"PrivateFTRL: dataset must be LinearCosts, got {type(dataset).__name__}"
            )
        x = dataset.x
        if x.shape != (self.horizon, self.actions):
            raise InvalidArgument(
                f"PrivateFTRL: dataset must hold {self.horizon} costs of {self.actions} "
                f"actions, got shape {x.shape}"
            )
        if np.abs(x).max() > self.bound:
            raise InvalidArgument(
                f"PrivateFTRL: dataset must have entries in [-{self.bound!r}, "
                f"{self.bound!r}], got {float(np.abs(x).max())!r}"
            )
        return x

    def _logits(self, dataset: LinearCosts) -> FloatArray:
        """Return the logits of the leader in each round: (T, p)."""
        totals = np.zeros((self.horizon, self.actions))
        np.cumsum(self._validated_costs(dataset)[:-1], axis=0, out=totals[1:])
        return -totals / self.regularization

    def _log_probabilities(self, dataset: LinearCosts) -> FloatArray:
        """Return the log-probabilities of the leader in each round: (T, p)."""
        return log_softmax(self._logits(dataset))


def exact_totals(costs: FloatArray) -> list[tuple[Fraction, ...]]:
    """Return the exact total costs of the actions before each round."""
    totals = [(Fraction(0),) * costs.shape[1]]
    for row in costs[:-1].tolist():
        totals.append(tuple(total + Fraction(x) for total, x in zip(totals[-1], row, strict=True)))
    return totals


def specimens() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield the names and specimens of the zoo."""
    for rule in ("printed", "with_log_p"):
        game = PrivateFTRL(8.0, 0.01, 1.0, 2, 13, lambda_rule=rule)
        yield (
            f"ftrl-{rule.replace('_', '-')}",
            PaperSpecimen(game, (game.worst_pair(), game.worst_pair(-4.0))),
        )
