"""Hypothesis strategies for neighbouring pairs on a lattice: few records, coordinates in quarters, multiplicities that are powers of ten.

Hypothesis climbs the score by `target` and shrinks what it finds, so that the pair reported is a simple one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings, target

from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.terms.pairs import Pair


class _Found(Exception):
    """Hypothesis shrinks what raises."""


def simplest(
    domain: Domain, score: Callable[[Pair], float], above: float, *, examples: int, seconds: float, random_seed: int
) -> tuple[Pair | None, float]:
    """The simplest lattice pair whose score exceeds `above`, or None and the highest score seen."""
    pairs = domain.lattice()
    if pairs is None:
        return None, -math.inf
    best: list[tuple[Pair, float]] = []
    highest = -math.inf
    deadline = time.monotonic() + seconds

    @seed(random_seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.target, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(pairs)
    def attempt(pair: Pair) -> None:
        nonlocal highest
        if time.monotonic() > deadline:  # the time is up: let the rest pass unscored
            return
        value = score(pair)
        highest = max(highest, value)
        if math.isfinite(value):
            target(value)
        if value > above:
            best[:] = [(pair, value)]
            raise _Found

    try:
        attempt()
    except _Found:
        pass
    except BaseExceptionGroup as group:
        if not all(isinstance(error, _Found) for error in group.exceptions):
            raise
    except Exception as error:
        # Past the deadline a failing example stops failing, which Hypothesis reports as flaky; what was found stands.
        if type(error).__name__ not in ("Flaky", "FlakyFailure", "FlakyReplay") or not best:
            raise
    return best[0] if best else (None, highest)
