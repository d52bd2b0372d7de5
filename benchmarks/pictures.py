"""Plots of the published pages, in the style of the reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness.core.values.atomic_files import aside
from dpwitness.reports.drawing import METADATA, common_style, few_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@contextmanager
def drawing(path: Path, width: float = 6.4, height: float = 3.8) -> Iterator[Axes]:
    """Context manager that yields axes and saves their figure in the format of the path's suffix;
    sizes in inches.
    """
    with common_style():
        from matplotlib.figure import Figure

        figure: Any = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        yield axes
        few_ticks(axes)
        metadata = METADATA if Path(path).suffix == ".svg" else {}
        with aside(path) as draft:
            figure.savefig(draft, metadata=metadata, dpi=120)
