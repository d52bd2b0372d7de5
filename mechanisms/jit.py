"""The one way kernels are compiled here: cached on disk, without the interpreter lock, and typed as the function they wrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

__all__ = ["jit", "jit_uncached"]

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile a kernel of plain loops. Numba's own decorator is untyped; this keeps the kernel's signature for the type checker."""
    return cast(F, njit(cache=True, nogil=True)(function))


def jit_uncached(function: F) -> F:
    """The same for kernels that call a user's compiled function, which a disk cache could confuse with another."""
    return cast(F, njit(nogil=True)(function))
