"""Registry of benchmarks: tables of required and measured values of speed, power and
error rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from dpwitness.benchmarks.table import Row, Table, format_table
from dpwitness.core.values.validation import InvalidArgument

__all__ = ["BENCHMARKS", "Row", "Table", "bench", "format_table"]

# Each module has a function `measure() -> Table`. A module is imported only when its benchmark
# runs.
BENCHMARKS: dict[str, str] = {
    "adversarial": "dpwitness.benchmarks.adversarial.run",
    "calibration": "dpwitness.benchmarks.calibration",
    "canaries": "dpwitness.benchmarks.canaries",
    "fuzz": "dpwitness.benchmarks.hostile.fuzz",
    "kernel": "dpwitness.benchmarks.kernel.run",
    "mutation": "dpwitness.benchmarks.mutation.run",
    "mutation-code": "dpwitness.benchmarks.mutation.code",
    "own": "dpwitness.benchmarks.own.run",
    "peers": "dpwitness.benchmarks.peers.run",
    "planted": "dpwitness.benchmarks.planted.run",
    "power": "dpwitness.benchmarks.power",
    "recall": "dpwitness.benchmarks.recall.run",
    "scale": "dpwitness.benchmarks.scale",
    "scan": "dpwitness.benchmarks.scan.run",
    "sequential": "dpwitness.benchmarks.sequential",
    "white-box": "dpwitness.benchmarks.white_box",
}


# benchmarks with random cases, which take a seed: `measure(seed)`
SEEDED_BENCHMARKS = ("adversarial", "mutation-code")
# long benchmarks, of which parts can be chosen: `measure(parts)`
PARTED_BENCHMARKS = ("adversarial", "scan", "sequential")


def bench(name: str, seed: int | None = None, parts: Sequence[str] = ()) -> Table:
    """Run one benchmark and return its table. Raise InvalidArgument for an unknown name, or a seed
    or parts that it does not take.
    """
    if name not in BENCHMARKS:
        raise InvalidArgument(f"bench must be one of {', '.join(sorted(BENCHMARKS))}, got {name!r}")
    if seed is not None and name not in SEEDED_BENCHMARKS:
        raise InvalidArgument(
            f"--seed is only for bench {', '.join(SEEDED_BENCHMARKS)}, got {name!r}, whose "
            "cases are fixed"
        )
    if parts and name not in PARTED_BENCHMARKS:
        raise InvalidArgument(
            f"--part is only for bench {', '.join(PARTED_BENCHMARKS)}, got {name!r}, which "
            "has no parts"
        )
    measure = import_module(BENCHMARKS[name]).measure
    table = measure(
        *([seed] if name in SEEDED_BENCHMARKS else []),
        *([parts] if name in PARTED_BENCHMARKS else []),
    )
    assert isinstance(table, Table)
    return table
