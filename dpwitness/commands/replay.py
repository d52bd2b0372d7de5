"""``dpwitness replay``: test the event of a witness again with fresh randomness."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dpwitness.commands import claims
from dpwitness.commands import options as opts
from dpwitness.commands.common import report_results
from dpwitness.console import bar
from dpwitness.terminal import redirected_stdout


def arguments(command: opts.Command) -> None:
    """Add the command and its options to the parser."""
    replay = command("replay", "test the event of a witness again, with fresh randomness")
    opts.add_options(
        replay,
        {
            "witness": {"metavar": "WITNESS.json"},
            "--check": {
                "action": "store_true",
                "help": "run nothing: the kernel checks the file and prints what it verified "
                "(exit code 3: not checked)",
            },
            "--target": {
                "metavar": "FILE.py:NAME",
                "help": "run this target instead of the target that the witness names",
            },
            "--allow": {
                "metavar": "MODULE:NAME",
                "action": "append",
                "default": [],
                "help": "let the witness run this target, although it is outside the current "
                "folder; may be repeated",
            },
            **opts.confidence(
                "the verdict", None, ": that of the witness, but at least 0.99 (canaries: 0.95)"
            ),
            **opts.RUNNING,
            **opts.seed(
                "seed of an earlier replay, to repeat it exactly; default: drawn from the "
                "operating system, recorded, and shown with --verbose"
            ),
            **opts.DETAIL,
        },
    )


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness replay`` and return the exit code."""
    from dpwitness.auditors.witnesses.replay import prepare_replay, target_arguments
    from dpwitness.auditors.witnesses.witness_reader import check_seal, load_json
    from dpwitness.auditors.workers.rounds import fresh_seed
    from dpwitness.option_values.targets import load, workers
    from dpwitness.reports.audit.report import check_writable

    if args.check:
        from dpwitness.proofs_checks.kernel import checker

        return int(checker.main([args.witness]))
    raw, file = load_json(args.witness)
    if raw.get("kind") == "claim":
        check_seal(raw, file)
        args.seed = fresh_seed() if args.seed is None else args.seed
        return claims.replay(args, raw)
    if args.report is not None:
        check_writable(args.report)
    replacement = None
    if args.target is not None:
        replacement, _, _ = load(args.target, target_arguments(raw["target"]))
    prepared = prepare_replay(
        args.witness, mechanism=replacement, allow=args.allow, called=args.target or ""
    )
    args.source_changed = prepared.source_changed
    print(
        f"replays {prepared.describe()}", file=sys.stderr if args.json else sys.stdout, flush=True
    )
    with redirected_stdout():
        mechanism = prepared.load()
    with workers(args, mechanism) as executor, bar() as progress, redirected_stdout():
        result = prepared.run(
            mechanism,
            trials=args.trials,
            confidence=args.confidence,
            seed=args.seed,
            executor=executor,
            progress=progress,
        )
    return report_results(args, [result], title=f"Replay of {Path(args.witness).name}")
