"""Every source of pairs stays in its domain, over frames, streams, graphs and texts that Hypothesis
makes up.

Membership and neighbors are written here once more, from the documentation of the domains, without
their code.
"""

import datetime as dt
import math
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.search.drafts import Drafts
from dpwitness.mechanisms import Events, Graph, InvalidArgument, Records, Rows, Table

pd, pl, pa, nx = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow", "networkx"))

FORMS = ["pandas", "polars", "arrow", "dict", "records"]


@st.composite
def one_column(draw, missing=True):
    """What a column may hold, as a user writes it."""
    kind = draw(st.sampled_from(["float", "integer", "date", "texts", "numbers", "truths"]))
    if kind in ("float", "integer", "date"):
        ends = {
            "float": st.floats(-1e6, 1e6) | st.sampled_from([0.0, -1e-310]),
            "integer": st.integers(-9, 9),
        }
        low, high = sorted(
            draw(st.lists(ends.get(kind, st.dates()), min_size=2, max_size=2, unique=True))
        )
        held = {"low": low, "high": high}
    else:
        items = {
            "texts": st.sampled_from(["Ulm", "Bern", "", "é", "x y"]),
            "numbers": st.integers(-3, 3),
            "truths": st.booleans(),
        }[kind]
        held = {"categories": draw(st.lists(items, min_size=1, max_size=4, unique=True))}
    infinite = kind == "float" and draw(st.booleans())
    return held | {"missing": missing and draw(st.booleans()), "infinite": infinite}


@st.composite
def tables(draw, kind):
    columns = draw(
        st.dictionaries(st.sampled_from(["a", "b", "c"]), one_column(), min_size=1, max_size=3)
    )
    user = draw(st.sampled_from([None, "user", "known"]))
    if user == "known":
        columns[user] = draw(one_column(missing=False))
    names = [name for name in columns if name != user]
    relations = [
        "",
        "replace-one",
        "add-remove",
        "replace-one:k=2",
        "add-remove:k=2",
        "event",
        f"attribute:columns={names[0]}",
    ]
    relations += [f"label:columns={names[-1]}"] + (
        [f"replace-one:unit={user}", f"add-remove:unit={user}"] if user else []
    )
    options = {
        "user": user,
        "relation": draw(st.sampled_from(relations)),
        "per_user": draw(st.integers(1, 4)),
    }
    options |= {"frame": draw(st.sampled_from(FORMS)), "size": draw(st.integers(1, 9))}
    if kind is Table:
        options["time"] = draw(st.sampled_from([None, "when"]))
    try:
        return kind(columns, **options)
    except InvalidArgument as error:
        assume(error is None)


def columns_of(dataset):
    """A frame as lists, by each library's own means."""
    if isinstance(dataset, pd.DataFrame):
        assert isinstance(dataset.index, pd.RangeIndex) and dataset.index.start == 0
        return {
            name: [
                None if gone else v
                for v, gone in zip(dataset[name], dataset[name].isna(), strict=True)
            ]
            for name in dataset
        }
    if isinstance(dataset, pl.DataFrame):
        return dataset.to_dict(as_series=False)
    if isinstance(dataset, pa.Table):
        return dataset.to_pydict()
    if isinstance(dataset, dict):
        return {name: list(values) for name, values in dataset.items()}
    return {name: [record[name] for record in dataset] for name in (dataset[0] if dataset else {})}


def right_type(dataset, name, held):
    """The type of a column of a library's frame, also of one without rows."""
    some = (held.get("categories") or [held.get("low")])[0]
    kind = next(kind for kind in (bool, str, float, int, dt.date) if isinstance(some, kind))
    if isinstance(dataset, pd.DataFrame):
        letters = {bool: "b", str: "OTU", float: "f", int: "i", dt.date: "M"}[kind]
        return dataset[name].dtype.kind in letters
    if isinstance(dataset, pl.DataFrame):
        return (
            dataset[name].dtype
            == {
                bool: pl.Boolean,
                str: pl.String,
                float: pl.Float64,
                int: pl.Int64,
                dt.date: pl.Date,
            }[kind]
        )
    if isinstance(dataset, pa.Table):
        types = {
            bool: pa.bool_(),
            str: pa.string(),
            float: pa.float64(),
            int: pa.int64(),
            dt.date: pa.date32(),
        }
        return dataset.schema.field(name).type == types[kind]
    return True


