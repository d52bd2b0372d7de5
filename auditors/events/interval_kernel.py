"""Counting in many intervals: a fine grid knows the guess of every cell that no edge cuts, and where the search begins in the others."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.numerics.jit import jit

_CELLS = 4096
_CUT = 2  # no guess: an edge lies in or near the cell


def count_in_intervals(x: NDArray[np.float64], edges: NDArray[np.float64], guesses: NDArray[np.int8], missing: int) -> tuple[int, int]:
    """How many of `x` have a positive and how many a negative guess; guesses[i] holds for edges[i-1] < x <= edges[i].

    The edges increase, and the last less the first is a float above 1e-290 and finite.
    """
    grid = _grid(edges.tobytes(), guesses.tobytes())
    plus, minus = _count(x, edges, guesses, missing, *grid)
    return int(plus), int(minus)


@lru_cache(maxsize=8)
def _grid(edge_bytes: bytes, guess_bytes: bytes) -> tuple[NDArray[np.int64], NDArray[np.int8], float, float]:
    """Where the search begins in each cell, the guess of each cell or `_CUT`, and where the cells lie."""
    edges, guesses = np.frombuffer(edge_bytes), np.frombuffer(guess_bytes, dtype=np.int8)
    low = float(edges[0])
    scale = _CELLS / (float(edges[-1]) - low)
    # cell c + 1 holds low + c / scale and above; the cells beside it are looked at as well, for rounding may put a number there
    borders = low + np.arange(-1, _CELLS + 3) / scale
    first = np.concatenate([[0], np.searchsorted(edges, borders[:-3], side="left")])
    last = np.concatenate([np.searchsorted(edges, borders[2:], side="left")[:-1], [len(edges)]])
    return first, np.where(first == last, guesses[first], np.int8(_CUT)).astype(np.int8), low, scale


@jit
def _count(
    x: NDArray[np.float64],
    edges: NDArray[np.float64],
    guesses: NDArray[np.int8],
    missing: int,
    first: NDArray[np.int64],
    table: NDArray[np.int8],
    low: float,
    scale: float,
) -> tuple[int, int]:
    plus, minus, cells = 0, 0, float(len(table) - 2)
    for value in x:
        at = (value - low) * scale + 1.0
        if at != at:
            guess = missing
        else:
            cell = int(min(max(at, 0.0), cells + 1.0))
            guess = table[cell]
            if guess == 2:
                i = first[cell]
                while i < len(edges) and value > edges[i]:
                    i += 1
                guess = guesses[i]
        plus += guess > 0
        minus += guess < 0
    return plus, minus
