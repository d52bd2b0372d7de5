"""The event's picture: where outputs fall on each dataset, and what is guessed there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.plots.drawing import BLUE, GREY, INK, RED, SMALL
from dpwitness.reports.words.wording import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RARE = 0.02  # share of the runs below which an event shows on a logarithmic axis only
_GUESSES = {1: ("guess D1", RED, "////"), -1: ("guess D0", BLUE, "\\\\\\\\")}
_ROWS = 8


def has_event(result: Json) -> bool:
    """Whether outputs of the test were kept to be drawn."""
    return bool((result.get("picture") or {}).get("rounds"))


def draw_event(axes: Axes, result: Json) -> None:
    """Shares of the runs on D0 and on D1 along the event's line, or of the outputs that it lists; what is guessed is hatched."""
    found = result["picture"]
    shares = [np.array(found[side], dtype=float) / max(sum(found[side]), 1) for side in ("d1", "d0")]
    if not found["edges"]:
        _bars(axes, found, shares)
        return
    edges, guesses = np.array(found["edges"], dtype=float), np.array(found["guesses"])
    axes.stairs(shares[1], edges, color=INK, linestyle="--", linewidth=1.3)
    axes.stairs(shares[0], edges, color=INK, linewidth=1.5)
    held = [share[guesses == side].sum() for side, share in zip((1, -1), shares, strict=True)]
    top = max(share.max() for share in shares)
    if 0 < max(held) < _RARE:
        axes.set(yscale="log", ylim=(0.5 * min(share[share > 0].min() for share in shares), 4 * top))
    else:
        axes.set(ylim=(0, 1.25 * top))
    for side, (words, color, hatch) in _GUESSES.items():
        spans = _spans(edges, guesses == side)
        for low, high in spans:
            axes.axvspan(low, high, facecolor=color, alpha=0.12, hatch=hatch, edgecolor=color, linewidth=0)
        if spans:
            low, high = max(spans, key=lambda span: span[1] - span[0])
            place = min(max((low + high) / 2, edges[0] + 0.1 * np.ptp(edges)), edges[-1] - 0.1 * np.ptp(edges))
            axes.text(place, 0.99, words, color=color, fontsize=SMALL, ha="center", va="top", transform=axes.get_xaxis_transform())
    axes.set(xlim=(edges[0], edges[-1]), xlabel=shortened(found["axis"], 60), ylabel="share of runs")
    axes.legend(handles=_handles(), loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _handles() -> list[object]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=INK, linewidth=1.5, label="on D1"),
        Line2D([], [], color=INK, linestyle="--", linewidth=1.3, label="on D0"),
    ]


def _spans(edges: np.ndarray, inside: np.ndarray) -> list[tuple[float, float]]:
    """Runs of neighbouring bins, as one span each."""
    padded = np.concatenate([[False], inside, [False]])
    starts, ends = np.flatnonzero(~padded[:-1] & padded[1:]), np.flatnonzero(padded[:-1] & ~padded[1:])
    return [(float(edges[a]), float(edges[b])) for a, b in zip(starts, ends, strict=True)]


def _bars(axes: Axes, found: Json, shares: list[np.ndarray]) -> None:
    """A pair of bars for each output that the event lists."""
    seen = [i for i in range(len(found["names"])) if shares[0][i] + shares[1][i] > 0][:_ROWS]
    for row, i in enumerate(seen):
        _, color, hatch = _GUESSES.get(found["guesses"][i], ("", GREY, ""))
        axes.barh(row - 0.2, shares[0][i], height=0.36, color=color, edgecolor=color)
        axes.barh(row + 0.2, shares[1][i], height=0.36, facecolor="none", edgecolor=color, hatch=hatch)
        for offset, side, share in ((-0.2, "D1", shares[0][i]), (0.2, "D0", shares[1][i])):
            axes.annotate(f"{side} {share:.3g}", (share, row + offset), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7)
    names = [f"{shortened(found['names'][i], 24)}\n{_GUESSES.get(found['guesses'][i], ('no guess',))[0]}" for i in seen]
    axes.set_yticks(range(len(seen)), names, fontsize=7)
    largest = max((max(shares[0][i], shares[1][i]) for i in seen), default=1.0)
    axes.set(xlim=(0, 1.3 * largest), ylim=(len(seen) - 0.4, -0.6), xlabel="share of runs")
    axes.grid(visible=False, axis="y")
