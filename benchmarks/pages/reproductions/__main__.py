"""Command that reproduces published figures of the papers from one seed: numbers, plots, and a page
that compares both.

``python -m dpwitness.benchmarks.pages.reproductions [FOLDER [SEED]]`` writes
``reproductions.json``, ``reproductions.md`` and four SVG plots. Without a seed, one is drawn.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from dpwitness.benchmarks.pages.reproductions import accuracy as acc
from dpwitness.benchmarks.pages.reproductions import logistic as lr
from dpwitness.benchmarks.pages.reproductions.page import (
    page,
    plot_curve,
    plot_dimension,
    plot_figure_2,
    plot_transfer,
)
from dpwitness.benchmarks.table import root_seed
from dpwitness.core.values.atomic_files import write_json, write_text
from dpwitness.core.values.json_reader import Json

CURVE_RECORDS = tuple(range(100, 701, 100))


def compute(seed: int) -> Json:
    """Compute all numbers of the page; takes about one minute on one core."""
    missing = {
        problem: why for problem in lr.PROBLEMS if (why := lr.available(problem)) is not None
    }
    return {
        "seed": seed,
        "missing": missing,
        "figure_2": {
            p: {k: figure_2_cell(p, k, seed) for k in lr.METHODS}
            for p in lr.PROBLEMS
            if p not in missing
        },
        "curve": {
            "records": list(CURVE_RECORDS),
            "error": {
                k: [_round(lr.curve_point(k, n, seed)) for n in CURVE_RECORDS]
                for k in lr.CURVE_METHODS
            },
            "floor A2 std": [_round(lr.curve_floor(n, seed)) for n in CURVE_RECORDS],
        },
        "dimension": _dimension(seed),
        "transfer": _transfer(seed),
    }


def figure_2_cell(problem: str, method: str, seed: int) -> Json:
    """Return one cell of figure 2 in the form of the JSON file; an infinite epsilon is None."""
    found = lr.cell(problem, method, seed)
    kept_epsilon = _round(found.epsilon) if math.isfinite(found.epsilon) else None
    return {
        "mean": _round(found.mean),
        "deviation": _round(found.deviation),
        "long_run": _round(found.long_run),
        "epsilon": kept_epsilon,
        "training": found.training,
        "dimension": found.dimension,
    }


def _dimension(seed: int) -> Json:
    points = {
        k: [acc.dimension_point(k, p, seed) for p in acc.DIMENSIONS] for k in acc.DIMENSION_METHODS
    }
    kept_epsilon = {k: acc.dimension_epsilon(k) for k in acc.DIMENSION_METHODS}
    return {
        "dimensions": list(acc.DIMENSIONS),
        "baseline": _round(acc.dimension_baseline(seed)),
        "accuracy": {k: [_round(mean) for mean, _ in row] for k, row in points.items()},
        "standard_error": {k: [_round(error) for _, error in row] for k, row in points.items()},
        "epsilon": {
            k: None if value is None else _round(value) for k, value in kept_epsilon.items()
        },
    }


def _transfer(seed: int) -> Json:
    baseline, curves = acc.transfer_curve(seed)
    return {
        "epsilons": list(acc.EPSILONS),
        "baseline": _round(baseline),
        "spread": _round(acc.transfer_spread(seed)),
        "accuracy": {
            f"{constant:g}": [_round(value) for value in row] for constant, row in curves.items()
        },
    }


def _round(value: float) -> float:
    """Round to four decimals; further decimals depend on the processor."""
    return round(value, 4)


def write(numbers: Json, folder: Path) -> list[Path]:
    """Write the JSON file, the page and the plots of `numbers` into `folder`, created if missing;
    return the paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "reproductions.json", numbers)
    write_text(folder / "reproductions.md", page(numbers))
    plots = {
        "logistic-errors.svg": plot_figure_2,
        "logistic-learning-curve.svg": plot_curve,
        "dimension-independence.svg": plot_dimension,
        "transfer-accuracy.svg": plot_transfer,
    }
    for name, plot in plots.items():
        plot(numbers, folder / name)
    return [folder / name for name in ("reproductions.json", "reproductions.md", *plots)]


def main(folder: str | Path = "reports/published", seed: str | None = None) -> list[Path]:
    """Compute all numbers and write the JSON file, the page and the plots into `folder`; return the
    paths.
    """
    return write(compute(root_seed(None if seed is None else int(seed))), Path(folder))


if __name__ == "__main__":
    for path in main(*sys.argv[1:3]):
        print(path)
