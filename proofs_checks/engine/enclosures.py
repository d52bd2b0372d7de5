"""The sign of a function over a whole box of parameters, proved with python-flint balls and bisection.

Every operation on a ball rounds outwards (Johansson 2017, Arb), so an enclosure holds for each point of the cell it was computed on.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from flint import arb

from dpwitness.mechanisms.balls.ball import down, up
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_finite

Ball: TypeAlias = arb

INNER_CELLS = 200  # bisections of the inner variable before a supremum gives up and the outer cell is split instead
SHARPENING = 40  # bisections of the counterexample
LEAST_WIDTH = 1e-12  # relative: a cell thinner than this is not split again


class Contradiction(ArithmeticError):
    """Two forms of one number, both enclosed, have no number in common: one of them is wrong."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Two floats with lower <= value <= upper at every point of the cell; `at` is an inner point that reaches `lower`."""

    lower: float
    upper: float
    at: float | None = None

    def union(self, other: Enclosure) -> Enclosure:
        """Enclosure of a value that is one or the other."""
        low = self if self.lower <= other.lower else other
        return Enclosure(low.lower, max(self.upper, other.upper), low.at)


class Box(Mapping[str, tuple[float, float]]):
    """Closed ranges of named parameters: `Box(epsilon=(0.01, 10))`; a number stands for a range of one point."""

    def __init__(self, **ranges: float | tuple[float, float]) -> None:
        self._ranges = {name: _range(name, value) for name, value in ranges.items()}

    def __getitem__(self, name: str) -> tuple[float, float]:
        return self._ranges[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def __repr__(self) -> str:
        return f"Box({', '.join(f'{name}=({low!r}, {high!r})' for name, (low, high) in self._ranges.items())})"

    def balls(self) -> dict[str, Ball]:
        """One ball around each range."""
        return {name: interval(low, high) for name, (low, high) in self._ranges.items()}

    def corners(self) -> list[Box]:
        """Boxes of one point each."""
        return [Box(**dict(zip(self._ranges, ends, strict=True))) for ends in itertools.product(*self._ranges.values())]

    def halves(self) -> tuple[Box, Box] | None:
        """Cut across the relatively longest side; None where every side is too thin to cut."""
        width, name = max((_width(*bounds), name) for name, bounds in self._ranges.items())
        if width < LEAST_WIDTH:
            return None
        low, high = self._ranges[name]
        cut = _middle(low, high)
        if not low < cut < high:
            return None
        return Box(**{**self._ranges, name: (low, cut)}), Box(**{**self._ranges, name: (cut, high)})


@dataclass(slots=True)
class SignMap:
    """What branch and bound has proved: shares of the box (in bisections: each cut halves), and the extremes met.

    Attributes
    ----------
    positive, negative, undecided : float
        Shares where the value is proved > 0, proved <= 0, and neither. They add up to one.
    enclosure : Enclosure
        Of the maximum over the whole box.
    counterexample : Box or None
        On all of it the value is positive: the cell, or corner of the box, with the largest proved lower bound met.
    counterexample_value : Enclosure or None
        The value over that cell.
    finished : bool
        False where the time ran out before the cells did.
    """

    enclosure: Enclosure = Enclosure(-math.inf, math.inf)
    positive: float = 0.0
    negative: float = 0.0
    undecided: float = 1.0
    counterexample: Box | None = None
    counterexample_value: Enclosure | None = None
    cells: int = 0
    finished: bool = True
    open_cells: list[Box] = field(default_factory=list)


def interval(low: float, high: float) -> Ball:
    """Ball around [low, high]; where low >= 0 the ball holds no negative number either."""
    ball = arb(low) if low == high else arb(low).union(arb(high))
    return ball.nonnegative_part() if low >= 0 else ball


def enclose(ball: Ball, at: float | None = None) -> Enclosure:
    """Float endpoints of a ball, rounded outwards; a ball that is no number (nan) is the whole line."""
    if ball.is_nan():
        return Enclosure(-math.inf, math.inf, at)
    # Exact comparisons first: lower() and upper() may round away from a zero that the ball does not cross.
    low, high = down(ball.lower()), up(ball.upper())
    return Enclosure(max(low, 0.0) if ball >= 0 else low, min(high, 0.0) if ball <= 0 else high, at)


def at_most(ball: Ball) -> Enclosure:
    """Excess of something known only from above: it may prove that a claim holds, never that it fails or is tight."""
    return Enclosure(-1.0, enclose(ball).upper)


def times(x: Ball, y: Ball) -> Ball:
    """Product of two balls of numbers >= 0 from their ends: that of wide balls as midpoint and radius would take in negative numbers."""
    return (x.lower() * y.lower()).union(x.upper() * y.upper()).nonnegative_part()


def excess(value: Ball, promise: Ball) -> Ball:
    """What a claim misses: what was derived over what was promised, less 1. It holds where this is at most 0."""
    return value / promise - 1


def free(value: float) -> Ball:
    """A value that cancels, or that may be as small or as large as one likes: any other does as well."""
    return arb(value)


def twice(form: Callable[..., Ball], plain: Callable[..., Ball], *at: Ball) -> Ball:
    """``form(*at)``, for a number that `plain` writes as the text does, with what was derived over what was promised.

    `form` has the cancellations taken out, so that its balls stay narrow on wide cells; what it leaves out `plain` still computes. Both are
    enclosed at three points of the cell and must meet there, or a `Contradiction` is raised.
    """
    for shift in range(len(PLACES)):
        point = [_within(x, PLACES[(shift + k) % len(PLACES)]) for k, x in enumerate(at)]
        one, other = form(*point), plain(*point)
        near = arb(0, NEAR * (1 + float(abs(one.mid()))))
        if one.is_finite() and not (one + near).overlaps(other):
            where = ", ".join(x.str(8, radius=False) for x in point)
            raise Contradiction(f"{one.str(8)} and {other.str(8)} at {where}")
    return form(*at)


def _within(ball: Ball, share: float) -> Ball:
    """A point of a ball."""
    if ball.rad() == 0:
        return ball
    low, high = down(ball.lower()), up(ball.upper())
    return arb(max(low, 0.0) + share * (high - max(low, 0.0)) if ball >= 0 else low + share * (high - low))


PLACES = (0.45, 0.15, 0.8)  # of a cell, where two forms are compared
NEAR = 1e-9  # relative allowance for ends that were rounded on purpose
PROBES = (0.2, 0.5, 0.9)  # where the two forms of what a supremum is taken of are compared


def supremum_of(form: Callable[..., Ball], plain: Callable[..., Ball], *at: Ball) -> Enclosure:
    """Supremum of ``form(x, *at)`` over x in [0, 1], for a number with two forms: see `twice`."""
    for x in PROBES:
        twice(form, plain, arb(x), *at)
    return supremum(lambda x: form(x, *at))


def log1p_remainder(y: Ball) -> Ball:
    """The h >= 0 of log(1 + y) = y - y^2 h(y), for y >= 0.

    h(y) is the integral of t / (1 + t y) over t in [0, 1]: decreasing in y, so its values at the ends enclose it.
    From t (1 - t y) <= t / (1 + t y) <= t, 1/2 - y/3 <= h(y) <= 1/2, which serves near zero where the quotient cancels.
    """
    y = y.nonnegative_part()
    low, high = y.lower().nonnegative_part(), y.upper()
    return _remainder_at(high).union(_remainder_at(low)).nonnegative_part()


def supremum(function: Callable[[Ball], Ball], over: tuple[float, float] = (0.0, 1.0), cells: int = INNER_CELLS) -> Enclosure:
    """Enclose the supremum of `function` over an interval, until its sign is known or the cells are spent.

    The lower end is the value at one point, so it is below the supremum for each value of the parameters inside `function`'s balls;
    the upper end is the largest upper end over cells that cover the interval.
    """
    low, high = over
    best = max((enclose(function(arb(x)), x) for x in _grid(low, high)), key=lambda e: e.lower)
    heap = [(-enclose(function(interval(low, high))).upper, low, high)]
    for _ in range(cells):
        upper = -heap[0][0]
        if upper <= 0 or best.lower > 0:
            break
        _, low, high = heapq.heappop(heap)
        cut = _centre(low, high)
        for left, right in ((low, cut), (cut, high)):
            middle = _centre(left, right)
            here = enclose(function(arb(middle)), middle)
            best = here if here.lower > best.lower else best
            heapq.heappush(heap, (-enclose(function(interval(left, right))).upper, left, right))
    return Enclosure(best.lower, max(-heap[0][0], best.lower), best.at)


def branch_and_bound(
    function: Callable[..., Enclosure], box: Box, *, seconds: float = 10.0, cells: int = 20_000, enough: float = 0.0
) -> SignMap:
    """Bisect `box` until the sign of `function` is proved on every cell, or time or cells run out.

    Parameters
    ----------
    function : callable
        Takes one ball per name of the box and returns an enclosure valid on all of it.
    box : Box
        The parameters.
    seconds : float
        Time limit; what is open then is counted undecided.
    cells : int
        Largest number of cells looked at. Reached wherever the zero set crosses the box: there no bisection ends.
    enough : float
        Once a counterexample is known, stop when no more than this share is undecided.

    Returns
    -------
    SignMap
        Shares proved positive, proved negative or zero, undecided; and the counterexample cell.
    """
    deadline = time.monotonic() + seconds
    found = SignMap()
    lower, upper = -math.inf, -math.inf
    pending = deque([(box, 1.0, math.inf)])  # a cell, its share, an upper bound on it
    stuck: list[tuple[Box, float, float]] = []
    while pending:
        settled = found.counterexample is not None and found.undecided <= enough
        if found.cells and (settled or found.cells >= cells or time.monotonic() > deadline):
            found.finished = settled or found.cells >= cells
            break
        cell, share, _ = pending.popleft()
        value = function(**cell.balls())
        found.cells += 1
        lower = max(lower, value.lower)
        if value.lower > 0 or value.upper <= 0:
            upper = max(upper, value.upper)
            found.undecided -= share
            if value.upper <= 0:
                found.negative += share
                continue
            found.positive += share
            if found.counterexample_value is None or value.lower > found.counterexample_value.lower:
                found.counterexample, found.counterexample_value = cell, value
        elif (halves := cell.halves()) is None:
            stuck.append((cell, share, value.upper))
        else:
            pending.extend((half, share / 2, value.upper) for half in halves)
    open_cells = stuck + list(pending)
    found.undecided = sum(share for _, share, _ in open_cells)
    upper = max([upper, *(bound for _, _, bound in open_cells)])
    found.open_cells = [cell for cell, _, _ in open_cells]
    _sharpen(function, box, found)
    best = found.counterexample_value
    found.enclosure = Enclosure(max(lower, best.lower) if best else lower, upper)
    return found


def _sharpen(function: Callable[..., Enclosure], box: Box, found: SignMap) -> None:
    """Shrink the counterexample while its lower bound grows: of two halves keep the larger; then try the corners of the box."""
    cell, value = found.counterexample, found.counterexample_value
    if cell is None or value is None:
        return
    for _ in range(SHARPENING):
        halves = cell.halves()
        if halves is None:
            break
        best, half = max(((function(**half.balls()), half) for half in halves), key=lambda pair: pair[0].lower)
        if best.lower <= value.lower:
            break
        cell, value = half, best
    for corner in box.corners():
        there = function(**corner.balls())
        if there.lower > value.lower:
            cell, value = corner, there
    found.counterexample, found.counterexample_value = cell, value


def _remainder_at(y: Ball) -> Ball:
    if y < 1e-4:
        return (arb(0.5) - y / 3).union(arb(0.5))
    return (y - y.log1p()) / (y * y)


def _range(name: str, value: float | tuple[float, float]) -> tuple[float, float]:
    pair = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(pair) != 2:
        raise InvalidArgument(f"Box: {name} must be a number or a pair (low, high), got {value!r}")
    low, high = (require_finite(name, end, "Box") for end in pair)
    if low > high:
        raise InvalidArgument(f"Box: {name} must have low <= high, got {value!r}")
    return low, high


def _width(low: float, high: float) -> float:
    return math.log(high / low) if low > 0 else high - low


def _middle(low: float, high: float) -> float:
    """Geometric where the range spans decades, so that small values are looked at as closely as large ones."""
    return math.sqrt(low * high) if low > 0 and high > 2 * low else _centre(low, high)


def _grid(low: float, high: float) -> list[float]:
    return [low + (high - low) * k / 8 for k in range(8)] + [high]


def _centre(low: float, high: float) -> float:
    return low + (high - low) / 2
