"""Shared parts of the commands that end with results: report, exit code, and the advice on the next
step.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.console import announce, describe
from dpwitness.core.claims import parse_claim
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.audit.document import build_document, result_json
from dpwitness.reports.audit.report import check_writable, write_report
from dpwitness.reports.comparison.accepted import (
    Accepted,
    apply_accepted,
    read_accepted,
    unaccepted_rules,
)
from dpwitness.reports.formats.markdown_formats import append_summary, summary_file
from dpwitness.reports.phrasing.summary import replay_command
from dpwitness.reports.phrasing.wording import slugs
from dpwitness.terminal import (
    NO_VERDICT,
    OK,
    VIOLATED,
    announce_unstored,
    code_after_write,
    show,
    try_to_write,
)


def prepare(args: argparse.Namespace) -> tuple[Accepted, ...] | None:
    """Check report folder, baseline and claim before any run; return the accepted findings, or None
    without a baseline.
    """
    if args.report is not None:
        check_writable(args.report)
    known = None if args.baseline is None else read_accepted(args.baseline)
    if getattr(args, "claim", None) is not None:
        parse_claim(args.claim)
    return known


def exit_code(result: Result, data: Json | None = None, *, bits: bool = False) -> int:
    """Return the exit code of one result: 1 violated, 3 no verdict or suspect, 0 otherwise.

    A leak in low-order bits counts if `bits`. Accepted findings, which `data`, the result as JSON,
    names, do not count; a result without a verdict keeps its code.
    """
    undecided = result.verdict in (Verdict.SUSPECT, Verdict.INCONCLUSIVE, Verdict.ERROR)
    accepted = data.get("accepted") if data is not None else None
    if data is not None and accepted and not unaccepted_rules(data, bits=bits):
        return NO_VERDICT if undecided and "TRACE" not in accepted["rules"] else OK
    level = getattr(result, "bit_level", None) if bits else None
    if Verdict.VIOLATED in (result.verdict, None if level is None else level.verdict):
        return VIOLATED
    return NO_VERDICT if undecided else OK


def worst(codes: Sequence[int]) -> int:
    """Return the exit code of several results: violated before no verdict before OK."""
    return next((code for code in (VIOLATED, NO_VERDICT) if code in codes), OK)


def report_results(
    args: argparse.Namespace,
    results: Sequence[Result],
    *,
    title: str,
    bits: bool = False,
    known: Sequence[Accepted] | None = None,
) -> int:
    """Write and print the results of a command; return its exit code.

    Accepted violations, as `known` of `prepare` says, do not count. A report or a summary that
    cannot be written changes the exit code of a run without a violation.
    """
    acceptance = apply_accepted([result_json(result) for result in results], known or ())
    data = acceptance.results
    announce_stale_baseline(acceptance.stale)
    report, write_failed = write_outputs(args, data, title, results)
    codes = [exit_code(*each, bits=bits) for each in zip(results, data, strict=True)]
    code = code_after_write(worst(codes), write_failed)
    if args.json:
        print_json(data[0] if len(data) == 1 else data)
        return code
    page = report.with_suffix(".html") if report and report.suffix == ".md" else report
    names = slugs(result.name for result in results)
    descriptions = []
    for result, result_data, slug, its_code in zip(results, data, names, codes, strict=True):
        saved = report is not None and result_data["witness"]
        witness = report.parent / f"witness-{slug}.json" if report is not None and saved else None
        descriptions.append(
            describe(
                result,
                result_data,
                bits=bits,
                next_step=_next(args, result, its_code, witness),
                report=str(page) if page else "",
                every=args.verbose,
            )
        )
    show(
        "\n".join(text.partition("\n")[0] for text in descriptions)
        if args.quiet
        else "\n\n".join(descriptions)
    )
    return code


def write_outputs(
    args: argparse.Namespace, data: Sequence[Json], title: str, results: Sequence[Result]
) -> tuple[Path | None, bool]:
    """Write the report and the step summary of results, and name stores that could not be written.

    Return the path of the report, and whether writing failed.
    """
    report, write_failed = None, False
    if args.report is not None:
        report, write_failed = try_to_write(
            "report", lambda: write_report(data, args.report, title=title, command=command_line())
        )
    write_failed |= append_step_summary(args, data, title)
    return report, announce_unstored(results) or write_failed


def append_step_summary(
    args: argparse.Namespace, results: Sequence[Result | Json], title: str
) -> bool:
    """Append the summary to its file, if there is one, and return whether a requested summary could
    not be written.
    """
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


def print_json(value: Any) -> None:
    """Print a value as strict JSON on standard output."""
    print(json.dumps(strict(value), indent=1, allow_nan=False))


def _next(args: argparse.Namespace, result: Result, code: int, witness: Path | None) -> str:
    """Return the advice on the next step after a result: the first of a list that applies."""
    level = getattr(result, "bit_level", None)
    leaky = level is not None and level.verdict is Verdict.VIOLATED
    violated = result.verdict is Verdict.VIOLATED
    inconclusive = result.verdict is Verdict.INCONCLUSIVE
    failed = result.verdict is Verdict.ERROR
    replayed, store = args.command == "replay", getattr(args, "store", "")
    larger = f"--trials {10 * getattr(result, 'requested', 0) or 10**6:.3g}".replace("e+0", "e")
    if getattr(args, "seconds", None):
        larger = f"--seconds {10 * args.seconds:g}"
        larger += " --clock cpu" if getattr(args, "clock", "wall") == "cpu" else ""
    confirm = "to save the witness, run again with --report DIR"
    if witness is not None:
        recorded = [score.to_json() for score in getattr(result, "scores", ())]
        again = replay_command(str(witness), getattr(result, "target", None), recorded)
        confirm = f"confirm the {'violation' if violated or not leaky else 'leak'} with: {again}"
    advice: list[tuple[object, str]] = [
        (
            result.verdict is Verdict.SUSPECT,
            "read what is guessed; if the claim is right, delete the line `guessed` of the target "
            "and run again",
        ),
        (replayed and result.replay_advice, result.replay_advice),
        (
            replayed and code == VIOLATED,
            "the violation is confirmed: repair the mechanism or withdraw its claim",
        ),
        (
            replayed and getattr(args, "source_changed", False) and not failed,
            "the witness no longer reproduces; the source has changed since: if it was repaired, "
            "audit the repaired source",
        ),
        (
            replayed,
            "the witness was not confirmed: raise --trials, or check that the mechanism is the one "
            "that was audited",
        ),
        (result.advice and not violated, result.advice),
        (
            getattr(result, "exercised", None) is False,
            "see the first line; audit a pair whose values change the result: --d0 and --d1, "
            "--domain, or --search",
        ),
        (
            inconclusive and result.evidence == "assumed",
            f"look at the line of code that the trace names; {larger}, or another pair (--search), "
            "may certify a violation",
        ),
        (inconclusive and store, f"resume with: {command_line()}"),
        (
            inconclusive and store is None,
            "run the command again; with --store FILE, it could resume",
        ),
        (inconclusive, "run the command again"),
        (
            violated and code == OK,
            "the violation is accepted until its entry expires: repair the mechanism before then",
        ),
        (violated or (code == VIOLATED and not leaky), confirm),
        (leaky and not failed, f"round outputs to a grid, because their low bits leak; {confirm}"),
        (code == NO_VERDICT, "fix the problem in the first line, then run again"),
        (
            not math.isfinite(getattr(result, "detectable", 0.0)),
            f"{larger}: these runs are too few to detect any violation",
        ),
        (True, f"no change is needed on this evidence; {larger} finds smaller violations"),
    ]
    return next(text for applies, text in advice if applies)
