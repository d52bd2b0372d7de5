"""The command line: arguments, errors and exit codes. What the commands do stands in `commands`, imported when one is run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from dpwitness import examine, targets
from dpwitness.ending import OK, TRACEBACK, USAGE, guarded, streams
from dpwitness.interrupts import heard, last
from dpwitness.numbers import real, whole

__all__ = ["main"]

_EXIT_CODES = (
    "exit codes: 0 nothing refuted, 1 violated, 2 usage or input error, or a file that could not be written, "
    f"3 inconclusive, a mechanism that failed, or an error that is not known ({TRACEBACK}=1 shows where)"
)

TRIALS = whole("trials", 1000, 10**12)
SEED = whole("seed", 0)
WORKERS = whole("workers", 1, 1024)
CONFIDENCE = real("confidence", 0.0, 1.0, ends="()")
SECONDS = targets.SECONDS


class _Parser(argparse.ArgumentParser):
    """Errors in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _running(parser: argparse.ArgumentParser, seconds: str = "") -> None:
    """Options of every command that runs mechanisms; `seconds` says what may take a time instead of a number of runs."""
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--trials", type=TRIALS, metavar="N", help="runs of the mechanism in all, both datasets together; 1e6 is understood"
    )
    if seconds:
        told = f"about how long {seconds} may take, instead of --trials: runs are timed, and their number is fixed and told beforehand"
        budget.add_argument("--seconds", type=SECONDS, metavar="S", help=told)
    parser.add_argument("--seed", type=SEED, metavar="S", help="root of all randomness: the same seed gives the same counts")
    parser.add_argument("--workers", type=WORKERS, default=1, metavar="K", help="threads for dpwitness' own kernels, processes otherwise")
    parser.add_argument("--report", metavar="DIR", help="write audit.md, audit.json, plots, and witness-*.json for each violation")
    parser.add_argument("--json", action="store_true", help="print results as JSON")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dpwitness",
        description="Does this implementation keep the privacy promise it makes?",
        epilog=_EXIT_CODES,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        found: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, epilog=_EXIT_CODES, allow_abbrev=False)
        return found

    audit = command("audit", "look for a violation of one mechanism's promise by running it")
    audit.add_argument("target", metavar="MODULE:NAME", help="a mechanism or a function f(dataset, size, rng); FILE.py:NAME works too")
    audit.add_argument("--claim", help="pure:EPS, approx:EPS,DELTA, zcdp:RHO, rdp:ALPHA,EPS or gdp:MU; default: the mechanism's own")
    audit.add_argument("--d0", metavar="JSON", help="a dataset: a list of numbers is a float64 array, anything else stays what JSON says")
    audit.add_argument("--d1", metavar="JSON", help="its neighbour; without --d0 and --d1 pairs are taken from the mechanism's domain")
    audit.add_argument("--kwargs", metavar="JSON", help="keyword arguments for a class, or for a function")
    audit.add_argument(
        "--relation", metavar="R", help="why they are neighbours: replace-one (default), add-remove, substitution, l1, l2, linf"
    )
    audit.add_argument("--confidence", type=CONFIDENCE, default=0.99, metavar="C", help="of the verdict; default 0.99")
    audit.add_argument("--stop", choices=["gross", "violation", "never"], default="gross", help="when to stop before all trials are run")
    audit.add_argument(
        "--scores",
        metavar="FILE.py:NAME",
        action="append",
        default=[],
        help="a function of the outputs that events may use: it runs in this process and gives a number for each; again for more",
    )
    audit.add_argument("--bits", action="store_true", help="let the verdict on low bits of floating-point outputs count for the exit code")
    audit.add_argument("--time-limit", type=SECONDS, default=300.0, metavar="SECONDS", help="that one chunk of runs may take; default 300")
    audit.add_argument(
        "--in-process",
        action="store_true",
        help="run it in this process: faster, but what ends it ends the audit; --white-box and --search do where it has a log_density",
    )
    targets.interpreter(audit)
    examine.arguments(audit)
    _running(audit, "the audit")

    suite = command("suite", "audit a whole suite of mechanisms: zoo, papers, third-party")
    suite.add_argument("name", help="see `dpwitness list`")
    suite.add_argument("-k", dest="keyword", default="", metavar="EXPR", help="only cases whose name matches: words with and, or, not")
    suite.add_argument("--confidence", type=CONFIDENCE, metavar="C", help="of each verdict; default: the suite's")
    _running(suite, "each audit")

    claims = command("claims", "the papers' claims: list them, show one, check one or all")
    actions = claims.add_subparsers(dest="action", metavar="list|show|check", required=True)
    for name, text in (("list", "every claim"), ("show", "one claim and its proof"), ("check", "settle one claim, or all")):
        action = actions.add_parser(name, help=text, description=text, epilog=_EXIT_CODES, allow_abbrev=False)
        if name != "list":
            action.add_argument("id", metavar="ID", help="see `dpwitness claims list`" + ("; or all" if name == "check" else ""))
        if name == "check":
            action.add_argument("--set", metavar="NAME=VALUE", nargs="+", default=[], help="parameters, or ranges NAME=LOW:HIGH")
            action.add_argument("--quick", action="store_true", help="fewer runs and points")
            action.add_argument("--seconds", type=SECONDS, default=60.0, metavar="S", help="time limit of each claim; default 60")
            action.add_argument("--seed", type=SEED, metavar="S", help="root of all randomness")
            action.add_argument("--workers", type=WORKERS, default=1, metavar="K", help="processes, for all")
            action.add_argument("--report", metavar="DIR", help="write papers.md, papers.json, plots and witnesses, for all")
        action.add_argument("--json", action="store_true", help="print as JSON")

    targets.arguments(command, lambda parser: _running(parser, "the checks of each target"))

    replay = command("replay", "test the event of a witness again, with fresh randomness")
    replay.add_argument("witness", metavar="WITNESS.json")
    replay.add_argument("--target", metavar="FILE.py:NAME", help="run this instead of the target that the witness names")
    replay.add_argument(
        "--allow",
        metavar="MODULE:NAME",
        action="append",
        default=[],
        help="let the witness run this target of its own although it lies outside the current folder; again for more",
    )
    _running(replay)

    listing = command("list", "what there is: specimens of the zoo, mechanisms, suites, benchmarks")
    listing.add_argument("what", nargs="?", choices=["zoo", "mechanisms", "suites", "bench"], help="only this")
    listing.add_argument("--json", action="store_true", help="print as JSON")

    bench = command("bench", "measure speed and bounds; ratios are measured in one run")
    bench.add_argument("name", nargs="?", help="one benchmark; all of them if left out")
    bench.add_argument("--json", action="store_true", help="print as JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = _parser()
    with streams():
        args = parser.parse_args(argv)
    if args.version:
        from importlib.metadata import version

        def told() -> int:
            print(f"dpwitness {version('dpwitness')}")
            return OK

        return guarded("", told)
    if args.command is None:
        parser.error("a command is needed: audit, check, targets, suite, claims, replay, list or bench")
    with heard():
        code = guarded(args.command, lambda: _run(args))
        return last(code) if argv is None else code


def _run(args: argparse.Namespace) -> int:
    # Threads of the linear algebra library fight with `--workers` and with each other over small matrices: one each is fastest.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from dpwitness import commands
    from dpwitness.claims import claims

    run: dict[str, Any] = {
        "audit": commands.audit,
        "claims": claims,
        "suite": commands.suite,
        "replay": commands.replay,
        "list": commands.listing,
        "bench": commands.bench,
        "targets": targets.targets,
        "check": targets.check,
    }
    return int(run[args.command](args))
