"""Pictures of the overview as data for its template: positions are percents of the width, so that marks keep their size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

LEFT, RIGHT = 4.0, 96.0  # percent of the width between which a strip has its marks
GUTTER = 11.0  # percent that the numbers at a vertical axis take


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark: percent of the width, pixels from the top, the name of its shape, and a text for its tooltip."""

    x: float
    y: float
    shape: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """One row of a chart: a label that may be a link, marks along the axis, and a value in words."""

    label: str
    marks: tuple[Mark, ...]
    value: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Strips:
    """Rows above a common axis; `ticks` are (percent, text), `one` is the percent of the reference line, if any."""

    title: str
    rows: tuple[Strip, ...]
    ticks: tuple[tuple[float, str], ...]
    one: float | None = None
    kind: str = field(default="strips", init=False)


@dataclass(frozen=True, slots=True)
class Plot:
    """Marks over two axes; `levels` are (pixels, text) of horizontal lines, `bars` are (percent, top, bottom), `ticks` (percent, text)."""

    title: str
    height: int
    marks: tuple[Mark, ...]
    levels: tuple[tuple[float, str], ...]
    dashed: float | None = None
    bars: tuple[tuple[float, float, float], ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    diagonal: tuple[float, float, float, float] | None = None
    kind: str = field(default="plot", init=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """One square of a grid: an address, the class of its color, a sign that needs no color, and its name."""

    href: str
    name: str
    sign: str
    title: str


@dataclass(frozen=True, slots=True)
class Cells:
    """A grid of squares."""

    title: str
    cells: tuple[Cell, ...]
    kind: str = field(default="cells", init=False)


Figure = Strips | Plot | Cells


@dataclass(frozen=True, slots=True)
class LogAxis:
    """A logarithmic axis over the width of a strip.

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
        """Return the percent at which a value is drawn; values beyond an end are drawn at that end."""
        inside = min(max(value, self.low), self.high)
        return LEFT + (RIGHT - LEFT) * math.log(inside / self.low) / math.log(self.high / self.low)

    def ticks(self, factors: Sequence[float] = (1.0,)) -> tuple[tuple[float, str], ...]:
        """Return places and texts of the powers of ten, times each of the factors, that lie on the axis."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = sorted(factor * 10.0**power for power in powers for factor in factors)
        return tuple((self.place(v), f"{v:g}") for v in values if 0.999 * self.low <= v <= 1.001 * self.high)


def across(index: int, count: int) -> float:
    """Return the percent of one of `count` columns right of the vertical axis."""
    return GUTTER + (99.0 - GUTTER) * (index + 0.5) / count


def down(value: float, top: float, height: int) -> float:
    """Return the pixels from the upper edge of a value on an axis from 0 at the bottom to `top`."""
    return 6 + (height - 12) * (1 - min(max(value / top, 0.0), 1.0))
