"""Base classes of the domains: the datasets, their neighboring relation, and the search for pairs.

Catalogues, searches, lattices and simplifiers build all their pairs by `Domain.pair`. It returns
None if a dataset lies outside of the domain or if the two are not neighbors. A domain without any
pair of neighbors is refused when it is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import InvalidArgument

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

D = TypeVar("D", bound="Domain")


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Coordinates of a pair: a map from R^`size` to pairs. `decode` returns None where a point is
    not a pair of different neighbors.
    """

    size: int
    decode: Callable[[FloatArray], Pair | None]


class Domain(ABC):
    """Base of the domains: a set of datasets with a neighboring relation, and the methods that
    search its pairs.

    A subclass implements `contains`, and for a search `catalogue`, `random_pair` and `shape`.
    `lattice` and `simplifications` are optional.
    """

    relation: str
    counts = False  # whether datasets are vectors of exact integers
    declarable = True  # whether a target file can declare the domain by its fields

    @abstractmethod
    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset belongs to the domain."""

    def other_columns(self, dataset: Any) -> str:
        """Return why the dataset's columns are not those of the domain; an empty text
        if they are.
        """
        return ""

    def holds(self, pair: Pair) -> bool:
        """Return whether both datasets of the pair belong to the domain and its relation is the
        domain's.
        """
        return pair.relation == self.relation and self.contains(pair.d0) and self.contains(pair.d1)

    def pair(self, d0: Any, d1: Any, why: str) -> Pair | None:
        """Return the pair of two datasets, or None if it does not belong to the domain."""
        try:
            pair = Pair(d0, d1, self.relation, why)
        except InvalidArgument:
            return None
        return pair if self.holds(pair) else None

    def catalogue(self) -> Iterable[Pair | None]:
        """Return pairs worth trying, the most promising first, the same for every mechanism."""
        return ()

    def random_pair(self, rng: Generator, turn: int, corners: bool) -> Pair | None:
        """Return the random pair of a turn, whose other records lie at corners of the domain or in
        its interior.
        """
        return None

    def draws(self, rng: Generator) -> Draws[Any]:
        """Return a sampler of random pairs."""
        return Draws(self, rng)

    def shape(self, rng: Generator, turn: int) -> SearchSpace:
        """Return coordinates of pairs for the `turn`-th start of a search.

        Discrete parts of a pair (labels, categories, places, number of different records) are drawn
        at random. A standard normal point decodes to a varied pair: directions are uniform, half of
        the records lie on the boundary, sizes and multiplicities spread over all their orders of
        magnitude. By default there are no coordinates to search along.
        """
        return SearchSpace(0, lambda _: None)

    def lattice(self) -> SearchStrategy[Pair] | None:
        """Return a Hypothesis strategy of pairs with few records and short numbers, simple ones
        first; None without a strategy.
        """
        return None

    def simpler(self, pair: Pair) -> Iterator[Pair]:
        """Yield pairs of the domain that are simpler than `pair`, the boldest simplification first;
        never `pair` itself.
        """
        return (found for found in self.simplifications(pair) if found is not None)

    def simplifications(self, pair: Pair) -> Iterator[Pair | None]:
        """Yield what `simpler` yields, and None for candidates outside of the domain."""
        return iter(())

    @property
    def records(self) -> int:
        """Return the number of records or numbers in a dataset; the default of 2 stands for an
        unknown number above 1.
        """
        return 2

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the first number of a dataset; None if that number is
        an integer.
        """
        return None

    @property
    def has_integers(self) -> bool:
        """Return whether some numbers are integers, possibly categories."""
        return False

    @property
    def unordered(self) -> bool:
        """Return whether some numbers are categories, along which a search by coordinates makes no
        sense.
        """
        return False


class Draws(Generic[D]):
    """Sampler of random neighboring pairs of a domain.

    The changed record lies first, in the middle or last, depending on `turn`. The other records lie
    at corners of the domain or in its interior, with mixed labels. The label, the features, both or
    one feature change. Twelve turns cover all combinations.
    """

    def __init__(self, domain: D, rng: Generator) -> None:
        self.domain, self.rng = domain, rng

    def __call__(self, turn: int) -> Pair | None:
        """Return a random pair; None where the draw is not a pair of the domain."""
        return self.random_pair(turn, (turn + turn // 4) % 2 == 0)

    def random_pair(self, turn: int, corners: bool) -> Pair | None:
        """Return the random pair of a turn."""
        return self.domain.random_pair(self.rng, turn, corners)

    def renumbered(self, pair: Pair | None) -> Pair | None:
        """Return the pair with its categories, if the domain has any, randomly renumbered."""
        return pair

    def moves(self) -> RandomSteps | None:
        """Return random steps from pair to pair, or None if the domain has none."""
        return None


class RandomSteps(ABC):
    """Random steps from one pair to another. Parts of the pair whose change affected the score are
    redrawn more often.
    """

    @abstractmethod
    def step(self, pair: Pair) -> tuple[int, Pair | None]:
        """Return the index of the redrawn part and the new pair; None for a pair outside of the
        domain.
        """

    @abstractmethod
    def learn(self, part: int, before: float, after: float) -> None:
        """Record the score before and after a step on `part`."""
