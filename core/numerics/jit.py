"""Compilation of Numba kernels with a disk cache and without the interpreter lock.

The decorators keep the types of the wrapped function.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import caching
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile a kernel of plain loops with Numba.

    The decorator of Numba is untyped; this decorator keeps the signature of the kernel for type
    checkers.
    """
    return jit_with()(function)


def jit_with(**options: Any) -> Callable[[F], F]:
    """Return a decorator that compiles a kernel as `jit` does, with more options of Numba."""

    def decorate(function: F) -> F:
        """Compile one kernel."""
        compiled = numba.njit(nogil=True, **options)(function)
        with contextlib.suppress(Exception):  # the cache only saves time; a kernel works without it
            compiled._cache = _cache(function)
        return cast(F, compiled)

    return decorate


def jit_uncached(function: F) -> F:
    """Compile a kernel that calls a compiled function of the user, without the disk cache.

    A disk cache could return the code compiled for another function of the user.
    """
    return cast(F, numba.njit(nogil=True)(function))


_config: Any = numba.config
_FunctionCache: Any = caching.FunctionCache
_IndexDataCacheFile: Any = caching.IndexDataCacheFile
_dumps: Any = dumps
_get_cache = attrgetter("_cache")


class _Cache(_FunctionCache):  # type: ignore[misc]
    """Disk cache of one compiled function that tolerates full disks and damaged files.

    The cache key covers the names and source stamps of the kernels that the function calls or
    closes over, so that a change in any of them is noticed. The cache of Numba looks only at the
    file of the function itself, and treats a closed-over kernel as a different one in each process.
    """

    _cache_file: Any

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            return None

    def _save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(_UnknownSource):
            super()._save_overload(sig, data)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file: Any = _HashedCacheFiles(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        source = repr(self._cache_file._source_stamp).encode() + _source_fingerprint(
            self._py_func, set()
        )
        return sig, codegen.magic_tuple(), hashlib.sha256(source).hexdigest()


class _HashedCacheFiles(_IndexDataCacheFile):  # type: ignore[misc]
    """Cache files named by a hash of their key.

    Two processes that save at the same time therefore do not overwrite each other's code. Numba
    numbers the files instead: both processes would take the same number, and Numba runs the content
    of a file without checking.
    """

    def save(self, key: Any, data: Any) -> None:
        name = self._data_name(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8]))
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})


class _UnknownSource(Exception):
    """Error: a kernel has no cache, so that the source that it was compiled from is unknown."""


def _source_fingerprint(function: Callable[..., Any], seen: set[int]) -> bytes:
    """Return bytes that identify the source of a function: its code, its closure, and the kernels
    that it calls.
    """
    closure_values = [cell.cell_contents for cell in function.__closure__ or ()]
    referenced = [function.__globals__.get(name) for name in function.__code__.co_names]
    parts = [function.__code__.co_code]
    for value in [
        *closure_values,
        *(value for value in referenced if isinstance(value, Dispatcher)),
    ]:
        if not isinstance(value, Dispatcher):
            parts.append(_dumps(value))
        elif not isinstance(cache := _get_cache(value), _FunctionCache):
            raise _UnknownSource
        elif id(value) not in seen:
            seen.add(id(value))
            kernel = value.py_func
            # the stamp at the time when the kernel was imported
            stamp = cache._cache_file._source_stamp
            parts += [
                repr((kernel.__module__, kernel.__qualname__, stamp)).encode(),
                _source_fingerprint(kernel, seen),
            ]
    return b"\0".join(parts)


def _cache(function: Callable[..., Any]) -> Any:
    """Return a disk cache for a function.

    The cache lies where Numba finds a place: NUMBA_CACHE_DIR, next to the source, or the user's
    cache directory. Otherwise it lies in a private temporary directory.
    """
    try:
        return _Cache(function)
    except (
        RuntimeError,
        OSError,
    ):  # "no locator available": installation and home directory are read-only, or there is no home directory  # noqa: E501
        previous_directory = _config.CACHE_DIR
        _config.CACHE_DIR = str(_private_cache_directory())
        try:
            return _Cache(function)
        finally:
            _config.CACHE_DIR = previous_directory


@functools.cache
def _private_cache_directory() -> Path:
    """Return a temporary directory that belongs to this user and that nobody else can write to.

    The directory must be private because the code in a cache is executed.
    """
    path = (
        Path(tempfile.gettempdir())
        / f"dpwitness-kernels-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    )
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or (
        hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077)
    ):
        raise PermissionError(
            f"{path} must belong to this user and be writable by nobody else; delete it or "
            "set NUMBA_CACHE_DIR"
        )
    return path
