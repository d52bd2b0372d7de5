"""``dpwitness audit``: audit a given pair or searched pairs, from runs of the mechanism, from its
output density, or both.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpwitness.commands import common
from dpwitness.commands import options as opts
from dpwitness.console import announce, bar
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.option_values.parsers import real
from dpwitness.terminal import redirected_stdout

if TYPE_CHECKING:
    from dpwitness.auditors.audit.result import AuditResult
    from dpwitness.auditors.density.result import CertifyResult
    from dpwitness.core.claims import Claim
    from dpwitness.core.datasets.pairs import Pair

SEARCH_SECONDS = 30.0
_AUDIT: opts.Options = {
    **opts.SUBJECT,
    **opts.PROGRAM,
    **opts.DATABASE,
    **opts.confidence("the verdict"),
    "--stop": {
        "choices": ["gross", "violation", "never"],
        "help": "stop early at a violation far beyond the claim (gross, the default), at any "
        "violation (default with --sequential), or never",
    },
    "--sequential": {
        "action": "store_true",
        "help": "no planned number of runs: stop as soon as the question is settled, or after "
        "--seconds or --trials; always valid",
    },
    "--find": {
        "type": real("find", 1.0, 1e6),
        "metavar": "X",
        "help": "smallest violation that --sequential looks for, as a multiple of the claim; "
        "default 1.1",
    },
    "--scores": {
        "metavar": "FILE.py:NAME",
        "action": "append",
        "default": [],
        "help": "function that returns a number for each output, for use in events; it runs in "
        "this process; may be repeated",
    },
    "--bits": {
        "action": "store_true",
        "help": "let a violation in the low bits of floating-point outputs affect the exit code",
    },
    **opts.time_limit(),
    "--no-trace": {
        "action": "store_true",
        "help": "make no traced runs before the audit, which order the pairs, propose an event "
        "and explain the verdict",
    },
    "--no-causes": {
        "action": "store_true",
        "help": "end with the first violation: make no separate tests of exceptions, of repeated "
        "values and of all other outputs",
    },
    "--in-process": {
        "action": "store_true",
        "help": "run the mechanism in this process: faster, but a crash of the mechanism ends "
        "the audit; with --white-box or --search, a mechanism that has log_density runs in this "
        "process anyway",
    },
    **opts.INTERPRETER,
    "--white-box": {
        "action": "store_true",
        "help": "enclose the exact privacy loss from the output density, instead of running the "
        "mechanism",
    },
    "--search": {
        "action": "store_true",
        "help": "search the domain for the worst pair, or for the worst adversary of an "
        "interactive mechanism, then audit it on fresh runs",
    },
    "--search-seconds": {
        "type": real("search seconds", 0.0, 1e6),
        "metavar": "S",
        "help": "wall time of the search; default 30",
    },
    "--visible-errors": {
        "action": "store_true",
        "help": "for a transformation: count an error on one of two neighboring inputs as a "
        "violation, because errors are visible",
    },
    **opts.BASELINE,
    **opts.STORE,
    "--extend": {
        "type": opts.TRIALS,
        "metavar": "N",
        "help": "new total number of runs, larger than planned, for a finished audit in --store: "
        "its event is tested on additional rounds",
    },
    **opts.RUNNING,
    **opts.duration("the audit"),
    **opts.DETAIL,
}
_CERTIFY: opts.Options = {
    **opts.SUBJECT,
    "target": {key: value for key, value in opts.SUBJECT["target"].items() if key != "nargs"},
    **opts.confidence("sampled quantities"),
    **opts.time_limit(),
    **opts.BASELINE,
    **opts.RUNNING,
    **opts.DETAIL,
}


def arguments(command: opts.Command) -> None:
    """Add the commands ``audit`` and ``certify`` and their options to the parser."""
    audit = command("audit", "search for a violation of a privacy claim by running the mechanism")
    opts.add_options(audit, _AUDIT)
    certify = command(
        "certify",
        "enclose the exact privacy loss of a pair, from the output density (same as audit "
        "--white-box)",
    )
    opts.add_options(certify, _CERTIFY)
    certify.set_defaults(**vars(audit.parse_args([])) | {"white_box": True})


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness audit`` and return the exit code."""
    from dpwitness.option_values.datasets import domain_of, pair_of
    from dpwitness.option_values.targets import (
        audit_declared_target,
        declared_target,
        load_mechanism,
        workers,
    )
    from dpwitness.option_values.user_code import scores

    known = common.prepare(args)
    declared = declared_target(args)
    if declared is not None:
        with redirected_stdout():
            found = audit_declared_target(args, *declared)
        return common.report_results(args, found, title=f"Audit of {declared[0].name}", known=known)
    mechanism, name, target = load_mechanism(
        args, in_process=args.in_process, density=args.white_box or args.search
    )
    pair, score_functions, domain = (
        pair_of(args.d0, args.d1, args.relation, mechanism),
        scores(args.scores),
        domain_of(args.domain),
    )
    _check_combination(args, mechanism, name, pair)
    with workers(args, mechanism) as executor, bar() as progress, redirected_stdout():
        options = {
            "executor": executor,
            "progress": progress,
            "scores": score_functions or None,
            "domain": domain,
        }
        results = _run_audits(args, mechanism, name, target, pair, options)
    return common.report_results(
        args, results, title=f"Audit of {name}", bits=args.bits, known=known
    )


