"""Pairs of large datasets on their way to processes of this machine: written to a file once, and read once by each process.

A pool pickles each task, and with it the stage and its pair. Measured with frames of 100,000 rows (6.6 MB a pair), two processes, 60 tasks:
3.3 seconds in all where the pair goes with each task, 2.7 like this.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from functools import lru_cache
from multiprocessing.reduction import ForkingPickler
from pickle import loads
from typing import Any
from weakref import WeakKeyDictionary, finalize

from dpwitness.mechanisms.terms.libraries import fix
from dpwitness.mechanisms.terms.pairs import Pair

_SMALL = 2**14  # bytes up to which a pair goes with each task
_READ = 2  # pairs that a process keeps

_files: WeakKeyDictionary[Pair, str] = WeakKeyDictionary()  # of each pair that was sent; an empty text for a small one


def reduced(pair: Pair) -> Any:
    """How a pair is pickled for a process of this machine: a large one as the name of a file that is there as long as the pair is."""
    if pair not in _files:
        content = ForkingPickler.dumps([pair.d0, pair.d1, pair.relation, pair.why])
        _files[pair] = _written(pair, content) if len(content) > _SMALL else ""
    return (read, (_files[pair],)) if _files[pair] else pair.__reduce_ex__(5)


def _written(pair: Pair, content: Any) -> str:
    handle, file = tempfile.mkstemp(prefix="dpwitness-pair-")
    finalize(pair, _removed, file, os.getpid())
    with open(handle, "wb") as out:
        out.write(content)
    return file


def _removed(file: str, owner: int) -> None:
    if os.getpid() == owner:  # a fork has the pair too
        with contextlib.suppress(OSError):
            os.unlink(file)


@lru_cache(_READ)
def read(file: str) -> Pair:
    """The pair of a file, which was checked where it was built."""
    with open(file, "rb") as content:
        found = loads(content.read())
    pair = object.__new__(Pair)
    pair.__setstate__(found)  # type: ignore[attr-defined]
    fix(pair.d0)
    fix(pair.d1)
    return pair
