"""``dpwitness report``: write any format of a report from its JSON file."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpwitness.commands.common import Command, parse_names, report_json_path
from dpwitness.console import summary
from dpwitness.exit_codes import OK, show
from dpwitness.mechanisms.core.json_reader import printable
from dpwitness.mechanisms.core.validation import InvalidArgument, said


def arguments(command: Command) -> None:
    """Add the command and its options to the parser."""
    from dpwitness.reports.audit.formats import DEFAULT_FORMATS, format_names

    report = command("report", "write or show the report of an earlier run again, in any format, from its audit.json")
    report.add_argument("file", metavar="AUDIT.json", help="file that --report wrote")
    report.add_argument(
        "--format",
        default=",".join(DEFAULT_FORMATS),
        metavar="F,F",
        help=f"formats, among {', '.join(format_names())}; default {','.join(DEFAULT_FORMATS)}",
    )
    report.add_argument("--report", metavar="DIR", help="output folder; default: the folder of the file")
    report.add_argument("--show", action="store_true", help="print a table of the audits, worst first, and write nothing")
    report.add_argument("--no-plots", action="store_true", help="write no plots")


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness report`` and return the exit code."""
    from dpwitness.reports.audit.document import entries_of, read_document
    from dpwitness.reports.audit.formats import format_names
    from dpwitness.reports.audit.report import check_writable, write_document

    if args.show and args.report is not None:
        raise InvalidArgument("--show writes nothing: leave out --report")
    formats = parse_names(args.format, format_names())
    args.file = report_json_path(args.file)
    document = read_document(args.file)
    if args.show:
        show(summary(entries_of(document)))
        return OK
    stem = Path(args.file).stem
    folder = check_writable(args.report if args.report is not None else Path(args.file).parent)
    try:
        files = write_document(document, folder, formats, stem=stem, plots=not args.no_plots)
    except InvalidArgument:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # inconsistent numbers or curves in the file
        raise InvalidArgument(f"{printable(Path(args.file).name)} cannot be shown: {said(error)}") from error
    for file in files:
        print(file)
    return OK
