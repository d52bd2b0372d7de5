"""Tests of ``--d0`` and ``--d1``: the datasets must have the same type, be neighbors and differ;
otherwise exit code 2 and one line.
"""

import numpy as np
import pytest

from dpwitness.mechanisms import InvalidArgument
from dpwitness.option_values.datasets import dataset, pair_of


@pytest.mark.parametrize("d0", ["null", "0", "true", "{}", '"1"', '["1"]', "[true]", "[[1]]", "[]"])
def test_a_slip_of_type_is_refused(d0):
    for texts in ((d0, "[1]"), ("[1]", d0)):
        with pytest.raises(InvalidArgument, match="Pair: D"):
            pair_of(*texts, None, None)


@pytest.mark.parametrize("text", ["[1]", '["a"]', "1", '[{"a": 1}]', '{"x": [1, 2]}', "[]"])
def test_a_dataset_is_no_neighbour_of_itself(text):
    for relation in ("replace-one", "add-remove"):
        with pytest.raises(InvalidArgument, match="which cannot show a violation"):
            pair_of(text, text, relation, None)


@pytest.mark.parametrize(
    ("d0", "d1", "relation"),
    [
        ("[[1, 2], [3]]", "[[1, 2], [3, 4]]", "replace-one"),  # a table in one of them only
        ("[1, null]", "[1, 2]", "replace-one"),
        ("[]", "[[1, 2]]", "add-remove"),
        ("[[1, 2]]", "[]", "add-remove"),
        ('[1, {"$type": "float", "value": "nan"}]', "[1, 2]", "replace-one"),
        ("0", "1.5", "replace-one"),
        (
            '{"x": [[1, 2], [3, 4]], "y": [0, 1]}',
            '{"x": [[1, 2], [5, 6]], "y": [0, 0]}',
            "replace-one",
        ),
        ('["a"]', '["a", "b"]', "add-remove"),
        (f"[{2**1100}]", f"[{2**1100 + 1}]", "l1"),
    ],
)
def test_neighbours_in_json(d0, d1, relation):
    assert type(pair_of(d0, d1, relation, None).d0) is type(pair_of(d0, d1, relation, None).d1)


def test_all_labels_are_more_than_one_record():
    with pytest.raises(InvalidArgument, match="2 records differ"):
        pair_of(
            '{"x": [[1, 2], [3, 4]], "y": [0, 1]}',
            '{"x": [[1, 2], [3, 4]], "y": [1, 0]}',
            None,
            None,
        )
    with pytest.raises(InvalidArgument, match="must have records of one kind"):
        pair_of("[[[1, 2], [3, 4]], [0, 1]]", "[[[1, 2], [3, 4]], [1, 0]]", None, None)


def test_values_that_json_has_no_word_for_are_numbers():
    found = dataset("d0", '[{"$type": "float", "value": "nan"}, 1]')
    assert found.dtype == np.float64 and np.isnan(found[0])
