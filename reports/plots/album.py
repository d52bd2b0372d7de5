"""Cache of a report's plots as SVG, for files and for embedding in pages. Each plot is
drawn once.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dpwitness.core.values.json_reader import Json
from dpwitness.reports.phrasing.facts import Entry
from dpwitness.reports.plots.bars import draw_overview, overview_height, relative
from dpwitness.reports.plots.drawing import blank, common_style, written
from dpwitness.reports.plots.registry import PLOTS, available_plots, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# plots per audit that markdown shows as files; the HTML page shows the others too
PLOTS_AS_FILES = 2


class Album:
    """Cache of plots as SVG texts. An empty album draws nothing."""

    def __init__(self, *, empty: bool = False) -> None:
        self._empty = empty
        self._drawn: dict[tuple[str, str], str] = {}

    def kinds(self, entry: Entry) -> list[str]:
        """Return the kinds of plots that an entry has data for; an empty list for an
        empty album.
        """
        return [] if self._empty else available_plots(entry.result)

    def svg(self, entry: Entry, kind: str) -> str:
        """Return the SVG text of an entry's plot of one kind, drawn on the first call."""
        key = entry.slug, kind
        if key not in self._drawn:
            self._drawn[key] = _drawn(
                lambda: new_axes(kind, entry.result),
                lambda axes: PLOTS[kind].draw(axes, entry.result),
            )
        return self._drawn[key]

    def overview(self, results: Sequence[Json]) -> str | None:
        """Return the SVG text of the plot of certified over claimed for all audits; None if fewer
        than two audits have both numbers.
        """
        if self._empty or sum(relative(result) is not None for result in results) < 2:
            return None
        key = "", "summary"
        if key not in self._drawn:
            frame = 6.4, overview_height(results), (1.95, 0.85, 0.15, 0.15)
            self._drawn[key] = _drawn(
                lambda: blank(*frame), lambda axes: draw_overview(axes, results)
            )
        return self._drawn[key]


def _drawn(new: Callable[[], Axes], draw: Callable[[Axes], None]) -> str:
    """Return the SVG text of a plot. A plot that fails becomes its error as a text, so that it
    costs no report.
    """
    with common_style():
        try:
            axes = new()
            draw(axes)
            return written(axes)
        except Exception as error:
            text = html.escape(
                f"this plot could not be drawn: {type(error).__name__}: {error}"[:120]
            )
            return (
                '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 40"><text x="4" '
                f'y="24" font-size="13">{text}</text></svg>'
            )


def text_of(kind: str, entry: Entry) -> str:
    """Return the alternative text of a plot."""
    return f"{PLOTS[kind].text} of {entry.slug}"
