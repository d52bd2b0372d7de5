"""Plots of a report as SVG: readable in black and white, and the same bytes from the same data. matplotlib is imported on first use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.statistics.certified_point import CertifiedPoint, lower_profile
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.plots.drawing import drawing
from dpwitness.reports.words.facts import claim_of
from dpwitness.reports.words.wording import number, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_INK, _GREY, _RED, _BLUE = "#111111", "#777777", "#b3261e", "#1f5fa8"
_RARE = 0.02  # false-positive rates below which a point is shown on logarithmic axes


@dataclass(frozen=True, slots=True)
class _Proof:
    """What a black-box result proves: a point under the pair's trade-off curve, at confidence 1 - alpha."""

    point: CertifiedPoint
    parameter: float
    epsilon: float


def _proof(result: Json) -> _Proof | None:
    claim, point, parameter = claim_of(result), result.get("certified_point"), number(result.get("parameter_lower"))
    if claim is None or not point or parameter is None:
        return None
    return _Proof(CertifiedPoint(**point), parameter, number(result.get("epsilon_lower")) or 0.0)


def _guesses(result: Json) -> str:
    """The curve is of one tally; the bound may rest on several stages."""
    return f"certified from below, {'the last stage' if result.get('stages') else 'these guesses'}"


def _arrays(result: Json, key: str, *names: str) -> list[FloatArray] | None:
    """Curves that a result brings along, such as a white-box profile; None where they are missing or unfit."""
    curves = result.get(key)
    if not isinstance(curves, dict) or any(name not in curves for name in names):
        return None
    found = [np.array([float(v) for v in curves[name]]) for name in names]
    return found if len({len(curve) for curve in found}) == 1 and len(found[0]) > 1 else None


def has_profile(result: Json) -> bool:
    """Whether `plot_profile` has something to draw besides the claim."""
    return _proof(result) is not None or _arrays(result, "profile", "epsilons", "delta_lower", "delta_upper") is not None


def has_tradeoff(result: Json) -> bool:
    """Whether `plot_tradeoff` has something to draw besides the claim."""
    return _proof(result) is not None or _arrays(result, "tradeoff", "fpr", "tpr_lower", "tpr_upper") is not None


@lru_cache(maxsize=16)
def _claimed_curve(claim: Claim) -> tuple[FloatArray, FloatArray]:
    """g on a grid fine enough to draw with: steps of at most 4 % in q where the curve is steep."""
    grid = np.concatenate([np.geomspace(1e-12, 1e-5, 160), np.geomspace(1e-5, 0.2, 250)[1:], np.linspace(0.2, 1.0, 80)[1:]])
    return grid, claim.tradeoff(grid)


def _claimed_profile(claim: Claim, epsilon: FloatArray) -> FloatArray:
    if not claim.bounds_renyi:
        return claim.delta(epsilon)
    grid, curve = _claimed_curve(claim)  # `Claim.delta` on its own grid takes seconds for zCDP
    gain: FloatArray = (curve - np.exp(epsilon)[:, None] * grid).max(axis=1)
    return np.clip(gain, 0.0, 1.0)


