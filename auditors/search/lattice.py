"""Search with Hypothesis over neighboring pairs on a lattice.

Lattice pairs have few records, coordinates in quarters, and multiplicities that are powers of
ten. Hypothesis raises the score by `target` and shrinks its best example, so that the reported
pair is simple.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings, target

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain


class _ThresholdExceeded(Exception):
    """Raised at a pair whose score exceeds the threshold: Hypothesis shrinks examples
    that raise.
    """


def search_lattice(
    domain: Domain,
    score: Callable[[Pair], float],
    above: float,
    *,
    examples: int,
    seconds: float,
    random_seed: int,
) -> tuple[Pair | None, float]:
    """Return the simplest lattice pair whose score exceeds `above`, or None, with the highest score
    seen.
    """
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
        if time.monotonic() > deadline:  # let the remaining examples pass without a score
            return
        value = score(pair)
        highest = max(highest, value)
        if math.isfinite(value):
            target(value)
        if value > above:
            best[:] = [(pair, value)]
            raise _ThresholdExceeded

    try:
        attempt()
    except _ThresholdExceeded:
        pass
    except BaseExceptionGroup as group:
        if not all(isinstance(error, _ThresholdExceeded) for error in group.exceptions):
            raise
    except Exception as error:
        # Past the deadline a failing example no longer fails, and Hypothesis reports it as flaky.
        # The pair remains valid.
        if type(error).__name__ not in ("Flaky", "FlakyFailure", "FlakyReplay") or not best:
            raise
    return best[0] if best else (None, highest)
