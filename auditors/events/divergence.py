"""Renyi divergence certified from a binned law: what one event cannot show of RDP and zCDP.

**Bound.** For any function h of the output and any order a > 1,

    D_a(P || Q)  >=  a/(a-1) ln E_P[e^((a-1) h)]  -  ln E_Q[e^(a h)],

with equality at h = ln p/q (Birrell et al. 2021). *Proof.* By Hoelder with exponents a and a/(a-1), E_P[e^((a-1)h)] = E_Q[(p/q) e^((a-1)h)]
<= E_Q[(p/q)^a]^(1/a) E_Q[e^(a h)]^((a-1)/a); take logarithms, and ln E_Q[(p/q)^a] = (a-1) D_a.  []

h is constant on K cells and fixed on training data, with its order. So only two means of bounded variables are needed, each from
independent outputs: a lower limit on the first and an upper limit on the second, at alpha/2 each. That is far less than K
simultaneous limits.

**Limits.** X in [0, 1] with mean m, and a bet 0 <= b < 1 fixed beforehand: prod_i (1 + b (X_i - m)) has mean 1, so by Markov it reaches
1/alpha with probability at most alpha (Waudby-Smith and Ramdas 2024). The product falls in m; where it crosses 1/alpha is a lower
limit. For an upper limit, bet on 1 - X. On K cells the product needs the counts only.  []
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.events.rules import Event, Guesses
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.protocol import FloatArray

LEVELS = (0.002, 0.01, 0.03, 0.08, 0.16, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.84, 0.92, 0.97, 0.99, 0.998)  # of the cells' boundaries
ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0)  # tried for zCDP, where the claim speaks of all


@dataclass(frozen=True, slots=True, eq=False)
class Binned(Event):
    """Cells between nested events, the privacy loss that training assigned to each, and how it will be tested.

    Parameters
    ----------
    events : tuple of Event
        Nested: each names D1 on a smaller set than the one before. The cell of an output is how many of them name D1.
    loss : (cells,) array
        h on each cell.
    order : float
        a.
    forward : bool
        Whether P is the law on D1 (else on D0).
    bets : (2,) array
        b for the two means.
    """

    events: tuple[Event, ...]
    loss: FloatArray
    order: float
    forward: bool
    bets: FloatArray

    kind: ClassVar[str] = "binned"

    def guess(self, outputs: Outputs) -> Guesses:
        return np.asarray(np.sum([event.guess(outputs) > 0 for event in self.events], axis=0), dtype=np.int8)

    def tabulate(self, outputs: Outputs, rounds: int = 0) -> NDArray[np.int64]:
        return np.bincount(self.guess(outputs), minlength=len(self.loss)).astype(np.int64)

    @property
    def directions(self) -> int:
        return 2

    @property
    def axis(self) -> str:
        lines = {event.axis for event in self.events}
        return lines.pop() if len(lines) == 1 else ""

    def position(self, outputs: Outputs) -> FloatArray:
        return self.events[0].position(outputs)

    def cuts(self) -> FloatArray:
        return np.concatenate([event.cuts() for event in self.events])

    def guess_at(self, places: FloatArray) -> Guesses:
        return self._side(np.sum([event.guess_at(places) > 0 for event in self.events], axis=0))

    def cell(self, outputs: Outputs) -> NDArray[np.intp]:
        return np.array([2, 0, 1])[self._side(self.guess(outputs))]

    def _side(self, cells: NDArray[Any]) -> Guesses:
        """The dataset that a cell speaks for: +1 for D1, -1 for D0."""
        sides = (np.sign(self.loss) * (1 if self.forward else -1)).astype(np.int8)
        return np.asarray(sides[cells], dtype=np.int8)

    def describe(self) -> str:
        way = "D1 to D0" if self.forward else "D0 to D1"
        outermost = self.events[-1].describe()
        return f"Renyi divergence of order {self.order:g} from {way} over {len(self.loss)} cells; outermost cell: {outermost}"


def _variables(loss: FloatArray, order: float) -> tuple[FloatArray, FloatArray, float, float]:
    """The two bounded variables on the cells, and what they were divided by."""
    first, second = np.exp((order - 1) * loss), np.exp(order * loss)
    return first / first.max(), second / second.max(), float((order - 1) * loss.max()), float(order * loss.max())


def train_binned(claim: Claim, events: tuple[Event, ...], table: FloatArray, rounds: int, alpha: float) -> Binned | None:
    """Fix loss, order, direction and bets from training counts (2, cells) on D1 and D0; None if nothing would be certified."""
    best: tuple[float, Binned] | None = None
    for forward in (True, False):
        p, q = (table if forward else table[::-1]) + 0.5
        loss = np.clip(np.log(p / p.sum()) - np.log(q / q.sum()), -6, 6)
        # a cell's loss is shrunk by its own standard error: large powers of a noisy loss cost more than they bring
        loss = np.sign(loss) * np.maximum(np.abs(loss) - 0.5 * np.sqrt(1 / p + 1 / q), 0.0)
        for order in claim.orders_among(ORDERS):
            x, y, _, _ = _variables(loss, order)
            bets = np.array([_bet(x, p / p.sum(), rounds / 2, alpha / 2), _bet(y, q / q.sum(), rounds / 2, alpha / 2)])
            rule = Binned(events, loss, float(order), forward, bets)
            value = binned_bound(claim, rule, table * (rounds / table.sum()), alpha)
            if best is None or value > best[0]:
                best = (value, rule)
    return best[1] if best and best[0] > 0 else None


def _bet(values: FloatArray, law: FloatArray, size: float, alpha: float) -> float:
    """The bet that is best for a sample of this size, by the normal approximation."""
    variance = max(float(law @ values**2 - (law @ values) ** 2), 1e-12)
    return float(min(np.sqrt(2 * np.log(1 / alpha) / (size * variance)), 0.9))


def _lower_mean(values: FloatArray, counts: FloatArray, bet: float, alpha: float) -> float:
    """Lower limit on the mean of a variable in [0, 1] that took `values` so many times."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        wealth = float(counts @ np.log1p(bet * (values - middle)))
        low, high = (middle, high) if wealth >= np.log(1 / alpha) else (low, middle)
    return low


