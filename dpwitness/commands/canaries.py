"""``dpwitness canaries``: audit a claim of private training from a file of canary scores."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpwitness.commands import options as opts
from dpwitness.commands.common import prepare, report_results
from dpwitness.option_values.parsers import integer, real
from dpwitness.terminal import redirected_stdout


def arguments(command: opts.Command) -> None:
    """Add the command and its options to the parser."""
    canaries = command(
        "canaries",
        "audit private training from scores of canaries, which fair coins included in the "
        "training data or left out",
    )
    opts.add_options(
        canaries,
        {
            "file": {
                "metavar": "FILE",
                "help": "scores: .npz with arrays scores_in and scores_out; or .npz, .csv or "
                ".parquet with columns score and included, and optionally run, id, group",
            },
            "--claim": {
                "required": True,
                "help": "pure:EPS, approx:EPS,DELTA, gdp:MU, fdp:FILE or "
                "dpsgd:SAMPLING,NOISE,STEPS",
            },
            "--method": {
                "choices": ("best", "counting", "curve"),
                "default": "best",
                "help": "theorem; default best",
            },
            "--guesses": {
                "type": integer("guesses", 1, 10**9),
                "metavar": "R",
                "help": "number of guesses, fixed before the scores were seen; default: chosen "
                "from the scores, with a correction of the bound",
            },
            "--delta": {
                "type": real("delta", 0.0, 1.0, ends="()"),
                "default": 1e-5,
                "metavar": "D",
                "help": "delta at which a bound on a trade-off curve is converted to an epsilon; "
                "default 1e-5",
            },
            **opts.confidence("the verdict", 0.95),
            "--name": {"help": "name of the training in the report; default: the file name"},
            **opts.seed("seed that chooses the revealed coins and breaks ties of scores", 0),
            **opts.REPORTING,
            **opts.BASELINE,
            **opts.DETAIL,
        },
    )


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness canaries`` and return the exit code."""
    from dpwitness.auditors.canaries.audit import audit_canaries
    from dpwitness.auditors.canaries.inputs import read_score_file

    known = prepare(args)
    name = args.name or Path(args.file).name
    options = {
        key: getattr(args, key) for key in ("confidence", "seed", "delta", "method", "guesses")
    }
    with redirected_stdout():
        result = audit_canaries(
            **read_score_file(args.file), claim=args.claim, name=name, **options
        )
    return report_results(args, [result], title=f"Canaries of {name}", known=known)
