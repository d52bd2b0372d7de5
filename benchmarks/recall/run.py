"""Benchmark of recall: audits of documented bugs before and after their repair, at 1 and 10 CPU
minutes.

``dpwitness bench recall`` runs the audits that the published campaign lacks and prints its figures.
Parts of a campaign: ``python -m dpwitness.benchmarks.recall.run --minutes 1 --part tuned NAME...``.
With ``--check``, targets only run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dpwitness.benchmarks.recall.campaign import BUDGETS, campaign, stored
from dpwitness.benchmarks.recall.corpus import PARTS, SET_ASIDE, TUNED, Entry, corpus
from dpwitness.benchmarks.recall.figures import table
from dpwitness.benchmarks.recall.page import write_page
from dpwitness.benchmarks.recall.smoke import RUNS, check_side
from dpwitness.benchmarks.table import Table, format_table

_ALL = "all"


def measure() -> Table:
    """Run the audits that are not stored yet, those with the larger budget for what the smaller one
    misses; return the figures.
    """
    short, long = BUDGETS
    campaign(corpus(), short, _say)
    runs = stored()
    found = {
        entry
        for (entry, *key), run in runs.items()
        if key == ["before", short, False] and run.violated
    }
    campaign([entry for entry in corpus() if entry.name not in found], long, _say, side="before")
    return table(corpus(), stored())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a part of the campaign and print the figures so far."""
    parser = argparse.ArgumentParser(description="run a part of the recall campaign")
    parser.add_argument(
        "--minutes", type=int, choices=BUDGETS, default=BUDGETS[0], help="CPU minutes of one audit"
    )
    parser.add_argument(
        "--part",
        choices=(*PARTS, _ALL),
        help="part of the corpus; default: tuned. Run a part set aside once, at the end",
    )
    parser.add_argument(
        "--later",
        action="store_true",
        help="store runs of the first part set aside beside its published first runs",
    )
    parser.add_argument("--side", choices=("before", "after"), help="the only side to audit")
    parser.add_argument(
        "--check",
        action="store_true",
        help="run each target a few times in both releases and audit nothing; default: all parts",
    )
    parser.add_argument(
        "--page",
        metavar="FOLDER",
        type=Path,
        help="write recall.md from the stored runs, and run nothing",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="beginnings of names of entries; default: all of the part",
    )
    args = parser.parse_args(arguments)
    part = args.part or (_ALL if args.check else SET_ASIDE if args.later else TUNED)
    entries = [
        entry
        for entry in corpus()
        if part in (entry.part, _ALL) and entry.name.startswith(tuple(args.names) or "")
    ]
    if args.check:
        return _check(entries)
    if args.page:
        write_page(corpus(), stored(), args.page)
    else:
        campaign(entries, args.minutes, _say, later=args.later, side=args.side)
    print(format_table(table(corpus(), stored())))
    return 0


def _check(entries: Sequence[Entry]) -> int:
    """Run each target a few times and print the outcomes; return 1 if a target does not run before
    the repair.
    """
    failed = 0
    for entry in entries:
        for side, release in entry.sides if entry.runnable else ():
            outcome = check_side(entry, release)
            failed += side == "before" and outcome != RUNS
            print(f"{entry.name} {side} ({release.name}): {outcome}", flush=True)
    return int(failed > 0)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
