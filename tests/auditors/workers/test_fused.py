"""Rounds counted where they are drawn are those of outputs that are stored: bit for bit, and from
the same stream.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import SFC64, Generator

from dpwitness.auditors.events import kernels, rules
from dpwitness.auditors.events.features import (
    Affine,
    Distances,
    Levels,
    Products,
    ProjectedRamps,
    Ramps,
    SignedLog,
    Sorted,
    WhitenedDistances,
)
from dpwitness.auditors.events.rules import Intervals, Threshold, WeightedScore
from dpwitness.auditors.workers import chunks
from dpwitness.auditors.workers.chunks import counter
from dpwitness.auditors.workers.rounds import batch
from dpwitness.mechanisms.textbook.zoo import paper_zoo, zoo

PAPERS = (
    "logistic-output-gamma-d2",
    "glm-output-gaussian",
    "glm-output-laplace",
    "ridge-printed-p1",
    "ridge-repaired-p2",
    "ftrl-printed",
)
MINE = zoo() | {name: paper_zoo()[name].mechanism for name in PAPERS}
MINE |= {
    f"{name}-grid": replace(MINE[name], grid=2.0**-8)
    for name in ("logistic-output-gamma-d2", "ridge-repaired-p2")
}
NASTY = [
    math.nan,
    -math.nan,
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    5e-324,
    -1e-310,
    1.7e308,
    -1.7e308,
    1.0,
    -1.0,
    2.0,
    0.5,
    3.0,
    1 / 3,
    2.0**-30,
]
NO_STRUCTURE = 3.0


def both_ways(run, dataset, event, size, seed=1):
    """The counter's table and head, and what storing the outputs gives; the generators must be left
    alike.
    """
    rngs = [Generator(SFC64(seed)) for _ in range(2)]
    found, head = counter(run, dataset, event).count(size, rngs[0])
    stored = batch(run, dataset, size, rngs[1])
    assert rngs[0].bytes(16) == rngs[1].bytes(16)
    assert head.unsigned().values.tobytes() == stored.unsigned().values[:256].tobytes()
    assert head.codes.tolist() == stored.codes[:256].tolist()
    assert found.dtype == np.int64
    return found.tolist(), event.tabulate(stored).tolist()


@pytest.fixture(scope="module", autouse=True)
def _small_blocks():
    """Make blocks of 256 rows, so that tests of a thousand rows have several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_BLOCK_BYTES", 0)
        patch.setattr(kernels, "_BLOCK_ROWS", 256)
        yield


def middle(mechanism, dataset):
    """Intervals that cut between the quartiles of the last number."""
    rows = mechanism.sample(dataset, 500, np.random.default_rng(0))
    edges = np.unique(np.quantile(rows[:, -1], [0.0, 0.25, 0.5, 0.75]))
    edges = edges[edges < rows[:, -1].max()]
    return Intervals(
        rows.shape[1] - 1, edges, np.resize([1.0, -1.0, 0.0], len(edges) + 1), missing=-1
    )


@pytest.mark.parametrize("name", MINE)
def test_blocks_change_nothing(name):
    mechanism = MINE[name]
    dataset = mechanism.worst_pair().d1
    event = middle(mechanism, dataset)
    for size in (0, 1, 255, 256, 257, 1000):
        found, stored = both_ways(mechanism.sample, dataset, event, size, seed=size)
        assert found == stored and sum(found) == size
    assert np.count_nonzero(found) >= 2
    for side in (mechanism.worst_pair().d0, dataset):
        draws, rngs = mechanism.draws(side), [Generator(SFC64(3)) for _ in range(2)]
        # of 32 rows the coins are drawn together
        parts = np.concatenate([draws.sample(size, rngs[0]) for size in (32, 0, 64, 4)])
        assert parts.tobytes() == mechanism.sample(side, 100, rngs[1]).tobytes()


def check(event, values):
    """The kernel's counts are those of the guesses, for all rows at once and one at a time."""
    values = np.ascontiguousarray(values, dtype=np.float64)
    outputs = rules.Outputs(values, np.full(len(values), NO_STRUCTURE))
    guesses = event.guess(outputs)
    count, arguments = event.kernel(values.shape[1], NO_STRUCTURE)
    table = np.zeros(3, dtype=np.int64)
    count(*arguments, values, table)
    assert table.tolist() == [np.count_nonzero(guesses == g) for g in (0, 1, -1)]
    for i in range(min(len(values), 64)):
        table = np.zeros(3, dtype=np.int64)
        count(*arguments, values[i : i + 1], table)
        assert table[[0, 1, 2][guesses[i]]] == 1, (values[i], guesses[i])


