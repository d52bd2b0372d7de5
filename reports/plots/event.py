"""Plot of the test event: distribution of the outputs on each dataset, with the guess in each
region.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpwitness.core.values.json_reader import Json
from dpwitness.reports.phrasing.wording import truncated_line
from dpwitness.reports.plots.drawing import BLUE, GREY, INK, RED, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RARE = 0.02  # events with a smaller share of the runs are drawn on a logarithmic axis
_GUESSES = {1: ("guess D1", RED, "////"), -1: ("guess D0", BLUE, "\\\\\\\\")}
_ROWS = 8


def has_event(result: Json) -> bool:
    """Return whether a result has a histogram of the test's outputs."""
    return bool((result.get("picture") or {}).get("rounds"))


def draw_event(axes: Axes, result: Json) -> None:
    """Draw the shares of the runs on D0 and D1, along the event's statistic or by listed output,
    with the guesses hatched.
    """
    found = result["picture"]
    shares = [
        np.array(found[side], dtype=float) / max(sum(found[side]), 1) for side in ("d1", "d0")
    ]
    if not found["edges"]:
        _draw_listed_outputs(axes, found, shares)
        return
    edges, guesses = np.array(found["edges"], dtype=float), np.array(found["guesses"])
    axes.stairs(shares[1], edges, color=INK, linestyle="--", linewidth=1.3)
    axes.stairs(shares[0], edges, color=INK, linewidth=1.5)
    event_shares = [
        share[guesses == side].sum() for side, share in zip((1, -1), shares, strict=True)
    ]
    top = max(share.max() for share in shares)
    if 0 < max(event_shares) < _RARE:
        axes.set(
            yscale="log", ylim=(0.5 * min(share[share > 0].min() for share in shares), 4 * top)
        )
    else:
        axes.set(ylim=(0, 1.25 * top))
    for side, (words, color, hatch) in _GUESSES.items():
        spans = _bin_spans(edges, guesses == side)
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
    axes.legend(handles=_legend_handles(), loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _legend_handles() -> list[object]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=INK, linewidth=1.5, label="on D1"),
        Line2D([], [], color=INK, linestyle="--", linewidth=1.3, label="on D0"),
    ]


def _bin_spans(edges: np.ndarray, inside: np.ndarray) -> list[tuple[float, float]]:
    """Return the spans (low, high) of consecutive bins that are `inside`."""
    padded = np.concatenate([[False], inside, [False]])
    starts, ends = (
        np.flatnonzero(~padded[:-1] & padded[1:]),
        np.flatnonzero(padded[:-1] & ~padded[1:]),
    )
    return [(float(edges[a]), float(edges[b])) for a, b in zip(starts, ends, strict=True)]


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
                fontsize=7,
            )
    names = [
        f"{truncated_line(found['names'][i], 24)}\n"
        f"{_GUESSES.get(found['guesses'][i], ('no guess',))[0]}"
        for i in shown_outputs
    ]
    axes.set_yticks(range(len(shown_outputs)), names, fontsize=7)
    largest = max((max(shares[0][i], shares[1][i]) for i in shown_outputs), default=1.0)
    axes.set(xlim=(0, 1.3 * largest), ylim=(len(shown_outputs) - 0.4, -0.6), xlabel="share of runs")
    axes.grid(visible=False, axis="y")
