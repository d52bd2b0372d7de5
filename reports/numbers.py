"""Plots of numbers: certified over claimed for several audits, the outputs that an event guesses,
and the scores of canaries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpwitness.auditors.witnesses.kinds import claim_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import number
from dpwitness.reports.drawing import BLUE, GREY, INK, RED, SMALL, draw_markers
from dpwitness.reports.wording import truncated_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS = 120  # rows of a plot; the worst audits come first


def relative(result: Json) -> tuple[float, float] | None:
    """Return the certified bound and the end of its whisker, both divided by the claim; None
    without a claim, bound or verdict.

    The whisker ends at the detectable parameter, or at the upper endpoint of an enclosure.
    """
    claim, least = claim_of(result), number(result.get("parameter_lower"))
    if claim is None or least is None or result.get("verdict") == Verdict.ERROR.value:
        return None
    found = number(result.get("parameter_upper", result.get("detectable")))
    return least / claim.parameter, (math.inf if found is None else found) / claim.parameter


def overview_height(results: Sequence[Json]) -> float:
    """Return the height of the plot of `draw_overview`, in inches."""
    return 1.45 + 0.2 * min(ROWS, sum(relative(result) is not None for result in results))


def draw_overview(axes: Axes, results: Sequence[Json]) -> None:
    """Draw certified over claimed, one row per audit.

    A dot is the certified bound. Its whisker ends at the violation of the event's kind that would
    have been found with probability 0.9. An enclosure is a bar from its lower to its upper
    endpoint.
    """
    rows = [(r, pair) for r in results if (pair := relative(r)) is not None]
    rows = sorted(rows, key=lambda row: -min(row[1][0], 1e300))[:ROWS]
    ratios = np.array([pair[0] for _, pair in rows])
    finite = ratios[np.isfinite(ratios)]
    end = 1.15 * max(1.3, float(np.quantile(finite, 0.9)) if len(finite) else 1.3)
    places = np.minimum(ratios, end)  # larger ratios are drawn at the edge, with their number
    whiskers = np.minimum([pair[1] for _, pair in rows], end)
    broken = np.array([r.get("verdict") == Verdict.VIOLATED.value for r, _ in rows])
    enclosed = np.array(["parameter_upper" in r for r, _ in rows])
    heights = np.arange(len(rows))[::-1]
    detectable = ~enclosed & (whiskers > places)
    for which, color, width in ((enclosed, BLUE, 3.0), (detectable, GREY, 1.0)):
        axes.hlines(heights[which], places[which], whiskers[which], color=color, linewidth=width)
    draw_markers(axes, whiskers[detectable], heights[detectable], color=GREY, marker="|")
    for i in np.flatnonzero(ratios > end):
        axes.annotate(
            f"{ratios[i]:.3g}" if math.isfinite(ratios[i]) else "no bound holds",
            (end, heights[i]),
            xytext=(-7, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=SMALL,
        )
    axes.axvline(1.0, color=INK, linestyle="--", linewidth=1.2)
    axes.annotate(
        "the claim",
        (1.0, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(3, -1),
        textcoords="offset points",
        fontsize=SMALL,
    )
    suspect = np.array([r.get("verdict") == Verdict.SUSPECT.value for r, _ in rows])
    kept, open_ = ~broken & enclosed, ~broken & ~enclosed & ~suspect
    for which, label, style in (
        (open_, "not refuted", {"marker": "o", "markerfacecolor": "white", "color": INK}),
        (kept, "enclosed", {"marker": "s", "color": BLUE}),
        (broken, "violated", {"marker": "D", "color": RED}),
        (suspect, "suspect", {"marker": "D", "markerfacecolor": "white", "color": RED}),
    ):
        draw_markers(axes, places[which], heights[which], label=label, **style)
    if not enclosed.all():
        axes.plot([], [], color=GREY, marker="|", label="detectable with probability 0.9")
    axes.set(xlim=(0, end), ylim=(-0.7, len(rows) - 0.1), xlabel="certified / claimed parameter")
    axes.set_yticks(
        heights, [truncated_line(r.get("name", ""), 28) for r, _ in rows], fontsize=SMALL
    )
    axes.grid(visible=False, axis="y")
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.4, -0.45 / (overview_height(results) - 1.25)),
        ncols=2,
        columnspacing=1.0,
    )


_RARE = 0.02  # events with a smaller share of the runs are drawn on a logarithmic axis
_GUESSES = {1: ("guess D1", RED, "////"), -1: ("guess D0", BLUE, "\\\\\\\\")}
_NARROWEST = 5.0  # a bin narrower than the usual one by more than this may hold a single value
_ROWS = 8


def event_of(result: Json) -> Json | None:
    """Return the histogram of the test's outputs of a result; None if it has none."""
    picture: Json = result.get("picture") or {}
    if picture.get("axis") == "output 0" and "output 0" not in str(result.get("description")):
        picture = picture | {"axis": "output"}  # the event reads one number: no index is needed
    return picture if picture.get("rounds") else None


