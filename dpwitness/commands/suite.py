"""``dpwitness suite``: audit a suite of mechanisms, print one line per case, and count right and
wrong verdicts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dpwitness.auditors.witnesses.store import open_store
from dpwitness.commands import common
from dpwitness.commands.loading import workers
from dpwitness.commands.options import matches
from dpwitness.console import bar
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import format_times
from dpwitness.reports.comparison.accepted import apply_accepted, unaccepted_rules
from dpwitness.reports.phrasing.summary import acceptance_text
from dpwitness.reports.phrasing.wording import plain
from dpwitness.suites import Case, Outcome, Suite, run_case, run_cases_in_parallel, suite_of
from dpwitness.terminal import (
    NO_VERDICT,
    OK,
    VIOLATED,
    code_after_write,
    mark_verdict,
    redirected_stdout,
    show,
    try_to_write,
)


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
    outcomes: list[Outcome] = []
    missing = {case.name: needed for case in chosen if (needed := case.missing())}
    for name, needed in missing.items():
        print(f"{name:<{width}}  not installed: {needed}", file=out, flush=True)
    ready = [case for case in chosen if case.name not in missing]
    keys = ("trials", "seconds", "clock", "confidence", "seed")
    options = {key: getattr(args, key) for key in keys}
    one_case_per_worker = (
        args.store is None and args.executor is None and 1 < args.workers <= len(ready)
    )
    with suppress(KeyboardInterrupt):
        for audited in (
            run_cases_in_parallel(found, ready, args.workers, **options)
            if one_case_per_worker
            else _run_in_turn(args, found, ready, options)
        ):
            note_count = len(audited.json["notes"])
            outcome = replace(audited, json=apply_accepted([audited.json], known or ()).results[0])
            outcomes.append(outcome)
            show(mark_verdict(plain(outcome.line(width)), at=width + 2), out)
            lines = outcome.json["notes"][note_count:]
            if outcome.json.get("accepted"):
                lines = [f"accepted {acceptance_text(outcome.json)}", *lines]
            for line in lines:
                print(plain(f"{'':<{width}}  {line}"), file=out, flush=True)
    outcomes.sort(key=lambda outcome: ready.index(outcome.case))
    data, results = [each.json for each in outcomes], [each.result for each in outcomes]
    report, write_failed = common.write_outputs(args, data, f"Suite {found.name}", results)
    if report is not None and found.page is not None:
        write_page = partial(found.page, data, missing, Path(args.report))
        write_failed |= try_to_write("page of the suite", write_page)[1]
    print(
        _format_tally(outcomes, len(ready))
        + (f"; {len(missing)} not installed" if missing else ""),
        file=out,
    )
    if report is not None:
        print(f"report: {report}", file=out)
    if args.json:
        common.print_json(data)
    common.announce_stale_baseline(apply_accepted(data, known or ()).stale)
    if any(
        (o.wrong and not _is_accepted(o)) or (known is not None and unaccepted_rules(o.json))
        for o in outcomes
    ):
        return VIOLATED
    return code_after_write(
        NO_VERDICT if not outcomes or any(o.unfinished for o in outcomes) else OK, write_failed
    )


def _run_in_turn(
    args: argparse.Namespace, suite: Suite, cases: Sequence[Case], options: dict[str, Any]
) -> Iterator[Outcome]:
    """Audit cases sequentially, each on all workers, and yield the outcomes; cases that a store
    holds as finished are not repeated.
    """
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
            if outcome.interrupted:
                return


def _is_accepted(outcome: Outcome) -> bool:
    """Return whether a wrong verdict refutes a claim that is believed to hold, and the finding is
    accepted.
    """
    truth = outcome.case.truth
    return (
        "accepted" in outcome.json and truth is not None and not truth.breaks(outcome.result.claim)
    )


def _format_tally(outcomes: Sequence[Any], planned: int) -> str:
    right = sum(o.right is True for o in outcomes)
    wrong = [o.case.name for o in outcomes if o.wrong]
    uncompared = sum(o.right is None and not o.unfinished for o in outcomes)
    parts = [f"{right} right", f"{len(wrong)} wrong" + (f" ({', '.join(wrong)})" if wrong else "")]
    if uncompared:
        parts.append(f"{uncompared} with nothing to compare with")
    unfinished = sum(o.unfinished for o in outcomes) + planned - len(outcomes)
    if unfinished:
        parts.append(f"{unfinished} without a verdict")
    times = (sum(getattr(o.result, name) for o in outcomes) for name in ("seconds", "cpu_seconds"))
    return f"{planned} cases: {', '.join(parts)}; {format_times(*times)}"
