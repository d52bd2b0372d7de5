"""Datasets with multiplicities: value, JSON, neighbour checks, refusals."""

import re

import numpy as np
import pytest

from dpwitness.mechanisms import InvalidArgument, LabelledBall, LabelledVectors, LinearCosts, Pair


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
    with pytest.raises(
        InvalidArgument,
        match=re.escape(
            "not a neighbor of D0 under replace-one: they have 1000001 and 1000000 records"
        ),
    ):
        Pair(one, LabelledVectors(*common, [999_999, 1]))
    with pytest.raises(InvalidArgument, match="2 records differ, at most 1 may"):
        Pair(one, LabelledVectors(*common, [999_998, 3]))
    with pytest.raises(InvalidArgument, match="2 records are in one"):
        Pair(one, replaced, "add-remove")
    with pytest.raises(InvalidArgument, match="2 and 1 dimensions"):
        Pair(one, LabelledVectors([[1.0]], [1], [1_000_001]))
    with pytest.raises(InvalidArgument, match="one is LabelledVectors, the other LinearCosts"):
        Pair(one, LinearCosts([[1.0, 0.0]]))


def test_order_matters_for_costs_only():
    Pair(
        LabelledVectors([[1.0], [0.5], [0.0]], [1, 1, 1]),
        LabelledVectors([[0.0], [1.0], [-0.5]], [1, 1, 1]),
    )
    Pair(LinearCosts([[1.0], [0.5]]), LinearCosts([[1.0], [-0.5]]), "substitution")
    with pytest.raises(InvalidArgument, match="2 records differ"):
        Pair(LinearCosts([[1.0], [0.5]]), LinearCosts([[0.5], [1.0]]), "substitution")


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
