"""Benchmark of peers: other auditing tools and this one, on shared mechanisms and on bugs of
libraries, with the same CPU seconds.

``dpwitness bench peers`` runs what the published campaigns lack and can be installed from the
registry, and prints the figures. The other tools need a clone: ``python -m
dpwitness.benchmarks.peers.run --checkout dp_sniper=FOLDER --checkout delta_siege=FOLDER --checkout
dp_auditorium_tester=FOLDER``. ``--page FOLDER`` writes the published page from the stored runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from dpwitness.benchmarks.peers import campaign as zoo
from dpwitness.benchmarks.peers import corpus_campaign as corpus
from dpwitness.benchmarks.peers import corpus_page, figures
from dpwitness.benchmarks.peers.campaign import SETTINGS, tools
from dpwitness.benchmarks.peers.cases import NAMES
from dpwitness.benchmarks.peers.figures import write_page
from dpwitness.benchmarks.table import Table, format_table

BUDGET = 4.0  # CPU seconds of one attack on a mechanism of the zoo
PARTS = ("zoo", "corpus")


def measure() -> Table:
    """Run all attacks that are not stored yet, those on bugs of libraries with the smaller budget,
    and return the figures.
    """
    wanted = [(settings, case, BUDGET) for settings in SETTINGS for case in NAMES]
    zoo.campaign(tools().values(), wanted, {}, _say)
    corpus.corpus_campaign(corpus.entries(), tools().values(), {}, _say)
    return _table(zoo.PUBLISHED, corpus.PUBLISHED)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a part of the campaigns and print the figures so far."""
    args = _parser().parse_args(arguments)
    files = [
        args.stored / file.name if args.stored else file
        for file in (zoo.PUBLISHED, corpus.PUBLISHED)
    ]
    if args.page:
        bugs = corpus_page.section(corpus.stored(files[1]), len(corpus.entries()))
        write_page(zoo.stored(files[0]), args.page, bugs)
    else:
        _run(args, *files)
    print(format_table(_table(*files)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="compare auditing tools on shared mechanisms and on bugs of libraries"
    )
    parser.add_argument(
        "--checkout",
        action="append",
        default=[],
        metavar="TOOL=FOLDER",
        help="clone of a tool that the registry does not have",
    )
    parser.add_argument(
        "--part",
        choices=PARTS,
        help="mechanisms of the zoo, or bugs of the recall corpus; default: both",
    )
    parser.add_argument(
        "--entries",
        type=int,
        help="number of entries of the recall corpus, in an order that a seed draws; default: all",
    )
    parser.add_argument(
        "--stored",
        metavar="FOLDER",
        type=Path,
        help="folder of the stored runs; default: the published ones",
    )
    parser.add_argument(
        "--page",
        metavar="FOLDER",
        type=Path,
        help="write peers.md and peers.svg from the stored runs, and run nothing",
    )
    parser.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        help=f"mechanisms of the zoo; default: all of {', '.join(NAMES)}",
    )
    return parser


def _run(args: argparse.Namespace, zoo_file: Path, corpus_file: Path) -> None:
    """Run the parts of the campaigns that the arguments name."""
    checkouts = {
        name: Path(folder).resolve()
        for name, _, folder in (text.partition("=") for text in args.checkout)
    }
    if args.part != "corpus":
        cases = args.cases or NAMES
        wanted = [(settings, case, BUDGET) for settings in SETTINGS for case in cases]
        zoo.campaign(tools().values(), wanted, checkouts, _say, zoo_file)
    if args.part != "zoo":
        _run_corpus(args.entries, checkouts, corpus_file)


def _run_corpus(count: int | None, checkouts: Mapping[str, Path], file: Path) -> None:
    """Run the tools on the first entries, and with more CPU seconds on those whose bug our audit
    does not find.
    """
    entries = corpus.entries()[:count]
    for budget in corpus.BUDGETS:
        corpus.corpus_campaign(entries, tools().values(), checkouts, _say, file, budget)
        entries = corpus.missed(entries, corpus.stored(file), budget)


def _table(zoo_file: Path, corpus_file: Path) -> Table:
    bugs = corpus.stored(corpus_file)
    return figures.table(zoo.stored(zoo_file), corpus_page.rows(bugs))


@cache
def _say(line: str) -> None:
    """Print a line of progress, each line once."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
