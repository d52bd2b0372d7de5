"""``dpwitness plan``: runs needed to detect a violation, violations detectable with given runs, and
the time needed.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from dpwitness.commands import options as opts
from dpwitness.commands.common import print_json
from dpwitness.console import announce
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.option_values.parsers import integer, real
from dpwitness.reports.phrasing.wording import plain
from dpwitness.terminal import NO_VERDICT, OK, redirected_stdout


def _parse_find(text: str) -> float | str:
    """Parse ``--find``: a number, or a percentage, which stays text until the claim is known."""
    number = real("find", 0.0, 1e6)
    return f"{number(text[:-1])}%" if text.endswith("%") else number(text)


_SHAPES = {
    "coin": "randomized response, which needs the fewest runs at its epsilon (default; a "
    "TARGET with a known law uses its own)",
    "laplace": "Laplace noise",
    "gaussian": "Gaussian noise",
}
_OPTIONS: opts.Options = {
    **opts.SUBJECT,
    "--find": {
        "type": _parse_find,
        "metavar": "X",
        "help": "parameter of the violation to find, in the claim's notion; 10%% means 10 %% above "
        "the claim",
    },
    "--trials": {
        "type": opts.TRIALS,
        "metavar": "N",
        "help": "number of runs, for which to compute what they find",
    },
    "--canaries": {
        "type": integer("canaries", 10, 10**7),
        "metavar": "M",
        "help": "plan an audit of private training: the best bound of M canaries per run",
    },
    "--runs": {
        "type": integer("runs", 1, 10**6),
        "metavar": "R",
        "help": "with --canaries: number of training runs; default 1",
    },
    "--power": {
        "type": real("power", 0.0, 1.0, ends="()"),
        "default": 0.9,
        "metavar": "P",
        "help": "probability of finding the violation; default 0.9",
    },
    **opts.confidence("the audit"),
    **opts.workers("workers of the audit: TARGET is timed on the same number"),
    **opts.time_limit(),
    **opts.IN_PROCESS,
    "--json": {"action": "store_true", "help": "print the plan as JSON"},
    **opts.INTERPRETER,
}


def arguments(command: opts.Command) -> None:
    """Add the command and its options to the parser."""
    plan = command(
        "plan", "estimate, before an audit, how many runs find a violation and how long they take"
    )
    shapes = {
        f"--{name}": {
            "group": "shape",
            "dest": "shape",
            "action": "store_const",
            "const": name,
            "help": f"the violation has the shape of {text}",
        }
        for name, text in _SHAPES.items()
    }
    opts.add_options(plan, _OPTIONS | shapes)


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness plan`` and return the exit code."""
    from dpwitness.auditors.audit.plan import plan
    from dpwitness.core.claims import parse_claim, promised
    from dpwitness.core.protocols.mechanism import MechanismFailed
    from dpwitness.option_values.datasets import claim_of, dataset, keywords, pair_of
    from dpwitness.option_values.targets import load
    from dpwitness.option_values.targets import workers as opened

    if args.canaries is not None:
        return _plan_canaries(args)
    if args.runs is not None:
        raise InvalidArgument("--runs needs --canaries")
    mechanism, name, pair = None, None, None
    if args.target is None:
        unused_options = {
            "--d0": args.d0,
            "--d1": args.d1,
            "--kwargs": args.kwargs,
            "--relation": args.relation,
            "--python": args.python,
        }
        if unexpected := [option for option, value in unused_options.items() if value is not None]:
            raise InvalidArgument(f"{unexpected[0]} needs a target MODULE:NAME")
    else:
        if args.claim is not None:
            parse_claim(args.claim)
        example = None if None in (args.d0, args.d1) else dataset("d0", args.d0)
        mechanism, name, _ = load(
            args.target,
            keywords(args.kwargs),
            args.python,
            args.time_limit,
            args.memory,
            in_process=args.in_process,
            density=True,
            form=args.form,
            dataset=example,
        )
        pair = pair_of(args.d0, args.d1, args.relation, mechanism)
    if isinstance(args.find, str):
        args.find = float(
            promised(mechanism, claim_of(args, mechanism), "plan").parameter
            * (1 + float(args.find[:-1]) / 100)
        )
    try:
        with (
            opened(args, mechanism) if mechanism is not None else nullcontext() as executor,
            redirected_stdout(),
        ):
            found = plan(
                claim_of(args, mechanism),
                mechanism=mechanism,
                pair=pair,
                executor=executor,
                name=name,
                find=args.find,
                trials=args.trials,
                shape=args.shape,
                power=args.power,
                confidence=args.confidence,
            )
    except MechanismFailed as error:
        announce(f"dpwitness plan: {error}")
        return NO_VERDICT
    if args.json:
        print_json(found.to_json())
    else:
        print(plain(str(found)))
    return NO_VERDICT if found.impossible else OK


def _plan_canaries(args: argparse.Namespace) -> int:
    """Print the best possible bound of a canary audit: by the theorem for the claim, and by the
    theorem for Gaussian curves.
    """
    from dpwitness.auditors.canaries.design import canary_limit
    from dpwitness.core.claims import parse_claim

    unused_options = {
        "TARGET": args.target,
        "--find": args.find,
        "--trials": args.trials,
        "--shape": args.shape,
    }
    if unexpected := [option for option, value in unused_options.items() if value is not None]:
        raise InvalidArgument(
            f"{unexpected[0]} cannot be combined with --canaries, which plans an audit of "
            "private training"
        )
    if args.claim is None:
        raise InvalidArgument("--canaries needs --claim, such as approx:EPS,DELTA or gdp:MU")
    claim = parse_claim(args.claim)
    methods = ("best", "curve") if claim.bounds_epsilon and not claim.is_pure else ("best",)
    found = [
        canary_limit(
            claim, args.canaries, args.runs or 1, confidence=args.confidence, method=method
        )
        for method in methods
    ]
    if args.json:
        print_json([limit.to_json() for limit in found])
        return OK
    names = ("(epsilon, delta)", "Gaussian curve") if len(found) > 1 else (str(claim),)
    print(
        "\n".join(f"{name}: {limit.headline()}" for name, limit in zip(names, found, strict=True))
    )
    print(
        f"\n  assumes  {found[0].assumed}, and that the best number of guesses is known in advance"
    )
    return OK
