"""The domain of sequences of linear costs, one of which is replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.datasets import LinearCosts
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import Domain, SearchSpace
from dpwitness.core.domains.fields import MAX_ENTRIES
from dpwitness.core.domains.pair_patterns import PLACES, drop_invalid_pairs, truncated_tables
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import require

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy


@dataclass(frozen=True, slots=True)
class Costs(Domain):
    """`LinearCosts` of `length` rounds in `dimension` dimensions, each entry in [-bound, bound];
    neighbors differ in the cost of one round.

    Parameters
    ----------
    length : int
        Number of rounds.
    dimension : int
        Dimension of each cost.
    bound : float
        Largest absolute value of an entry. Positive.
    relation : {"substitution"}
        Neighboring relation.
    """

    length: int
    dimension: int
    bound: float
    relation: str = "substitution"

    def __post_init__(self) -> None:
        require(self).integer("length", "dimension", most=MAX_ENTRIES).positive("bound").one_of(
            "relation", ["substitution"]
        )

    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset is a LinearCosts of this shape within the bound."""
        shape = (self.length, self.dimension)
        return (
            isinstance(dataset, LinearCosts)
            and dataset.x.shape == shape
            and bool(np.all(np.abs(dataset.x) <= self.bound))
        )

    def catalogue(self) -> Iterable[Pair | None]:
        """Yield fixed pairs: one cost replaced by its negative, by zero or by another corner."""
        rounds, p, bound = self.length, self.dimension, self.bound
        opposed, split = np.full(p, bound), bound * np.where(np.arange(p) % 2 == 0, 1.0, -1.0)
        opposed[0] = -bound
        for place in sorted({0, rounds // 2, rounds - 1}):
            for crowd, baseline in (
                ("all others zero", 0 * opposed),
                ("all others against it", -opposed),
                ("all others with it", opposed),
            ):
                if rounds == 1 and baseline.any():
                    continue
                for why, first, second in (
                    ("one action against all others", opposed, -opposed),
                    ("one action favoured or not", opposed, 0 * opposed),
                    ("half against half", split, -split),
                    ("one cost shared by all", np.full(p, bound), np.full(p, -bound)),
                ):
                    table = np.repeat(baseline[None, :], rounds, axis=0)
                    yield self._replaced(
                        table, place, first, second, f"round {place + 1}: {why}, {crowd}"
                    )

    def random_pair(self, rng: Generator, turn: int, corners: bool) -> Pair | None:
        shape = (self.length, self.dimension)
        at, place = PLACES[turn % 3]
        draws = rng.choice([-1.0, 1.0], shape) if corners else rng.uniform(-1.0, 1.0, shape)
        cost = self.bound * rng.choice([-1.0, 1.0], self.dimension)
        other = -cost if turn % 2 else self.bound * rng.choice([-1.0, 1.0], self.dimension)
        others = "at random corners" if corners else "from the interior"
        why = f"drawn {turn}: one cost replaced, {at} among others {others}"
        return self._replaced(self.bound * draws, place(self.length - 1), cost, other, why)

    def _replaced(
        self, table: FloatArray, place: int, first: FloatArray, second: FloatArray, why: str
    ) -> Pair | None:
        """Return the pair of a table of costs with the cost of one round replaced by `first` and by
        `second`.
        """
        tables = table.copy(), table.copy()
        tables[0][place], tables[1][place] = first, second
        return self.pair(LinearCosts(tables[0]), LinearCosts(tables[1]), why)

    def shape(self, rng: Generator, turn: int) -> SearchSpace:
        """Return coordinates of a pair: the two costs of the changed round, and on even turns a
        third cost that some other rounds share.
        """
        p, rounds, bound = self.dimension, self.length, self.bound
        place = 0 if turn % 3 < 2 else int(rng.integers(rounds))
        shared = rounds > 1 and turn % 2 == 0

        def decode(z: FloatArray) -> Pair | None:
            table = np.zeros((rounds, p))
            if shared:  # some of the following rounds share one cost
                copies = int(
                    np.clip(
                        np.floor(10 ** (np.log10(rounds) * (0.5 + z[3 * p] / 3))), 0, rounds - 1
                    )
                )
                rest = (
                    np.delete(np.arange(rounds), place)[place : place + copies]
                    if place + copies < rounds
                    else np.arange(rounds)
                )
                table[rest] = bound * np.clip(z[2 * p : 3 * p], -1, 1)
            return self._replaced(
                table,
                place,
                bound * np.clip(z[:p], -1, 1),
                bound * np.clip(z[p : 2 * p], -1, 1),
                "search",
            )

        return SearchSpace(3 * p + 1 if shared else 2 * p, decode)

    def lattice(self) -> SearchStrategy[Pair]:
        """Return a strategy of pairs whose entries are 0, a half or all of the bound, of either
        sign.
        """
        from hypothesis import strategies as st

        corner = st.lists(
            st.sampled_from([0.0, 1.0, -1.0, 0.5, -0.5]),
            min_size=self.dimension,
            max_size=self.dimension,
        )

        @st.composite
        def pairs(draw: DrawFn) -> Pair | None:
            rounds = self.length
            table = np.zeros((rounds, self.dimension))
            place = draw(st.integers(0, rounds - 1))
            copies = draw(st.integers(0, rounds - 1))
            table[np.delete(np.arange(rounds), place)[:copies]] = self.bound * np.array(
                draw(corner)
            )
            first, second = self.bound * np.array(draw(corner)), self.bound * np.array(draw(corner))
            return self._replaced(table, place, first, second, "lattice")

        return drop_invalid_pairs(pairs())

    def simplifications(self, pair: Pair) -> Iterator[Pair | None]:
        """Yield pairs with common costs set to zero, or with fewer digits."""
        for first, second in truncated_tables(pair.d0.x, pair.d1.x, -self.bound, self.bound):
            yield self.pair(LinearCosts(first), LinearCosts(second), pair.why)