def drawn(seed, size, width):
    """Rows of ordinary numbers, numbers on a lattice, and every nasty one."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(size, width))
    ties = rng.random((size, width))
    values = np.where(ties < 0.3, rng.integers(-2, 3, (size, width)), values)
    return np.where(ties > 0.8, rng.choice(NASTY, (size, width)), values)


seeds = st.integers(0, 2**32 - 1)
hypothesis = settings(max_examples=30, deadline=None, derandomize=True)


@hypothesis
@given(
    seeds,
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 3),
    st.sampled_from([1e-300, 1e-3, 1.0, 1e306, 1e308]),
)
def test_intervals(seed, edges, width, scale):
    rng = np.random.default_rng(seed)
    values = drawn(seed, 300, width)
    edges = np.unique(rng.choice([-1.0, 0.0, 1.0, 2.0, *(scale * rng.uniform(-1, 1, 300))], edges))
    values[:50, -1] = rng.choice(edges, 50)
    check(
        Intervals(
            width - 1, edges, rng.choice([-1.0, 0.0, 1.0], len(edges) + 1), int(rng.integers(-1, 2))
        ),
        values,
    )


def blocks_of(kind, rng, width):
    at = np.sort(rng.choice(width, int(rng.integers(1, width + 1)), replace=False)) + 1
    numbers = at, rng.normal(size=len(at)), rng.choice([1e-3, 1.0, 0.1, 1e3], len(at))
    n = len(at)
    if kind is Levels:
        keys = np.unique(
            rng.choice([0.0, 1.0, 2.0, np.inf, 1.7e308, -1.0], int(rng.integers(1, 6)))
        )
        return Levels(int(rng.integers(0, width + 1)), keys), len(keys)
    if kind is Ramps:
        knots = np.unique(
            rng.choice([-1e200, -2.0, -1.0, 0.0, 1e-150, 0.5, 1.0, 3.0], int(rng.integers(2, 7)))
        )
        knots = knots if len(knots) > 1 else np.array([0.0, 1.0])
        return Ramps(int(rng.integers(0, width + 1)), int(rng.integers(-1, width + 1)), knots), len(
            knots
        ) - 1
    if kind is Distances:
        return Distances(*numbers, rng.normal(size=n), rng.normal(size=n)), 3
    if kind is ProjectedRamps:
        return ProjectedRamps(*numbers, rng.normal(size=n), np.array([-2.0, -0.5, 0.3, 2.5])), 3
    if kind is WhitenedDistances:
        return WhitenedDistances(
            *numbers, rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, n))
        ), 3
    return kind(*numbers), n * (n + 1) // 2 if kind is Products else n


def threshold_between(score, values, rng):
    """Thresholds in the middle of clear gaps: what rounding may turn over is told by nobody."""
    outputs = rules.Outputs(values, np.full(len(values), NO_STRUCTURE))
    places = np.unique(score(outputs.matrix(score.width)))
    places = places[np.isfinite(places)]
    gaps = np.flatnonzero(
        np.diff(places) > 1e-7 * np.maximum(1e-6, np.abs(places[1:])) + 100 * score.unit
    )
    if len(gaps) < 2:
        return Threshold(score, -math.inf, math.inf)
    low, high = np.sort(rng.choice(gaps, 2, replace=False))
    return Threshold(score, *(float(places[i] / 2 + places[i + 1] / 2) for i in (low, high)))


KINDS = [
    Levels,
    Ramps,
    Affine,
    SignedLog,
    Products,
    Sorted,
    Distances,
    WhitenedDistances,
    ProjectedRamps,
]


@pytest.mark.parametrize("kind", [*KINDS, None], ids=str)
def test_scores(kind):
    """Each kind of feature by itself, and all together."""
    named = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        width = int(rng.integers(1, 6))
        kinds = [kind] * int(rng.integers(1, 4)) if kind else KINDS
        made = [blocks_of(each, rng, width) for each in kinds]
        score = WeightedScore(
            width,
            tuple((block, rng.normal(size=count)) for block, count in made),
            float(rng.normal()),
        )
        values = drawn(seed, 600, width + int(rng.integers(0, 2)))
        event = threshold_between(score, values, rng)
        check(event, values)
        named += math.isfinite(event.low)
    assert named >= 6
