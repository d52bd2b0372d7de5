"""Transfer of large pairs of datasets to processes of this machine: written to a file once, and
read once by each process.

A pool pickles each task with its stage and pair. Measured with frames of 100,000 rows (6.6 MB per
pair), two processes and 60 tasks: 3.3 seconds in total if the pair is sent with each task, 2.7
seconds with a file.
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

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.dataframe_backends import fix

_MAX_INLINE_BYTES = 2**14  # maximum size in bytes of a pair that is sent with each task
_CACHED_PAIRS = 2  # pairs that a process caches

# file of each pair that was sent; empty for a small pair
_files: WeakKeyDictionary[Pair, str] = WeakKeyDictionary()


def pickle_reduction(pair: Pair) -> Any:
    """Return the pickle reduction of a pair for a process of this machine: a large pair as the name
    of a file.

    The file exists as long as the pair.
    """
    if pair not in _files:
        content = ForkingPickler.dumps([pair.d0, pair.d1, pair.relation, pair.why])
        _files[pair] = _write_file(pair, content) if len(content) > _MAX_INLINE_BYTES else ""
    return (read, (_files[pair],)) if _files[pair] else pair.__reduce_ex__(5)


def _write_file(pair: Pair, content: Any) -> str:
    """Write the pickled pair to a temporary file, which is removed with the pair, and return the
    file's name.
    """
    handle, file = tempfile.mkstemp(prefix="dpwitness-pair-")
    finalize(pair, _remove_file, file, os.getpid())
    with open(handle, "wb") as out:
        out.write(content)
    return file


def _remove_file(file: str, owner: int) -> None:
    """Remove the file, in the process that created the file."""
    if os.getpid() == owner:  # a forked process also has the pair, but does not own the file
        with contextlib.suppress(OSError):
            os.unlink(file)


@lru_cache(_CACHED_PAIRS)
def read(file: str) -> Pair:
    """Return the pair stored in a file; it is not validated again."""
    with open(file, "rb") as content:
        state = loads(content.read())
    pair = object.__new__(Pair)
    pair.__setstate__(state)  # type: ignore[attr-defined]
    fix(pair.d0)
    fix(pair.d1)
    return pair
