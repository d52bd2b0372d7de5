"""``dpwitness report`` and ``compare``: write any format of a report from its JSON file; compare a
report with an earlier one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dpwitness.commands import options as opts
from dpwitness.commands.common import exit_code, parse_names, print_json, report_json_path
from dpwitness.console import summary
from dpwitness.core.values.json_reader import printable
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.reports.phrasing.wording import plain
from dpwitness.terminal import OK, code_after_write, show, try_to_write

COMPARISON_FORMATS = ("md", "html")
_COMPARE: opts.Options = {
    "old": {"metavar": "OLD.json", "help": "audit.json of the earlier report"},
    "new": {
        "metavar": "NEW.json",
        "help": "audit.json of the later report; a new violation gives exit code 1",
    },
    "--report": {
        "metavar": "DIR",
        "help": "write compare.json, and compare.md or the formats of --format",
    },
    "--format": {
        "metavar": "F,F",
        "help": f"formats of the report, among {', '.join(COMPARISON_FORMATS)}; default "
        f"{COMPARISON_FORMATS[0]}",
    },
    "--explain": {"action": "store_true", "help": "also explain how changes are judged"},
    "--json": {"action": "store_true", "help": "print the comparison as JSON"},
}


def arguments(command: opts.Command) -> None:
    """Add the commands ``report`` and ``compare`` and their options to the parser."""
    from dpwitness.reports.audit.formats import DEFAULT_FORMATS, format_names

    report = command(
        "report",
        "write or show the report of an earlier run again, in any format, from its audit.json",
    )
    usual = ",".join(DEFAULT_FORMATS)
    opts.add_options(
        report,
        {
            "file": {"metavar": "AUDIT.json", "help": "file that --report wrote"},
            "--format": {
                "default": usual,
                "metavar": "F,F",
                "help": f"formats, among {', '.join(format_names())}; default {usual}",
            },
            "--report": {
                "metavar": "DIR",
                "help": "output folder; default: the folder of the file",
            },
            "--show": {
                "action": "store_true",
                "help": "print a table of the audits, worst first, and write nothing",
            },
            "--no-plots": {"action": "store_true", "help": "write no plots"},
        },
    )
    compare = command(
        "compare",
        "compare a report with an earlier report: new violations, changed verdicts, numbers "
        "that changed beyond their error",
    )
    opts.add_options(compare, _COMPARE)


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness report`` or ``dpwitness compare`` and return the exit code."""
    return _compare(args) if args.command == "compare" else _report(args)


def _report(args: argparse.Namespace) -> int:
    """Write or show a report again."""
    from dpwitness.reports.audit.document import entries_of, read_document
    from dpwitness.reports.audit.formats import format_names
    from dpwitness.reports.audit.report import IncompleteReport, check_writable, write_document

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
    except (
        IncompleteReport,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        # Numbers or curves in the file are inconsistent.
        raise InvalidArgument(
            f"{printable(Path(args.file).name)} cannot be shown: {error_text(error)}"
        ) from error
    for file in files:
        print(file)
    return OK


def _compare(args: argparse.Namespace) -> int:
    """Compare two reports, print the comparison, and write it if requested."""
    from dpwitness.reports.audit.report import check_writable
    from dpwitness.reports.comparison.compare import compare, terminal, write

    if args.format is not None and args.report is None:
        raise InvalidArgument("--format needs --report DIR, where the files are written")
    formats = parse_names(args.format or COMPARISON_FORMATS[0], COMPARISON_FORMATS)
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
