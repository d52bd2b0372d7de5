"""The generators that a process shares: NumPy's legacy one, Python's `random`, and those of Numba and PyTorch where they are loaded.

A mechanism that draws from one of them takes no randomness from `rng`, and processes made by fork share its stream. Seeded before every
chunk from the chunk's own stream, it gives the same outputs on any executor, and other ones in every chunk.

Stands alone (standard library and NumPy, Python 3.8 or later), for the workers of foreign targets seed theirs too.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

_BYTES = 4 * 625  # of a Mersenne twister: 624 words and a place, in NumPy's order or in Numba's


_HERE = threading.local()  # `seeded` bodies that this thread is in


def words_of(rng: Any) -> list[int]:
    """Return four 32-bit words that follow from a generator's state, which stays as it is."""
    found: list[int] = copy.deepcopy(rng).integers(2**32, size=4, dtype=np.uint32).tolist()
    return found


def seed_batch(rng: Any) -> None:
    """Within the body of `seeded`, seed all of them for the batch that `rng` is for, as the worker of a target does."""
    if getattr(_HERE, "depth", 0):
        seed(words_of(rng))


def seed(words: list[int]) -> None:
    """Seed all of them from four 32-bit words."""
    whole = sum(word << (32 * i) for i, word in enumerate(words))
    random.seed(whole)
    with contextlib.suppress(Exception):  # a user may have put another bit generator there
        np.random.seed([word ^ 0x6E70 for word in words])  # noqa: NPY002
    numba, torch = _numba(), sys.modules.get("torch")
    if numba is not None:
        numba.rnd_seed(numba.rnd_get_np_state_ptr(), words[0] ^ 0x6E62)
        numba.rnd_seed(numba.rnd_get_py_state_ptr(), words[1] ^ 0x7079)
    if torch is not None:
        with contextlib.suppress(AttributeError, RuntimeError):
            torch.manual_seed(whole % 2**63)


def snapshot() -> dict[str, Any]:
    """Their states, for `restore`."""
    states: dict[str, Any] = {"random": random.getstate(), "numpy": np.random.get_state(legacy=False)}  # noqa: NPY002
    numba, torch = _numba(), sys.modules.get("torch")
    if numba is not None:
        states["numba"] = [(place, numba.rnd_get_state(place)) for place in (numba.rnd_get_np_state_ptr(), numba.rnd_get_py_state_ptr())]
    if torch is not None:
        with contextlib.suppress(AttributeError, RuntimeError):
            states["torch"] = torch.get_rng_state()
    return states


def restore(states: dict[str, Any]) -> None:
    """Put them back."""
    random.setstate(states["random"])
    with contextlib.suppress(Exception):
        np.random.set_state(states["numpy"])  # noqa: NPY002
    for place, state in states.get("numba", ()):
        _numba().rnd_set_state(place, state)
    if "torch" in states:
        sys.modules["torch"].set_rng_state(states["torch"])


def fingerprint() -> tuple[Any, ...]:
    """What differs once any of them has been drawn from, at a small price: a few microseconds for each."""
    found: list[Any] = [hash(random.getstate()), *_legacy()]
    numba, torch = _numba(), sys.modules.get("torch")
    if numba is not None:
        found += [ctypes.string_at(place, _BYTES) for place in (numba.rnd_get_np_state_ptr(), numba.rnd_get_py_state_ptr())]
    if torch is not None:
        with contextlib.suppress(AttributeError, RuntimeError):
            found.append(bytes(torch.get_rng_state().numpy()))
    return tuple(found)


@contextlib.contextmanager
def seeded(words: list[int]) -> Iterator[None]:
    """Seed them for the body, and put them back after it."""
    before = snapshot()
    seed(words)
    _HERE.depth = getattr(_HERE, "depth", 0) + 1
    try:
        yield
    finally:
        _HERE.depth -= 1
        restore(before)


def _legacy() -> list[Any]:
    """State of NumPy's legacy generator, read where it lies: its own getter takes twenty times as long."""
    try:
        found = np.random.get_bit_generator()  # type: ignore[attr-defined, unused-ignore]
        if type(found).__name__ == "MT19937":
            return [ctypes.string_at(found.ctypes.state_address, _BYTES)]
    except AttributeError:
        pass
    return [repr(np.random.get_state(legacy=False))]  # noqa: NPY002


def _numba() -> Any:
    """Numba's generators, one for each thread; None if it is not loaded or keeps them elsewhere."""
    if "numba" not in sys.modules:
        return None
    found = sys.modules.get("numba._helperlib")
    needed = ("rnd_seed", "rnd_get_state", "rnd_set_state", "rnd_get_np_state_ptr", "rnd_get_py_state_ptr")
    return found if all(hasattr(found, name) for name in needed) else None
