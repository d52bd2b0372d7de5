"""Data of the overview's charts for its template. Horizontal positions are percents of the width,
so that marks keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

LEFT, RIGHT = 4.0, 96.0  # range of the marks of a strip, in percent of the width
GUTTER = 11.0  # space for the numbers at a vertical axis, in percent of the width


@dataclass(frozen=True, slots=True)
class Mark:
    """Mark of a chart: `x` in percent of the width, `y` in pixels from the top, the name of its
    shape, and its tooltip.
    """

    x: float
    y: float
    shape: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """Row of a chart: a label with an optional link, marks along the axis, and a value as text."""

    label: str
    marks: tuple[Mark, ...]
    value: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Strips:
    """Chart of rows above a common axis; `ticks` are (percent, text), and `one` is the position of
    the reference line in percent.
    """

    title: str
    rows: tuple[Strip, ...]
    ticks: tuple[tuple[float, str], ...]
    one: float | None = None
    kind: str = field(default="strips", init=False)


@dataclass(frozen=True, slots=True)
class Plot:
    """Chart of marks over two axes.

    `levels` are (pixels, text) of horizontal lines, and `bars` are (percent, top, bottom).
    """

    title: str
    height: int
    marks: tuple[Mark, ...]
    levels: tuple[tuple[float, str], ...]
    dashed: float | None = None
    bars: tuple[tuple[float, float, float], ...] = ()
    kind: str = field(default="plot", init=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """Square of a grid: a link, the name of its color class, a sign that works without color, and a
    tooltip.
    """

    href: str
    name: str
    sign: str
    title: str


@dataclass(frozen=True, slots=True)
class Cells:
    """Chart of a grid of squares."""

    title: str
    cells: tuple[Cell, ...]
    kind: str = field(default="cells", init=False)


Figure = Strips | Plot | Cells


@dataclass(frozen=True, slots=True)
class LogAxis:
    """Logarithmic axis over the width of a strip.

    Examples
    --------
    >>> axis = LogAxis(0.1, 10.0)
    >>> axis.place(1.0), axis.place(0.0), axis.place(99.0)
    (50.0, 4.0, 96.0)
    >>> [text for _, text in axis.ticks()]
    ['0.1', '1', '10']
    """

    low: float
    high: float

    def place(self, value: float) -> float:
        """Return the position of a value in percent of the width; values outside the axis are drawn
        at its nearest end.
        """
        inside = min(max(value, self.low), self.high)
        return LEFT + (RIGHT - LEFT) * math.log(inside / self.low) / math.log(self.high / self.low)

    def ticks(self, factors: Sequence[float] = (1.0,)) -> tuple[tuple[float, str], ...]:
        """Return the ticks as (percent, text): the powers of ten, times each of the factors, that
        lie on the axis.
        """
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = sorted(factor * 10.0**power for power in powers for factor in factors)
        return tuple(
            (self.place(v), f"{v:g}") for v in values if 0.999 * self.low <= v <= 1.001 * self.high
        )


def across(index: int, count: int) -> float:
    """Return the horizontal position, in percent, of the column `index` of `count` columns right of
    the vertical axis.
    """
    return GUTTER + (99.0 - GUTTER) * (index + 0.5) / count


def down(value: float, top: float, height: int) -> float:
    """Return the vertical position of a value, in pixels from the upper edge, on an axis from 0 at
    the bottom to `top`.
    """
    return 6 + (height - 12) * (1 - min(max(value / top, 0.0), 1.0))
