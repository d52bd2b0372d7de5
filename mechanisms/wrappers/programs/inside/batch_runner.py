"""Runs of one batch, made one by one if necessary, with their results, exceptions, random draws and
warnings; and the datasets of a worker: large ones travel once, and each batch gets a fresh copy,
whose changes are noticed.

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

from dpwitness.core.values import dataframe_backends
from dpwitness.mechanisms.wrappers.programs.inside import codec, introspection

_IMMUTABLE = (float, int, str, bytes, type(None))
_WATCHED_BATCHES = 8  # batches after which a frame is no longer checked for changes


def generator(state: Any, seed: list[int]) -> Any:
    """Return a generator with the controller's state; without a state, a new one from a seed."""
    if state is None:
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


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
            for each in found or ():
                text = " ".join(str(each.message).split())
                text = text if len(text) <= 160 else text[:157] + "..."
                line = f"the mechanism warns: {each.category.__name__}: {text}"
                if line not in messages:
                    messages.append(line)


def is_failure(error: Exception) -> bool:
    """Return whether an exception means that there is no output: a MechanismFailed, of any copy of
    dpwitness.
    """
    return any(cls.__name__ == "MechanismFailed" for cls in type(error).__mro__)


class Parts(list):  # type: ignore[type-arg]
    """Results of runs made one by one: arrays, lists and lists of exceptions, in order."""


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
            done.append(copied(run(dataset, 1, rng, **kwargs)))
        except MemoryError:
            raise
        except Exception as error:
            if is_failure(error):
                raise
            done.append([error.with_traceback(None)])
        draws.append(random_words_drawn(rng) - at)
    return Parts(joined(done)), draws


def joined(results: list[Any]) -> list[Any]:
    """Return the results of single runs, with consecutive arrays of one kind, and consecutive
    lists, joined.
    """
    found: list[Any] = []
    for kind, same in itertools.groupby(results, _join_key):
        each = list(same)
        if isinstance(kind, tuple):
            found.append(np.concatenate(each))
        else:
            found.append([item for part in each for item in part] if kind is list else each[0])
    return found


def copied(value: Any) -> Any:
    """Return a copy of a result, because the mechanism may modify or reuse the object later; the
    result itself if it cannot be copied.
    """
    if type(value) is list and len(value) == 1 and isinstance(value[0], _IMMUTABLE):
        return value[:]
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _join_key(part: Any) -> Any:
    """Return a key; consecutive results with equal keys can be joined."""
    if type(part) is np.ndarray and part.shape[:1] == (1,):
        return part.dtype, part.shape
    return list if type(part) is list else id(part)


def random_words_drawn(rng: Any) -> int:
    """Return the number of 64-bit words drawn from the generator so far, which SFC64 counts in its
    state; 0 for other generators.
    """
    state = rng.bit_generator.state
    return int(state["state"]["state"][3]) if state["bit_generator"] == "SFC64" else 0


class DatasetCache:
    """Received datasets, by number, and the frames that were built from them."""

    def __init__(self) -> None:
        self.entries: dict[int | None, tuple[Any, codec.Blobs]] = {}
        # frames, and their state before the first run
        self.ready: dict[int | None, tuple[Any, Any]] = {}
        self.watched: dict[int | None, int] = {}

    def copy(self, header: codec.Message, blobs: codec.Blobs) -> tuple[Any, Any]:
        """Return a fresh copy of a request's dataset, and its state before the run; None for the
        state if it is no longer checked.
        """
        key: int | None = header.get("key")
        if "data" in header:
            self.entries[key] = header["data"], blobs
            self.ready.pop(key, None)
        # changes of a copy cannot affect the next batch, so only the first calls are checked
        if key in self.ready:
            built, before = self.ready[key]
            self.watched[key] += 1
            return dataframe_backends.shallow_copy(built), before if self.watched[
                key
            ] < _WATCHED_BATCHES else None
        try:
            dataset = codec.unpack(*self.entries[key])
        except dataframe_backends.UnsupportedData as error:
            raise introspection.Unfit(f"the dataset cannot be built here: {error}") from None
        before, light = state_of(dataset), dataframe_backends.shallow_copy(dataset)
        if key is not None and light is not None:
            self.ready[key], self.watched[key] = (dataset, before), 0
            return light, before
        return dataset, before


def state_of(value: Any) -> Any:
    """Return the packed form of a dataset or an output, for comparison after a run."""
    blobs: codec.Blobs = []
    try:
        return codec.pack(value, blobs, exact=True), blobs
    except dataframe_backends.UnsupportedData as error:
        return str(error), []
