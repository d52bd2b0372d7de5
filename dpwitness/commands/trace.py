"""``dpwitness trace``: replay the noise of one dataset on its neighbor, compare all values, and
confirm differences by an audit.
"""

from __future__ import annotations

import argparse

from dpwitness.commands import common
from dpwitness.console import bar
from dpwitness.exit_codes import redirected_stdout
from dpwitness.option_values.numbers import integer


def arguments(command: common.Command) -> None:
    """Add the command and its options to the parser."""
    trace = command(
        "trace",
        "record the noise of a run, replay it on the neighboring dataset, and compare all values",
    )
    common.subject(trace, optional=True)
    common.program(trace)
    trace.add_argument(
        "--primitives",
        metavar="JSON",
        help='noise primitives, besides the known ones: {"mine.noise": {"law": "laplace", '
        '"input": "value", "scale": "s / epsilon"}}; '
        "a target file may declare them as the attribute `primitives` of a target, or as "
        "PRIMITIVES",
    )
    trace.add_argument(
        "--pairs",
        type=integer("pairs", 1, 10**6),
        metavar="N",
        help="number of pairs, two runs each; more than 8 include searched pairs",
    )
    trace.add_argument(
        "--no-confirm",
        action="store_true",
        help="do not confirm findings by an audit; the verdict is then never VIOLATED",
    )
    common.confidence(trace, "that audit")
    common.time_limit(trace, "one run", 60.0)
    trace.add_argument(
        "--in-process", action="store_true", help="run the mechanism in this process"
    )
    common.accepting(trace)
    common.interpreter(trace)
    common.running(trace)
    common.detail(trace)


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness trace`` and return the exit code."""
    from dpwitness.auditors.traces.trace import trace
    from dpwitness.core.values.validation import InvalidArgument
    from dpwitness.option_values.datasets import claim_of, keywords, pair_of
    from dpwitness.option_values.targets import load_mechanism, workers

    known = common.prepare(args)
    if args.no_confirm and args.trials is not None:
        raise InvalidArgument("--trials is for the confirming audit, which --no-confirm leaves out")
    if args.program is not None:
        raise InvalidArgument(
            "the noise of a program cannot be recorded, only that of Python functions: try "
            "`dpwitness audit --command`"
        )
    mechanism, name, target = load_mechanism(args, in_process=args.in_process)
    pair = pair_of(args.d0, args.d1, args.relation, mechanism)
    primitives = keywords(args.primitives, "--primitives") if args.primitives else None
    with workers(args, mechanism) as executor, bar() as progress, redirected_stdout():
        result = trace(
            mechanism,
            pair,
            claim_of(args, mechanism),
            primitives,
            pairs=args.pairs,
            confirm=not args.no_confirm,
            trials=args.trials,
            confidence=args.confidence,
            seed=args.seed or 0,
            time_limit=args.time_limit,
            executor=executor,
            name=name,
            progress=progress,
            target=target,
        )
    return common.report_results(args, [result], title=f"Trace of {name}", known=known)
