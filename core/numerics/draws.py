"""Output laws as compiled kernels with arguments, so that a caller can draw outputs and count
them in blocks.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator
from numpy.typing import NDArray

from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import require_callable, require_integer, require_type

State = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Draws:
    """The law of a mechanism's output on one dataset, as a compiled kernel that draws from the law.

    A mechanism that has a method ``draws(dataset) -> Draws`` besides ``sample`` is audited without
    storing its outputs: they are drawn in blocks, and counted while they are in the cache. Both
    methods must give the same outputs, bit for bit: ``sample(dataset, size, rng)`` equals
    ``draws(dataset).sample(size, rng)``.

    Parameters
    ----------
    fill : callable
        ``fill(*arguments, out, rng)``, compiled with Numba. The kernel writes independent outputs
        into the rows of `out`, a C-contiguous float64 array of shape (rows, width), row after row.
        The kernel must not read the previous content of `out` and must keep no state between calls
        except that of `rng`. Rows filled in blocks of a multiple of 32 must equal rows filled at
        once.
    arguments : tuple
        Numbers and arrays that depend on the dataset. The kernel must not write into them.
    width : int
        Number of values in one output.
    inlined : callable, optional
        ``inlined(*arguments, out, state)``, a faster form of `fill` with the same numbers, from the
        four words of the state of an SFC64 generator, which it advances.

    Raises
    ------
    InvalidArgument
        If `fill` is not callable, `arguments` is not a tuple, or `width` is not a positive integer.

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
    inlined: Callable[..., None] | None = None

    def __post_init__(self) -> None:
        require_callable("fill", self.fill, "Draws")
        require_type("arguments", self.arguments, tuple, "be a tuple", "Draws")
        require_integer("width", self.width, "Draws")

    def sample(self, size: int, rng: Generator) -> FloatArray:
        """Return `size` independent outputs, as an array of shape (size, width)."""
        out = np.empty((size, self.width))
        self.fill(*self.arguments, out, rng)
        return out


def state_of(rng: Generator) -> State | None:
    """Return the four words of an SFC64 generator's state, as a view that kernels advance; None for
    another generator.
    """
    source = rng.bit_generator
    if type(source) is not SFC64:
        return None
    words: State = np.ctypeslib.as_array(
        (ctypes.c_uint64 * 4).from_address(source.ctypes.state_address)
    )
    return words if np.array_equal(words, source.state["state"]["state"]) else None


class SampledByDraws(ABC):
    """Mixin of the mechanisms whose `sample` runs the kernel of their `draws`."""

    __slots__ = ()

    @abstractmethod
    def draws(self, dataset: Any) -> Draws:
        """Return the sampler of the outputs on `dataset`."""

    def sample(self, dataset: Any, size: int, rng: Generator) -> FloatArray:
        """Return the outputs of `size` independent runs, one per row."""
        return self.draws(dataset).sample(size, rng)
