"""Every part of an output is a leaf that an audit sees: each case is two outputs that differ in one
leaf only.
"""

import array
import collections
import dataclasses
import datetime
import enum
import types
import uuid
from decimal import Decimal
from fractions import Fraction

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sparse
from sent_outputs import Written, sent

from dpwitness.auditors.events.outputs import encode, row_keys

DAY = datetime.datetime(2020, 1, 1)
Point = collections.namedtuple("Point", "x y")
Other = collections.namedtuple("Point", "x z")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def subclass(base, name):
    return type(name, (base,), {})


Counts, Quantity, Moment = (
    subclass(dict, "Counts"),
    subclass(np.ndarray, "Quantity"),
    subclass(datetime.datetime, "Moment"),
)
Precise, Queue = subclass(Decimal, "Precise"), subclass(collections.deque, "Queue")


class Slots:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


@dataclasses.dataclass
class Answer:
    value: float
    unit: str = "m"


def counted(value):
    found = Counts(a=1)
    found.source = value
    return found


class Refused(ValueError):
    def __init__(self, value):
        super().__init__("refused")
        self.value = value


class Mute(ValueError):
    def __str__(self):
        return "refused"


class Hidden(str):
    def __str__(self):
        return "***"

    __repr__ = __str__


class SlotFloat(float):
    __slots__ = ("a",)


class Forgetful:
    def __getstate__(self):
        return {}


@dataclasses.dataclass
class SlotAnswer(Slots):
    a: dataclasses.InitVar[float] = 0.0
    value: float = 1.0

    def __post_init__(self, a):
        self.a = a


class Zone(datetime.tzinfo):
    def __init__(self, hours):
        self.hours = hours

    def utcoffset(self, when):
        return datetime.timedelta(hours=self.hours)

    def dst(self, when):
        return None

    def __repr__(self):
        return "zone"


def adding(value, **attributes):
    for name, held in attributes.items():
        object.__setattr__(value, name, held)
    return value


def joined(*edges):
    found = nx.Graph()
    found.add_nodes_from(range(3))
    found.add_edges_from(edges)
    return found


def arrow(kind, *values):
    return pa.array(values, kind)


FRAME = pd.DataFrame(
    {
        "age": [1.5, 2.5],
        "name": ["a", "b"],
        "when": pd.to_datetime(["2020-01-01", "2020-01-02"]),
        "kind": pd.Categorical(["u", "v"], categories=["v", "u", "w"]),
        "n": pd.array([1, None], dtype="Int64"),
    },
    index=["r1", "r2"],
)
TABLE = pa.table({"a": [1, 2], "t": ["x", None]}).replace_schema_metadata({"m": "1"})
STAMPS = pd.Series(pd.to_datetime(["2020-01-01"]).tz_localize("UTC"))
INDEX = pd.MultiIndex.from_tuples([(1, "a"), (2, "b")], names=["p", "q"])


def with_attrs(**attrs):
    found = FRAME.copy()
    found.attrs.update(attrs)
    return found


def with_kind(change):
    return FRAME.assign(kind=change(FRAME["kind"].cat))


def of_type(dtype, *values):
    return pd.Series(values, dtype=dtype)


