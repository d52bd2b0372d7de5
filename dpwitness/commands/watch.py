"""``dpwitness watch``: add a slice of runs to each target of a list, and report violations at a
false discovery rate.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpwitness.colors import mark_verdict
from dpwitness.commands import common
from dpwitness.console import announce
from dpwitness.exit_codes import (
    NO_VERDICT,
    OK,
    VIOLATED,
    code_after_write,
    redirected_stdout,
    show,
    try_to_write,
)
from dpwitness.reports.phrasing.wording import name_cell, name_width, plain

if TYPE_CHECKING:
    from dpwitness.auditors.audit.watch import Watched
    from dpwitness.reports.comparison.accepted import Accepted


def arguments(command: common.Command) -> None:
    """Add the command and its options to the parser."""
    watch = command(
        "watch",
        "add a slice of runs to each target's sequential audit in a store, for CI and services",
    )
    watch.add_argument(
        "targets", nargs="+", metavar="TARGET", help="mechanisms, as MODULE:NAME or FILE.py:NAME"
    )
    watch.add_argument(
        "--store",
        metavar="FILE",
        required=True,
        help="file that keeps the slices; keep it between calls",
    )
    watch.add_argument("--claim", help="claim of all targets; default: the claim of each")
    watch.add_argument(
        "--d0",
        metavar="JSON",
        help="a dataset, for all targets; default: pairs of each target's domain",
    )
    watch.add_argument("--d1", metavar="JSON", help="a neighboring dataset")
    watch.add_argument("--relation", metavar="R", help="relation of the datasets")
    watch.set_defaults(distance=None)
    common.confidence(watch, "all targets together: 1 - confidence is the false discovery rate")
    common.time_limit(watch)
    common.interpreter(watch)
    watch.add_argument(
        "--seconds",
        type=common.SECONDS,
        default=30.0,
        metavar="S",
        help="wall time of this call over all targets; default 30",
    )
    watch.add_argument(
        "--trials", type=common.TRIALS, metavar="N", help="most runs of each target in this call"
    )
    common.accepting(watch)
    common.reporting(watch)


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness watch``: print one line per target, and return the exit code."""
    from dpwitness.auditors.audit.watch import WatchedTarget, watch
    from dpwitness.auditors.witnesses.store import open_store
    from dpwitness.option_values.datasets import claim_of, pair_of
    from dpwitness.option_values.targets import load

    known = common.prepare(args)
    found = []
    for text in dict.fromkeys(args.targets):
        mechanism, name, target = load(text, {}, args.python, args.time_limit, args.memory)
        claim, pair = claim_of(args, mechanism), pair_of(args.d0, args.d1, args.relation, mechanism)
        found.append(
            WatchedTarget(mechanism, text if len(args.targets) > 1 else name, claim, pair, target)
        )
    try:
        with open_store(args.store) as store, redirected_stdout():
            options = {
                "seconds": args.seconds,
                "trials": args.trials,
                "confidence": args.confidence,
                "time_limit": args.time_limit,
            }
            watched = watch(found, store, announce=announce, **options)
    finally:
        for each in found:
            getattr(each.mechanism, "close", lambda: None)()
    return _report(args, watched, known or ())


def _report(args: argparse.Namespace, watched: Sequence[Watched], known: Sequence[Accepted]) -> int:
    """Write the report, print one line per target, and return the exit code of the worst target
    that is not accepted.
    """
    from dpwitness.reports.audit.document import result_json
    from dpwitness.reports.comparison.accepted import apply_accepted

    acceptance, write_failed = (
        apply_accepted([result_json(each.result) for each in watched], known),
        False,
    )
    common.announce_stale_baseline(acceptance.stale)
    if args.report is not None:
        from dpwitness.reports.audit.report import write_report

        command = common.command_line()
        _, write_failed = try_to_write(
            "report",
            lambda: write_report(acceptance.results, args.report, title="Watch", command=command),
        )
    write_failed |= common.append_step_summary(args, acceptance.results, "Watch")
    if args.json:
        common.print_json(acceptance.results)
    else:
        width = name_width(each.name for each in watched)
        for each in watched:
            show(
                mark_verdict(
                    plain(replace(each, name=name_cell(each.name, width)).line(width)), at=width + 2
                )
            )
    codes = {
        common.code_after_acceptance(common.exit_code(each.result), data)
        for each, data in zip(watched, acceptance.results, strict=True)
    }
    return code_after_write(
        next((code for code in (VIOLATED, NO_VERDICT) if code in codes), OK), write_failed
    )