def draw_event(axes: Axes, found: Json) -> None:
    """Draw the shares of the runs on D0 and D1, along the event's statistic or by listed output,
    with the guesses hatched.
    """
    from matplotlib.lines import Line2D

    shares = [
        np.array(found[side], dtype=float) / max(sum(found[side]), 1) for side in ("d1", "d0")
    ]
    if not found["edges"]:
        _draw_listed_outputs(axes, found, shares)
        return
    edges, guesses = np.array(found["edges"], dtype=float), np.array(found["guesses"])
    # thresholds cut bins: without this, a narrow bin looks like a gap
    widths = np.diff(edges)
    heights = [share * np.minimum(np.median(widths) / widths, _NARROWEST) for share in shares]
    axes.stairs(heights[1], edges, color=INK, linestyle="--", linewidth=1.3)
    axes.stairs(heights[0], edges, color=INK, linewidth=1.5)
    event_shares = [
        share[guesses == side].sum() for side, share in zip((1, -1), shares, strict=True)
    ]
    top = max(height.max() for height in heights)
    if 0 < max(event_shares) < _RARE:
        axes.set(yscale="log", ylim=(0.5 * min(each[each > 0].min() for each in heights), 4 * top))
    else:
        axes.set(ylim=(0, 1.25 * top))
    for side, (words, color, hatch) in _GUESSES.items():
        # spans of consecutive bins with this guess
        padded = np.concatenate([[False], guesses == side, [False]])
        ends = np.flatnonzero(padded[:-1] != padded[1:]).reshape(-1, 2)
        spans = [(float(edges[first]), float(edges[last])) for first, last in ends]
        for low, high in spans:
            axes.axvspan(
                low, high, facecolor=color, alpha=0.12, hatch=hatch, edgecolor=color, linewidth=0
            )
        if spans:
            low, high = max(spans, key=lambda span: span[1] - span[0])
            place = min(
                max((low + high) / 2, edges[0] + 0.1 * np.ptp(edges)),
                edges[-1] - 0.1 * np.ptp(edges),
            )
            axes.text(
                place,
                0.99,
                words,
                color=color,
                fontsize=SMALL,
                ha="center",
                va="top",
                transform=axes.get_xaxis_transform(),
            )
    axes.set(
        xlim=(edges[0], edges[-1]), xlabel=truncated_line(found["axis"], 60), ylabel="share of runs"
    )
    handles = [
        Line2D([], [], color=INK, linewidth=1.5, label="on D1"),
        Line2D([], [], color=INK, linestyle="--", linewidth=1.3, label="on D0"),
    ]
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _draw_listed_outputs(axes: Axes, found: Json, shares: list[np.ndarray]) -> None:
    """Draw a pair of bars, D1 and D0, for each output that the event lists."""
    shown_outputs = [i for i in range(len(found["names"])) if shares[0][i] + shares[1][i] > 0][
        :_ROWS
    ]
    for row, i in enumerate(shown_outputs):
        _, color, hatch = _GUESSES.get(found["guesses"][i], ("", GREY, ""))
        axes.barh(row - 0.2, shares[0][i], height=0.36, color=color, edgecolor=color)
        axes.barh(
            row + 0.2, shares[1][i], height=0.36, facecolor="none", edgecolor=color, hatch=hatch
        )
        for offset, side, share in ((-0.2, "D1", shares[0][i]), (0.2, "D0", shares[1][i])):
            axes.annotate(
                f"{side} {share:.3g}",
                (share, row + offset),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=SMALL,
            )
    names = [
        f"{truncated_line(found['names'][i], 24)}\n"
        f"{_GUESSES.get(found['guesses'][i], ('no guess',))[0]}"
        for i in shown_outputs
    ]
    axes.set_yticks(range(len(shown_outputs)), names, fontsize=SMALL)
    largest = max((max(shares[0][i], shares[1][i]) for i in shown_outputs), default=1.0)
    axes.set(xlim=(0, 1.3 * largest), ylim=(len(shown_outputs) - 0.4, -0.6), xlabel="share of runs")
    axes.grid(visible=False, axis="y")


def scores_of(result: Json) -> Json | None:
    """Return the histograms of the canary scores of a result; None if it has none."""
    picture: Json = result.get("picture") or {}
    return picture if "guessed_in" in picture else None


def draw_scores(axes: Axes, picture: Json) -> None:
    """Draw histograms of the scores, included canaries upwards and excluded canaries downwards,
    with the guesses filled or hatched.
    """
    edges, included, out = (
        np.array(picture[key], dtype=float) for key in ("edges", "included", "left_out")
    )
    guessed = (
        np.array(picture["guessed_in"], dtype=float),
        np.array(picture["guessed_out"], dtype=float),
    )
    middles, width = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    total = np.maximum(included + out, 1.0)
    for side, sign in ((included, 1.0), (out, -1.0)):
        axes.stairs(sign * side, edges, color=GREY, linewidth=1.0)
        below = np.zeros(side.size)
        for counts, color, hatch in zip(guessed, (RED, BLUE), ("", "////"), strict=True):
            # approximation: guesses divide between both sides as the cell's canaries do
            height = sign * side * counts / total
            axes.bar(
                middles,
                height,
                width,
                bottom=below,
                color=color if not hatch else "none",
                edgecolor=color,
                hatch=hatch,
                linewidth=0,
            )
            below = below + height
    largest = 1.15 * max(included.max(), out.max(), 1.0)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set(
        ylim=(-largest, largest), xlabel="score, in units of the middle half", ylabel="canaries"
    )
    axes.text(0.01, 0.99, "included", va="top", fontsize=SMALL, transform=axes.transAxes)
    axes.text(0.01, 0.01, "left out", va="bottom", fontsize=SMALL, transform=axes.transAxes)
    axes.text(
        0.99,
        0.99,
        "filled: guessed in; hatched: guessed out",
        ha="right",
        va="top",
        fontsize=SMALL,
        transform=axes.transAxes,
    )
