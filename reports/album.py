"""Plots of the privacy profile and of the trade-off curve; the registry of all plots of results,
the function `plot` that draws one on given or new axes, and the album that draws each plot of a
report once.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpwitness.auditors.statistics.certificate import CertifiedPoint, lower_profile
from dpwitness.auditors.witnesses.kinds import claim_of
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import strict
from dpwitness.core import Claim, InvalidArgument
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import number
from dpwitness.reports.drawing import (
    BLUE,
    GREY,
    INK,
    MARGINS,
    RED,
    SMALL,
    Margins,
    blank,
    common_style,
    draw_markers,
    few_ticks,
    written,
)
from dpwitness.reports.numbers import (
    draw_event,
    draw_overview,
    draw_scores,
    event_of,
    overview_height,
    relative,
    scores_of,
)
from dpwitness.reports.summary import Entry
from dpwitness.reports.wording import truncated_line, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_RARE = 0.02  # points with smaller false-positive rates are drawn on logarithmic axes
_POINTS = 161


class _Compared(NamedTuple):
    """Claim of a result, and the curves that are compared with it."""

    claim: Claim
    # certified point under the pair's trade-off curve, at confidence 1 - alpha, and its bounds
    point: CertifiedPoint | None
    parameter: float
    epsilon: float
    # enclosure of the pair's own curve: grid, lower and upper curve; empty without a density
    exact: Sequence[FloatArray]


def _compared(result: Json, key: str, *names: str) -> _Compared | None:
    """Return the claim and the curves of a result; None without a claim or a curve."""
    claim, parameter = claim_of(result), number(result.get("parameter_lower"))
    point = result.get("certified_point") if parameter is not None else None
    curves = result.get(key) or {}
    exact = [np.array([float(v) for v in curves[name]]) for name in names if name in curves]
    if claim is None or not (point or exact):
        return None
    certified = CertifiedPoint(**point) if point else None
    epsilon = number(result.get("epsilon_lower")) or 0.0
    return _Compared(claim, certified, parameter or 0.0, epsilon, exact)


def profile_of(result: Json) -> _Compared | None:
    """Return the privacy profiles that `draw_profile` compares; None without any."""
    return _compared(result, "profile", "epsilons", "delta_lower", "delta_upper")


def tradeoff_of(result: Json) -> _Compared | None:
    """Return the trade-off curves that `draw_tradeoff` compares; None without any."""
    return _compared(result, "tradeoff", "fpr", "tpr_lower", "tpr_upper")


@lru_cache(maxsize=16)
def _claimed_curve(claim: Claim) -> tuple[FloatArray, FloatArray]:
    """Return a grid of false-positive rates q and the claim's trade-off curve on it, in steps of at
    most 4 % where the curve is steep.
    """
    grid = np.concatenate(
        [
            np.geomspace(1e-12, 1e-5, 160),
            np.geomspace(1e-5, 0.2, 250)[1:],
            np.linspace(0.2, 1.0, 80)[1:],
        ]
    )
    return grid, claim.tradeoff(grid)


def _claimed_profile(claim: Claim, epsilon: FloatArray) -> FloatArray:
    if not claim.bounds_renyi:
        return claim.delta(epsilon)
    grid, curve = _claimed_curve(claim)  # `Claim.delta` on its own grid takes seconds for zCDP
    gain: FloatArray = (curve - np.exp(epsilon)[:, None] * grid).max(axis=1)
    return np.clip(gain, 0.0, 1.0)


def draw_profile(axes: Axes, found: _Compared) -> None:
    """Draw the privacy profile delta(epsilon) of the claim and the certified profile."""
    claim, end = found.claim, _last_epsilon(found)
    epsilon = np.linspace(0.0, end, _POINTS)
    # the profile of pure DP has a jump
    if claim.bounds_epsilon and claim.parameter < end:
        epsilon = np.union1d(epsilon, [claim.parameter, np.nextafter(claim.parameter, 0.0)])
    claimed, certified = _claimed_profile(claim, epsilon), np.zeros_like(epsilon)
    if found.point is not None:
        certified = lower_profile(found.point, epsilon)
    gap = float((certified - claimed).max())
    # the axis begins below the claimed delta, and below the delta by which the claim is exceeded
    least = min(1e-4, claim.delta_budget / 10 or 1.0, gap / 30 if gap > 0 else 1.0)
    floor = 10.0 ** math.floor(math.log10(max(least, 1e-12)))
    # a curve leaves a logarithmic plot through the bottom instead of ending
    claimed, certified, *exact = (
        np.maximum(curve, floor * 1e-3) for curve in (claimed, certified, *found.exact[1:])
    )
    axes.plot(epsilon, claimed, color=INK, linestyle="--", linewidth=1.5, label=f"claimed: {claim}")
    if found.point is not None:
        axes.plot(epsilon, certified, color=RED, linewidth=1.7, label="certified")
    if gap > 0:
        axes.fill_between(
            epsilon,
            claimed,
            certified,
            where=(certified > claimed).tolist(),
            facecolor="none",
            edgecolor=RED,
            hatch="////",
            label="violated here",
        )
    if found.point is not None and 0 < found.epsilon < math.inf and claim.bounds_epsilon:
        label = f"epsilon > {found.epsilon:.4g}"
        at = max(claim.delta_budget, floor)
        draw_markers(axes, [found.epsilon], [at], marker="D", color=RED, label=label)
    if exact:
        grid, at_least, at_most = found.exact[0], *exact
        axes.plot(grid, at_least, color=BLUE, linewidth=1.3, label="enclosed from")
        axes.plot(grid, at_most, color=BLUE, linestyle="-.", linewidth=1.3, label="enclosed to")
        axes.fill_between(grid, at_least, at_most, facecolor=BLUE, alpha=0.15, linewidth=0)
    axes.set(xlim=(0, end), yscale="log", ylim=(floor, 1.2), xlabel="epsilon", ylabel="delta")
    axes.legend(**_LEGEND)


_LEGEND: Any = {
    "loc": "lower center",
    "bbox_to_anchor": (0.5, 1.0),
    "ncols": 2,
    "columnspacing": 0.8,
    "handlelength": 1.6,
}


def _last_epsilon(found: _Compared) -> float:
    """Return the largest epsilon of the plot: the relevant part of every curve is visible."""
    claim, ends = found.claim, [1.3 * found.epsilon, *map(np.max, found.exact[:1])]
    if claim.bounds_epsilon:
        ends.append(1.5 * claim.parameter)
    else:
        grid = np.geomspace(1e-2, 300.0, 200)
        small = np.flatnonzero(_claimed_profile(claim, grid) < 1e-5)
        ends.append(grid[small[0]] if len(small) else 10.0)
    return float(max([e for e in ends if math.isfinite(e) and e > 0], default=1.0))


def draw_tradeoff(axes: Axes, found: _Compared) -> None:
    """Draw the claim's trade-off curve (true-positive over false-positive rate) and the certified
    point.
    """
    claim, point = found.claim, found.point
    grid = np.concatenate([np.geomspace(1e-6, 1e-2, 40), np.linspace(1e-2, 1.0, 100)[1:]])
    rate = min(point.fpr, point.observed_fpr or 1.0) if point else 1.0
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="false-positive rate", ylabel="true-positive rate")
    if 0 < rate < _RARE:  # linear axes would hide a rare point in a corner
        grid = np.geomspace(1e-9, 1.0, _POINTS)
        low = max(10.0 ** math.floor(math.log10(rate) - 0.5), 1e-9)
        axes.set(xscale="log", yscale="log", xlim=(low, 1.0), ylim=(low, 1.2))
    axes.plot(grid, grid, color=GREY, linestyle=":", linewidth=1.2, label="pure chance")
    curve = claim.tradeoff(grid)
    axes.plot(grid, curve, color=INK, linestyle="--", linewidth=1.5, label=f"claimed: {claim}")
    if found.exact:
        fpr, at_least, at_most = found.exact
        axes.plot(fpr, at_least, color=BLUE, linewidth=1.3, label="enclosed from")
        axes.plot(fpr, at_most, color=BLUE, linestyle="-.", linewidth=1.3, label="enclosed to")
    if point is not None:
        if 0 < found.parameter < math.inf:
            curve = claim.with_parameter(found.parameter).tradeoff(grid)
            label = f"{claim.symbol} = {found.parameter:.4g}"
            axes.plot(grid, curve, color=RED, linestyle="-.", linewidth=1.0, label=label)
        x, y = (point.fpr, point.observed_fpr), (point.tpr, point.observed_tpr)
        axes.plot(x, y, color=RED, linewidth=0.8)
        open_circle: Any = {"marker": "o", "markerfacecolor": "white", "label": "observed"}
        draw_markers(axes, x[1:], y[1:], color=RED, **open_circle)
        draw_markers(axes, x[:1], y[:1], color=RED, marker="D", label="certified")
    axes.legend(**_LEGEND)


@dataclass(frozen=True, slots=True)
class Plot:
    """Kind of plot: its title, a sentence that says what to see, a function that returns the data
    of a result, or None, the function that draws these data, and the margins.
    """

    text: str
    see: str
    read: Callable[[Json], Any]
    draw: Callable[[Axes, Any], None]
    margins: Margins = MARGINS


NAMED = (1.7, 0.45, 0.12, 0.3)  # margins with space for names at the left
PLOTS = {
    "event": Plot(
        "Where outputs fall",
        "The event guesses the dataset in the shaded ranges, where the outputs differ most.",
        event_of,
        draw_event,
    ),
    "profile": Plot(
        "Privacy profile",
        "The claim is violated where the certified curve lies above the claimed curve.",
        profile_of,
        draw_profile,
    ),
    "tradeoff": Plot(
        "Trade-off curve",
        "The claim is violated if the certified point lies above the claimed curve.",
        tradeoff_of,
        draw_tradeoff,
    ),
    "canaries": Plot(
        "Scores of canaries",
        "The more the two sides differ, the more a score reveals about one example.",
        scores_of,
        draw_scores,
        (0.72, 0.45, 0.12, 0.3),
    ),
}


def available_plots(result: Json) -> list[str]:
    """Return the kinds of plots that a result has data for, in the order of the cards."""
    return [name for name, each in PLOTS.items() if each.read(result) is not None]


def plot(result: Result | Json, kind: str | None = None, *, axes: Axes | None = None) -> Axes:
    """Draw a plot of a result.

    Parameters
    ----------
    result : Result or dict
        Result of `audit`, `certify`, `trace` or another entry point, or its JSON.
    kind : str, optional
        ``event`` (distribution of the outputs, and the guesses), ``profile`` (privacy profile),
        ``tradeoff`` (trade-off curve) or ``canaries`` (scores). By default the first kind that the
        result has data for.
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
    >>> plot(result, "profile").get_xlabel()
    'epsilon'
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
        PLOTS[chosen].draw(found, PLOTS[chosen].read(data))
        few_ticks(found)
        if axes is None:
            name, text = truncated_line(data.get("name", ""), 28), PLOTS[chosen].text
            words = f"{name}: {text[0].lower()}{text[1:]} ({verdict(data.get('verdict'))})"
            found.figure.suptitle(words, fontsize=SMALL)
        return found


def new_axes(kind: str, result: Json) -> Axes:
    """Return new axes with the margins for this kind of plot. Call this function inside
    `common_style`.
    """
    has_listed_outputs = kind == "event" and not result["picture"]["edges"]
    return blank(margins=NAMED if has_listed_outputs else PLOTS[kind].margins)


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
                lambda axes: PLOTS[kind].draw(axes, PLOTS[kind].read(entry.result)),
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
            frame = 6.4, overview_height(results), (1.95, 1.05, 0.15, 0.2)
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
