"""What datasets a mechanism accepts and which of them are neighbours; and how its pairs are searched.

`Domain.pair` is the one door through which catalogues, searches, lattices and simplifiers build their pairs: it gives None for two datasets
of which one lies outside the domain, or which are no neighbours. A domain that holds no pair of neighbours is refused when it is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from numpy.random import Generator

from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

D = TypeVar("D", bound="Domain")


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to lay out a pair in R^`size`. `decode` gives None where a point is no pair of neighbours that differ."""

    size: int
    decode: Callable[[FloatArray], Pair | None]


class Domain(ABC):
    """Base of the domains: a set of datasets with a neighbouring relation, and the ways in which its pairs are looked for.

    A domain of another kind says what it `contains`, and to be searched its `catalogue`, its `draws` and its `shape`; `lattice` and
    `simpler` may be left out.
    """

    relation: str
    counts = False  # whether datasets are exact integers, of any size

    @abstractmethod
    def contains(self, dataset: Any) -> bool:
        """Whether the dataset is one of the domain's."""

    def other_columns(self, dataset: Any) -> str:
        """Why nothing can be run on a dataset that a user gave: its columns are not those that the domain names. Empty if they are."""
        return ""

    def holds(self, pair: Pair) -> bool:
        """Whether both datasets are the domain's, and neighbours by its relation."""
        return pair.relation == self.relation and self.contains(pair.d0) and self.contains(pair.d1)

    def pair(self, d0: Any, d1: Any, why: str) -> Pair | None:
        """The pair, or None where it is none of this domain."""
        try:
            pair = Pair(d0, d1, self.relation, why)
        except InvalidArgument:
            return None
        return pair if self.holds(pair) else None

    @abstractmethod
    def catalogue(self) -> Iterable[Pair | None]:
        """Pairs worth trying, what promises most first: shapes of the domain, the same for every mechanism."""

    @abstractmethod
    def draws(self, rng: Generator) -> Draws[Any]:
        """Pairs at random."""

    @abstractmethod
    def shape(self, rng: Generator, turn: int) -> Shape:
        """A layout for a search's `turn`-th start; what is no coordinate (labels, categories, places, how many differ) is drawn.

        A standard normal point decodes to a varied pair: directions are uniform, half of the records lie on the boundary, sizes and
        multiplicities spread over all their orders of magnitude.
        """

    def lattice(self) -> SearchStrategy[Pair] | None:
        """Pairs of few records and short numbers, simple ones first, for a search that shrinks; None if there are none."""
        return None

    def simpler(self, pair: Pair) -> Iterator[Pair]:
        """Neighbours of `pair` in the domain that are simpler, boldest first. None that equals it."""
        return iter(())

    @property
    def records(self) -> int:
        """Numbers or records that a pair has, or 2 for some: of one alone, few pairs tell nearly all."""
        return 2

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the first number of a dataset lies, if it is no whole number."""
        return None

    @property
    def whole(self) -> bool:
        """Whether some numbers are whole, and may be categories."""
        return False

    @property
    def unordered(self) -> bool:
        """Whether some numbers are categories: no coordinates to climb by."""
        return False


class Draws(ABC, Generic[D]):
    """Draws of neighbouring pairs of a domain.

    By `turn` the changed record stands first, in the middle or last, among records from corners of the domain or from its interior, with
    labels that are mixed; label, features, both or one feature change. Twelve turns show all of that.
    """

    def __init__(self, domain: D, rng: Generator) -> None:
        self.domain, self.rng = domain, rng

    def __call__(self, turn: int) -> Pair | None:
        """One pair; None where the draw is no pair of the domain."""
        return self.drawn(turn, (turn + turn // 4) % 2 == 0)

    @abstractmethod
    def drawn(self, turn: int, corners: bool) -> Pair | None:
        """The pair of a turn, whose other records lie in corners or inside."""

    def renumbered(self, pair: Pair | None) -> Pair | None:
        """The pair with its categories, if the domain has any, under other numbers."""
        return pair

    def moves(self) -> Moves | None:
        """Random steps from pair to pair, where there are any."""
        return None


class Moves(ABC):
    """Steps from one pair to another, whose parts are drawn more often where they have moved the score."""

    @abstractmethod
    def step(self, pair: Pair) -> tuple[int, Pair | None]:
        """Which part was drawn again, and the pair; None where it is none of the domain."""

    @abstractmethod
    def learn(self, part: int, before: float, after: float) -> None:
        """Note what a step on `part` did to the score."""
