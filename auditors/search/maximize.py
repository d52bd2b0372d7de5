"""Maximization of a score within a budget, and the shrinking of what a search has found: the
search of stability audits, of accountants and of adversaries.
"""

from __future__ import annotations

import bisect
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator

T = TypeVar("T")


class Budget(NamedTuple):
    """Limits of a search in seconds and in candidates; the first one that is reached ends it."""

    seconds: float
    evaluations: int | None = None


class Scored(NamedTuple, Generic[T]):
    """Candidate of a search, with its score."""

    candidate: T
    value: float


Space = Callable[[Sequence[Scored[T]], Generator], Iterator[T]]


def maximize(
    score: Callable[[Iterator[T]], Iterable[tuple[T, float]]],
    space: Space[T],
    budget: Budget,
    seed: int | Generator,
    keep: int = 32,
) -> list[Scored[T]]:
    """Return the candidates of a space with the largest scores, best first.

    Parameters
    ----------
    score : callable
        ``score(candidates)`` yields candidates with their scores, in any order. `score` takes as
        many candidates from the iterator at once as suits its runs. An infinite score ends the
        search.
    space : callable
        ``space(best, rng)`` yields the candidates to try. `best` holds the best candidates so far,
        and changes during the search: later candidates may be changes of the best ones.
    budget : Budget
        At least one candidate is scored. A search that ends by its evaluations is reproducible.
    seed : int or Generator
        Randomness of the space.
    keep : int
        Largest number of candidates that are returned.

    Returns
    -------
    list of Scored
        At most `keep` candidates. Of candidates with equal scores, the earlier one comes first.

    Examples
    --------
    >>> def space(best, rng):
    ...     yield from (1, 5)
    ...     while True:
    ...         yield best[0].candidate + int(rng.integers(-2, 3))
    >>> def score(numbers):
    ...     return ((n, -abs(n - 9)) for n in numbers)
    >>> maximize(score, space, Budget(60, evaluations=100), seed=0, keep=1)
    [Scored(candidate=9, value=0)]
    """
    end = time.monotonic() + budget.seconds
    best: list[Scored[T]] = []
    candidates = islice(space(best, np.random.default_rng(seed)), budget.evaluations)
    for candidate, value in score(candidates):
        bisect.insort(best, Scored(candidate, value), key=lambda scored: -scored.value)
        del best[keep:]
        if value == math.inf or time.monotonic() > end:
            break
    return best


def shrunk(
    found: T,
    simpler: Callable[[T], Iterator[T]],
    keeps: Callable[[T], bool],
    over: Callable[[], bool],
) -> T:
    """Return the simplest item that is reached from `found` by steps that keep the finding.

    Parameters
    ----------
    found : object
        Where to begin.
    simpler : callable
        Returns simpler items than the given one, the boldest simplification first.
    keeps : callable
        Whether an item still shows the finding.
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
