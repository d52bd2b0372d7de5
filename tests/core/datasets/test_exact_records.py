"""Records are the same where type and all bits are: values that look alike, by repr or by ==, are
different records.

Each way to hold records meets each pair of values that are easily taken for one another: changed
once it is a neighbor, changed twice not.
"""

import dataclasses
import datetime as dt
import enum
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpwitness.core.datasets.records import exact
from dpwitness.mechanisms import InvalidArgument, LabelledVectors, Organisations, Pair

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


class Opaque:
    def __repr__(self):
        return "Opaque()"

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


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
        with pytest.raises(InvalidArgument, match=f"the records of 2 values of {unit} differ"):
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


def graph(**attributes):
    found = nx.path_graph(4)
    for node in found:
        found.nodes[node].update(attributes)
    return found


@pytest.mark.slow_cases("edges-long arrays", "nodes-long arrays", "nodes-masks")
@pytest.mark.parametrize("alike", ALIKE)
@pytest.mark.parametrize("place", ["nodes", "edges", "graph"])
def test_attributes_of_graphs_are_compared_exactly(alike, place):
    first, second = ALIKE[alike]
    sides = [nx.path_graph(4), nx.path_graph(4)]
    for side, value in zip(sides, (first, second), strict=True):
        if place == "nodes":
            nx.set_node_attributes(side, {0: value, 3: value}, "held")
        elif place == "edges":
            nx.set_edge_attributes(side, {(0, 1): value, (2, 3): value}, "held")
        else:
            side.graph["held"] = value
    sides[1].add_edge(0, 3)
    for relation in ("edge", "replace-edge", "node", "replace-node"):
        with pytest.raises(InvalidArgument):
            Pair(sides[0], sides[1], relation)
    same = nx.path_graph(4)
    nx.set_node_attributes(same, first, "held")
    other = same.copy()
    other.nodes[2]["held"] = second
    Pair(same, other, "replace-node")
    other.nodes[3]["held"] = second
    with pytest.raises(InvalidArgument):
        Pair(same, other, "replace-node")


def test_attributes_that_cannot_be_compared_are_refused_with_a_remedy():
    with pytest.raises(
        InvalidArgument,
        match=r"node 0 of D0 cannot be compared exactly: got Opaque; give numbers, texts, arrays",
    ):
        Pair(graph(held=Opaque()), graph(held=Opaque()), "replace-node")
    with pytest.raises(InvalidArgument, match="cannot be compared exactly"):
        Pair(graph(held=np.array([Opaque()])), graph(held=np.array([Opaque()])), "node")


def test_nodes_and_parallel_edges_are_compared_exactly():
    with pytest.raises(InvalidArgument, match=r"nodes differ|nodes are in one"):
        Pair(nx.Graph([(0, 1), (1, 2)]), nx.Graph([(0.0, 1), (1, 2), (2, 0.0)]), "edge")
    first, second = nx.MultiGraph(), nx.MultiGraph()
    for keys, found in (((0, 1), first), ((5, 6), second)):
        for key in keys:
            found.add_edge("a", "b", key=key)
    second.add_edge("a", "b", key=7)
    with pytest.raises(InvalidArgument, match="5 edges are in one"):
        Pair(first, second, "edge")


USERS = pd.DataFrame({"user": ["a", "a", "b", "b"], "x": [1, 2, 3, 4]})
CITIES = pd.DataFrame({"city": pd.Categorical(["u", "v"], categories=["u", "v"]), "x": [1, 2]})


def recoded(frame, categories):
    return frame.assign(city=frame.city.cat.set_categories(categories))


def in_dictionary(codes, known, x):
    return pa.table({"c": pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(known)), "x": x})


def with_attributes(frame, **held):
    found = frame.copy()
    found.attrs.update(held)
    return found


