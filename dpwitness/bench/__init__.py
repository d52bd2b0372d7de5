"""Measurements of speed and of what audits reach, by name: tables of what is required and what was found in one run."""

from __future__ import annotations

from importlib import import_module

from dpwitness.bench.table import Row, Table, format_table

__all__ = ["BENCHMARKS", "Row", "Table", "bench", "format_table"]

# Each module has a function `measure() -> Table`, imported when its name is asked for.
BENCHMARKS: dict[str, str] = {
    "audit": "dpwitness.bench.audit",
    "calibration": "dpwitness.bench.calibration",
    "canaries": "dpwitness.bench.canaries",
    "foreign": "dpwitness.bench.foreign",
    "fuzz": "dpwitness.bench.hostile.fuzz",
    "gray-box": "dpwitness.bench.gray_box",
    "mechanisms": "dpwitness.bench.mechanisms",
    "mutation": "dpwitness.bench.mutation",
    "power": "dpwitness.bench.power",
    "programs": "dpwitness.bench.programs",
    "scale": "dpwitness.bench.pace.scale",
    "speed": "dpwitness.bench.pace.speed",
    "white-box": "dpwitness.bench.white_box",
}


def bench(name: str) -> Table:
    """Run one benchmark.

    Raises
    ------
    ValueError
        If no benchmark has this name; the message lists those that there are.
    """
    if name not in BENCHMARKS:
        raise ValueError(f"bench: name must be one of {', '.join(sorted(BENCHMARKS))}, got {name!r}")
    table = import_module(BENCHMARKS[name]).measure()
    assert isinstance(table, Table)
    return table
