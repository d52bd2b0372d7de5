"""``dpwitness scan``: find what a package or folder promises, write a target file, and audit it."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness.commands import options as opts
from dpwitness.commands.common import print_json, write_outputs
from dpwitness.console import Line, announce
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.phrasing.wording import name_cell, name_width, plain
from dpwitness.terminal import (
    NO_VERDICT,
    OK,
    VIOLATED,
    code_after_write,
    mark_verdict,
    redirected_stdout,
    show,
)

if TYPE_CHECKING:
    from dpwitness.auditors.scanning.audits import Audited
    from dpwitness.auditors.scanning.package_discovery import Discovered
    from dpwitness.auditors.scanning.scan import Scan

_SECONDS = 600.0
_MOST_REMARKS = 12  # lines on modules and side effects without --verbose
_MOST_REASON = 110


def arguments(command: opts.Command) -> None:
    """Add the command and its options to the parser."""
    scan = command(
        "scan",
        "find the mechanisms of a package or folder, propose a target for each, and audit "
        "those targets",
    )
    opts.add_options(
        scan,
        {
            "package": {
                "metavar": "PACKAGE",
                "help": "name of an installed package, or a folder of Python files",
            },
            "--seconds": {
                "type": opts.SECONDS,
                "default": _SECONDS,
                "metavar": "S",
                "help": f"time budget; default {_SECONDS:g}",
            },
            **opts.CLOCK,
            "--dry-run": {
                "action": "store_true",
                "help": "import the package, and list what would be called, but call nothing",
            },
            **opts.seed(default=0),
            **opts.INTERPRETER,
            **opts.REPORTING,
            **opts.DETAIL,
        },
    )


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness scan`` and return the exit code: 1 violated, 3 suspect or nothing audited, 0
    otherwise.
    """
    from dpwitness.auditors.scanning.scan import explore, interpreter_path, stem_of
    from dpwitness.mechanisms.wrappers.programs.confinement import described
    from dpwitness.reports.audit.report import check_writable

    if not args.package.strip():
        raise InvalidArgument("scan needs the name of a package, or a folder, got ''")
    python = interpreter_path(args.python)
    args.report = args.report or f"out/scan-{stem_of(args.package)}"
    report = Path(args.report)
    with (
        tempfile.TemporaryDirectory(prefix="dpwitness-scan-") as name,
        redirected_stdout(),
        closing(_Line(args.quiet)) as line,
    ):
        folder = Path(name)
        if not args.quiet:
            print(f"limits: {described()}", file=sys.stderr)
        if args.dry_run:
            found = explore(
                args.package,
                python=python,
                folder=folder,
                memory=args.memory,
                seconds=args.seconds,
                progress=line,
            )
        else:
            check_writable(report)
            scan, outcomes, interrupted = _scan(args, python, report, folder, line)
    return (
        _print_calls(args, found) if args.dry_run else _conclude(args, scan, outcomes, interrupted)
    )


def _print_calls(args: argparse.Namespace, found: Discovered) -> int:
    """Print the calls that a scan would try first."""
    from dpwitness.auditors.scanning.scan import dry_run

    calls = dry_run(found)
    if args.json:
        print_json([{"name": name, "call": call} for name, call in calls])
        return OK
    for remark in found.remarks:
        print(plain(f"note: {remark}"))
    for name, call in calls:
        print(plain(f"{name}\n    {call}"))
    print(f"{len(calls)} of {len(found.objects)} public names would be called")
    return OK


def _scan(
    args: argparse.Namespace, python: str | None, report: Path, folder: Path, line: _Line
) -> tuple[Scan, list[Audited], bool]:
    """Prepare the target file and audit its entries."""
    from dpwitness.auditors.scanning.audits import AuditPlan, audit_entries
    from dpwitness.auditors.scanning.scan import prepare
    from dpwitness.auditors.scanning.trials import limits
    from dpwitness.auditors.workers.clocks import read_clock

    now, unit, outcomes = (
        read_clock(args.clock),
        "CPU s" if args.clock == "cpu" else "s",
        list[Any](),
    )
    begin = now()
    scan = prepare(
        args.package,
        report,
        python=python,
        folder=folder,
        memory=args.memory,
        seconds=args.seconds,
        progress=line,
    )
    with limits(folder):
        names, declared = _entries(scan, python, args.memory)
    left = max(args.seconds - (now() - begin), 5.0)
    plan = AuditPlan(scan.file, python, folder, left, args.memory, args.seed, args.clock)
    try:
        for outcome in audit_entries(plan, names, declared, line):
            outcomes.append(outcome)
            if outcome.verdict_name in ("VIOLATED", "SUSPECT"):
                line.close()
                announce(
                    f"{outcome.name}: {outcome.results[0].headline()} (after "
                    f"{now() - begin:.0f} {unit})"
                )
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    line.close()
    return scan, outcomes, interrupted


