"""``dpwitness compare``: compare a report with an earlier report."""

from __future__ import annotations

import argparse

from dpwitness.commands.common import Command, exit_code, parse_names, print_json, report_json_path
from dpwitness.exit_codes import code_after_write, try_to_write
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.reports.phrasing.wording import plain

FORMATS = ("md", "html")


def arguments(command: Command) -> None:
    """Add the command and its options to the parser."""
    compare = command(
        "compare", "compare a report with an earlier report: new violations, changed verdicts, numbers that changed beyond their error"
    )
    compare.add_argument("old", metavar="OLD.json", help="audit.json of the earlier report")
    compare.add_argument("new", metavar="NEW.json", help="audit.json of the later report; a new violation gives exit code 1")
    compare.add_argument("--report", metavar="DIR", help="write compare.json, and compare.md or the formats of --format")
    compare.add_argument("--format", metavar="F,F", help=f"formats of the report, among {', '.join(FORMATS)}; default {FORMATS[0]}")
    compare.add_argument("--explain", action="store_true", help="also explain how changes are judged")
    compare.add_argument("--json", action="store_true", help="print the comparison as JSON")


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness compare`` and return the exit code."""
    from dpwitness.reports.audit.report import check_writable
    from dpwitness.reports.comparison.compare import compare
    from dpwitness.reports.comparison.page import terminal, write

    if args.format is not None and args.report is None:
        raise InvalidArgument("--format needs --report DIR, where the files are written")
    formats = parse_names(args.format or FORMATS[0], FORMATS)
    if args.report is not None:
        check_writable(args.report)
    found, write_failed = compare(report_json_path(args.old), report_json_path(args.new)), False
    if args.json:
        print_json(found.to_json())
    else:
        print(plain(terminal(found, explain=args.explain)))
    if args.report is not None:
        file, write_failed = try_to_write("report", lambda: write(found, args.report, formats)[0])
        if file is not None and not args.json:
            print(f"report: {file}")
    return code_after_write(exit_code(found), write_failed)
