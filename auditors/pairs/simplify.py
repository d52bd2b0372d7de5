"""Simplification of a witness pair: fewer common records, fewer digits, rounder multiplicities, nearly the same score.

Simpler pairs stay inside the domain. Where zero or a shorter number lies outside, the nearest
value inside is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice

from dpwitness.mechanisms.data.pairs import Pair
from dpwitness.mechanisms.domains import Domain


def simplify_pair(domain: Domain, pair: Pair, score: Callable[[Pair], float], least: float, *, seconds: float) -> Pair:
    """Return the simplest pair reached from `pair` by steps inside the domain whose score stays at least `least`."""
    deadline = time.monotonic() + seconds
    improved = True
    while improved:
        improved = False
        rejected = 0
        while time.monotonic() < deadline:
            candidate = next(islice(domain.simpler(pair), rejected, None), None)
            if candidate is None:
                break
            if score(candidate) >= least:
                pair, improved, rejected = candidate, True, 0
            else:
                rejected += 1
    return pair