def allowed(value, held):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return held.get("missing", False)
    value = (
        value.item()
        if isinstance(value, np.generic)
        else value.date()
        if isinstance(value, dt.datetime)
        else value
    )
    if "categories" in held:
        return type(value) is type(held["categories"][0]) and value in held["categories"]
    if type(value) is float and math.isinf(value):
        return held.get("infinite", False)
    return type(value) is type(held["low"]) and held["low"] <= value <= held["high"]


def is_table(domain, dataset):
    found, given_columns = columns_of(dataset), dict(domain.columns)
    numbered = {"low": 0, "high": domain.size + domain.per_user}
    given_columns |= {
        name: numbered
        for name in (domain.user, domain.time)
        if name is not None and name not in given_columns
    }
    if not found and isinstance(dataset, list):
        found = {name: [] for name in given_columns}
    assert set(found) == set(given_columns)
    rows = len(next(iter(found.values())))
    assert all(
        len(values) == rows and all(allowed(v, given_columns[name]) for v in values)
        for name, values in found.items()
    )
    assert all(right_type(dataset, name, held) for name, held in given_columns.items())
    if domain.user is not None:
        assert max(Counter(found[domain.user]).values(), default=0) <= domain.per_user
    if domain.time is not None:
        assert all(a < b for a, b in pairwise(found[domain.time]))
    fixed = "unit=" not in domain.relation and domain.relation.startswith(
        ("replace-one", "attribute", "label")
    )
    assert rows == domain.size if fixed else rows <= domain.size


def rows_of(domain, dataset):
    found = columns_of(dataset)
    return list(
        zip(*([repr(v) for v in found[name]] for name in sorted(found)), strict=True)
    ), sorted(found)


def are_neighbors(domain, d0, d1):
    (left, names), (right, other) = rows_of(domain, d0), rows_of(domain, d1)
    names = names or other
    name, _, options = domain.relation.partition(":")
    gone, new = Counter(left) - Counter(right), Counter(right) - Counter(left)
    assert gone or new
    if "unit=" in options:
        users = {row[names.index(domain.user)] for row in (gone + new)}
        assert len(users) == 1
        if name == "add-remove":
            sides = [{row[names.index(domain.user)] for row in side} for side in (left, right)]
            assert users <= sides[0] ^ sides[1]
        return
    k = int(options[2:]) if options.startswith("k=") else 1
    if name == "add-remove":
        assert (gone + new).total() <= k
    elif name == "event":
        longer, shorter = sorted((left, right), key=len, reverse=True)
        assert any(longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer)))
    else:
        rows = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
        assert 1 <= len(rows) <= k
        if name in ("attribute", "label"):
            free = options.partition("=")[2].split("+")
            assert all(
                a[i] == b[i] for a, b in rows for i, held in enumerate(names) if held not in free
            )


def every_pair(domain, seed):
    """The catalogue, shapes, draws, steps from pair to pair and what is simpler."""
    found = pairs_for(domain)
    yield from found
    rng = np.random.default_rng(seed)
    draw = domain.draws(rng)
    drawn = [pair for pair in (draw(turn) for turn in range(12)) if pair is not None]
    drawn += [pair for pair in map(draw.renumbered, found[:4]) if pair is not None]
    for turn in range(4):
        shape = domain.shape(rng, turn)
        decoded = (
            [shape.decode(2 * rng.standard_normal(shape.size)) for _ in range(2)]
            if shape.size
            else []
        )
        drawn += [pair for pair in decoded if pair is not None]
    yield from drawn
    if isinstance(domain, Records | Rows | Table):
        drafts = Drafts(domain, (), rng)
        draft = drafts.draft()
        for _ in range(24):
            pair = drafts.pair(draft)
            if pair is not None:
                yield pair
            draft = drafts.changed(draft)
    for pair in [*found[:2], *drawn[-2:]]:
        yield from (simple for simple, _ in zip(domain.simpler(pair), range(8), strict=False))


