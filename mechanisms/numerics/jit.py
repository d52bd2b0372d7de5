"""The one way kernels are compiled here: cached where that can be, without the interpreter lock, typed as what they wrap."""

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
from numba import njit
from numba.core import caching
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile a kernel of plain loops. Numba's own decorator is untyped; this keeps the kernel's signature for the type checker."""
    return jit_with()(function)


def jit_with(**options: Any) -> Callable[[F], F]:
    """The same with more of Numba's options."""

    def decorate(function: F) -> F:
        compiled = njit(nogil=True, **options)(function)
        with contextlib.suppress(Exception):  # a cache saves time, and nothing else depends on it
            compiled._cache = _cache(function)
        return cast(F, compiled)

    return decorate


def jit_uncached(function: F) -> F:
    """The same for kernels that call a user's compiled function, which a disk cache could confuse with another."""
    return cast(F, njit(nogil=True)(function))


_config: Any = numba.config
_FunctionCache: Any = caching.FunctionCache
_IndexDataCacheFile: Any = caching.IndexDataCacheFile
_dumps: Any = dumps
_cache_of = attrgetter("_cache")


class _Cache(_FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, which goes without where a disk is full or a file is torn.

    Kernels that the function has closed over or calls count by name and by the stamp of their source: a change in one is seen, where Numba
    looks at the function's own file alone, and takes one that was closed over for another in each process.
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
        with contextlib.suppress(_Unstamped):
            super()._save_overload(sig, data)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file: Any = _Files(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        source = repr(self._cache_file._source_stamp).encode() + _source(self._py_func, set())
        return sig, codegen.magic_tuple(), hashlib.sha256(source).hexdigest()


class _Files(_IndexDataCacheFile):  # type: ignore[misc]
    """Each key's code lies in a file of its own name: of two processes that save at a time none puts its code in the place of the other's.

    Numba counts the files, and both would take the next number; what lies there is run without a further look.
    """

    def save(self, key: Any, data: Any) -> None:
        name = self._data_name(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8]))
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})


class _Unstamped(Exception):
    """A kernel that has no cache of its own: nobody knows what it was compiled from."""


def _source(function: Callable[..., Any], seen: set[int]) -> bytes:
    """What a function is compiled from: its code, what it has closed over, and the kernels that it calls."""
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    parts = [function.__code__.co_code]
    for value in [*held, *(value for value in named if isinstance(value, Dispatcher))]:
        if not isinstance(value, Dispatcher):
            parts.append(_dumps(value))
        elif not isinstance(cache := _cache_of(value), _FunctionCache):
            raise _Unstamped
        elif id(value) not in seen:
            seen.add(id(value))
            kernel = value.py_func
            stamp = cache._cache_file._source_stamp  # as it was when the kernel was imported
            parts += [repr((kernel.__module__, kernel.__qualname__, stamp)).encode(), _source(kernel, seen)]
    return b"\0".join(parts)


def _cache(function: Callable[..., Any]) -> Any:
    """Where Numba finds a place (NUMBA_CACHE_DIR, beside the source, the user's cache), else a temporary folder of the user's own."""
    try:
        return _Cache(function)
    except (RuntimeError, OSError):  # "no locator available": the installation and the home are read-only, or there is no home
        before = _config.CACHE_DIR
        _config.CACHE_DIR = str(_folder())
        try:
            return _Cache(function)
        finally:
            _config.CACHE_DIR = before


@functools.cache
def _folder() -> Path:
    """A folder in the temporary directory that belongs to this user and that nobody else can write to: what lies in a cache is run."""
    path = Path(tempfile.gettempdir()) / f"dpwitness-kernels-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o077)):
        raise PermissionError(f"{path} is not this user's own")
    return path
