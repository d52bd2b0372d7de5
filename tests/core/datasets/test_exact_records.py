"""Records are the same where type and all bits are: values that look alike, by repr or by ==, are
different records.

Each way to hold records meets each pair of values that are easily taken for one another: changed
once it is a neighbor, changed twice not.
"""

import dataclasses
import datetime as dt
import enum
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwitness.core.datasets.records import exact
from dpwitness.mechanisms import InvalidArgument, Pair

pd, pl, pa, nx = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow", "networkx"))

LONG = np.zeros(5000)  # its repr is elided
MIDDLE = LONG.copy()
MIDDLE[2500] = 1.0


class Color(enum.IntEnum):
    RED = 1


class Size(enum.IntEnum):
    SMALL = 1


class Weighted(float):
    """A float that carries more than its value."""

    def __new__(cls, value, weight):
        found = super().__new__(cls, value)
        found.weight = weight
        return found


@dataclasses.dataclass
class Visit:
    place: object

    def __repr__(self):
        return "Visit()"

    def __eq__(self, other):
        return True

    __hash__ = None


ALIKE = {
    "1 and 1.0": (1, 1.0),
    "zeros": (0.0, -0.0),
    "a float and its neighbor": (0.1 + 0.2, 0.3),
    "float widths": (np.float64(0.5), np.float32(0.5)),
    "integer widths": (np.int64(1), np.int8(1)),
    "enumerations": (Color.RED, Size.SMALL),
    "a float with an attribute": (Weighted(1.0, 2), Weighted(1.0, 3)),
    "long arrays": ((LONG, 0), (MIDDLE, 0)),
    "dtypes": ((np.zeros(2), 0), (np.zeros(2, np.float32), 0)),
    "byte orders": ((np.array([1.0]), 0), (np.array([1.0]).view(">f8"), 0)),
    "shapes": ((np.zeros((2, 3)), 0), (np.zeros((3, 2)), 0)),
    "masks": ((np.ma.array([999999], mask=[0]), 0), (np.ma.array([999999], mask=[1]), 0)),
    "one and a truth value inside": ([1, "a"], [True, "a"]),
    "None and NaN inside": ([None, 2], [float("nan"), 2]),
    "a number and its text inside": ([1, 2], ["1", 2]),
    "objects of one repr": (Visit(1), Visit(2)),
    "decimals": (Decimal("1.0"), Decimal("1.00")),
    "times of one spelling": (
        dt.datetime(2020, 10, 25, 2, fold=0),
        dt.datetime(2020, 10, 25, 2, fold=1),
    ),
    "texts of one look": ("é", "e\u0301"),
    "values of a dict": ({"a": [1]}, {"a": [1.0]}),
    "a key that is absent": ({"a": 1, "b": None}, {"a": 1}),
}
HOLDS = {
    "a list": lambda values: list(values),
    "a tuple": lambda values: tuple(values),
    "a list of dicts": lambda values: [{"user": i, "held": v} for i, v in enumerate(values)],
    "a list of dicts under numbers": lambda values: [{0: i, 1: v} for i, v in enumerate(values)],
    "a list of tuples": lambda values: [(i, v) for i, v in enumerate(values)],
    "a dict of entries": lambda values: {i: {"held": v} for i, v in enumerate(values)},
    "columns": lambda values: {"held": list(values), "user": list(range(len(values)))},
}


@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("alike", ALIKE)
def test_what_looks_alike_is_another_record(alike, hold):
    first, second = ALIKE[alike]
    if not isinstance(first, str | int | float) and hold in ("a tuple",):
        pytest.skip("a tuple of lists is columns")
    build = HOLDS[hold]
    base = build([first, first, first])
    assert exact(first) != exact(second) and exact(first) == exact(first)
    Pair(base, build([first, second, first]))
    for relation in ("replace-one", "add-remove", "event"):
        with pytest.raises(InvalidArgument):
            Pair(base, build([second, first, second]), relation)
    unit = {
        "a list of dicts": "user",
        "a list of dicts under numbers": "0",
        "a list of tuples": "0",
        "columns": "user",
    }.get(hold)
    if unit is not None:
        Pair(base, build([first, second, first]), f"replace-one:unit={unit}")
        with pytest.raises(InvalidArgument, match=f"2 values of {unit} have other records"):
            Pair(base, build([second, first, second]), f"replace-one:unit={unit}")
        with pytest.raises(
            InvalidArgument, match=f"column {unit} differs too|must name some of the columns|column"
        ):
            Pair(base, build([first, second, first]), f"attribute:columns={unit}")


