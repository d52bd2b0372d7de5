"""Domains of vectors: true query answers, exact counts, and sequences of linear costs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import (
    MAX_ENTRIES,
    PLACES,
    Domain,
    SearchSpace,
    between,
    chosen,
    vector,
)
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import require, require_rules


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
        # the bound with the finest spacing of floats
        end = self.low if self.low > 0 else min(self.high, 0.0)
        bounds = [self.low, self.high]
        require_rules(
            "Answers",
            (self.high - self.low >= 1, "high - low must be at least 1", self.high - self.low),
            (
                math.ulp(end) <= 1,
                "low and high must contain floats that differ by exactly 1",
                bounds,
            ),
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
        """Return coordinates of pairs for the `turn`-th start of a search: `length` base answers
        and `length` changes.
        """
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

    @property
    def random_pairs(self) -> int:
        return 2 if self.length == 1 else 12  # the ends of the range of one number matter most

    @property
    def interval(self) -> tuple[float, float]:
        return float(self.low), float(self.high)


@dataclass(frozen=True, slots=True)
class Counts(Domain):
    """A vector of `length` true counts, 64-bit integers in [low, high]; neighbors differ by at most
    1 in a norm (`l1`, `l2`, `linf`).

    Parameters
    ----------
    length : int
        Number of counts.
    low, high : int
        Bounds of the counts.
    relation : {"l1", "l2", "linf"}
        Norm of the neighboring relation.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range.
    """

    length: int
    low: int = 0
    high: int = 100
    relation: str = "l1"
    counts = True

    def __post_init__(self) -> None:
        require(self).integer("length", most=MAX_ENTRIES).one_of("relation", ["l1", "l2", "linf"])
        bounds = [self.low, self.high]
        whole = all(type(v) is int and abs(v) < 2**63 for v in bounds)
        require_rules("Counts", (whole, "low and high must be 64-bit whole numbers", bounds))
        require_rules("Counts", (self.high > self.low, "high must exceed low", bounds))

    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset is a vector of `length` integers in [low, high]: an integer
        array, or a list of ints.
        """
        if isinstance(dataset, np.ndarray):
            dataset = dataset.tolist() if dataset.ndim == 1 and dataset.dtype.kind in "iu" else None
        return (
            isinstance(dataset, list | tuple)
            and len(dataset) == self.length
            and all(type(v) is int and self.low <= v <= self.high for v in dataset)
        )

    def catalogue(self) -> Iterable[Pair | None]:
        """Yield fixed pairs: one count up, all up, equal counts up and down, at zero, at both
        bounds and where floats round integers.
        """
        n, low, high = self.length, self.low, self.high
        levels = {"": min(max(0, low), high - 1), ", at the bottom": low, ", at the top": high - 1}
        power = 2 ** (max(high - 1, 1).bit_length() - 1)
        half_a_step = power >> 53
        if half_a_step:
            base_of_step = max(power, -((half_a_step - low) // (2 * half_a_step)) * 2 * half_a_step)
            if base_of_step + half_a_step + 1 <= high:
                levels[f", where floats round, above 2^{power.bit_length() - 1}"] = (
                    base_of_step + half_a_step
                )
        one = (np.arange(n) == 0).astype(np.int64)
        together = n > 1 and self.relation == "linf"
        alternating = np.where(np.arange(n) % 2 == 0, 1, -1)
        for place, level in levels.items():
            base = np.full(n, level, dtype=np.int64)
            # equal counts, among which a selection has no preference
            equal = np.clip(base, low + 1, max(high - 1, low + 1))
            middle = np.roll(one, n // 2)
            yield from chosen(
                (True, self.pair(base, base + one, "one count up" + place)),
                (together, self.pair(base, base + 1, "all counts up" + place)),
                (
                    together,
                    self.pair(base + one, base + (1 - one), "one up, the rest down" + place),
                ),
                (
                    together and high - low > 1 and not place,
                    self.pair(equal, equal + alternating, "equal counts, alternately up and down"),
                ),
                (n > 1, self.pair(base, base + one[::-1], "last count up" + place)),
                (n > 2 and not place, self.pair(base, base + middle, "count in the middle up")),
            )

    def random_pair(self, rng: Generator, turn: int, corners: bool) -> Pair | None:
        """Return a random pair in which one count moves, or all counts do."""
        n, width = self.length, self.high - self.low
        at, place = PLACES[turn % 3]
        shares = rng.integers(0, width, n, dtype=np.uint64, endpoint=True).tolist()
        base = np.array(
            [self.low + (width * (2 * share > width) if corners else share) for share in shares],
            dtype=np.int64,
        )
        step = rng.choice([-1, 1], n)
        single = turn % 2 == 1 or self.relation != "linf"
        if single:
            step[np.arange(n) != place(n - 1)] = 0
        step = np.where(
            (step > 0) & (base == self.high), -1, np.where((step < 0) & (base == self.low), 1, step)
        )
        why = f"one count moved, {at}," if single else "counts moved up and down"
        return self.pair(
            base,
            base + step,
            f"drawn {turn}: {why} {'at random ends' if corners else 'at random heights'}",
        )

    def shape(self, rng: Generator, turn: int) -> SearchSpace:
        """Return coordinates of pairs for the `turn`-th start of a search: `length` counts and
        `length` steps.
        """
        n = self.length

        def decode(z: FloatArray) -> Pair | None:
            shares = np.clip(0.5 + 0.2 * z[:n], 0.0, 1.0)
            width = self.high - self.low
            base = np.array(
                [self.low + min(round(float(share) * width), width) for share in shares],
                dtype=np.int64,
            )
            step = np.sign(np.round(z[n:])).astype(np.int64)
            if self.relation != "linf":
                step = np.sign(z[n:]).astype(np.int64) * (
                    np.arange(n) == int(np.argmax(np.abs(z[n:])))
                )
            # a step that would leave the bounds is reversed
            up, down = base < self.high, base > self.low
            moved = base + np.where(
                step > 0, np.where(up, 1, -1), np.where(step < 0, np.where(down, -1, 1), 0)
            )
            return self.pair(base, moved, "search")

        return SearchSpace(2 * n, decode)

    @property
    def random_pairs(self) -> int:
        return 2 if self.length == 1 else 12  # the ends of the range of one number matter most
