"""What a pair is: datasets of one kind whose records can be told apart, neighbors in exact arithmetic,
never the same twice; and datasets with multiplicities."""

from __future__ import annotations

import dataclasses
import math
import re
from fractions import Fraction

import numpy as np
import pytest

from dpwitness.mechanisms import InvalidArgument, LabelledBall, LabelledVectors, LinearCosts, Pair

X, Y = np.arange(6.0).reshape(3, 2), np.array([0.0, 1.0, 0.0])
X1, Y1 = X.copy(), Y.copy()
X1[1], Y1[1] = 9.0, 7.0


@dataclasses.dataclass
class Basket:
    """A dataset class of one's own."""

    items: list

    def records(self):
        return self.items


@dataclasses.dataclass
class Opaque:
    items: list


class Raising(list):
    def __iter__(self):
        raise RuntimeError("no")


STRUCTURED = np.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i2"), ("b", "f8")])
MOVED = STRUCTURED.copy()
MOVED["b"][1] = 5.0

ACCEPTED = {
    "structured rows": (STRUCTURED, MOVED),
    "masked rows": (np.ma.array([1.0, 2.0], mask=[1, 0]), np.ma.array([1.0, 2.0], mask=[1, 1])),
    "complex rows": (np.array([1j, 2.0]), np.array([1j, 3.0])),
    "long doubles": (np.zeros(2, np.longdouble), np.array([0, 1], np.longdouble)),
    "times": (np.array(["2020"], "M8[Y]"), np.array(["2021"], "M8[Y]")),
    "a number that nobody can print": ([10**5000, 0], [10**5000 + 1, 0]),
    "sets": ([{1, 2}, {3}], [{1, 2}, {4}]),
    "columns in a tuple": ((X, Y), (X1, Y1)),
    "columns in a list": ([X, Y], [X1, Y]),
    "columns in a dict": ({"x": X, "y": Y}, {"x": X, "y": Y1}),
    "columns of lists": ((X.tolist(), Y.tolist()), (X.tolist(), Y1.tolist())),
    "columns of texts and numbers": (
        {"name": ["a", "b"], "age": [3, 4]},
        {"name": ["a", "c"], "age": [3, 5]},
    ),
    "an array and a list": ((X, [1, 0, 1]), (X, [1, 1, 1])),
    "rows": (X, X1),
    "texts": (["a", "bb"], ["a", "ccc"]),
    "an array of texts": (np.array(["a", "b"]), np.array(["a", "ccc"])),
    "ragged lists": ([["a"], ["b", "c"]], [["a"], []]),
    "records of an array and a label": ([(X[0], 1), (X[1], 0)], [(X[0], 1), (X[1], 1)]),
    "dicts": ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 3}]),
    "one number": (0.0, 1.0),
    "negative zero": (np.array([0.0]), np.array([-0.0])),
    "a missing record": ([1.0, None], [1.0, 2.0]),
    "NaN stays": (np.array([np.nan, 1.0]), np.array([np.nan, 2.0])),
    "a class of one's own": (Basket([1, 2]), Basket([1, 3])),
    "whole numbers beyond floats": ([2**80], [2**80 + 1]),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_one_record_replaced(name):
    d0, d1 = ACCEPTED[name]
    Pair(d0, d1)
    with pytest.raises(
        InvalidArgument, match="Pair: D0 and D1 are identical, which cannot show a violation"
    ):
        Pair(d0, d0)


