"""Domains of datasets without columns of numbers: texts, graphs, and a neighboring relation that
the user defines.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.datasets.relations import GRAPHS, OWN, parse_relation
from dpwitness.core.domains.base import (
    MAX_ENTRIES,
    PLACES,
    Domain,
    SearchSpace,
    flags,
    items,
    sized,
)
from dpwitness.core.domains.columns import Column
from dpwitness.core.domains.records import Rows
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.dataframe_backends import UnsupportedData, library, library_name
from dpwitness.core.values.validation import (
    InvalidArgument,
    error_text,
    require,
    require_callable,
    require_type,
    short_repr,
)

_ENCODED_WORDS = 8  # words of a text that a search varies


@dataclass(frozen=True, slots=True)
class Texts(Domain):
    """`size` texts of up to `longest` words from `words`, separated by spaces; neighbors by
    ``replace-one`` or ``add-remove``.

    Parameters
    ----------
    size : int
        Number of texts; the largest number under ``add-remove``.
    words : tuple of str
        Distinct words without spaces.
    longest : int
        Largest number of words in a text.
    relation : {"replace-one", "add-remove"}
        Neighboring relation.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range, or a word contains spaces.
    """

    size: int
    words: tuple[str, ...] = ("a", "b", "c")
    longest: int = 8
    relation: str = "replace-one"
    random_pairs = 24
    unordered = True
    styles = ("", ", texts of one word", ", texts of one word many times")

    def __post_init__(self) -> None:
        require(self).integer("size", "longest", most=MAX_ENTRIES).one_of(
            "relation", ["replace-one", "add-remove"]
        )
        words = items("words", self.words, "Texts")
        if (
            not words
            or not all(isinstance(word, str) and word and " " not in word for word in words)
            or len(set(words)) < len(words)
        ):
            raise InvalidArgument(
                "Texts: words must be distinct non-empty texts without spaces, got "
                f"{short_repr(self.words)}"
            )
        object.__setattr__(self, "words", tuple(words))

    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset is a list with an allowed number of texts of these words."""
        return (
            isinstance(dataset, list | tuple)
            and sized(len(dataset), self.size, self.relation)
            and all(
                isinstance(text, str)
                and len(words := text.split(" ") if text else []) <= self.longest
                and set(words) <= set(self.words)
                for text in dataset
            )
        )

    def changed(
        self, crowd: Sequence[str], before: str, after: str, turn: int, why: str
    ) -> Pair | None:
        """Return the pair that changes one text among others, in a place that depends on `turn`."""
        where, place = PLACES[turn % 3]
        at = place(len(crowd))
        first = list(crowd) if self.relation == "add-remove" else [*crowd[:at], before, *crowd[at:]]
        return self.pair(first, [*crowd[:at], after, *crowd[at:]], f"{why}, {where}")

    def catalogue(self) -> Iterable[Pair | None]:
        """Yield fixed pairs: one text changes to or from one repeated word, all words or no words.
        The common texts are empty, equal, of all words, or each of another word.
        """
        first, last = self.words[0], self.words[-1]
        every = " ".join((self.words * self.longest)[: self.longest])
        changes = {
            "one word to another": (first, last),
            "nothing to one word many times": ("", " ".join([last] * self.longest)),
            "one word many times to another": (
                " ".join([first] * self.longest),
                " ".join([last] * self.longest),
            ),
            "nothing to all words": ("", every),
            "one word to nothing": (first, ""),
        }
        crowds = {
            "others empty": [""],
            "others alike": [first],
            "others of all words": [every],
            "others in turn": list(self.words),
        }
        turn = 0
        for among, texts in crowds.items():
            crowd = [texts[i % len(texts)] for i in range(self.size - 1)]
            for why, (before, after) in changes.items():
                if turn == 3 and not self.fixes_size:
                    yield self.changed([], "", last, 0, "one text against none")
                yield self.changed(crowd, before, after, turn, f"{why}, {among}")
                turn += 1

    def random_pair(self, rng: Generator, turn: int, corners: bool) -> Pair | None:
        """Return a random pair of texts with random words; in corners all texts have the largest
        number of words.
        """

        def text() -> str:
            count = self.longest if corners else int(rng.integers(self.longest + 1))
            return (
                " ".join(self.words[i] for i in rng.choice(len(self.words), count)) if count else ""
            )

        crowd = [text() for _ in range(self.size - 1)]
        return self.changed(crowd, text(), text(), turn, f"drawn {turn}: random words")

    @property
    def fixes_size(self) -> bool:
        """Return whether all datasets have the same number of texts."""
        return self.relation != "add-remove"

    @property
    def rows(self) -> Rows:
        """Return the domain of tables that encode texts by the numbers of their words; 0 is an
        empty place.
        """
        columns = tuple(range(min(self.longest, _ENCODED_WORDS)))
        bounds = ((0.0, float(len(self.words))),) * len(columns)
        return Rows(self.size, bounds, relation=self.relation, integer=columns, categories=columns)

    @property
    def data_columns(self) -> list[Column]:
        """Return the columns of `rows`."""
        words = ("", *self.words)
        return [
            Column(str(i), "category", 0.0, float(len(self.words)), words)
            for i in range(len(self.rows.features))
        ]

    def frames(self, d0: Any, d1: Any, style: int) -> tuple[list[str], list[str], str]:
        """Return the texts of two tables of encoded rows, and a remark: the words of each row, or
        its first word once or many times.
        """
        words, times = ("", *self.words), (0, 1, self.longest)[style % len(self.styles)]

        def text(row: Any) -> str:
            found = [words[int(code)] for code in row if code > 0]
            return " ".join(times * found[:1] if times else found)

        return list(map(text, d0)), list(map(text, d1)), self.styles[style % len(self.styles)]

    def simplifications(self, pair: Pair) -> Iterator[Pair | None]:
        """Yield the pair with all common texts made empty."""
        common = set(pair.d0) & set(pair.d1) - {""}
        if common:
            sides = [
                ["" if text in common else text for text in side] for side in (pair.d0, pair.d1)
            ]
            yield self.pair(sides[0], sides[1], pair.why)


