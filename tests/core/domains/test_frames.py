"""Frames and graphs as datasets: taken apart and built again exactly, compared record by record,
and drawn by their domains.
"""

import datetime as dt
import json
import subprocess
import sys

import numpy as np
import pytest

from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.search.drafts import Drafts
from dpwitness.core.values.dataframe_backends import from_parts, to_parts
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.mechanisms import Graph, InvalidArgument, Pair, Table

pd, pl, pa, nx = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow", "networkx"))

PANDAS = pd.DataFrame(
    {
        "float": [1.5, np.nan],
        "int": [1, 2],
        "text": ["x", None],
        "category": pd.Categorical(["u", None], categories=["u", "v"], ordered=True),
        "object": pd.Series(["p", None], dtype=object),
        "date": pd.to_datetime(["2020-01-01", None]),
        "whole": pd.array([1, None], dtype="Int64"),
        "truth": pd.array([True, None], dtype="boolean"),
        "zone": pd.to_datetime(["2020-01-01", "2021-05-05"]).tz_localize("Europe/Berlin"),
        "python text": pd.array(["q", None], dtype="string[python]"),
        3: [True, False],
    }
)
POLARS = pl.DataFrame(
    {
        "float": [1.0, None],
        "text": ["x", None],
        "day": [dt.date(2020, 1, 1), None],
        "time": [dt.datetime(2020, 1, 1), None],
        "truth": [True, None],
    }
).with_columns(
    pl.col("text").cast(pl.Categorical).alias("c"),
    pl.col("text").cast(pl.Enum(["x", "y"])).alias("e"),
)
ARROW = pa.table(
    {
        "a": [1, None],
        "t": ["a", None],
        "c": pa.array(["a", None]).dictionary_encode(),
        "d": pa.array([dt.date(2020, 1, 1), None]),
    }
)
FRAMES = {
    "pandas": PANDAS,
    "rows gone": PANDAS.drop(0),
    "index": pd.DataFrame({"z": [1]}, index=["k"]),
    "polars": POLARS,
    "arrow": ARROW,
}
FRAMES |= {"no rows": PANDAS.iloc[:0], "no polars": POLARS.head(0), "no arrow": ARROW.slice(0, 0)}

USERS = pd.DataFrame({"user": ["a", "a", "b", "b"], "x": [1, 2, 3, 4]})
PATH = nx.path_graph(4)


def graph_with(add=(), remove=(), without=None):
    found = PATH.copy()
    found.add_edges_from(add)
    found.remove_edges_from(remove)
    if without is not None:
        found.remove_node(without)
    return found


@pytest.mark.parametrize("name", FRAMES)
def test_frames_come_back_as_they_were(name):
    frame = FRAMES[name]
    for found in (
        from_parts(to_parts(frame)),
        from_jsonable(json.loads(json.dumps(to_jsonable(frame)))),
    ):
        assert type(found) is type(frame) and found.equals(frame)
        schemas = [
            each.schema if name.endswith("arrow") else each.dtypes for each in (found, frame)
        ]
        assert list(schemas[0]) == list(schemas[1])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pd.DataFrame({"x": [1, "a"]}),
            "column 'x' must hold .* all of one type; it holds values of type int",
        ),
        (pd.DataFrame({"x": [10**30, 1]}), "column 'x' must hold .* numbers of 64 bits"),
        (
            pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([("y", 1)])),
            "the index must hold .* of type tuple",
        ),
        (pd.DataFrame({"x": [[1], [2]]}), "column 'x' must hold .* it holds values of type list"),
        (pl.DataFrame({"x": [[1], [2]]}), "column 'x' has type List"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "names of columns must differ"),
        (pd.DataFrame({(1, 2): [1]}), "names of columns must be texts or whole numbers"),
    ],
)
def test_what_a_frame_cannot_hold_is_refused_in_one_line(frame, message):
    with pytest.raises(InvalidArgument, match=f"Pair: D0: {message}"):
        Pair(frame, frame)


