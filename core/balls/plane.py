"""Privacy loss of a perturbed minimizer in the plane, for noise with density proportional to
exp(-rate |b|).

The loss is bounded over boxes and over regions outside a circle. It is L = rate (|b'| - |b|) + log
det H - log det H'. Let s = b' - b be the difference of the two gradients. Convexity of the norm
gives s.b / |b| <= |b'| - |b| <= s.b' / |b'|. Outside a circle of radius R let w = r n. The
direction of b is that of b / r, where 1/r <= 1/R ranges over a separate interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flint import arb

from dpwitness.core.balls.ball import Ball, Span, endpoints, over
from dpwitness.core.balls.risk import Row, curvature_over, differing, rows_of, slope_over
from dpwitness.core.numerics.losses import Loss
from dpwitness.core.numerics.solvers import Problem

Weighted = list[tuple[Row, Ball]]


@dataclass(frozen=True, slots=True)
class PlaneLoss:
    """Privacy loss of a pair of problems in the plane; the problem on D1 comes first."""

    loss: Loss
    ridge: float
    rate: float
    first: tuple[Row, ...]
    second: tuple[Row, ...]
    slopes: Weighted  # records whose gradients do not cancel in the difference
    constant: tuple[Ball, Ball]  # the part of the gradient difference that does not depend on w
    # records whose curvature has more weight in the first problem; `lost`: in the second
    gained: Weighted
    lost: Weighted

    @classmethod
    def of(cls, first: Problem, second: Problem, rate: float) -> PlaneLoss:
        """Return the privacy loss of two problems; records that cancel are dropped from the
        differences.
        """
        rows, others = rows_of(first), rows_of(second)
        slopes, constant = _gradient_change(first.loss, differing(rows, others))
        representatives = [
            [_curvature_representative(first.loss, row) for row in side] for side in (rows, others)
        ]
        curvature_difference = differing(*representatives)
        gained = [(row, m) for row, m in curvature_difference if m > 0]
        lost = [(row, -m) for row, m in curvature_difference if m < 0]
        return cls(
            first.loss,
            first.ridge,
            rate,
            tuple(rows),
            tuple(others),
            slopes,
            constant,
            gained,
            lost,
        )

    def turned(self) -> PlaneLoss:
        """Return the privacy loss of the swapped pair."""
        a, b = self.constant
        slopes = [(row, -m) for row, m in self.slopes]
        return PlaneLoss(
            self.loss,
            self.ridge,
            self.rate,
            self.second,
            self.first,
            slopes,
            (-a, -b),
            self.lost,
            self.gained,
        )

    def over(self, box: Sequence[Span]) -> Span:
        """Return float bounds on the loss over a bounded box."""
        w = [over(*s) for s in box]

        def prediction(row: Row) -> tuple[Ball, Ball]:
            """Return the lowest and highest prediction of a record over the box."""
            u = w[0] * row.x[0] + w[1] * row.x[1]
            return u.lower(), u.upper()

        return self._span(_LossDerivatives(self.loss, prediction), w, arb(1))

    def beyond(self, radius: float, arc: Span, inverse: Span = (0.0, 1.0)) -> Span:
        """Return float bounds on the loss outside a circle of radius R = `radius`.

        The bounds hold for w = r n with the angle of n in `arc` and R / r in `inverse`.
        """
        angle = over(*arc)
        n = [angle.cos(), angle.sin()]
        near = arb(radius) / inverse[1]
        far = arb(radius) / inverse[0] if inverse[0] > 0 else arb("inf")

        def prediction(row: Row) -> tuple[Ball, Ball]:
            """Return the lowest and highest prediction of a record over the region."""
            along = n[0] * row.x[0] + n[1] * row.x[1]
            low, high = along.lower(), along.upper()
            return (low * (near if low > 0 else far)).lower(), (
                high * (far if high > 0 else near)
            ).upper()

        return self._span(_LossDerivatives(self.loss, prediction), n, over(*inverse) / radius)

    def _span(self, derivatives: _LossDerivatives, direction: list[Ball], per_length: Ball) -> Span:
        """Return float bounds on the loss, given enclosures of the loss derivatives.

        `direction` encloses w and `per_length` is 1 for a box; outside a circle they enclose w /
        |w| and 1 / |w|.
        """
        shift = list(self.constant)
        for row, m in self.slopes:
            slope = m * derivatives.slope(row)
            shift = [total + slope * x for total, x in zip(shift, row.x, strict=True)]
        sides = []
        for rows in (self.first, self.second):
            pull = [arb(self.ridge) * x for x in direction]
            for row in rows:
                slope = arb(row.m) * derivatives.slope(row) * per_length
                pull = [total + slope * x for total, x in zip(pull, row.x, strict=True)]
            sides.append([-x for x in pull])
        most = _length(shift).upper()
        low, high = (
            self._projected_shift(derivatives, sides[0], most)[0],
            self._projected_shift(derivatives, sides[1], most)[1],
        )
        # over a box the lengths themselves give a second bound
        if per_length.is_exact() and per_length == 1:
            length_difference = _length(sides[1]) - _length(sides[0])
            low, high = (
                max(low, endpoints(length_difference)[0]),
                min(high, endpoints(length_difference)[1]),
            )
        noise = endpoints(self.rate * arb(low))[0], endpoints(self.rate * arb(high))[1]
        jacobian = self._jacobian(derivatives)
        down, up = noise[0] + jacobian[0], noise[1] + jacobian[1]
        return math.nextafter(down, -math.inf), math.nextafter(up, math.inf)

    def _projected_shift(
        self, derivatives: _LossDerivatives, direction: list[Ball], most: Ball
    ) -> Span:
        """Return float bounds on s.d / |d|, which is at most |s| in absolute value.

        The sum runs record by record: a slope with a wide enclosure matters little across the
        direction of its record.
        """
        length, top = _length(direction), endpoints(most)[1]
        if not length > 0:
            return -top, top
        unit = [x / length for x in direction]
        total = self.constant[0] * unit[0] + self.constant[1] * unit[1]
        for row, m in self.slopes:
            total = total + m * derivatives.slope(row) * (unit[0] * row.x[0] + unit[1] * row.x[1])
        low, high = endpoints(total)
        return max(low, -top), min(high, top)

    def _jacobian(self, derivatives: _LossDerivatives) -> Span:
        """Return float bounds on log det (C + K) / det (C + K'), where C is the curvature common to
        both problems.
        """
        first_rows = list(self.first)
        extra = {(row.x, row.y): m for row, m in self.gained}
        common: Weighted = []
        for row in (_curvature_representative(self.loss, r) for r in first_rows):
            m = (
                arb(row.m) - extra.pop((row.x, row.y), arb(0))
                if (row.x, row.y) in extra
                else arb(row.m)
            )
            if m > 0:
                common.append((row, m))
        up, down = (self._log_gain(common, rows, derivatives) for rows in (self.gained, self.lost))
        return endpoints(up - down)

    def _log_gain(self, common: Weighted, more: Weighted, derivatives: _LossDerivatives) -> Ball:
        """Return log det (C + K) / det C for C = ridge I + the sum over `common`, K = the sum over
        `more`.

        Let k be the weight times curvature of a row, and x ^ y = x1 y2 - x2 y1. By the Cauchy-Binet
        formula, det C = ridge^2 + ridge sum k |x|^2 + the sum over pairs of k k' (x ^ x')^2. Also
        x^T adj(C) x = ridge |x|^2 + sum k' (x ^ x')^2. All terms are nonnegative, so that nothing
        cancels.
        """
        if not more:
            return arb(0)
        ridge = arb(self.ridge)
        base = [(row.x, (m * derivatives.curvature(row)).nonnegative_part()) for row, m in common]
        gain = [(row.x, (m * derivatives.curvature(row)).nonnegative_part()) for row, m in more]
        squares = [arb(x[0]) * x[0] + arb(x[1]) * x[1] for x, _ in base]
        determinant = ridge * ridge + ridge * sum(
            (k * q for (_, k), q in zip(base, squares, strict=True)), arb(0)
        )
        for a, (x, k) in enumerate(base):
            for y, other in base[:a]:
                determinant = determinant + k * other * _squared_wedge(x, y)
        total = arb(0)
        for a, (x, k) in enumerate(gain):
            square = arb(x[0]) * x[0] + arb(x[1]) * x[1]
            adjoint = ridge * square + sum(
                (other * _squared_wedge(x, y) for y, other in base), arb(0)
            )
            most = (square / ridge).upper()
            total = total + k * (adjoint / determinant).nonnegative_part().min(most)
            for y, other in gain[:a]:
                total = total + k * other * _squared_wedge(x, y) / determinant
        return total.nonnegative_part().log1p()


def _squared_wedge(x: tuple[float, ...], y: tuple[float, ...]) -> Ball:
    cross = abs(arb(x[0]) * y[1] - arb(x[1]) * y[0])
    return cross * cross


class _LossDerivatives:
    """First and second derivatives of the loss at the records over one cell, each computed once."""

    def __init__(self, loss: Loss, prediction: Callable[[Row], tuple[Ball, Ball]]) -> None:
        self._loss, self._prediction = loss, prediction
        self._spans: dict[tuple[float, ...], tuple[Ball, Ball]] = {}
        self._slopes: dict[tuple[tuple[float, ...], float], Ball] = {}
        self._curvatures: dict[tuple[tuple[float, ...], float], Ball] = {}

    def _span(self, row: Row) -> tuple[Ball, Ball]:
        """Return the lowest and highest prediction of a record over the cell."""
        if row.x not in self._spans:
            self._spans[row.x] = self._prediction(row)
        return self._spans[row.x]

    def slope(self, row: Row) -> Ball:
        """Return an enclosure of l' at a record."""
        key = row.x, row.y
        if key not in self._slopes:
            self._slopes[key] = slope_over(self._loss, *self._span(row), row.y)
        return self._slopes[key]

    def curvature(self, row: Row) -> Ball:
        """Return an enclosure of l'' at a record."""
        key = row.x, row.y
        if key not in self._curvatures:
            self._curvatures[key] = curvature_over(self._loss, *self._span(row), row.y)
        return self._curvatures[key]


