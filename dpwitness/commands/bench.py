"""``dpwitness bench``: tables of required and measured values."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from importlib import import_module
from types import ModuleType

from dpwitness.commands.common import SEED, Command, print_json
from dpwitness.exit_codes import OK, VIOLATED
from dpwitness.mechanisms.core.validation import InvalidArgument


def arguments(command: Command) -> None:
    """Add the command and its options to the parser."""
    bench = command("bench", "run benchmarks of speed and bounds; ratios compare measurements of one run")
    bench.add_argument("name", nargs="?", help="name of a benchmark; default: all")
    bench.add_argument(
        "--seed", type=SEED, metavar="S", help="seed of the attacks of `adversarial`; default: drawn from the operating system"
    )
    bench.add_argument("--part", metavar="PART", action="append", default=[], help="part of `scan` to run; may be repeated; default: all")
    bench.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness bench``, print the required and measured value of each row, and return the exit code.

    A successful attack gives exit code 1.
    """
    found = benchmarks()
    if args.seed is not None and args.name is None:
        raise InvalidArgument(f"--seed is only for bench {', '.join(found.SEEDED_BENCHMARKS)}, got no name")
    if args.part and args.name is None:
        raise InvalidArgument(f"--part is only for bench {', '.join(found.PARTED_BENCHMARKS)}, got no name")
    tables = []
    for name in [args.name] if args.name else found.BENCHMARKS:
        tables.append(found.bench(name, args.seed, args.part))
        if not args.json:
            print(found.format_table(tables[-1]), flush=True)
    if args.json:
        print_json([asdict(table) for table in tables])
    return VIOLATED if any(table.binding and not all(row.met for row in table.rows) for table in tables) else OK


def benchmarks() -> ModuleType:
    """Return the registry of benchmarks. Raise InvalidArgument if dpwitness was installed without a clone."""
    try:
        return import_module("dpwitness.benchmarks")
    except ModuleNotFoundError as error:
        if error.name != "dpwitness.benchmarks":
            raise
        raise InvalidArgument(
            "benchmarks are part of a clone: run `pip install -e .` in a clone of the repository, then `dpwitness bench`"
        ) from None
