"""The domain of true counts, as vectors of exact integers, including those that floats round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import Domain, SearchSpace
from dpwitness.core.domains.fields import MAX_ENTRIES
from dpwitness.core.domains.pair_patterns import PLACES
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import InvalidArgument, require, short_repr


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
        for name, value in (("low", self.low), ("high", self.high)):
            if not isinstance(value, int) or isinstance(value, bool) or not abs(value) < 2**63:
                raise InvalidArgument(
                    f"Counts: {name} must be a 64-bit whole number, got {short_repr(value)}"
                )
        if not self.high > self.low:
            raise InvalidArgument(
                f"Counts: high must exceed low, got [{self.low!r}, {self.high!r}]"
            )

    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset is a vector of `length` integers in [low, high]: an integer
        array, or a list of ints.
        """
        if isinstance(dataset, np.ndarray):
            if dataset.ndim != 1 or dataset.dtype.kind not in "iu":
                return False
            dataset = dataset.tolist()
        whole = isinstance(dataset, list | tuple) and all(
            isinstance(v, int) and not isinstance(v, bool) for v in dataset
        )
        return (
            whole
            and len(dataset) == self.length
            and all(self.low <= v <= self.high for v in dataset)
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
        for place, level in levels.items():
            base = np.full(n, level, dtype=np.int64)
            yield self.pair(base, base + one, "one count up" + place)
            if n > 1 and self.relation == "linf":
                yield self.pair(base, base + 1, "all counts up" + place)
                yield self.pair(base + one, base + (1 - one), "one up, the rest down" + place)
                if high - low > 1 and not place:
                    # equal counts, among which a selection has no preference
                    equal = np.clip(base, low + 1, high - 1)
                    yield self.pair(
                        equal,
                        equal + np.where(np.arange(n) % 2 == 0, 1, -1),
                        "equal counts, alternately up and down",
                    )
            if n > 1:
                yield self.pair(base, base + one[::-1], "last count up" + place)
            if n > 2 and not place:
                yield self.pair(base, base + np.roll(one, n // 2), "count in the middle up")

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
        """Return coordinates of a pair: `length` counts and `length` steps."""
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
    def records(self) -> int:
        return self.length
