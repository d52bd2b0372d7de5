"""The table that a benchmark returns, and how it is printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement.

    Parameters
    ----------
    case : str
        What was measured.
    required : float
        What it must reach, or must stay below where `at_most`.
    measured : float
        What it reached, in the same unit.
    unit : str
        Of both. A ``ratio`` compares two measurements of this run and carries over to other machines; a rate does not.
    at_most : bool
        Whether smaller is better.
    counts : (int, int), optional
        What happened how often, where `measured` is that share.
    """

    case: str
    required: float
    measured: float
    unit: str
    at_most: bool = False
    counts: tuple[int, int] | None = None

    @property
    def met(self) -> bool:
        """Whether the measurement is on the required side."""
        return self.measured <= self.required if self.at_most else self.measured >= self.required


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one benchmark, what a reader must know about them, and what stands behind them, which only the JSON tells."""

    name: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    details: tuple[Mapping[str, Any], ...] = ()
    binding: bool = False  # whether a missed row is an error of the program: exit code 1


def best_time(run: Callable[[], Any], repeats: int = 5) -> float:
    """Least processor time of `repeats` calls, in seconds, after one that warms up.

    The threads of this process all count, so that none is mistaken for speed; time in which other processes run does not.
    """
    run()
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def format_table(table: Table) -> str:
    """Aligned columns: case, required, measured, unit, measured/required, and whether the requirement is met.

    Examples
    --------
    >>> print(format_table(Table("demo", (Row("draws", 2e6, 3e6, "runs/s"), Row("memory", 1.1, 1.0, "ratio", at_most=True)))))
    case     required  measured    unit     ×
    draws   >=  2e+06     3e+06  runs/s   1.5  met
    memory  <=    1.1         1   ratio  0.91  met
    """
    head = ["case", "required", "measured", "unit", "×", ""]
    lines = [
        [
            row.case,
            f"{'<=' if row.at_most else '>='} {row.required:>6.4g}",
            f"{row.measured:.5g}",
            row.unit,
            f"{row.measured / row.required:.2g}" if row.required and isfinite(row.required) else "",
            "met" if row.met else "MISSED",
        ]
        for row in table.rows
    ]
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    printed = [
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)), line[-1]])
        for line in [head, *lines]
    ]
    return "\n".join([*(line.rstrip() for line in printed), *table.notes])