def _check_combination(
    args: argparse.Namespace, mechanism: Any, name: str, pair: Pair | None
) -> None:
    """Raise InvalidArgument for options that cannot be combined with each other or with the
    mechanism.
    """
    from dpwitness.core.protocols.capabilities import has_capability
    from dpwitness.core.protocols.mechanism import WhiteBox

    only_white_box = args.white_box and not args.search
    rules = {
        f"--white-box needs a mechanism with log_density, but {name} has none": args.white_box
        and not has_capability(mechanism, WhiteBox),
        "--sequential is for audits that run the mechanism: leave out --white-box": args.sequential
        and args.white_box,
        "--find needs --sequential": args.find is not None and not args.sequential,
        "--clock cpu is the clock of a time budget: add --seconds": args.clock != "wall"
        and args.seconds is None,
        "--search-seconds needs --search": args.search_seconds is not None and not args.search,
        "--store is for audits that run the mechanism on known pairs: leave out --search and "
        "--white-box": args.store is not None and (args.search or args.white_box),
        "--extend needs --store with the store of the audit to extend": args.extend is not None
        and args.store is None,
        "--search chooses the pair: leave out --d0 and --d1": args.search
        and pair is not None
        and not _has_queries(mechanism),
        "--seconds is for audits that run the mechanism: with --white-box give --trials": only_white_box  # noqa: E501
        and args.seconds is not None,
        "--scores is for audits that run the mechanism: leave out --white-box": only_white_box
        and args.scores,
        "--domain is for audits that run the mechanism: leave out --white-box": args.domain
        is not None
        and args.white_box,
    }
    for message, broken in rules.items():
        if broken:
            raise InvalidArgument(message)


