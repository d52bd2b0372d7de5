"""Plots of the reproduced figures. Markers and dashes distinguish the lines without color; the same
numbers give the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness.benchmarks.pages.reproductions.logistic import FIGURE_2, PROBLEMS
from dpwitness.benchmarks.pictures import drawing
from dpwitness.core.values.json_reader import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# (line style, marker, color)
_LINES = (
    ("-", "o", "#000000"),
    ("--", "s", "#000000"),
    (":", "^", "#000000"),
    ("-.", "D", "#666666"),
    ("-", "x", "#666666"),
)


def _draw_line(axes: Axes, x: Any, y: Any, kind: int, label: str) -> None:
    dashes, marker, shade = _LINES[kind % len(_LINES)]
    axes.plot(
        x, y, linestyle=dashes, marker=marker, color=shade, markersize=4, linewidth=1.2, label=label
    )


def plot_figure_2(numbers: Json, path: Path) -> None:
    """Draw the test error of each method on each problem, with the paper's mean."""
    methods = ("LR", "A1 std", "A1 gamma", "A2 std", "A2 gamma")
    shades, hatches = (
        ("#ffffff", "#bbbbbb", "#bbbbbb", "#666666", "#666666"),
        ("", "", "////", "", "////"),
    )
    table = numbers["figure_2"]
    with drawing(path, 9.0, 4.2) as axes:
        for j, method in enumerate(methods):
            place = [i + 0.16 * (j - 2) for i in range(len(table))]
            cells = [row[method] for row in table.values()]
            style: Json = {
                "color": shades[j],
                "hatch": hatches[j],
                "edgecolor": "black",
                "linewidth": 0.6,
            }
            bars: Json = {"capsize": 1.5, "elinewidth": 0.6}
            axes.bar(
                place,
                [c["mean"] for c in cells],
                0.15,
                yerr=[c["deviation"] for c in cells],
                error_kw=bars,
                label=method,
                **style,
            )
            column = {"A1": 0, "A2": 1, "LR": 2}[method[:2]]
            printed = [FIGURE_2[PROBLEMS[problem].paper][column][0] for problem in table]
            axes.plot(
                place,
                printed,
                "k_",
                markersize=9,
                markeredgewidth=2.2,
                label="paper" if j == 0 else None,
            )
        axes.axhline(0.5, color="#666666", linewidth=0.6, linestyle=":")
        axes.set_xticks(
            range(len(table)),
            [name.replace(", ", ",\n").replace("breast ", "breast\n") for name in table],
        )
        axes.set_ylabel("test error")
        axes.set_ylim(0, 0.72)
        axes.legend(ncols=6, loc="upper center")


def plot_curve(numbers: Json, path: Path) -> None:
    """Draw the test error over the number of records (CM08, section 3.1)."""
    curve = numbers["curve"]
    with drawing(path) as axes:
        for i, (method, errors) in enumerate(curve["error"].items()):
            _draw_line(axes, curve["records"], errors, i, method)
        axes.fill_between(
            curve["records"],
            0,
            curve["floor A2 std"],
            color="#dddddd",
            label="A2 std cannot be here",
            zorder=0,
        )
        axes.set_xlabel("n, training records")
        axes.set_ylabel("test error")
        axes.set_ylim(0, 0.6)
        axes.legend(ncols=3, loc="upper center")


def plot_dimension(numbers: Json, path: Path) -> None:
    """Draw the accuracy over the padded dimension (JT14, figure 1 c)."""
    found = numbers["dimension"]
    with drawing(path) as axes:
        for i, (method, values) in enumerate(found["accuracy"].items()):
            dashes, marker, shade = _LINES[i]
            style: Json = {
                "linestyle": dashes,
                "marker": marker,
                "color": shade,
                "markersize": 4,
                "linewidth": 1.2,
                "capsize": 2,
            }
            axes.errorbar(
                found["dimensions"], values, found["standard_error"][method], label=method, **style
            )
        axes.axhline(found["baseline"], color="#666666", linewidth=0.8, label="no noise")
        axes.set_xscale("log", base=2)
        axes.set_xlabel("p, features after padding with zeros")
        axes.set_ylabel("accuracy")
        axes.legend(loc="lower left")


def plot_transfer(numbers: Json, path: Path) -> None:
    """Draw the accuracy over epsilon (JT13, figure 2 a)."""
    found = numbers["transfer"]
    with drawing(path) as axes:
        for i, (constant, values) in enumerate(found["accuracy"].items()):
            _draw_line(axes, found["epsilons"], values, i, f"TDDL, c = {constant}")
        axes.axhline(found["baseline"], color="#666666", linewidth=0.8, label="no noise")
        axes.axvline(
            0.1,
            color="#666666",
            linewidth=0.8,
            linestyle=":",
            label="paper: near the baseline from here on",
        )
        axes.set_xscale("log")
        axes.set_xlabel("epsilon")
        axes.set_ylabel("accuracy")
        axes.legend(loc="lower right")
