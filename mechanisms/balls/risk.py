"""Regularised risk minimisers in balls: slopes and curvatures of the losses over spans, the perturbed minimiser on the line, the minimum.

The law of argmin F(w) + b w on the line: b(w) = -F'(w) falls in w, so that P(low < w <= high) = P(b(high) <= b < b(low)), and the density
is that of the noise at b(w) times F''(w). In a difference between neighbours the records that both hold cancel before anything is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb

from dpwitness.mechanisms.balls.ball import Ball, Span, ends, laplace_log_density, span
from dpwitness.mechanisms.balls.law import LineLaw
from dpwitness.mechanisms.balls.shift import Shift
from dpwitness.mechanisms.numerics.losses import Loss
from dpwitness.mechanisms.numerics.noise import SphericalNoise
from dpwitness.mechanisms.numerics.solvers import Problem, minimise


@dataclass(frozen=True, slots=True)
class Row:
    """A record x other than 0, its label, and how often it occurs times the loss's scale."""

    x: tuple[float, ...]
    y: float
    m: float


def rows_of(problem: Problem) -> list[Row]:
    """The records of a problem."""
    return [Row(tuple(x), y, m) for x, y, m in zip(problem.columns.T.tolist(), problem.y.tolist(), problem.m.tolist(), strict=True)]


def differing(first: Sequence[Row], second: Sequence[Row]) -> list[tuple[Row, Ball]]:
    """Records whose weights differ, with weight in `first` less weight in `second`."""
    weights: dict[tuple[tuple[float, ...], float], Ball] = {}
    for rows, sign in ((first, 1), (second, -1)):
        for row in rows:
            weights[row.x, row.y] = weights.get((row.x, row.y), arb(0)) + sign * arb(row.m)
    return [(Row(x, y, 1.0), m) for (x, y), m in weights.items() if not (m.is_exact() and m == 0)]


def slope_at(loss: Loss, u: Ball, y: float) -> Ball:
    """l'(u; y) with scale 1; u may be an infinity."""
    if loss.name == "logistic":
        return -y / (1 + (y * u).exp())
    if loss.name == "linear":
        return arb(y)
    r = u - y
    if loss.name == "squared":
        return 2 * r
    h = arb(loss.width)
    if loss.name == "log-cosh":
        return 1 - 2 / (1 + (2 * r / h).exp())
    if loss.name == "huber":
        return r.max(-h).min(h)
    s = arb(loss.smoothing)
    gap = (h + s - abs(r)).min(2 * s).max(arb(0))  # 2 s inside, 0 outside
    turn = h - gap * gap / (4 * s)
    inner = r.max(-(h - s)).min(h - s)
    # h - s + (part of the turn), with the sign of r: inside |r| <= h - s the turn adds nothing
    extra = turn - (h - s)
    return inner + (extra if r >= 0 else -extra if r <= 0 else extra.union(-extra))


def slope_over(loss: Loss, low: Ball, high: Ball, y: float) -> Ball:
    """l'(u; y) for u in [low, high]: it rises in u."""
    if loss.name == "linear":
        return arb(y)
    first, last = slope_at(loss, low, y), slope_at(loss, high, y)
    return first if low is high else first.union(last)


def curvature_over(loss: Loss, low: Ball, high: Ball, y: float) -> Ball:
    """l''(u; y) for u in [low, high]: it falls in the distance to u = 0 (logistic) or to u = y."""
    if loss.name in ("linear", "squared"):
        return arb(2 if loss.name == "squared" else 0)
    middle = 0.0 if loss.name == "logistic" else y
    a, b = low - middle, high - middle
    far = abs(a).max(abs(b))
    near = a if a >= 0 else -b if b <= 0 else arb(0)
    return _curvature_at(loss, near) if low is high else _curvature_at(loss, near).union(_curvature_at(loss, far))


def _curvature_at(loss: Loss, size: Ball) -> Ball:
    size = abs(size)
    if loss.name == "logistic":
        e = (-size).exp()
        return e / ((1 + e) * (1 + e))
    h = arb(loss.width)
    if loss.name == "log-cosh":
        e = (-2 * size / h).exp()
        return 4 * e / (h * (1 + e) * (1 + e))
    if loss.name == "huber":
        return arb(1) if size <= h else arb(0) if size > h else arb(0).union(arb(1))
    return ((h + arb(loss.smoothing) - size) / (2 * arb(loss.smoothing))).min(arb(1)).max(arb(0))