CASES = {
    "value": (1.5, 2.5),
    "sign of zero": (0.0, -0.0),
    "sign of zero in an array": (np.zeros(2), np.array([0.0, -0.0])),
    "sign of a complex zero": (complex(0, 0.0), complex(0, -0.0)),
    "sign of a decimal zero": (Decimal("0"), Decimal("-0")),
    "bool and int": (1, True),
    "float32 and float64": (np.float32(1), np.float64(1)),
    "dtype of an array": (np.zeros(3, "f4"), np.zeros(3, "f2")),
    "last digit of 10**30": (10**30, 10**30 + 1),
    "last digit of 2**200": (2**200, 2**200 + 1),
    "last digit of 10**400": (10**400, 10**400 + 1),
    "last digit of 10**2000": (10**2000, 10**2000 + 1),
    "int64": (np.array([2**62]), np.array([2**62 + 1])),
    "exponent of a longdouble": (np.longdouble(2) ** 5000, np.longdouble(2) ** 5001),
    "fraction of a longdouble": (
        np.array([np.longdouble(2) ** -5000]),
        np.array([np.longdouble(2) ** -5000 * 1.5]),
    ),
    "exponent of a decimal": (Decimal("1E+3"), Decimal("1000")),
    "zeros at the end of a decimal": (Decimal("1.5"), Decimal("1.50")),
    "signal of a decimal NaN": (Decimal("NaN"), Decimal("sNaN")),
    "zone or none": (DAY, DAY.replace(tzinfo=datetime.UTC)),
    "float and complex": (1.0, 1 + 0j),
    "last digit of a decimal": (Decimal("1." + "1" * 60), Decimal("1." + "1" * 59 + "2")),
    "last digit of a fraction": (Fraction(10**60, 7), Fraction(10**60 + 1, 7)),
    "text": ("12.5", "12.6"),
    "bytes": (b"a", bytearray(b"a")),
    "fold": (DAY, DAY.replace(fold=1)),
    "zone": (
        DAY.replace(tzinfo=datetime.UTC),
        DAY.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    ),
    "time in a zone": (
        DAY.replace(tzinfo=datetime.UTC),
        DAY.replace(tzinfo=datetime.UTC, second=1),
    ),
    "order of a dict": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "class of a dict": ({"a": 1}, collections.OrderedDict(a=1)),
    "attribute of a dict": (counted(1), counted(2)),
    "key": ({1.5: 1}, {1.6: 1}),
    "name of a field": (Point(1, 2), Other(1, 2)),
    "enum": (Color.RED, Color.BLUE),
    "slot": (Slots(1), Slots(2)),
    "attribute behind a text": (Written(1), Written(2)),
    "dataclass": (Answer(1.0), Answer(1.0, "y")),
    "namespace": (types.SimpleNamespace(a=1), types.SimpleNamespace(b=1)),
    "uuid": (uuid.UUID(int=5), uuid.UUID(int=6)),
    "typecode": (array.array("d", [1]), array.array("f", [1])),
    "deque": (collections.deque([1], 3), collections.deque([1], 4)),
    "range": (range(10**9), range(0, 10**9, 2)),
    "set": ({1, 2}, {1, 3}),
    "function": (np.mean, np.median),
    "attribute of an exception": (Refused(1), Refused(2)),
    "under a mask": (
        np.ma.masked_array([1.0, 2.0], [0, 1]),
        np.ma.masked_array([1.0, 3.0], [0, 1]),
    ),
    "text under a mask": (
        np.ma.masked_array(["a", "b"], [0, 1]),
        np.ma.masked_array(["a", "c"], [0, 1]),
    ),
    "field of an array": (np.zeros(1, [("a", "i4")]), np.zeros(1, [("b", "i4")])),
    "NA and NaT": (pd.NA, pd.NaT),
    "NA and None": (pd.NA, None),
    "nanoseconds": (pd.Timestamp(1, unit="ns"), pd.Timestamp(2, unit="ns")),
    "span": (pd.Timedelta(1, "ns"), pd.Timedelta(2, "ns")),
    "period": (pd.Period("2020-01"), pd.Period("2020-02")),
    "side of an interval": (pd.Interval(0, 1), pd.Interval(0, 1, closed="left")),
    "series: name": (of_type("f8", 1), of_type("f8", 1).rename("b")),
    "series: index": (pd.Series([1.0], index=["a"]), pd.Series([1.0], index=["b"])),
    "series: dtype": (of_type("f8", 1), of_type("f4", 1)),
    "series: None and NaN": (of_type(object, None, "a"), of_type(object, np.nan, "a")),
    "series: missing": (of_type("Int64", 1, None), of_type("Int64", 1, 0)),
    "series: Arrow": (of_type("int64[pyarrow]", 1, None), of_type("int64[pyarrow]", 2, None)),
    "series: zone": (STAMPS, STAMPS.dt.tz_convert("Asia/Tokyo")),
    "series: sparse": (
        pd.Series(pd.arrays.SparseArray([0, 1.0])),
        pd.Series(pd.arrays.SparseArray([0, 1.0], fill_value=1.0)),
    ),
    "series: intervals": (
        pd.Series(pd.interval_range(0, 2)),
        pd.Series(pd.interval_range(0, 2, closed="both")),
    ),
    "index: names of levels": (INDEX, INDEX.rename(["p", "r"])),
    "index: unused level": (INDEX[:1], INDEX.set_levels(["a", "c"], level=1)[:1]),
    "frame: number": (FRAME, FRAME.assign(age=[1.5, 2.6])),
    "frame: text": (FRAME, FRAME.assign(name=["a", "c"])),
    "frame: column": (FRAME, FRAME.rename(columns={"age": "ago"})),
    "frame: index": (FRAME, FRAME.rename(index={"r1": "r3"})),
    "frame: name of the index": (FRAME, FRAME.rename_axis("z")),
    "frame: name of the columns": (FRAME, FRAME.rename_axis(columns="z")),
    "frame: dtype": (FRAME, FRAME.astype({"age": "f4"})),
    "frame: order of columns": (FRAME, FRAME[list(FRAME.columns[::-1])]),
    "frame: order of rows": (FRAME, FRAME.iloc[::-1]),
    "frame: order of categories": (
        FRAME,
        with_kind(lambda kind: kind.reorder_categories(["u", "v", "w"])),
    ),
    "frame: unused category": (FRAME, with_kind(lambda kind: kind.rename_categories({"w": "q"}))),
    "frame: attribute": (with_attrs(k=3), with_attrs(k=4)),
    "frame: one name twice": (
        pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]),
        pd.DataFrame([[1.0, 3.0]], columns=["a", "a"]),
    ),
    "frame in a dict in a tuple": (({"a": FRAME}, 1), ({"a": FRAME.rename(columns={"n": "m"})}, 1)),
    "polars: column": (pl.DataFrame({"a": [1], "t": ["x"]}), pl.DataFrame({"a": [1], "u": ["x"]})),
    "polars: missing": (pl.Series("a", [1.0, None]), pl.Series("a", [1.0, 0.0])),
    "polars: unused category": (
        pl.Series(["x"], dtype=pl.Enum(["x", "y"])),
        pl.Series(["x"], dtype=pl.Enum(["x", "z"])),
    ),
    "polars: list": (pl.Series([[1, 2], [3]]), pl.Series([[1, 2], [4]])),
    "arrow: metadata": (TABLE, TABLE.replace_schema_metadata({"m": "2"})),
    "arrow: column": (TABLE, TABLE.rename_columns(["a", "u"])),
    "arrow: missing": (pa.array([1, None]), pa.array([1, 0])),
    "arrow: chunks": (pa.chunked_array([[1], [2]]), pa.chunked_array([[1, 2]])),
    "graph: edge": (nx.Graph([(0, 1)]), nx.Graph([(0, 2)])),
    "graph: attribute": (nx.Graph([(0, 1)]), nx.Graph([(0, 1, {"w": 1})])),
    "graph: order": (nx.Graph([(0, 1), (2, 3)]), nx.Graph([(2, 3), (0, 1)])),
    "slot of a float": (adding(SlotFloat(1), a=1), adding(SlotFloat(1), a=2)),
    "text that prints nothing": (Hidden("a"), Hidden("b")),
    "key that prints nothing": ({Hidden("a"): 1}, {Hidden("b"): 1}),
    "digits of a huge key": ({10**5000: 1}, {10**5000 + 1: 1}),
    "class of an array": (np.zeros((1, 2)), np.matrix([[0.0, 0.0]])),
    "attribute of an array": (
        adding(np.zeros(2).view(Quantity), unit="m"),
        adding(np.zeros(2).view(Quantity), unit="s"),
    ),
    "attribute of a masked array": (
        adding(np.ma.zeros(2), unit="m"),
        adding(np.ma.zeros(2), unit="s"),
    ),
    "masked constant": (np.ma.masked, 0.0),
    "shape of an empty array": (np.empty((0, 3), object), np.empty((0, 4), object)),
    "field of an empty array": (np.empty(0, [("a", "i4")]), np.empty(0, [("b", "i4")])),
    "attribute of a time": (adding(Moment(2020, 1, 1), a=1), adding(Moment(2020, 1, 1), a=2)),
    "attribute of a decimal": (adding(Precise(1), a=1), adding(Precise(1), a=2)),
    "attribute of a deque": (adding(Queue([1]), a=1), adding(Queue([1]), a=2)),
    "attribute that no copy has": (adding(Forgetful(), a=1), adding(Forgetful(), a=2)),
    "slot of a base of a dataclass": (SlotAnswer(1.0), SlotAnswer(2.0)),
    "zone that prints nothing": (DAY.replace(tzinfo=Zone(1)), DAY.replace(tzinfo=Zone(2))),
    "default of a dict": (collections.defaultdict(int), collections.defaultdict(list)),
    "argument of an exception": (Mute(1), Mute(2)),
    "exception in a group": (
        ExceptionGroup("g", [ValueError(1)]),
        ExceptionGroup("g", [ValueError(2)]),
    ),
    "bytes of an exception": (
        UnicodeDecodeError("u8", b"a", 0, 1, "x"),
        UnicodeDecodeError("u8", b"b", 0, 1, "x"),
    ),
    "series: storage": (of_type("string[python]", "a"), of_type("string[pyarrow]", "a")),
    "index: frequency": (
        pd.date_range("2020", periods=3),
        pd.DatetimeIndex(list(pd.date_range("2020", periods=3))),
    ),
    "frame: attribute of the object": (adding(FRAME.copy(), a=1), adding(FRAME.copy(), a=2)),
    "polars: 128 bits": (
        pl.Series([2**100], dtype=pl.Int128),
        pl.Series([2**100 + 1], dtype=pl.Int128),
    ),
    "polars: nanosecond in a list": (
        pl.Series([[1]], dtype=pl.List(pl.Time)),
        pl.Series([[2]], dtype=pl.List(pl.Time)),
    ),
    "arrow: nanosecond": (arrow(pa.time64("ns"), 1), arrow(pa.time64("ns"), 2)),
    "arrow: nanosecond of a scalar": (arrow(pa.time64("ns"), 1)[0], arrow(pa.time64("ns"), 2)[0]),
    "arrow: far date": (arrow(pa.date32(), 2**30), arrow(pa.date32(), 2**30 + 1)),
    "arrow: metadata of a field": tuple(
        pa.schema([pa.field("a", pa.int8(), metadata={"k": m})]) for m in "12"
    ),
    "arrow: metadata of an inner field": tuple(
        arrow(pa.list_(pa.field("i", pa.int8(), metadata={"k": m})), [1]) for m in "12"
    ),
    "graph: order of neighbors": (joined((1, 2), (0, 2)), joined((0, 2), (1, 2))),
    "graph: attribute of the object": (adding(nx.Graph(), a=1), adding(nx.Graph(), a=2)),
    "sparse: attribute of the object": (
        adding(sparse.csr_array([[1.0]]), a=1),
        adding(sparse.csr_array([[1.0]]), a=2),
    ),
    "sparse: stored zero": (
        sparse.csr_array(([0.0, 1.0], [0, 1], [0, 2]), (1, 2)),
        sparse.csr_array(([1.0], [1], [0, 1]), (1, 2)),
    ),
    "sparse: format": (sparse.coo_array([[0, 1.0]]), sparse.csr_array([[0, 1.0]])),
}


@pytest.mark.parametrize("case", CASES)
def test_one_leaf_makes_another_row_here_and_after_a_journey(case):
    first, second = CASES[case]
    here = encode([first, second, first], 3)
    there = encode([sent(first), sent(second), sent(first)], 3)
    keys = row_keys(here.matrix())
    assert keys[0] == keys[2] != keys[1] and not here.opaque
    assert (
        here.names == there.names
        and here.texts == there.texts
        and np.array_equal(here.matrix(), there.matrix(), equal_nan=True)
    )
