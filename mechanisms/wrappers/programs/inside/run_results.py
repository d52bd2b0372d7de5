"""Time limit of a run, its result, warnings and random draws, the same in this process and in
workers.

Standard library and NumPy (Python 3.8 or later).
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import signal
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

_IMMUTABLE = (float, int, str, bytes, type(None))


class Stopped(BaseException):
    """The run took too long or made too many calls. A BaseException, so that the handlers of
    libraries do not catch it.
    """


@contextlib.contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise Stopped after `seconds`, as soon as the main thread runs Python code. The block is not
    stopped in other threads.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise Stopped

    handler, timer = signal.signal(signal.SIGALRM, stop), (0.0, 0.0)
    try:
        try:
            # repeated in case a callback swallows the exception
            timer = signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # again, in case the exception arrived in between
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, *timer)


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
            kinds = [(each.category.__name__, each.message) for each in found or ()]
            texts = [f"{kind}: {' '.join(str(message).split())}" for kind, message in kinds]
            messages += dict.fromkeys(f"the mechanism warns: {text[:180]}" for text in texts)


def joined(results: list[Any]) -> list[Any]:
    """Return the results of single runs, with consecutive arrays of one kind, and consecutive
    lists, joined.
    """
    found: list[Any] = []
    for kind, same in itertools.groupby(results, _join_key):
        each = list(same)
        if isinstance(kind, tuple):
            each = [np.concatenate(each)]
        elif kind is list:
            each = [list(itertools.chain.from_iterable(each))]
        found.append(each[0])
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
