"""A stage: rounds of one phase on one pair, in chunks with streams of their own.

What happens in a chunk is a function of (seed, audit, pair, phase, chunk) and of nothing else, so the counts of a run do not depend on how
many workers made them, in which order, how fast, or how often the run was stopped on its way. The plan is a formula: chunk i holds rounds
i c, ..., (i + 1) c - 1, and segment k of S holds chunks from floor(k n / S) on. Within a segment everything is only summed; between two of
them a bound may be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.running.rounds import batch, of_this_project, singles
from dpwitness.auditors.running.streams import streams
from dpwitness.auditors.running.turns import turns
from dpwitness.mechanisms.foreign.inside import global_generators
from dpwitness.mechanisms.terms.pairs import Pair

Sides = tuple[Outputs | None, Outputs | None]
T = TypeVar("T")

SEGMENTS = 1024  # of a stage, at most
_MARKS = 2**15  # of a stage, about, that tell repeated outputs


class Phase:
    """Numbers of the phases in the streams' keys; extensions follow the last."""

    PROBE, PILOT, SECOND_PILOT, TRAIN, TEST, BIT_TRAIN, BIT_TEST, TIMING, SCORES, SECOND_BIT_TRAIN, FIRST_TEST, EXTENSION = range(12)


@dataclass(frozen=True, slots=True)
class Stage:
    """Rounds of one phase on one pair.

    Parameters
    ----------
    run : callable
        ``run(dataset, size, rng)``; picklable if the executor uses processes.
    pair : Pair
    seed, key : int, tuple of int
        Root seed, and (audit, pair, phase).
    rounds, chunk : int
        Rounds in all and in one chunk; the last chunk may be shorter.
    time_limit : float
        Seconds that one chunk may take, or ten times what the chunks before it took if that is more.
    single : bool
        Whether rounds are run one at a time, because earlier stages have seen a batch raise (`rounds`).
    shared : bool
        Whether earlier stages have seen the mechanism draw from a global generator: it then runs in one thread at a time. Chunks of others
        that turn out to draw from one are run once more in that way, with the same streams: what they do until then cannot depend on it.
    repeatable : bool
        Whether equal streams give equal outputs. Only then may a chunk be run twice: of two different answers the faster would be
        chosen, which may tell something of it.
    """

    run: Callable[[Any, int, Generator], Any]
    pair: Pair
    seed: int
    key: tuple[int, int, int]
    rounds: int
    chunk: int
    time_limit: float
    single: bool = False
    shared: bool = False
    repeatable: bool = True

    @property
    def chunks(self) -> int:
        return -(-self.rounds // self.chunk)

    @property
    def segments(self) -> int:
        return min(self.chunks, SEGMENTS)

    def segment(self, index: int) -> int:
        """The segment of a chunk."""
        return ((index + 1) * self.segments - 1) // self.chunks

    def end(self, segment: int) -> int:
        """The chunk after the segment's last."""
        return (segment + 1) * self.chunks // self.segments

    @property
    def marked(self) -> int:
        """Marks that this does not divide are not kept (`repeats`): so there are no more of a long stage than of a short one."""
        return int(2 ** max(0, (2 * self.chunks // _MARKS).bit_length()))

    def size(self, first: int, last: int | None = None) -> int:
        """Rounds of chunk `first`, or of chunks first, ..., last - 1."""
        last = first + 1 if last is None else last
        return min(last * self.chunk, self.rounds) - first * self.chunk

    def sample(self, index: int) -> Sides:
        """Run chunk `index`: outputs on D1 and on D0, after a fair coin has been flipped for every round. None for a batch that raised."""
        return self.apart(index, lambda: self.flip(index)[0])

    def apart(self, index: int, work: Callable[[], T]) -> T:
        """Do the work of a chunk, with the global generators seeded for it where it draws from them."""
        if of_this_project(self.run):
            return work()
        if not self.shared:
            with turns().watching():
                before = global_generators.fingerprint()
                found = work()
                untouched = global_generators.fingerprint() == before
            if untouched:
                return found
        with self.globally_seeded(index):
            return work()

    @contextmanager
    def globally_seeded(self, index: int) -> Iterator[None]:
        """The global generators seeded for this chunk and held by this thread."""
        _, words = self.streams(index)
        with turns().seeding(), global_generators.seeded(words):
            yield

    def streams(self, index: int) -> tuple[list[Generator], list[int]]:
        """Generators of the chunk's coins, of its rounds on D1 and of those on D0; and words that seed the global generators."""
        return streams(self.seed, (*self.key, index), 3)

    def sides(self, index: int) -> tuple[tuple[int, int], tuple[int, ...], list[Generator], Generator]:
        """Rounds on D1 and on D0, which of them (0 is D1) goes first, their generators, and that of the coins.

        The datasets' turns come in random order, so that what a mechanism keeps from call to call does not tell them apart.
        """
        (coins, *rngs), _ = self.streams(index)
        size = self.size(index)
        ones = int(coins.binomial(size, 0.5))
        return (ones, size - ones), (0, 1) if coins.random() < 0.5 else (1, 0), rngs, coins

    def flip(self, index: int) -> tuple[Sides, list[Generator]]:
        """The chunk's outputs, and the generators that they were drawn from as they were left."""
        sizes, order, rngs, coins = self.sides(index)
        datasets = (self.pair.d1, self.pair.d0)
        if self.single:
            first, second = singles(self.run, datasets, coins.permutation(np.repeat([0, 1], sizes)), rngs)
            return (first, second), rngs
        found: list[Outputs | None] = [None, None]
        for side in order:
            global_generators.seed_batch(rngs[side])
            found[side] = batch(self.run, datasets[side], sizes[side], rngs[side])
        return (found[0], found[1]), rngs
