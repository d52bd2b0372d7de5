"""Registry of the plots of results, the function `plot` that draws one plot on given or new axes,
and the album that draws each plot of a report once.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import strict
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.phrasing.summary import Entry
from dpwitness.reports.phrasing.wording import verdict
from dpwitness.reports.plots.curves import draw_profile, draw_tradeoff, has_profile, has_tradeoff
from dpwitness.reports.plots.drawing import (
    MARGINS,
    SMALL,
    Margins,
    blank,
    common_style,
    few_ticks,
    short_name,
    written,
)
from dpwitness.reports.plots.numbers import (
    call_loss_bars,
    draw_calls,
    draw_event,
    draw_guess_bounds,
    draw_looks,
    draw_overview,
    draw_pairs,
    draw_scaling,
    draw_scores,
    draw_search,
    has_event,
    has_guess_bounds,
    has_looks,
    has_pairs,
    has_scores,
    overview_height,
    relative,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class Plot:
    """Kind of plot: its title, a function that returns whether a result has the data, the drawing
    function, and the margins.
    """

    text: str
    has: Callable[[Json], bool]
    draw: Callable[[Axes, Json], None]
    margins: Margins = MARGINS


NAMED = (1.7, 0.45, 0.12, 0.3)  # margins with space for names at the left
PLOTS = {
    "event": Plot("Where outputs fall", has_event, draw_event),
    "profile": Plot("Privacy profile", has_profile, draw_profile),
    "tradeoff": Plot("Trade-off curve", has_tradeoff, draw_tradeoff),
    "looks": Plot("Certified against runs", has_looks, draw_looks, (0.72, 0.45, 0.2, 0.25)),
    "pairs": Plot("Pairs that were tried", has_pairs, draw_pairs, NAMED),
    "search": Plot("Ratio over the search", lambda r: bool(r.get("progress")), draw_search),
    "scaling": Plot("Error and its power", lambda r: len(r.get("points") or []) > 1, draw_scaling),
    "calls": Plot(
        "Loss by call", lambda r: bool(call_loss_bars(r)), draw_calls, (0.15, 0.45, 0.12, 0.3)
    ),
    "canaries": Plot("Scores of canaries", has_scores, draw_scores, (0.72, 0.45, 0.12, 0.3)),
    "guesses": Plot(
        "Certified against guesses", has_guess_bounds, draw_guess_bounds, (0.72, 0.45, 0.12, 0.3)
    ),
}


def available_plots(result: Json) -> list[str]:
    """Return the kinds of plots that a result has data for, in the order of the cards."""
    return [name for name, each in PLOTS.items() if each.has(result)]


def plot(result: Result | Json, kind: str | None = None, *, axes: Axes | None = None) -> Axes:
    """Draw a plot of a result.

    Parameters
    ----------
    result : Result or dict
        Result of `audit`, `certify`, `trace` or another entry point, or its JSON.
    kind : str, optional
        ``event`` (distribution of the outputs, and the guesses), ``profile`` (privacy profile),
        ``tradeoff`` (trade-off curve), ``looks`` (bound over the runs), ``pairs`` (candidate
        pairs), ``search`` (sensitivity search), ``scaling`` (utility), ``calls`` (privacy loss of a
        trace's calls), ``canaries`` (scores) or ``guesses`` (bound over the number of guesses). By
        default the first kind that the result has data for.
    axes : matplotlib.axes.Axes, optional
        Axes to draw on. By default new axes of a standard size.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the plot.

    Raises
    ------
    InvalidArgument
        If the result has no data for this kind of plot. The message names the available kinds.

    Examples
    --------
    >>> from dpwitness import audit, mechanisms
    >>> result = audit(mechanisms.Laplace(epsilon=1.0), trials=20_000)
    >>> plot(result, "looks").get_xlabel()
    'runs of the mechanism'
    """
    data: Any = result if isinstance(result, dict) else strict(result.to_json())
    available = available_plots(data)
    chosen = kind if kind is not None else next(iter(available), None)
    if chosen not in available:
        raise InvalidArgument(
            "plot: kind must be one of "
            f"{', '.join(available) or 'none, as this result has no picture'}, got {kind!r}"
        )
    with common_style():
        found = new_axes(chosen, data) if axes is None else axes
        PLOTS[chosen].draw(found, data)
        few_ticks(found)
        if axes is None:
            title(found, data, PLOTS[chosen].text)
        return found


def new_axes(kind: str, result: Json) -> Axes:
    """Return new axes with the margins for this kind of plot. Call this function inside
    `common_style`.
    """
    has_listed_outputs = kind == "event" and not result["picture"]["edges"]
    return blank(margins=NAMED if has_listed_outputs else PLOTS[kind].margins)


def title(axes: Axes, result: Json, text: str) -> None:
    """Set the title of a single plot: the result's name, the kind of plot, and the verdict."""
    axes.figure.suptitle(
        f"{short_name(result, 28)}: {text[0].lower()}{text[1:]} ({verdict(result.get('verdict'))})",
        fontsize=SMALL,
    )


# plots per audit that markdown shows as files; the HTML page shows the others too
PLOTS_AS_FILES = 2


class Album:
    """Cache of plots as SVG texts, and the folder of the report. An empty album draws nothing."""

    def __init__(self, folder: Path = Path(), *, empty: bool = False) -> None:
        self.folder = folder
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