def _run_audits(
    args: argparse.Namespace,
    mechanism: Any,
    name: str,
    target: Any,
    pair: Pair | None,
    options: dict[str, Any],
) -> list[AuditResult | CertifyResult]:
    """Run the requested audits and return their results; an enclosure of the privacy loss comes
    first.
    """
    from dpwitness.auditors.audit.audit import audit
    from dpwitness.core.claims import promised
    from dpwitness.option_values.datasets import claim_of

    seed, pairs, notes = args.seed or 0, [pair] if pair else [], tuple[str, ...]()
    if args.search and _has_queries(mechanism):
        mechanism, target, pairs, notes = _search_adversary(mechanism, target, pairs, args, seed)
    elif args.search:
        claim = promised(mechanism, claim_of(args, mechanism), "audit")
        pairs, options["near"], notes = _search_pairs(
            mechanism, options["domain"], claim, args.search_seconds or SEARCH_SECONDS, seed, name
        )
    results: list[AuditResult | CertifyResult] = []
    common_options = {
        "claim": claim_of(args, mechanism),
        "confidence": args.confidence,
        "seed": seed,
        "name": name,
        "target": target,
    }
    if args.white_box:
        from dpwitness.auditors.density.certify import certify  # loads FLINT and Hypothesis

        results.append(
            certify(
                mechanism,
                pairs[0] if pairs else None,
                trials=args.trials or 100_000,
                **common_options,
            )
        )
    if args.search or not args.white_box:
        results.append(
            audit(
                mechanism,
                pair=pairs or None,
                trials=args.trials,
                seconds=args.seconds,
                clock=args.clock,
                announce=announce,
                stop=args.stop,
                time_limit=args.time_limit,
                store=args.store,
                extend_to=args.extend,
                sequential=args.sequential,
                find=args.find,
                trace=not args.no_trace,
                causes=not args.no_causes,
                **common_options,
                **options,
            )
        )
    return [replace(result, notes=(*result.notes, *notes)) for result in results]


def _has_queries(mechanism: Any) -> bool:
    """Return whether the mechanism is an interactive session with declared queries, so that an
    adversary can be searched for.
    """
    from dpwitness.mechanisms.wrappers.programs.target import Target

    queries = (
        mechanism.describe().get("queries")
        if isinstance(mechanism, Target)
        else getattr(mechanism, "queries", None)
    )
    return queries is not None


def _search_adversary(
    mechanism: Any, target: Any, pairs: list[Pair], args: argparse.Namespace, seed: int
) -> tuple[Any, Any, list[Pair], tuple[str, ...]]:
    """Return a session with its worst adversary, its location for the witness, the pair, and a
    note.
    """
    from dpwitness.auditors.search.adversaries import EVALUATIONS, find_adversary
    from dpwitness.auditors.workers.loading import FOREIGN, describe_target
    from dpwitness.option_values.datasets import claim_of

    seconds = args.search_seconds or SEARCH_SECONDS
    evaluations_limit = 10**6 if args.search_seconds else EVALUATIONS
    found = find_adversary(
        mechanism,
        pairs or None,
        claim_of(args, mechanism),
        seconds=seconds,
        evaluations=evaluations_limit,
        seed=seed,
    )
    location = describe_target(found.mechanism)
    if target["target"] != FOREIGN:
        location = target | {
            "kwargs": {**target.get("kwargs", {}), "adversary": found.adversary.to_dict()}
        }
    return found.mechanism, location, [found.pair], (found.describe(),)


def _search_pairs(
    mechanism: Any, domain: Any, claim: Claim, seconds: float, seed: int, name: str
) -> tuple[list[Pair], Any, tuple[str, ...]]:
    """Return the worst pairs of the domain, an output with infinite privacy loss if there is one,
    and a note.
    """
    from dpwitness.auditors.density.search import worst_output
    from dpwitness.auditors.search.search import search
    from dpwitness.core.protocols.capabilities import has_capability
    from dpwitness.core.protocols.mechanism import WhiteBox

    domain = getattr(mechanism, "domain", None) if domain is None else domain
    if domain is None:
        raise InvalidArgument(f"--search needs a mechanism with a domain, but {name} has none")
    found = search(mechanism, domain, claim, seconds=seconds, seed=seed)
    if not found:
        raise InvalidArgument(f"--search: no pair of the domain of {name} could be evaluated")
    (pair, value), near = found[0], None
    exact = has_capability(mechanism, WhiteBox)
    estimate = f"{claim.symbol} = {value:.4g} estimated from a few runs"
    if exact and claim.is_pure:
        worst = worst_output(mechanism, pair, seed=seed)
        estimate = worst.describe()
        near = worst.output if math.isinf(worst.loss) and worst.ray is None else None
    return [pair for pair, _ in found], near, (f"pair found by a search of the domain: {estimate}",)
