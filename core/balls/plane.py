"""Privacy loss of a perturbed minimizer in the plane, for noise with density proportional to
exp(-rate |b|).

The loss is bounded over boxes and over regions outside a circle. It is L = rate (|b'| - |b|) + log
det H - log det H'. Let s = b' - b be the difference of the two gradients. Convexity of the norm
gives s.b / |b| <= |b'| - |b| <= s.b' / |b'|. Outside a circle of radius R let w = r n. The
direction of b is that of b / r, where 1/r <= 1/R ranges over a separate interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from flint import arb

from dpwitness.core.balls.ball import Ball, Span, endpoints, over
from dpwitness.core.balls.risk import (
    Row,
    Weighted,
    add_spans,
    curvature_over,
    differing,
    rows_of,
    shared,
    slope_over,
)
from dpwitness.core.numerics.losses import Loss
from dpwitness.core.numerics.solvers import Problem


class PlaneLoss:
    """Privacy loss of a pair of problems in the plane; the problem on D1 comes first."""

    def __init__(self, first: Problem, second: Problem, rate: float) -> None:
        self.problems, self.rate = (first, second), rate
        self.loss, self.ridge = first.loss, first.ridge
        self.rows = rows_of(first), rows_of(second)
        # records whose gradients do not cancel in the difference, and its part that does not
        # depend on w
        self.slopes, self.constant = _gradient_change(self.loss, differing(*self.rows))
        representatives = [
            [_curvature_representative(self.loss, row) for row in side] for side in self.rows
        ]
        change = differing(*representatives)
        # records whose curvature has more weight in the first problem, in the second, and the rest
        self.gained = [(row, m) for row, m in change if m > 0]
        self.lost = [(row, -m) for row, m in change if m < 0]
        self.common = shared(representatives[0], self.gained)

    def turned(self) -> PlaneLoss:
        """Return the privacy loss of the swapped pair."""
        return PlaneLoss(self.problems[1], self.problems[0], self.rate)

    def over(self, box: Sequence[Span]) -> Span:
        """Return float bounds on the loss over a bounded box."""
        w = [over(*s) for s in box]

        def prediction(x: tuple[float, ...]) -> tuple[Ball, Ball]:
            """Return the lowest and highest prediction of a record over the box."""
            u = w[0] * x[0] + w[1] * x[1]
            return u.lower(), u.upper()

        return self._span(prediction, w, arb(1))

    def beyond(self, radius: float, arc: Span, inverse: Span = (0.0, 1.0)) -> Span:
        """Return float bounds on the loss outside a circle of radius R = `radius`.

        The bounds hold for w = r n with the angle of n in `arc` and R / r in `inverse`.
        """
        angle = over(*arc)
        n = [angle.cos(), angle.sin()]
        near = arb(radius) / inverse[1]
        far = arb(radius) / inverse[0] if inverse[0] > 0 else arb("inf")

        def prediction(x: tuple[float, ...]) -> tuple[Ball, Ball]:
            """Return the lowest and highest prediction of a record over the region."""
            along = n[0] * x[0] + n[1] * x[1]
            low, high = along.lower(), along.upper()
            return (low * (near if low > 0 else far)).lower(), (
                high * (far if high > 0 else near)
            ).upper()

        return self._span(prediction, n, over(*inverse) / radius)

    def _span(
        self,
        prediction: Callable[[tuple[float, ...]], tuple[Ball, Ball]],
        direction: list[Ball],
        per_length: Ball,
    ) -> Span:
        """Return float bounds on the loss over a cell, from the lowest and highest prediction of
        each record there.

        `direction` encloses w and `per_length` is 1 for a box; outside a circle they enclose w /
        |w| and 1 / |w|.
        """
        predicted = cache(prediction)

        @cache
        def slope(row: Row) -> Ball:
            """Return an enclosure of l' at a record."""
            return slope_over(self.loss, *predicted(row.x), row.y)

        @cache
        def curvature(row: Row) -> Ball:
            """Return an enclosure of l'' at a record, at least 0."""
            return curvature_over(self.loss, *predicted(row.x), row.y).nonnegative_part()

        shift = list(self.constant)
        for row, m in self.slopes:
            pull = m * slope(row)
            shift = [total + pull * x for total, x in zip(shift, row.x, strict=True)]
        sides = []
        for rows in self.rows:
            noise = [-self.ridge * x for x in direction]
            for row in rows:
                pull = arb(row.m) * slope(row) * per_length
                noise = [total - pull * x for total, x in zip(noise, row.x, strict=True)]
            sides.append(noise)
        most = _length(shift).upper()
        low, high = (
            self._projected_shift(slope, sides[0], most)[0],
            self._projected_shift(slope, sides[1], most)[1],
        )
        # over a box the lengths themselves give a second bound
        if per_length.is_exact() and per_length == 1:
            length_difference = _length(sides[1]) - _length(sides[0])
            low, high = (
                max(low, endpoints(length_difference)[0]),
                min(high, endpoints(length_difference)[1]),
            )
        # log det (C + K) / det (C + K'), where C is the curvature common to both problems
        gain, drop = (self._log_gain(rows, curvature) for rows in (self.gained, self.lost))
        return add_spans(
            (endpoints(self.rate * arb(low))[0], endpoints(self.rate * arb(high))[1]),
            endpoints(gain - drop),
        )

    def _projected_shift(
        self, slope: Callable[[Row], Ball], direction: list[Ball], most: Ball
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
            total = total + m * slope(row) * (unit[0] * row.x[0] + unit[1] * row.x[1])
        low, high = endpoints(total)
        return max(low, -top), min(high, top)

    def _log_gain(self, more: Weighted, curvature: Callable[[Row], Ball]) -> Ball:
        """Return log det (C + K) / det C for C = ridge I + the sum over the common records, K = the
        sum over `more`.

        Let k be the weight times curvature of a row, and x ^ y = x1 y2 - x2 y1. By the Cauchy-Binet
        formula, det C = ridge^2 + ridge sum k |x|^2 + the sum over pairs of k k' (x ^ x')^2. Also
        x^T adj(C) x = ridge |x|^2 + sum k' (x ^ x')^2. All terms are nonnegative, so that nothing
        cancels.
        """
        if not more:
            return arb(0)
        ridge = arb(self.ridge)
        base = [(row.x, m * curvature(row)) for row, m in self.common]
        gain = [(row.x, m * curvature(row)) for row, m in more]
        squares = [arb(x[0]) * x[0] + arb(x[1]) * x[1] for x, _ in base]
        determinant = ridge * ridge + ridge * sum(
            (k * q for (_, k), q in zip(base, squares, strict=True)), arb(0)
        )
        determinant = sum(
            (
                k * other * _squared_wedge(x, y)
                for a, (x, k) in enumerate(base)
                for y, other in base[:a]
            ),
            determinant,
        )
        total = arb(0)
        for a, (x, k) in enumerate(gain):
            square = arb(x[0]) * x[0] + arb(x[1]) * x[1]
            adjoint = ridge * square + sum(
                (other * _squared_wedge(x, y) for y, other in base), arb(0)
            )
            most = (square / ridge).upper()
            total = total + k * (adjoint / determinant).nonnegative_part().min(most)
            pairs = (k * other * _squared_wedge(x, y) / determinant for y, other in gain[:a])
            total = sum(pairs, total)
        return total.nonnegative_part().log1p()


def _squared_wedge(x: tuple[float, ...], y: tuple[float, ...]) -> Ball:
    cross = abs(arb(x[0]) * y[1] - arb(x[1]) * y[0])
    return cross * cross


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
