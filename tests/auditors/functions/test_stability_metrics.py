"""Tests of the exact metrics, against a definition each, and of the input spaces and the neighbors:
what a search compares lies in the space, at the distance that it states."""

from __future__ import annotations

import itertools
import json
import math
import random
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from dpwitness.auditors.functions.stability_metrics import METRICS, metric_named, rounds
from dpwitness.auditors.functions.stability_neighbors import neighbors_of
from dpwitness.core.datasets.records import exact
from dpwitness.core.domains.spaces import DTYPES
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.stability import Atom, FrameOf, ScalarOf, VectorOf, space_of


def distance(name, first, second, strict=False):
    return metric_named(name, "metric", "test").measure(first, second, strict)


def neighbors(space, name, d_in):
    return neighbors_of(space, metric_named(name, "metric", "test"), d_in)


def shortest_edits(first, second):
    """Return the smallest number of insertions and deletions, by breadth-first search."""
    frontier, steps = {tuple(first)}, 0
    while tuple(second) not in frontier:
        shorter = {row[:i] + row[i + 1 :] for row in frontier for i in range(len(row))}
        longer = {
            (*row[:i], v, *row[i:])
            for row in frontier
            for i in range(len(row) + 1)
            for v in (0, 1)
            if len(row) < 4
        }
        frontier, steps = frontier | shorter | longer, steps + 1
    return steps


def test_insert_delete_is_the_shortest_edit():
    lists = [list(rows) for n in range(4) for rows in itertools.product((0, 1), repeat=n)]
    for first, second in itertools.product(lists, lists):
        assert distance("insert-delete", first, second) == shortest_edits(first, second)


DISTANCES = [
    ("symmetric", [1, 1, 2], [1, 3], 3),
    ("symmetric", [1, 2, 3], [3, 1, 2], 0),
    ("change-one", [1, 2, 3], [3, 1, 4], 1),
    ("change-one", [1], [1, 2], math.inf),
    ("hamming", [1, 2, 3], [3, 1, 2], 3),
    ("hamming", [], [1], math.inf),
    ("insert-delete", [1, 2, 3], [3, 1, 2], 2),
    ("discrete", [1], [1], 0),
    ("discrete", {"a": 1}, {"a": 2}, 1),
    ("symmetric", {"a": [1, 2], "b": [0, 0]}, {"a": [2, 1], "b": [0, 1]}, 2),
    ("symmetric", np.array([[1, 2], [3, 4]]), np.array([[3, 4]]), 1),
    ("absolute", 0.1, 0.3, Fraction(0.3) - Fraction(0.1)),  # not 1/5
    ("l1", [2**70, 0.5], [1, 0], 2**70 - Fraction(1, 2)),
    ("l2", [3, 4], [0, 0], 25),
    ("linf", [3, -4], [0, 0], 4),
    ("l1", {"a": 3}, {"b": 2}, 5),
    ("l1", [1], [1, 2], math.inf),
    ("l1", np.array([[1.5, 2]]), [[1, 2]], Fraction(1, 2)),
    ("l1", [[], [1]], [[], [3]], 2),
    ("l1", [], [], 0),
    ("l1", [[1]], [[1, 2]], math.inf),
]


@pytest.mark.parametrize(("name", "first", "second", "expected"), DISTANCES)
def test_distances_are_exact(name, first, second, expected):
    assert distance(name, first, second) == expected


def test_an_unknown_metric_is_refused_with_the_known_ones():
    for name in ("l3", "per-group-sum:", "per-group-sum:l2", "by:x:", 3):
        with pytest.raises(InvalidArgument, match="metric must"):
            metric_named(name, "metric", "test")
    assert "by:COLUMN:METRIC" in METRICS


NARROW = [float(np.float32(0.1)), float(np.float32(1.1))]
EXCESSES = [  # excess, bound, outputs, whether the excess is rounding
    (Fraction(1, 10**10), 1, [0.5, 1.5], True),
    (Fraction(1, 10**8), 1, [0.5, 1.5], False),
    (Fraction(1, 10**10), 1, [1, 2], False),
    (Fraction(1, 10**10), Fraction(0.7), [1, 2], True),
    (Fraction(1, 10**8), Fraction(0.7), [1, 2], False),
    (1, 10**12, [1, 2], False),
    (Fraction(1, 10**10), 0, [0.5, 1.5], False),
    (Fraction(1, 10**7), 1, [0.5, 1e9], True),
    (Fraction(1, 10), 1, [0.5, 1e16], False),
    (Fraction(2, 10**7), 1, NARROW, True),
    (Fraction(2, 10**7), 1, [0.1, 1.1], False),
]