def plot_profile(result: Json, path: Path) -> None:
    """delta(epsilon): the claim's profile, and what is certified of the mechanism's. Certified above claimed is a violation."""
    claim, proof = claim_of(result), _proof(result)
    exact = _arrays(result, "profile", "epsilons", "delta_lower", "delta_upper")
    end = _last_epsilon(claim, proof, exact)
    epsilon = np.linspace(0.0, end, 1201)
    claimed = _claimed_profile(claim, epsilon) if claim else None
    certified = lower_profile(proof.point, epsilon) if proof else None
    floor = _floor(claim, epsilon, claimed, certified)
    with drawing(path, 6.2, 4.4, left=0.75, bottom=1.3) as axes:
        if claimed is not None:
            axes.plot(epsilon, _above(claimed, floor), color=_INK, linestyle="--", linewidth=1.6, label=f"claimed: {claim}")
        if proof is not None and certified is not None:
            axes.plot(epsilon, _above(certified, floor), color=_RED, linewidth=1.8, label=_guesses(result))
            if claimed is not None:
                beyond = certified > claimed
                low, high = _above(claimed, floor), _above(certified, floor)
                label = "violated here" if beyond.any() else None
                axes.fill_between(epsilon, low, high, where=beyond.tolist(), facecolor="none", edgecolor=_RED, hatch="////", label=label)
            if claim is not None and 0 < proof.epsilon < math.inf and claim.bounds_epsilon:
                at = max(claim.delta_budget, floor)
                label = f"epsilon > {proof.epsilon:.4g} at delta = {claim.delta_budget:g}"
                axes.plot([proof.epsilon], [at], marker="D", color=_RED, linestyle="none", clip_on=False, zorder=5, label=label)
        if exact is not None:
            at_least, at_most = _above(exact[1], floor), _above(exact[2], floor)
            axes.plot(exact[0], at_least, color=_BLUE, linestyle="-", linewidth=1.4, label="enclosure: at least")
            axes.plot(exact[0], at_most, color=_BLUE, linestyle="-.", linewidth=1.4, label="enclosure: at most")
            axes.fill_between(exact[0], at_least, at_most, facecolor="none", edgecolor=_BLUE, hatch="\\\\")
        axes.set(xlim=(0, end), yscale="log", ylim=(floor, 1.2), xlabel="epsilon", ylabel="delta")
        axes.yaxis.set_major_formatter("{x:g}")
        _title(axes, result, "privacy profile")
        _legend_below(axes)


def _last_epsilon(claim: Claim | None, proof: _Proof | None, exact: list[FloatArray] | None) -> float:
    """Where the plot ends: beyond every curve's last interesting epsilon."""
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


def _floor(claim: Claim | None, epsilon: FloatArray, claimed: FloatArray | None, certified: FloatArray | None) -> float:
    """Bottom of the logarithmic axis: below the claimed delta, and below the delta by which a claim is broken."""
    candidates = [1e-4]
    if claim is not None and claim.delta_budget > 0:
        candidates.append(claim.delta_budget / 10)
    if claimed is not None and certified is not None:
        gap = float((certified - claimed).max())
        candidates += [gap / 30 if gap > 0 else 1.0, float(certified.max()) / 100 or 1.0]
    return 10.0 ** math.floor(math.log10(max(min(candidates), 1e-12)))


def _above(curve: FloatArray, floor: float) -> FloatArray:
    """A curve that leaves a logarithmic plot through its bottom instead of breaking off."""
    return np.maximum(curve, floor * 1e-3)


def plot_tradeoff(result: Json, path: Path) -> None:
    """True-positive against false-positive rate: the claim's curve, and the certified point. A point above the curve is a violation.

    A small window shows the point close up, where it would lie on the curve to the eye.
    """
    claim, proof = claim_of(result), _proof(result)
    exact = _arrays(result, "tradeoff", "fpr", "tpr_lower", "tpr_upper")
    curves: list[tuple[FloatArray, FloatArray, Any]] = []
    grid = np.concatenate([np.geomspace(1e-9, 1e-2, 150), np.linspace(1e-2, 1.0, 250)[1:]])
    rare = proof is not None and 0 < min(proof.point.fpr, proof.point.observed_fpr or 1.0) < _RARE  # in the corner of linear axes
    window = _window(proof.point, claim) if proof is not None and not rare else None
    if window is not None:
        grid = np.union1d(grid, np.linspace(max(window[0], 1e-12), window[1], 60))
    curves.append((grid, grid, {"color": _GREY, "linestyle": ":", "linewidth": 1.2, "label": "pure chance"}))
    if claim is not None:
        curves.append((grid, claim.tradeoff(grid), {"color": _INK, "linestyle": "--", "linewidth": 1.6, "label": f"claimed: {claim}"}))
    if claim is not None and proof is not None and 0 < proof.parameter < math.inf:
        reached = claim.with_parameter(proof.parameter)
        label = f"{claim.symbol} = {proof.parameter:.4g}, certified"
        curves.append((grid, reached.tradeoff(grid), {"color": _RED, "linestyle": "-.", "linewidth": 1.0, "label": label}))
    if exact is not None:
        curves.append((exact[0], exact[1], {"color": _BLUE, "linewidth": 1.4, "label": "the pair's own: at least"}))
        curves.append((exact[0], exact[2], {"color": _BLUE, "linestyle": "-.", "linewidth": 1.4, "label": "at most"}))
    with drawing(path, 5.3, 6.0, left=0.7, bottom=1.6) as axes:
        views = [axes] if window is None else [axes, axes.inset_axes((0.56, 0.13, 0.42, 0.38), facecolor="white", zorder=4)]
        for view in views:
            for x, y, style in curves:
                view.plot(x, y, **style)
            if proof is not None:
                _certified_point(view, proof.point, claim)
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="false-positive rate", ylabel="true-positive rate")
        if rare and proof is not None:
            low = 10.0 ** math.floor(math.log10(min(proof.point.fpr, proof.point.observed_fpr or 1.0)) - 0.5)
            axes.set(xscale="log", yscale="log", xlim=(max(low, 1e-9), 1.0), ylim=(max(low, 1e-9), 1.2))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_major_formatter("{x:g}")
        if window is not None:
            views[1].set(xlim=window[:2], ylim=window[2:])
            views[1].tick_params(labelsize=7)
            for axis in (views[1].xaxis, views[1].yaxis):
                axis.set_major_formatter("{x:.4g}")
            views[1].set_xticks(np.linspace(*window[:2], 5)[1::2])
            views[1].set_yticks(np.linspace(*window[2:], 5)[1::2])
            axes.indicate_inset_zoom(views[1], edgecolor=_GREY)
        _title(axes, result, "trade-off")
        _legend_below(axes)


