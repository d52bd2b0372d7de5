"""Divergences of a pair from cells that cover its output space.

Each cell has balls for its two masses and a span for the loss inside it.

*Lower bound:* a cell counts as one outcome, since merging outputs is post-processing.

*Upper bound:* the masses of a cell move to the two ends of its span, in the proportions that give
(p, q). Every law in the cell is a garbling of this two-point law (Doroshenko et al. 2022).

Cells whose two bounds differ by too much are split. All sums are balls, so both bounds are proved
once the cells cover all outputs.
"""

from __future__ import annotations

import itertools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from flint import arb

from dpwitness.core.balls.ball import Ball, Box, Span, endpoints

# Orders for zCDP. Chords bound the values between them. D_a / a is flat at its maximum, so few
# orders suffice.
_ZCDP_ORDERS = [1 + 10 ** (k / 8) for k in range(-24, 33)]


class EnclosedOrder(ABC):
    """Enclosures of the divergences of one order of a pair: of P, the law on one dataset, from Q,
    the law on the other.
    """

    @abstractmethod
    def hockey_stick(self, epsilon: float, relative: float = 1e-7, absolute: float = 0.0) -> Span:
        """Enclose delta(epsilon) = sup over events of P - e^epsilon Q."""

    @abstractmethod
    def supremum(self) -> Span:
        """Enclose the largest loss on outputs that have mass under P."""

    @abstractmethod
    def renyi(self, order: float, relative: float = 1e-7) -> Span:
        """Enclose D_order(P || Q) = log E_P e^((order - 1) L) / (order - 1), for order > 1."""

    @property
    def mu(self) -> Span | None:
        """Enclose the GDP parameter; None if no enclosure is known."""
        return None

    def concentrated(self) -> Span:
        """Enclose the supremum of D_a / a over orders a > 1, the zCDP parameter.

        psi(a) = (a - 1) D_a is convex, so that chords bound it between orders. Beyond the last
        order D_a / a <= sup L / a. Below the first order D_a / a <= D_first, as D_a rises with a.
        """
        values = [self.renyi(order, 1e-6) for order in _ZCDP_ORDERS]
        lower = max(low / order for (low, _), order in zip(values, _ZCDP_ORDERS, strict=True))
        upper = [values[0][1], self.supremum()[1] / _ZCDP_ORDERS[-1]]
        for (a, first), (b, second) in itertools.pairwise(
            zip(_ZCDP_ORDERS, (high for _, high in values), strict=True)
        ):
            upper.append(_chord(a, first, b, second))
        return lower * (1 - 1e-15), max(upper) * (1 + 1e-15)

    def epsilon(self, delta: float, relative: float = 1e-9, edge: float | None = None) -> Span:
        """Enclose the smallest epsilon >= 0 with delta(epsilon) <= delta, on a known side of `edge`
        where possible.
        """
        if delta <= 0:
            low, high = self.supremum()
            return max(0.0, low), max(0.0, high)
        at_zero = self.hockey_stick(0.0)
        if at_zero[1] <= delta:
            return 0.0, 0.0

        def below(epsilon: float) -> bool:
            """Return whether `epsilon` is proved to be below the root."""
            return self.hockey_stick(epsilon, 1e-9, 1e-9 * delta)[0] > delta

        def above(epsilon: float) -> bool:
            """Return whether `epsilon` is proved to be at or above the root."""
            return self.hockey_stick(epsilon, 1e-9, 1e-9 * delta)[1] <= delta

        low, high = 0.0, 1.0 if at_zero[0] > delta else 1e-9
        while not above(high):
            low = high if below(high) else low
            if high > 700:
                return self._least_beyond(delta, low), math.inf
            high *= 2.0

        def last(proved: Callable[[float], bool], end: float, other: float) -> Span:
            """Return the last value from `end` towards `other` that is proved, and its neighbor."""
            while abs(other - end) > relative * max(min(end, other), 1e-9):
                middle = 0.5 * (end + other)
                end, other = (middle, other) if proved(middle) else (end, middle)
            return end, other

        low, undecided = last(below, low, high)
        high = undecided if above(undecided) else last(above, high, undecided)[0]
        if edge is not None and low <= edge < high:
            least, most = self.hockey_stick(edge, 1e-13, 1e-30)
            low, high = edge if least > delta else low, edge if most <= delta else high
        return low, high

    def _least_beyond(self, delta: float, low: float) -> float:
        """Return a lower bound of epsilon at `delta` if it is above `low` and beyond the search."""
        return low


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """Set of outputs with its masses under D1 (p) and D0 (q), and the span of the loss log p/q over
    the set.
    """

    p: Ball
    q: Ball
    loss: Span
    box: Box = ()

    def turned(self) -> Cell:
        """Return the cell with D1 and D0 exchanged."""
        return Cell(self.q, self.p, (-self.loss[1], -self.loss[0]), self.box)

    def outer(self) -> Ball:
        """Return the mass p at the upper end of the span, in the two-point law that preserves p and
        q.

        The mass is (p - q e^low) / (1 - e^(low - high)), and at most p.
        """
        low, high = self.loss
        if math.isinf(low) or math.isinf(high) or not low < high:
            return self.p
        part = (self.p - self.q * arb(low).exp()) / -(arb(low) - arb(high)).expm1()
        return part if part.upper() < self.p.upper() else self.p