def third_over(loss: Loss, low: Ball, high: Ball, y: float) -> Ball | None:
    """l'''(u; y) for u in [low, high]; None where it may not exist."""
    if loss.name in ("linear", "squared"):
        return arb(0)
    u = low.union(high)
    if loss.name == "logistic":
        return -curvature_over(loss, low, high, y) * (u / 2).tanh()
    r, h = u - y, arb(loss.width)
    if loss.name == "log-cosh":
        return -2 * curvature_over(loss, low, high, y) * (r / h).tanh() / h
    s = arb(loss.smoothing) if loss.name == "smoothed-huber" else arb(0)
    size = abs(r)
    if size < h - s or size > h + s:
        return arb(0)
    if size > h - s and size < h + s:
        return (-1 if r > 0 else 1) / (2 * s)
    return None


def _ball(x: float) -> Ball:
    return arb("inf") if x == math.inf else arb("-inf") if x == -math.inf else arb(x)


@dataclass(frozen=True, slots=True)
class RiskLaw(LineLaw):
    """argmin ridge w^2 / 2 + b w + sum m l(x w; y), b Laplace of scale 1 / rate or N(0, 1 / rate^2), or b / ridge beside a minimum."""

    rows: tuple[Row, ...]
    loss_of: Loss
    ridge: float
    kind: str  # "Laplace" or "normal"
    rate: float

    @classmethod
    def of(cls, problem: Problem, noise: SphericalNoise, axis: int = 0) -> RiskLaw:
        """Along one axis, on which all records lie."""
        rows = tuple(Row((row.x[axis],), row.y, row.m) for row in rows_of(problem))
        return cls(rows, problem.loss, problem.ridge, "normal" if noise.kind == "gaussian" else "Laplace", noise.rate)

    def pull(self, w: float) -> Ball:
        """b(w); minus infinity for w = infinity."""
        if math.isinf(w):
            return _ball(-w)
        total = arb(self.ridge) * w
        for row in self.rows:
            total = total + arb(row.m) * row.x[0] * slope_at(self.loss_of, arb(w) * row.x[0], row.y)
        return -total

    def _tail(self, b: Ball) -> Ball:
        """P(noise > b)."""
        if not b.is_finite():
            return arb(0) if b > 0 else arb(1)
        if self.kind == "normal":
            return (b * self.rate / arb(2).sqrt()).erfc() / 2
        low, high = (self._laplace_tail(x) for x in (b.lower(), b.upper()))
        return low.union(high)

    def _laplace_tail(self, b: Ball) -> Ball:
        half = (-abs(b) * self.rate).exp() / 2
        return half if b >= 0 else 1 - half if b <= 0 else half.union(1 - half)

    def mass(self, low: float, high: float) -> Ball:
        if not low < high:
            return arb(0)
        near, far = self.pull(high), self.pull(low)
        if far <= 0:  # by the smaller tails
            return self._tail(-far) - self._tail(-near)
        return self._tail(near) - self._tail(far)

    def hessian(self, low: float, high: float, rows: Sequence[tuple[Row, Ball]] | None = None) -> Ball:
        """Sum of m x^2 l'' over [low, high], with the ridge where no rows are named."""
        start, stop = _ball(low), _ball(high)
        total = arb(self.ridge) if rows is None else arb(0)
        for row, m in rows if rows is not None else [(row, arb(row.m)) for row in self.rows]:
            a, b = self._prediction(row, start, stop)
            total = total + m * arb(row.x[0]) * row.x[0] * curvature_over(self.loss_of, a, b, row.y)
        return total

    @staticmethod
    def _prediction(row: Row, start: Ball, stop: Ball) -> tuple[Ball, Ball]:
        a, b = start * row.x[0], stop * row.x[0]
        a, b = (a, b) if row.x[0] > 0 else (b, a)
        return (a, a) if start.is_exact() and start.is_finite() and start == stop else (a, b)

    def log_density(self, low: float, high: float) -> Ball:
        if math.isinf(low) or math.isinf(high):
            return arb("nan")
        b = self.pull(low) if low == high else self.pull(low).union(self.pull(high))
        if self.kind == "normal":
            z = b * self.rate
            noise = -z * z / 2 + arb(self.rate).log() - (2 * arb.pi()).log() / 2
        else:
            noise = laplace_log_density(b, 1 / arb(self.rate))
        return noise + self.hessian(low, high).log()

    def loss(self, low: float, high: float, other: RiskLaw) -> Span:
        noise, jacobian = self.loss_parts(low, high, other)
        plain = add_spans(noise, jacobian)
        if low == high or math.isinf(low) or math.isinf(high):
            return plain
        slope = self._slope(low, high, other)
        if slope is None:
            return plain
        middle = low / 2 + high / 2
        at = add_spans(*self.loss_parts(middle, middle, other))
        reach = ends(slope * (arb(low).union(arb(high)) - middle))
        centred = add_spans(at, reach)
        return max(plain[0], centred[0]), min(plain[1], centred[1])

    def _endless(
        self, low: float, high: float, rows: Sequence[tuple[Row, Ball]], here: tuple[Ball, Ball], there: tuple[Ball, Ball]
    ) -> Span:
        """What the noise adds over a half-line where slopes have no bound: squared losses, whose difference A w - B is monotone there."""
        if self.loss_of.name != "squared" or self.kind != "Laplace" or (math.isinf(low) and math.isinf(high)):
            return -math.inf, math.inf
        at, out = (low, 1) if math.isinf(high) else (high, -1)
        a = sum((m * 2 * (arb(row.x[0]) * row.x[0]) for row, m in rows), arb(0)) * out
        start = sum((m * row.x[0] * slope_at(self.loss_of, arb(at) * row.x[0], row.y) for row, m in rows), arb(0))
        sign = 1 if here[0] >= 0 and there[0] >= 0 else -1 if here[1] <= 0 and there[1] <= 0 else 0
        edge = ends(sign * self.rate * start)
        if sign and a * sign > 0:
            return edge[0], math.inf
        return (-math.inf, edge[1]) if sign and a * sign < 0 else (-math.inf, math.inf)

    def _slope(self, low: float, high: float, other: RiskLaw) -> Ball | None:
        """dL/dw over the cell; None where a kink of the noise or of a loss may lie inside."""
        start, stop = arb(low), arb(high)
        bends = [law.hessian(low, high) for law in (self, other)]
        pulls = [law.pull(low).union(law.pull(high)) for law in (self, other)]
        turns = []
        for law in (self, other):
            total = arb(0)
            for row in law.rows:
                third = third_over(self.loss_of, *self._prediction(row, start, stop), row.y)
                if third is None:
                    return None
                total = total + arb(row.m) * (arb(row.x[0]) * row.x[0] * row.x[0]) * third
            turns.append(total)
        jacobian = turns[0] / bends[0] - turns[1] / bends[1]
        if self.kind == "normal":
            return (pulls[0] * bends[0] - pulls[1] * bends[1]) * (arb(self.rate) * self.rate) + jacobian
        change = self.hessian(low, high, differing(self.rows, other.rows)) * self.rate
        if pulls[0] > 0 and pulls[1] > 0:
            return jacobian + change
        if pulls[0] < 0 and pulls[1] < 0:
            return jacobian - change
        if pulls[0] > 0 > pulls[1] or pulls[0] < 0 < pulls[1]:
            return jacobian + (bends[0] + bends[1]) * self.rate * (1 if pulls[0] > 0 else -1)
        return None

    def _jacobian(self, low: float, high: float, rows: Sequence[tuple[Row, Ball]]) -> Span:
        """log (C + K) / (C + K'), C common to both: monotone in each of the three, so that corners bound it."""
        more = [(row, m) for row, m in rows if m > 0]
        less = [(row, -m) for row, m in rows if m < 0]
        gained, lost = (self.hessian(low, high, part).nonnegative_part() for part in (more, less))
        common = self._common(low, high, more)
        tops = [((c + gained.upper()) / (c + lost.lower().nonnegative_part())).log() for c in (common.lower(), common.upper())]
        bottoms = [((c + gained.lower().nonnegative_part()) / (c + lost.upper())).log() for c in (common.lower(), common.upper())]
        return span(*bottoms)[0], span(*tops)[1]

    def _common(self, low: float, high: float, more: Sequence[tuple[Row, Ball]]) -> Ball:
        """Ridge and Hessian of the records that both hold, each as often as the one that holds it less often."""
        extra = {(row.x, row.y): m for row, m in more}
        kept = [(row, arb(row.m) - extra.get((row.x, row.y), arb(0))) for row in self.rows]
        return arb(self.ridge) + self.hessian(low, high, [(row, m) for row, m in kept if m > 0])

    def loss_parts(self, low: float, high: float, other: RiskLaw) -> tuple[Span, Span]:
        """Spans over [low, high] of what the noise and what the Jacobian add to the loss."""
        rows = differing(self.rows, other.rows)
        start, stop = _ball(low), _ball(high)
        slope = arb(0)  # F' of this problem less that of the other: b' - b
        for row, m in rows:
            slope = slope + m * row.x[0] * slope_over(self.loss_of, *self._prediction(row, start, stop), row.y)
        jacobian = self._jacobian(low, high, rows)
        here, there = ((law.pull(high), law.pull(low)) for law in (self, other))  # each from the least to the largest b
        if not slope.is_finite():
            return self._endless(low, high, rows, here, there), jacobian
        if self.kind == "normal":
            total = (ends(here[0] + there[0])[0], ends(here[1] + there[1])[1])
            return _times(ends(slope * self.rate * self.rate / 2), total), jacobian
        if here[0] >= 0 and there[0] >= 0:
            return ends(self.rate * slope), jacobian
        if here[1] <= 0 and there[1] <= 0:
            return ends(-self.rate * slope), jacobian
        most = ends(self.rate * abs(slope))[1]
        if all(b.is_finite() for b in (*here, *there)):
            low, high = ends(self.rate * (abs(there[0].union(there[1])) - abs(here[0].union(here[1]))))
            return (max(-most, low), min(most, high)), jacobian
        return (-most, most), jacobian


