"""Where `dpwitness audit` looks, the given pair or those that a search finds, and how: by running, by the law of the loss, or both."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpwitness.console import announce
from dpwitness.mechanisms.validation import InvalidArgument
from dpwitness.numbers import real

if TYPE_CHECKING:
    from dpwitness.auditors.audit import Progress
    from dpwitness.auditors.certify_result import CertifyResult
    from dpwitness.auditors.result import AuditResult
    from dpwitness.mechanisms.notions import Claim
    from dpwitness.mechanisms.pairs import Pair

__all__ = ["arguments", "examine"]

SEARCH_SECONDS = 30.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """``--white-box`` and ``--search``."""
    parser.add_argument(
        "--white-box", action="store_true", help="enclose the exact privacy loss from the output density, instead of running the mechanism"
    )
    parser.add_argument(
        "--search", action="store_true", help="search the domain for the worst pair, then audit it on fresh runs; with --white-box both"
    )
    parser.add_argument("--search-seconds", type=real("search seconds", 0.0, 1e6), metavar="S", help="that the search may take; default 30")


def examine(
    mechanism: Any,
    pair: Pair | None,
    args: argparse.Namespace,
    *,
    name: str,
    executor: Any,
    progress: Progress | None,
    target: Any,
    scores: Any = None,
) -> list[AuditResult | CertifyResult]:
    """The results that were asked for: the enclosure first, where there is one."""
    from dpwitness.auditors.audit import audit
    from dpwitness.auditors.white_box import certify
    from dpwitness.mechanisms.notions import promised

    if args.white_box and not hasattr(mechanism, "log_density"):
        raise InvalidArgument(f"--white-box needs a mechanism with log_density, {name} has none")
    if args.search_seconds is not None and not args.search:
        raise InvalidArgument("--search-seconds needs --search")
    if args.search and pair is not None:
        raise InvalidArgument("--search looks for the pair itself: leave out --d0 and --d1")
    if args.white_box and not args.search and args.seconds is not None:
        raise InvalidArgument("--seconds is for audits that run the mechanism: with --white-box give --trials")
    if args.white_box and not args.search and args.scores:
        raise InvalidArgument("--scores is for audits that run the mechanism: leave out --white-box")
    seed, pairs, near = args.seed or 0, [pair] if pair else [], None
    notes: tuple[str, ...] = ()
    if args.search:
        claim = promised(mechanism, args.claim, "audit")
        pairs, near, notes = _found(mechanism, claim, args.search_seconds or SEARCH_SECONDS, seed, name)
    results: list[AuditResult | CertifyResult] = []
    common: dict[str, Any] = {"claim": args.claim, "confidence": args.confidence, "seed": seed, "name": name, "target": target}
    if args.white_box:
        enclosed = certify(mechanism, pairs[0] if pairs else None, trials=args.trials or 100_000, **common)
        results.append(replace(enclosed, notes=(*enclosed.notes, *notes)))
    if args.search or not args.white_box:
        options = {"stop": args.stop, "time_limit": args.time_limit, "executor": executor, "progress": progress, "near": near}
        budget = {"trials": args.trials, "seconds": args.seconds, "announce": announce, "scores": scores or None}
        result = audit(mechanism, pair=pairs or None, **budget, **common, **options)
        results.append(replace(result, notes=(*result.notes, *notes)))
    return results


def _found(mechanism: Any, claim: Claim, seconds: float, seed: int, name: str) -> tuple[list[Pair], Any, tuple[str, ...]]:
    """The worst pairs of the domain, best first; an output near which one of them betrays itself; and a note on it."""
    from dpwitness.auditors.loss_search import worst_output
    from dpwitness.auditors.pairs.search import search
    from dpwitness.mechanisms.notions import ApproxDP

    domain = getattr(mechanism, "domain", None)
    if domain is None:
        raise InvalidArgument(f"--search needs a mechanism with a domain, {name} has none")
    found = search(mechanism, domain, claim, seconds=seconds, seed=seed)
    if not found:
        raise InvalidArgument(f"--search: no pair of the domain of {name} could be evaluated")
    (pair, value), near = found[0], None
    exact = hasattr(mechanism, "log_density")
    told = f"{claim.symbol} = {value:.4g} estimated from a few runs"
    if exact and isinstance(claim, ApproxDP) and claim.delta_budget == 0:
        worst = worst_output(mechanism, pair, seed=seed)
        told = worst.describe()
        near = worst.output if math.isinf(worst.loss) and worst.ray is None else None
    return [pair for pair, _ in found], near, (f"pair found by a search of the domain: {told}",)
