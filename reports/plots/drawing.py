"""Every plot of the house: SVG, readable in black and white, the same bytes from the same data. matplotlib is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness.mechanisms.numerics.evolution import windowless
from dpwitness.mechanisms.terms.writing import aside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE: Any = {
    "svg.hashsalt": "dpwitness",  # element ids, otherwise random
    "svg.fonttype": "none",  # text stays text: small, searchable
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "text.parse_math": False,  # a dollar sign in a mechanism's name is a dollar sign
}


@contextmanager
def drawing(path: Path, width: float = 6.4, height: float = 3.8, left: float | None = None, bottom: float = 0.0) -> Iterator[Axes]:
    """Axes of a figure without global state, saved as SVG (or as its suffix says) when the block ends.

    Sizes and margins are in inches; without `left` they are fitted to the labels.
    """
    with windowless():
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogFormatterMathtext

    path = Path(path)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the reader's own settings do not change a report
        matplotlib.rcParams.update(_STYLE)
        if left is None:
            figure = Figure(figsize=(width, height), layout="constrained")
            axes = figure.add_subplot()
        else:
            figure = Figure(figsize=(width, height))
            axes = figure.add_axes((left / width, bottom / height, 1 - (left + 0.15) / width, 1 - (bottom + 0.3) / height))
        yield axes
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), LogFormatterMathtext):  # it needs `parse_math`
                axis.set_major_formatter("{x:g}")
        metadata = {"Date": None, "Creator": "dpwitness"} if path.suffix == ".svg" else {}
        with aside(path) as draft:
            figure.savefig(draft, metadata=metadata, dpi=120)