@pytest.mark.parametrize(
    ("d0", "d1", "relation"),
    [
        (USERS, USERS.assign(x=[1, 2, 3, 9]), "replace-one"),
        (USERS, USERS.iloc[:3], "add-remove"),
        (USERS, USERS.iloc[:2], "add-remove:unit=user"),
        (USERS, USERS.assign(x=[1, 2, 7, 9]), "replace-one:unit=user"),
        (USERS, USERS.assign(x=[1, 2, 7, 9]), "replace-one:k=2"),
        (USERS, USERS.assign(x=[1, 2, 7, 4]), "attribute:columns=x"),
        (pl.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": [1, 3]}), "replace-one"),
        (USERS.to_dict("records"), USERS.to_dict("records")[:2], "add-remove:unit=user"),
        ([], USERS.to_dict("records")[:2], "add-remove:unit=user"),
        (np.array([[1.0, 5], [1, 6], [2, 7]]), np.array([[2.0, 7]]), "add-remove:unit=0"),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "replace-one"),
        ({"a": [1], "b": [2, 3]}, {"a": [1]}, "add-remove:unit=key"),
        ((np.eye(2), np.array([0, 1])), (np.eye(2), np.array([1, 1])), "label"),
        (list("abc"), list("ac"), "event"),
        (list("abcd"), list("abxd"), "event"),
        (list("abc"), list("bca"), "event:k=2"),
        (PATH, graph_with(add=[(0, 3)]), "edge"),
        (PATH, graph_with(add=[(0, 3)], remove=[(0, 1)]), "replace-edge"),
        (PATH, graph_with(without=1), "node"),
        (PATH, graph_with(add=[(1, 3)], remove=[(0, 1)]), "replace-node"),
        (object(), 7, "stated"),
    ],
)
def test_neighbours_of_every_kind(d0, d1, relation):
    pair = Pair(d0, d1, relation)
    assert pair.relation == relation == pair.swapped().relation
    assert bool(pair.unchecked) is (relation == "stated")


@pytest.mark.parametrize(
    ("d0", "d1", "relation", "told"),
    [
        (USERS, USERS.iloc[:2], "replace-one", "they are neighbors under add-remove:unit=user$"),
        (
            USERS,
            USERS.iloc[:3],
            "add-remove:unit=user",
            "all records of a unit are added or removed; they are neighbors under add-remove",
        ),
        (
            USERS,
            USERS.assign(x=[9, 2, 7, 9]),
            "replace-one:unit=user",
            "2 values of user have other records, at most 1 may",
        ),
        (
            USERS,
            USERS.assign(x=[9, 2, 3, 4]),
            "attribute:columns=user",
            "column x differs too, only user may",
        ),
        (
            np.zeros(2),
            np.ones(2),
            "replace-one",
            "2 records differ .* they are neighbors under linf",
        ),
        (
            np.zeros(2),
            9 * np.ones(2),
            "replace-one",
            'relations "l1", "l2" and "linf" are for vectors of answers',
        ),
        ([0.0, 0.0], [0.5, 0.5], "replace-one", "they are neighbors under l1, l2, linf"),
        (list("abc"), list("bca"), "event", "more than 1 events were added, removed or replaced"),
        (
            PATH,
            graph_with(add=[(0, 3)]),
            "replace-one",
            "relations of graphs are edge, .*neighbors under edge",
        ),
        (
            PATH,
            graph_with(add=[(0, 3), (0, 2)]),
            "edge",
            "2 edges are in one graph and not in the other, at most 1 may; .*replace-node",
        ),
        (
            PATH,
            graph_with(without=1),
            "replace-node",
            "the nodes may not differ; they are neighbors under node",
        ),
        (
            USERS,
            PATH,
            "edge",
            "not a networkx graph; they are not neighbors under any .* checked; "
            'relation="stated" accepts any two',
        ),
    ],
)
def test_what_is_none_names_what_it_would_be(d0, d1, relation, told):
    with pytest.raises(InvalidArgument, match=told):
        Pair(d0, d1, relation)


COLUMNS = {
    "age": (0, 120),
    "income": {"low": 0.0, "high": 1e5, "missing": True},
    "city": ["Ulm", "Bern", "Rom"],
    "day": {"low": "2024-01-01", "high": "2024-12-31"},
    "ok": {"categories": [True, False], "missing": True},
}
RELATIONS = [
    ("", None),
    ("add-remove", None),
    ("", "user"),
    ("replace-one:unit=user", "user"),
    ("add-remove:k=2", None),
    ("replace-one:k=2", None),
    ("attribute:columns=age+city", None),
    ("label:columns=city", None),
    ("event", None),
]