values = st.sampled_from([v for pair in ALIKE.values() for v in pair])


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(values, min_size=3, max_size=6),
    st.sets(st.integers(0, 5), min_size=1, max_size=3),
    values,
    st.integers(1, 2),
)
def test_as_many_records_may_differ_as_the_relation_says(items, places, other, k):
    places = {place % len(items) for place in places}
    base = [{"held": item} for item in items]
    moved = [{"held": other if i in places else item} for i, item in enumerate(items)]
    different = sum(exact(a) != exact(b) for a, b in zip(base, moved, strict=True))
    if 1 <= different <= k:
        Pair(base, moved, k=k)
    else:
        with pytest.raises(InvalidArgument):
            Pair(base, moved, k=k)


def test_the_order_of_a_dict_or_a_set_is_no_difference():
    first, second = [{"a": 1, "b": 2}, {"a": 3, "b": 4}], [{"b": 2, "a": 1}, {"b": 5, "a": 3}]
    Pair(first, second)
    Pair({"x": [1, 2], "y": [3, 4]}, {"y": [3, 5], "x": [1, 2]})
    assert exact({"a": {1, 2}}) == exact({"a": {2, 1}})


MISSING = {
    "None": (
        [{"user": None, "x": 1}, {"user": None, "x": 2}, {"user": "a", "x": 3}],
        "2 of 3 records of D0 have no user .rows 0, 1",
    ),
    "NaN": (
        [{"user": float("nan"), "x": 1}, {"user": 1.0, "x": 3}],
        "1 of 2 records of D0 have no user",
    ),
    "an absent key": ([{"x": 1}, {"user": 1, "x": 3}], "1 of 2 records of D0 have no user"),
    "a column with NaN": (
        {"user": np.array([1.0, np.nan]), "x": np.ones(2)},
        "1 of 2 records of D0 have no user",
    ),
    "times that are none": (
        {"user": np.array(["2020", "NaT"], "M8[D]"), "x": np.ones(2)},
        "1 of 2 records of D0 have no user",
    ),
    "a masked column": (
        {"user": np.ma.array([1, 2], mask=[0, 1]), "x": np.ones(2)},
        "1 of 2 records of D0 have no user",
    ),
    "a decimal": ([{"user": Decimal("NaN"), "x": 1}], "1 of 1 records of D0 have no user"),
    "pandas floats": (
        pd.DataFrame({"user": [1.0, np.nan], "x": 1}),
        "1 of 2 records of D0 have no user",
    ),
    "pandas texts": (
        pd.DataFrame({"user": ["a", None], "x": 1}),
        "1 of 2 records of D0 have no user",
    ),
    "pandas integers": (
        pd.DataFrame({"user": pd.array([1, None], dtype="Int64"), "x": 1}),
        "1 of 2 records of D0 have no user",
    ),
    "pandas categories": (
        pd.DataFrame({"user": pd.Categorical(["a", None]), "x": 1}),
        "1 of 2 records of D0 have no user",
    ),
    "pandas times": (
        pd.DataFrame({"user": pd.to_datetime(["2020-01-01", None]), "x": 1}),
        "1 of 2 records of D0 have no user",
    ),
    "polars": (
        pl.DataFrame({"user": ["a", None], "x": [1, 2]}),
        "1 of 2 records of D0 have no user",
    ),
    "arrow": (pa.table({"user": [1, None], "x": [1, 2]}), "1 of 2 records of D0 have no user"),
    "numbers of two types": (
        [{"user": 1, "x": 1}, {"user": 1.0, "x": 3}],
        "must hold numbers of one type, got float and int",
    ),
    "a truth value": (
        [{"user": 1, "x": 1}, {"user": True, "x": 3}],
        "must hold numbers of one type, got bool and int",
    ),
}


@pytest.mark.parametrize("relation", ["add-remove:unit=user", "replace-one:unit=user"])
@pytest.mark.parametrize("name", MISSING)
def test_records_of_nobody_are_refused(name, relation):
    dataset, told = MISSING[name]
    with pytest.raises(InvalidArgument, match=told):
        Pair(dataset, dataset[:0] if isinstance(dataset, list) else dataset, relation)


def test_a_matrix_whose_users_are_missing_or_signed_zeros():
    rows = np.array([[np.nan, 1.0], [2.0, 3.0]])
    with pytest.raises(
        InvalidArgument, match="give each record a value of 0, or leave these records out"
    ):
        Pair(rows, rows[1:], "add-remove:unit=0")
    zeros = np.array([[0.0, 1.0], [-0.0, 3.0]])
    with pytest.raises(InvalidArgument, match="all records of a unit are added or removed"):
        Pair(zeros, zeros[:1], "add-remove:unit=0")
