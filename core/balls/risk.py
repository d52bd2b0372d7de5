"""Regularized risk minimizers in ball arithmetic.

The module encloses loss derivatives over intervals, the law of the perturbed minimizer in dimension
1, and the exact minimizer. The one-dimensional law is that of argmin F(w) + b w. The function b(w)
= -F'(w) decreases in w, so P(low < w <= high) = P(b(high) <= b < b(low)). The density at w is the
density of the noise at b(w), times F''(w). In a difference between neighboring datasets the common
records cancel before anything is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb

from dpwitness.core.balls.ball import Ball, Span, endpoints, over, span
from dpwitness.core.balls.law import LaplaceLaw, LineLaw, NormalLaw
from dpwitness.core.balls.profiles import (
    GaussianProfile,
    LaplaceProfile,
    Radial,
    ShiftProfile,
    Singular,
)
from dpwitness.core.numerics.losses import Loss
from dpwitness.core.numerics.noise import SphericalNoise
from dpwitness.core.numerics.solvers import Problem, minimise


@dataclass(frozen=True, slots=True)
class Row:
    """A record: nonzero vector x, label y, and weight m (multiplicity times the scale
    of the loss).
    """

    x: tuple[float, ...]
    y: float
    m: float


def rows_of(problem: Problem) -> list[Row]:
    """Return the records of a problem."""
    return [
        Row(tuple(x), y, m)
        for x, y, m in zip(
            problem.columns.T.tolist(), problem.y.tolist(), problem.m.tolist(), strict=True
        )
    ]


Weighted = list[tuple[Row, Ball]]


def differing(first: Sequence[Row], second: Sequence[Row]) -> Weighted:
    """Return the records whose weights differ, each with its weight in `first` minus its weight in
    `second`.
    """
    weights: dict[tuple[tuple[float, ...], float], Ball] = {}
    for rows, sign in ((first, 1), (second, -1)):
        for row in rows:
            weights[row.x, row.y] = weights.get((row.x, row.y), arb(0)) + sign * arb(row.m)
    return [(Row(x, y, 1.0), m) for (x, y), m in weights.items() if not (m.is_exact() and m == 0)]


def shared(rows: Sequence[Row], gained: Weighted) -> Weighted:
    """Return the records that both problems have. `rows` are the records of the first problem, and
    `gained` those of its weights that the second problem lacks.
    """
    more = {(row.x, row.y): m for row, m in gained}
    left = [(row, m - more.get((row.x, row.y), arb(0))) for row, m in differing(rows, ())]
    return [(row, m) for row, m in left if m > 0]


def slope_at(loss: Loss, u: Ball, y: float) -> Ball:
    """Return the derivative l'(u; y) of the loss with scale 1; u may be infinite."""
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
    gap = (h + s - abs(r)).min(2 * s).max(arb(0))  # 2 s for |r| <= h - s, 0 for |r| >= h + s
    edge_slope = h - gap * gap / (4 * s)
    inner = r.max(-(h - s)).min(h - s)
    # For |r| <= h - s the slope is r; beyond, it has the sign of r and grows from h - s to h over
    # the smoothed part.
    extra = edge_slope - (h - s)
    return inner + (extra if r >= 0 else -extra if r <= 0 else extra.union(-extra))


def slope_over(loss: Loss, low: Ball, high: Ball, y: float) -> Ball:
    """Return an enclosure of l'(u; y) for u in [low, high]; the derivative is
    nondecreasing in u.
    """
    if loss.name == "linear":
        return arb(y)
    first, last = slope_at(loss, low, y), slope_at(loss, high, y)
    return first if low is high else first.union(last)


def curvature_over(loss: Loss, low: Ball, high: Ball, y: float) -> Ball:
    """Return an enclosure of the second derivative l''(u; y) for u in [low, high].

    The second derivative decreases with the distance from u to 0 (logistic loss) or to y (other
    losses).
    """
    if loss.name in ("linear", "squared"):
        return arb(2 if loss.name == "squared" else 0)
    middle = 0.0 if loss.name == "logistic" else y
    a, b = low - middle, high - middle
    far = abs(a).max(abs(b))
    near = a if a >= 0 else -b if b <= 0 else arb(0)
    return (
        _curvature_at(loss, near)
        if low is high
        else _curvature_at(loss, near).union(_curvature_at(loss, far))
    )


