"""Shared parts of the commands: options, report, exit code of results, and the advice on the next
step.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness.auditors.witnesses.verdicts import Result, Verdict, strict
from dpwitness.colors import COLOR_CHOICES
from dpwitness.console import announce, describe
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.executors.specs import FORMS, parse
from dpwitness.exit_codes import (
    NO_VERDICT,
    OK,
    VIOLATED,
    announce_unstored,
    code_after_write,
    show,
    try_to_write,
)
from dpwitness.option_values.numbers import integer, real

if TYPE_CHECKING:
    from dpwitness.reports.comparison.accepted import Accepted

Command = Callable[[str, str], argparse.ArgumentParser]

TRIALS = integer("trials", 1000, 10**12)
SEED = integer("seed", 0)
WORKERS = integer("workers", 1, 1024)
CONFIDENCE = real("confidence", 0.0, 1.0, ends="()")
SECONDS = real("seconds", 0.0, 1e6)
GIGABYTES = real("memory", 0.0, 1e6, ends="[]")


def add_color_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--color``.

    The option has no default: the default of a subcommand would overwrite the value given to its
    parent command.
    """
    help_text = "color verdicts; default auto: on a terminal, unless NO_COLOR is set"
    parser.add_argument("--color", choices=COLOR_CHOICES, default=argparse.SUPPRESS, help=help_text)


def confidence(
    parser: argparse.ArgumentParser, of: str, default: float | None = 0.99, text: str = ""
) -> None:
    """Add ``--confidence`` of a quantity."""
    help_text = f"confidence of {of}; default{'' if text else ' '}{text or default}"
    parser.add_argument(
        "--confidence", type=CONFIDENCE, default=default, metavar="C", help=help_text
    )


def time_limit(
    parser: argparse.ArgumentParser, of: str = "one chunk of runs", default: float = 300.0
) -> None:
    """Add ``--time-limit``."""
    help_text = f"time limit of {of}; default {default:g}"
    parser.add_argument(
        "--time-limit", type=SECONDS, default=default, metavar="SECONDS", help=help_text
    )


def running(
    parser: argparse.ArgumentParser,
    seconds: str = "",
    seed: str = "root of all randomness: the same seed gives the same counts",
) -> None:
    """Add the options of every command that runs mechanisms.

    `seconds` names what ``--seconds`` limits; without it there is no ``--seconds``.
    """
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument(
        "--trials",
        type=TRIALS,
        metavar="N",
        help="total number of runs of the mechanism, both datasets together, such as 1e6",
    )
    if seconds:
        help_text = (
            f"approximate duration of {seconds}, instead of --trials: some runs are timed first, "
            "to fix and announce their number"
        )
        budget.add_argument("--seconds", type=SECONDS, metavar="S", help=help_text)
        clock(parser)
    parser.add_argument("--seed", type=SEED, metavar="S", help=seed)
    workers(parser)
    reporting(parser)


def clock(parser: argparse.ArgumentParser) -> None:
    """Add ``--clock``."""
    help_text = (
        "what --seconds counts: wall time (default), or CPU time of this process and its "
        "workers, the same on a busy machine; "
        "other time limits, and searches of declared targets, count wall time"
    )
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help=help_text)


def reporting(parser: argparse.ArgumentParser) -> None:
    """Add ``--report``, ``--summary`` and ``--json``."""
    help_text = (
        "write audit.md, audit.sarif, audit.json, plots, and witness-*.json for each violation"
    )
    parser.add_argument("--report", metavar="DIR", help=help_text)
    parser.add_argument(
        "--summary",
        metavar="FILE",
        help="append a short summary in Markdown to FILE; default: the file that "
        "GITHUB_STEP_SUMMARY names, if set",
    )
    parser.add_argument("--json", action="store_true", help="print results as JSON")


def detail(parser: argparse.ArgumentParser) -> None:
    """Add ``--quiet`` and ``--verbose``, options of every command that ends with
    `report_results`.
    """
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--quiet", action="store_true", help="print only the verdict, in one line, and no progress"
    )
    amount.add_argument(
        "--verbose", action="store_true", help="print all lines of a result, instead of six"
    )


