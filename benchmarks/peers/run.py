"""Benchmark of peers: other auditing tools and this one, on shared mechanisms with the same CPU seconds.

``dpwitness bench peers`` runs what the published campaign lacks and can be installed from the registry, and prints the figures. The other
tools need a clone: ``python -m dpwitness.benchmarks.peers.run --checkout dp_sniper=FOLDER --checkout delta_siege=FOLDER
--checkout dp_auditorium_tester=FOLDER``. ``--page FOLDER`` writes the published page from the stored runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dpwitness.benchmarks.peers.campaign import campaign, stored
from dpwitness.benchmarks.peers.cases import NAMES
from dpwitness.benchmarks.peers.figures import table
from dpwitness.benchmarks.peers.page import write_page
from dpwitness.benchmarks.peers.tools import SETTINGS, tools
from dpwitness.benchmarks.table import Table, format_table

BUDGET = 4.0  # CPU seconds of one attack
SEEDS = (1, 2, 3)


def measure() -> Table:
    """Run all attacks that are not stored yet, and return the figures."""
    campaign(tools().values(), [(settings, case, BUDGET, seed) for settings in SETTINGS for case in NAMES for seed in SEEDS], {}, _say)
    return table(stored())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a part of the campaign and print the figures so far."""
    parser = argparse.ArgumentParser(description="compare auditing tools on shared mechanisms")
    parser.add_argument(
        "--checkout", action="append", default=[], metavar="TOOL=FOLDER", help="clone of a tool that the registry does not have"
    )
    parser.add_argument("--tool", action="append", choices=list(tools()), help="tool to run; default: all")
    parser.add_argument("--settings", action="append", choices=SETTINGS, help="default: both")
    parser.add_argument("--cpu-seconds", action="append", type=float, help=f"CPU seconds of one attack; default: {BUDGET:g}")
    parser.add_argument("--seed", action="append", type=int, help=f"default: {', '.join(map(str, SEEDS))}")
    parser.add_argument("--figures", action="store_true", help="print the figures of the stored runs, and run nothing")
    parser.add_argument("--page", metavar="FOLDER", type=Path, help="write peers.md and peers.svg from the stored runs, and run nothing")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"default: all of {', '.join(NAMES)}")
    args = parser.parse_args(arguments)
    checkouts = {name: Path(folder).resolve() for name, _, folder in (text.partition("=") for text in args.checkout)}
    if args.page:
        write_page(stored(), args.page)
    elif not args.figures:
        wanted = [
            (settings, case, budget, seed)
            for seed in args.seed or SEEDS
            for budget in args.cpu_seconds or (BUDGET,)
            for settings in args.settings or SETTINGS
            for case in args.cases or NAMES
        ]
        campaign([tool for name, tool in tools().items() if name in (args.tool or tools())], wanted, checkouts, _say)
    print(format_table(table(stored())))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
