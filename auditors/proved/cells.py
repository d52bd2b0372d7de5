"""Divergences of a pair from cells that cover its output space, each with balls for its two masses and a span for the loss inside it.

*Below*, a cell is one outcome: merging outputs is post-processing. *Above*, its masses stand at the two ends of its span, in the
proportions that give (p, q): every law in the cell is a garbling of that one (Doroshenko et al. 2022). Cells in which the two differ by
too much are split. All sums are balls, so that both ends are proved once the cells cover all outputs.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flint import arb

from dpwitness.mechanisms.balls.ball import Ball, Box, Span, ends

_MANY = 2000  # cells, after which a supremum is wanted to fewer digits
_ENDLESS = 60  # splits of cells whose value has no bound, after which it is taken to have none
# Orders of zCDP. Between them chords bound; D_a / a has its maximum where it is flat, so that few serve.
_ORDERS = [1 + 10 ** (k / 8) for k in range(-24, 33)]


@dataclass(slots=True, eq=False)
class Cell:
    """Masses of a set of outputs under D1 (p) and D0 (q), and the span of the loss log p/q over it."""

    p: Ball
    q: Ball
    loss: Span
    box: Box = ()
    rough: bool = False  # masses known from densities only, so that the loss says more of p against q than they do

    def turned(self) -> Cell:
        """The same for the other order of the pair."""
        return Cell(self.q, self.p, (-self.loss[1], -self.loss[0]), self.box, self.rough)

    def outer(self) -> Ball:
        """Mass p at the upper end of the span, q e^low + (p - q e^low) e^0 split so that both masses are kept; at most p."""
        low, high = self.loss
        if math.isinf(low) or math.isinf(high) or not low < high:
            return self.p
        part = (self.p - self.q * arb(low).exp()) / -(arb(low) - arb(high)).expm1()
        return part if part.upper() < self.p.upper() else self.p


@dataclass(slots=True, eq=False)
class Cells:
    """Cells that cover all outputs, up to nothing: what no cell has is no output.

    Parameters
    ----------
    leaves : list of Cell
        A partition of the outputs.
    split : callable, optional
        Cells into which one may be cut; none where it cannot be.
    seconds : float
        Time after which no cell is split any more: enclosures stay valid and stay wide.
    """

    leaves: list[Cell]
    split: Callable[[Cell], list[Cell]] | None = None
    seconds: float = 20.0
    started: float = field(default_factory=time.monotonic)
    largest: Span | None = None

    def turned(self) -> Cells:
        """The other order of the pair, refined from here on by itself."""
        cut = self.split
        turned = None if cut is None else lambda cell: [part.turned() for part in cut(cell.turned())]
        return Cells([cell.turned() for cell in self.leaves], turned, self.seconds, self.started)

    def total(self) -> tuple[Ball, Ball]:
        """Sums of the masses: balls that must contain 1."""
        return sum((c.p for c in self.leaves), arb(0)), sum((c.q for c in self.leaves), arb(0))

    def hockey_stick(self, epsilon: float, relative: float = 1e-7, absolute: float = 0.0) -> Span:
        """delta(epsilon) = sup over events of P - e^epsilon Q, refined to this width."""
        factor = arb(epsilon).exp()
        return self._refined(lambda cell: stick(cell, epsilon, factor), relative, absolute)

    def renyi(self, order: float, relative: float = 1e-7) -> Span:
        """D_order(P || Q) = log E_P e^((order - 1) L) / (order - 1), order > 1."""
        top = max((cell.loss[1] for cell in self.leaves), default=0.0)
        shift = arb(top) if math.isfinite(top) else arb(0)  # taken out of the exponents, so that sums stay near 1
        low, high = self._refined(lambda cell: _moment(cell, order, shift), relative, 0.0)
        power = arb(order) - 1
        lower = ends(arb(low).log() / power + shift)[0] if low > 0 else 0.0
        upper = ends(arb(high).log() / power + shift)[1] if high > 0 else 0.0
        return max(0.0, lower), max(0.0, upper) if math.isfinite(high) else math.inf

    def concentrated(self) -> Span:
        """sup over orders a > 1 of D_a / a."""
        return concentrated(self)

    def supremum(self, relative: float = 3e-9) -> Span:
        """Largest loss on outputs that P can show."""
        if self.largest is None:
            self.largest = self._supremum(relative)
        return self.largest

    def _supremum(self, relative: float) -> Span:
        leaves = [cell for cell in self.leaves if not (cell.p.is_exact() and cell.p == 0)]
        best = max((cell.loss[0] for cell in leaves if cell.p > 0), default=-math.inf)
        count = itertools.count()
        heap = [(-cell.loss[1], next(count), cell) for cell in leaves]
        heapq.heapify(heap)
        done: list[float] = []
        gone: set[int] = set()
        fresh: list[Cell] = []
        endless = 0
        while heap:
            upper, _, cell = heap[0]
            endless += upper == -math.inf
            enough = relative if len(fresh) < _MANY else 100 * relative
            if -upper <= best + enough * abs(best) or endless > _ENDLESS:
                break
            parts = self._cut(cell)
            heapq.heappop(heap)
            if not parts:
                done.append(-upper)
                continue
            gone.add(id(cell))
            fresh += parts
            for part in parts:
                if part.p.is_exact() and part.p == 0:
                    continue
                if part.p > 0:
                    best = max(best, part.loss[0])
                heapq.heappush(heap, (-part.loss[1], next(count), part))
        self._replace(gone, fresh)
        return best, max([best, *done, *(-upper for upper, _, _ in heap[:1])])

    def epsilon(self, delta: float, relative: float = 2e-9, edge: float | None = None) -> Span:
        """Smallest epsilon >= 0 with delta(epsilon) <= delta, between two floats of which each is proved; on which side of `edge`, too."""
        if delta <= 0:
            low, high = self.supremum()
            return max(0.0, low), max(0.0, high)
        low, high = self._epsilon(delta, relative)
        if edge is not None and low <= edge < high:
            here = self.hockey_stick(edge, 1e-13, 1e-30)
            low, high = (edge, high) if here[0] > delta else (low, edge) if here[1] <= delta else (low, high)
        return low, high

    def _epsilon(self, delta: float, relative: float) -> Span:
        low, high = 0.0, 1.0
        at_low = self.hockey_stick(0.0)
        if at_low[1] <= delta:
            return 0.0, 0.0
        if at_low[0] <= delta:
            return 0.0, self._above(delta)
        while True:
            here = self.hockey_stick(high, 1e-9, 1e-9 * delta)
            if here[1] <= delta:
                break
            if here[0] > delta:
                low = high
            if high > 700:
                infinite = sum((c.p for c in self.leaves if c.loss[0] == math.inf), arb(0)) > delta
                return math.inf if infinite else low, math.inf
            high *= 2.0
        while high - low > relative * max(low, 1e-9):
            middle = 0.5 * (low + high)
            here = self.hockey_stick(middle, 1e-9, 1e-9 * delta)
            if here[1] <= delta:
                high = middle
            elif here[0] > delta:
                low = middle
            else:
                return self._narrow(delta, low, middle, relative), self._narrow(delta, high, middle, relative)
        return low, high

    def _above(self, delta: float) -> float:
        """An epsilon at which delta is proved, the sign being open at 0."""
        high = 1e-9
        while self.hockey_stick(high, 1e-9, 1e-9 * delta)[1] > delta and high < 1e3:
            high *= 2.0
        return high if high < 1e3 else math.inf

    def _narrow(self, delta: float, sure: float, open_at: float, relative: float) -> float:
        """Bisect between an epsilon whose side of the root is proved and one where it is open."""
        below = sure < open_at
        while abs(open_at - sure) > relative * max(sure, open_at, 1e-9):
            middle = 0.5 * (sure + open_at)
            here = self.hockey_stick(middle, 1e-9, 1e-9 * delta)
            proved = here[0] > delta if below else here[1] <= delta
            sure, open_at = (middle, open_at) if proved else (sure, middle)
        return sure

    def _cut(self, cell: Cell) -> list[Cell]:
        if self.split is None or time.monotonic() - self.started > self.seconds:
            return []
        return self.split(cell)

    def _replace(self, gone: set[int], fresh: Iterable[Cell]) -> None:
        if gone:
            self.leaves = [cell for cell in itertools.chain(self.leaves, fresh) if id(cell) not in gone]

    def _refined(self, value: Callable[[Cell], Ball], relative: float, absolute: float) -> Span:
        """Sum of `value` over the leaves; the widest are split until the width is what was asked for."""
        known: dict[int, Ball] = {}
        heap: list[tuple[float, int, Cell]] = []
        count = itertools.count()
        width, least = 0.0, 0.0

        def enter(cell: Cell) -> None:
            nonlocal width, least
            ball = known[id(cell)] = value(cell)
            low, high = ends(ball)
            least += low if math.isfinite(low) else 0.0
            if high > low and self.split is not None:
                width += high - low if math.isfinite(high) else 0.0
                heapq.heappush(heap, (low - high, next(count), cell))

        for cell in self.leaves:
            enter(cell)
        gone: set[int] = set()
        fresh: list[Cell] = []
        endless = 0
        while heap and (-heap[0][0] == math.inf or width > max(relative * least, absolute)):
            gap, _, cell = heapq.heappop(heap)
            endless += gap == -math.inf
            if -gap <= 1e-16 * least or endless > _ENDLESS:
                break
            parts = self._cut(cell)
            if not parts:
                continue
            low, _ = ends(known.pop(id(cell)))
            least -= low if math.isfinite(low) else 0.0
            width -= -gap if math.isfinite(gap) else 0.0
            gone.add(id(cell))
            fresh += parts
            for part in parts:
                enter(part)
        self._replace(gone, fresh)
        return ends(sum((known[id(cell)] for cell in self.leaves), arb(0)))


def concentrated(side: Any) -> Span:
    """sup over orders a > 1 of D_a / a. psi(a) = (a - 1) D_a is convex, so that chords bound it between orders.

    Beyond the last order D_a / a <= sup L / a, below the first D_a / a <= D_first, as D_a rises with a.
    """
    values = [side.renyi(order, 1e-6) for order in _ORDERS]
    lower = max(low / order for (low, _), order in zip(values, _ORDERS, strict=True))
    upper = [values[0][1], side.supremum()[1] / _ORDERS[-1]]
    for (a, first), (b, second) in itertools.pairwise(zip(_ORDERS, (high for _, high in values), strict=True)):
        upper.append(_chord(a, first, b, second))
    return lower * (1 - 1e-15), max(upper) * (1 + 1e-15)


def stick(cell: Cell, epsilon: float, factor: Ball) -> Ball:
    """What the cell adds to delta(epsilon)."""
    low, high = cell.loss
    if high <= epsilon:
        return arb(0)
    if low >= epsilon:
        if not cell.rough:
            return cell.p if low == math.inf else cell.p - factor * cell.q
        inner = cell.p * -(epsilon - arb(low)).expm1() if math.isfinite(low) else cell.p
        outer = cell.p * -(epsilon - arb(high)).expm1() if math.isfinite(high) else cell.p
        return _hull(_tightest(cell.p - factor * cell.q, inner.union(outer)))
    least = (cell.p - factor * cell.q).lower()
    most = cell.outer().upper()
    if math.isfinite(high):
        most = most * -(epsilon - arb(high)).expm1()
    least, most = least if least > 0 else arb(0), most if most > 0 else arb(0)
    return _hull(least.union(most)) if most > least else least


def _moment(cell: Cell, order: float, shift: Ball) -> Ball:
    """What the cell adds to E_P e^((order - 1) (L - shift)): by Jensen at least what it adds as one outcome."""
    low, high = cell.loss
    if cell.p.is_exact() and cell.p == 0:
        return arb(0)
    if high == math.inf:
        return arb(0).union(arb("inf")) if low < high else arb("inf")
    power = arb(order) - 1
    if low == high and not cell.rough:
        return cell.p * (power * (arb(low) - shift)).exp()
    far = cell.outer()
    most = (power * (arb(high) - shift)).exp() * far
    if math.isfinite(low):
        rest = cell.p - far
        most = most + (power * (arb(low) - shift)).exp() * (rest if rest > 0 else rest.nonnegative_part())
    ratio = cell.p / cell.q
    least = cell.p * (power * (ratio.log() - shift)).exp() if ratio.is_finite() and ratio > 0 else arb(0)
    if math.isfinite(low):
        other = cell.p * (power * (arb(low) - shift)).exp()
        least = other if not least.lower() > other.lower() else least
    return least.lower().nonnegative_part().union(most.upper())


def _tightest(first: Ball, second: Ball) -> Ball:
    """Both enclose one number."""
    if not (first.is_finite() and second.is_finite()):
        return first if first.is_finite() else second
    low = first.lower() if first.lower() >= second.lower() else second.lower()
    high = first.upper() if first.upper() <= second.upper() else second.upper()
    return low.union(high)


def _hull(ball: Ball) -> Ball:
    return ball.nonnegative_part()


def _chord(a: float, first: float, b: float, second: float, pieces: int = 64) -> float:
    """Upper bound of psi(x) / (x (x - 1)) over [a, b] where psi lies below its chord, given D_a and D_b: piece by piece."""
    if not (math.isfinite(first) and math.isfinite(second)):
        return math.inf
    one, two = (arb(a) - 1) * first, (arb(b) - 1) * second
    slope = (two - one) / (arb(b) - a)
    best = 0.0
    for k in range(pieces):
        low, high = arb(a) + (arb(b) - a) * k / pieces, arb(a) + (arb(b) - a) * (k + 1) / pieces
        best = max(best, ends((one + slope * (high - a)) / (low * (low - 1)))[1])
    return best