@dataclass(slots=True, eq=False)
class Cells(EnclosedOrder):
    """Cells that cover all outputs. Outputs outside all cells have no mass."""

    leaves: list[Cell]  # a partition of the outputs
    # returns the parts of a cell; none if the cell cannot be split
    split: Callable[[Cell], list[Cell]] | None = None
    seconds: float = 20.0  # time after which no cell is split: enclosures then stay valid but wide
    started: float = field(default_factory=time.monotonic)
    # splits of cells with an infinite bound, after which the bound is accepted as infinite
    infinite_splits: int = 60
    largest: Span | None = None

    def turned(self) -> Cells:
        """Return the cells with D1 and D0 exchanged. Later refinements of one do not change the
        other.
        """
        cut = self.split
        turned = (
            None if cut is None else lambda cell: [part.turned() for part in cut(cell.turned())]
        )
        return Cells([cell.turned() for cell in self.leaves], turned, self.seconds, self.started)

    def total(self) -> tuple[Ball, Ball]:
        """Return the sums of the masses under D1 and D0: balls that must contain 1."""
        return sum((c.p for c in self.leaves), arb(0)), sum((c.q for c in self.leaves), arb(0))

    def hockey_stick(self, epsilon: float, relative: float = 1e-7, absolute: float = 0.0) -> Span:
        """Enclose the hockey-stick divergence at `epsilon`, in an interval of at most the given
        relative or absolute width where time permits.
        """
        factor = arb(epsilon).exp()
        return self._refined_sum(
            lambda cell: hockey_stick_contribution(cell, epsilon, factor), relative, absolute
        )

    def renyi(self, order: float, relative: float = 1e-7) -> Span:
        """Enclose the Renyi divergence of this order, in an interval of at most the given relative
        width where time permits.
        """
        top = max((cell.loss[1] for cell in self.leaves), default=0.0)
        # subtracted from the exponents to keep sums near 1
        shift = arb(top) if math.isfinite(top) else arb(0)
        low, high = self._refined_sum(
            lambda cell: _moment_contribution(cell, order, shift), relative, 0.0
        )
        power = arb(order) - 1
        lower = endpoints(arb(low).log() / power + shift)[0] if low > 0 else 0.0
        upper = endpoints(arb(high).log() / power + shift)[1] if high > 0 else 0.0
        return max(0.0, lower), max(0.0, upper) if math.isfinite(high) else math.inf

    def supremum(self, relative: float = 3e-9) -> Span:
        """Enclose the largest loss on outputs that have mass under P. The result is cached."""
        if self.largest is not None:
            return self.largest
        best = -math.inf

        def upper(cell: Cell) -> float:
            """Return the largest loss of a cell that may have mass under P."""
            nonlocal best
            if cell.p > 0:
                best = max(best, cell.loss[0])
            return -math.inf if cell.p.is_exact() and cell.p == 0 else cell.loss[1]

        def goal(uppers: list[float]) -> float:
            """Return a loss between the largest one that is attained and the largest bound."""
            top = max(uppers, default=-math.inf)
            # with many cells, to fewer digits
            enough = abs(best) * (relative if len(self.leaves) < 2000 else max(relative, 3e-7))
            if top <= best + enough:
                return math.inf
            if not math.isfinite(top - best):
                return math.nextafter(top, -math.inf)
            return max(best + enough, best / 4 + top * 3 / 4)

        self._split_above(upper, goal)
        self.largest = best, max([best, *map(upper, self.leaves)])
        return self.largest

    def _least_beyond(self, delta: float, low: float) -> float:
        """Return infinity if the mass of infinite loss exceeds `delta`, otherwise `low`."""
        infinite = sum((c.p for c in self.leaves if c.loss[0] == math.inf), arb(0)) > delta
        return math.inf if infinite else low

    def _split_above(
        self, rank: Callable[[Cell], float], goal: Callable[[list[float]], float]
    ) -> None:
        """Split the leaves whose rank exceeds the goal, in rounds. The goal depends on the ranks of
        the leaves that may be split: none is once the time is up.
        """
        ranks: dict[Cell, float] = {}
        whole: set[Cell] = set()  # leaves that cannot be split
        infinite = 0
        while infinite <= self.infinite_splits:
            ranks |= {cell: rank(cell) for cell in self.leaves if cell not in ranks}
            pending = [cell for cell in self.leaves if cell not in whole]
            least = goal([ranks[cell] for cell in pending])
            chosen = [cell for cell in pending if ranks[cell] > least]
            if not chosen or self.split is None:
                return
            parts = {
                cell: self.split(cell)
                for cell in chosen
                if time.monotonic() - self.started <= self.seconds
            }
            whole.update(cell for cell in chosen if not parts.get(cell))
            infinite += sum(math.isinf(ranks[cell]) for cell in chosen)
            self.leaves = [part for cell in self.leaves for part in parts.get(cell) or [cell]]

    def _refined_sum(self, value: Callable[[Cell], Ball], relative: float, absolute: float) -> Span:
        """Enclose the sum of `value` over the leaves, splitting the widest until the requested
        width is met.
        """
        values: dict[Cell, Ball] = {}
        lows: dict[Cell, float] = {}

        def gap(cell: Cell) -> float:
            """Return the width of the value's enclosure."""
            values[cell] = value(cell)
            low, high = endpoints(values[cell])
            lows[cell] = low if math.isfinite(low) else 0.0
            return high - low if high > low else 0.0

        def goal(gaps: list[float]) -> float:
            """Return the share of a cell in the requested width."""
            if math.inf in gaps:
                return math.nextafter(math.inf, 0.0)
            least = sum(lows[cell] for cell in self.leaves)
            width = max(relative * least, absolute)
            return math.inf if sum(gaps) <= width else max(width / len(gaps), 1e-16 * least)

        self._split_above(gap, goal)
        return endpoints(sum((values[cell] for cell in self.leaves), arb(0)))


