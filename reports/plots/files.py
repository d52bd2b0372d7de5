"""The pictures of a report as files beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dpwitness.reports.plots.bars import draw_overview, overview_height, relative
from dpwitness.reports.plots.drawing import drawing, save, styled
from dpwitness.reports.plots.family import PLOTS, new_axes, plots_of, title
from dpwitness.reports.words.facts import Entry

_KINDS = ("event", "profile", "search", "scaling", "calls")  # of a file each; the HTML page holds them all


def draw(entries: Sequence[Entry], folder: Path) -> tuple[list[Entry], str | None]:
    """Draw the pictures that there is data for; the entries with the names of their files, and that of the one over all audits."""
    shown = []
    for entry in entries:
        files = []
        for kind in plots_of(entry.result):
            if kind not in _KINDS:
                continue
            with styled():
                axes = new_axes(kind, entry.result)
                PLOTS[kind].draw(axes, entry.result)
                title(axes, entry.result, PLOTS[kind].text)
                save(axes, folder / f"{kind}-{entry.slug}.svg")
            files.append((f"{PLOTS[kind].text} of {entry.slug}", f"{kind}-{entry.slug}.svg"))
        shown.append(replace(entry, plots=tuple(files)))
    data = [entry.result for entry in entries]
    if sum(relative(result) is not None for result in data) < 2:
        return shown, None
    with drawing(folder / "summary.svg", 7.0, overview_height(data)) as axes:
        draw_overview(axes, data)
    return shown, "summary.svg"
