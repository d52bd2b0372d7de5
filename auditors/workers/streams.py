"""Random streams: generators that are determined by a root seed and a key."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

_SEED_WORDS = 3  # 64-bit words that seed an SFC64


def audit_key(name: str) -> int:
    """Return a 64-bit number for an audit's name, the same in every process."""
    return int.from_bytes(
        hashlib.blake2b(name.encode(errors="backslashreplace"), digest_size=8).digest()
    )


def fresh_seed() -> int:
    """Return a seed from the operating system's entropy, which nobody can know or choose in
    advance.
    """
    # every JSON reader represents integers of this size exactly
    return secrets.randbits(48)


def stream(seed: int, *key: int) -> Generator:
    """Return the generator of a seed and a key."""
    return Generator(SFC64(SeedSequence(entropy=seed, spawn_key=key)))


class _FixedSeed(ISpawnableSeedSequence):
    """Seed of one generator from given words: faster than one SeedSequence per generator, which
    would dominate the cost of a chunk.
    """

    __slots__ = ("words",)

    def __init__(self, words: NDArray[Any]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        if n_words == _SEED_WORDS and np.dtype(dtype) == np.uint64:
            return self.words
        return SeedSequence(self.words.tolist()).generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        return SeedSequence(self.words.tolist()).spawn(n_children)


def streams(seed: int, key: tuple[int, ...], count: int) -> tuple[list[Generator], list[int]]:
    """Return `count` generators of one key from one seed sequence, and four further
    32-bit words.
    """
    words = SeedSequence(entropy=seed, spawn_key=key).generate_state(
        _SEED_WORDS * count + 2, np.uint64
    )
    seeds: list[Any] = [
        _FixedSeed(words[_SEED_WORDS * i : _SEED_WORDS * (i + 1)]) for i in range(count)
    ]
    generators = [Generator(SFC64(seed)) for seed in seeds]
    return generators, words[-2:].view(np.uint32).tolist()