def _entries(scan: Scan, python: str | None, memory: float) -> tuple[list[str], dict[str, Json]]:
    """Return the targets of the file, and the transformations and accountants that it declares."""
    from dpwitness.mechanisms.wrappers.programs.declared import declarations
    from dpwitness.mechanisms.wrappers.programs.worker_pool import target_names

    file = str(scan.file)
    return target_names(file, python, memory_limit=memory), declarations(file, python, 60.0, memory)


def _conclude(
    args: argparse.Namespace, scan: Scan, outcomes: Sequence[Audited], interrupted: bool
) -> int:
    """Write the report, print the table, and return the exit code."""
    from dpwitness.auditors.scanning.scan import table
    from dpwitness.reports.audit.document import result_json

    results = [result for outcome in outcomes for result in outcome.results]
    title = f"Scan of {scan.title}" + (" (interrupted)" if interrupted else "")
    page, failed = write_outputs(args, [result_json(result) for result in results], title, results)
    rows = table(scan, outcomes)
    if args.json:
        print_json(
            {
                "title": scan.title,
                "targets": str(scan.file),
                "remarks": list(scan.remarks),
                "names": rows,
            }
        )
    else:
        _print_table(args, scan, rows)
        if not args.quiet:
            print(
                f"\ntargets: {scan.file}"
                + (" (kept as it was; delete it to propose again)" if scan.kept else "")
            )
            print(f"report:  {page.with_suffix('.html') if page else 'not written'}")
    verdicts = {row["verdict"] for row in rows if row["verdict"]}
    code = (
        VIOLATED
        if "VIOLATED" in verdicts
        else NO_VERDICT
        if "SUSPECT" in verdicts or "NOT_REFUTED" not in verdicts or interrupted
        else OK
    )
    return code_after_write(code, failed)


def _print_table(args: argparse.Namespace, scan: Scan, rows: Sequence[Json]) -> None:
    """Print one line per public name that is not certainly something else, the worst verdict first,
    and counts of the others.
    """
    order = ["VIOLATED", "SUSPECT", "ERROR", "INCONCLUSIVE", "NOT_REFUTED", ""]
    shown = [row for row in rows if args.verbose or row["read as"] != "other"]
    shown = sorted(
        shown,
        key=lambda row: (
            order.index(row["verdict"]) if row["verdict"] in order else 5,
            row["read as"] == "other",
        ),
    )
    print(f"{scan.title}: {len(rows):,} public names")
    for remark in scan.remarks if args.verbose else scan.remarks[:_MOST_REMARKS]:
        print(plain(f"note: {remark}"))
    if len(scan.remarks) > _MOST_REMARKS and not args.verbose:
        print(f"note: {len(scan.remarks) - _MOST_REMARKS} more notes with --verbose")
    width = name_width(row["name"] for row in shown)
    for row in [] if args.quiet else shown:
        verdict = str(row["verdict"]).replace("_", " ") or (
            "-" if row["read as"] == "other" else "not audited"
        )
        how = (
            f"{row['audited']}: {row['claim']}{' (guessed)' if row['guessed'] else ''}"
            if row["audited"] and row.get("claim")
            else row["audited"]
        )
        why = (
            row["why"]
            if len(row["why"]) <= _MOST_REASON
            else row["why"][: _MOST_REASON - 3] + "..."
        )
        text = plain(
            f"{name_cell(row['name'], width)}  {verdict:<12}  "
            f"{'; '.join(filter(None, [how, why]))}".rstrip()
        )
        show(mark_verdict(text, at=width + 2))
    print(_summary(rows))


def _summary(rows: Sequence[Json]) -> str:
    """Return the counts of roles and verdicts in one line."""
    roles = Counter(row["read as"] for row in rows)
    audited = Counter(row["verdict"].replace("_", " ") for row in rows if row["verdict"])
    found = ", ".join(
        f"{count} {name}s" if count != 1 else f"1 {name}"
        for name, count in roles.items()
        if name not in ("other", "")
    )
    verdicts = ", ".join(f"{count} {name}" for name, count in audited.items()) or "none"
    return (
        f"found: {found or 'no mechanism'}, {roles['other']} other names; audited "
        f"{sum(audited.values())}: {verdicts}"
    )


class _Line(Line):
    """Progress on one line of a terminal; nothing on other streams."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(sys.stderr)
        self._shown = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, text: str) -> None:
        if self._shown:
            self.draw(plain(text)[:100])