def workers(
    parser: argparse.ArgumentParser,
    help_text: str = "number of workers: threads for mechanisms of dpwitness, processes for others",
) -> None:
    """Add ``--workers`` and ``--executor``."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=WORKERS, default=1, metavar="K", help=help_text)
    where.add_argument(
        "--executor",
        type=spec,
        metavar="SPEC",
        help=f"instead of --workers: {FORMS}; the counts do not depend on the choice",
    )


def spec(text: str) -> str:
    """Parse the name of an executor for argparse."""
    try:
        return parse(text).text
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def subject(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add the options of commands that run one mechanism on a pair: target, claim, datasets and
    relation.
    """
    positional_options: dict[str, Any] = {"nargs": "?"} if optional else {}
    parser.add_argument(
        "target",
        **positional_options,
        metavar="MODULE:NAME",
        help="a mechanism or a function f(dataset, size, rng), as MODULE:NAME or FILE.py:NAME",
    )
    help_text = (
        "how the target is run: batch, run (one call per run), object, object.METHOD or "
        "estimator.ATTRIBUTE; default: detected"
    )
    parser.add_argument("--as", dest="form", metavar="FORM", help=help_text)
    help_text = (
        "pure:EPS, approx:EPS,DELTA, zcdp:RHO, rdp:ALPHA,EPS, rdp:ALPHA=EPS,..., gdp:MU, "
        "fdp:FILE, dpsgd:SAMPLING,NOISE,STEPS[,DELTA], "
    )
    help_text += (
        "metric:EPS[,DISTANCE], percoordinate:EPS,... or group:SIZE,CLAIM; default: the "
        "mechanism's claim"
    )
    parser.add_argument("--claim", help=help_text)
    help_text = (
        "distance of the datasets, for claims metric:EPS: a number, or the norm l1, l2 or linf; "
        "default: that of the relation, or l1"
    )
    parser.add_argument("--distance", metavar="X", help=help_text)
    parser.add_argument(
        "--d0",
        metavar="JSON",
        help="a dataset: a list of numbers becomes a float64 array, FILE.parquet or FILE.csv a "
        "pandas frame, other JSON a Python value",
    )
    parser.add_argument(
        "--d1",
        metavar="JSON",
        help="a neighboring dataset; without --d0 and --d1, pairs come from the mechanism's domain",
    )
    parser.add_argument(
        "--kwargs", metavar="JSON", help="keyword arguments of the class or function"
    )
    parser.add_argument(
        "--relation",
        metavar="R",
        help="relation of the datasets: replace-one (default), add-remove, "
        "add-remove:unit=COLUMN, replace-one:k=K, l1, l2, linf, "
        "stated, ... (dpwitness list relations), or FILE.py:NAME of a user-defined Relation",
    )


def storing(parser: argparse.ArgumentParser, help_text: str = "") -> None:
    """Add ``--store``."""
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="file that records the counts: after an interruption, the same command "
        f"resumes{help_text}",
    )


def accepting(parser: argparse.ArgumentParser) -> None:
    """Add ``--baseline``."""
    help_text = (
        "accepted findings (TOML: name or target, claim, reason, expires): printed with their "
        "reason, and not failures until they expire"
    )
    parser.add_argument("--baseline", metavar="FILE", help=help_text)


def prepare(args: argparse.Namespace) -> tuple[Accepted, ...] | None:
    """Check report folder, baseline and claim before any run; return the accepted findings, or None
    without a baseline.
    """
    known = None
    if args.report is not None:
        from dpwitness.reports.audit.report import check_writable

        check_writable(args.report)
    if args.baseline is not None:
        from dpwitness.reports.comparison.accepted import read_accepted

        known = read_accepted(args.baseline)
    if getattr(args, "claim", None) is not None:
        from dpwitness.core.claims import parse_claim

        parse_claim(args.claim)
    return known


