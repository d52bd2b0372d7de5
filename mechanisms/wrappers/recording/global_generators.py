"""Global random sources of a process: NumPy's legacy generator, Python's `random`, Numba and
PyTorch if loaded, and system entropy.

A mechanism that draws from a global generator takes no randomness from `rng`, and processes made by
fork share the stream of the generator. The generators are seeded before every chunk from the
chunk's own stream. The mechanism then gives the same outputs on any executor, and different outputs
in every chunk.

System entropy is what `os.urandom`, `secrets`, `random.SystemRandom`, `uuid.uuid4` and unseeded
NumPy generators read. A thread within `seeded` reads a seeded stream instead; every other thread,
and every read outside of `seeded`, reads the operating system. ``random.Random()`` without a seed
reads the operating system in C, out of reach.

The workers of foreign targets seed their generators too, so the module uses only the standard
library and NumPy (Python 3.8 or later).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

# size of a Mersenne twister's state: 624 words and a position, in NumPy's or Numba's order
_STATE_BYTES = 4 * 625


class _SeedingState(threading.local):
    """State of this thread."""

    depth = 0  # `seeded` bodies that the thread is in
    entropy_reads = 0
    # stream that replaces system entropy; None for the operating system's
    entropy: random.Random | None = None
    drawn = False  # whether the innermost `seeded` body drew before its last seeding
    after_seeding: tuple[Any, ...] = ()  # fingerprint after its last seeding


_HERE = _SeedingState()


def _read_entropy(size: int, _system: Any = os.urandom) -> bytes:
    """Return random bytes, from the operating system unless this thread's entropy is seeded."""
    _HERE.entropy_reads += 1
    if _HERE.entropy is None:
        return bytes(_system(size))
    return _HERE.entropy.getrandbits(8 * size).to_bytes(size, "little") if size else b""


_read_entropy.__name__ = _read_entropy.__qualname__ = "urandom"
if getattr(os.urandom, "__module__", "") != __name__:
    os.urandom = random._urandom = _read_entropy  # type: ignore[assignment, attr-defined, unused-ignore]


def words_of(rng: Any) -> list[int]:
    """Return four 32-bit words that follow from a generator's state, which stays as it is.

    The state is restored rather than copied: a copy begins as a generator without a seed, which
    reads system entropy.
    """
    state = rng.bit_generator.state
    found: list[int] = rng.integers(2**32, size=4, dtype=np.uint32).tolist()
    rng.bit_generator.state = state
    return found


def seed_batch(rng: Any) -> None:
    """Seed all global generators for the batch of `rng`, inside the body of `seeded`, as the worker
    of a target does.
    """
    if _HERE.depth:
        _HERE.drawn = has_drawn()
        seed(words_of(rng))
        _HERE.after_seeding = fingerprint()


def has_drawn() -> bool:
    """Return whether the innermost `seeded` body of this thread has drawn from a global
    generator.
    """
    return _HERE.drawn or fingerprint() != _HERE.after_seeding


def seed(words: list[int]) -> None:
    """Seed all global generators from four 32-bit words."""
    seed_number = sum(word << (32 * i) for i, word in enumerate(words))
    random.seed(seed_number)
    _HERE.entropy = random.Random(seed_number ^ 0x656E74726F7079)
    with contextlib.suppress(Exception):  # a user may have installed another bit generator
        np.random.seed([word ^ 0x6E70 for word in words])
    for place, word in zip(_numba_places(), (words[0] ^ 0x6E62, words[1] ^ 0x7079)):
        sys.modules["numba._helperlib"].rnd_seed(place, word)
    with contextlib.suppress(KeyError, AttributeError, RuntimeError):
        sys.modules["torch"].manual_seed(seed_number % 2**63)


def snapshot() -> dict[str, Any]:
    """Return the states of all global generators, for `restore`."""
    states: dict[str, Any] = {
        "random": random.getstate(),
        "numpy": np.random.get_state(legacy=False),
        "entropy": _HERE.entropy,
    }
    places = _numba_places()
    if places:
        numba = sys.modules["numba._helperlib"]
        states["numba"] = [(place, numba.rnd_get_state(place)) for place in places]
    with contextlib.suppress(KeyError, AttributeError, RuntimeError):
        states["torch"] = sys.modules["torch"].get_rng_state()
    return states


def restore(states: dict[str, Any]) -> None:
    """Restore the states of all global generators."""
    random.setstate(states["random"])
    _HERE.entropy = states["entropy"]
    with contextlib.suppress(Exception):
        np.random.set_state(states["numpy"])
    for place, state in states.get("numba", ()):
        sys.modules["numba._helperlib"].rnd_set_state(place, state)
    if "torch" in states:
        sys.modules["torch"].set_rng_state(states["torch"])


def fingerprint() -> tuple[Any, ...]:
    """Return a value that changes if any global generator is drawn from. The cost is a few
    microseconds per generator.
    """
    found: list[Any] = [hash(random.getstate()), _legacy_state()]
    found += [ctypes.string_at(place, _STATE_BYTES) for place in _numba_places()]
    with contextlib.suppress(KeyError, AttributeError, RuntimeError):
        found.append(bytes(sys.modules["torch"].get_rng_state().numpy()))
    # last: Numba reads entropy when it makes the generators of a thread
    return (*found, _HERE.entropy_reads)


@contextlib.contextmanager
def seeded(words: list[int]) -> Iterator[None]:
    """Seed the global generators for the block, and restore their states afterwards."""
    before, outer = snapshot(), (_HERE.drawn, _HERE.after_seeding)
    seed(words)
    _HERE.drawn, _HERE.after_seeding = False, fingerprint()
    _HERE.depth += 1
    try:
        yield
    finally:
        _HERE.depth -= 1
        _HERE.drawn, _HERE.after_seeding = outer
        restore(before)


def _legacy_state() -> Any:
    """Return the state of NumPy's legacy generator, read from memory: its own getter takes twenty
    times as long.
    """
    with contextlib.suppress(AttributeError):
        found = np.random.get_bit_generator()  # type: ignore[attr-defined, unused-ignore]
        if type(found).__name__ == "MT19937":
            return ctypes.string_at(found.ctypes.state_address, _STATE_BYTES)
    return repr(np.random.get_state(legacy=False))


def _numba_places() -> tuple[int, ...]:
    """Return the addresses of the generators of this thread that Numba's functions draw from; empty
    if Numba is not loaded or stores its generators elsewhere.
    """
    found = sys.modules.get("numba._helperlib") if "numba" in sys.modules else None
    if not all(hasattr(found, name) for name in ("rnd_seed", "rnd_get_state", "rnd_set_state")):
        return ()
    getters = (getattr(found, f"rnd_get_{kind}_state_ptr", None) for kind in ("np", "py"))
    return tuple(get() for get in getters if get is not None)
