"""Plots of an audit's progress: the bound over the runs, the candidate pairs, the sensitivity
search, errors over a parameter, and the scores and guesses of canaries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpwitness.auditors.witnesses.facts import claim_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import number
from dpwitness.reports.phrasing.wording import truncated_line
from dpwitness.reports.plots.drawing import BLUE, GREY, INK, RED, SMALL, draw_markers, ticks_between

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAIRS = 8


def _end_marker(result: Json) -> Any:
    """Return the marker style of the final value: a filled diamond for a violation, otherwise an
    open circle.
    """
    broken = result.get("verdict") == Verdict.VIOLATED.value
    return (
        {"marker": "D", "color": RED}
        if broken
        else {"marker": "o", "color": INK, "markerfacecolor": "white"}
    )


def _draw_level(axes: Axes, height: float, words: str, **style: Any) -> None:
    """Draw a horizontal line with a label at the left end."""
    axes.axhline(height, linewidth=1.3, **style)
    axes.annotate(
        words,
        (0.01, height),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
        fontsize=SMALL,
    )


def has_looks(result: Json) -> bool:
    """Return whether a result has several interim looks with a finite bound."""
    return (
        len([1 for _, lower in result.get("looks") or [] if np.isfinite(number(lower) or 0.0)]) > 1
    )


def draw_looks(axes: Axes, result: Json) -> None:
    """Draw the certified bound at each interim look over the number of runs, with the claim and the
    limit.
    """
    steps = np.array([(float(runs), number(lower) or 0.0) for runs, lower in result["looks"]])
    steps = steps[np.isfinite(steps[:, 1])]
    claim, limit = claim_of(result), number(result.get("limit"))
    levels = [claim.parameter] if claim else []
    if claim is not None:
        _draw_level(axes, claim.parameter, f"claimed {claim}", color=INK, linestyle="--")
    if (
        limit is not None
        and np.isfinite(limit)
        and (claim is None or abs(limit / claim.parameter - 1) > 0.08)
    ):
        levels.append(limit)
        _draw_level(axes, limit, f"limit {limit:.4g}", color=GREY, linestyle=":")
    axes.step(steps[:, 0], steps[:, 1], where="post", color=BLUE, linewidth=1.6)
    draw_markers(axes, steps[-1:, 0], steps[-1:, 1], **_end_marker(result))
    words = f"{steps[-1, 1]:.4g} certified"
    # the curve rises, so the lower right corner is free
    axes.text(0.98, 0.04, words, ha="right", fontsize=SMALL, transform=axes.transAxes)
    low, high = steps[0, 0], steps[-1, 0]
    top, least = max([*levels, *steps[:, 1]]) or 1.0, min([*levels, *steps[:, 1]])
    y_range = top - least
    # An axis from zero would hide the growth of a large bound.
    y_limits = (
        (least - 0.3 * y_range, top + 0.4 * y_range) if least > 0.6 * top else (0.0, 1.2 * top)
    )
    axes.set(xscale="log", xlim=(low / 1.1, high * 1.1), ylim=y_limits)
    ticks = ticks_between(low, high) or [low, high]
    axes.set_xticks(ticks, [f"{v:g}" for v in ticks])
    axes.set(
        xlabel="runs of the mechanism", ylabel=f"certified {result.get('parameter', 'epsilon')}"
    )


def has_pairs(result: Json) -> bool:
    """Return whether a result has several candidate pairs."""
    return len(result.get("pairs") or []) > 1


def draw_pairs(axes: Axes, result: Json) -> None:
    """Draw the expected bound of each candidate pair: the tested pair, filled, then the best
    others.
    """
    tried = sorted(
        result["pairs"],
        key=lambda pair: (not pair["confirmed"], -(number(pair.get("expected")) or 0.0)),
    )[:_PAIRS]
    claim, values = (
        claim_of(result),
        [max(number(pair.get("expected")) or 0.0, 0.0) for pair in tried],
    )
    most = (
        max(
            [value for value in values if np.isfinite(value)] + ([claim.parameter] if claim else [])
        )
        or 1.0
    )
    for row, (pair, value) in enumerate(zip(tried, values, strict=True)):
        length = min(value, 1.2 * most)
        axes.barh(
            row,
            length,
            height=0.55,
            facecolor=BLUE if pair["confirmed"] else "none",
            edgecolor=BLUE,
        )
        words = (f"{value:.3g}" if np.isfinite(value) else "no bound") + (
            ", tested" if pair["confirmed"] else ""
        )
        style: Any = {
            "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            "va": "center",
            "fontsize": 7,
        }
        axes.annotate(words, (length, row), xytext=(3, 0), textcoords="offset points", **style)
    if claim is not None:
        axes.axvline(claim.parameter, color=INK, linestyle="--", linewidth=1.3)
        style = {"xytext": (3, 1), "textcoords": "offset points", "fontsize": 7}
        axes.annotate(
            f"claimed {claim}", (claim.parameter, 1.0), xycoords=("data", "axes fraction"), **style
        )
    axes.set_yticks(
        range(len(tried)), [truncated_line(pair["why"], 28) for pair in tried], fontsize=7
    )
    axes.set(
        xlim=(0, 1.5 * most),
        ylim=(len(tried) - 0.4, -0.6),
        xlabel=f"{result.get('parameter', 'epsilon')} expected",
    )
    axes.grid(visible=False, axis="y")


def draw_search(axes: Axes, result: Json) -> None:
    """Draw the largest ratio to the claimed sensitivity bound over the search. A ratio above 1
    violates the bound.
    """
    steps = np.array(result["progress"], dtype=float)
    evaluations, ratios = (
        np.append(steps[:, 0], max(result["evaluations"], steps[-1, 0])),
        np.append(steps[:, 1], steps[-1, 1]),
    )
    _draw_level(axes, 1.0, "the claimed bound", color=INK, linestyle="--")
    axes.step(evaluations, ratios, where="post", color=BLUE, linewidth=1.6)
    draw_markers(axes, evaluations[-1:], ratios[-1:], **_end_marker(result))
    words = f"{ratios[-1]:.6g} found"
    axes.annotate(
        words,
        (evaluations[-1], ratios[-1]),
        xytext=(-4, -10),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=SMALL,
    )
    axes.set(
        xscale="log",
        ylim=(0, 1.2 * max(1.0, ratios[-1])),
        xlabel="pairs evaluated",
        ylabel="attained / claimed",
    )
    ticks = ticks_between(evaluations[0], evaluations[-1])
    axes.set_xticks(ticks, [f"{v:g}" for v in ticks])


def draw_scaling(axes: Axes, result: Json) -> None:
    """Draw the error over the parameter, with the fitted power law, and the claimed power law
    through the first point.
    """
    points = result["points"]
    x, y, spread = (
        np.array([float(p[key]) for p in points])
        for key in ("regressor", "error", "standard_error")
    )
    slope, claimed = float(result["estimate"]), float(result["exponent"])
    grid = np.geomspace(x.min(), x.max(), 50)
    axes.plot(
        grid,
        y[0] * (grid / x[0]) ** claimed,
        color=INK,
        linestyle="--",
        linewidth=1.4,
        label=f"claimed: power {claimed:g}",
    )
    label = f"fitted: power {slope:.3g} ± {2 * float(result['standard_error']):.2g}"
    axes.plot(grid, float(result["constant"]) * grid**slope, color=BLUE, linewidth=1.4, label=label)
    axes.errorbar(
        x,
        y,
        yerr=2 * spread,
        color=INK,
        linestyle="none",
        marker="o",
        markerfacecolor="white",
        capsize=3,
        label="measured",
    )
    axes.set(
        xscale="log", yscale="log", xlabel=truncated_line(result["regressor"], 40), ylabel="error"
    )
    axes.set_xticks(x, [f"{v:.4g}" for v in x])
    low, high = axes.get_ylim()
    ticks = ticks_between(low, high)
    axes.set_yticks(ticks, [f"{v:g}" for v in ticks])
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, columnspacing=1.0)


def has_scores(result: Json) -> bool:
    """Return whether a result has histograms of canary scores."""
    return "guessed_in" in (result.get("picture") or {})


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
        axes.annotate(
            f"claimed {claim}",
            (0.01, claim.parameter),
            fontsize=SMALL,
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
        )
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
