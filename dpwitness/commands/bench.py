"""``dpwitness bench``: tables of what is required and what was measured."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from dpwitness.commands.common import Command, print_json
from dpwitness.ending import OK
from dpwitness.mechanisms.terms.validation import InvalidArgument


def arguments(command: Command) -> None:
    """Declare the command."""
    bench = command("bench", "measure speed and bounds; ratios are measured in one run")
    bench.add_argument("name", nargs="?", help="one benchmark; all of them if left out")
    bench.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    """``dpwitness bench``: the tables, each row with what is required and what was measured."""
    from dpwitness.bench import BENCHMARKS, format_table
    from dpwitness.bench import bench as measured

    if args.name is not None and args.name not in BENCHMARKS:
        raise InvalidArgument(f"bench must be one of {', '.join(sorted(BENCHMARKS))}, got {args.name!r}")
    tables = []
    for name in [args.name] if args.name else BENCHMARKS:
        tables.append(measured(name))
        if not args.json:
            print(format_table(tables[-1]), flush=True)
    if args.json:
        print_json([asdict(table) for table in tables])
    return OK
