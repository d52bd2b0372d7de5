"""``dpwitness check``: run every applicable check on the targets of a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from dpwitness.auditors.checks.runner import CHECKS, CheckFinding, CheckReport, check_mechanism
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.commands.common import append_step_summary, command_line, print_json
from dpwitness.commands.inputs import keywords, printed_traceback
from dpwitness.commands.loading import load_mechanism, workers
from dpwitness.commands.options import matches
from dpwitness.console import announce
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import target_names
from dpwitness.reports.audit.document import build_document
from dpwitness.reports.audit.report import check_writable, write_document, write_report
from dpwitness.reports.phrasing.wording import plain
from dpwitness.terminal import (
    NO_VERDICT,
    OK,
    USAGE,
    VIOLATED,
    code_after_write,
    marked,
    show,
    try_to_write,
)


def check(args: argparse.Namespace) -> int:
    """Run ``dpwitness check``: print one line per check, and return the exit code of the worst
    target.
    """
    if args.report is not None:
        check_writable(args.report)
    checks = [check for check in CHECKS if matches(args.keyword, check)]
    if not checks:
        raise InvalidArgument(f"-k must match a check ({', '.join(CHECKS)}), got {args.keyword!r}")
    file, targets, all_of_file = _targets_of(args)
    out = sys.stderr if args.json else sys.stdout
    reports: list[CheckReport] = []
    code = OK

    def print_finding(finding: CheckFinding) -> None:
        line = plain(f"  {finding.status:<16}  {finding.check}  {finding.reason}".rstrip())
        if finding.status == "failed":
            mark = marked("failed", "VIOLATED" if finding.violation else "ERROR")
            line = line.replace("failed", mark, 1)
        show(line, out)

    for target in targets:
        try:
            with printed_traceback():
                print(f"{target.__name__}: claim {target.claim}, domain {target.domain}", file=out)
            for note in target.notes:
                print(plain(f"  note: {note}"), file=out)
            with workers(args, target) as executor:
                report = check_mechanism(
                    target,
                    seed=args.seed or 0,
                    trials=args.trials,
                    seconds=args.seconds,
                    clock=args.clock,
                    announce=announce,
                    checks=checks,
                    # `not bits` names no check, `draws` does
                    side_channels=not matches(args.keyword, ""),
                    executor=executor,
                    progress=print_finding,
                )
            print(plain(f"{report.headline()}\n"), file=out)
            reports.append(report)
        except KeyboardInterrupt:
            print(f"{target.__name__}: interrupted", file=out)
            code = code or NO_VERDICT
            break
        except Exception as error:  # the other targets go on
            if not all_of_file:
                raise
            usage = isinstance(error, InvalidArgument)
            text = error if usage else error_text(error)
            print(plain(f"{target.__name__}: {text}\n"), file=out)
            code = USAGE if usage else code or NO_VERDICT
    write_failed = False
    if args.report is not None:
        page, write_failed = try_to_write("report", lambda: _write(reports, args.report))
        if page is not None:
            print(f"report: {page}", file=out)
    write_failed |= append_step_summary(args, reports, f"Checks of {file}")
    if args.json:
        print_json([report.to_json() for report in reports])
    verdicts = {report.verdict for report in reports}
    if Verdict.VIOLATED in verdicts:
        code = VIOLATED
    elif verdicts & {Verdict.ERROR, Verdict.SUSPECT}:
        code = code or NO_VERDICT
    return code_after_write(code, write_failed)


def _targets_of(args: argparse.Namespace) -> tuple[str, list[Target], bool]:
    """Return the file, its targets (or the program of ``--command``), and whether all targets of
    the file are meant.
    """
    if args.program is not None:
        with printed_traceback():
            program, name, _ = load_mechanism(args)
            domain = None if args.domain is None else keywords(args.domain, "--domain")
            program.state(args.claim, domain)
            missing = [
                f"--{word}" for word in ("claim", "domain") if getattr(program, word) is None
            ]
        if missing:
            raise InvalidArgument(
                f"check needs a claim and a domain, which {name} does not declare: give "
                f"{' and '.join(missing)}"
            )
        return name, [program], False
    text = args.target or ""
    if not text.strip():
        raise InvalidArgument(
            "a target is needed: FILE.py or FILE.py:NAME, or a program by --command, got "
            f"{args.target!r}"
        )
    if (args.claim, args.domain) != (None, None):
        raise InvalidArgument("--claim and --domain are for programs: a target file declares both")
    file, _, name = text.rpartition(":") if ":" in text else (text, "", "")
    with printed_traceback():
        names = [name] if name else target_names(file, args.python, args.time_limit, args.memory)
    if not names:
        raise InvalidArgument(
            f"{file} must contain a function with an attribute `claim`, but has none; for a "
            "template: dpwitness targets new FILE"
        )
    limits = args.time_limit, args.memory
    return file, [Target(file, name, args.python, {}, *limits) for name in names], not name


def _write(reports: list[CheckReport], folder: str) -> Path:
    """Write ``checks.json`` and its formats, and ``audit.json`` and its formats if a check ran an
    audit; return the markdown file of the checks.
    """
    path, command = check_writable(folder), command_line()
    findings: list[Any] = [finding for report in reports for finding in report.findings]
    audits = [finding.result for finding in findings if finding.result is not None]
    if audits:
        write_report(audits, path, title="Audits behind the checks", command=command)
    document = build_document(reports, title="Checks", command=command)
    write_document(document, path, stem="checks")
    return path / "checks.md"
