"""Plots of canary audits: histograms of the scores with the guesses, and the certified bound by the
number of guesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpwitness.core.values.json_reader import Json
from dpwitness.reports.phrasing.facts import claim_of
from dpwitness.reports.phrasing.wording import number
from dpwitness.reports.plots.drawing import BLUE, GREY, INK, RED, SMALL, draw_markers, ticks_between

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def has_scores(result: Json) -> bool:
    """Return whether a result has histograms of canary scores."""
    return result.get("kind") == "canaries" and bool(result.get("picture"))


def draw_scores(axes: Axes, result: Json) -> None:
    """Draw histograms of the scores, included canaries upwards and excluded canaries downwards,
    with the guesses filled or hatched.
    """
    picture = result["picture"]
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
        fontsize=7,
        transform=axes.transAxes,
    )


def has_guess_bounds(result: Json) -> bool:
    """Return whether a result has certified bounds by the number of guesses."""
    return has_scores(result) and len(result["picture"].get("course") or []) > 1


def draw_guess_bounds(axes: Axes, result: Json) -> None:
    """Draw the bound that each number of guesses would certify alone, and mark the chosen number of
    guesses.
    """
    course = np.array(
        [(float(r), number(lower) or 0.0) for r, _, lower in result["picture"]["course"]]
    )
    chosen, certified = float(result["guesses"]), number(result.get("parameter_lower")) or 0.0
    claim = claim_of(result)
    parameters = [certified, *course[:, 1]]
    if claim is not None:
        parameters.append(claim.parameter)
        axes.axhline(claim.parameter, color=INK, linestyle="--", linewidth=1.3)
        label_position: Any = {
            "xycoords": ("axes fraction", "data"),
            "xytext": (0, 2),
            "textcoords": "offset points",
        }
        axes.annotate(f"claimed {claim}", (0.01, claim.parameter), fontsize=SMALL, **label_position)
    axes.plot(course[:, 0], course[:, 1], color=BLUE, linewidth=1.4, marker=".")
    broken = claim is not None and certified > claim.parameter
    draw_markers(
        axes, [chosen], [certified], marker="D" if broken else "o", color=RED if broken else INK
    )
    axes.text(
        0.98,
        0.04,
        f"{certified:.4g} certified by {chosen:g} guesses",
        ha="right",
        fontsize=SMALL,
        transform=axes.transAxes,
    )
    axes.set(
        xscale="log",
        ylim=(0.0, 1.2 * max([*parameters, 0.1])),
        xlabel="guesses",
        ylabel=f"certified {result.get('parameter', 'epsilon')}",
    )
    ticks = ticks_between(course[0, 0], course[-1, 0])
    axes.set_xticks(ticks, [f"{v:g}" for v in ticks])
