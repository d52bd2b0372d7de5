"""Shrinking of what a search has found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


def shrunk(
    found: T,
    simpler: Callable[[T], Iterator[T]],
    keeps: Callable[[T], bool],
    over: Callable[[], bool],
) -> T:
    """Return the simplest item that is reached from `found` by steps that keep what was found.

    Parameters
    ----------
    found : object
        Where to begin.
    simpler : callable
        Returns simpler items than the given one, the boldest simplification first.
    keeps : callable
        Whether an item still shows what was found.
    over : callable
        Whether the budget is spent.

    Returns
    -------
    object
        `found` itself, or a simpler item.

    Examples
    --------
    >>> shrunk(40, lambda n: iter([n // 2, n - 1]), lambda n: n >= 7, lambda: False)
    7
    """
    while not over():
        for candidate in simpler(found):
            if over():
                return found
            if keeps(candidate):
                found = candidate
                break
        else:
            return found
    return found