@pytest.mark.slow_cases(
    "polars-replace-one:unit=user-user",
    "polars-add-remove-None",
    "arrow-replace-one:unit=user-user",
    "dict-add-remove:k=2-None",
)
@pytest.mark.parametrize(
    ("frame", "relation", "user"),
    [
        *(("dict", *each) for each in RELATIONS),
        *(
            (f, *each)
            for f in ("pandas", "polars", "arrow", "records")
            for each in RELATIONS[1:4:2]
        ),
    ],
)
def test_tables_have_pairs_of_every_relation(frame, relation, user):
    domain = Table(COLUMNS, size=6, user=user, relation=relation, frame=frame)
    pairs = pairs_for(domain)
    assert len(pairs) >= 25
    assert all(domain.holds(pair) and Pair(pair.d0, pair.d1, pair.relation) for pair in pairs)
    rng = np.random.default_rng(0)
    shape = domain.shape(rng, 1)
    assert sum(shape.decode(rng.standard_normal(shape.size)) is not None for _ in range(10)) >= 8
    drafts = Drafts(domain, (), rng)
    assert sum(drafts.pair(drafts.draft()) is not None for _ in range(40)) >= 8


def records(*rows):
    return [dict(zip(("x", "city", "user"), row, strict=False)) for row in rows]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"columns": {"x": (1.0, 0.0)}}, "Table: column x: high must exceed low"),
        (
            {"columns": {"x": {"lo": 1}}},
            "Table: column x: keys must be among low, high, categories, missing, infinite, got 'lo'",
        ),
        ({"columns": {"x": 3}}, r"column x must be \(low, high\)"),
        ({"columns": {"x": {"low": "soon", "high": "late"}}}, "must be a number or a date such as"),
        (
            {"columns": {"x": {"categories": ["a", 1]}}},
            "must be a list of distinct texts, whole numbers or booleans",
        ),
        ({"columns": {}}, "columns must be a dict"),
        (
            {"columns": {"x": (0, 1)}, "relation": "edge"},
            "relation must be one of replace-one, add-remove, attribute, label, event",
        ),
        (
            {"columns": {"x": (0, 1)}, "relation": "attribute:columns=y"},
            "columns of the relation must be among x, got 'y'",
        ),
        (
            {"columns": {"x": (0, 1)}, "relation": "add-remove:unit=x"},
            "the unit of the relation must be the user's column",
        ),
        (
            {"columns": {"x": (0, 1)}, "user": "u", "size": 2},
            "size must be at least the 4 rows that may differ, got 2",
        ),
        ({"columns": {"x": (0, 1)}, "frame": "excel"}, "frame must be one of"),
        ({"columns": {"x": (0, 10**30)}}, "column x: whole-number low and high must lie between"),
    ],
)
def test_what_is_no_table_is_refused(arguments, told):
    with pytest.raises(InvalidArgument, match=told):
        Table(**arguments)


@pytest.mark.parametrize("relation", ["edge", "replace-edge", "node", "replace-node"])
@pytest.mark.parametrize("directed", [False, True])
def test_graphs(relation, directed):
    domain = Graph(5, relation, directed)
    pairs = pairs_for(domain)
    assert len(pairs) >= 20 and all(domain.holds(pair) for pair in pairs)
    assert all(len(simple.d0.edges) < len(pairs[3].d0.edges) for simple in domain.simpler(pairs[3]))


def test_nothing_is_imported_and_what_is_missing_names_its_extra():
    script = (
        "import sys, dpwitness as dpw\n"
        "dpw.Pair([1], [2]); dpw.domains.Table\n"
        "assert not {'pandas', 'polars', 'pyarrow', 'networkx'} & set(sys.modules)\n"
        "for name in ('pandas', 'networkx'): sys.modules[name] = None\n"
        "for build in (lambda: list(dpw.domains.Table({'x': (0, 1)}).catalogue()), lambda: "
        "dpw.domains.Graph(3)):\n"
        "    try: build()\n"
        "    except dpw.InvalidArgument as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "Table: pandas is not installed: pip install 'dpwitness[frames]'",
        "Graph: networkx is not installed: pip install 'dpwitness[graphs]'",
    ]
