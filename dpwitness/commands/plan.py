"""``dpwitness plan``: runs needed to detect a violation, violations detectable with given runs, and
the time needed.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext

import dpwitness as dpw
from dpwitness.auditors.canaries.ideal_limit import canary_limit
from dpwitness.commands.common import print_json
from dpwitness.commands.inputs import claim_of, dataset, keywords, pair_of
from dpwitness.commands.loading import load, workers
from dpwitness.console import announce
from dpwitness.core.claims import parse_claim, promised
from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.phrasing.wording import plain
from dpwitness.terminal import NO_VERDICT, OK, redirected_stdout


def plan(args: argparse.Namespace) -> int:
    """Run ``dpwitness plan`` and return the exit code."""
    if args.canaries is not None:
        return _plan_canaries(args)
    if args.runs is not None:
        raise InvalidArgument("--runs needs --canaries")
    mechanism, name, pair = None, None, None
    if args.target is None:
        for option in ("d0", "d1", "kwargs", "relation", "python"):
            if getattr(args, option) is not None:
                raise InvalidArgument(f"--{option} needs a target MODULE:NAME")
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
            workers(args, mechanism) if mechanism is not None else nullcontext() as executor,
            redirected_stdout(),
        ):
            found = dpw.plan(
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
    for option in ("target", "find", "trials", "shape"):
        if getattr(args, option) is not None:
            raise InvalidArgument(
                f"{'TARGET' if option == 'target' else f'--{option}'} cannot be combined with "
                "--canaries, which plans an audit of private training"
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
