"""``dpwitness trace``: replay the noise of one dataset on its neighbor, compare all values, and
confirm differences by an audit.
"""

from __future__ import annotations

import argparse

from dpwitness.commands import common
from dpwitness.commands import options as opts
from dpwitness.console import bar
from dpwitness.option_values.parsers import integer
from dpwitness.terminal import redirected_stdout


def arguments(command: opts.Command) -> None:
    """Add the command and its options to the parser."""
    trace = command(
        "trace",
        "record the noise of a run, replay it on the neighboring dataset, and compare all values",
    )
    opts.add_options(
        trace,
        {
            **opts.SUBJECT,
            **opts.PROGRAM,
            "--primitives": {
                "metavar": "JSON",
                "help": 'noise primitives, besides the known ones: {"mine.noise": {"law": '
                '"laplace", "input": "value", "scale": "s / epsilon"}}; a target file may '
                "declare them as the attribute `primitives` of a target, or as PRIMITIVES",
            },
            "--pairs": {
                "type": integer("pairs", 1, 10**6),
                "metavar": "N",
                "help": "number of pairs, two runs each; more than 8 include searched pairs",
            },
            "--no-confirm": {
                "action": "store_true",
                "help": "do not confirm findings by an audit; the verdict is then never VIOLATED",
            },
            **opts.confidence("that audit"),
            **opts.time_limit("one run", 60.0),
            **opts.IN_PROCESS,
            **opts.BASELINE,
            **opts.INTERPRETER,
            **opts.RUNNING,
            **opts.DETAIL,
        },
    )


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
