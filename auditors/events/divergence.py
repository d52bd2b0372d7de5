"""Certified Renyi divergence from cell counts: the test for RDP and zCDP claims, which one event
alone cannot refute well.

**Bound.** For any function h of the output and any order a > 1,

    D_a(P || Q)  >=  a/(a-1) ln E_P[e^((a-1) h)]  -  ln E_Q[e^(a h)],

with equality at h = ln p/q (Birrell et al. 2021). *Proof.* By Hoelder with exponents a and a/(a-1),
E_P[e^((a-1)h)] = E_Q[(p/q) e^((a-1)h)] <= E_Q[(p/q)^a]^(1/a) E_Q[e^(a h)]^((a-1)/a); take
logarithms, and ln E_Q[(p/q)^a] = (a-1) D_a.  []

h is constant on K cells. The training data fix h and the order a. So the test needs only two means
of bounded variables, each from independent outputs: a lower limit of the first and an upper limit
of the second, at alpha/2 each. This needs far fewer rounds than K simultaneous limits.

**Limits.** X in [0, 1] has mean m, and the bet 0 <= b < 1 is fixed in advance. Then prod_i (1 + b
(X_i - m)) has mean 1. By Markov the product reaches 1/alpha with probability at most alpha
(Waudby-Smith and Ramdas 2024). The product decreases in m; the point where the product crosses
1/alpha is a lower limit. For an upper limit, bet on 1 - X. On K cells the product needs the counts
only.  []
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.event import Event, Guesses
from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.core.claims import Claim
from dpwitness.core.protocols.mechanism import FloatArray

# quantiles
CELL_QUANTILES = (
    0.002,
    0.01,
    0.03,
    0.08,
    0.16,
    0.25,
    0.35,
    0.45,
    0.55,
    0.65,
    0.75,
    0.84,
    0.92,
    0.97,
    0.99,
    0.998,
)
# candidate orders for zCDP, which bounds all orders
ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0)


@dataclass(frozen=True, slots=True, eq=False)
class Binned(Event):
    """Guess rule for Renyi claims: cells between nested events, the privacy loss of each cell, and
    the settings of the test.
    """

    # nested: each event guesses D1 on a smaller set than the event before. The cell index of an
    # output is the number of events that guess D1.
    events: tuple[Event, ...]
    loss: FloatArray  # h on each cell
    order: float  # Renyi order a
    forward: bool  # whether P is the distribution on D1 (else on D0)
    bets: FloatArray  # b for the two means

    kind: ClassVar[str] = "binned"

    def guess(self, outputs: Outputs) -> Guesses:
        return np.asarray(
            np.sum([event.guess(outputs) > 0 for event in self.events], axis=0), dtype=np.int8
        )

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
        """Return the dataset that each cell favors: +1 for D1, -1 for D0."""
        sides = (np.sign(self.loss) * (1 if self.forward else -1)).astype(np.int8)
        return np.asarray(sides[cells], dtype=np.int8)

    def describe(self) -> str:
        direction = "D1 to D0" if self.forward else "D0 to D1"
        outermost = self.events[-1].describe()
        return (
            f"Renyi divergence of order {self.order:g} from {direction} over {len(self.loss)} "
            f"cells; outermost cell: {outermost}"
        )


def _scaled_exponentials(
    loss: FloatArray, order: float
) -> tuple[FloatArray, FloatArray, float, float]:
    """Return the two variables on the cells, scaled to [0, 1], and the logarithms of the two scale
    factors.
    """
    first, second = np.exp((order - 1) * loss), np.exp(order * loss)
    return (
        first / first.max(),
        second / second.max(),
        float((order - 1) * loss.max()),
        float(order * loss.max()),
    )


def train_renyi_rule(
    claim: Claim, events: tuple[Event, ...], table: FloatArray, rounds: int, alpha: float
) -> Binned | None:
    """Fit loss, order, direction and bets from training counts (2, cells) on D1 and D0; return None
    if the expected bound is 0.
    """
    best: tuple[float, Binned] | None = None
    for forward in (True, False):
        p, q = (table if forward else table[::-1]) + 0.5
        loss = np.clip(np.log(p / p.sum()) - np.log(q / q.sum()), -6, 6)
        # shrink each loss by half of its standard error: large powers of a noisy loss reduce the
        # bound
        loss = np.sign(loss) * np.maximum(np.abs(loss) - 0.5 * np.sqrt(1 / p + 1 / q), 0.0)
        for order in claim.orders_among(ORDERS):
            x, y, _, _ = _scaled_exponentials(loss, order)
            bets = np.array(
                [
                    _optimal_bet(x, p / p.sum(), rounds / 2, alpha / 2),
                    _optimal_bet(y, q / q.sum(), rounds / 2, alpha / 2),
                ]
            )
            rule = Binned(events, loss, float(order), forward, bets)
            value = renyi_lower_bound(claim, rule, table * (rounds / table.sum()), alpha)
            if best is None or value > best[0]:
                best = (value, rule)
    return best[1] if best and best[0] > 0 else None


def _optimal_bet(values: FloatArray, law: FloatArray, size: float, alpha: float) -> float:
    """Return the bet that is optimal for a sample of this size under the normal approximation."""
    variance = max(float(law @ values**2 - (law @ values) ** 2), 1e-12)
    return float(min(np.sqrt(2 * np.log(1 / alpha) / (size * variance)), 0.9))


def _mean_lower_limit(values: FloatArray, counts: FloatArray, bet: float, alpha: float) -> float:
    """Return a lower confidence limit of the mean of a variable in [0, 1] that took each of
    `values` `counts` times.
    """

    def rejected(mean: float) -> bool:
        return float(counts @ np.log1p(bet * (values - mean))) >= float(np.log(1 / alpha))

    return bracket(rejected, 0.0, 1.0, 60)[0]


def renyi_lower_bound(
    claim: Claim, rule: Binned, table: FloatArray | NDArray[np.int64], alpha: float
) -> float:
    """Return a certified lower bound on the parameter of an RDP or zCDP claim from cell counts (2,
    cells), at error `alpha`.
    """
    p, q = np.asarray(table, dtype=float)[:: 1 if rule.forward else -1]
    x, y, x_scale, y_scale = _scaled_exponentials(rule.loss, rule.order)
    first = _mean_lower_limit(x, p, float(rule.bets[0]), alpha / 2)
    second = 1 - _mean_lower_limit(1 - y, q, float(rule.bets[1]), alpha / 2)
    if first <= 0:
        return 0.0
    divergence = rule.order / (rule.order - 1) * (np.log(first) + x_scale) - (
        np.log(second) + y_scale
    )
    return float(max(0.0, divergence / claim.divergence_at(rule.order)))


def expected_renyi_bound(
    claim: Claim, p: FloatArray, q: FloatArray, rounds: float, alpha: float, z: float = 0.0
) -> float:
    """Return the bound that `renyi_lower_bound` is expected to certify on cells with masses p on D1
    and q on D0.

    Each mean is moved `z` standard errors to the unfavorable side. The losses are the log-ratios of
    the masses. A bet costs sqrt(2 ln(2/alpha)) standard errors of its mean. The result is the best
    value over directions and orders.
    """
    best, margin = 0.0, np.sqrt(2 * np.log(2 / alpha)) + z
    for first, second in ((p, q), (q, p)):
        nonempty = (first > 0) | (second > 0)
        a, b = np.maximum(first[nonempty], 1e-300), np.maximum(second[nonempty], 1e-300)
        loss = np.clip(np.log(a) - np.log(b), -6, 6)
        for order in claim.orders_among(ORDERS):
            x, y, x_scale, y_scale = _scaled_exponentials(loss, order)
            low, high = float(a @ x), float(b @ y)
            low -= margin * float(np.sqrt(max(float(a @ x**2) - low**2, 0.0) / (rounds / 2)))
            high += margin * float(np.sqrt(max(float(b @ y**2) - high**2, 0.0) / (rounds / 2)))
            if low > 0:
                divergence = order / (order - 1) * (np.log(low) + x_scale) - (
                    np.log(high) + y_scale
                )
                best = max(best, float(divergence) / claim.divergence_at(order))
    return best


def best_renyi_rule(
    claim: Claim, p: FloatArray, q: FloatArray, rounds: float, alpha: float
) -> Binned:
    """Return the rule on cells of known masses that certifies the largest bound at the expected
    counts.
    """
    best: tuple[float, Binned] | None = None
    for forward, (first, second) in ((True, (p, q)), (False, (q, p))):
        loss = np.log(np.maximum(first, 1e-300)) - np.log(np.maximum(second, 1e-300))
        for order in claim.orders_among(ORDERS):
            # with few rounds, rare cells with a large loss reduce the bound
            for loss_cap in (1.0, 2.0, 3.0, 4.5, 6.0, 12.0):
                h = np.clip(loss, -loss_cap, loss_cap)
                x, y, _, _ = _scaled_exponentials(h, order)
                bets = np.array(
                    [
                        _optimal_bet(x, first, rounds / 2, alpha / 2),
                        _optimal_bet(y, second, rounds / 2, alpha / 2),
                    ]
                )
                rule = Binned((), h, float(order), forward, bets)
                value = renyi_lower_bound(claim, rule, np.array([p, q]) * rounds / 2, alpha)
                if best is None or value > best[0]:
                    best = (value, rule)
    assert best is not None
    return best[1]


def best_expected_renyi_bound(
    claim: Claim, p: FloatArray, q: FloatArray, rounds: float, alpha: float
) -> float:
    """Return `renyi_lower_bound` of the best rule for known cell masses at the expected counts:
    half of all tests certify this value.
    """
    return renyi_lower_bound(
        claim, best_renyi_rule(claim, p, q, rounds, alpha), np.array([p, q]) * rounds / 2, alpha
    )
