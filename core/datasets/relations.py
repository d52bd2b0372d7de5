"""Neighboring relations: their names, their options, and their parsing; distances of vectors of
answers in exact arithmetic, and comparison of graphs.

A relation is written as its name and, if it has any, its options: ``add-remove``,
``add-remove:unit=user``, ``replace-one:k=3``, ``attribute:columns=age+city``. Every relation is
symmetric: (d0, d1) are neighbors exactly when (d1, d0) are.

Each float is the rational number that it represents. A float that is not a whole number was rounded
when it was written, such as 0.1 or 1/sqrt(2). Such a float may represent any number that rounds to
it, up to half a unit in the last place away. A step over several answers that was divided by its L1
or L2 norm may carry one rounding error of 1 for each of the answers. Whole numbers, however large,
are exact. Rounding never explains a distance beyond 1 + 2^-20.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpwitness.core.datasets.records import exact
from dpwitness.core.values.dataframe_backends import UnsupportedData
from dpwitness.core.values.validation import (
    InvalidArgument,
    did_you_mean,
    require_rules,
    short_repr,
)

RELATIONS = {
    "replace-one": "one record is replaced; the number of records is public",
    "add-remove": "one record is added or removed",
    "substitution": "one whole linear cost is replaced",
    "l1": "a vector of answers moves by at most 1 in L1 norm",
    "l2": "a vector of answers moves by at most 1 in L2 norm",
    "linf": "each of several answers moves by at most 1",
    "event": "one event of a stream is added, removed or replaced; the order of the others stays",
    "label": "the label of one record changes, its features do not",
    "attribute": "one record changes, in the named columns only",
    "edge": "one edge of a graph is added or removed",
    "replace-edge": "one edge of a graph is moved; the number of edges is public",
    "node": "one node of a graph is added or removed, with all its edges",
    "replace-node": (
        "one node of a graph has its edges and attributes replaced; the nodes are public"
    ),
    "stated": "any two datasets, stated by the user to be neighbors and not checked",
}
NORMS = ("l1", "l2", "linf")
OWN = "own"  # prefix of user-defined relations: own:NAME
GRAPHS = ("edge", "replace-edge", "node", "replace-node")
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "replace-one": ("unit", "k"),
    "add-remove": ("unit", "k"),
    "event": ("k",),
    "label": ("columns", "k"),
    "attribute": ("columns", "k"),
    **dict.fromkeys(GRAPHS, ("k",)),
}


@dataclass(frozen=True, slots=True)
class ParsedRelation:
    """Parsed relation: its name and its options."""

    name: str  # a key of `RELATIONS`, or ``own`` for a user-defined relation
    # the column, key or position whose value identifies the owner of a record: all records of one
    # unit count as one. ``key`` for the entries of a dictionary. Empty: each record is its own
    # unit.
    unit: str = ""
    k: int = 1  # largest number of records, units, events, nodes or edges that may differ
    columns: tuple[str, ...] = ()  # columns in which a record may change

    def __str__(self) -> str:
        options = {
            "unit": self.unit,
            "columns": "+".join(self.columns),
            "k": "" if self.k == 1 else str(self.k),
        }
        if self.name == OWN:
            return f"{OWN}:{self.unit}"
        options_text = ",".join(f"{key}={value}" for key, value in options.items() if value)
        return f"{self.name}:{options_text}" if options_text else self.name

    @property
    def checked(self) -> bool:
        """Whether a pair under this relation is checked from the two datasets alone."""
        return self.name not in ("stated", OWN)


def excess(count: int, k: int, what: str, names: str = "") -> str:
    """Return "" if `count` is at most `k`, else the reason: ``"COUNT WHAT, at most K may"``, with
    the places of the records.
    """
    return "" if count <= k else f"{count} {what}, at most {k} may{names}"


def require_different(different: object) -> None:
    """Raise InvalidArgument if two datasets do not differ."""
    if not different:
        raise InvalidArgument(
            "Pair: D0 and D1 are identical, which cannot show a violation; change one of them"
        )


def listed_rows(rows: Sequence[int]) -> str:
    """Return a text with the first five of some rows."""
    return f"rows {', '.join(map(str, rows[:5]))}{', ...' if len(rows) > 5 else ''}"


def parse_relation(text: object, owner: str = "Pair") -> ParsedRelation:
    """Return the relation of a text such as ``add-remove:unit=user,k=2``.

    Raises
    ------
    InvalidArgument
        If the relation is unknown, or does not have an option; the message lists the known ones.

    Examples
    --------
    >>> parse_relation("add-remove:unit=user,k=2")
    ParsedRelation(name='add-remove', unit='user', k=2, columns=())
    """
    name, _, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
    if name == OWN and rest:
        return ParsedRelation(OWN, rest)
    known = OPTIONS.get(name, ())
    options = " and ".join(f"{option}=..." for option in known) or "no options"
    parts = [part.partition("=") for part in rest.split(",")] if rest else []
    found = {key.strip(): value.strip() for key, _, value in parts}
    once = set(found) <= set(known) and len(found) == len(parts) and all(found.values())
    k = found.get("k", "1")
    columns = tuple(filter(None, found.get("columns", "").split("+")))
    if name not in RELATIONS:
        raise InvalidArgument(
            f"{owner}: relation must be one of {', '.join(RELATIONS)}, got {short_repr(text)}"
            f"{did_you_mean(name, RELATIONS)}"
        )
    require_rules(
        owner,
        (once, f"relation {name} takes {options}, each at most once", rest),
        (
            re.fullmatch("0*[1-9][0-9]{0,5}|0*1000000", k),
            f"k of relation {name} must be a whole number, at least 1",
            k,
        ),
        (
            name != "attribute" or columns,
            "relation attribute must name columns, as attribute:columns=NAME+NAME",
            text,
        ),
    )
    return ParsedRelation(name, found.get("unit", ""), int(k), columns)


def composed(relation: str, unit: str | None, k: int) -> str:
    """Return the text of a relation after adding a unit and a number k that were given as separate
    arguments. Raise InvalidArgument for an invalid unit or k.
    """
    if unit is not None and (not unit or set(unit) & set(",=+")):
        raise InvalidArgument(
            "Pair: unit must be the name of a column, without commas, = and +, got "
            f"{short_repr(unit)}"
        )
    name, _, options = str(parse_relation(relation)).partition(":")
    unit_option = "" if unit is None else f"unit={unit}"
    parts = filter(None, [options, unit_option, "" if k == 1 else f"k={k}"])
    return str(parse_relation(f"{name}:{','.join(parts)}".removesuffix(":")))


def describe_relation(relation: str) -> str:
    """Return the meaning of a relation as a sentence; "" for an unknown relation.

    Examples
    --------
    >>> describe_relation("add-remove:unit=user,k=2")
    'one record is added or removed; all records with one "user" count as one, and 2 may differ'
    """
    try:
        found = parse_relation(relation)
    except InvalidArgument:
        return ""
    if found.name == OWN:
        return "a user-defined relation, checked by the user's function when the pair was created"
    more = (
        f'all records with one "{found.unit}" count as one' if found.unit else "",
        f"columns {', '.join(found.columns)}" if found.columns else "",
        f"and {found.k} may differ" if found.k > 1 else "",
    )
    return "; ".join(filter(None, [RELATIONS[found.name], ", ".join(filter(None, more))]))


_ROUNDING = Fraction(1, 2**52)
# part of a distance that rounding may explain, however large the answers are
_MOST_ROUNDING = Fraction(1, 2**20)

Number = int | float


def vector_distance_problem(d0: Any, d1: Any, relation: str) -> str:
    """Return "" if two vectors are at distance at most 1, else the reason with the distance.

    Examples
    --------
    >>> vector_distance_problem([2**60], [2**60 + 50], "l1")
    'their distance is 50, at most 1 is allowed'
    >>> vector_distance_problem([0.0, 0.0], [math.sqrt(0.5), math.sqrt(0.5)], "l2")
    ''
    """
    first, second = vector_numbers(d0), vector_numbers(d1)
    for name, numbers in (("D0", first), ("D1", second)):
        if numbers is None:
            return f"both must be numeric vectors with numbers of at most 64 bits, {name} is not"
        if not all(abs(number) < math.inf for number in numbers):
            return f"answers must be finite, but {name} contains NaN or infinity"
    assert first is not None and second is not None
    kinds = [_kind_of_vector(d0), _kind_of_vector(d1)]
    if kinds[0] != kinds[1]:
        return f"D0 is {kinds[0]}, D1 is {kinds[1]}: both must be vectors of one kind and length"
    require_different(list(map(exact, first)) != list(map(exact, second)))
    entries = zip(*(d if isinstance(d, list | tuple) else [d] for d in (d0, d1)), strict=True)
    for i, (a, b) in enumerate(entries):
        if type(a) is not type(b) and a == b:
            return (
                f"answer {i} is of type {type(a).__name__} in D0 and {type(b).__name__} in D1 "
                "and does not move: give both in one type"
            )
    floats = d0.dtype.type if isinstance(d0, np.ndarray) and d0.dtype.kind == "f" else float
    moved = [(Fraction(a), Fraction(b)) for a, b in zip(first, second, strict=True) if a != b]
    return _moved_problem(moved, floats, relation)


def _moved_problem(moved: list[tuple[Fraction, Fraction]], floats: Any, relation: str) -> str:
    """Return why the answers that differ, given as pairs of values of the type `floats`, are at a
    distance above 1 that rounding does not explain, or "".
    """
    steps = [abs(a - b) for a, b in moved]
    free = [_rounding(a, floats) + _rounding(b, floats) for a, b in moved]
    smallest_steps = [max(step - part, Fraction(0)) for step, part in zip(steps, free, strict=True)]
    several = len(moved) > 1 and any(free) and relation != "linf"
    largest_allowed = 1 + (len(moved) * _ROUNDING if several else 0)
    power = 2 if relation == "l2" else 1
    if (
        _norm_of_steps(smallest_steps, relation) <= largest_allowed**power
        and _norm_of_steps(steps, relation) <= (1 + _MOST_ROUNDING) ** power
    ):
        return ""
    distance = _distance_text(_norm_of_steps(steps, relation), relation)
    return f"their distance is {distance}, at most 1 is allowed"


def _rounding(number: Fraction, floats: Any) -> Fraction:
    """Return half a unit in the last place of a float, by which rounding may have moved it; 0 for
    a whole number.
    """
    if number.denominator == 1:
        return Fraction(0)
    return Fraction(float(np.spacing(floats(abs(number))))) / 2


def _kind_of_vector(dataset: Any) -> str:
    """Return the type of a vector of answers, or of a single answer, and its shape."""
    kind = "number" if np.ndim(dataset) == 0 else type(dataset).__name__
    return f"{dataset.dtype.name if isinstance(dataset, np.ndarray) else kind} {np.shape(dataset)}"


def distance_of(d0: Any, d1: Any, norm: str) -> float | None:
    """Return the distance of two vectors in a norm, rounded up; None unless both are vectors of one
    length.

    Examples
    --------
    >>> distance_of([0.0, 2.0], [1.0, 0.0], "l1"), distance_of(0.0, [1.0], "l1")
    (3.0, None)
    """
    steps = steps_between(d0, d1)
    if steps is None:
        return None
    size = _norm_of_steps(steps, norm)
    exact = size * size if norm != "l2" else size
    found = math.sqrt(size) if norm == "l2" else float(size)
    while Fraction(found) ** 2 < exact:
        found = math.nextafter(found, math.inf)
    return found


def steps_between(d0: Any, d1: Any) -> list[Fraction] | None:
    """Return the exact absolute differences of two vectors; None unless both are finite vectors of
    one length.
    """
    first, second = vector_numbers(d0), vector_numbers(d1)
    if first is None or second is None or np.shape(d0) != np.shape(d1):
        return None
    if not all(abs(number) < math.inf for number in (*first, *second)):
        return None
    return [abs(Fraction(a) - Fraction(b)) for a, b in zip(first, second, strict=True)]


def _norm_of_steps(steps: list[Fraction], relation: str) -> Fraction:
    """Return the norm of the steps; for l2, its square."""
    if relation == "linf":
        return max(steps, default=Fraction(0))
    return sum((step * step if relation == "l2" else step for step in steps), Fraction(0))


def _distance_text(size: Fraction, relation: str) -> str:
    """Return a distance as text, with more digits where it is barely above 1."""
    try:
        value = math.sqrt(size) if relation == "l2" else float(size)
    except OverflowError:
        return "beyond all floats"
    if value < 1 + 1e-5:
        return f"1 + {float(size - 1) / (2 if relation == 'l2' else 1):.3g}"
    return f"{value:.6g}"


def vector_numbers(dataset: Any) -> list[Number] | None:
    """Return the entries of a numeric vector, or a single number, as a list; None for anything
    else, and for floats of more than 64 bits.
    """
    if isinstance(dataset, np.ndarray | np.generic):
        long = dataset.dtype.kind == "f" and dataset.dtype.itemsize > 8
        masked = isinstance(dataset, np.ma.MaskedArray)
        if dataset.ndim > 1 or long or masked or dataset.dtype.kind not in "biuf":
            return None
        return list(np.atleast_1d(dataset).tolist())
    items = dataset if isinstance(dataset, list | tuple) else [dataset]
    known = int | float | np.integer | np.float32 | np.float16
    if not all(isinstance(item, known) and not isinstance(item, bool) for item in items):
        return None
    return [float(item) if isinstance(item, float | np.floating) else int(item) for item in items]


def graph_distance_problem(d0: Any, d1: Any, relation: ParsedRelation) -> str:
    """Return "" if two networkx graphs differ in no more edges or nodes than the relation allows,
    else the reason.
    """
    if type(d0) is not type(d1):
        return f"D0 is a {type(d0).__name__}, D1 a {type(d1).__name__}"
    if _exact_key(d0.graph, "an attribute of D0") != _exact_key(d1.graph, "an attribute of D1"):
        return (
            "attributes of the graphs themselves (not of nodes or edges) differ: give both "
            "graphs the same"
        )
    (left_nodes, left_edges), (right_nodes, right_edges) = (
        _nodes_and_edges(graph, side) for graph, side in ((d0, "D0"), (d1, "D1"))
    )
    unmatched = left_nodes.keys() ^ right_nodes.keys()
    both = left_nodes.keys() & right_nodes.keys()
    changed = {node for node in both if left_nodes[node] != right_nodes[node]}
    removed, added = left_edges - right_edges, right_edges - left_edges
    edges = removed + added
    require_different(unmatched or changed or edges)
    if relation.name in ("node", "replace-node"):
        return _node_problem(unmatched, changed, [ends for ends, _ in edges], relation)
    if unmatched or changed:
        return f"{len(unmatched) + len(changed)} nodes differ, none may"
    if relation.name == "edge":
        return excess(edges.total(), relation.k, "edges are in one graph and not in the other")
    if removed.total() != added.total():
        totals = f"{left_edges.total()} and {right_edges.total()}"
        return f"they have {totals} edges, the number may not differ"
    return excess(removed.total(), relation.k, "edges differ")


def _node_problem(
    unmatched: set[Hashable], changed: set[Hashable], edges: list[Ends], relation: ParsedRelation
) -> str:
    """Return why more nodes differ than the relation allows, or "": nodes of one graph only, nodes
    with other attributes, and the ends of the edges that differ.
    """
    only_one = f"{len(unmatched)} nodes are in one graph and not in the other"
    if relation.name == "replace-node":
        if unmatched:
            return f"{only_one}, the nodes may not differ"
        covered = _has_vertex_cover(changed, edges, relation.k)
        many = f"the differences belong to more than {relation.k} nodes"
        return "" if covered else f"{many}, at most {relation.k} may"
    apart = [ends for ends in edges if not unmatched & set(ends)]
    if changed:
        return f"{len(changed)} nodes have other attributes, a node is added or removed"
    if apart:
        return f"{len(apart)} edges differ between nodes that are in both"
    return "" if len(unmatched) <= relation.k else f"{only_one}, at most {relation.k} may"


# of an edge; a tuple if the graph is directed
Ends = frozenset[Hashable] | tuple[Hashable, Hashable]


def _nodes_and_edges(
    graph: Any, side: str
) -> tuple[dict[Hashable, Hashable], Counter[tuple[Ends, Hashable]]]:
    """Return exact keys of the nodes with those of their attributes, and the number of edges by
    ends, edge key and attributes.
    """
    names = {node: _exact_key(node, f"node {short_repr(node)} of {side}") for node in graph.nodes}
    attributes_of = {
        names[node]: _exact_key(dict(about), f"node {short_repr(node)} of {side}")
        for node, about in graph.nodes(data=True)
    }
    keys = {"keys": True} if graph.is_multigraph() else {}
    together: Any = tuple if graph.is_directed() else frozenset
    edges: Counter[tuple[Ends, Hashable]] = Counter(
        (
            together((names[one], names[other])),
            _exact_key(about, f"edge ({short_repr(one)}, {short_repr(other)}) of {side}"),
        )
        for one, other, *about in graph.edges(data=True, **keys)
    )
    return attributes_of, edges


def _exact_key(value: Any, where: str) -> Hashable:
    """Return the exact key of a node or of attributes. Raise InvalidArgument if the value cannot be
    compared exactly.
    """
    try:
        return exact(value)
    except (InvalidArgument, UnsupportedData) as error:
        why = str(error).removeprefix("dataset must be writable as JSON, ")
        remedy = "give numbers, texts, arrays or containers of them"
        raise InvalidArgument(
            f"Pair: {where} cannot be compared exactly: {why}; {remedy}"
        ) from None


def _has_vertex_cover(nodes: set[Hashable], edges: list[Ends], k: int) -> bool:
    """Return whether `nodes` and at most k - len(nodes) further nodes touch all edges. Branches on
    the two ends of an uncovered edge.
    """
    if len(nodes) > k:
        return False
    uncovered = next((ends for ends in edges if not nodes & set(ends)), None)
    return uncovered is None or any(_has_vertex_cover({*nodes, end}, edges, k) for end in uncovered)