def hockey_stick_contribution(cell: Cell, epsilon: float, factor: Ball) -> Ball:
    """Enclose the contribution of the cell to delta(epsilon)."""
    low, high = cell.loss
    if high <= epsilon:
        return arb(0)
    if low >= epsilon:
        return cell.p if low == math.inf else cell.p - factor * cell.q
    least = (cell.p - factor * cell.q).lower()
    most = cell.outer().upper()
    if math.isfinite(high):
        most = most * -(epsilon - arb(high)).expm1()
    least, most = least if least > 0 else arb(0), most if most > 0 else arb(0)
    return least.union(most).nonnegative_part() if most > least else least


def _moment_contribution(cell: Cell, order: float, shift: Ball) -> Ball:
    """Enclose the contribution of the cell to E_P e^((order - 1) (L - shift)).

    By Jensen's inequality, the contribution is at least that of the cell as one outcome.
    """
    low, high = cell.loss
    if cell.p.is_exact() and cell.p == 0:
        return arb(0)
    if high == math.inf:
        return arb(0).union(arb("inf")) if low < high else arb("inf")
    power = arb(order) - 1
    if low == high:
        return cell.p * (power * (arb(low) - shift)).exp()
    far = cell.outer()
    most = (power * (arb(high) - shift)).exp() * far
    if math.isfinite(low):
        rest = cell.p - far
        most = most + (power * (arb(low) - shift)).exp() * (
            rest if rest > 0 else rest.nonnegative_part()
        )
    ratio = cell.p / cell.q
    least = (
        cell.p * (power * (ratio.log() - shift)).exp()
        if ratio.is_finite() and ratio > 0
        else arb(0)
    )
    if math.isfinite(low):
        other = cell.p * (power * (arb(low) - shift)).exp()
        least = other if not least.lower() > other.lower() else least
    return least.lower().nonnegative_part().union(most.upper())


def _chord(a: float, first: float, b: float, second: float, pieces: int = 64) -> float:
    """Bound psi(x) / (x (x - 1)) from above over [a, b], given D_a and D_b: psi lies below its
    chord, taken in `pieces`.
    """
    if not (math.isfinite(first) and math.isfinite(second)):
        return math.inf
    one, two = (arb(a) - 1) * first, (arb(b) - 1) * second
    slope = (two - one) / (arb(b) - a)
    best = 0.0
    for k in range(pieces):
        low, high = arb(a) + (arb(b) - a) * k / pieces, arb(a) + (arb(b) - a) * (k + 1) / pieces
        best = max(best, endpoints((one + slope * (high - a)) / (low * (low - 1)))[1])
    return best
