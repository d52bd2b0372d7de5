"""What each claim's decisive number came to, over what was promised."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwitness.reports.plots.drawing import drawing
from dpwitness.reports.words.wording import number

_LOW, _HIGH = 1e-3, 1e3  # beyond these an arrow stands for the number


def plot_claims(findings: Sequence[Mapping[str, Any]], path: Path) -> None:
    """One row a claim, on a log scale with the promise at 1: filled at what is proved to be reached where it fails, open at the upper end
    of the enclosure elsewhere."""
    rows = [f for f in findings if f.get("reached")]
    with drawing(path, 7.0, 1.0 + 0.2 * len(rows)) as axes:
        for row, found in enumerate(reversed(rows)):
            low, high = (1 + (number(end) or 0.0) for end in found["reached"])
            low, high = (min(max(end, _LOW), _HIGH) if math.isfinite(end) else _HIGH for end in (low, high))
            fails = found["verdict"] == "FAILS"
            proved = low if fails else high
            axes.plot([low, high], [row, row], color="black", linewidth=1)
            marker = ">" if proved >= _HIGH else "<" if proved <= _LOW else "o"
            axes.plot([proved], [row], marker, color="black", markerfacecolor="black" if fails else "white", markersize=6)
        axes.set_yticks(range(len(rows)), [str(f["id"]) for f in reversed(rows)], fontsize=8)
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.axvline(1.0, color="black", linestyle=":", linewidth=1)
        axes.set_xscale("log")
        axes.set_xlabel("reached / promised (filled: the claim fails)")