def add_spans(first: Span, second: Span) -> Span:
    """Sum, rounded outwards."""
    low, high = first[0] + second[0], first[1] + second[1]
    low, high = (-math.inf if math.isnan(low) else low), (math.inf if math.isnan(high) else high)
    return math.nextafter(low, -math.inf) if low > -math.inf else low, math.nextafter(high, math.inf) if high < math.inf else high


def _times(first: Span, second: Span) -> Span:
    """Product, rounded outwards; zero times an infinite end is zero."""
    products = [0.0 if a == 0 or b == 0 else a * b for a in first for b in second]
    low, high = min(products), max(products)
    return (0.0 if low == 0 else math.nextafter(low, -math.inf)), (0.0 if high == 0 else math.nextafter(high, math.inf))


def minimum_ball(problem: Problem) -> list[Ball] | None:
    """The minimiser, coordinate by coordinate: within |gradient| / ridge of the solver's answer. None for losses with kinks."""
    if not problem.loss.smooth:
        return None
    w = minimise(problem).w.tolist()
    gradient = [arb(problem.ridge) * x for x in w]
    for row in rows_of(problem):
        u = sum((arb(a) * x for a, x in zip(w, row.x, strict=True)), arb(0))
        slope = arb(row.m) * slope_at(problem.loss, u, row.y)
        gradient = [g + slope * x for g, x in zip(gradient, row.x, strict=True)]
    radius = sum((g * g for g in gradient), arb(0)).sqrt().upper() / problem.ridge
    error = radius.union(-radius)
    return [arb(x) + error for x in w]


def shift_of(first: Problem, second: Problem, noise: SphericalNoise) -> Shift | None:
    """Minimum plus noise as a shift, where the noise's density depends on the length of what is added."""
    places = minimum_ball(first), minimum_ball(second)
    if places[0] is None or places[1] is None:
        return None
    size = sum(((a - b) * (a - b) for a, b in zip(places[0], places[1], strict=True)), arb(0)).sqrt() * noise.rate
    if noise.kind == "gaussian":
        return Shift("normal", size, noise.dimension)
    if noise.dimension == 1:
        return Shift("Laplace", size)
    return Shift("gamma" if noise.kind == "gamma" else "radius", size, noise.dimension)
