"""Tests of the exact metrics, against a definition each, and of the input spaces and the neighbors:
what a search compares lies in the space, at the distance that it states."""

from __future__ import annotations

import datetime
import itertools
import json
import math
import random
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from dpwitness import Verdict
from dpwitness.auditors.functions.stability.metrics import (
    METRICS,
    Incomparable,
    gap,
    metric_named,
    rounds,
)
from dpwitness.auditors.functions.stability.neighbors import neighbors_of
from dpwitness.core.datasets.records import exact
from dpwitness.core.domains.spaces import DTYPES, to_f32
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.stability import Atom, FrameOf, ScalarOf, Step, VectorOf, audit_chains, space_of


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


def test_distances_of_rows():
    assert (
        distance("symmetric", [1, 1, 2], [1, 3]) == 3
        and distance("symmetric", [1, 2, 3], [3, 1, 2]) == 0
    )
    assert (
        distance("change-one", [1, 2, 3], [3, 1, 4]) == 1
        and distance("change-one", [1], [1, 2]) == math.inf
    )
    assert (
        distance("hamming", [1, 2, 3], [3, 1, 2]) == 3 and distance("hamming", [], [1]) == math.inf
    )
    assert distance("insert-delete", [1, 2, 3], [3, 1, 2]) == 2
    assert distance("discrete", [1], [1]) == 0 and distance("discrete", {"a": 1}, {"a": 2}) == 1
    assert distance("symmetric", {"a": [1, 2], "b": [0, 0]}, {"a": [2, 1], "b": [0, 1]}) == 2
    assert distance("symmetric", np.array([[1, 2], [3, 4]]), np.array([[3, 4]])) == 1


def test_outputs_that_are_equal_and_inputs_that_differ():
    for first, second in ([0.0], [-0.0]), ([1], [1.0]), ([1], [True]):
        assert (
            distance("symmetric", first, second) == 0
            and distance("symmetric", first, second, strict=True) == 2
        )
    for strict in (False, True):
        assert distance("symmetric", [float("nan"), None], [None, float("nan")], strict) == 0
    assert distance("symmetric", [float("nan")], [None]) == 2


def test_norms_are_exact():
    assert distance("absolute", 0.1, 0.3) == Fraction(0.3) - Fraction(0.1) != Fraction(1, 5)
    assert distance("l1", [2**70, 0.5], [1, 0]) == 2**70 - Fraction(1, 2)
    assert distance("l2", [3, 4], [0, 0]) == 25 and distance("linf", [3, -4], [0, 0]) == 4
    assert distance("l1", {"a": 3}, {"b": 2}) == 5 and distance("l1", [1], [1, 2]) == math.inf
    assert distance("l1", np.array([[1.5, 2]]), [[1, 2]]) == Fraction(1, 2)
    assert (
        distance("l1", [[], [1]], [[], [3]]) == 2
        and distance("l1", [], []) == 0
        and distance("l1", [[1]], [[1, 2]]) == math.inf
    )


def test_gaps_of_infinities_and_missing_values():
    nan, inf = float("nan"), math.inf
    assert gap(inf, inf) == gap(nan, None) == gap(None, None) == 0
    assert gap(inf, -inf) == gap(inf, 0) == gap(nan, 0) == gap(0, None) == inf
    with pytest.raises(Incomparable, match="a number is needed, got str"):
        gap("1", 2)


def test_values_of_libraries_are_compared_as_values():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    assert (
        distance(
            "symmetric", [pandas.NA, pandas.NaT, {1, 2}, np.float32(0.5)], [None, None, {2, 1}, 0.5]
        )
        == 0
    )
    assert distance("symmetric", polars.DataFrame({"a": [1, None]}), {"a": [None, 1]}) == 0
    assert distance("l1", polars.Series([1.5, 2.0]), np.array([1.0, 2.0])) == Fraction(1, 2)
    assert (
        distance(
            "hamming", pandas.DataFrame({"a": [1, 2], "b": [3, 4]}), {"a": [1, 2], "b": [3, 5]}
        )
        == 1
    )


def test_groups_and_users():
    first, second = {"a": [1, 2], "b": [3]}, {"a": [1], "c": [4, 4]}
    found = [distance(f"per-group{how}:symmetric", first, second) for how in ("", "-sum", "-count")]
    assert found == [2, 4, 3]
    frames = {"u": [1, 1, 2], "x": [0, 1, 0]}, {"u": [2, 3, 1], "x": [0, 0, 0]}
    assert distance("user:u", *frames) == 2


def test_an_unknown_metric_is_refused_with_the_known_ones():
    for name in ("l3", "per-group", "per-group-sum:l2", "user:", 3):
        with pytest.raises(InvalidArgument, match="metric must"):
            metric_named(name, "metric", "test")
    assert "user:COLUMN" in METRICS