def _curvature_at(loss: Loss, size: Ball) -> Ball:
    """Return l'' at distance `size` from the center of the loss."""
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


def third_derivative_over(loss: Loss, low: Ball, high: Ball, y: float) -> Ball:
    """Return an enclosure of the third derivative l'''(u; y) for u in [low, high]; not a number if
    it may not exist.
    """
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
    return arb("nan")


@dataclass(frozen=True, slots=True)
class RiskLaw(LineLaw):
    """The law of argmin ridge w^2 / 2 + b w + sum m l(x w; y) in dimension 1.

    The noise b is Laplace with scale 1 / rate or N(0, 1 / rate^2).
    """

    rows: tuple[Row, ...]
    loss_of: Loss
    ridge: float
    kind: str  # "Laplace" or "normal"
    rate: float

    @classmethod
    def of(cls, problem: Problem, noise: SphericalNoise, axis: int = 0) -> RiskLaw:
        """Return the law along one axis, on which all records of the problem lie."""
        rows = tuple(Row((row.x[axis],), row.y, row.m) for row in rows_of(problem))
        return cls(
            rows,
            problem.loss,
            problem.ridge,
            "normal" if noise.kind == "gaussian" else "Laplace",
            noise.rate,
        )

    def pull(self, w: float) -> Ball:
        """Return the noise b(w) whose minimizer is w; minus infinity for w = infinity."""
        if math.isinf(w):
            return arb(-w)
        total = arb(self.ridge) * w
        for row in self.rows:
            total = total + arb(row.m) * row.x[0] * slope_at(self.loss_of, arb(w) * row.x[0], row.y)
        return -total

    @property
    def noise(self) -> NormalLaw | LaplaceLaw:
        """Return the law of the noise b."""
        return (NormalLaw if self.kind == "normal" else LaplaceLaw)(arb(0), 1 / arb(self.rate))

    def mass(self, low: float, high: float) -> Ball:
        """Return the mass of (low, high]."""
        return self.noise.mass(self.pull(high), self.pull(low)) if low < high else arb(0)

    def hessian(self, low: float, high: float, rows: Weighted | None = None) -> Ball:
        """Return an enclosure of the sum of m x^2 l'' over w in [low, high].

        Without `rows` the sum runs over all records and the ridge is added.
        """
        start, stop = arb(low), arb(high)
        total = arb(self.ridge) if rows is None else arb(0)
        for row, m in rows if rows is not None else [(row, arb(row.m)) for row in self.rows]:
            a, b = self._prediction(row, start, stop)
            total = total + m * arb(row.x[0]) * row.x[0] * curvature_over(self.loss_of, a, b, row.y)
        return total

    @staticmethod
    def _prediction(row: Row, start: Ball, stop: Ball) -> tuple[Ball, Ball]:
        """Return the lowest and highest prediction x w for w between the two balls."""
        a, b = start * row.x[0], stop * row.x[0]
        a, b = (a, b) if row.x[0] > 0 else (b, a)
        return (a, a) if start.is_exact() and start.is_finite() and start == stop else (a, b)

    def log_density(self, low: float, high: float) -> Ball:
        noise = self.noise.log_density(self.pull(high), self.pull(low))
        return noise + self.hessian(low, high).log()

    def loss(self, low: float, high: float, other: RiskLaw) -> Span:
        noise, jacobian = self.loss_parts(low, high, other)
        direct = add_spans(noise, jacobian)
        if low == high or math.isinf(low) or math.isinf(high):
            return direct
        slope = self._slope(low, high, other)
        if slope.is_nan():
            return direct
        middle = low / 2 + high / 2
        at = add_spans(*self.loss_parts(middle, middle, other))
        mean_value_form = add_spans(at, endpoints(slope * (over(low, high) - middle)))
        return max(direct[0], mean_value_form[0]), min(direct[1], mean_value_form[1])

    def _unbounded_slope_loss(
        self,
        low: float,
        high: float,
        rows: Weighted,
        here: tuple[Ball, Ball],
        there: tuple[Ball, Ball],
    ) -> Span:
        """Return float bounds on the noise part of the loss over a half-line on which the slopes
        are unbounded.

        Only squared losses with Laplace noise have a finite bound: the difference of the slopes, A
        w - B, is monotone on the half-line.
        """
        if (
            self.loss_of.name != "squared"
            or self.kind != "Laplace"
            or (math.isinf(low) and math.isinf(high))
        ):
            return -math.inf, math.inf
        at, out = (low, 1) if math.isinf(high) else (high, -1)
        a = sum((m * 2 * (arb(row.x[0]) * row.x[0]) for row, m in rows), arb(0)) * out
        start = sum(
            (m * row.x[0] * slope_at(self.loss_of, arb(at) * row.x[0], row.y) for row, m in rows),
            arb(0),
        )
        sign = _common_sign(here, there)
        edge = endpoints(sign * self.rate * start)
        if sign and a * sign > 0:
            return edge[0], math.inf
        return (-math.inf, edge[1]) if sign and a * sign < 0 else (-math.inf, math.inf)

    def _slope(self, low: float, high: float, other: RiskLaw) -> Ball:
        """Return an enclosure of dL/dw over the cell; not a number if the noise or a loss may have
        a kink inside.
        """
        start, stop = arb(low), arb(high)
        hessians = [law.hessian(low, high) for law in (self, other)]
        pulls = [law.pull(low).union(law.pull(high)) for law in (self, other)]

        def third(row: Row) -> Ball:
            """Return the record's contribution to the third derivative of the objective."""
            span = self._prediction(row, start, stop)
            cube = arb(row.x[0]) * row.x[0] * row.x[0]
            return arb(row.m) * cube * third_derivative_over(self.loss_of, *span, row.y)

        terms = [sum(map(third, law.rows), arb(0)) for law in (self, other)]
        jacobian = terms[0] / hessians[0] - terms[1] / hessians[1]
        if self.kind == "normal":
            return (pulls[0] * hessians[0] - pulls[1] * hessians[1]) * (
                arb(self.rate) * self.rate
            ) + jacobian
        slope_change = self.hessian(low, high, differing(self.rows, other.rows)) * self.rate
        if pulls[0] > 0 and pulls[1] > 0:
            return jacobian + slope_change
        if pulls[0] < 0 and pulls[1] < 0:
            return jacobian - slope_change
        if pulls[0] > 0 > pulls[1] or pulls[0] < 0 < pulls[1]:
            return jacobian + (hessians[0] + hessians[1]) * self.rate * (1 if pulls[0] > 0 else -1)
        return arb("nan")

    def _jacobian(self, low: float, high: float, rows: Weighted) -> Span:
        """Return float bounds on log (C + K) / (C + K'), where C is common to both Hessians.

        The expression is monotone in each of C, K and K', so that the corners bound it.
        """
        more = [(row, m) for row, m in rows if m > 0]
        less = [(row, -m) for row, m in rows if m < 0]
        gain, drop = (self.hessian(low, high, part).nonnegative_part() for part in (more, less))
        common = arb(self.ridge) + self.hessian(low, high, shared(self.rows, more))
        tops = [
            ((c + gain.upper()) / (c + drop.lower().nonnegative_part())).log()
            for c in (common.lower(), common.upper())
        ]
        bottoms = [
            ((c + gain.lower().nonnegative_part()) / (c + drop.upper())).log()
            for c in (common.lower(), common.upper())
        ]
        return span(*bottoms)[0], span(*tops)[1]

    def loss_parts(self, low: float, high: float, other: RiskLaw) -> tuple[Span, Span]:
        """Return float bounds on the noise part and the Jacobian part of the privacy loss over
        [low, high].
        """
        rows = differing(self.rows, other.rows)
        start, stop = arb(low), arb(high)
        slope = arb(0)  # F' of this problem minus F' of the other, which is b' - b
        for row, m in rows:
            slope = slope + m * row.x[0] * slope_over(
                self.loss_of, *self._prediction(row, start, stop), row.y
            )
        jacobian = self._jacobian(low, high, rows)
        # each pair in increasing order of b
        here, there = ((law.pull(high), law.pull(low)) for law in (self, other))
        if not slope.is_finite():
            return self._unbounded_slope_loss(low, high, rows, here, there), jacobian
        if self.kind == "normal":
            total = (endpoints(here[0] + there[0])[0], endpoints(here[1] + there[1])[1])
            return _multiply_spans(endpoints(slope * self.rate * self.rate / 2), total), jacobian
        sign = _common_sign(here, there)
        if sign:
            return endpoints(sign * self.rate * slope), jacobian
        most = endpoints(self.rate * abs(slope))[1]
        if all(b.is_finite() for b in (*here, *there)):
            low, high = endpoints(
                self.rate * (abs(there[0].union(there[1])) - abs(here[0].union(here[1])))
            )
            return (max(-most, low), min(most, high)), jacobian
        return (-most, most), jacobian


