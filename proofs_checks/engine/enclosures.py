"""Branch and bound with python-flint balls: proves the sign of a function on a box of parameters.

Every operation on a ball rounds outwards (Johansson 2017, Arb), so an enclosure holds for each
point of its cell.

The Gaussian mechanism is enclosed without cancellation. With Q the normal tail, phi the density and
m = Q / phi the Mills ratio, its exact delta (Balle and Wang 2018) is Q(a) - e^epsilon Q(b), where
a = epsilon/mu - mu/2 and b = a + mu. Since b^2 - a^2 = 2 epsilon, e^epsilon phi(b) = phi(a), so
delta = phi(a) (m(a) - m(b)).
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from flint import arb, ctx

from dpwitness.core import InvalidArgument
from dpwitness.core.balls.ball import down, endpoints, up
from dpwitness.core.values.validation import require_finite

Ball: TypeAlias = arb

PRECISION = 160  # bits for differences of Mills ratios; enough for arguments up to 1e4
LEAST_WIDTH = 1e-12  # relative width; thinner cells are not split


class Contradiction(ArithmeticError):
    """Error: the enclosures of two formulas for the same number are disjoint, so one formula is
    wrong.
    """


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Floats with lower <= value <= upper at every point of a cell; `at` is the inner point whose
    value gives `lower`.
    """

    lower: float
    upper: float
    at: float | None = None

    def union(self, other: Enclosure) -> Enclosure:
        """Return the hull of two enclosures: the smaller `lower`, with its point, and the larger
        `upper`.
        """
        low = self if self.lower <= other.lower else other
        return Enclosure(low.lower, max(self.upper, other.upper), low.at)


