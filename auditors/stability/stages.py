"""Stages of a search: a fast sweep of adversarial datasets, random walks, then Hypothesis, driven by `target` to larger ratios."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import seed as seeded
from hypothesis import strategies as st

from dpwitness.auditors.stability.inputs.neighbors import Neighborhood
from dpwitness.auditors.stability.inputs.spaces import InputSpace
from dpwitness.auditors.stability.search import Search, sweep, walks

_SWEEP, _WALKS = 0.6, 0.8  # shares of the time at which the sweep and the random walks end
_FIRST = 1500  # adversarial groups before random walks take turns with them
_ROWS = 12  # largest number of different rows of a generated dataset


def run_search(space: InputSpace, neighborhood: Neighborhood, search: Search, inputs: Sequence[Any], seconds: float, seed: int) -> None:
    """Run the three stages of a search, each with its share of the time."""
    start, rng = time.monotonic(), random.Random(seed)
    swept, walked = sweep(space, neighborhood, inputs), walks(space, neighborhood, search, rng)
    search.run(islice(swept, _FIRST), start + _SWEEP * seconds)
    search.run(chain.from_iterable(zip(swept, walked, strict=False)), start + _SWEEP * seconds)
    search.run(walked, start + _WALKS * seconds)
    if not search.done:
        run_generated(space, neighborhood, search, seed)


def run_generated(space: InputSpace, neighborhood: Neighborhood, search: Search, seed: int) -> None:
    """Test generated groups until a violation is found or the time is over."""
    bases: Any = st.lists(space.row_strategy(), max_size=_ROWS)
    if space.size is not None:
        size = space.size
        distinct = st.lists(space.row_strategy(), min_size=min(size, 1), max_size=min(size, _ROWS))
        bases = distinct.map(lambda rows: [rows[i % len(rows)] for i in range(size)])

    @seeded(seed)
    @settings(
        max_examples=10**6,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.target),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(bases, st.integers(0, 2**32 - 1))
    def attempt(rows: list[object], steps: int) -> None:
        if search.done:
            raise _Finished
        group = neighborhood.walk(rows, random.Random(steps))
        if group is None:
            return
        search.test([group])
        if math.isfinite(search.last):
            target(search.last)

    try:
        attempt()
    except _Finished:
        pass
    except Exception as error:
        if not search.done or type(error).__name__ not in ("Flaky", "FlakyFailure", "FlakyReplay", "ExceptionGroup"):
            raise


class _Finished(BaseException):
    """Raised to end the generation."""
