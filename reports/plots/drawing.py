"""Common style of all plots: readable at a width of 400 px and in black and white. matplotlib is
imported on first use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpwitness.core.numerics.cma_es import without_matplotlib_backend
from dpwitness.core.values.atomic_files import aside
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.phrasing.wording import truncated_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, GREY, RED, BLUE = "#111111", "#767676", "#b3261e", "#1f5fa8"
WIDTH, HEIGHT = 4.1, 3.0  # inches; 400 px wide in a browser
SMALL = 8.0  # font size of labels, in points
# characters that are invalid in XML
_INVALID_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_METADATA = {"Date": None, "Creator": "dpwitness"}
Margins = tuple[float, float, float, float]
MARGINS = (0.72, 0.45, 0.12, 0.55)

_STYLE: Any = {
    "svg.hashsalt": "dpwitness",  # makes element ids deterministic
    "svg.fonttype": "none",  # keeps text as text, which is smaller and searchable
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "text.parse_math": False,  # dollar signs in names of mechanisms are literal
}


@contextmanager
def common_style() -> Iterator[None]:
    """Context manager that sets the common style, independent of the user's settings, and restores
    these settings.
    """
    with without_matplotlib_backend():
        import matplotlib
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def blank(width: float = WIDTH, height: float = HEIGHT, margins: Margins | None = MARGINS) -> Axes:
    """Return the axes of a new figure that is not registered with pyplot.

    Sizes and margins (left, bottom, right, top) are in inches. Without margins matplotlib fits the
    margins to the labels, which needs a second drawing and takes half of a report's time.
    """
    from matplotlib.figure import Figure

    if margins is None:
        return Figure(figsize=(width, height), layout="constrained").add_subplot()
    left, bottom, right, top = margins
    rectangle = (
        left / width,
        bottom / height,
        1 - (left + right) / width,
        1 - (bottom + top) / height,
    )
    return Figure(figsize=(width, height)).add_axes(rectangle)


@contextmanager
def drawing(path: Path, width: float = 6.4, height: float = 3.8) -> Iterator[Axes]:
    """Context manager that yields axes and saves their figure in the format of the path's suffix;
    sizes in inches.
    """
    with common_style():
        axes = blank(width, height, None)
        yield axes
        save(axes, path)


def written(axes: Axes) -> str:
    """Return the figure of the axes as SVG text. The same data give the same text."""
    few_ticks(axes)
    text = StringIO()
    figure: Any = axes.figure
    figure.savefig(text, format="svg", metadata=_METADATA)
    return _INVALID_XML.sub("\ufffd", text.getvalue())


def save(axes: Axes, path: Path) -> None:
    """Save the figure of the axes to a file, in the format of its suffix."""
    few_ticks(axes)
    figure: Any = axes.figure
    with aside(path) as draft:
        figure.savefig(draft, metadata=_METADATA if Path(path).suffix == ".svg" else {}, dpi=120)


def few_ticks(axes: Axes) -> None:
    """Set few ticks with plain numbers: many ticks need time and space, and matplotlib's
    logarithmic labels need `parse_math`.
    """
    from matplotlib.ticker import (
        AutoLocator,
        LogFormatterMathtext,
        LogLocator,
        MaxNLocator,
        NullLocator,
    )

    for axis in (axes.xaxis, axes.yaxis):
        if isinstance(axis.get_major_formatter(), LogFormatterMathtext):
            axis.set_major_formatter("{x:g}")
        if isinstance(axis.get_minor_locator(), LogLocator):
            axis.set_minor_locator(NullLocator())
        if isinstance(axis.get_major_locator(), AutoLocator):
            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def ticks_between(low: float, high: float) -> list[float]:
    """Return tick positions in [low, high]: 1, 2 and 5 times powers of ten, or only the powers if
    there would be more than six.
    """
    low, high = max(low, 1e-300), max(high, 1e-300)
    steps = np.outer(
        10.0 ** np.arange(math.floor(math.log10(low)), math.log10(high) + 1), [1, 2, 5]
    ).ravel()
    shown = steps[(steps >= 0.999 * low) & (steps <= 1.001 * high)]
    return [
        float(v) for v in (shown if len(shown) <= 6 else shown[np.isclose(np.log10(shown) % 1, 0)])
    ]


def short_name(result: Json, most: int = 36) -> str:
    """Return the name of a result, truncated to `most` characters for a title."""
    return truncated_line(result.get("name", ""), most)


def draw_markers(axes: Axes, x: Any, y: Any, **style: Any) -> None:
    """Draw markers in front of all other elements, without clipping at the edge."""
    if np.size(x):
        axes.plot(x, y, linestyle="none", zorder=5, clip_on=False, **style)