SETTINGS = settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Table, Events])
@SETTINGS
@given(data=st.data())
def test_pairs_of_tables_are_members_and_neighbors(kind, data):
    domain = data.draw(tables(kind))
    for pair in every_pair(domain, data.draw(st.integers(0, 99))):
        assert domain.membership_problem(pair.d0) == domain.membership_problem(pair.d1) == ""
        is_table(domain, pair.d0)
        is_table(domain, pair.d1)
        are_neighbors(domain, pair.d0, pair.d1)


def graph_sides(graph):
    return set(graph.nodes), {
        (u, v) if graph.is_directed() else (min(u, v), max(u, v)) for u, v in graph.edges
    }


@SETTINGS
@given(
    st.integers(3, 6),
    st.sampled_from(["edge", "replace-edge", "node", "replace-node"]),
    st.sampled_from(["", ":k=1", ":k=2", ":k=09"]),
    st.booleans(),
    st.integers(0, 99),
)
def test_pairs_of_graphs_are_members_and_neighbors(nodes, name, option, directed, seed):
    k = int(option[3:] or 1)
    for pair in every_pair(Graph(nodes, name + option, directed), seed):
        for graph in (pair.d0, pair.d1):
            assert type(graph) is (nx.DiGraph if directed else nx.Graph)
            assert all(type(node) is int and 0 <= node < nodes for node in graph)
            assert len(graph) == nodes or name == "node"
            assert not nx.number_of_selfloops(graph) and not graph.graph
            assert not any(
                about for *_, about in [*graph.nodes(data=True), *graph.edges(data=True)]
            )
        (left, before), (right, after) = graph_sides(pair.d0), graph_sides(pair.d1)
        assert (left, before) != (right, after)
        changed = before ^ after
        if name == "edge":
            assert left == right and len(changed) <= k
        elif name == "replace-edge":
            assert left == right and len(before) == len(after) and len(changed) <= 2 * k
        elif name == "node":
            assert len(left ^ right) <= k and all(set(edge) & (left ^ right) for edge in changed)
        else:
            assert left == right and smallest_cover(changed) <= k


def smallest_cover(edges):
    """The fewest nodes that touch all edges."""
    if not edges:
        return 0
    return 1 + min(
        smallest_cover({edge for edge in edges if end not in edge}) for end in next(iter(edges))
    )


def table(frame="pandas", **options):
    return Table(
        {"x": (0.0, 9.0), "n": (0, 3), "c": {"categories": [1, 2]}},
        user="u",
        frame=frame,
        **options,
    )


def frame_of(user=(1, 2), x=(0.5, 1.0), n=(0, 3), c=(1, 2), **more):
    return {"u": list(user), "x": list(x), "n": list(n), "c": list(c), **more}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"user": (1, 1)}, "u 1 has 2 rows, at most per_user=1 are allowed"),
        ({"user": (1, None)}, "column u holds None"),
        ({"user": (1, True)}, "column u holds True"),
        ({"x": (0.5, math.nan)}, "column x holds nan"),
        ({"n": (0, 3.0)}, "column n holds 3.0"),
        ({"n": (0, np.float64(3))}, "column n holds"),
        ({"c": (1, True)}, "column c holds True"),
        ({"c": (1, 2.0)}, "column c holds 2.0"),
        ({"c": (1, [2])}, r"column c holds \[2\]"),
        ({"c": (1, np.array([1, 2]))}, "column c holds array"),
        ({"z": [0, 0]}, "it has the columns"),
        (
            {"user": (1, 2, 3), "x": (1.0,) * 3, "n": (0,) * 3, "c": (1,) * 3},
            "it has 3 rows, expected 2",
        ),
    ],
)
def test_a_table_names_why_a_dataset_is_none_of_it(change, told):
    domain = table("dict", per_user=1, size=2)
    assert domain.membership_problem(frame_of()) == ""
    assert domain.membership_problem(frame_of(**change)) != "" and not domain.contains(
        frame_of(**change)
    )
    assert re.search(told, domain.membership_problem(frame_of(**change)))
