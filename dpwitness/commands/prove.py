"""``dpwitness prove``: prove the privacy promise of a loop program from its text, or look for a violation."""

from __future__ import annotations

import argparse

from dpwitness.commands.common import SECONDS, SEED, Command, confidence, print_json
from dpwitness.exit_codes import NO_VERDICT, OK, VIOLATED, redirected_stdout, show
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.option_values.numbers import integer
from dpwitness.reports.phrasing.wording import plain


def arguments(command: Command) -> None:
    """Add the command and its options to the parser."""
    prove = command("prove", "prove that a loop program with Laplace or exponential noise is private, from its text, or find a violation")
    prove.add_argument("target", metavar="FILE.py:NAME", help="a function with the decorator dpwitness.proofs_checks.provable")
    prove.add_argument("--seconds", type=SECONDS, default=60.0, metavar="S", help="time limit of the search for a proof; default 60")
    help_text = "runs of the audit where no proof is found, 0 for none; default 100000"
    prove.add_argument("--trials", type=integer("trials", 0, 10**12), default=100_000, metavar="N", help=help_text)
    confidence(prove, "that audit")
    prove.add_argument("--seed", type=SEED, default=0, metavar="S", help="root of all randomness; default 0")
    prove.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness prove`` and return the exit code."""
    from dpwitness.auditors.results.verdicts import Verdict
    from dpwitness.option_values.user_code import load_object
    from dpwitness.proofs_checks import prove
    from dpwitness.proofs_checks.engine.ledger import MissingPackage

    function = load_object("", args.target, build=False)
    try:
        with redirected_stdout():
            found = prove(function, seconds=args.seconds, trials=args.trials, confidence=args.confidence, seed=args.seed)
    except MissingPackage as error:
        raise InvalidArgument(str(error)) from None
    if args.json:
        print_json(found.to_json())
    else:
        show(plain(f"{found.name}\n" + "\n".join(found.lines())))
    return {Verdict.CERTIFIED: OK, Verdict.VIOLATED: VIOLATED}.get(found.verdict, NO_VERDICT)
