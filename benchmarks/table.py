"""Table of a benchmark, and its text format."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from dpwitness.core.values.validation import InvalidArgument


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, and the requirement that it meets or misses."""

    case: str
    required: float  # the least value that meets the requirement, or the largest if `at_most`
    measured: float
    # a ratio compares two measurements of one run and carries over to other machines; a rate does
    # not
    unit: str
    at_most: bool = False
    counts: tuple[int, int] | None = None  # numerator and denominator, if `measured` is a frequency

    @property
    def met(self) -> bool:
        """Whether the measurement satisfies the requirement."""
        return self.measured <= self.required if self.at_most else self.measured >= self.required


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one benchmark, notes for the reader, and details that only the JSON contains."""

    name: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    details: tuple[Mapping[str, Any], ...] = ()
    binding: bool = False  # whether a missed row is an error of the program: exit code 1


def require_parts(parts: Iterable[str], known: Collection[str]) -> None:
    """Raise InvalidArgument if a benchmark does not have one of the parts."""
    unknown = [part for part in parts if part not in known]
    if unknown:
        raise InvalidArgument(f"--part must be one of {', '.join(known)}, got {unknown[0]!r}")


def root_seed(seed: int | None) -> int:
    """Return the root seed of a benchmark's draws: a given one, or one from the operating
    system.
    """
    return secrets.randbits(32) if seed is None else seed


def seed_note(name: str, seed: int) -> str:
    """Return the note that says how a benchmark is repeated."""
    return f"seed {seed}: dpwitness bench {name} --seed {seed} repeats these draws"


def interval(count: int, of: int) -> tuple[float, float]:
    """Return the Clopper-Pearson limits at 95 %."""
    from scipy.stats import beta

    low = float(beta.ppf(0.025, count, of - count + 1)) if count else 0.0
    return low, float(beta.ppf(0.975, count + 1, of - count)) if count < of else 1.0


def format_table(table: Table) -> str:
    """Return the table as aligned columns: case, required, measured, unit, measured/required, and
    whether the requirement is met.

    Examples
    --------
    >>> print(format_table(Table("demo", (Row("draws", 2e6, 3e6, "runs/s"),
    ...     Row("memory", 1.1, 1.0, "ratio", at_most=True)))))
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
        "  ".join(
            [
                line[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)),
                line[-1],
            ]
        )
        for line in [head, *lines]
    ]
    return "\n".join([*(line.rstrip() for line in printed), *table.notes])