def _common_sign(first: tuple[Ball, Ball], second: tuple[Ball, Ball]) -> int:
    """Return the sign of all numbers in two intervals; 0 if they may differ in sign."""
    if first[0] >= 0 and second[0] >= 0:
        return 1
    return -1 if first[1] <= 0 and second[1] <= 0 else 0


def add_spans(first: Span, second: Span) -> Span:
    """Return the sum of two spans, rounded outward."""
    low, high = first[0] + second[0], first[1] + second[1]
    low, high = (-math.inf if math.isnan(low) else low), (math.inf if math.isnan(high) else high)
    return math.nextafter(low, -math.inf) if low > -math.inf else low, math.nextafter(
        high, math.inf
    ) if high < math.inf else high


def _multiply_spans(first: Span, second: Span) -> Span:
    """Return the product of two spans, rounded outward; zero times an infinite end is zero."""
    products = [0.0 if a == 0 or b == 0 else a * b for a in first for b in second]
    low, high = min(products), max(products)
    return (0.0 if low == 0 else math.nextafter(low, -math.inf)), (
        0.0 if high == 0 else math.nextafter(high, math.inf)
    )


def minimizer_ball(problem: Problem) -> list[Ball] | None:
    """Return an enclosure of the minimizer, coordinate by coordinate, or None if the loss has
    kinks.

    The minimizer lies within |gradient| / ridge of the approximate solution of the solver.
    """
    if not problem.loss.smooth:
        return None
    w = [arb(x) for x in minimise(problem).w.tolist()]
    gradient = gradient_over(problem, w)
    radius = sum((g * g for g in gradient), arb(0)).sqrt().upper() / problem.ridge
    error = radius.union(-radius)
    return [x + error for x in w]


