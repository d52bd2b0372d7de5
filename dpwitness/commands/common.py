"""Shared parts of the commands: options, report, exit code of results, and the advice on the next
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
from typing import TYPE_CHECKING, Any

from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.console import announce, describe
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.terminal import (
    NO_VERDICT,
    OK,
    VIOLATED,
    announce_unstored,
    code_after_write,
    show,
    try_to_write,
)

if TYPE_CHECKING:
    from dpwitness.auditors.witnesses.result import Result
    from dpwitness.reports.comparison.accepted import Accepted


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
    """Write and print the results of a command; return its exit code.

    Accepted violations, as `known` of `prepare` says, do not count. A report or a summary that
    cannot be written changes the exit code of a run without a violation.
    """
    from dpwitness.reports.audit.document import result_json
    from dpwitness.reports.comparison.accepted import apply_accepted
    from dpwitness.reports.phrasing.wording import slugs

    acceptance = apply_accepted([result_json(result) for result in results], known or ())
    data = acceptance.results
    announce_stale_baseline(acceptance.stale)
    report, write_failed = write_outputs(args, data, title, results)
    codes = [
        code_after_acceptance(exit_code(result, bits=bits), result_data, bits=bits)
        for result, result_data in zip(results, data, strict=True)
    ]
    if args.json:
        print_json(data[0] if len(data) == 1 else data)
        return code_after_write(worst(codes), write_failed)
    page = report.with_suffix(".html") if report and report.suffix == ".md" else report
    names = slugs(result.name for result in results)
    descriptions = []
    for result, result_data, slug, code in zip(results, data, names, codes, strict=True):
        witness = report.parent / f"witness-{slug}.json" if report else None
        descriptions.append(
            describe(
                result,
                result_data,
                bits=bits,
                next_step=_next(args, result, code, witness if result_data["witness"] else None),
                report=str(page) if page else "",
                every=args.verbose,
            )
        )
    show(
        "\n".join(text.partition("\n")[0] for text in descriptions)
        if args.quiet
        else "\n\n".join(descriptions)
    )
    return code_after_write(worst(codes), write_failed)


def write_outputs(
    args: argparse.Namespace, data: Sequence[Json], title: str, results: Sequence[Result]
) -> tuple[Path | None, bool]:
    """Write the report and the step summary of results, and name stores that could not be written.

    Return the path of the report, and whether writing failed.
    """
    report, write_failed = None, False
    if args.report is not None:
        from dpwitness.reports.audit.report import write_report

        report, write_failed = try_to_write(
            "report", lambda: write_report(data, args.report, title=title, command=command_line())
        )
    write_failed |= append_step_summary(args, data, title)
    return report, announce_unstored(results) or write_failed


def worst(codes: Sequence[int]) -> int:
    """Return the exit code of several results: violated before no verdict before OK."""
    return next((code for code in (VIOLATED, NO_VERDICT) if code in codes), OK)


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
    level = getattr(result, "bit_level", None)
    leaky = level is not None and level.verdict is Verdict.VIOLATED
    if result.verdict is Verdict.SUSPECT:
        return (
            "read what is guessed; if the claim is right, delete the line `guessed` of the "
            "target and run again"
        )
    if args.command == "replay":
        return _next_after_replay(args, result, code)
    if result.advice and result.verdict is not Verdict.VIOLATED:
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
    if result.verdict is Verdict.INCONCLUSIVE:
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
    return _next_without_violation(args, result, code)


def _next_after_replay(args: argparse.Namespace, result: Result, code: int) -> str:
    """Return the advice after the replay of a witness."""
    if result.replay_advice:
        return result.replay_advice
    if code == VIOLATED:
        return "the violation is confirmed: repair the mechanism or withdraw its claim"
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


def _next_without_violation(args: argparse.Namespace, result: Result, code: int) -> str:
    """Return the advice after a run that found no violation."""
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
