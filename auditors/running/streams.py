"""Random streams: generators that one root seed and a key decide."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

_WORDS = 3  # of 64 bits, that seed an SFC64
_FRESH_BITS = 48  # few enough that every JSON reader keeps the number exactly


def audit_key(name: str) -> int:
    """A 64-bit number for an audit's name, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(errors="backslashreplace"), digest_size=8).digest())


def fresh_seed() -> int:
    """Return a seed from the operating system's entropy, which nobody can know or choose in advance."""
    return secrets.randbits(_FRESH_BITS)


def stream(seed: int, *key: int) -> Generator:
    """The generator of one key."""
    return Generator(SFC64(SeedSequence(entropy=seed, spawn_key=key)))


class _Words(ISpawnableSeedSequence):
    """Words of a seed sequence as the seed of one generator: to make a sequence for each costs more than a chunk's bookkeeping."""

    __slots__ = ("words",)

    def __init__(self, words: NDArray[Any]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        if n_words == _WORDS and np.dtype(dtype) == np.uint64:
            return self.words
        return SeedSequence(self.words.tolist()).generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        return SeedSequence(self.words.tolist()).spawn(n_children)


def streams(seed: int, key: tuple[int, ...], count: int) -> tuple[list[Generator], list[int]]:
    """`count` generators of one key from one seed sequence, and four words of 32 bits more."""
    words = SeedSequence(entropy=seed, spawn_key=key).generate_state(_WORDS * count + 2, np.uint64)
    seeds: list[Any] = [_Words(words[_WORDS * i : _WORDS * (i + 1)]) for i in range(count)]
    generators = [Generator(SFC64(seed)) for seed in seeds]
    return generators, words[-2:].view(np.uint32).tolist()
