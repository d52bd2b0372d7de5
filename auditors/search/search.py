"""Search for the neighboring pairs on which a mechanism leaks most, given its domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpwitness.auditors.density.search import worst_output
from dpwitness.auditors.search.catalogue import pairs_for, require_domain
from dpwitness.auditors.search.exploration import explore
from dpwitness.auditors.search.scores import LossScore, PilotScore, ProfileScore
from dpwitness.core.claims import Claim, promised
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.protocols.capabilities import has_capability
from dpwitness.core.protocols.mechanism import FloatArray, WhiteBox
from dpwitness.core.values.validation import require_callable, require_integer, require_positive


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
    require_positive("seconds", seconds, "search")
    evaluations, keep = (
        require_integer("evaluations", evaluations, "search", most=10**12),
        require_integer("keep", keep, "search"),
    )
    seed = require_integer("seed", seed, "search", least=0)
    pure = claim.is_pure
    black_box = not has_capability(mechanism, WhiteBox)
    if score is not None or black_box or not pure:
        given = score or (PilotScore if black_box else ProfileScore)(mechanism, claim, seed)
        found = explore(
            domain,
            lambda pair, _: (given(pair), None),
            evaluations=evaluations,
            seconds=seconds,
            seed=seed,
            max_candidates=keep,
        )
        return [(c.pair, c.value) for c in found.candidates]
    loss = LossScore(mechanism, pairs_for(domain), seed)

    def settle(
        pair: Pair, output: FloatArray | None, thorough: bool = True
    ) -> tuple[float, FloatArray | None]:
        starts = None if output is None else output[None, :]
        worst = worst_output(
            mechanism,
            pair,
            seed=seed,
            starts=starts,
            samples=128 if thorough else 16,
            thorough=thorough,
        )
        return worst.loss, worst.output

    found = explore(
        domain,
        loss,
        extra=loss.width,
        settle=settle,
        evaluations=evaluations,
        seconds=seconds,
        seed=seed,
        max_candidates=keep,
        stop=math.inf,
    )
    return [(c.pair, c.value) for c in found.candidates]
