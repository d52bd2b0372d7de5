"""How far a vector of answers moves, in exact arithmetic: a float is the rational number that it is; and how far two graphs are apart.

A float that is no whole number was rounded when it was written, 0.1 or 1/sqrt(2): it may stand for any number that rounds to it, half a
unit in the last place away. A step over several answers that was divided by its L1 or L2 norm may carry one rounding of 1 for each of
them. Whole numbers stand for themselves, however large.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

import numpy as np

from dpwitness.mechanisms.core.dataframe_backends import Unheld
from dpwitness.mechanisms.core.validation import InvalidArgument, shown
from dpwitness.mechanisms.data.records import exact
from dpwitness.mechanisms.data.relations import SpelledRelation

_ROUNDING = Fraction(1, 2**52)

Number = int | float


def too_far(d0: Any, d1: Any, relation: str) -> str:
    """An empty string where two vectors lie within distance 1, otherwise how far they are apart.

    Examples
    --------
    >>> too_far([2**60], [2**60 + 50], "l1")
    'their distance is 50, at most 1 is allowed'
    >>> too_far([0.0, 0.0], [math.sqrt(0.5), math.sqrt(0.5)], "l2")
    ''
    """
    vectors = []
    for name, dataset in (("D0", d0), ("D1", d1)):
        numbers = numbers_in(dataset)
        if numbers is None:
            return f"both must be numeric vectors, of floats of at most 64 bits, {name} is none"
        if not all(math.isfinite(number) for number in numbers if isinstance(number, float)):
            return f"answers must be finite, {name} has one that is not"
        vectors.append(numbers)
    left, right = vectors
    kinds = [d.dtype.name if isinstance(d, np.ndarray) else "number" if np.ndim(d) == 0 else type(d).__name__ for d in (d0, d1)]
    if kinds[0] != kinds[1]:
        return f"D0 is of {kinds[0]}, D1 of {kinds[1]}: datasets are of one kind"
    if len(left) != len(right) or np.ndim(d0) != np.ndim(d1):
        return f"they have shapes {np.shape(d0)} and {np.shape(d1)}, both must be vectors of one length"
    single = isinstance(d0, np.ndarray) and d0.dtype.kind == "f" and d0.dtype.itemsize < 8
    spacing = (lambda x: float(np.spacing(d0.dtype.type(abs(x))))) if single else math.ulp
    if all(a == b and _negative_zero(a) == _negative_zero(b) for a, b in zip(left, right, strict=True)):
        raise InvalidArgument("Pair: D0 and D1 are identical, which can show no violation; move an answer of one of them")
    other = [] if np.ndim(d0) == 0 or isinstance(d0, np.ndarray) else [i for i in range(len(left)) if _recast(d0[i], d1[i])]
    if other:
        types = [type(d[other[0]]).__name__ for d in (d0, d1)]
        return f"answer {other[0]} is of type {types[0]} in D0 and {types[1]} in D1 and does not move: give both in one type"
    moved = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
    steps = [abs(Fraction(a) - Fraction(b)) for a, b in moved]
    slack = [sum((Fraction(spacing(v)) / 2 for v in pair if isinstance(v, float) and not v.is_integer()), Fraction(0)) for pair in moved]
    least = [max(step - free, Fraction(0)) for step, free in zip(steps, slack, strict=True)]
    edge = 1 + (len(moved) * _ROUNDING if len(moved) > 1 and any(slack) and relation != "linf" else 0)
    if _size(least, relation) <= (edge * edge if relation == "l2" else edge):
        return ""
    return f"their distance is {_told(_size(steps, relation), relation)}, at most 1 is allowed"


def distance_of(d0: Any, d1: Any, norm: str) -> float | None:
    """How far two vectors are apart, rounded up; None where they are no vectors of one length.

    Examples
    --------
    >>> distance_of([0.0, 2.0], [1.0, 0.0], "l1"), distance_of(0.0, [1.0], "l1")
    (3.0, None)
    """
    steps = _steps(d0, d1)
    if steps is None:
        return None
    size = _size(steps, norm)
    exact = size * size if norm != "l2" else size
    found = math.sqrt(size) if norm == "l2" else float(size)
    while Fraction(found) ** 2 < exact:
        found = math.nextafter(found, math.inf)
    return found


def moved_in(d0: Any, d1: Any) -> list[bool] | None:
    """Which entries of two vectors differ; None where they are no vectors of one length."""
    steps = _steps(d0, d1)
    return None if steps is None else [step != 0 for step in steps]


def _steps(d0: Any, d1: Any) -> list[Fraction] | None:
    left, right = numbers_in(d0), numbers_in(d1)
    if left is None or right is None or np.shape(d0) != np.shape(d1) or not all(map(math.isfinite, [*left, *right])):
        return None
    return [abs(Fraction(a) - Fraction(b)) for a, b in zip(left, right, strict=True)]


def _recast(a: Any, b: Any) -> bool:
    """Whether only the type of an answer differs."""
    return type(a) is not type(b) and a == b


def _negative_zero(number: Number) -> bool:
    return isinstance(number, float) and number == 0 and math.copysign(1, number) < 0


def _size(steps: list[Fraction], relation: str) -> Fraction:
    """The norm, of l2 its square."""
    if relation == "linf":
        return max(steps, default=Fraction(0))
    return sum((step * step if relation == "l2" else step for step in steps), Fraction(0))


def _told(size: Fraction, relation: str) -> str:
    try:
        value = math.sqrt(size) if relation == "l2" else float(size)
    except OverflowError:
        return "beyond all floats"
    if value < 1 + 1e-5:
        return f"1 + {float(size - 1) / (2 if relation == 'l2' else 1):.3g}"
    return f"{value:.6g}"


def numbers_in(dataset: Any) -> list[Number] | None:
    """The entries of a vector, or the one number; None for anything else."""
    if isinstance(dataset, np.ndarray | np.generic):
        long = dataset.dtype.kind == "f" and dataset.dtype.itemsize > 8
        if dataset.ndim > 1 or long or dataset.dtype.kind not in "biuf" or isinstance(dataset, np.ma.MaskedArray):
            return None
        return list(np.atleast_1d(dataset).tolist())
    items = dataset if isinstance(dataset, list | tuple) else [dataset]
    if not all(isinstance(item, int | float | np.integer | np.float32 | np.float16) and not isinstance(item, bool) for item in items):
        return None
    return [float(item) if isinstance(item, float | np.floating) else int(item) for item in items]


def too_far_graphs(d0: Any, d1: Any, relation: SpelledRelation) -> str:
    """An empty string where two graphs of networkx differ in as many edges or nodes as the relation allows, otherwise how they differ."""
    if type(d0) is not type(d1):
        return f"D0 is a {type(d0).__name__}, D1 a {type(d1).__name__}"
    if _exact(d0.graph, "an attribute of D0") != _exact(d1.graph, "an attribute of D1"):
        return "the attributes of the graphs differ, which belong to no node and no edge"
    nodes, edges = zip(*(_nodes_and_edges(graph, side) for graph, side in ((d0, "D0"), (d1, "D1"))), strict=True)
    if nodes[0] == nodes[1] and edges[0] == edges[1]:
        raise InvalidArgument("Pair: D0 and D1 are identical, which can show no violation; change an edge or a node of one of them")
    k, most = relation.k, f"at most {relation.k} may"
    alone = [node for node in {**nodes[0], **nodes[1]} if (node in nodes[0]) != (node in nodes[1])]
    changed = [node for node in nodes[0] if node in nodes[1] and nodes[0][node] != nodes[1][node]]
    gone, new = edges[0] - edges[1], edges[1] - edges[0]
    if relation.name in ("edge", "replace-edge"):
        if alone or changed:
            return f"{len(alone) + len(changed)} nodes differ, none may"
        if relation.name == "edge":
            return (
                "" if gone.total() + new.total() <= k else f"{gone.total() + new.total()} edges stand in one and not in the other, {most}"
            )
        if gone.total() != new.total():
            return f"they have {edges[0].total()} and {edges[1].total()} edges, the number may not differ"
        return "" if gone.total() <= k else f"{gone.total()} edges differ, {most}"
    if relation.name == "node":
        if changed:
            return f"{len(changed)} nodes have other attributes, a node is added or removed"
        apart = [ends for ends, _ in (gone + new) if not set(ends) & {*alone}]
        if apart:
            return f"{len(apart)} edges differ between nodes that are in both"
        return "" if len(alone) <= k else f"{len(alone)} nodes stand in one and not in the other, {most}"
    if alone:
        return f"{len(alone)} nodes stand in one and not in the other, the nodes may not differ"
    return "" if _covered(set(changed), [ends for ends, _ in gone + new], k) else f"what differs belongs to more than {k} nodes, {most}"


Ends = frozenset[Hashable] | tuple[Hashable, Hashable]  # of an edge; a tuple where it has a direction


def _nodes_and_edges(graph: Any, side: str) -> tuple[dict[Hashable, Hashable], Counter[tuple[Ends, Hashable]]]:
    """Exact keys of the nodes with those of their attributes, and how often each edge occurs with its key and its attributes."""
    names = {node: _exact(node, f"node {shown(node)} of {side}") for node in graph.nodes}
    held = {names[node]: _exact(dict(about), f"node {shown(node)} of {side}") for node, about in graph.nodes(data=True)}
    edges: Counter[tuple[Ends, Hashable]] = Counter()
    for one, other, *about in graph.edges(data=True, **({"keys": True} if graph.is_multigraph() else {})):
        ends = (names[one], names[other]) if graph.is_directed() else frozenset((names[one], names[other]))
        edges[ends, _exact(about, f"edge ({shown(one)}, {shown(other)}) of {side}")] += 1
    return held, edges


def _exact(value: Any, where: str) -> Hashable:
    """An exact key of a node or of attributes. Two that cannot be compared exactly might differ everywhere: they are refused."""
    try:
        return exact(value)
    except (InvalidArgument, Unheld) as error:
        why = str(error).removeprefix("dataset must be writable as JSON, ")
        raise InvalidArgument(
            f"Pair: {where} cannot be compared exactly: {why}; give numbers, texts, arrays or containers of them"
        ) from None


def _covered(nodes: set[Hashable], edges: list[Ends], k: int) -> bool:
    """Whether these nodes and some others, k in all, touch all edges: one end of the first that is left, or the other."""
    if len(nodes) > k:
        return False
    left = next((edge for edge in edges if not nodes & set(edge)), None)
    return left is None or any(_covered({*nodes, end}, edges, k) for end in left)
