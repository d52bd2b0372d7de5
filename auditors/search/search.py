"""Search for the neighboring pairs on which a mechanism leaks most, given its domain."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dpwitness.auditors.density.pair_search import worst_pairs
from dpwitness.auditors.events.learning import expected_certificate
from dpwitness.auditors.events.outputs import WrongShape
from dpwitness.auditors.search.catalogue import require_domain, require_settings
from dpwitness.auditors.search.explore import explore
from dpwitness.auditors.workers.rounds import run_side, stream
from dpwitness.core.claims import Claim, promised
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_callable,
    require_integer,
    require_that,
)


def pilot_score(mechanism: Any, claim: Claim, seed: int, pair: Pair) -> float:
    """Return the parameter that an event learned on a few runs is expected to certify, a cautious
    estimate that is not a bound. All pairs use the same randomness. Raise InvalidArgument if the
    mechanism does not return one output per run.
    """
    run = getattr(mechanism, "sample", mechanism)
    require_that(
        callable(run),
        "mechanism must have log_density, or be callable as f(dataset, size, rng), got "
        f"{type(mechanism).__name__}",
        "search",
    )
    try:
        first, second = (
            run_side(run, d, 1000, stream(seed, i)) for i, d in enumerate((pair.d1, pair.d0))
        )
    except WrongShape as error:
        raise InvalidArgument(f"search: {error}") from None
    return expected_certificate(first, second, claim, alpha=0.01, rounds=10**6)


def search(
    mechanism: Any,
    domain: Domain,
    claim: Claim | str,
    *,
    score: Callable[[Pair], float] | None = None,
    evaluations: int = 20_000,
    seconds: float = 60.0,
    seed: int = 0,
    keep: int = 3,
) -> list[tuple[Pair, float]]:
    """Return the pairs of a domain on which a mechanism leaks most, best first, with their values.

    Parameters
    ----------
    mechanism : Mechanism
        With `log_density`, the value of a pair is its exact largest privacy loss (`worst_output`)
        for pure DP, and an estimate of the claim's parameter from samples for other notions.
        Without `log_density`, the value is the certificate that a pilot run is expected to give.
    domain : Domain
        The datasets and their neighboring relation. The search uses no other information about
        where to look.
    claim : Claim or str
        The claim whose parameter the pairs are to exceed.
    score : callable, optional
        ``score(pair) -> float``, used instead of the values above. Larger means a worse leak.
    evaluations, seconds : int, float
        Limits on the number of evaluations and on the duration in seconds; the first one ends the
        search. A search that ends by `evaluations` is reproducible from `seed`.
    seed : int
        Root seed of the search.
    keep : int
        Maximum number of returned pairs.

    Returns
    -------
    list of (Pair, float)
        Pairs with the values that rank them. The value for a pure claim and a density is a proved
        lower bound on epsilon: ``math.inf`` if the loss is unbounded.

    Raises
    ------
    InvalidArgument
        If the domain is empty or has no neighboring pairs, or the mechanism cannot be run.
    """
    require_domain(domain, "search")
    claim = promised(None, claim, "search").on(None)
    require_callable("score", score, "search", arguments=1, optional=True)
    keep = require_integer("keep", keep, "search")
    seed, evaluations = require_settings("search", seed, seconds, evaluations)
    limits: dict[str, Any] = {"evaluations": evaluations, "seconds": seconds, "seed": seed}
    if score is None and hasattr(mechanism, "log_density"):
        found = worst_pairs(mechanism, domain, claim, **limits, keep=keep)
    else:
        value = score or partial(pilot_score, mechanism, claim, seed)
        found = explore(
            domain, lambda pair, _: (value(pair), None), **limits, max_candidates=keep
        ).candidates
    return [(c.pair, c.value) for c in found]
