"""Hypothesis strategies for neighbouring pairs on a lattice: few records, coordinates in quarters, multiplicities that are powers of ten.

Hypothesis climbs the score by `target` and shrinks what it finds, so that the pair reported is a simple one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings, target
from hypothesis import strategies as st

from dpwitness.auditors.catalogue import between
from dpwitness.auditors.catalogue_labelled import build_labelled
from dpwitness.mechanisms.datasets import LinearCosts
from dpwitness.mechanisms.domains import Answers, Costs, Domain, LabelledBall, Records
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.protocol import FloatArray
from dpwitness.mechanisms.validation import InvalidArgument

__all__ = ["pairs_of", "simplest"]


_LISTED = 4096  # categories that are listed

LATTICES = (LabelledBall, Costs, Answers, Records)  # domains that have one


def pairs_of(domain: Domain) -> st.SearchStrategy[Pair]:
    """Neighbouring pairs of the domain that differ, simple ones first."""
    if isinstance(domain, LabelledBall):
        return _labelled(domain)
    if isinstance(domain, Costs):
        return _costs(domain)
    if isinstance(domain, Answers):
        return _answers(domain)
    if isinstance(domain, Records):
        return _records(domain)
    raise InvalidArgument(f"pairs_of: domain must be one that the search knows, got {type(domain).__name__}")


class _Found(Exception):
    """Hypothesis shrinks what raises."""


def simplest(
    domain: Domain, score: Callable[[Pair], float], above: float, *, examples: int, seconds: float, random_seed: int
) -> tuple[Pair | None, float]:
    """The simplest lattice pair whose score exceeds `above`, or None and the highest score seen."""
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
    @given(pairs_of(domain))
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


def _labelled(domain: LabelledBall) -> st.SearchStrategy[Pair]:
    d, others = domain.dimension, domain.size - 1
    labels = st.sampled_from(sorted(domain.labels, key=lambda y: (abs(y), -y)))
    entries = st.lists(st.integers(-4, 4), min_size=d, max_size=d)

    def point(quarters: list[int]) -> FloatArray:
        return domain.pulled(domain.radius * (np.array(quarters, dtype=float) / 4))

    @st.composite
    def pairs(draw: st.DrawFn) -> Pair | None:
        first, second = (point(draw(entries)), draw(labels)), (point(draw(entries)), draw(labels))
        common, left = [], others
        for _ in range(draw(st.integers(0, min(others, 2)))):
            if left < 1:
                break
            count = min(left, 10 ** draw(st.integers(0, math.floor(math.log10(left)))))
            small = 10.0 ** -draw(st.integers(0, 3))
            common.append((small * point(draw(entries)), draw(labels), count))
            left -= count
        return build_labelled(domain, first, second, common, "lattice")

    return _only(pairs())


def _only(pairs: st.SearchStrategy[Pair | None]) -> st.SearchStrategy[Pair]:
    """Without what is no pair of the domain."""
    return pairs.filter(lambda pair: pair is not None)  # type: ignore[return-value]


def _costs(domain: Costs) -> st.SearchStrategy[Pair]:
    corner = st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.5, -0.5]), min_size=domain.dimension, max_size=domain.dimension)

    @st.composite
    def pairs(draw: st.DrawFn) -> Pair | None:
        rounds = domain.length
        table = np.zeros((rounds, domain.dimension))
        place = draw(st.integers(0, rounds - 1))
        copies = draw(st.integers(0, rounds - 1))
        table[np.delete(np.arange(rounds), place)[:copies]] = domain.bound * np.array(draw(corner))
        first, second = table.copy(), table.copy()
        first[place], second[place] = domain.bound * np.array(draw(corner)), domain.bound * np.array(draw(corner))
        return domain.pair(LinearCosts(first), LinearCosts(second), "lattice")

    return _only(pairs())


def _answers(domain: Answers) -> st.SearchStrategy[Pair]:
    quarters = st.lists(st.integers(0, 4), min_size=domain.length, max_size=domain.length)
    steps = st.lists(st.integers(-1, 1), min_size=domain.length, max_size=domain.length).filter(any)

    def build(parts: tuple[list[int], list[int]]) -> Pair | None:
        step = np.array(parts[1], dtype=float)
        step /= {"linf": 1.0, "l1": np.abs(step).sum(), "l2": math.sqrt(step @ step)}[domain.relation]
        base = between(domain.low, domain.high, np.array(parts[0]) / 4)
        base = np.clip(base, domain.low + np.maximum(-step, 0), domain.high - np.maximum(step, 0))
        return domain.pair(base, np.clip(base + step, domain.low, domain.high), "lattice")

    return _only(st.tuples(quarters, steps).map(build))


def _records(domain: Records) -> st.SearchStrategy[Pair]:
    low, high = domain.ends
    value: st.SearchStrategy[float]
    if domain.categories and high - low < _LISTED:  # in an order that says nothing
        value = st.sampled_from((low + np.random.default_rng(0).permutation(int(high - low) + 1)).tolist())
    elif domain.integer:
        value = st.integers(int(low), int(high)).map(lambda whole: min(max(float(whole), low), high))
    else:
        value = st.integers(0, 4).map(lambda quarter: float(between(low, high, quarter / 4)))
    if domain.missing:
        value = value | st.just(math.nan)

    @st.composite
    def pairs(draw: st.DrawFn) -> Pair | None:
        first = np.full(domain.size, draw(value))
        start = draw(st.integers(0, domain.size))
        first[start:] = draw(value)
        place = draw(st.integers(0, domain.size - 1))
        if domain.relation == "add-remove":
            return domain.pair(first, np.delete(first, place), "lattice")
        second = first.copy()
        second[place] = draw(value)
        return domain.pair(first, second, "lattice")

    return _only(pairs())
