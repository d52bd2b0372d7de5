"""Every source of pairs stays in its domain, over frames, streams, graphs and texts that Hypothesis
makes up.

`Pair` knows the neighbors without the domain; what lies in a domain of graphs is written here once
more, from its documentation.
"""

import math
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.search.coupled import Drafts
from dpwitness.mechanisms import Events, Graph, InvalidArgument, Pair, Records, Rows, Table

_, _, _, nx = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow", "networkx"))

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
        assert Pair(pair.d0, pair.d1, domain.relation).relation == pair.relation


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
