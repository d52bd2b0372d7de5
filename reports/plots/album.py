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
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import number
from dpwitness.reports.phrasing.summary import Entry
from dpwitness.reports.phrasing.wording import truncated_line, verdict
from dpwitness.reports.plots.drawing import (
    BLUE,
    GREY,
    INK,
    MARGINS,
    RED,
    SMALL,
    Margins,
    blank,
    common_style,
    few_ticks,
    written,
)
from dpwitness.reports.plots.numbers import (
    draw_event,
    draw_looks,
    draw_overview,
    draw_scores,
    has_event,
    has_looks,
    has_scores,
    overview_height,
    relative,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_RARE = 0.02  # points with smaller false-positive rates are drawn on logarithmic axes
_POINTS = 161


class _CertifiedBound(NamedTuple):
    """Certified bound of a black-box result: a point under the pair's trade-off curve, at
    confidence 1 - alpha.
    """

    point: CertifiedPoint
    parameter: float
    epsilon: float


def _certified_bound(result: Json) -> _CertifiedBound | None:
    claim, point, parameter = (
        claim_of(result),
        result.get("certified_point"),
        number(result.get("parameter_lower")),
    )
    if claim is None or not point or parameter is None:
        return None
    return _CertifiedBound(
        CertifiedPoint(**point), parameter, number(result.get("epsilon_lower")) or 0.0
    )


def _curves(result: Json, key: str) -> list[FloatArray] | None:
    """Return the curves of a result, such as a white-box privacy profile; None if they are missing
    or malformed.
    """
    curves = result.get(key)
    if not isinstance(curves, dict) or not curves.keys() >= set(_CURVES[key]):
        return None
    found = [np.array([float(v) for v in curves[name]]) for name in _CURVES[key]]
    return found if len({len(curve) for curve in found}) == 1 and len(found[0]) > 1 else None


_CURVES = {
    "profile": ("epsilons", "delta_lower", "delta_upper"),
    "tradeoff": ("fpr", "tpr_lower", "tpr_upper"),
}


def has_curve(result: Json, key: str) -> bool:
    """Return whether a result has a privacy profile or a trade-off curve, or a certified point,
    which gives both.
    """
    return _certified_bound(result) is not None or _curves(result, key) is not None


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


def draw_profile(axes: Axes, result: Json) -> None:
    """Draw the privacy profile delta(epsilon) of the claim and the certified profile."""
    claim, proof = claim_of(result), _certified_bound(result)
    exact = _curves(result, "profile")
    end = _last_epsilon(claim, proof, exact)
    epsilon = np.linspace(0.0, end, _POINTS)
    # the profile of pure DP has a jump
    if claim is not None and claim.bounds_epsilon and claim.parameter < end:
        epsilon = np.union1d(epsilon, [claim.parameter, np.nextafter(claim.parameter, 0.0)])
    claimed = _claimed_profile(claim, epsilon) if claim else None
    certified = lower_profile(proof.point, epsilon) if proof else None
    floor = _floor(claim, claimed, certified)
    if claimed is not None:
        axes.plot(
            epsilon,
            _clipped(claimed, floor),
            color=INK,
            linestyle="--",
            linewidth=1.5,
            label=f"claimed: {claim}",
        )
    if proof is not None and certified is not None:
        axes.plot(
            epsilon,
            _clipped(certified, floor),
            color=RED,
            linewidth=1.7,
            label="certified: at least",
        )
        if claimed is not None and (beyond := certified > claimed).any():
            low, high = _clipped(claimed, floor), _clipped(certified, floor)
            axes.fill_between(
                epsilon,
                low,
                high,
                where=beyond.tolist(),
                facecolor="none",
                edgecolor=RED,
                hatch="////",
                label="violated here",
            )
        if claim is not None and 0 < proof.epsilon < math.inf and claim.bounds_epsilon:
            label = f"epsilon > {proof.epsilon:.4g} at delta = {claim.delta_budget:g}"
            at = max(claim.delta_budget, floor)
            axes.plot(
                [proof.epsilon],
                [at],
                marker="D",
                color=RED,
                linestyle="none",
                clip_on=False,
                zorder=5,
                label=label,
            )
    if exact is not None:
        at_least, at_most = _clipped(exact[1], floor), _clipped(exact[2], floor)
        axes.plot(exact[0], at_least, color=BLUE, linewidth=1.3, label="enclosure: at least")
        axes.plot(
            exact[0], at_most, color=BLUE, linestyle="-.", linewidth=1.3, label="enclosure: at most"
        )
        axes.fill_between(exact[0], at_least, at_most, facecolor=BLUE, alpha=0.15, linewidth=0)
    axes.set(
        xscale="linear",
        xlim=(0, end),
        yscale="log",
        ylim=(floor, 1.2),
        xlabel="epsilon",
        ylabel="delta",
    )
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, columnspacing=1.0, handlelength=1.8
    )


