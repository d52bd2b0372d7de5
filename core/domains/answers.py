"""The domain of true query answers, as vectors.

The shapes of the catalogue follow StatDP (Ding et al. 2018, table 1): one above, one below, one
above and the rest below, half and half, all above. Both sides of a power of two are added to expose
floating-point leaks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import Domain, SearchSpace
from dpwitness.core.domains.fields import MAX_ENTRIES, vector
from dpwitness.core.domains.pair_patterns import PLACES, between, drop_invalid_pairs
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import InvalidArgument, require

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


@dataclass(frozen=True, slots=True)
class Answers(Domain):
    """A vector of `length` true query answers in [low, high]; neighbors differ by at most 1 in a
    norm (`l1`, `l2`, `linf`).

    Parameters
    ----------
    length : int
        Number of answers.
    low, high : float
        Bounds of the answers, at least 1 apart.
    relation : {"linf", "l1", "l2"}
        Norm of the neighboring relation.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range.
    """

    length: int
    low: float = -10.0
    high: float = 10.0
    relation: str = "linf"

    def __post_init__(self) -> None:
        require(self).integer("length", most=MAX_ENTRIES).finite("low", "high").one_of(
            "relation", ["l1", "l2", "linf"]
        )
        if not self.high - self.low >= 1:
            raise InvalidArgument(
                f"Answers: high - low must be at least 1, got {self.high - self.low!r}"
            )
        # the bound with the finest spacing of floats
        end = self.low if self.low > 0 else min(self.high, 0.0)
        if math.ulp(end) > 1:
            raise InvalidArgument(
                "Answers: low and high must have floats at distance 1 between them, got "
                f"[{self.low!r}, {self.high!r}]"
            )

    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset is a vector of `length` numbers in [low, high]."""
        values = vector(dataset)
        return (
            values is not None
            and len(values) == self.length
            and bool(np.all((values >= self.low) & (values <= self.high)))
        )

    def catalogue(self) -> Iterable[Pair | None]:
        """Yield fixed pairs: one answer up, all up, half and half, alternating, at several heights
        (StatDP: Ding et al. 2018, table 1).
        """
        n = self.length
        one, half = (np.arange(n) == 0).astype(float), (np.arange(n) < n // 2).astype(float)
        last, middle = one[::-1], np.roll(one, n // 2)
        rest = 1.0 - one
        alternating = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
        moves = {
            "one answer up": one,
            "all answers up": np.ones(n),
            "one up, the rest down": one - rest,
            "half up, half down": 2 * half - 1,
            "half up": half,
            "alternately up and down": alternating,
            "all but one up": rest,
        }
        alone = {"last answer up": last, "answer in the middle up": middle} if n > 1 else {}
        order = {"l1": 1, "l2": 2, "linf": np.inf}[self.relation]
        level = float(np.clip(0.0, self.low, self.high - 1))
        power = 2.0 ** np.floor(np.log2(max(self.high - 0.5, 1e-9)))
        heights = {
            "": np.full(n, level),
            ", at the bottom": np.full(n, self.low),
            ", the first far above": np.where(np.arange(n) == 0, self.high - 1, self.low),
            ", the first far below": np.where(np.arange(n) == 0, self.low, self.high - 1),
            ", one half far above": np.where(half > 0, self.high - 1, self.low),
        }
        if power - 0.5 > max(level, self.low):  # the spacing of floats changes at a power of two
            heights[f", across {power:g}"] = np.full(n, power - 0.5)
        for place, height in heights.items():
            for why, move in (moves if place else moves | alone).items():
                size = float(np.linalg.norm(move, order))
                if size == 0:
                    continue
                step = move / size
                d0 = np.clip(height + np.maximum(-step, 0.0), self.low, self.high)
                yield self.pair(d0, np.clip(d0 + step, self.low, self.high), why + place)

    def random_pair(self, rng: Generator, turn: int, corners: bool) -> Pair | None:
        """Return a random pair in which all answers move, each up or down, or only one moves."""
        n, low, high = self.length, self.low, self.high
        at, place = PLACES[turn % 3]
        signs = rng.choice([-1.0, 1.0], n)
        alone = turn % 2 == 1 or self.relation == "l1"
        if alone:
            signs[np.arange(n) != place(n - 1)] = 0.0
        step = signs / (np.linalg.norm(signs) if self.relation == "l2" else 1.0)
        heights = (
            np.where(rng.random(n) < 0.5, low, high)
            if corners
            else between(low, high, rng.random(n))
        )
        why = f"one answer moved, {at}," if alone else "answers moved up and down"
        return self._moved(
            heights,
            step,
            f"drawn {turn}: {why} {'at random ends' if corners else 'at random heights'}",
        )

    def _moved(self, base: FloatArray, step: FloatArray, why: str) -> Pair | None:
        """Return the pair of the answers before and after a step, moved inside the bounds."""
        base = np.clip(base, self.low + np.maximum(-step, 0), self.high - np.maximum(step, 0))
        return self.pair(base, np.clip(base + step, self.low, self.high), why)

    def shape(self, rng: Generator, turn: int) -> SearchSpace:
        """Return coordinates of a pair: `length` base answers and `length` changes."""
        n = self.length

        def decode(z: FloatArray) -> Pair | None:
            step = z[n:]
            if self.relation == "linf":
                step = np.clip(step, -1, 1)
            else:
                size = float(np.linalg.norm(step, 1 if self.relation == "l1" else 2))
                step = step / size if size > 0 else step
            base = between(self.low, self.high, 0.5 + 0.5 * np.clip(0.7 * z[:n], -1, 1))
            return self._moved(base, step, "search")

        return SearchSpace(2 * n, decode)

    def lattice(self) -> SearchStrategy[Pair]:
        """Return a strategy of pairs with base answers at quarters of the interval and changes of
        -1, 0 or 1, scaled to the norm.
        """
        from hypothesis import strategies as st

        quarters = st.lists(st.integers(0, 4), min_size=self.length, max_size=self.length)
        steps = st.lists(st.integers(-1, 1), min_size=self.length, max_size=self.length).filter(any)

        def build(parts: tuple[list[int], list[int]]) -> Pair | None:
            step = np.array(parts[1], dtype=float)
            step /= {"linf": 1.0, "l1": np.abs(step).sum(), "l2": math.sqrt(step @ step)}[
                self.relation
            ]
            return self._moved(
                between(self.low, self.high, np.array(parts[0]) / 4), step, "lattice"
            )

        return drop_invalid_pairs(st.tuples(quarters, steps).map(build))

    @property
    def records(self) -> int:
        return self.length

    @property
    def interval(self) -> tuple[float, float]:
        return float(self.low), float(self.high)