Edges = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Graph(Domain):
    """Simple networkx graphs on up to `nodes` nodes, numbered from 0; directed graphs if
    `directed`.

    Parameters
    ----------
    nodes : int
        Number of nodes; the largest number under ``node``.
    relation : str
        ``edge`` (one is added or removed), ``replace-edge``, ``node`` (one is removed with all its
        edges) or ``replace-node`` (its edges change). ``:k=`` allows k changes.
    directed : bool
        Whether edges have a direction.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range, or the relation is not a relation of graphs.
    """

    nodes: int
    relation: str = "edge"
    directed: bool = False

    def __post_init__(self) -> None:
        # a catalogue holds dense graphs
        require(self).integer("nodes", least=3, most=200)
        flags(self, "directed")
        if not isinstance(self.relation, str) or self.relation.partition(":")[0] not in GRAPHS:
            raise InvalidArgument(
                f"Graph: relation must be one of {', '.join(GRAPHS)}, got {self.relation!r}"
            )
        object.__setattr__(self, "relation", str(parse_relation(self.relation, "Graph")))
        try:
            library("networkx")
        except UnsupportedData as error:
            raise InvalidArgument(f"Graph: {error}") from None

    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset is a graph without loops and attributes on all nodes; under
        ``node`` some may be missing.
        """
        if library_name(dataset) != "networkx" or type(dataset).__name__ != (
            "DiGraph" if self.directed else "Graph"
        ):
            return False
        known = all(
            type(node) is int and 0 <= node < self.nodes for node in dataset.nodes
        ) and not any(u == v for u, v in dataset.edges)
        complete = len(dataset) == self.nodes or parse_relation(self.relation).name == "node"
        attributes = [
            dataset.graph,
            *(attrs for _, attrs in dataset.nodes(data=True)),
            *(attrs for _, _, attrs in dataset.edges(data=True)),
        ]
        return known and complete and not any(attributes)

    def _graph(self, edges: Iterable[tuple[int, int]], without: Iterable[int] = ()) -> Any:
        """Return the networkx graph with these edges, without some nodes."""
        networkx, removed = library("networkx"), set(without)
        found = networkx.DiGraph() if self.directed else networkx.Graph()
        found.add_nodes_from(node for node in range(self.nodes) if node not in removed)
        found.add_edges_from(edge for edge in sorted(edges) if not removed & {*edge})
        return found

    @property
    def places(self) -> list[tuple[int, int]]:
        """Return all possible edges."""
        return list(
            (itertools.permutations if self.directed else itertools.combinations)(
                range(self.nodes), 2
            )
        )

    def changed(self, edges: Edges, node: int, other: int, why: str) -> Pair | None:
        """Return the pair that changes a node, or the edge between `node` and `other`, as the
        relation allows.

        With ``k=``, k nodes or edges change, those at `node` first. None if too few edges are
        free.
        """
        parsed = parse_relation(self.relation)
        if parsed.name in ("node", "replace-node"):
            nodes = {*sorted(range(self.nodes), key=lambda n: (n != node, n != other))[: parsed.k]}
            if parsed.name == "node":
                return self.pair(self._graph(edges, without=nodes), self._graph(edges), why)
            isolated = frozenset(edge for edge in edges if not nodes & {*edge})
            connected = isolated | {edge for edge in self.places if nodes & {*edge}}
            return self.pair(
                self._graph(isolated), self._graph(edges if isolated != edges else connected), why
            )
        between = (min(node, other), max(node, other))
        k = (
            min(parsed.k, len(self.places) // 2) if parsed.name == "replace-edge" else parsed.k
        )  # the same number of other edges must be free
        chosen = frozenset(
            heapq.nsmallest(k, self.places, key=lambda place: (place != between, node not in place))
        )
        if parsed.name == "edge":
            return self.pair(self._graph(edges - chosen), self._graph(edges | chosen), why)
        free = [edge for edge in self.places if edge not in edges | chosen][: len(chosen)]
        return (
            self.pair(self._graph(edges | chosen), self._graph((edges - chosen) | {*free}), why)
            if len(free) == len(chosen)
            else None
        )

    def catalogue(self) -> Iterable[Pair | None]:
        """Yield fixed pairs: star, path, ring, clique, two halves, no edges; each changed at its
        most and least connected nodes.
        """
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
        for (node, other), where in (
            ((0, 1), "at the first node"),
            ((n - 1, n - 2), "at the last node"),
            ((0, n - 1), "from end to end"),
        ):
            for why, edges in shapes.items():
                yield self.changed(frozenset(edges), node, other, f"{why}, changed {where}")

    def random_pair(self, rng: Generator, turn: int, corners: bool) -> Pair | None:
        """Return a random pair of graphs: sparse, dense or in between."""
        share = (0.5, 0.1, 0.9, float(rng.random()))[turn % 4]
        places = self.places
        edges = frozenset(
            place
            for place, there in zip(places, rng.random(len(places)) < share, strict=True)
            if there
        )
        node, other = (int(v) for v in rng.choice(self.nodes, 2, replace=False))
        return self.changed(
            edges, node, other, f"drawn {turn}: a random graph, {share:.2g} of all edges"
        )

    def shape(self, rng: Generator, turn: int) -> SearchSpace:
        """Return coordinates of pairs for the `turn`-th start of a search: an edge exists where its
        number is positive. The changed place is drawn.
        """
        places = self.places
        node, other = (int(v) for v in rng.choice(self.nodes, 2, replace=False))

        def decode(z: FloatArray) -> Pair | None:
            edges = frozenset(place for place, value in zip(places, z, strict=True) if value > 0)
            return self.changed(edges, node, other, "search")

        return SearchSpace(len(places), decode)

    def simplifications(self, pair: Pair) -> Iterator[Pair | None]:
        """Yield pairs without common edges, first without all of them, then without one."""
        common = [edge for edge in pair.d0.edges if pair.d1.has_edge(*edge)]
        for removed in [common, *([edge] for edge in common)] if len(common) > 1 else []:
            sides = [graph.copy() for graph in (pair.d0, pair.d1)]
            for graph in sides:
                graph.remove_edges_from(removed)
            yield self.pair(sides[0], sides[1], pair.why)


@dataclass(frozen=True, slots=True)
class Relation(Domain):
    """A user-defined neighboring relation for `Pair`; with `generate` also a domain.

    Parameters
    ----------
    check : callable
        ``check(d0, d1)`` returns True for neighbors, otherwise False or a text with the reason. The
        check must be symmetric.
    generate : callable, optional
        ``generate(rng)`` returns two neighboring datasets. If `check` refuses such a pair, the
        audit raises an error that names the relation.
    title : str
        Name in reports and witnesses. Default: the name of `check`.

    Raises
    ------
    InvalidArgument
        If a function cannot be called.

    Examples
    --------
    >>> from dpwitness import Pair
    >>> close = Relation(lambda d0, d1: abs(d0 - d1) <= 5 or "more than 5 apart", title="close")
    >>> Pair(10, 14, relation=close).relation
    'own:close'
    """

    check: Callable[[Any, Any], bool | str]
    generate: Callable[[Generator], tuple[Any, Any]] | None = None
    title: str = ""
    relation: str = field(init=False, default="")
    declarable = False  # its fields are functions
    unordered = True

    def __post_init__(self) -> None:
        require_callable("check", self.check, "Relation", arguments=2)
        require_callable("generate", self.generate, "Relation", arguments=1, optional=True)
        require_type("title", self.title, str, "be a text", "Relation")
        title = self.title or getattr(self.check, "__name__", "relation")
        object.__setattr__(self, "relation", f"{OWN}:{title}")

    @property
    def name(self) -> str:
        """Return the name of the relation in results."""
        return self.relation

    def contains(self, dataset: Any) -> bool:
        """Return True: the check of a pair is the only restriction on datasets."""
        return True

    def random_pair(self, rng: Generator, turn: int, corners: bool) -> Pair:
        """Return a generated pair.

        Raises
        ------
        InvalidArgument
            If `generate` is missing, raises, or returns a pair that `check` refuses.
        """
        why = f"drawn {turn}"
        if self.generate is None:
            raise InvalidArgument(
                f"Relation: {self.name} has no generate function, so it is not a domain; "
                "pass generate=..., or a pair"
            )
        try:
            generated = self.generate(rng)
        except Exception as error:
            raise InvalidArgument(
                f"Relation: generate of {self.name} raises {error_text(error)}"
            ) from None
        if not isinstance(generated, tuple | list) or len(generated) != 2:
            raise InvalidArgument(
                f"Relation: generate of {self.name} must return two datasets, got "
                f"{short_repr(generated)}"
            )
        try:
            return Pair(generated[0], generated[1], relation=self, why=why)  # type: ignore[arg-type]
        except InvalidArgument as error:
            reason = str(error).removeprefix("Pair: ")
            raise InvalidArgument(
                f"Relation: the check of {self.name} rejects a pair that its own generate "
                f"made ({why}): {reason}"
            ) from None
