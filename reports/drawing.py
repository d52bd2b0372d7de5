"""Common style of all plots: readable at a width of 331 px and in black and white. matplotlib is
imported on first use.

A page embeds the SVG of a plot: smaller, and in the colors of the page's light or dark theme. The
page's content security policy forbids style attributes and style elements, so styles become
presentation attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from dpwitness.core.numerics.cma_es import without_matplotlib_backend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, GREY, RED, BLUE = "#111111", "#767676", "#b3261e", "#1f5fa8"
WIDTH, HEIGHT = 3.45, 2.9  # inches; 331 px wide in a browser, the width of a phone
SMALL = 9.0  # font size of all labels, in points; 12 px in a browser
# characters that are invalid in XML
_INVALID_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
METADATA = {"Date": None, "Creator": "dpwitness"}
Margins = tuple[float, float, float, float]
MARGINS = (0.72, 0.45, 0.12, 0.7)

_STYLE: Any = {
    "svg.hashsalt": "dpwitness",  # makes element ids deterministic
    "svg.fonttype": "none",  # keeps text as text, which is smaller and searchable
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib
    "font.size": SMALL,
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


def blank(width: float = WIDTH, height: float = HEIGHT, margins: Margins = MARGINS) -> Axes:
    """Return the axes of a new figure that is not registered with pyplot.

    Sizes and margins (left, bottom, right, top) are in inches. Margins that matplotlib fits to the
    labels would need a second drawing, and half of a report's time.
    """
    from matplotlib.figure import Figure

    left, bottom, right, top = margins
    rectangle = (
        left / width,
        bottom / height,
        1 - (left + right) / width,
        1 - (bottom + top) / height,
    )
    return Figure(figsize=(width, height)).add_axes(rectangle)


def written(axes: Axes) -> str:
    """Return the figure of the axes as SVG text. The same data give the same text."""
    few_ticks(axes)
    text = StringIO()
    figure: Any = axes.figure
    figure.savefig(text, format="svg", metadata=METADATA)
    return _INVALID_XML.sub("\ufffd", text.getvalue())


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


def draw_markers(axes: Axes, x: Any, y: Any, **style: Any) -> None:
    """Draw markers in front of all other elements, without clipping at the edge."""
    if np.size(x):
        axes.plot(x, y, linestyle="none", zorder=5, clip_on=False, **style)


_COLORS = {
    "#111111": "currentColor",
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#dddddd": "var(--line)",
    "#767676": "var(--grey)",
    "#b3261e": "var(--red)",
    "#1f5fa8": "var(--blue)",
}
_DROPPED_TAGS = ("metadata", "style", "title")
_DROPPED_ATTRIBUTES = ("style", "space", "version", "gid", "font", "font-family")
_ROUNDED = ("d", "x", "y", "transform", "points", "height", "width", "stroke-width")
# the page's style sheet sets these for all plots
_DEFAULTS = {"stroke-linejoin": "miter", "stroke-linecap": "square", "font-size": "9px"}
_STYLES = re.compile(r"([\w-]+)\s*:\s*([^;]*[^;\s])")  # names and values of a style attribute
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_REFERENCE = re.compile(r"(?<=url\(#)[^)]+|(?<=^#).+")


def inline_svg(svg: str, name: str, text: str) -> str:
    """Return the SVG element of a plot for embedding in a page.

    Parameters
    ----------
    svg : str
        SVG text from `Album.svg`.
    name : str
        Prefix of the element ids, unique in the page.
    text : str
        Alternative text.

    Returns
    -------
    str
        The SVG markup.
    """
    root = ElementTree.fromstring(svg.encode())
    linked = sorted(set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", svg)))
    ids = {old: f"{name}-{i}" for i, old in enumerate(linked)}
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in _DROPPED_TAGS:
                parent.remove(child)
    for node in root.iter():
        node.tag = node.tag.rpartition("}")[2]
        node.attrib = _attributes(node, ids)
        node.text = node.text if node.tag == "text" else None
        node.tail = None
    box = root.attrib["viewBox"]
    inner = "".join(ElementTree.tostring(child, encoding="unicode") for child in root)
    return (
        f'<svg viewBox="{box}" width="{float(box.split()[2]) * 4 / 3:.0f}" role="img" '
        f'aria-label="{escape(text)}">{inner}</svg>'
    )


def _one_decimal(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")


def _attributes(node: ElementTree.Element, ids: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes of an element, with its style as presentation attributes, in the colors
    of the page, with the page's `ids`, and without what the page's style sheet sets.
    """
    given = [(name.rpartition("}")[2], value) for name, value in node.attrib.items()]
    found = {}
    for name, value in (*given, *_STYLES.findall(node.get("style", ""))):
        shown = _COLORS.get(value.lower(), value)
        shown = _REFERENCE.sub(lambda match: ids.get(match[0], match[0]), shown)
        if name == "id":
            shown = ids.get(value, "")
        if name in _ROUNDED:
            shown = " ".join(_NUMBER.sub(_one_decimal, shown).split())
        if shown and name not in _DROPPED_ATTRIBUTES and _DEFAULTS.get(name) != shown:
            found[name] = shown
    return found
