"""The runs of one batch, one by one where they must be: what each returned or raised, how much it drew, what it warned of.

Stands alone (standard library and NumPy, Python 3.8 or later), for `worker` reads it.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def told_of_warning(found: Any) -> str:
    """A recorded warning in one line of at most 200 characters."""
    text = " ".join(str(found.message).split())
    text = text if len(text) <= 160 else text[:157] + "..."
    return f"the mechanism warns: {found.category.__name__}: {text}"


@contextlib.contextmanager
def heard(told: list[str]) -> Iterator[None]:
    """What is warned of meanwhile, each kind and text once; what the target ignores, or turns into an error, stays so."""
    with warnings.catch_warnings(record=True) as found:
        warnings.filterwarnings("always", append=True)
        try:
            yield
        finally:
            told.extend(dict.fromkeys(told_of_warning(each) for each in found or ()))


def is_failure(error: Exception) -> bool:
    """Whether it says that there can be no output, as the objects of `mechanisms/objects` do, with dpwitness at hand and without."""
    return any(cls.__name__ == "MechanismFailed" for cls in type(error).__mro__)


class Parts(list):  # type: ignore[type-arg]
    """Runs made one by one: arrays, lists and lists of exceptions, in order."""


class Raised:
    """A call that raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error.with_traceback(None)


def one_by_one(run: Callable[..., Any], dataset: Any, size: int, rng: Any, kwargs: dict[str, Any]) -> Any:
    """`size` single runs, and the draws that each of them takes."""
    done: list[Any] = []
    draws: list[int] = []
    for _ in range(size):
        at = words_drawn(rng)
        try:
            done.append(_own(run(dataset, 1, rng, **kwargs)))
        except MemoryError:
            raise
        except Exception as error:
            if is_failure(error):
                raise
            done.append(Raised(error))
        draws.append(words_drawn(rng) - at)
    return Parts(_joined(kind, list(same)) for kind, same in itertools.groupby(done, _kind)), draws


def _own(value: Any) -> Any:
    """A copy, for the library may write into what it returned again; the value itself where it cannot be copied."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], (float, int, str, bytes, type(None))):
        return value[:]
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _kind(part: Any) -> Any:
    """Parts of equal kinds, one after the other, can be joined."""
    if isinstance(part, np.ndarray) and part.shape[:1] == (1,):
        return part.dtype, part.shape
    return type(part) if type(part) in (Raised, list) else id(part)


def _joined(kind: Any, parts: list[Any]) -> Any:
    if kind is Raised:
        return [part.error for part in parts]
    if kind is list:
        return [item for part in parts for item in part]
    return np.concatenate(parts) if isinstance(kind, tuple) else parts[0]


def words_drawn(rng: Any) -> int:
    """64-bit words that the generator has given: SFC64 counts them in its state. 0 for others."""
    state = rng.bit_generator.state
    return int(state["state"]["state"][3]) if state["bit_generator"] == "SFC64" else 0
