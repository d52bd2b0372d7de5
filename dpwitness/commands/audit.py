"""Commands that audit mechanisms: ``audit`` and ``certify`` from runs or from the output density,
``trace`` from recorded noise, ``canaries`` from scores of a training, and ``watch`` by slices.
``plan`` estimates, before an audit, the runs and the time that it needs.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import dpwitness as dpw
from dpwitness import reports
from dpwitness.auditors.audit.watch import WatchedTarget
from dpwitness.auditors.audit.watch import watch as watch_targets
from dpwitness.auditors.canaries.inputs import read_score_file
from dpwitness.auditors.witnesses.store import open_store
from dpwitness.auditors.workers.descriptions import FOREIGN, describe_target
from dpwitness.commands import common
from dpwitness.commands.loading import (
    audit_declared_target,
    claim_of,
    declared_target,
    domain_of,
    keywords,
    load,
    load_mechanism,
    pair_of,
    scores,
    workers,
)
from dpwitness.core import InvalidArgument, Pair
from dpwitness.core.claims import parse_claim, promised
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.json_reader import printable
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.terminal import NO_VERDICT, OK, announce, bar, mark_verdict, redirected_stdout

_SEARCH_SECONDS = 30.0


def audit(args: argparse.Namespace) -> int:
    """Run ``dpwitness audit`` or ``dpwitness certify`` and return the exit code."""
    known = common.prepare(args)
    declared = declared_target(args)
    if declared is not None:
        with redirected_stdout():
            found = audit_declared_target(args, *declared)
        return common.report_results(args, found, title=f"Audit of {declared[0].name}", known=known)
    mechanism, name, target = load_mechanism(
        args, in_process=args.in_process, density=args.white_box or args.search
    )
    pair = pair_of(args.d0, args.d1, args.relation, mechanism)
    options: dict[str, Any] = {
        "scores": scores(args.scores) or None,
        "domain": domain_of(args.domain),
    }
    _check_combination(args, mechanism, name, pair)
    with workers(args, mechanism) as executor, bar() as progress, redirected_stdout():
        options |= {"executor": executor, "progress": progress}
        results = _run_audits(args, mechanism, name, target, pair, options)
    return common.report_results(
        args, results, title=f"Audit of {name}", bits=args.bits, known=known
    )


def _check_combination(
    args: argparse.Namespace, mechanism: Any, name: str, pair: Pair | None
) -> None:
    """Raise InvalidArgument for options that cannot be combined with the mechanism."""
    if args.white_box and not hasattr(mechanism, "log_density"):
        raise InvalidArgument(
            f"--white-box needs a mechanism with log_density, but {name} has none: leave out "
            "--white-box to audit it from its runs"
        )
    if args.white_box and not args.search and (args.seconds is not None or args.scores):
        raise InvalidArgument(
            "--seconds and --scores are for audits that run the mechanism: leave them out; the "
            "budget of --white-box is --trials"
        )
    if args.search and pair is not None and not _has_queries(mechanism):
        raise InvalidArgument("--search chooses the pair: leave out --d0 and --d1")


def _run_audits(
    args: argparse.Namespace,
    mechanism: Any,
    name: str,
    target: Any,
    pair: Pair | None,
    options: dict[str, Any],
) -> list[Any]:
    """Run the requested audits and return their results; an enclosure of the privacy loss comes
    first.
    """
    seed, pairs, notes = args.seed or 0, [pair] if pair else [], tuple[str, ...]()
    if args.search and _has_queries(mechanism):
        mechanism, target, pairs, notes = _search_adversary(mechanism, target, pairs, args, seed)
    elif args.search:
        pairs, notes = _search_pairs(args, mechanism, options["domain"], name)
    common_options = {
        "claim": claim_of(args, mechanism),
        "confidence": args.confidence,
        "seed": seed,
        "name": name,
        "target": target,
    }
    results: list[Any] = []
    if args.white_box:
        only, trials = pairs[0] if pairs else None, args.trials or 100_000
        results = [dpw.certify(mechanism, only, trials=trials, **common_options)]
    if args.search or not args.white_box:
        taken = ("trials", "seconds", "clock", "stop", "time_limit", "store", "sequential", "find")
        result = dpw.audit(
            mechanism,
            pair=pairs or None,
            announce=announce,
            extend_to=args.extend,
            trace=not args.no_trace,
            causes=not args.no_causes,
            **{key: getattr(args, key) for key in taken},
            **common_options,
            **options,
        )
        results.append(result)
    return [replace(result, notes=(*result.notes, *notes)) for result in results]


def _has_queries(mechanism: Any) -> bool:
    """Return whether the mechanism is an interactive session with declared queries, so that an
    adversary can be searched for.
    """
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

    found = find_adversary(
        mechanism,
        pairs or None,
        claim_of(args, mechanism),
        seconds=args.search_seconds or _SEARCH_SECONDS,
        evaluations=10**6 if args.search_seconds else EVALUATIONS,
        seed=seed,
    )
    location = describe_target(found.mechanism)
    if target["target"] != FOREIGN:
        location = target | {
            "kwargs": {**target.get("kwargs", {}), "adversary": found.adversary.to_dict()}
        }
    return found.mechanism, location, [found.pair], (found.describe(),)


def _search_pairs(
    args: argparse.Namespace, mechanism: Any, domain: Any, name: str
) -> tuple[list[Pair], tuple[str, ...]]:
    """Return the worst pairs of the domain, and a note."""
    from dpwitness.auditors.density.search import worst_output
    from dpwitness.auditors.search.search import search

    claim, seed = promised(mechanism, claim_of(args, mechanism), "audit"), args.seed or 0
    domain = getattr(mechanism, "domain", None) if domain is None else domain
    if domain is None:
        raise InvalidArgument(
            f"--search needs a mechanism with a domain, but {name} has none: add --domain"
        )
    seconds = args.search_seconds or _SEARCH_SECONDS
    found = search(mechanism, domain, claim, seconds=seconds, seed=seed)
    if not found:
        raise InvalidArgument(
            f"--search: {name} could not be run on any pair of its domain: check --domain, or give "
            "a pair with --d0 and --d1"
        )
    pair, value = found[0]
    estimate = f"{claim.symbol} = {value:.4g} estimated from a few runs"
    if claim.is_pure and hasattr(mechanism, "log_density"):
        estimate = worst_output(mechanism, pair, seed=seed).describe()
    return [pair for pair, _ in found], (f"pair found by a search of the domain: {estimate}",)


def trace(args: argparse.Namespace) -> int:
    """Run ``dpwitness trace`` and return the exit code."""
    known = common.prepare(args)
    if args.program is not None:
        raise InvalidArgument(
            "the noise of a program cannot be recorded, only that of Python functions: try "
            "`dpwitness audit --command`"
        )
    mechanism, name, target = load_mechanism(args, in_process=args.in_process)
    pair = pair_of(args.d0, args.d1, args.relation, mechanism)
    primitives = keywords(args.primitives, "--primitives") if args.primitives else None
    with workers(args, mechanism) as executor, bar() as progress, redirected_stdout():
        result = dpw.trace(
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


def canaries(args: argparse.Namespace) -> int:
    """Run ``dpwitness canaries`` and return the exit code."""
    known = common.prepare(args)
    name = args.name or printable(Path(args.file).name)
    keys = ("claim", "confidence", "seed", "delta", "method", "guesses")
    options = {key: getattr(args, key) for key in keys}
    with redirected_stdout():
        result = dpw.audit_canaries(**read_score_file(args.file), name=name, **options)
    return common.report_results(args, [result], title=f"Canaries of {name}", known=known)


def watch(args: argparse.Namespace) -> int:
    """Run ``dpwitness watch``: print one line per target, and return the exit code."""
    known = common.prepare(args)
    targets = []
    for text in dict.fromkeys(args.targets):
        mechanism, name, target = load(text, {}, args.python, args.time_limit, args.memory)
        claim, pair = claim_of(args, mechanism), pair_of(args.d0, args.d1, args.relation, mechanism)
        shown = text if len(args.targets) > 1 else name
        targets.append(WatchedTarget(mechanism, shown, claim, pair, target))
    try:
        with open_store(args.store) as store, redirected_stdout():
            watched = watch_targets(
                targets,
                store,
                announce=announce,
                seconds=args.seconds,
                trials=args.trials,
                confidence=args.confidence,
                time_limit=args.time_limit,
            )
    finally:
        for each in targets:
            getattr(each.mechanism, "close", lambda: None)()
    rows = [replace(each, name=reports.name_cell(each.name)) for each in watched]
    width = max(len(each.name) for each in rows)
    return common.report_results(
        args,
        [each.result for each in watched],
        title="Watch",
        known=known,
        lines=[mark_verdict(reports.plain(each.line(width)), at=width + 2) for each in rows],
    )


def plan(args: argparse.Namespace) -> int:
    """Run ``dpwitness plan`` and return the exit code."""
    if args.canaries is not None:
        return _plan_canaries(args)
    mechanism, name, pair = None, None, None
    if args.target is not None:
        mechanism, name, _ = load_mechanism(args, in_process=args.in_process, density=True)
        pair = pair_of(args.d0, args.d1, args.relation, mechanism)
    for option in args.given & {"d0", "d1", "kwargs", "relation", "python"}:
        if mechanism is None:
            raise InvalidArgument(f"--{option} needs a target MODULE:NAME")
    claim, find = claim_of(args, mechanism), args.find
    if isinstance(find, str):
        find = promised(mechanism, claim, "plan").parameter * (1 + float(find[:-1]) / 100)
    try:
        with workers(args, mechanism) as executor, redirected_stdout():
            found = dpw.plan(
                claim,
                mechanism=mechanism,
                pair=pair,
                executor=None if mechanism is None else executor,
                name=name,
                find=find,
                trials=args.trials,
                shape=args.shape,
                power=args.power,
                confidence=args.confidence,
            )
    except MechanismFailed as error:
        announce(f"dpwitness plan: {error}")
        return NO_VERDICT
    if args.json:
        common.print_json(found.to_json())
    else:
        print(reports.plain(str(found)))
    return NO_VERDICT if found.impossible else OK


def _plan_canaries(args: argparse.Namespace) -> int:
    """Print the best possible bound of a canary audit: by the theorem for the claim, and by the
    theorem for Gaussian curves.
    """
    claim = parse_claim(args.claim)
    names = {"best": str(claim)}
    if claim.bounds_epsilon and not claim.is_pure:
        names = {"best": "(epsilon, delta)", "curve": "Gaussian curve"}
    found = {
        name: dpw.canaries.canary_limit(
            claim, args.canaries, args.runs or 1, confidence=args.confidence, method=method
        )
        for method, name in names.items()
    }
    if args.json:
        common.print_json([limit.to_json() for limit in found.values()])
        return OK
    for name, limit in found.items():
        print(f"{name}: {limit.headline()}")
    print(f"\n  assumes  {limit.assumed}, and that the best number of guesses is known in advance")
    return OK
