"""``dpwitness check``: run every applicable check on the targets of a file."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, TextIO

from dpwitness.commands import options as opts
from dpwitness.commands.common import append_step_summary, command_line, print_json
from dpwitness.console import announce
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.option_values.parsers import matches
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

if TYPE_CHECKING:
    from dpwitness.auditors.checks.runner import CheckReport
    from dpwitness.mechanisms.wrappers.programs.target import Target


def arguments(command: opts.Command) -> None:
    """Add the command and its options to the parser."""
    checked = command(
        "check", "run every applicable check on the targets of a file, and print one line per check"
    )
    opts.add_options(
        checked,
        {
            "target": {
                "nargs": "?",
                "metavar": "FILE[:NAME]",
                "help": "target file or adapter, and the name of one of its targets; default: "
                "all its targets",
            },
            **opts.PROGRAM,
            "--claim": {"help": "claim of the program, if its hello message has none: pure:1, ..."},
            "--domain": {
                "metavar": "JSON",
                "help": "domain of the datasets, if the hello message of the program has none: "
                '{"kind": "Records", "size": 1, "low": 0, "high": 1}',
            },
            **opts.name_filter(
                "only checks whose name matches: words and `and`, `or`, `not`; a check named "
                "here fails for other numbers of draws too"
            ),
            **opts.time_limit("one batch of runs"),
            **opts.INTERPRETER,
            **opts.RUNNING,
            **opts.duration("the checks of each target"),
        },
    )


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness check``: print one line per check, and return the exit code of the worst
    target.
    """
    from dpwitness.auditors.checks.runner import CHECKS
    from dpwitness.auditors.witnesses.verdicts import Verdict
    from dpwitness.reports.audit.report import check_writable

    if args.report is not None:
        check_writable(args.report)
    checks = [check for check in CHECKS if matches(args.keyword, check)]
    if not checks:
        raise InvalidArgument(f"-k must match a check ({', '.join(CHECKS)}), got {args.keyword!r}")
    file, targets, all_of_file = _targets_of(args)
    out = sys.stderr if args.json else sys.stdout
    reports: list[Any] = []
    code = OK
    for target in targets:
        try:
            reports.append(_check_one(target, args, checks, out))
        except InvalidArgument as error:
            if not all_of_file:
                raise
            print(plain(f"{target.__name__}: {error}\n"), file=out)
            code = USAGE
        except Exception as error:  # the other targets go on
            if not all_of_file:
                raise
            print(plain(f"{target.__name__}: {error_text(error)}\n"), file=out)
            code = code or NO_VERDICT
        except KeyboardInterrupt:
            print(f"{target.__name__}: interrupted", file=out)
            code = code or NO_VERDICT
            break
    write_failed = False
    if args.report is not None:
        from dpwitness.reports.audit.report import write

        page, write_failed = try_to_write(
            "report", lambda: write(reports, args.report, command=command_line())
        )
        if page is not None:
            print(f"report: {page}", file=out)
    write_failed |= append_step_summary(args, reports, f"Checks of {file}")
    if args.json:
        print_json([report.to_json() for report in reports])
    verdicts = {report.verdict for report in reports}
    return code_after_write(
        VIOLATED
        if Verdict.VIOLATED in verdicts
        else code or (NO_VERDICT if verdicts & {Verdict.ERROR, Verdict.SUSPECT} else OK),
        write_failed,
    )


def _targets_of(args: argparse.Namespace) -> tuple[str, list[Target], bool]:
    """Return the file, its targets (or the program of ``--command``), and whether all targets of
    the file are meant.
    """
    from dpwitness.mechanisms.wrappers.programs.target import Target
    from dpwitness.mechanisms.wrappers.programs.worker_pool import target_names
    from dpwitness.option_values.datasets import keywords
    from dpwitness.option_values.targets import load_mechanism
    from dpwitness.option_values.user_code import printed_traceback

    if args.program is not None:
        with printed_traceback():
            program_target, name, _ = load_mechanism(args)
            program_target.state(
                args.claim, None if args.domain is None else keywords(args.domain, "--domain")
            )
            missing = [
                f"--{word}" for word in ("claim", "domain") if getattr(program_target, word) is None
            ]
        if missing:
            raise InvalidArgument(
                f"check needs a claim and a domain, which {name} does not declare: give "
                f"{' and '.join(missing)}"
            )
        return name, [program_target], False
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
    return (
        file,
        [Target(file, name, args.python, {}, args.time_limit, args.memory) for name in names],
        not name,
    )


def _check_one(
    target: Target, args: argparse.Namespace, checks: list[str], out: TextIO
) -> CheckReport:
    from dpwitness.auditors.checks.runner import CheckFinding, check_mechanism
    from dpwitness.option_values.targets import workers
    from dpwitness.option_values.user_code import printed_traceback

    def print_finding(finding: CheckFinding) -> None:
        line = plain(f"  {finding.status:<16}  {finding.check}  {finding.reason}".rstrip())
        if finding.status == "failed":
            line = line.replace(
                "failed", marked("failed", "VIOLATED" if finding.violation else "ERROR"), 1
            )
        show(line, out)

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
    return report