WHOLE = {
    "all labels of columns in a tuple": ((X, Y), (X, 1 - Y), "3 records differ"),
    "all labels of columns in a list": ([X, Y], [X, 1 - Y], "3 records differ"),
    "all labels of columns in a dict": ({"x": X, "y": Y}, {"x": X, "y": 1 - Y}, "3 records differ"),
    "all labels of lists in a tuple": (
        (X.tolist(), [0, 1, 0]),
        (X.tolist(), [1, 0, 1]),
        "3 records differ",
    ),
    "columns as lists in a list": (
        [X.tolist(), [0, 1, 0]],
        [X.tolist(), [1, 0, 1]],
        "D0 must have records of one kind",
    ),
    "names and ages in a list": (
        [["a", "b"], [1, 2]],
        [["a", "b"], [3, 4]],
        "hold only a number and only a text",
    ),
    "data and a parameter": ((X, 0.5), (X, 0.7), "its entry 1 is a number"),
    "a text": ("abc", "xyz", "separate records, got a text"),
    "a dict of numbers": ({"a": 1, "b": 2}, {"a": 9, "b": 9}, "2 records differ, at most 1 may"),
    "a dict of nothing": ({}, np.ones(1), "D0 is a dict of entries, D1 is an array of float64"),
    "a class without records": (
        Opaque([1, 2]),
        Opaque([8, 9]),
        "got an Opaque; give it a method records",
    ),
    "None": (None, np.ones(1), "separate records, got None"),
    "a number and an array": (0, np.ones(1), "D0 is a number, D1 is an array of float64"),
    "a truth value and a list": (True, [1], "D0 is a truth value, D1 is a list of records"),
    "a list and an array": (
        [1.0],
        np.ones(1),
        "D0 is a list of records, D1 is an array of float64",
    ),
    "whole numbers and floats": (
        np.zeros(1, dtype=int),
        np.ones(1),
        "D0 is an array of int64, D1 is an array of float64",
    ),
    "rows of other lengths": (X, np.zeros((3, 3)), "rows of shape"),
    "a number for a text": (["a", "b"], ["a", 3], "record 1 is a text in D0 and a number in D1"),
    "columns of other names": ({"x": X}, {"y": X}, "D0 is a dict of"),
    "a set": ({1, 2}, {1, 3}, "separate records, got a set"),
    "bytes": (b"a", b"b", "separate records, got a bytes"),
    "a generator": ((i for i in "ab"), [1], "D0 must be writable as JSON, got generator"),
    "objects": (
        np.array([None]),
        np.array([3], dtype=object),
        "D0 must be writable as JSON, got an array of dtype object; give an array",
    ),
    "a matrix": (
        np.ones((1, 1)).view(np.matrix),
        np.zeros((1, 1)).view(np.matrix),
        "got matrix: give a plain array",
    ),
    "a function": (len, sum, "D0 must be writable as JSON, got builtin_function_or_method"),
    "what raises": (Raising(), [1], "D0 must be writable as JSON, got a Raising, which raises"),
    "another class": (
        LinearCosts([[1.0]]),
        LabelledVectors([[1.0]], [1]),
        "D0 is of class LinearCosts, D1 is of class LabelledVectors, dimension 1",
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_no_neighbour_is_refused_in_one_sentence(name):
    d0, d1, message = WHOLE[name]
    with pytest.raises(InvalidArgument, match=re.escape(message)) as caught:
        Pair(d0, d1)
    assert str(caught.value).startswith("Pair: ") and "\n" not in str(caught.value)


def test_endless_nesting_ends():
    endless = []
    endless.append(endless)
    deep = [1.0]
    for _ in range(2000):
        deep = [deep]
    for dataset in (endless, deep, {"a": endless}):
        with pytest.raises(InvalidArgument, match="nested more than 30 deep, or within itself"):
            Pair(dataset, [1.0])


@pytest.mark.parametrize(
    ("d0", "d1"),
    [
        (np.array([2**60]), np.array([2**60 + 1])),
        (np.array([2**63 + 5], dtype=np.uint64), np.array([2**63 + 6], dtype=np.uint64)),
        ([10**400], [10**400 + 1]),
        ([10**400, 0.5], [10**400, 1.5]),
        ([0.1], [1.1]),  # as floats 8e-17 more than 1 apart: what is no whole number was rounded
        ([15.6], [16.6]),
        (np.zeros(5), np.full(5, 0.2)),
        (np.full(3, 10.0), np.array([10.3, 10.3, 10.4])),
        (0, 1),
    ],
)
def test_steps_of_one(d0, d1):
    Pair(d0, d1, "l1")


@pytest.mark.slow_cases("d07-d17-beyond all floats-l2")
@pytest.mark.parametrize("relation", ["l1", "l2", "linf"])
@pytest.mark.parametrize(
    ("d0", "d1", "distance"),
    [
        (np.array([2**60]), np.array([2**60 + 50]), "50"),
        (np.array([2.0**60]), np.array([2.0**60 + 256]), "256"),
        (np.array([2**63 + 5], dtype=np.uint64), np.array([2**63 + 7], dtype=np.uint64), "2"),
        ([0.0], [math.nextafter(1.0, 2.0)], "1 + 2.22e-16"),
        ([0.5], [math.nextafter(1.5, 2.0)], "1 + 2.22e-16"),
        ([0.0], [1 + 1e-9], "1 + 1e-09"),
        (np.float32([0.0]), np.nextafter(np.float32([1.0]), np.float32(2)), "1 + 1.19e-07"),
        ([0], [10**400], "beyond all floats"),
    ],
)
def test_distances_are_exact(d0, d1, distance, relation):
    with pytest.raises(
        InvalidArgument, match=re.escape(f"their distance is {distance}, at most 1 is allowed")
    ):
        Pair(d0, d1, relation)


@pytest.mark.parametrize(
    "bad",
    [
        [math.nan],
        [math.inf],
        "a",
        [[1.0]],
        [True],
        [Fraction(1, 2)],
        np.ones(1, np.longdouble),
        np.array([1 + 0j]),
        None,
        {"a": 1},
    ],
)
def test_answers_are_finite_numbers(bad):
    with pytest.raises(InvalidArgument, match="Pair: "):
        Pair(bad, [1.0], "l1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("neighbours",), r"Pair: relation must be one of .*, got 'neighbours'"),
        ((np.array([1, 2]),), "Pair: relation must be one of"),
        (("replace-one", 3), "Pair: why must be a text, got 3"),
    ],
)
def test_arguments_are_named(options, message):
    with pytest.raises(InvalidArgument, match=message):
        Pair([0], [1], *options)


def test_equality_is_that_of_multisets():
    data = LabelledVectors([[1.0], [0.5], [0.5]], [1, -1, -1])
    assert data == LabelledVectors([[0.5], [1.0]], [-1, 1], [2, 1])
    assert data == data.merged() and len(data.merged()) == 2
    assert data != LabelledVectors([[0.5], [1.0]], [-1, 1], [1, 2])
    assert LinearCosts([[1.0], [0.0]]) != LinearCosts([[0.0], [1.0]])


def test_a_million_copies_are_one_record_in_the_neighbour_check():
    common = ([[1e-4, 0.0], [0.0, 1.0]], [1, 1])
    one = LabelledVectors(*common, [1_000_000, 1])
    replaced = LabelledVectors([[0.6, 0.8], [1e-4, 0.0], [1e-4, 0.0]], [-1, 1, 1], [1, 1, 999_999])
    Pair(one, replaced)
    Pair(one, LabelledVectors(*common, [999_999, 1]), "add-remove")
    for other, relation, message in (
        (
            LabelledVectors(*common, [999_999, 1]),
            "replace-one",
            "not a neighbor of D0 under replace-one: they have 1000001 and 1000000 records",
        ),
        (LabelledVectors(*common, [999_998, 3]), "replace-one", "2 records differ, at most 1 may"),
        (replaced, "add-remove", "2 records are in one"),
        (
            LabelledVectors([[1.0]], [1], [1_000_001]),
            "replace-one",
            "dimension 2, D1 is of class LabelledVectors, dimension 1",
        ),
        (LinearCosts([[1.0, 0.0]]), "replace-one", "D1 is of class LinearCosts"),
    ):
        with pytest.raises(InvalidArgument, match=re.escape(message)):
            Pair(one, other, relation)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: LabelledVectors([[0.0, np.nan]], [1]),
            "LabelledVectors: x must be finite, got nan at index [0, 1]",
        ),
        (
            lambda: LabelledVectors([[0.0]], [np.nan]),
            "LabelledVectors: y must be finite, got nan at index [0]",
        ),
        (
            lambda: LabelledVectors([[0.0]], [1, 1]),
            "LabelledVectors: y must have one entry for each of the 1 rows of x, got 2",
        ),
        (
            lambda: LabelledVectors([0.0], [1]),
            "LabelledVectors: x must have 2 axes, got shape (1,)",
        ),
        (
            lambda: LabelledVectors(np.empty((0, 2)), []),
            "x must hold at least one record and one column, got shape (0, 2)",
        ),
        (
            lambda: LabelledVectors([[0.0]], [1], [0]),
            "multiplicity must be whole numbers, at least 1, got 0.0 at index [0]",
        ),
        (
            lambda: LabelledVectors([[0.0]], [1], [1.5]),
            "multiplicity must be whole numbers, at least 1, got 1.5 at index [0]",
        ),
        (lambda: LinearCosts([[np.inf]]), "LinearCosts: x must be finite, got inf at index [0, 0]"),
        (
            lambda: LabelledBall(2, 0),
            "LabelledBall: size must be a whole number, between 1 and 9007199254740992, got 0",
        ),
    ],
)
def test_refusals_name_field_rule_and_value(build, message):
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        build()
