"""Registry of benchmarks: tables of required and measured values of speed, power and error rates."""

from __future__ import annotations

from importlib import import_module

from dpwitness.bench.table import Row, Table, format_table

__all__ = ["BENCHMARKS", "Row", "Table", "bench", "format_table"]

# Each module has a function `measure() -> Table`. A module is imported only when its benchmark runs.
BENCHMARKS: dict[str, str] = {
    "adversarial": "dpwitness.bench.adversarial.run",
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
    "scale": "dpwitness.bench.performance.scale",
    "speed": "dpwitness.bench.performance.speed",
    "white-box": "dpwitness.bench.white_box",
}


SEEDED_BENCHMARKS = ("adversarial",)  # benchmarks with random cases, which take a seed: `measure(seed)`


def bench(name: str, seed: int | None = None) -> Table:
    """Run one benchmark and return its table.

    Parameters
    ----------
    name : str
        A key of `BENCHMARKS`.
    seed : int, optional
        Root of the random cases of a benchmark in `SEEDED_BENCHMARKS`; drawn from the operating system by default.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If there is no benchmark of this name, or the benchmark takes no seed. The message lists the valid names.
    """
    if name not in BENCHMARKS:
        raise ValueError(f"bench: name must be one of {', '.join(sorted(BENCHMARKS))}, got {name!r}")
    if seed is not None and name not in SEEDED_BENCHMARKS:
        raise ValueError(f"bench: seed is for {', '.join(SEEDED_BENCHMARKS)}, got {name!r}, whose cases are fixed; leave out the seed")
    measure = import_module(BENCHMARKS[name]).measure
    table = measure(seed) if name in SEEDED_BENCHMARKS else measure()
    assert isinstance(table, Table)
    return table
