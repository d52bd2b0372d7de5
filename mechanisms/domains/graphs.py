"""Graphs of networkx whose edges or nodes are what a neighbour changes."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from numpy.random import Generator

from dpwitness.mechanisms.domains.base import Domain, Draws, Shape
from dpwitness.mechanisms.domains.fields import flags
from dpwitness.mechanisms.terms.libraries import Unheld, library, library_of
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.relations import GRAPHS, parse_relation
from dpwitness.mechanisms.terms.validation import InvalidArgument, require

Edges = frozenset[tuple[int, int]]
_MOST = 200  # nodes: a catalogue holds dense graphs


@dataclass(frozen=True, slots=True)
class Graph(Domain):
    """Simple graphs of networkx on up to `nodes` nodes, numbered from 0, directed ones if `directed`.

    Neighbours by ``edge``, ``replace-edge``, ``node`` (one is removed with all its edges) or ``replace-node`` (its edges change), and
    by as many as ``:k=`` says.
    """

    nodes: int
    relation: str = "edge"
    directed: bool = False

    def __post_init__(self) -> None:
        require(self).integer("nodes", least=3, most=_MOST)
        flags(self, "directed")
        if not isinstance(self.relation, str) or self.relation.partition(":")[0] not in GRAPHS:
            raise InvalidArgument(f"Graph: relation must be one of {', '.join(GRAPHS)}, got {self.relation!r}")
        object.__setattr__(self, "relation", str(parse_relation(self.relation, "Graph")))
        try:
            library("networkx")
        except Unheld as error:
            raise InvalidArgument(f"Graph: {error}") from None

    def contains(self, dataset: Any) -> bool:
        """A graph without loops and attributes, with all nodes; under ``node`` some may be missing."""
        if library_of(dataset) != "networkx" or type(dataset).__name__ != ("DiGraph" if self.directed else "Graph"):
            return False
        known = all(type(node) is int and 0 <= node < self.nodes for node in dataset.nodes) and not any(u == v for u, v in dataset.edges)
        some = len(dataset) == self.nodes or parse_relation(self.relation).name == "node"
        held = [dataset.graph, *(about for _, about in dataset.nodes(data=True)), *(about for _, _, about in dataset.edges(data=True))]
        return known and some and not any(held)

    def _graph(self, edges: Iterable[tuple[int, int]], without: Iterable[int] = ()) -> Any:
        networkx, gone = library("networkx"), set(without)
        found = networkx.DiGraph() if self.directed else networkx.Graph()
        found.add_nodes_from(node for node in range(self.nodes) if node not in gone)
        found.add_edges_from(edge for edge in sorted(edges) if not gone & {*edge})
        return found

    @property
    def places(self) -> list[tuple[int, int]]:
        """Where an edge may lie."""
        return list((itertools.permutations if self.directed else itertools.combinations)(range(self.nodes), 2))

    def changed(self, edges: Edges, node: int, other: int, why: str) -> Pair | None:
        """The pair in which what the relation names is changed at a node, or between it and another; of ``k=`` as many, there first."""
        asked = parse_relation(self.relation)
        if asked.name in ("node", "replace-node"):
            nodes = {*sorted(range(self.nodes), key=lambda n: (n != node, n != other))[: asked.k]}
            if asked.name == "node":
                return self.pair(self._graph(edges, without=nodes), self._graph(edges), why)
            alone = frozenset(edge for edge in edges if not nodes & {*edge})
            joined = alone | {edge for edge in self.places if nodes & {*edge}}
            return self.pair(self._graph(alone), self._graph(edges if alone != edges else joined), why)
        between = (min(node, other), max(node, other))
        k = min(asked.k, len(self.places) // 2) if asked.name == "replace-edge" else asked.k  # where these were, as many must be free
        mine = frozenset(heapq.nsmallest(k, self.places, key=lambda place: (place != between, node not in place)))
        if asked.name == "edge":
            return self.pair(self._graph(edges - mine), self._graph(edges | mine), why)
        free = [edge for edge in self.places if edge not in edges | mine][: len(mine)]
        return self.pair(self._graph(edges | mine), self._graph((edges - mine) | {*free}), why) if len(free) == len(mine) else None

    def catalogue(self) -> Iterable[Pair | None]:
        """A star, a path, a ring, a clique, halves, nothing; changed where most hangs on it, and where least does."""
        n = self.nodes
        ring = [(i, i + 1) for i in range(n - 1)]
        shapes: dict[str, list[tuple[int, int]]] = {
            "no edges": [],
            "a star": [(0, i) for i in range(1, n)],
            "a clique": list(itertools.combinations(range(n), 2)),
            "a path": ring,
            "a ring": [*ring, (0, n - 1)],
            "a clique of half of the nodes": list(itertools.combinations(range((n + 1) // 2), 2)),
            "two halves joined": [(i, j) for i in range(n // 2) for j in range(n // 2, n)],
            "two neighbours of all": [(i, j) for i in (0, 1) for j in range(2, n)],
        }
        for (node, other), where in (((0, 1), "at the first node"), ((n - 1, n - 2), "at the last node"), ((0, n - 1), "from end to end")):
            for why, edges in shapes.items():
                yield self.changed(frozenset(edges), node, other, f"{why}, changed {where}")

    def draws(self, rng: Generator) -> Draws[Graph]:
        return _Drawn(self, rng)

    def shape(self, rng: Generator, turn: int) -> Shape:
        """An edge lies where its number is positive; where the change lies is drawn."""
        places = self.places
        node, other = (int(v) for v in rng.choice(self.nodes, 2, replace=False))

        def decode(z: FloatArray) -> Pair | None:
            edges = frozenset(place for place, value in zip(places, z, strict=True) if value > 0)
            return self.changed(edges, node, other, "search")

        return Shape(len(places), decode)

    def simpler(self, pair: Pair) -> Iterator[Pair]:
        """Without edges that both have, all of them first."""
        common = [edge for edge in pair.d0.edges if pair.d1.has_edge(*edge)]
        for gone in [common, *([edge] for edge in common)] if len(common) > 1 else []:
            sides = [graph.copy() for graph in (pair.d0, pair.d1)]
            for graph in sides:
                graph.remove_edges_from(gone)
            found = self.pair(sides[0], sides[1], pair.why)
            if found is not None:
                yield found

    @property
    def records(self) -> int:
        return self.nodes


class _Drawn(Draws[Graph]):
    def drawn(self, turn: int, corners: bool) -> Pair | None:
        """A random graph, sparse or dense or one in between."""
        domain, rng = self.domain, self.rng
        share = (0.5, 0.1, 0.9, float(rng.random()))[turn % 4]
        places = domain.places
        edges = frozenset(place for place, there in zip(places, rng.random(len(places)) < share, strict=True) if there)
        node, other = (int(v) for v in rng.choice(domain.nodes, 2, replace=False))
        return domain.changed(edges, node, other, f"drawn {turn}: a random graph, {share:.2g} of all edges")
