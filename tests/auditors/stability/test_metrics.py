"""Tests of the exact metrics, against a definition each, and of the key that decides which values
are equal.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpwitness.auditors.functions.stability.metrics import (
    METRICS,
    Incomparable,
    gap,
    metric_named,
    rounds,
)
from dpwitness.core.values.validation import InvalidArgument


def distance(name, first, second, strict=False):
    return metric_named(name, "metric", "test").measure(first, second, strict)


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