def _window(point: CertifiedPoint, claim: Claim | None) -> tuple[float, float, float, float]:
    """Limits of x and y around the certified point, as wide as its distance from the claim's curve asks for, at most 0.1."""
    gap = abs(point.tpr - float(claim.tradeoff(point.fpr))) if claim is not None else 0.0
    tall = min(0.1, max(2.5 * gap, 2.5 * abs(point.observed_tpr - point.tpr), 1e-3 * point.tpr, 1e-12))
    wide = max(tall * min(1.0, point.fpr / max(point.tpr, 1e-300)), 1.5 * abs(point.observed_fpr - point.fpr), 1e-12)
    return max(0.0, point.fpr - wide), min(1.0, point.fpr + wide), max(0.0, point.tpr - tall), min(1.02, point.tpr + tall)


def _certified_point(axes: Axes, point: CertifiedPoint, claim: Claim | None) -> None:
    seen = (point.observed_fpr, point.observed_tpr)
    axes.plot([point.fpr, seen[0]], [point.tpr, seen[1]], color=_RED, linewidth=0.8)
    axes.plot(*[[v] for v in seen], marker="o", markerfacecolor="white", color=_RED, linestyle="none", label="observed")
    label = f"certified: ({point.fpr:.4g}, {point.tpr:.4g})"
    if claim is not None:
        label += f"\nclaim allows at most {float(claim.tradeoff(point.fpr)):.4g} there"
    axes.plot([point.fpr], [point.tpr], marker="D", color=_RED, linestyle="none", zorder=5, label=label)


def _legend_below(axes: Axes, columns: int = 2) -> None:
    height = axes.bbox.height / axes.figure.dpi  # inches
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.45 / height), ncols=columns, fontsize=8)


def _title(axes: Axes, result: Json, what: str) -> None:
    axes.set_title(f"{_short(result)}: {what} ({verdict(result.get('verdict'))})", fontsize=9, loc="left")


def _short(result: Json) -> str:
    name = " ".join(str(result.get("name", "")).split())
    return name if len(name) <= 36 else f"{name[:33]}..."


def relative(result: Json) -> tuple[float, float] | None:
    """What is certified over what is claimed, and the end of its whisker; None for a result without a claim, a bound or a verdict.

    The whisker ends at what would have been found, or at the upper end of an enclosure.
    """
    claim, least = claim_of(result), number(result.get("parameter_lower"))
    if claim is None or least is None or result.get("verdict") == Verdict.ERROR.value:
        return None
    found = number(result.get("parameter_upper" if result.get("kind") == "white box" else "detectable"))
    return least / claim.parameter, (math.inf if found is None else found) / claim.parameter


