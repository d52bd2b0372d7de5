"""Properties of values that Hypothesis makes up: they come back from their parts, from JSON and from
the wire, two have the same key if and only if they are equal, and a changed leaf changes the columns
of an output.
"""

import datetime as dt
import io
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dpwitness.auditors.events.outputs import encode
from dpwitness.core.datasets.records import exact, read_records
from dpwitness.core.values.json_codec import from_jsonable, same_value, to_jsonable
from dpwitness.core.values.object_tree import put_together, take_apart
from dpwitness.mechanisms.wrappers.programs.inside import codec

made_up = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
floats = st.floats() | st.sampled_from([0.0, -0.0, 1e-310, float("inf"), float("nan")])
numbers = st.integers() | st.integers(-(2**80), 2**80) | floats | st.booleans()
texts = st.text(max_size=4) | st.sampled_from(["12 ab", "1.50", "é", "e\u0301"])
times = (
    st.dates()
    | st.datetimes()
    | st.times()
    | st.timedeltas()
    | st.datetimes(timezones=st.just(dt.timezone(dt.timedelta(hours=2))))
)
decimals = st.decimals(allow_nan=False, places=2, min_value=-99, max_value=99).map(Decimal)
# of the types that are none of Python's
scalars = st.sampled_from([np.float32(0.5), np.int8(3), np.int64(3), np.bool_(True)])


@st.composite
def arrays(draw):
    dtype, shape = (
        draw(st.sampled_from(["f8", "f4", "i8", "u1", "?", "c16", "U2", "M8[D]", "m8[ns]"])),
        draw(st.sampled_from([(), (0,), (3,), (2, 2), (2, 0)])),
    )
    found = draw(
        st.lists(st.integers(0, 99), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
    )
    if dtype == "?":
        return np.array(found).reshape(shape) % 2 == 1
    return np.array(found, dtype="i8").reshape(shape).astype(dtype)


leaves = st.none() | numbers | texts | st.binary(max_size=3) | times | decimals | scalars | arrays()
keys = st.text(max_size=2) | st.integers(-3, 3)


def containers(inner):
    return (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.frozensets(st.integers(-9, 9) | st.text(max_size=2), max_size=3)
    )


values = st.recursive(leaves, containers, max_leaves=6)
columns = st.sampled_from(
    [
        [0.5, float("nan"), -0.0],
        ["a", None, "b"],
        [True, False, True],
        pd.array([1, None, 3], dtype="Int64"),
        pd.Categorical(["x", None, "x"], categories=["x", "y"]),
        pd.to_datetime(["2024-02-29", None, "2024-03-01"]),
    ]
)
pandas_frames = st.dictionaries(st.sampled_from("abc"), columns, min_size=1).map(pd.DataFrame)
frames = pandas_frames | pandas_frames.map(pl.from_pandas) | pandas_frames.map(pa.Table.from_pandas)


def same(a, b):
    """Types and all bits are equal."""
    if isinstance(a, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b, check_exact=True)
        return True
    if isinstance(b, pl.DataFrame):
        a, b = a.to_arrow(), b.to_arrow()
    if isinstance(b, pa.Table):
        return a.schema.equals(b.schema) and repr(a.to_pydict()) == repr(b.to_pydict())
    return type(a) is type(b) and exact(a) == exact(b)


@made_up
@given(values | frames | st.complex_numbers() | st.fractions())
def test_a_value_is_put_together_from_its_parts(value):
    found = take_apart(value)
    assume(found is not None)
    again = put_together(*found)
    assert again == value if isinstance(value, Fraction) else same(again, value)


@made_up
@given(values | frames)
def test_a_value_comes_back_from_json(value):
    found = from_jsonable(to_jsonable(value))
    assert same(found, value) and same_value(found, value)


@made_up
@given(values | frames | st.complex_numbers() | st.fractions().map(Fraction))
def test_a_value_comes_back_from_the_wire(value):
    blobs = []
    packed = codec.pack(value, blobs, exact=True)
    message = io.BytesIO(b"".join(bytes(part) for part in codec.message({"value": packed}, blobs)))
    header, blobs = codec.receive(message.readline, message.read)
    found = codec.unpack(header["value"], blobs)
    assert found == value if isinstance(value, Fraction) else same(found, value)


@made_up
@given(values, values)
def test_two_values_have_one_key_if_and_only_if_they_are_equal(one, other):
    assert (exact(one) == exact(other)) == same_value(one, other)
    assert exact(one) == exact(from_jsonable(to_jsonable(one)))


@st.composite
def changed(draw):
    """A value, and the value with one leaf changed."""
    first, second = draw(leaves), draw(leaves)
    assume(not same_value(first, second))
    build = draw(
        st.sampled_from(
            [
                lambda leaf: leaf,
                lambda leaf: [1.0, leaf],
                lambda leaf: (leaf, "a"),
                lambda leaf: {"a": leaf, "b": 2},
                lambda leaf: {"a": [leaf]},
            ]
        )
    )
    return build(first), build(second)


@made_up
@given(changed())
def test_a_changed_leaf_changes_columns_or_structure(pair):
    found = encode(list(pair), 2)
    same_codes = found.codes[0] == found.codes[1]
    assert not (same_codes and np.array_equal(*found.values, equal_nan=True))


def differ(one, other):
    """The keys of the records are different, and so are the columns of the outputs."""
    found = encode([one, other], 2)
    keys = [read_records(frame, "D0").keys for frame in (one, other)]
    return keys[0] != keys[1] and not (
        found.codes[0] == found.codes[1] and np.array_equal(*found.values, equal_nan=True)
    )


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize(
    ("column", "entry"),
    [
        (pd.array([0.5, -0.0, 3.0]), 0.0),
        (pd.array(["a", "", None], dtype="str"), None),
        (pd.array([True, None, False], dtype="boolean"), True),
        (pd.array([1, 2**62, None], dtype="Int64"), 2**62 + 1),
        (pd.Categorical(["x", None, "x"], categories=["x", "y"]), "y"),
        (pd.to_datetime(["2024-02-29", "2024-03-01", None]).array, None),
    ],
    ids=lambda part: str(getattr(part, "dtype", part)),
)
def test_a_changed_entry_of_a_frame_changes_key_and_columns(library, column, entry):
    first, second = pd.DataFrame({"a": column}), pd.DataFrame({"a": column.copy()})
    second.iloc[1, 0] = entry
    assert differ(library(first), library(second))


@pytest.mark.parametrize("value", [{1: 2}, [2**90], {"$type": "float"}, (), [[]], {}])
def test_keys_and_huge_numbers_come_back(value):
    assert same(from_jsonable(to_jsonable(value)), value)