class Box(Mapping[str, tuple[float, float]]):
    """Closed ranges of named parameters, as in `Box(epsilon=(0.01, 10))`. A number is a range with
    one point.
    """

    def __init__(self, **ranges: float | tuple[float, float]) -> None:
        self._ranges = {name: _checked_range(name, value) for name, value in ranges.items()}

    def __getitem__(self, name: str) -> tuple[float, float]:
        return self._ranges[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def __repr__(self) -> str:
        return f"Box({', '.join(f'{name}=({low!r}, {high!r})' for name, (low, high) in self._ranges.items())})"  # noqa: E501

    def balls(self) -> dict[str, Ball]:
        """Return one ball per parameter that contains its range."""
        return {name: interval(low, high) for name, (low, high) in self._ranges.items()}

    def corners(self) -> list[Box]:
        """Return the corners of the box, each as a box with one point."""
        return [
            Box(**dict(zip(self._ranges, ends, strict=True)))
            for ends in itertools.product(*self._ranges.values())
        ]

    def halves(self) -> tuple[Box, Box] | None:
        """Return both halves of the box, cut across the relatively longest side; None if every side
        is too thin.
        """
        width, name = max(
            (math.log(high / low) if low > 0 else high - low, name)
            for name, (low, high) in self._ranges.items()
        )
        low, high = self._ranges[name]
        cut = math.sqrt(low * high) if low > 0 and high > 2 * low else _midpoint(low, high)
        if width < LEAST_WIDTH or not low < cut < high:
            return None
        return Box(**{**self._ranges, name: (low, cut)}), Box(**{**self._ranges, name: (cut, high)})


Cell: TypeAlias = tuple[Box, float, Enclosure]  # with its share of the box, and the value on it


@dataclass(frozen=True, slots=True)
class SignMap:
    """Result of branch and bound: shares of the box with a proved sign, and the extreme values.

    Each bisection halves a cell's share.
    """

    enclosure: Enclosure  # enclosure of the maximum over the box
    settled: list[Cell]  # cells with a proved sign
    remaining: list[Cell]  # cells without one, with a value that was proved on a larger cell
    # cell, or corner of the box, on which the value is proved positive, with the largest proved
    # lower bound, and the enclosure of the value over it
    counterexample: Box | None
    counterexample_value: Enclosure | None
    cells: int  # number of cells evaluated
    finished: bool  # false if the time limit ended the search

    @property
    def positive(self) -> float:
        """Return the share of the box where the value is proved > 0."""
        return sum(share for _, share, value in self.settled if value.lower > 0)

    @property
    def negative(self) -> float:
        """Return the share of the box where the value is proved <= 0."""
        return sum(share for _, share, value in self.settled if value.upper <= 0)

    @property
    def undecided(self) -> float:
        """Return the share of the box without a proved sign."""
        return sum(share for _, share, _ in self.remaining)


def interval(low: float, high: float) -> Ball:
    """Return a ball that contains [low, high]; if low >= 0, the ball contains no
    negative number.
    """
    ball = arb(low) if low == high else arb(low).union(arb(high))
    return ball.nonnegative_part() if low >= 0 else ball


def enclose(ball: Ball, at: float | None = None) -> Enclosure:
    """Return the endpoints of a ball as floats, rounded outwards.

    Parameters
    ----------
    ball : Ball
        The value.
    at : float, optional
        Inner point whose value `ball` encloses.

    Returns
    -------
    Enclosure
        (-inf, inf) for a nan ball.
    """
    return Enclosure(*endpoints(ball), at)


def at_most(ball: Ball) -> Enclosure:
    """Return the enclosure of an excess with a known upper bound only. The enclosure can prove that
    a claim holds, not that the claim fails or is tight.
    """
    return Enclosure(-1.0, enclose(ball).upper)


def times(x: Ball, y: Ball) -> Ball:
    """Return the product of two balls of numbers >= 0, computed from their endpoints.

    The midpoint-radius product of wide balls would contain negative numbers.
    """
    return (x.lower() * y.lower()).union(x.upper() * y.upper()).nonnegative_part()


def excess(value: Ball, promise: Ball) -> Ball:
    """Return the relative excess value / promise - 1. A claim holds where its excess is
    at most 0.
    """
    return value / promise - 1


def free(value: float) -> Ball:
    """Return `value` as a ball, and mark the value as arbitrary: it cancels, or any sufficiently
    small or large value works.

    Mutation tests do not change values marked with `free`.
    """
    return arb(value)


def twice(form: Callable[..., Ball], plain: Callable[..., Ball], *at: Ball) -> Ball:
    """Return ``form(*at)`` after a comparison with `plain`, a second formula for the same number.

    `plain` computes derived value over promise as the paper's text does. In `form` the
    cancellations are removed, so that its balls stay narrow on wide cells. At three points of the
    cell the enclosures of both formulas must overlap.

    Raises
    ------
    Contradiction
        If the enclosures are disjoint at one of the points.
    """
    for shift in range(len(PLACES)):
        point = [_point_in(x, PLACES[(shift + k) % len(PLACES)]) for k, x in enumerate(at)]
        form_value, other = form(*point), plain(*point)
        tolerance = arb(0, NEAR * (1 + float(abs(form_value.mid()))))
        if form_value.is_finite() and not (form_value + tolerance).overlaps(other):
            where = ", ".join(x.str(8, radius=False) for x in point)
            raise Contradiction(
                f"two forms of one number differ: {form_value.str(8)} and {other.str(8)} at {where}"
            )
    return form(*at)


def _point_in(ball: Ball, share: float) -> Ball:
    """Return the point of a ball at the fraction `share` between its endpoints."""
    if ball.rad() == 0:
        return ball
    low, high = down(ball.lower()), up(ball.upper())
    return arb(
        max(low, 0.0) + share * (high - max(low, 0.0)) if ball >= 0 else low + share * (high - low)
    )


PLACES = (0.45, 0.15, 0.8)  # fractions of a cell's sides at which two formulas are compared
NEAR = 1e-9  # relative tolerance, for endpoints that the formulas round on purpose


def supremum_of(form: Callable[..., Ball], plain: Callable[..., Ball], *at: Ball) -> Enclosure:
    """Enclose the supremum of ``form(x, *at)`` over x in [0, 1], after comparing `form` with
    `plain` as `twice` does.
    """
    # values of x at which the two formulas under a supremum are compared
    for x in (0.2, 0.5, 0.9):
        twice(form, plain, arb(x), *at)
    return supremum(lambda x: form(x, *at))


def log1p_remainder(y: Ball) -> Ball:
    """Return the h >= 0 of log(1 + y) = y - y^2 h(y), for y >= 0.

    h(y) is the integral of t / (1 + t y) over t in [0, 1]. h decreases in y, so the values at the
    endpoints enclose h. From t (1 - t y) <= t / (1 + t y) <= t follows 1/2 - y/3 <= h(y) <= 1/2,
    which is used near zero, where the quotient cancels.
    """
    y = y.nonnegative_part()
    low, high = y.lower().nonnegative_part(), y.upper()
    return _remainder_at(high).union(_remainder_at(low)).nonnegative_part()


def supremum(
    function: Callable[[Ball], Ball], over: tuple[float, float] = (0.0, 1.0), cells: int = 200
) -> Enclosure:
    """Enclose the supremum of `function` over an interval, until its sign is known or the limit of
    cells is reached.

    The lower endpoint is the value at one point, so for all parameters inside the balls of
    `function` it is below the supremum. The upper endpoint is the largest upper endpoint over cells
    that cover the interval.

    Parameters
    ----------
    function : callable
        Ball -> Ball.
    over : (float, float)
        The interval.
    cells : int
        Limit on bisections, after which a caller can split its own cell.

    Returns
    -------
    Enclosure
        With the point that gives the lower endpoint.
    """
    low, high = over
    best = max(
        (
            enclose(function(arb(x)), x)
            for x in [*(low + (high - low) * k / 8 for k in range(8)), high]
        ),
        key=lambda e: e.lower,
    )
    heap = [(-enclose(function(interval(low, high))).upper, low, high)]
    for _ in range(cells):
        upper = -heap[0][0]
        if upper <= 0 or best.lower > 0:
            break
        _, low, high = heapq.heappop(heap)
        cut = _midpoint(low, high)
        for left, right in ((low, cut), (cut, high)):
            middle = _midpoint(left, right)
            value_at_middle = enclose(function(arb(middle)), middle)
            best = value_at_middle if value_at_middle.lower > best.lower else best
            heapq.heappush(heap, (-enclose(function(interval(left, right))).upper, left, right))
    return Enclosure(best.lower, max(-heap[0][0], best.lower), best.at)


def branch_and_bound(
    function: Callable[..., Enclosure],
    box: Box,
    *,
    seconds: float = 10.0,
    cells: int = 20_000,
    enough: float = 0.0,
) -> SignMap:
    """Bisect `box` until the sign of `function` is proved on every cell, or the limit of time or
    cells is reached.

    Parameters
    ----------
    function : callable
        Takes one ball per name of the box and returns an enclosure that is valid on the product of
        the balls.
    box : Box
        Parameter ranges.
    seconds : float
        Time limit. Cells that are then open count as undecided.
    cells : int
        Limit on the number of cells. If the zero set of `function` crosses the box, the bisection
        always reaches this limit.
    enough : float
        After a counterexample is found, stop when the undecided share is at most `enough`.

    Returns
    -------
    SignMap
        Shares proved positive, proved negative or zero, and undecided; and the counterexample cell.
    """
    deadline = time.monotonic() + seconds
    pending: deque[Cell] = deque([(box, 1.0, Enclosure(-math.inf, math.inf))])
    settled: list[Cell] = []
    thin_cells: list[Cell] = []
    evaluated, lower, undecided, finished = 0, -math.inf, 1.0, True
    counterexample: Box | None = None
    best = Enclosure(0.0, 0.0)
    while pending:
        can_stop = counterexample is not None and undecided <= enough
        if evaluated and (can_stop or evaluated >= cells or time.monotonic() > deadline):
            finished = can_stop or evaluated >= cells
            break
        cell, share, _ = pending.popleft()
        value = function(**cell.balls())
        evaluated += 1
        lower = max(lower, value.lower)
        if value.lower > best.lower:
            counterexample, best = cell, value
        if value.lower > 0 or value.upper <= 0:
            undecided -= share
            settled.append((cell, share, value))
        elif (halves := cell.halves()) is None:
            thin_cells.append((cell, share, value))
        else:
            pending.extend((half, share / 2, value) for half in halves)
    remaining = [*thin_cells, *pending]
    upper = max(value.upper for _, _, value in (*settled, *remaining))
    if counterexample is None:
        return SignMap(Enclosure(lower, upper), settled, remaining, None, None, evaluated, finished)
    counterexample, best = _sharpened(function, box, counterexample, best)
    return SignMap(
        Enclosure(max(lower, best.lower), upper),
        settled,
        remaining,
        counterexample,
        best,
        evaluated,
        finished,
    )


def _sharpened(
    function: Callable[..., Enclosure], box: Box, cell: Box, value: Enclosure
) -> tuple[Box, Enclosure]:
    """Shrink a counterexample: keep the half with the larger lower bound while that bound grows,
    then try the corners of the box.
    """
    for _ in range(40):
        halves = [(function(**half.balls()), half) for half in cell.halves() or ()]
        best, half = max(halves, key=lambda pair: pair[0].lower, default=(value, cell))
        if best.lower <= value.lower:
            break
        cell, value = half, best
    for corner in box.corners():
        corner_value = function(**corner.balls())
        if corner_value.lower > value.lower:
            cell, value = corner, corner_value
    return cell, value


def _remainder_at(y: Ball) -> Ball:
    if y < 1e-4:
        return (arb(0.5) - y / 3).union(arb(0.5))
    return (y - y.log1p()) / (y * y)


def _checked_range(name: str, value: float | tuple[float, float]) -> tuple[float, float]:
    pair = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(pair) != 2:
        raise InvalidArgument(f"Box: {name} must be a number or a pair (low, high), got {value!r}")
    low, high = (require_finite(name, end, "Box") for end in pair)
    if low > high:
        raise InvalidArgument(f"Box: {name} must have low <= high, got {value!r}")
    return low, high


def _midpoint(low: float, high: float) -> float:
    return low + (high - low) / 2


def mills(x: Ball) -> Ball:
    """Enclose the Mills ratio Q(x) / phi(x), which is decreasing, by its values at the endpoints of
    the ball.
    """
    with ctx.workprec(PRECISION):
        return _mills_at(x.upper()).union(_mills_at(x.lower()))


def gaussian_excess(
    epsilon: Ball, delta: Ball, *, per_log: float, per_epsilon: float, constant: Ball | float = 0.0
) -> Ball:
    """Enclose the excess, exact delta / delta - 1, of Gaussian noise of variance v (shift /
    epsilon)^2.

    Here v = per_log log(1/delta) + per_epsilon epsilon + constant, mu = epsilon / sqrt(v), a =
    sqrt(v) - mu / 2, and m is the Mills ratio. After cancellation, log(exact / delta) is (1 -
    per_log/2) log(1/delta) + (1 - per_epsilon) epsilon / 2, minus the sum of constant / 2, mu^2 / 8
    and log sqrt(2 pi), plus log(m(a) - m(a + mu)). The last term falls in a, since m is convex, and
    rises in mu.
    """

    def variance_at(epsilon: Ball, delta: Ball) -> Ball:
        return per_log * -delta.log() + per_epsilon * epsilon + constant

    def form(epsilon: Ball, delta: Ball) -> Ball:
        digits, variance = -delta.log(), variance_at(epsilon, delta)
        mu = epsilon / variance.sqrt()
        a = variance.sqrt() - mu / 2
        with ctx.workprec(PRECISION):
            low, high = (
                _mills_at(at) - _mills_at(at + shift)
                for at, shift in ((a.upper(), mu.lower()), (a.lower(), mu.upper()))
            )
            difference = low.union(high).nonnegative_part()
        log_ratio = (
            (2 - arb(per_log)) * digits + (1 - arb(per_epsilon)) * epsilon - arb(constant)
        ) / 2 - mu * mu / 8
        return (log_ratio + difference.log() - (2 * arb.pi()).log() / 2).expm1()

    def plain(epsilon: Ball, delta: Ball) -> Ball:
        with ctx.workprec(PRECISION):
            mu = epsilon / variance_at(epsilon, delta).sqrt()
            return excess(
                tail(epsilon / mu - mu / 2) - epsilon.exp() * tail(epsilon / mu + mu / 2), delta
            )

    return twice(form, plain, epsilon, delta)


def tail(x: Ball) -> Ball:
    """Return the normal tail Q(x), the probability above x."""
    return (x / arb(2).sqrt()).erfc() / 2


def gap(low: Ball, high: Ball) -> Ball:
    """Return Q(low) - Q(high), the normal probability between two points; use it for points that
    are far apart.
    """
    with ctx.workprec(PRECISION):
        return tail(low) - tail(high)


def _mills_at(x: Ball) -> Ball:
    root = arb(2).sqrt()
    return (arb.pi() / 2).sqrt() * (x * x / 2).exp() * (x / root).erfc()
