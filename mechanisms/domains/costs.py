"""The domain of sequences of linear costs, one of which is replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from dpwitness.mechanisms.core.validation import require
from dpwitness.mechanisms.data.datasets import LinearCosts
from dpwitness.mechanisms.data.pairs import Pair
from dpwitness.mechanisms.domains.base import Domain, Draws, SearchSpace
from dpwitness.mechanisms.domains.fields import MAX_ENTRIES
from dpwitness.mechanisms.domains.pair_patterns import PLACES, drop_invalid_pairs, truncated_tables
from dpwitness.mechanisms.protocols.mechanism import FloatArray

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy


@dataclass(frozen=True, slots=True)
class Costs(Domain):
    """`LinearCosts` of `length` rounds in `dimension` dimensions, each entry in [-bound, bound]; neighbors differ in the cost of one round.

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
        require(self).integer("length", "dimension", most=MAX_ENTRIES).positive("bound").one_of("relation", ["substitution"])

    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset is a LinearCosts of this shape within the bound."""
        shape = (self.length, self.dimension)
        return isinstance(dataset, LinearCosts) and dataset.x.shape == shape and bool(np.all(np.abs(dataset.x) <= self.bound))

    def catalogue(self) -> Iterable[Pair | None]:
        """Return fixed pairs: one cost replaced by its negative, by zero or by another corner.

        The replaced cost lies in the first, the middle or the last round. The other rounds have
        zero, equal or opposite costs.
        """
        rounds, p, bound = self.length, self.dimension, self.bound
        opposed, split = np.full(p, bound), bound * np.where(np.arange(p) % 2 == 0, 1.0, -1.0)
        opposed[0] = -bound
        found = []
        for place in sorted({0, rounds // 2, rounds - 1}):
            for crowd, baseline in (("all others zero", 0 * opposed), ("all others against it", -opposed), ("all others with it", opposed)):
                if rounds == 1 and baseline.any():
                    continue
                for why, first, second in (
                    ("one action against all others", opposed, -opposed),
                    ("one action favoured or not", opposed, 0 * opposed),
                    ("half against half", split, -split),
                    ("one cost shared by all", np.full(p, bound), np.full(p, -bound)),
                ):
                    tables = np.repeat(baseline[None, :], rounds, axis=0), np.repeat(baseline[None, :], rounds, axis=0)
                    tables[0][place], tables[1][place] = first, second
                    text = f"round {place + 1}: {why}, {crowd}"
                    found.append(self.pair(LinearCosts(tables[0]), LinearCosts(tables[1]), text))
        return found

    def draws(self, rng: Generator) -> Draws[Costs]:
        return _CostSampler(self, rng)

    def shape(self, rng: Generator, turn: int) -> SearchSpace:
        """Return coordinates of a pair: the two costs of the changed round, and on even turns a third cost that some other rounds share."""
        p, rounds, bound = self.dimension, self.length, self.bound
        place = 0 if turn % 3 < 2 else int(rng.integers(rounds))
        shared = rounds > 1 and turn % 2 == 0

        def decode(z: FloatArray) -> Pair | None:
            table = np.zeros((rounds, p))
            if shared:  # some of the following rounds share one cost
                copies = int(np.clip(np.floor(10 ** (np.log10(rounds) * (0.5 + z[3 * p] / 3))), 0, rounds - 1))
                rest = np.delete(np.arange(rounds), place)[place : place + copies] if place + copies < rounds else np.arange(rounds)
                table[rest] = bound * np.clip(z[2 * p : 3 * p], -1, 1)
            first, second = table.copy(), table.copy()
            first[place], second[place] = bound * np.clip(z[:p], -1, 1), bound * np.clip(z[p : 2 * p], -1, 1)
            return self.pair(LinearCosts(first), LinearCosts(second), "search")

        return SearchSpace(3 * p + 1 if shared else 2 * p, decode)

    def lattice(self) -> SearchStrategy[Pair]:
        """Return a strategy of pairs whose entries are 0, a half or all of the bound, of either sign."""
        from hypothesis import strategies as st

        corner = st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.5, -0.5]), min_size=self.dimension, max_size=self.dimension)

        @st.composite
        def pairs(draw: DrawFn) -> Pair | None:
            rounds = self.length
            table = np.zeros((rounds, self.dimension))
            place = draw(st.integers(0, rounds - 1))
            copies = draw(st.integers(0, rounds - 1))
            table[np.delete(np.arange(rounds), place)[:copies]] = self.bound * np.array(draw(corner))
            first, second = table.copy(), table.copy()
            first[place], second[place] = self.bound * np.array(draw(corner)), self.bound * np.array(draw(corner))
            return self.pair(LinearCosts(first), LinearCosts(second), "lattice")

        return drop_invalid_pairs(pairs())

    def simpler(self, pair: Pair) -> Iterator[Pair]:
        """Yield pairs with common costs set to zero, or with fewer digits."""
        for first, second in truncated_tables(pair.d0.x, pair.d1.x, -self.bound, self.bound):
            found = self.pair(LinearCosts(first), LinearCosts(second), pair.why)
            if found is not None:
                yield found


class _CostSampler(Draws[Costs]):
    """Random pairs of cost sequences."""

    def drawn(self, turn: int, corners: bool) -> Pair | None:
        domain = self.domain
        shape, rng = (domain.length, domain.dimension), self.rng
        at, place = PLACES[turn % 3]
        draws = rng.choice([-1.0, 1.0], shape) if corners else rng.uniform(-1.0, 1.0, shape)
        tables = domain.bound * draws, domain.bound * draws
        cost = domain.bound * rng.choice([-1.0, 1.0], domain.dimension)
        tables[0][place(domain.length - 1)] = cost
        tables[1][place(domain.length - 1)] = -cost if turn % 2 else domain.bound * rng.choice([-1.0, 1.0], domain.dimension)
        others = "at random corners" if corners else "from the interior"
        return domain.pair(LinearCosts(tables[0]), LinearCosts(tables[1]), f"drawn {turn}: one cost replaced, {at} among others {others}")