def gradient_over(problem: Problem, w: Sequence[Ball]) -> list[Ball]:
    """Enclose the gradient of the objective without noise over a box of minimizers `w`."""
    gradient = [arb(problem.ridge) * x for x in w]
    for row in rows_of(problem):
        slope = arb(row.m) * slope_over(problem.loss, *prediction_over(w, row), row.y)
        gradient = [g + slope * x for g, x in zip(gradient, row.x, strict=True)]
    return gradient


def prediction_over(w: Sequence[Ball], row: Row) -> tuple[Ball, Ball]:
    """Return the lowest and highest prediction <w, x>, the same object if the two are equal."""
    u = sum((a * x for a, x in zip(w, row.x, strict=True)), arb(0))
    return (u, u) if u.is_exact() else (u.lower(), u.upper())


def shift_of(first: Problem, second: Problem, noise: SphericalNoise) -> ShiftProfile | None:
    """Return the pair "minimizer plus noise" as a shift of the noise; None if a minimizer cannot be
    enclosed.
    """
    one, other = minimizer_ball(first), minimizer_ball(second)
    if one is None or other is None:
        return None
    return shift_by([a - b for a, b in zip(one, other, strict=True)], noise)


def shift_by(vector: Sequence[Ball], noise: SphericalNoise) -> ShiftProfile:
    """Return the shift of the noise by a vector, whose length is all that matters: the density of
    the noise depends on the length of the noise vector only.
    """
    size = sum((x * x for x in vector), arb(0)).sqrt() * noise.rate
    if noise.kind == "gaussian":
        return GaussianProfile(size)
    if noise.dimension == 1:
        return LaplaceProfile(size)
    return Radial(size, noise.dimension) if noise.kind == "gamma" else Singular(size)
