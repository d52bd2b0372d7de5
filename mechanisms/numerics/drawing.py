"""How outputs of a mechanism are drawn: a compiled kernel and its arguments, so that whoever counts outputs can draw them in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import require_callable, require_integer, require_type


@dataclass(frozen=True, slots=True)
class Draws:
    """The law of a mechanism's output on one dataset, as a kernel that draws from it.

    A mechanism that offers ``draws(dataset) -> Draws`` beside ``sample`` is audited without its outputs ever being stored: one compiled
    loop draws a few hundred and counts them while they are in the cache. Both must give the same outputs, bit for bit:
    ``sample(dataset, size, rng)`` is ``draws(dataset).sample(size, rng)``.

    Parameters
    ----------
    fill : callable
        ``fill(*arguments, out, rng)``, compiled with Numba, writes independent outputs into the rows of `out`, a C-contiguous float64 array
        (rows, width): row after row, without reading what was there, and keeping nothing from call to call but what `rng` keeps, so that
        rows filled in blocks of a multiple of 32 equal those filled at once.
    arguments : tuple
        Numbers and arrays that the dataset decides. The kernel must not write into them.
    width : int
        Numbers in one output.

    Raises
    ------
    InvalidArgument
        If `fill` cannot be called, `arguments` is no tuple, or `width` is no whole number above 0.

    Examples
    --------
    >>> import numba, numpy as np
    >>> @numba.njit
    ... def fill(center, out, rng):
    ...     for i in range(len(out)):
    ...         out[i, 0] = center + rng.standard_normal()
    >>> Draws(fill, (3.0,), 1).sample(2, np.random.default_rng(1)).round(2)
    array([[3.35],
           [3.82]])
    """

    fill: Callable[..., None]
    arguments: tuple[Any, ...]
    width: int

    def __post_init__(self) -> None:
        require_callable("fill", self.fill, "Draws")
        require_type("arguments", self.arguments, tuple, "be a tuple", "Draws")
        require_integer("width", self.width, "Draws")

    def sample(self, size: int, rng: Generator) -> FloatArray:
        """`size` independent outputs: (size, width)."""
        out = np.empty((size, self.width))
        self.fill(*self.arguments, out, rng)
        return out