def binned_bound(claim: Claim, rule: Binned, table: FloatArray | NDArray[np.int64], alpha: float) -> float:
    """Certified lower bound on the parameter of an RDP or zCDP claim from cell counts (2, cells), at error `alpha`."""
    p, q = np.asarray(table, dtype=float)[:: 1 if rule.forward else -1]
    x, y, x_scale, y_scale = _variables(rule.loss, rule.order)
    first = _lower_mean(x, p, float(rule.bets[0]), alpha / 2)
    second = 1 - _lower_mean(1 - y, q, float(rule.bets[1]), alpha / 2)
    if first <= 0:
        return 0.0
    divergence = rule.order / (rule.order - 1) * (np.log(first) + x_scale) - (np.log(second) + y_scale)
    return float(max(0.0, divergence / claim.divergence_at(rule.order)))


def expected_binned(claim: Claim, p: FloatArray, q: FloatArray, rounds: float, alpha: float, z: float = 0.0) -> float:
    """What the binned form is expected to certify where the cells have these masses, with luck `z` standard errors against each mean.

    The losses are those of the cells, the bets are worth sqrt(2 ln(2/alpha)) standard errors each; the better of the two orders.
    """
    best, reach = 0.0, np.sqrt(2 * np.log(2 / alpha)) + z
    for first, second in ((p, q), (q, p)):
        some = (first > 0) | (second > 0)
        a, b = np.maximum(first[some], 1e-300), np.maximum(second[some], 1e-300)
        loss = np.clip(np.log(a) - np.log(b), -6, 6)
        for order in claim.orders_among(ORDERS):
            x, y, x_scale, y_scale = _variables(loss, order)
            low, high = float(a @ x), float(b @ y)
            low -= reach * float(np.sqrt(max(float(a @ x**2) - low**2, 0.0) / (rounds / 2)))
            high += reach * float(np.sqrt(max(float(b @ y**2) - high**2, 0.0) / (rounds / 2)))
            if low > 0:
                divergence = order / (order - 1) * (np.log(low) + x_scale) - (np.log(high) + y_scale)
                best = max(best, float(divergence) / claim.divergence_at(order))
    return best


def oracle_rule(claim: Claim, p: FloatArray, q: FloatArray, rounds: float, alpha: float) -> Binned:
    """The rule on cells of known masses that certifies most at expected counts."""
    best: tuple[float, Binned] | None = None
    for forward, (first, second) in ((True, (p, q)), (False, (q, p))):
        loss = np.log(np.maximum(first, 1e-300)) - np.log(np.maximum(second, 1e-300))
        for order in claim.orders_among(ORDERS):
            for most in (1.0, 2.0, 3.0, 4.5, 6.0, 12.0):  # rare cells of a large loss cost more than they bring where rounds are few
                h = np.clip(loss, -most, most)
                x, y, _, _ = _variables(h, order)
                bets = np.array([_bet(x, first, rounds / 2, alpha / 2), _bet(y, second, rounds / 2, alpha / 2)])
                rule = Binned((), h, float(order), forward, bets)
                value = binned_bound(claim, rule, np.array([p, q]) * rounds / 2, alpha)
                if best is None or value > best[0]:
                    best = (value, rule)
    assert best is not None
    return best[1]


def oracle_binned(claim: Claim, p: FloatArray, q: FloatArray, rounds: float, alpha: float) -> float:
    """`binned_bound` at expected counts of the best rule where the masses of the cells are known: half of such tests certify it."""
    return binned_bound(claim, oracle_rule(claim, p, q, rounds, alpha), np.array([p, q]) * rounds / 2, alpha)
