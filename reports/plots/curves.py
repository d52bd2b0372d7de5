"""Plots of the privacy profile and the trade-off curve: of the claim, and the certified or enclosed
curve of the mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpwitness.auditors.statistics.certificate import CertifiedPoint, lower_profile
from dpwitness.auditors.witnesses.facts import claim_of
from dpwitness.core.claims import Claim
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import number
from dpwitness.reports.plots.drawing import BLUE, GREY, INK, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RARE = 0.02  # points with smaller false-positive rates are drawn on logarithmic axes
_POINTS = 161


@dataclass(frozen=True, slots=True)
class _CertifiedBound:
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


def _curves(result: Json, key: str, *names: str) -> list[FloatArray] | None:
    """Return the curves of a result, such as a white-box privacy profile; None if they are missing
    or malformed.
    """
    curves = result.get(key)
    if not isinstance(curves, dict) or any(name not in curves for name in names):
        return None
    found = [np.array([float(v) for v in curves[name]]) for name in names]
    return found if len({len(curve) for curve in found}) == 1 and len(found[0]) > 1 else None


def has_profile(result: Json) -> bool:
    """Return whether a result has a privacy profile, or a certified point, for `draw_profile`."""
    return (
        _certified_bound(result) is not None
        or _curves(result, "profile", "epsilons", "delta_lower", "delta_upper") is not None
    )


def has_tradeoff(result: Json) -> bool:
    """Return whether a result has a trade-off curve, or a certified point, for `draw_tradeoff`."""
    return (
        _certified_bound(result) is not None
        or _curves(result, "tradeoff", "fpr", "tpr_lower", "tpr_upper") is not None
    )


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
    exact = _curves(result, "profile", "epsilons", "delta_lower", "delta_upper")
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
    exact = _curves(result, "tradeoff", "fpr", "tpr_lower", "tpr_upper")
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
        _draw_certified_point(axes, proof.point)
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="false-positive rate", ylabel="true-positive rate")
    if use_log_axes and proof is not None:
        low = 10.0 ** math.floor(
            math.log10(min(proof.point.fpr, proof.point.observed_fpr or 1.0)) - 0.5
        )
        axes.set(xscale="log", yscale="log", xlim=(max(low, 1e-9), 1.0), ylim=(max(low, 1e-9), 1.2))
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, columnspacing=1.0, handlelength=1.8
    )


def _draw_certified_point(axes: Axes, point: CertifiedPoint) -> None:
    observed = (point.observed_fpr, point.observed_tpr)
    axes.plot([point.fpr, observed[0]], [point.tpr, observed[1]], color=RED, linewidth=0.8)
    axes.plot(
        *[[v] for v in observed],
        marker="o",
        markerfacecolor="white",
        color=RED,
        linestyle="none",
        label="observed",
    )
    axes.plot(
        [point.fpr],
        [point.tpr],
        marker="D",
        color=RED,
        linestyle="none",
        zorder=5,
        label="certified",
    )