def _length(v: list[Ball]) -> Ball:
    """Return the Euclidean length of a vector of balls."""
    return sum((abs(x) * abs(x) for x in v), arb(0)).nonnegative_part().sqrt()


def _curvature_representative(loss: Loss, row: Row) -> Row:
    """Return a representative of all records that have the same curvature as `row`.

    The curvature of the logistic loss depends neither on the label nor on the sign of x; other
    losses return `row` itself.
    """
    if loss.name != "logistic":
        return row
    sign = 1.0 if row.x > (0.0,) * len(row.x) else -1.0
    return Row(tuple(sign * x + 0.0 for x in row.x), 1.0, row.m)


def _gradient_change(loss: Loss, rows: Weighted) -> tuple[Weighted, tuple[Ball, Ball]]:
    """Return the records that make up the gradient difference, and its constant part.

    Logistic records v = y x and -v are merged: their gradients -v s(-u) and v s(u) differ by the
    constant v.
    """
    constant = (arb(0), arb(0))
    if loss.name != "logistic":
        return rows, constant
    weights: dict[tuple[float, ...], Ball] = {}
    for row, m in rows:
        v = tuple(row.y * x + 0.0 for x in row.x)
        opposite = tuple(-x + 0.0 for x in v)
        if opposite in weights:  # m (grad of v) = m (grad of -v) - m v
            weights[opposite] = weights[opposite] + m
            constant = (constant[0] - m * v[0], constant[1] - m * v[1])
        else:
            weights[v] = weights.get(v, arb(0)) + m
    return [
        (Row(v, 1.0, 1.0), m) for v, m in weights.items() if not (m.is_exact() and m == 0)
    ], constant
