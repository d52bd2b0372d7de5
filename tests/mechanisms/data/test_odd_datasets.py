"""Datasets and relations that are refused, in words that help."""

import numpy as np
import pytest

import dpwitness as dpw

pd = pytest.importorskip("pandas")


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples([("x", 1), ("y", 2)])), "the index must hold .* of type tuple"),
        (pd.DataFrame({"a": [1, "x"]}), "column 'a' must hold .* all of one type; it holds values of type int"),
        (pd.DataFrame({"a": [10**30, 1]}), "column 'a' must hold .* numbers of 64 bits"),
    ],
)
def test_frames_that_cannot_be_held_are_refused(frame, text):
    with pytest.raises(dpw.InvalidArgument, match=text):
        dpw.Pair(frame, frame.iloc[:1], relation="add-remove")


def test_whole_numbers_that_floats_cannot_tell_apart_are_refused():
    with pytest.raises(dpw.InvalidArgument, match="column a: whole-number low and high must lie between"):
        dpw.domains.Table({"a": (0, 10**30)})
    assert dpw.domains.Table({"a": (-(2**53), 2**53)}).columns


def test_a_relation_of_ones_own_is_asked_both_ways():
    with pytest.raises(dpw.InvalidArgument, match="the check of own:less must be symmetric"):
        dpw.Pair(1, 2, relation=dpw.domains.Relation(lambda a, b: a < b, title="less"))


@pytest.mark.parametrize("answer", [False, "too far", np.False_])
def test_truth_values_of_numpy_are_truth_values(answer):
    assert dpw.Pair(1, 2, relation=dpw.domains.Relation(lambda a, b: np.abs(np.float64(a - b)) <= 1, title="near")).relation == "own:near"
    with pytest.raises(dpw.InvalidArgument, match=r"not a neighbor of D0 under own:near: (its check returned False|too far)$"):
        dpw.Pair(1, 2, relation=dpw.domains.Relation(lambda a, b: answer, title="near"))