def interpreter(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run targets in another interpreter."""
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="interpreter, or name of an environment, whose processes run the target",
    )
    parser.add_argument(
        "--memory",
        type=GIGABYTES,
        default=0.0,
        metavar="GB",
        help="limit of each worker's address space; default: none",
    )


def program(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run programs in any language."""
    help_text = (
        "instead of a target, a program with its arguments; it must follow "
        "docs/reference/protocol.md, and starts without a shell"
    )
    parser.add_argument("--command", dest="program", metavar="TEXT", help=help_text)
    parser.add_argument("--cwd", metavar="DIR", help="working folder of the program")
    help_text = (
        "the program prints one output per line; its arguments may contain {size}, {seed}, "
        "{dataset}, or it reads DPWITNESS_SIZE etc."
    )
    parser.add_argument("--text", action="store_true", help=help_text)
    parser.add_argument(
        "--text-runs",
        choices=["batch", "one"],
        help="start the program for each batch of runs (default), or for each run",
    )


def database(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run database queries, and ``--domain``."""
    help_text = (
        "instead of a target, a database: sqlite:///:memory: or duckdb:///FILE, which is opened "
        "read-only and copied to memory"
    )
    parser.add_argument("--dsn", metavar="DSN", help=help_text)
    parser.add_argument(
        "--query",
        metavar="SQL",
        help="one SELECT, which may only read; its rows are the output of a run",
    )
    parser.add_argument(
        "--table", metavar="NAME", help="name of the dataset in the query; default data"
    )
    parser.add_argument(
        "--setup", metavar="SQL", help="statements to run before the query: views, macros"
    )
    help_text = """domain of the datasets, as in target files: '{"kind": "Table", "columns": {"age": [0, 120]}}' (dpwitness list domains);
    or FILE.py:NAME of a domain, or of a user-defined Relation that generates pairs"""  # noqa: E501
    parser.add_argument("--domain", metavar="JSON", help=help_text)


def parse_names(text: str, names: Sequence[str], option: str = "--format") -> list[str]:
    """Split a comma-separated list of names. Raise InvalidArgument, listing the valid names, if a
    name is unknown.
    """
    found = [name.strip() for name in text.split(",")]
    if not set(found) <= set(names):
        raise InvalidArgument(
            f"{option} must be a list of names among {', '.join(names)}, got {text!r}"
        )
    return list(dict.fromkeys(found))


def report_json_path(place: str) -> str:
    """Return the path of audit.json in a folder, or the path of a file unchanged."""
    return str(Path(place) / "audit.json") if Path(place).is_dir() else place


def exit_code(result: Result, *, bits: bool = False) -> int:
    """Return the exit code of one result: 1 violated, 3 no verdict or suspect, 0 otherwise. A leak
    in low-order bits counts if `bits`.
    """
    level = getattr(result, "bit_level", None)
    if result.verdict is Verdict.VIOLATED or (
        bits and level is not None and level.verdict is Verdict.VIOLATED
    ):
        return VIOLATED
    return (
        NO_VERDICT
        if result.verdict in (Verdict.SUSPECT, Verdict.INCONCLUSIVE, Verdict.ERROR)
        else OK
    )


def code_after_acceptance(code: int, data: Json, *, bits: bool = False) -> int:
    """Return the exit code of a result after accepted findings are removed; a result without a
    verdict keeps its code.
    """
    from dpwitness.reports.comparison.accepted import unaccepted_rules

    if not data.get("accepted") or unaccepted_rules(data, bits=bits):
        return code
    traced = "TRACE" in data["accepted"]["rules"]
    return (
        NO_VERDICT
        if not traced
        and data["verdict"] in (Verdict.INCONCLUSIVE.value, Verdict.ERROR.value, "SUSPECT")
        else OK
    )


def report_results(
    args: argparse.Namespace,
    results: Sequence[Result],
    *,
    title: str,
    bits: bool = False,
    known: Sequence[Accepted] | None = None,
) -> int:
    """Write the report, print the results, and return the exit code of the worst result that is not
    `known` and accepted.
    """
    from dpwitness.reports.audit.document import result_json
    from dpwitness.reports.comparison.accepted import apply_accepted
    from dpwitness.reports.phrasing.wording import slugs

    acceptance = apply_accepted([result_json(result) for result in results], known or ())
    data = acceptance.results
    announce_stale_baseline(acceptance.stale)
    report, write_failed = None, False
    if args.report is not None:
        from dpwitness.reports.audit.report import write_report

        report, write_failed = try_to_write(
            "report", lambda: write_report(data, args.report, title=title, command=command_line())
        )
    write_failed |= append_step_summary(args, data, title)
    write_failed |= announce_unstored(results)
    if args.json:
        print_json(data[0] if len(data) == 1 else data)
    else:
        descriptions = []
        for result, result_data, slug in zip(
            results, data, slugs(result.name for result in results), strict=True
        ):
            file = (
                report.parent / f"witness-{slug}.json"
                if report and result_data["witness"]
                else None
            )
            advice = _next(
                args,
                result,
                code_after_acceptance(exit_code(result, bits=bits), result_data, bits=bits),
                file,
            )
            report_path = (
                str(report.with_suffix(".html") if report.suffix == ".md" else report)
                if report
                else ""
            )
            descriptions.append(
                describe(
                    result,
                    result_data,
                    bits=bits,
                    next_step=advice,
                    report=report_path,
                    every=args.verbose,
                )
            )
        show(
            "\n".join(text.partition("\n")[0] for text in descriptions)
            if args.quiet
            else "\n\n".join(descriptions)
        )
    codes = {
        code_after_acceptance(exit_code(result, bits=bits), result_data, bits=bits)
        for result, result_data in zip(results, data, strict=True)
    }
    return code_after_write(
        next((code for code in (VIOLATED, NO_VERDICT) if code in codes), OK), write_failed
    )


def append_step_summary(
    args: argparse.Namespace, results: Sequence[Result | Json], title: str
) -> bool:
    """Append the summary to its file, if there is one, and return whether a requested summary could
    not be written.
    """
    from dpwitness.reports.audit.document import build_document
    from dpwitness.reports.formats.step_summary import append_summary, summary_file

    file = summary_file(args.summary)
    if file is None:
        return False
    _, write_failed = try_to_write(
        "summary",
        lambda: append_summary(build_document(results, title=title, command=command_line()), file),
    )
    return write_failed and args.summary is not None


def announce_stale_baseline(entries: Sequence[Accepted]) -> None:
    """Print, on standard error, the accepted findings that match no violation of the run."""
    for entry in entries:
        announce(f"baseline: no violation of this run matches the entry of {entry}")


def command_line() -> str:
    """Return the command line of this process, for a report."""
    return shlex.join(["dpwitness", *sys.argv[1:]])


def _next(args: argparse.Namespace, result: Result, code: int, witness: Path | None) -> str:
    """Return the advice on the next step after a result."""
    from dpwitness.auditors.witnesses.function_result import FunctionResult

    kind = type(result).__name__  # the modules of the other kinds take a tenth of a second to load
    level = getattr(result, "bit_level", None)
    leaky = level is not None and level.verdict is Verdict.VIOLATED
    if result.verdict is Verdict.SUSPECT:
        return (
            "read what is guessed; if the claim is right, delete the line `guessed` of the "
            "target and run again"
        )
    if args.command == "replay":
        return _next_after_replay(args, result, kind, code)
    if isinstance(result, FunctionResult) and result.verdict is not Verdict.VIOLATED:
        return result.advice
    if getattr(result, "exercised", None) is False:
        return (
            "see the first line; audit a pair whose values change the result: --d0 and --d1, "
            "--domain, or --search"
        )
    if result.verdict is Verdict.INCONCLUSIVE and result.evidence == "assumed":
        step = (
            f"look at the line of code that the trace names; {_larger_budget(args, result)}, or "
            "another pair (--search),"
        )
        return step + " may certify a violation"
    if result.verdict is Verdict.INCONCLUSIVE and kind not in ("CertifyResult", "TraceResult"):
        step = (
            f"resume with: {command_line()}"
            if getattr(args, "store", None)
            else "run the command again"
        )
        return step + (
            "; with --store FILE, it could resume" if getattr(args, "store", "") is None else ""
        )
    if result.verdict is Verdict.VIOLATED and code == OK:
        return "the violation is accepted until its entry expires: repair the mechanism before then"
    if result.verdict is Verdict.VIOLATED or (code == VIOLATED and not leaky):
        return _replay_advice(result, witness)
    if leaky and result.verdict is not Verdict.ERROR:
        return (
            "round outputs to a grid, because their low bits leak; "
            f"{_replay_advice(result, witness, 'leak')}"
        )
    return _next_without_violation(args, result, kind, code)


def _next_after_replay(args: argparse.Namespace, result: Result, kind: str, code: int) -> str:
    """Return the advice after the replay of a witness."""
    if code == VIOLATED and kind == "CanaryResult":
        return (
            "the bound follows from the counts of the file; nothing was run: audit the canaries "
            "again to confirm the counts"
        )
    if code == VIOLATED:
        return "the violation is confirmed: repair the mechanism or withdraw its claim"
    if kind == "TraceResult" and getattr(result, "findings", None):
        return "the trace shows the findings again: look at the lines of code that they name"
    if kind == "CanaryResult":
        return "the counts do not refute this claim"
    if kind == "StabilityResult" and getattr(result, "finding", None):
        return f"the witness is confirmed: {getattr(result, 'advice', '')}"
    if getattr(args, "source_changed", False) and result.verdict is not Verdict.ERROR:
        return (
            "the witness no longer reproduces; the source has changed since: if it was repaired, "
            "audit the repaired source"
        )
    return (
        "the witness was not confirmed: raise --trials, or check that the mechanism is the one "
        "that was audited"
    )


def _replay_advice(result: Result, witness: Path | None, found: str = "violation") -> str:
    """Return the advice to replay a witness of what was found, with the permissions that the replay
    needs.
    """
    from dpwitness.auditors.workers.trust import permissions_for

    if witness is None:
        return "to save the witness, run again with --report DIR"
    recorded = [score.to_json() for score in getattr(result, "scores", ())]
    words = [
        part
        for word in permissions_for(getattr(result, "target", None), recorded)
        for part in ("--allow", word)
    ]
    return f"confirm the {found} with: {shlex.join(['dpwitness', 'replay', str(witness), *words])}"


def _next_without_violation(args: argparse.Namespace, result: Result, kind: str, code: int) -> str:
    """Return the advice after a run that found no violation."""
    if kind == "TraceResult" and result.verdict is not Verdict.ERROR:
        return str(getattr(result, "advice", ""))
    if kind == "CanaryResult":
        return (
            "no change is needed on this evidence; more canaries or runs find smaller "
            "violations: dpwitness plan --canaries M --runs R"
        )
    if result.verdict in (Verdict.CERTIFIED, Verdict.SUPPORTED):
        return "no change is needed for this pair" + (
            "" if args.search else "; --search looks for a worse one"
        )
    if result.verdict is Verdict.INCONCLUSIVE:
        return "raise --trials, which narrows the enclosure"
    if code == NO_VERDICT:
        return "fix the problem in the first line, then run again"
    if not math.isfinite(getattr(result, "detectable", 0.0)):
        return f"{_larger_budget(args, result)}: these runs are too few to detect any violation"
    return (
        f"no change is needed on this evidence; {_larger_budget(args, result)} finds smaller "
        "violations"
    )


def _larger_budget(args: argparse.Namespace, result: Result) -> str:
    """Return the option for ten times the budget of a result."""
    if getattr(args, "seconds", None):
        return f"--seconds {10 * args.seconds:g}" + (
            " --clock cpu" if getattr(args, "clock", "wall") == "cpu" else ""
        )
    return f"--trials {10 * getattr(result, 'requested', 0) or 10**6:.3g}".replace("e+0", "e")


def print_json(value: Any) -> None:
    """Print a value as strict JSON on standard output."""
    print(json.dumps(strict(value), indent=1, allow_nan=False))
