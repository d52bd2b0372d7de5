"""Plot of the claims' decisive numbers relative to the promises."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwitness.benchmarks.pictures import drawing
from dpwitness.core.values.wording import number

_LOW, _HIGH = 1e-3, 1e3  # numbers outside this range are drawn as arrows


def plot_claims(findings: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw value / promise of each claim on a log scale, one row per claim, with the promise at 1.

    A filled marker is the proved lower bound of a claim that fails. An open marker is the upper
    endpoint of the enclosure otherwise.
    """
    rows = [f for f in findings if f.get("reached")]
    with drawing(path, 7.0, 1.0 + 0.2 * len(rows)) as axes:
        for row, found in enumerate(reversed(rows)):
            low, high = (1 + (number(end) or 0.0) for end in found["reached"])
            low, high = (
                min(max(end, _LOW), _HIGH) if math.isfinite(end) else _HIGH for end in (low, high)
            )
            fails = found["verdict"] == "FAILS"
            proved = low if fails else high
            axes.plot([low, high], [row, row], color="black", linewidth=1)
            marker = ">" if proved >= _HIGH else "<" if proved <= _LOW else "o"
            axes.plot(
                [proved],
                [row],
                marker,
                color="black",
                markerfacecolor="black" if fails else "white",
                markersize=6,
            )
        axes.set_yticks(range(len(rows)), [str(f["id"]) for f in reversed(rows)], fontsize=8)
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.axvline(1.0, color="black", linestyle=":", linewidth=1)
        axes.set_xscale("log")
        axes.set_xlabel("reached / promised (filled: the claim fails)")
