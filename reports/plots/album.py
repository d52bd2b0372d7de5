"""The pictures of a report, each drawn once: as files beside it, and inside its page."""

from __future__ import annotations

from collections.abc import Sequence

from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.plots.bars import draw_overview, overview_height, relative
from dpwitness.reports.plots.drawing import blank, styled, written
from dpwitness.reports.plots.family import PLOTS, new_axes, plots_of
from dpwitness.reports.words.facts import Entry

BESIDE = 2  # pictures of an audit as files of their own, beside markdown; the page holds the others too


class Album:
    """Pictures as SVG texts; an empty one draws nothing."""

    def __init__(self, *, empty: bool = False) -> None:
        self._empty = empty
        self._drawn: dict[tuple[str, str], str] = {}

    def kinds(self, entry: Entry) -> list[str]:
        """The pictures that there are of an entry."""
        return [] if self._empty else plots_of(entry.result)

    def svg(self, entry: Entry, kind: str) -> str:
        """One of them."""
        key = entry.slug, kind
        if key not in self._drawn:
            with styled():
                axes = new_axes(kind, entry.result)
                PLOTS[kind].draw(axes, entry.result)
                self._drawn[key] = written(axes)
        return self._drawn[key]

    def overview(self, results: Sequence[Json]) -> str | None:
        """Certified over claimed, for all audits together; None where fewer than two have both."""
        if self._empty or sum(relative(result) is not None for result in results) < 2:
            return None
        key = "", "summary"
        if key not in self._drawn:
            with styled():
                axes = blank(6.4, overview_height(results), (1.95, 0.85, 0.15, 0.15))
                draw_overview(axes, results)
                self._drawn[key] = written(axes)
        return self._drawn[key]


def text_of(kind: str, entry: Entry) -> str:
    """What a picture shows, for those who do not see it."""
    return f"{PLOTS[kind].text} of {entry.slug}"