def plot_overview(results: Sequence[Json], path: Path) -> None:
    """A dot an audit: certified over claimed; a whisker out to what would have been found with probability 0.9, of its event's kind.

    An enclosure is a bar from its lower to its upper end.
    """
    rows = [(r, pair) for r in results if (pair := relative(r)) is not None]
    dots = np.array([pair[0] for _, pair in rows])
    end = 1.15 * max(1.3, float(np.max(dots[np.isfinite(dots)], initial=0.0)))
    dots = np.minimum(dots, end)  # an infinite one stands on the edge
    broken = np.array([r.get("verdict") == Verdict.VIOLATED.value for r, _ in rows])
    names = [_short(r) for r, _ in rows]
    with drawing(path, 7.6, 1.2 + 0.26 * len(rows), left=0.3 + 0.075 * max(map(len, names)), bottom=0.9) as axes:
        heights = np.arange(len(rows))[::-1]
        enclosed = np.array([r.get("kind") == "white box" for r, _ in rows])
        for y, dot, whisker, exact in zip(heights, dots, (pair[1] for _, pair in rows), enclosed, strict=True):
            reach = min(whisker, end)
            if exact:
                axes.plot([dot, reach], [y, y], color=_BLUE, linewidth=3.0, solid_capstyle="butt")
            if reach > dot:
                axes.plot([dot, reach], [y, y], color=_GREY, linewidth=1.0)
                axes.plot([reach], [y], color=_GREY, marker=">" if whisker > end else "|", linestyle="none")
        axes.axvline(1.0, color=_INK, linestyle="--", linewidth=1.2, label="the claim")
        kept, open_ = ~broken & enclosed, ~broken & ~enclosed
        _dots(axes, dots[open_], heights[open_], label="not refuted", marker="o", markerfacecolor="white", color=_INK)
        _dots(axes, dots[kept], heights[kept], label="enclosed, within the claim or undecided", marker="s", color=_BLUE)
        _dots(axes, dots[broken], heights[broken], label="violated", marker="D", color=_RED)
        if not enclosed.all():
            axes.plot([], [], color=_GREY, marker="|", label="would have been found with probability 0.9")
        axes.set(xlim=(0, end), ylim=(-0.7, len(rows) - 0.3), xlabel="certified parameter / claimed parameter")
        axes.set_yticks(heights, names)
        _legend_below(axes, columns=3)


def plot_search(result: Json, path: Path) -> None:
    """Sensitivity: the largest ratio to the claimed bound so far, over the search. Beyond 1 the bound is broken."""
    steps = np.array(result["trace"], dtype=float)
    evaluations, ratios = np.append(steps[:, 0], max(result["evaluations"], steps[-1, 0])), np.append(steps[:, 1], steps[-1, 1])
    with drawing(path, 6.2, 3.8, left=0.75, bottom=1.0) as axes:
        axes.axhline(1.0, color=_INK, linestyle="--", linewidth=1.4, label="the claimed bound")
        axes.step(evaluations, ratios, where="post", color=_BLUE, linewidth=1.6, label="largest ratio so far")
        broken = result.get("verdict") == Verdict.VIOLATED.value
        style: Any = {"marker": "D", "color": _RED} if broken else {"marker": "o", "color": _INK, "markerfacecolor": "white"}
        _dots(axes, evaluations[-1:], ratios[-1:], label=f"found: {ratios[-1]:.6g}", **style)
        axes.set(xscale="log", ylim=(0, 1.12 * max(1.0, ratios[-1])), xlabel="pairs evaluated", ylabel="attained / claimed")
        _plain_ticks(axes, evaluations[0], evaluations[-1])
        _title(axes, result, "sensitivity over the search")
        _legend_below(axes, columns=3)


def losses_of_calls(result: Json) -> list[tuple[str, float, str]]:
    """(what is called, how long its bar is, what is written at it), for calls that cost: epsilon, or mu of normal noise."""
    found = []
    for call in result.get("calls") or []:
        epsilon, total, scale = (number(call[key]) for key in ("epsilon", "total", "scale"))
        short = f"{'.'.join(call['primitive'].split('.')[-2:])}" + (f" x {call['times']}" if call["times"] > 1 else "")
        if epsilon is not None and 0 < epsilon < math.inf:
            found.append((short, epsilon, f"epsilon = {epsilon:.4g}"))
        elif epsilon == math.inf and total and scale and math.isfinite(total):
            found.append((short, total / scale, f"mu = {total / scale:.4g}, normal noise"))
        elif epsilon == math.inf:
            found.append((short, math.inf, "no finite bound"))
    return found[:12]