BEYOND = {
    "labels of rows": (
        USERS.set_axis([5, 6, 7, 8]),
        USERS.set_axis([1, 2, 3, 4]).assign(x=[1, 2, 3, 9]),
        "4 records differ",
    ),
    "labels of rows that are added": (
        USERS.set_axis([5, 6, 7, 8]),
        USERS.iloc[:3],
        "add-remove",
        "7 records are in one",
    ),
    "an index and a column of its name": (
        pd.DataFrame({"index": [1, 2]}, index=["p", "q"]),
        pd.DataFrame({"index": [1, 3]}, index=["r", "s"]),
        "2 records differ",
    ),
    "columns 1 and '1'": (pd.DataFrame({1: [1, 2], "1": [3, 4]}),) * 2
    + ("names differ as texts, got '1' twice",),
    "codes of categories": (
        CITIES,
        recoded(CITIES, ["v", "u"]).assign(x=[1, 9]),
        "the categories of column city",
    ),
    "another category": (
        CITIES,
        recoded(CITIES, ["u", "v", "w"]).assign(x=[1, 9]),
        "the categories of column city",
    ),
    "an enum of polars": (
        pl.DataFrame({"c": pl.Series(["a"], dtype=pl.Enum(["a", "b"])), "x": [1]}),
        pl.DataFrame({"c": pl.Series(["a"], dtype=pl.Enum(["b", "a"])), "x": [2]}),
        "the categories of column c",
    ),
    "a dictionary of Arrow": (
        in_dictionary([0, 1], ["a", "b"], [1, 2]),
        in_dictionary([1, 0], ["b", "a"], [1, 3]),
        "the categories of column c",
    ),
    "attributes of a frame": (
        with_attributes(USERS, year=1),
        with_attributes(USERS.iloc[:3], year=2),
        "add-remove",
        "differ in attrs",
    ),
    "byte order": (
        np.array([1.0, 2.0]),
        np.array([1.0, 3.0]).astype(">f8"),
        "D1 is an array of >f8",
    ),
    "bytes in another order": (
        np.array([1.0, 2.0, 5.0]),
        np.array([1.0, 2.0, 7.0]).view(">f8"),
        "D1 is an array of >f8",
    ),
    "time zones": (
        pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2021-01-01"]).tz_localize("UTC")}),
        pd.DataFrame(
            {
                "t": pd.to_datetime(["2020-01-01", "2022-01-01"])
                .tz_localize("UTC")
                .tz_convert("Europe/Berlin")
            }
        ),
        "Europe/Berlin",
    ),
    "units of times": (
        np.array(["2020", "2021"], "M8[D]"),
        np.array(["2020", "2022"], "M8[s]"),
        "D1 is an array of",
    ),
    "fill values": (
        np.ma.array([1.0, 2], fill_value=0),
        np.ma.array([1.0, 3], fill_value=9),
        "the fill value",
    ),
    "a column after the 64th": (
        [[0] * 100],
        [[1] + [0] * 98 + [1]],
        "attribute:columns=0",
        "column 99 differs too",
    ),
    "a column of D1 only": (
        [{"a": 1}],
        [{"a": 2, "z": 9}],
        "attribute:columns=a",
        "only D1 has the column z",
    ),
    "a place of D1 only": (
        [[1, 2]],
        [[3, 2, 9]],
        "attribute:columns=0",
        "only D1 has the column 2",
    ),
    "None for an absent value": (
        [{"a": 1, "b": None}],
        [{"a": 2}],
        "attribute:columns=a",
        "column b",
    ),
    "columns under numbers": (
        [{0: 1, 1: 2}],
        [{0: 3, 1: 4}],
        "attribute:columns=0",
        "column 1 differs too",
    ),
    "the label of an index": (
        pd.DataFrame({"x": [1], "y": [2]}, index=[7]),
        pd.DataFrame({"x": [1], "y": [3]}, index=[9]),
        "label",
        "column label of the index differs too",
    ),
    "a key of an entry": (
        {"a": 1, "b": 2},
        {"c": 1, "b": 2},
        "attribute:columns=value",
        "column key differs too",
    ),
    "a list and a tuple of answers": ([0, 1], (0, 2), "l1", "D0 is of list, D1 of tuple"),
    "the type of another answer": (
        [0, 1],
        [0.0, 2],
        "l1",
        "answer 0 is of type int in D0 and float in D1",
    ),
    "a column named key": (
        {"key": [1, 2], "x": [1, 2]},
        {"key": [1, 2], "x": [8, 9]},
        "replace-one:unit=key",
        "the records of 2 values of key differ",
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_what_differs_beside_the_record_is_refused(name):
    d0, d1, *relation, told = BEYOND[name]  # the relation is replace-one where none is named
    with pytest.raises(InvalidArgument, match=told):
        Pair(d0, d1, *relation)
    with pytest.raises(InvalidArgument):
        Pair(d1, d0, *relation)


class Tagged(list):
    """A list that carries more than its items."""

    def __init__(self, items, tag):
        super().__init__(items)
        self.tag = tag


@dataclasses.dataclass
class Basket:
    items: list
    year: int = 2020

    def records(self):
        return self.items


@dataclasses.dataclass
class Votes:
    held: list

    def counts(self):
        return Counter(self.held)


def test_a_dataset_class_differs_in_its_records_only():
    Pair(Basket([1, 2]), Basket([1, 3]))
    with pytest.raises(
        InvalidArgument,
        match="differ in field year, which belongs to no record: give both the same",
    ):
        Pair(Basket([1, 2]), Basket([1, 3], 2021))
    with pytest.raises(InvalidArgument, match="differ in attribute tag"):
        Pair(Tagged([1, 2], "p"), Tagged([1, 3], "q"))
    Pair(Tagged([1, 2], "p"), Tagged([1, 3], "p"))
    with pytest.raises(InvalidArgument, match="2 records differ"):
        Pair(Votes([1, 5]), Votes([True, 6]))
    Pair(Votes([1, 5]), Votes([1, 6]))


def test_a_record_does_not_change_its_organization():
    one, two = LabelledVectors([[1.0], [2.0]], [1, 1]), LabelledVectors([[3.0]], [1])
    joined = LabelledVectors([[1.0], [2.0], [3.0]], [1, 1, 1])
    Pair(Organisations((one, two)), Organisations((one, LabelledVectors([[4.0]], [1]))))
    with pytest.raises(InvalidArgument, match=r"their groups have \[2, 1\] and \[3\] records"):
        Pair(Organisations((one, two)), Organisations((joined,)))


def test_rows_are_named():
    with pytest.raises(InvalidArgument, match="; rows 1, 2 of D0; rows 0, 3 of D1"):
        Pair([1, 2, 3, 4], [9, 1, 4, 8], "add-remove")
    with pytest.raises(InvalidArgument, match=r"2 entries differ, at most 1 may; rows 0, 1 of D0"):
        Pair({"a": 1, "b": 2}, {"a": 9, "b": 9})


def test_labels_of_rows_that_are_gone_or_equal_are_legal():
    Pair(USERS, USERS.drop(1), "add-remove")
    Pair(USERS, USERS.drop(1).reset_index(drop=True), "add-remove")
    Pair(USERS.drop(1), USERS.drop(1).assign(x=[1, 3, 9]))
    Pair(USERS.drop(1), USERS.drop([1, 3]), "add-remove")
    with pytest.raises(
        InvalidArgument,
        match=r"without the labels of the index they would be neighbors: give both frames "
        r'"reset_index',
    ):
        Pair(USERS.set_axis([9, 8, 7, 6]), USERS.iloc[:3], "add-remove")
    Pair(CITIES, CITIES.assign(x=[1, 9]))
