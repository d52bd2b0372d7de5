"""Rounds counted where they are drawn: one compiled loop of a mechanism's kernel and an event's, over a block that stays in the cache.

What is counted is what would be counted apart: the same outputs from the same stream, by the same rule. Compiling a loop takes about a
second where nothing is in the cache on disk; `WORTH` rounds are more than that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpwitness.auditors.events.kernels import Kernel
from dpwitness.auditors.events.outputs import Outputs, encode
from dpwitness.auditors.events.rules import Event, kernel_of
from dpwitness.auditors.running.rounds import Run
from dpwitness.mechanisms.numerics.drawing import Draws
from dpwitness.mechanisms.numerics.jit import jit
from dpwitness.mechanisms.terms.protocol import FloatArray

WORTH = 2**18  # rounds of a test that are worth a loop of their own

_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts rounds of a mechanism on one dataset in the cells of one event."""

    draws: Draws
    kernel: Kernel

    def count(self, size: int, rng: Generator) -> tuple[NDArray[np.int64], Outputs]:
        """How many of `size` rounds abstain, name D1 and name D0, and the outputs of the first of them, at most 256."""
        table, head = np.zeros(3, dtype=np.int64), np.empty((min(size, _BLOCK), self.draws.width))
        count, rule = self.kernel
        _loop(self.draws.fill, count)(self.draws.arguments, rule, size, head, table, rng)
        return table, encode(head, len(head))


def counter(run: Run, dataset: Any, event: Event) -> Counter | None:
    """What counts rounds of `run` without storing them; None unless it samples a mechanism with compiled draws, and the event is compiled.

    A kernel of this project counts for itself alone; a subclass that samples in another way is not taken for its base.
    """
    owner = getattr(run, "__self__", None)
    offered = getattr(owner, "draws", None)
    if not callable(offered) or getattr(run, "__func__", None) is not getattr(type(owner), "sample", None) or _overridden(type(owner)):
        return None
    draws = offered(dataset)
    if not isinstance(draws, Draws) or not hasattr(draws.fill, "py_func"):
        return None
    kernel = kernel_of(event, draws.width, float(encode(np.empty((1, draws.width)), 1).codes[0]))
    return None if kernel is None else Counter(draws, kernel)


def _overridden(kind: type) -> bool:
    """Whether `sample` was replaced in a class below the one that says how outputs are drawn."""
    below = next((base for base in kind.__mro__ if "sample" in vars(base) or "draws" in vars(base)), kind)
    return "draws" not in vars(below) and any("draws" in vars(base) for base in kind.__mro__)


@lru_cache(maxsize=64)
def _loop(fill: Callable[..., None], count: Callable[..., None]) -> Callable[..., None]:
    @jit
    def loop(
        arguments: tuple[Any, ...], rule: tuple[Any, ...], size: int, head: FloatArray, table: NDArray[np.int64], rng: Generator
    ) -> None:
        fill(*arguments, head, rng)
        count(*rule, head, table)
        block = np.empty((_BLOCK, head.shape[1]))
        for start in range(len(head), size, _BLOCK):
            rows = block[: min(_BLOCK, size - start)]
            fill(*arguments, rows, rng)
            count(*rule, rows, table)

    return loop