def plot_calls(result: Json, path: Path) -> None:
    """A bar for each primitive that costs, and what the claim allows for all of them together."""
    rows = losses_of_calls(result)
    claim = claim_of(result)
    claimed = claim.parameter if claim is not None else 1.0
    longest = max([length for _, length, _ in rows if math.isfinite(length)] + [claimed])
    with drawing(path, 6.2, 1.1 + 0.42 * len(rows)) as axes:
        for i, (name, length, told) in enumerate(rows):
            end = length if math.isfinite(length) else 1.5 * longest
            axes.barh(i, end, height=0.5, facecolor="none", edgecolor=_BLUE, hatch="////" if end > claimed else "", linewidth=1.2)
            axes.annotate(f"{name}: {told}", (0, i), xytext=(4, 11), textcoords="offset points", va="center", fontsize=8)
        axes.axvline(claimed, color=_INK, linestyle="--", linewidth=1.4)
        axes.annotate(f"claimed {claim}", (claimed, -0.75), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
        axes.set(
            xlim=(0, 1.6 * longest),
            ylim=(len(rows) - 0.4, -1.1),
            xlabel=f"loss at the attained distance ({claim.symbol if claim else 'epsilon'})",
            yticks=[],
        )
        _title(axes, result, "loss by call")


def _plain_ticks(axes: Axes, low: float, high: float) -> None:
    """Plain numbers at 1, 2 and 5 on a logarithmic x axis, few enough to stand apart."""
    steps = np.outer(10.0 ** np.arange(math.floor(math.log10(low)), math.log10(high) + 1), [1, 2, 5]).ravel()
    shown = steps[(steps >= low) & (steps <= high)]
    shown = shown if len(shown) <= 8 else shown[np.isclose(np.log10(shown) % 1, 0)]
    axes.set_xticks(shown, [f"{v:g}" for v in shown])
    axes.set_xticks([], minor=True)


def plot_scaling(result: Json, path: Path) -> None:
    """Utility: error against the parameter with the fitted power, and the claimed one through the first point."""
    points = result["points"]
    x, y, spread = (np.array([float(p[key]) for p in points]) for key in ("regressor", "error", "standard_error"))
    slope, claimed = float(result["estimate"]), float(result["exponent"])
    grid = np.geomspace(x.min(), x.max(), 50)
    with drawing(path, 6.2, 4.2, left=0.75, bottom=1.0) as axes:
        axes.plot(grid, y[0] * (grid / x[0]) ** claimed, color=_INK, linestyle="--", linewidth=1.4, label=f"claimed: power {claimed:g}")
        label = f"fitted: power {slope:.3g} ± {2 * float(result['standard_error']):.2g}"
        axes.plot(grid, float(result["constant"]) * grid**slope, color=_BLUE, linewidth=1.4, label=label)
        axes.errorbar(x, y, yerr=2 * spread, color=_INK, linestyle="none", marker="o", markerfacecolor="white", capsize=3, label="measured")
        axes.set(xscale="log", yscale="log", xlabel=str(result["regressor"]), ylabel="error")
        axes.set_xticks(x, [f"{v:.4g}" for v in x])
        axes.set_xticks([], minor=True)
        axes.set_yscale("log", subs=[])
        low, high = axes.get_ylim()
        ticks = np.outer(10.0 ** np.arange(math.floor(math.log10(low)), math.log10(high)), [1, 2, 5]).ravel()
        shown = ticks[(ticks >= low) & (ticks <= high)]
        axes.set_yticks(shown, [f"{v:g}" for v in shown])
        _title(axes, result, "error")
        _legend_below(axes, columns=3)


def _dots(axes: Axes, x: ArrayLike, y: ArrayLike, **style: Any) -> None:
    if np.size(x):
        axes.plot(x, y, linestyle="none", zorder=5, clip_on=False, **style)
