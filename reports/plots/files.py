"""The plots of a report as files beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.plots import plots
from dpwitness.reports.words.facts import Entry


def draw(entries: Sequence[Entry], folder: Path) -> tuple[list[Entry], str | None]:
    """Draw every plot that there is data for; the entries with the names of their files, and that of the plot over all audits."""
    shown = []
    for entry in entries:
        files = []
        for file, (text, drawn) in _drawings(entry.result, entry.slug).items():
            drawn(folder / file)
            files.append((f"{text} of {entry.slug}", file))
        shown.append(replace(entry, plots=tuple(files)))
    data = [entry.result for entry in entries]
    if sum(plots.relative(result) is not None for result in data) < 2:
        return shown, None
    plots.plot_overview(data, folder / "summary.svg")
    return shown, "summary.svg"


def _drawings(result: Json, slug: str) -> dict[str, tuple[str, Callable[[Path], None]]]:
    """File name -> (what it shows, function that draws it), for the plots that this result has the data for."""
    found: dict[str, tuple[str, Callable[[Path], None]]] = {}
    if plots.has_profile(result):
        found[f"profile-{slug}.svg"] = ("Privacy profile", lambda path: plots.plot_profile(result, path))
    if plots.has_tradeoff(result):
        found[f"tradeoff-{slug}.svg"] = ("Trade-off curve", lambda path: plots.plot_tradeoff(result, path))
    if result.get("kind") == "sensitivity" and result.get("trace"):
        found[f"search-{slug}.svg"] = ("Ratio over the search", lambda path: plots.plot_search(result, path))
    if result.get("kind") == "utility" and len(result.get("points") or []) > 1:
        found[f"scaling-{slug}.svg"] = ("Error and its power", lambda path: plots.plot_scaling(result, path))
    if result.get("kind") == "trace" and plots.losses_of_calls(result):
        found[f"calls-{slug}.svg"] = ("Loss by call", lambda path: plots.plot_calls(result, path))
    return found
