"""Runs of one batch, made one by one if necessary, with their results, exceptions, random draws and
warnings.

`worker` loads this module too, so the module uses only the standard library and NumPy (Python 3.8
or later).
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def generator(state: Any, seed: list[int]) -> Any:
    """Return a generator with the controller's state; without a state, a new one from a seed."""
    if state is None:
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def warning_line(found: Any) -> str:
    """Return a recorded warning as one line of at most 200 characters."""
    text = " ".join(str(found.message).split())
    text = text if len(text) <= 160 else text[:157] + "..."
    return f"the mechanism warns: {found.category.__name__}: {text}"


@contextlib.contextmanager
def collect_warnings(messages: list[str]) -> Iterator[None]:
    """Append the warnings of the block to `messages`, each kind and text once. The target's own
    warning filters keep their effect.
    """
    with warnings.catch_warnings(record=True) as found:
        warnings.filterwarnings("always", append=True)
        try:
            yield
        finally:
            messages.extend(dict.fromkeys(warning_line(each) for each in found or ()))


def is_failure(error: Exception) -> bool:
    """Return whether an exception means that there is no output: a MechanismFailed, of any copy of
    dpwitness.
    """
    return any(cls.__name__ == "MechanismFailed" for cls in type(error).__mro__)


class Parts(list):  # type: ignore[type-arg]
    """Results of runs made one by one: arrays, lists and lists of exceptions, in order."""


class Raised:
    """Result of a call that raised an exception."""

    def __init__(self, error: Exception) -> None:
        self.error = error.with_traceback(None)


def one_by_one(
    run: Callable[..., Any], dataset: Any, size: int, rng: Any, kwargs: dict[str, Any]
) -> Any:
    """Return the results of `size` single runs, and the number of random words that each run has
    drawn.
    """
    done: list[Any] = []
    draws: list[int] = []
    process = os.getpid()
    for _ in range(size):
        if os.getpid() != process:
            raise SystemExit(
                "a forked child of the mechanism returned: it must not make the other runs"
            )
        at = random_words_drawn(rng)
        try:
            done.append(_copied(run(dataset, 1, rng, **kwargs)))
        except MemoryError:
            raise
        except Exception as error:
            if is_failure(error):
                raise
            done.append(Raised(error))
        draws.append(random_words_drawn(rng) - at)
    return Parts(
        _join(kind, list(same)) for kind, same in itertools.groupby(done, _join_key)
    ), draws


def _copied(value: Any) -> Any:
    """Return a copy of a result, because the library may reuse the returned object; the result
    itself if it cannot be copied.
    """
    if (
        isinstance(value, list)
        and len(value) == 1
        and isinstance(value[0], (float, int, str, bytes, type(None)))
    ):
        return value[:]
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _join_key(part: Any) -> Any:
    """Return a key; consecutive results with equal keys can be joined."""
    if isinstance(part, np.ndarray) and part.shape[:1] == (1,):
        return part.dtype, part.shape
    return type(part) if type(part) in (Raised, list) else id(part)


def _join(kind: Any, parts: list[Any]) -> Any:
    """Return consecutive results of one kind as one result."""
    if kind is Raised:
        return [part.error for part in parts]
    if kind is list:
        return [item for part in parts for item in part]
    return np.concatenate(parts) if isinstance(kind, tuple) else parts[0]


def random_words_drawn(rng: Any) -> int:
    """Return the number of 64-bit words drawn from the generator so far, which SFC64 counts in its
    state; 0 for other generators.
    """
    state = rng.bit_generator.state
    return int(state["state"]["state"][3]) if state["bit_generator"] == "SFC64" else 0
