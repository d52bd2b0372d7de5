"""Make a witness simple: fewer common records, fewer digits, rounder multiplicities, as long as it loses next to nothing.

What is simple is looked for inside the domain: where zero or the shorter number lies outside, the nearest that lies inside stands for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.terms.pairs import Pair


def simplified(domain: Domain, pair: Pair, score: Callable[[Pair], float], least: float, *, seconds: float) -> Pair:
    """The simplest pair of the domain on the way from `pair` whose score stays at `least` or above."""
    deadline = time.monotonic() + seconds
    moved = True
    while moved:
        moved = False
        seen = 0
        while time.monotonic() < deadline:
            candidate = next(_skip(domain.simpler(pair), seen), None)
            if candidate is None:
                break
            if score(candidate) >= least:
                pair, moved, seen = candidate, True, 0
            else:
                seen += 1
    return pair


def _skip(candidates: Iterator[Pair], count: int) -> Iterator[Pair]:
    for i, candidate in enumerate(candidates):
        if i >= count:
            yield candidate