def test_only_small_excesses_of_floats_are_rounding():
    assert rounds(Fraction(1, 10**10), 1, 1, [0.5, 1.5]) and not rounds(
        Fraction(1, 10**8), 1, 1, [0.5, 1.5]
    )
    assert not rounds(Fraction(1, 10**10), 1, 1, [1, 2]) and rounds(
        Fraction(1, 10**10), Fraction(0.7), 1, [1, 2]
    )
    assert not rounds(Fraction(1, 10**8), Fraction(0.7), 1, [1, 2])
    assert not rounds(1, 10**12, 1, [1, 2]) and not rounds(Fraction(1, 10**10), 0, 1, [0.5, 1.5])
    assert rounds(Fraction(1, 10**7), 1, 1, [0.5, 1e9]) and not rounds(
        Fraction(1, 10), 1, 1, [0.5, 1e16]
    )
    narrow = [float(np.float32(0.1)), float(np.float32(1.1))]
    assert rounds(Fraction(2, 10**7), 1, 1, narrow) and not rounds(
        Fraction(2, 10**7), 1, 1, [0.1, 1.1]
    )


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
CASES += [(FRAME, m) for m in ("symmetric", "hamming", "user:user", "by:user:symmetric")]


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
    bases = listed[:: max(1, len(listed) // 20)] + [
        source.random_rows(rng)[:20] for _ in range(10) if space.size is None
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


def test_the_largest_moves_reach_the_distance():
    """The first neighbors of a number are as far away as the distance allows."""
    source = neighbors(ScalarOf(Atom("f64", bounds=(-10, 10))), "absolute", (1, 2))
    group = next(source.around([(0.0,)]))
    assert group.datasets == [0.0, 1.0, 2.0]


def test_random_neighbors_include_other_orders():
    source, rng = neighbors(VectorOf(Atom("i64")), "symmetric", (1,)), random.Random(0)
    groups = [source.walk([(1,), (2,), (3,), (4,)], rng) for _ in range(100)]
    assert any(
        sorted(dataset) == [1, 2, 3, 4] != dataset
        for group in groups
        if group
        for dataset in group.datasets
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_survive_json_and_are_adversarial(dtype):
    for options in (
        {},
        {"nullable": True},
        *([{"nan": True}] if dtype[0] == "f" else []),
        *([{"zone": True}] if dtype == "datetime" else []),
    ):
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


def test_the_first_values_are_the_edges_of_the_dtype():
    assert Atom("i8").values()[:2] == [-128, 127] and Atom("u64").values()[:2] == [0, 2**64 - 1]
    floats = Atom("f64", nan=True, nullable=True).values()
    assert floats[0] is None and math.isnan(floats[1]) and floats[2:4] == [-math.inf, math.inf]
    assert [math.copysign(1, v) for v in floats if v == 0] == [1, -1]
    assert Atom("f64", bounds=(0, None)).range == (0.0, math.inf) and Atom(
        "i8", bounds=(None, 3)
    ).range == (-128, 3)
    assert (
        to_f32(1e39) == math.inf
        and Atom("f32").contains(to_f32(0.1))
        and not Atom("f32").contains(0.1)
    )
    assert (
        datetime.datetime.max in Atom("datetime").values() and "2024-13-01" in Atom("str").values()
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Atom("i7"),
        lambda: Atom("i8", nan=True),
        lambda: Atom("f64", bounds=(1, 0)),
        lambda: Atom("f64", bounds=("a", "b")),
        lambda: Atom("category"),
        lambda: Atom("date", zone=True),
        lambda: Atom("i8", categories=(1.5,)),
        lambda: VectorOf("i8"),
        lambda: VectorOf(Atom("i8"), -1),
        lambda: FrameOf({}),
        lambda: space_of({"type": "vector"}),
        lambda: space_of({"type": "vector", "dtype": "i8", "sise": 3}),
        lambda: space_of({"type": "scalar", "dtype": "i8", "size": 3}),
        lambda: space_of([1]),
        lambda: Step(sum, abs, 3, "symmetric", "absolute"),
        lambda: neighbors(ScalarOf(Atom("i8")), "symmetric", (1,)),
        lambda: neighbors(VectorOf(Atom("str")), "l1", (1,)),
        lambda: neighbors(VectorOf(Atom("i8")), "user:x", (1,)),
        lambda: neighbors(VectorOf(Atom("i8")), "per-group:symmetric", (1,)),
    ],
)
def test_what_is_no_space_is_refused(make):
    with pytest.raises(InvalidArgument):
        make()


CLAMPED = VectorOf(Atom("i32", bounds=(0, 5)))
CLAMP = Step(
    lambda rows: [min(v, 5) for v in rows],
    lambda d: d,
    VectorOf(Atom("i32", bounds=(0, 10))),
    "symmetric",
    "symmetric",
    CLAMPED,
    "clamp",
)


def test_chains_compose_functions_and_maps():
    total = Step(sum, lambda d: 5 * d, CLAMPED, "symmetric", "absolute", name="sum")
    wrong = Step(sum, lambda d: 4 * d, CLAMPED, "symmetric", "absolute", name="wrong sum")
    assert CLAMP.precedes(total) and not total.precedes(CLAMP)
    chain = CLAMP.then(total)
    assert (
        chain.function([9, 2]) == 7
        and chain.stability_map(2) == 10
        and chain.name == "clamp >> sum"
    )
    found = {
        result.name: result for result in audit_chains([CLAMP, total, wrong], length=2, seconds=1.0)
    }
    assert found["clamp >> sum"].verdict is Verdict.NOT_REFUTED
    assert found["clamp >> wrong sum"].verdict is Verdict.VIOLATED and found[
        "clamp >> wrong sum"
    ].second == [5]
    with pytest.raises(InvalidArgument, match="sum must take the outputs of clamp"):
        CLAMP.then(Step(sum, abs, VectorOf(Atom("i64")), "symmetric", "absolute", name="sum"))
    with pytest.raises(InvalidArgument, match="two that can follow"):
        audit_chains([total])
