"""Commands that print one line per result: ``check`` runs every applicable check on the targets of
a file, and ``suite`` audits all mechanisms of a suite and counts right and wrong verdicts.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from dpwitness import reports
from dpwitness.auditors.checks.runner import CHECKS, CheckFinding, CheckReport, check_mechanism
from dpwitness.auditors.witnesses.store import open_store
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.commands import common
from dpwitness.commands.loading import keywords, load_mechanism, printed_traceback, workers
from dpwitness.commands.options import matches
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.core.values.wording import format_times
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import target_names
from dpwitness.suites import Case, CaseOutcome, Suite, run_case, run_cases_in_parallel, suite_of
from dpwitness.terminal import (
    NO_VERDICT,
    OK,
    USAGE,
    VIOLATED,
    announce,
    bar,
    code_after_write,
    mark_verdict,
    marked,
    redirected_stdout,
    show,
    try_to_write,
    worst,
    write_report_files,
)


def check(args: argparse.Namespace) -> int:
    """Run ``dpwitness check``: print one line per check, and return the exit code of the worst
    target.
    """
    if args.report is not None:
        reports.check_writable(args.report)
    checks = [check for check in CHECKS if matches(args.keyword, check)]
    if not checks:
        raise InvalidArgument(f"-k must match a check ({', '.join(CHECKS)}), got {args.keyword!r}")
    file, targets, all_of_file = _targets_of(args)
    out = sys.stderr if args.json else sys.stdout
    checked: list[CheckReport] = []
    codes: list[int] = []
    try:
        for target in targets:
            try:
                checked.append(_check_target(args, target, checks, out))
            except Exception as error:  # the other targets go on
                if not all_of_file:
                    raise
                usage = isinstance(error, InvalidArgument)
                text = error if usage else error_text(error)
                print(reports.plain(f"{target.__name__}: {text}\n"), file=out)
                codes.append(USAGE if usage else NO_VERDICT)
    except KeyboardInterrupt:
        print("interrupted", file=out)
        codes.append(NO_VERDICT)
    write_failed = write_report_files(args.report, lambda folder: _write(checked, folder), out)
    write_failed |= common.append_step_summary(args, checked, f"Checks of {file}")
    if args.json:
        common.print_json([report.to_json() for report in checked])
    # a skipped check leaves the verdict open, but is not a failure
    codes += [
        common.exit_code(report.to_json())
        for report in checked
        if report.verdict is not Verdict.INCONCLUSIVE
    ]
    return code_after_write(worst(codes), write_failed)


def _check_target(
    args: argparse.Namespace, target: Target, checks: Sequence[str], out: TextIO
) -> CheckReport:
    """Run the checks on a target, and print a line for each."""

    def print_finding(finding: CheckFinding) -> None:
        line = reports.plain(f"  {finding.status:<16}  {finding.check}  {finding.reason}".rstrip())
        if finding.status == "failed":
            mark = marked("failed", "VIOLATED" if finding.violation else "ERROR")
            line = line.replace("failed", mark, 1)
        show(line, out)

    with printed_traceback():
        print(f"{target.__name__}: claim {target.claim}, domain {target.domain}", file=out)
    for note in target.notes:
        print(reports.plain(f"  note: {note}"), file=out)
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
    print(reports.plain(f"{report.headline()}\n"), file=out)
    return report


def _targets_of(args: argparse.Namespace) -> tuple[str, list[Target], bool]:
    """Return the file, its targets (or the program of ``--command``), and whether all targets of
    the file are meant.
    """
    if args.program is not None:
        with printed_traceback():
            program, name, _ = load_mechanism(args)
            domain = None if args.domain is None else keywords(args.domain, "--domain")
            program.state(args.claim, domain)
        stated = {"--claim": program.claim, "--domain": program.domain}
        missing = " and ".join(option for option, value in stated.items() if value is None)
        if missing:
            raise InvalidArgument(
                f"check needs a claim and a domain, which {name} does not declare: give {missing}"
            )
        return name, [program], False
    text = args.target or ""
    if not text.strip():
        raise InvalidArgument(
            "a target is needed: FILE.py or FILE.py:NAME, or a program with --command"
        )
    if args.given & {"claim", "domain"}:
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


def _write(checked: list[CheckReport], folder: str) -> Path:
    """Write ``checks.json`` and its formats, and ``audit.json`` and its formats if a check ran an
    audit; return the markdown file of the checks.
    """
    path, command = reports.check_writable(folder), common.command_line()
    findings: list[Any] = [finding for report in checked for finding in report.findings]
    audits = [finding.result for finding in findings if finding.result is not None]
    if audits:
        reports.write_report(audits, path, title="Audits behind the checks", command=command)
    document = reports.build_document(checked, title="Checks", command=command)
    reports.write_document(document, path, stem="checks")
    return path / "checks.md"


def suite(args: argparse.Namespace) -> int:
    """Run ``dpwitness suite``: print one line per finished case, then the counts of right and wrong
    verdicts. Return the exit code.
    """
    known = common.prepare(args)
    found = suite_of(args.name)
    chosen = [case for case in found.cases() if matches(args.keyword, case.name)]
    if not chosen:
        raise InvalidArgument(f"-k must match a case of suite {args.name!r}, got {args.keyword!r}")
    out = sys.stderr if args.json else sys.stdout
    width = max(len(case.name) for case in chosen)
    missing = {case.name: needed for case in chosen if (needed := case.missing())}
    for name, needed in missing.items():
        print(f"{name:<{width}}  not installed: {needed}", file=out, flush=True)
    ready = [case for case in chosen if case.name not in missing]
    outcomes: list[CaseOutcome] = []
    with suppress(KeyboardInterrupt):
        for audited in _audit_cases(args, found, ready):
            first_note = len(audited.json["notes"])
            (data,), _ = reports.apply_accepted([audited.json], known or ())
            outcomes.append(replace(audited, json=data))
            _print_outcome(outcomes[-1], first_note, width, out)
    outcomes.sort(key=lambda outcome: ready.index(outcome.case))
    rows, results = [each.json for each in outcomes], [each.result for each in outcomes]
    report, write_failed = common.write_outputs(args, rows, f"Suite {found.name}", results)
    print(_format_tally(outcomes, len(ready), len(missing)), file=out)
    if report is not None:
        if found.page is not None:
            write_page = partial(found.page, rows, missing, Path(args.report))
            write_failed |= try_to_write("page of the suite", write_page)[1]
        print(f"report: {report}", file=out)
    if args.json:
        common.print_json(rows)
    common.announce_stale_baseline(reports.apply_accepted(rows, known or ())[1])
    return code_after_write(_suite_code(outcomes, with_baseline=known is not None), write_failed)


def _audit_cases(
    args: argparse.Namespace, suite: Suite, cases: Sequence[Case]
) -> Iterator[CaseOutcome]:
    """Audit cases and yield the outcomes: each case on one worker if that is possible, otherwise
    one case after another, each on all workers. Cases that a store holds as finished are not
    repeated.
    """
    options = {
        key: getattr(args, key) for key in ("trials", "seconds", "clock", "confidence", "seed")
    }
    if args.store is None and args.executor is None and 1 < args.workers <= len(cases):
        yield from run_cases_in_parallel(suite, cases, args.workers, **options)
        return
    with nullcontext() if args.store is None else open_store(args.store) as store:
        if store is not None:
            store.renewed = True
        for case in cases:
            with workers(args, case.mechanism) as executor, bar() as progress, redirected_stdout():
                outcome = run_case(
                    case,
                    **options,
                    defaults=suite,
                    executor=executor,
                    progress=progress,
                    store=store,
                )
            yield outcome
            verdict, exercised = outcome.result.verdict, outcome.result.exercised
            if verdict is Verdict.INCONCLUSIVE and exercised is not False:
                return  # the audit was interrupted


def _print_outcome(outcome: CaseOutcome, first_note: int, width: int, out: TextIO) -> None:
    """Print the line of a finished case, then how its violation is accepted, and its notes from
    `first_note` on.
    """
    show(mark_verdict(reports.plain(outcome.line(width)), at=width + 2), out)
    lines = outcome.json["notes"][first_note:]
    if outcome.json.get("accepted"):
        lines = [f"accepted {reports.acceptance_text(outcome.json)}", *lines]
    for line in lines:
        print(reports.plain(f"{'':<{width}}  {line}"), file=out, flush=True)


def _suite_code(outcomes: Sequence[CaseOutcome], *, with_baseline: bool) -> int:
    """Return the exit code of a suite: VIOLATED for a wrong verdict that is not accepted; with a
    baseline, also for each violation that is not accepted.
    """
    if any(
        (o.right is False and reports.outcome(o.json) == "violated")
        or (with_baseline and reports.unaccepted_rules(o.json))
        for o in outcomes
    ):
        return VIOLATED
    return NO_VERDICT if not outcomes or any(o.unfinished for o in outcomes) else OK


def _format_tally(outcomes: Sequence[CaseOutcome], planned: int, not_installed: int) -> str:
    """Return the counts of right and wrong verdicts, of cases without a verdict, and the times."""
    words = {True: "right", False: "wrong", None: "with nothing to compare with"}
    count = Counter("without a verdict" if o.unfinished else words[o.right] for o in outcomes)
    count["without a verdict"] += planned - len(outcomes)
    wrong = ", ".join(o.case.name for o in outcomes if o.right is False)
    parts = [
        f"{count['right']} right",
        f"{count['wrong']} wrong" + (f" ({wrong})" if wrong else ""),
    ]
    others = ("with nothing to compare with", "without a verdict")
    parts += [f"{count[text]} {text}" for text in others if count[text]]
    times = (sum(getattr(o.result, name) for o in outcomes) for name in ("seconds", "cpu_seconds"))
    ending = f"; {not_installed} not installed" if not_installed else ""
    return f"{planned} cases: {', '.join(parts)}; {format_times(*times)}{ending}"
