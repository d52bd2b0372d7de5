"""``dpwitness watch``: add a slice of runs to each target of a list, and report violations at a
false discovery rate.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpwitness.commands import common
from dpwitness.commands import options as opts
from dpwitness.console import announce
from dpwitness.reports.phrasing.wording import name_cell, name_width, plain
from dpwitness.terminal import code_after_write, mark_verdict, redirected_stdout, show

if TYPE_CHECKING:
    from dpwitness.auditors.audit.watch import Watched
    from dpwitness.reports.comparison.accepted import Accepted


def arguments(command: opts.Command) -> None:
    """Add the command and its options to the parser."""
    watch = command(
        "watch",
        "add a slice of runs to each target's sequential audit in a store, for CI and services",
    )
    opts.add_options(
        watch,
        {
            "targets": {
                "nargs": "+",
                "metavar": "TARGET",
                "help": "mechanisms, as MODULE:NAME or FILE.py:NAME",
            },
            "--store": {
                "metavar": "FILE",
                "required": True,
                "help": "file that keeps the slices; keep it between calls",
            },
            "--claim": {"help": "claim of all targets; default: the claim of each"},
            **opts.PAIR,
            **opts.confidence("all targets together: 1 - confidence is the false discovery rate"),
            **opts.time_limit(),
            **opts.INTERPRETER,
            "--seconds": {
                "type": opts.SECONDS,
                "default": 30.0,
                "metavar": "S",
                "help": "wall time of this call over all targets; default 30",
            },
            "--trials": {
                "type": opts.TRIALS,
                "metavar": "N",
                "help": "most runs of each target in this call",
            },
            **opts.BASELINE,
            **opts.REPORTING,
        },
    )
    watch.set_defaults(distance=None)


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
            watched = watch(
                found,
                store,
                announce=announce,
                seconds=args.seconds,
                trials=args.trials,
                confidence=args.confidence,
                time_limit=args.time_limit,
            )
    finally:
        for each in found:
            getattr(each.mechanism, "close", lambda: None)()
    return _report(args, watched, known or ())


def _report(args: argparse.Namespace, watched: Sequence[Watched], known: Sequence[Accepted]) -> int:
    """Print and report the state of each target; return the exit code."""
    from dpwitness.reports.audit.document import result_json
    from dpwitness.reports.comparison.accepted import apply_accepted

    results = [each.result for each in watched]
    acceptance = apply_accepted([result_json(result) for result in results], known)
    common.announce_stale_baseline(acceptance.stale)
    _, write_failed = common.write_outputs(args, acceptance.results, "Watch", results)
    if args.json:
        common.print_json(acceptance.results)
    else:
        width = name_width(each.name for each in watched)
        for each in watched:
            shown = replace(each, name=name_cell(each.name, width))
            show(mark_verdict(plain(shown.line(width)), at=width + 2))
    codes = [
        common.code_after_acceptance(common.exit_code(result), data)
        for result, data in zip(results, acceptance.results, strict=True)
    ]
    return code_after_write(common.worst(codes), write_failed)
