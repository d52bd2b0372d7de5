"""Shared parts of the commands that end with results: report, exit code, the lines of a result, and
the advice on the next step.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpwitness import reports
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.claims import parse_claim
from dpwitness.core.values.json_reader import Json
from dpwitness.terminal import (
    NO_VERDICT,
    OK,
    VIOLATED,
    announce,
    code_after_write,
    mark_verdict,
    print_error,
    show,
    try_to_write,
    worst,
)

# columns of a report on a terminal, and the longest cell
_TABLE_COLUMNS = ("verdict", "audit", "claim", "certified", "detectable", "cost")
_LONGEST_CELL = 60
# Notes on how the mechanism is called, which the user knows before the run.
_RUN_NOTE = re.compile(
    r" is given \w+(, with a new value for each run)?$|were seeded globally$|^runs are single calls"
)


def prepare(args: argparse.Namespace) -> tuple[reports.Accepted, ...] | None:
    """Check report folder, baseline and claim before any run; return the accepted findings, or None
    without a baseline.
    """
    if args.report is not None:
        reports.check_writable(args.report)
    baseline = getattr(args, "baseline", None)
    known = None if baseline is None else reports.read_accepted(baseline)
    if getattr(args, "claim", None) is not None:
        parse_claim(args.claim)
    return known


def exit_code(data: Json, *, bits: bool = False) -> int:
    """Return the exit code of one result in JSON form; a leak in low bits counts if `bits`."""
    codes = {"violated": VIOLATED, "undecided": NO_VERDICT}
    return codes.get(reports.outcome(data, bits=bits), OK)


def leaks(result: Result) -> bool:
    """Return whether the low bits of the outputs violate the claim."""
    level = getattr(result, "bit_level", None)
    return level is not None and level.verdict is Verdict.VIOLATED


def report_results(
    args: argparse.Namespace,
    results: Sequence[Result],
    *,
    title: str,
    bits: bool = False,
    known: Sequence[reports.Accepted] | None = None,
    lines: Sequence[str] | None = None,
) -> int:
    """Write and print the results of a command; return its exit code.

    With `lines`, one line per result, these lines replace the descriptions, and the JSON is a list.
    Accepted violations, as `known` of `prepare` says, do not count. A report or a summary that
    cannot be written changes the exit code of a run without a violation.
    """
    data, stale = reports.apply_accepted(
        [reports.result_json(result) for result in results], known or ()
    )
    announce_stale_baseline(stale)
    report, write_failed = write_outputs(args, data, title, results)
    codes = [exit_code(each, bits=bits) for each in data]
    code = code_after_write(worst(codes), write_failed)
    if args.json:
        print_json(data[0] if len(data) == 1 and lines is None else data)
        return code
    if lines is not None:
        show("\n".join(lines))
        return code
    page = report.with_suffix(".html") if report and report.suffix == ".md" else report
    names = reports.slugs(result.name for result in results)
    descriptions = []
    for result, result_data, slug, its_code in zip(results, data, names, codes, strict=True):
        witness = report.parent / f"witness-{slug}.json" if report else None
        next_step = _next(args, result, its_code, witness if result_data["witness"] else None)
        shown = "" if page is None else str(page)
        descriptions.append(
            describe(result, result_data, bits, next_step, shown, every=args.verbose)
        )
    if args.quiet:
        show("\n".join(description.partition("\n")[0] for description in descriptions))
    else:
        show("\n\n".join(descriptions))
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
            "report",
            lambda: reports.write_report(data, args.report, title=title, command=command_line()),
        )
    write_failed |= append_step_summary(args, data, title)
    unstored = {
        f"{result.name}: the store could not be written to the end: {why}"
        for result in results
        if (why := getattr(result, "unstored", ""))
    }
    for reason in sorted(unstored):
        print_error("", reason)
    return report, bool(unstored) or write_failed


def append_step_summary(
    args: argparse.Namespace, results: Sequence[Result | Json], title: str
) -> bool:
    """Append the summary to its file, if there is one, and return whether a requested summary could
    not be written.
    """
    file = reports.summary_file(args.summary)
    if file is None:
        return False
    _, write_failed = try_to_write(
        "summary",
        lambda: reports.append_summary(
            reports.build_document(results, title=title, command=command_line()), file
        ),
    )
    return write_failed and args.summary is not None


def announce_stale_baseline(entries: Sequence[reports.Accepted]) -> None:
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
    leaky, violated = leaks(result), result.verdict is Verdict.VIOLATED
    inconclusive = result.verdict is Verdict.INCONCLUSIVE
    store = getattr(args, "store", "")
    larger = _larger_budget(args, result)
    confirm = "to save the witness, run again with --report DIR"
    if witness is not None:
        scores = [score.to_json() for score in getattr(result, "scores", ())]
        again = reports.replay_command(str(witness), result.target, scores)
        confirm = f"confirm the {'violation' if violated or not leaky else 'leak'} with: {again}"
    advice: list[tuple[object, str]] = [
        (
            result.verdict is Verdict.SUSPECT,
            "read what is guessed; if the claim is right, delete the line `guessed` of the target "
            "and run again",
        ),
        (args.command == "replay", _next_after_replay(args, result, code)),
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
        (
            leaky and result.verdict is not Verdict.ERROR,
            "round outputs to a grid, because float rounding distinguishes the datasets; "
            f"{confirm}",
        ),
        (code == NO_VERDICT, "fix the problem in the first line, then run again"),
        (
            not math.isfinite(getattr(result, "detectable", 0.0)),
            f"{larger}: these runs are too few to detect any violation",
        ),
        (True, f"no change is needed on this evidence; {larger} finds smaller violations"),
    ]
    return next(text for applies, text in advice if applies)


def _next_after_replay(args: argparse.Namespace, result: Result, code: int) -> str:
    """Return the advice on the next step after a replay."""
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


def _larger_budget(args: argparse.Namespace, result: Result) -> str:
    """Return the options of a run with ten times the budget."""
    if getattr(args, "seconds", None):
        clock = " --clock cpu" if getattr(args, "clock", "wall") == "cpu" else ""
        return f"--seconds {10 * args.seconds:g}{clock}"
    return f"--trials {10 * getattr(result, 'requested', 0) or 10**6:.3g}".replace("e+0", "e")


def describe(
    result: Result, data: Json, bits: bool, next_step: str, report: str, *, every: bool
) -> str:
    """Return a result as text: headline, then labeled lines; verdicts are marked for coloring
    (`terminal.mark_verdict`).

    `data` is ``result_json(result)``, `bits` whether a leak in low-order bits counts for the exit
    code, `next_step` the advice, and `report` the path of the report, if any. With `every`, and for
    traces, every line is shown instead of the six most important lines.
    """
    notes = data.get("notes", [])[1 if result.verdict in result.headline_is_note else 0 :]
    rows = [
        *result.lines(data, bits=bits),
        *([("accepted", reports.acceptance_text(data))] if data.get("accepted") else []),
        *(("note", note) for note in notes),
        ("next", next_step),
        *([("report", report)] if report else []),
    ]
    if not every and not result.all_lines:
        rows = _most_important_rows(rows, result.verdict)
    lines = [mark_verdict(reports.plain(result.headline()))]
    for name, text in rows:
        line = reports.plain(f"  {name:<10} {text}")
        # number of characters before the text of a line
        lines.append(mark_verdict(line, at=13) if name in ("rounding", "audit") else line)
    return "\n".join(lines)


def _most_important_rows(
    rows: Sequence[tuple[str, str]], verdict: Verdict
) -> list[tuple[str, str]]:
    """Return the most important lines after the headline, in their order, with the first note and
    the number of omitted notes.
    """
    hidden = {"NOT_REFUTED": "trace", "ERROR": "event", "INCONCLUSIVE": "event"}.get(verdict.value)
    kept = {"event", "causes", "accepted", "next", "report"} - {hidden}
    notes = [text for name, text in rows if name == "note" and not _RUN_NOTE.search(text)]
    if any(text.startswith("time budget") for text in notes):
        kept.add("time")
    # of the calls of a trace, the one with the largest loss
    traced = [row for row in rows if row[0] == "trace" and hidden != "trace"][:1]
    chosen = [
        row
        for row in rows
        if row[0] in kept
        or row in traced
        or (row[0] == "rounding" and row[1].startswith("VIOLATED"))
    ]
    # without --verbose, a result has at most six lines
    if notes and len(chosen) < 5:
        more = f" (+{len(notes) - 1} more: --verbose)" if len(notes) > 1 else ""
        place = [name for name, _ in chosen].index("next")
        chosen.insert(place, ("note", notes[0] + more))
    return chosen


def summary(entries: Sequence[reports.Entry]) -> str:
    """Return the answer of a report and its table, worst audit first; verdicts are marked
    (`terminal.mark_verdict`).
    """
    from dpwitness.reports.html_format import text  # loads the templates of pages

    shown = [
        column
        for head in _TABLE_COLUMNS
        for column in reports.columns(entries)
        if column.head == head
    ]
    rows = [
        [reports.truncated_line(text(column.text(entry)), _LONGEST_CELL) for column in shown]
        for entry in reports.sort_worst_first(entries)
    ]
    lines = [*map(text, reports.answer(entries)), "", *reports.aligned([_TABLE_COLUMNS, *rows])]
    return "\n".join(mark_verdict(reports.plain(line)) for line in lines)
