"""Registry of benchmarks: tables of required and measured values of speed, power and
error rates.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from dpwitness.benchmarks.table import Row, Table, format_table
from dpwitness.core.values.validation import InvalidArgument, did_you_mean

__all__ = ["BENCHMARKS", "Row", "Table", "bench", "format_table"]

# options of the command line by the arguments of `measure`
OPTIONS = {"seed": "--seed", "parts": "--part"}

# Each module has a function `measure(...) -> Table`. A module is imported only when its benchmark
# runs.
BENCHMARKS: dict[str, str] = {
    "adversarial": "dpwitness.benchmarks.adversarial.attack",
    "calibration": "dpwitness.benchmarks.calibration",
    "canaries": "dpwitness.benchmarks.canaries",
    "fuzz": "dpwitness.benchmarks.hostile.fuzz",
    "kernel": "dpwitness.benchmarks.kernel.run",
    "mutation": "dpwitness.benchmarks.mutation.score",
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


def bench(name: str, **options: Any) -> Table:
    """Run one benchmark and return its table.

    Parameters
    ----------
    name : str
        One of `BENCHMARKS`.
    **options : Any
        Arguments of its function `measure`: `seed`, an int, if it draws its cases; `parts`, a
        sequence of str, if it has parts.

    Raises
    ------
    InvalidArgument
        If the benchmark does not exist, or takes no such option.
    """
    if name not in BENCHMARKS:
        raise InvalidArgument(
            f"bench must be one of {', '.join(sorted(BENCHMARKS))}, got {name!r}"
            f"{did_you_mean(name, BENCHMARKS)}"
        )
    measure = import_module(BENCHMARKS[name]).measure
    if unknown := sorted(options.keys() - inspect.signature(measure).parameters.keys()):
        typed = " and no ".join(OPTIONS.get(option, option) for option in unknown)
        raise InvalidArgument(f"bench {name} takes no {typed}: leave the option out")
    table = measure(**options)
    assert isinstance(table, Table)
    return table
