"""Steps from one table of records to another: a restarted search climbs by them where coordinates do not help.

One part of the pair is drawn again: the place of the changed record, a column of the changed record, or a column of the others. Nothing is
nearer to a category than to another, so every value may follow any. Parts whose change has moved the score are drawn more often: the score
of a black box is that of the event trained on the pair, so what the event reacts to is what the search goes on with.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.pair_random import RandomPairs, changed_place
from dpwitness.mechanisms.domains import Records, Rows
from dpwitness.mechanisms.pairs import Pair

__all__ = ["Moves"]

_LEAST = 0.1  # so that no part is given up
_MATTERS = 0.05  # of the score: a part that moves it by more matters


class Moves:
    """Random steps between pairs of `Records` or `Rows`."""

    def __init__(self, domain: Records | Rows, draws: RandomPairs, rng: Generator) -> None:
        self._domain, self._draws, self._rng = domain, draws, rng
        width = 1 if isinstance(domain, Records) else len(domain.features) + bool(domain.labels)
        self.parts = [("place", 0), *(("changed", c) for c in range(width)), *(("others", c) for c in range(width))]
        self._tried = np.full(len(self.parts), 2.0)
        self._moved = np.ones(len(self.parts))

    def step(self, pair: Pair) -> tuple[int, Pair | None]:
        """Which part was drawn again, and the pair; None where it is none of the domain."""
        rng, domain = self._rng, self._domain
        weights = _LEAST + self._moved / self._tried
        part = int(rng.choice(len(self.parts), p=weights / weights.sum()))
        what, column = self.parts[part]
        width = max(c for _, c in self.parts) + 1
        shorter, longer = (np.array(d, dtype=float).reshape(len(d), width) for d in sorted((pair.d0, pair.d1), key=len))
        at = changed_place(longer, shorter)
        crowd, after = np.delete(longer, at, axis=0), longer[at].copy()
        before = shorter[at].copy() if domain.relation == "replace-one" else None
        corners = bool(rng.random() < 0.5)
        if what == "place":
            at = int(rng.integers(len(longer)))
        elif what == "changed":
            record = after if before is None or rng.random() < 0.5 else before
            record[column] = self._draws.rows(1, corners)[0, column]
        elif len(crowd):
            rows = slice(None) if rng.random() < 0.5 else rng.integers(len(crowd), size=1)
            drawn = self._draws.rows(len(crowd), corners)[:, column]
            crowd[rows, column] = drawn[0] if rng.random() < 0.5 else drawn[rows]
        base = crowd if before is None else np.insert(crowd, at, before, axis=0)
        return part, self._draws.paired(base, np.insert(crowd, at, after, axis=0), pair.why)

    def learn(self, part: int, before: float, after: float) -> None:
        """Note what a step on `part` did to the score."""
        if math.isfinite(before) and before != 0:
            self._tried[part] += 1
            self._moved[part] += abs(after - before) > _MATTERS * abs(before)