def _last_epsilon(
    claim: Claim | None, proof: _CertifiedBound | None, exact: list[FloatArray] | None
) -> float:
    """Return the largest epsilon of the plot, so that the relevant part of every curve
    is visible.
    """
    ends = [1.3 * proof.epsilon] if proof else []
    if exact is not None:
        ends.append(float(exact[0].max()))
    if claim is not None and claim.bounds_epsilon:
        ends.append(1.5 * claim.parameter)
    elif claim is not None:
        grid = np.geomspace(1e-2, 300.0, 200)
        small = np.flatnonzero(_claimed_profile(claim, grid) < 1e-5)
        ends.append(float(grid[small[0]]) if len(small) else 10.0)
    return max([e for e in ends if math.isfinite(e) and e > 0], default=1.0)


def _floor(claim: Claim | None, claimed: FloatArray | None, certified: FloatArray | None) -> float:
    """Return the lower end of the logarithmic axis: below the claimed delta, and below the delta by
    which the claim is exceeded.
    """
    candidates = [1e-4]
    if claim is not None and claim.delta_budget > 0:
        candidates.append(claim.delta_budget / 10)
    if claimed is not None and certified is not None:
        gap = float((certified - claimed).max())
        candidates += [gap / 30 if gap > 0 else 1.0, float(certified.max()) / 100 or 1.0]
    return 10.0 ** math.floor(math.log10(max(min(candidates), 1e-12)))


def _clipped(curve: FloatArray, floor: float) -> FloatArray:
    """Return a curve clipped below the axis, so that a logarithmic plot shows it leaving through
    the bottom instead of ending.
    """
    return np.maximum(curve, floor * 1e-3)


def draw_tradeoff(axes: Axes, result: Json) -> None:
    """Draw the claim's trade-off curve (true-positive over false-positive rate) and the certified
    point.
    """
    claim, proof = claim_of(result), _certified_bound(result)
    exact = _curves(result, "tradeoff")
    # Linear axes would hide a rare point in a corner.
    use_log_axes = (
        proof is not None and 0 < min(proof.point.fpr, proof.point.observed_fpr or 1.0) < _RARE
    )
    grid = np.concatenate([np.geomspace(1e-6, 1e-2, 40), np.linspace(1e-2, 1.0, 100)[1:]])
    if use_log_axes:
        grid = np.geomspace(1e-9, 1.0, _POINTS)
    axes.plot(grid, grid, color=GREY, linestyle=":", linewidth=1.2, label="pure chance")
    if claim is not None:
        axes.plot(
            grid,
            claim.tradeoff(grid),
            color=INK,
            linestyle="--",
            linewidth=1.5,
            label=f"claimed: {claim}",
        )
    if exact is not None:
        axes.plot(exact[0], exact[1], color=BLUE, linewidth=1.3, label="the pair's own: at least")
        axes.plot(exact[0], exact[2], color=BLUE, linestyle="-.", linewidth=1.3, label="at most")
    if proof is not None:
        if claim is not None and 0 < proof.parameter < math.inf:
            label = f"{claim.symbol} = {proof.parameter:.4g}, certified"
            axes.plot(
                grid,
                claim.with_parameter(proof.parameter).tradeoff(grid),
                color=RED,
                linestyle="-.",
                linewidth=1.0,
                label=label,
            )
        observed = (proof.point.observed_fpr, proof.point.observed_tpr)
        axes.plot(
            [proof.point.fpr, observed[0]], [proof.point.tpr, observed[1]], color=RED, linewidth=0.8
        )
        axes.plot(
            *[[v] for v in observed],
            marker="o",
            markerfacecolor="white",
            color=RED,
            linestyle="none",
            label="observed",
        )
        axes.plot(
            [proof.point.fpr],
            [proof.point.tpr],
            marker="D",
            color=RED,
            linestyle="none",
            zorder=5,
            label="certified",
        )
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="false-positive rate", ylabel="true-positive rate")
    if use_log_axes and proof is not None:
        low = 10.0 ** math.floor(
            math.log10(min(proof.point.fpr, proof.point.observed_fpr or 1.0)) - 0.5
        )
        axes.set(xscale="log", yscale="log", xlim=(max(low, 1e-9), 1.0), ylim=(max(low, 1e-9), 1.2))
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, columnspacing=1.0, handlelength=1.8
    )


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
    "profile": Plot("Privacy profile", lambda r: has_curve(r, "profile"), draw_profile),
    "tradeoff": Plot("Trade-off curve", lambda r: has_curve(r, "tradeoff"), draw_tradeoff),
    "looks": Plot("Certified against runs", has_looks, draw_looks, (0.72, 0.45, 0.2, 0.25)),
    "canaries": Plot("Scores of canaries", has_scores, draw_scores, (0.72, 0.45, 0.12, 0.3)),
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
        ``tradeoff`` (trade-off curve), ``looks`` (bound over the runs) or ``canaries`` (scores).
        By default the first kind that the result has data for.
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