@pytest.mark.parametrize(("excess", "bound", "outputs", "rounded"), EXCESSES)
def test_only_small_excesses_of_floats_are_rounding(excess, bound, outputs, rounded):
    assert rounds(excess, bound, 1, outputs) is rounded


def atom(dtype, **options):
    return Atom(dtype, categories=("x", 1, None) if dtype == "category" else (), **options)


NUMBERS = [
    Atom("f64", bounds=(-10, 10)),
    Atom("f32"),
    Atom("f64"),
    Atom("i64"),
    Atom("i8", bounds=(0, 5), nullable=True),
]
FRAME = FrameOf(
    {"user": Atom("i8", bounds=(0, 6)), "x": Atom("f64", nullable=True), "day": Atom("date")}
)
CASES = [
    (VectorOf(a, n), m)
    for a in NUMBERS
    for n in (None, 4)
    for m in ("symmetric", "insert-delete", "change-one", "hamming", "discrete")
]
CASES += [(VectorOf(a, n), m) for a in NUMBERS for n in (None, 4) for m in ("l1", "l2", "linf")]
CASES += [(ScalarOf(a), m) for a in NUMBERS for m in ("absolute", "discrete")]
CASES += [(FRAME, m) for m in ("symmetric", "hamming", "by:user:symmetric")]


@pytest.mark.parametrize(
    ("space", "metric"),
    CASES,
    ids=lambda each: each if isinstance(each, str) else json.dumps(each.to_json())[:60],
)
@pytest.mark.parametrize("d_in", [(1, 2, 3), (5, 0.75)])
def test_neighbors_are_in_the_space_and_within_their_distance(space, metric, d_in):
    source, measure, rng = (
        neighbors(space, metric, d_in),
        metric_named(metric, "metric", "test"),
        random.Random(1),
    )
    listed = list(islice(source.bases(), 400))
    bases = listed[:: max(1, len(listed) // 8)] + [
        source.random_rows(rng)[:20] for _ in range(5) if space.size is None
    ]
    groups = [group for rows in bases for group in islice(source.around(rows), 6)]
    groups += [
        group
        for rows in bases
        for _ in range(3)
        if (group := source.walk(list(rows), rng)) is not None
    ]
    pairs = 0
    for group in groups:
        assert all(map(space.contains, group.datasets))
        for i, j, distance in group.pairs:
            assert distance in d_in
            assert (
                measure.measure(group.datasets[i], group.datasets[j], strict=True)
                <= distance**measure.root
            )
            pairs += 1
    assert pairs > 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_survive_json_and_are_adversarial(dtype):
    for options in ({}, {"nullable": True}, *([{"nan": True}] if dtype[0] == "f" else [])):
        one = atom(dtype, **options)
        values = one.values()
        assert (
            values and all(map(one.contains, values)) and (None in values) == (one.contains(None))
        )
        read = from_jsonable(json.loads(json.dumps(to_jsonable(values), allow_nan=False)))
        assert list(map(exact, read)) == list(map(exact, values))
        again = space_of(json.loads(json.dumps(VectorOf(one, 3).to_json())))
        assert again == VectorOf(one, 3)
        rng = random.Random(0)
        assert all(one.contains(one.draw(rng, values)) for _ in range(200))
        assert all(one.contains(simpler) for value in values for simpler in one.simpler(value))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Atom("i7"),
        lambda: Atom("i8", nan=True),
        lambda: Atom("f64", bounds=(1, 0)),
        lambda: Atom("f64", bounds=("a", "b")),
        lambda: Atom("category"),
        lambda: Atom("i8", categories=(1.5,)),
        lambda: VectorOf("i8"),
        lambda: VectorOf(Atom("i8"), -1),
        lambda: FrameOf({}),
        lambda: space_of({"type": "vector"}),
        lambda: space_of({"type": "vector", "dtype": "i8", "sise": 3}),
        lambda: space_of({"type": "scalar", "dtype": "i8", "size": 3}),
        lambda: space_of([1]),
        lambda: neighbors(ScalarOf(Atom("i8")), "symmetric", (1,)),
        lambda: neighbors(VectorOf(Atom("str")), "l1", (1,)),
        lambda: neighbors(VectorOf(Atom("i8")), "by:x:symmetric", (1,)),
        lambda: neighbors(VectorOf(Atom("i8")), "per-group-sum:symmetric", (1,)),
    ],
)
def test_what_is_no_space_is_refused(make):
    with pytest.raises(InvalidArgument):
        make()
