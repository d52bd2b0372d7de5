"""What is written as JSON comes back as it was, bit for bit and type for type, or is refused when
written.
"""

import collections
import dataclasses
import inspect
import json
import math
import sys

import numpy as np
import pandas as pd
import pytest

from dpwitness import mechanisms as m
from dpwitness.core.values.json_codec import from_jsonable, known_class, public_name, to_jsonable
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import dataset
from dpwitness.mechanisms.wrappers.programs.target import Target

TABLE = np.array(
    [(1, 2.5, "ab"), (3, math.nan, "c")], dtype=[("id", "<i4"), ("x", "<f8"), ("name", "U3")]
)
NESTED = np.zeros((2, 3), dtype=[("p", [("q", "<f4", (2,)), ("r", "<i8")]), ("s", "S3")])
VALUES = [
    *(TABLE, TABLE[0], TABLE.view(np.recarray), NESTED),
    *(np.ma.array([1, 2, 3], mask=[False, True, False]), np.ma.array([1.0, 2.0], fill_value=7.0)),
    np.ma.array(TABLE, mask=[(False, True, False), (True, False, False)]),
    *(
        np.array(3.5),
        np.zeros((0, 3)),
        np.array([[1.0, math.inf], [-0.0, math.nan]]),
        np.array([1, 2], dtype=">i2"),
    ),
    *(
        np.array([True, False]),
        np.array(["a", "bcd"]),
        np.array([b"a", b"bc"]),
        np.array([1 + 2j, complex("nan")]),
    ),
    *(np.array(["2020-01-01", "NaT"], dtype="M8[D]"), np.array([3, 4], dtype="m8[25s]")),
    *(
        np.array([1.1, math.inf], dtype=np.longdouble),
        np.longdouble("1.1"),
        np.float32(1.1),
        np.int8(-3),
    ),
    *(2**3000, -(2**9000), 1 + 2j, math.nan, -0.0, b"\x00\xff", "a\ud800b"),
    *({1: 2, (1, 2): 3}, {"$type": "array"}, {1, 2}, frozenset("ab"), [1, (2, [3, {"a": None}])]),
    *(
        m.LabelledVectors([[0.1, 1 / 3], [1.0, 0.0]], [1, -1], [1_000_000, 1]),
        m.LinearCosts([[0.1, -1 / 3], [0.0, 2.0]]),
    ),
]


def back(value):
    return from_jsonable(json.loads(json.dumps(to_jsonable(value), allow_nan=False)))


@pytest.mark.parametrize(
    "value", VALUES, ids=lambda v: f"{type(v).__name__}-{getattr(v, 'dtype', '')}"[:40]
)
def test_round_trip(value):
    again = back(value)
    assert type(again) is type(value)
    assert to_jsonable(again) == to_jsonable(value) and dataset(to_jsonable(again))
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype and again.shape == value.shape
    if isinstance(value, np.ma.MaskedArray):
        np.testing.assert_array_equal(np.ma.getmaskarray(again), np.ma.getmaskarray(value))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"$type": "array", "dtype": "|O", "shape": [1], "value": [1]},
            'd0.dtype must be a plain dtype such as <f8, got "|O"',
        ),
        (
            {"$type": "array", "dtype": "<f8", "shape": [10**6, 10**6], "value": []},
            "d0.value must have 1000000000000 entries",
        ),
        ({"$type": "array", "dtype": "<f8", "shape": [0, 10**9], "value": []}, "must hold at most"),
        (
            {"$type": "array", "dtype": "S900000", "shape": [400], "value": [""] * 400},
            "must hold at most 268,435,456 bytes",
        ),
        (
            {"$type": "array", "dtype": "|i1", "shape": [1], "value": [300]},
            r"d0.value\[0\] must be whole numbers of |i1, got 300",
        ),
        (
            {"$type": "array", "dtype": "<f8", "shape": [1], "value": ["1"]},
            r'd0.value\[0\] must be a number, got "1"',
        ),
        (
            {"$type": "array", "dtype": "<f8", "shape": [1], "value": [1.0], "more": 1},
            "d0.more is not a known field",
        ),
        ({"$type": "pickle"}, r"d0.\$type must be one of"),
        (
            {"$type": "object", "class": "decimal:Context", "fields": {}},
            "d0.class must be one of this project's dataset classes, got 'decimal:Context'",
        ),
        (
            {"$type": "object", "class": "dpwitness.mechanisms:LinearCosts", "fields": {"x": "?"}},
            "d0 must be a LinearCosts: LinearCosts: x must be",
        ),
        ({"$type": "set", "value": [[1]]}, "d0 must be a set: TypeError"),
        (
            {
                "$type": "structured",
                "shape": [2**31],
                "columns": [["a", to_jsonable(np.zeros(1))]],
                "record": False,
            },
            "d0 must be a structured: ValueError: the array of 'a' must have the shape",
        ),
        (
            {
                "$type": "masked",
                **{part: to_jsonable(np.zeros(1)) for part in ("data", "mask", "fill")},
                "hard": False,
            },
            "d0 must be a masked: ValueError: the mask must hold truth values",
        ),
        (
            {**to_jsonable(pd.DataFrame({"x": [1.0]})), "rows": 2},
            "d0 must be a frame: ValueError: values of 'x' must be a vector of 2 entries",
        ),
        ({"$type": "fraction", "value": "1/2"}, r"d0.\$type must be one of"),
    ],
)
def test_what_a_file_may_not_hold(value, message):
    with pytest.raises(InvalidArgument, match=message):
        from_jsonable(value, "d0")


def test_a_class_outside_the_table_is_not_imported():
    sys.modules.pop("this", None)
    with pytest.raises(InvalidArgument, match="dataset classes"):
        from_jsonable({"$type": "object", "class": "this:Zen", "fields": {}})
    assert "this" not in sys.modules


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Own:
    value: int


def test_classes_of_ones_own_need_ones_word():
    for value in (Point(1, 2.0), Own(3)):
        written = to_jsonable(value)
        with pytest.raises(InvalidArgument, match="must be one of this project's dataset classes"):
            from_jsonable(written)
        again = from_jsonable(
            written,
            classes=lambda name, path: {"Point": Point, "Own": Own}[name.rpartition(":")[2]],
        )
        assert again == value and type(again) is type(value)


def test_the_table_holds_every_dataclass_of_the_public_face():
    public = {
        cls
        for cls in (getattr(m, name) for name in m.__all__)
        if inspect.isclass(cls) and dataclasses.is_dataclass(cls)
    }
    # never within a dataset, an event or a mechanism's parameters
    left_out = {"Pair", "Truth", "Relation"}
    assert {
        cls.__name__
        for cls in public
        if known_class(public_name(cls)) is not cls and cls is not Target
    } <= left_out
    assert public_name(m.LabelledVectors) == "dpwitness.mechanisms:LabelledVectors"
    # as older files call it
    assert known_class("dpwitness.mechanisms:LabelledVectors") is m.LabelledVectors
