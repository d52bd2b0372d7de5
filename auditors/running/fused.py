"""Rounds counted where they are drawn: one compiled loop of a mechanism's kernel and an event's, over a block that stays in the cache.

What is counted is what would be counted apart: the same outputs from the same stream, by the same rule. Compiling a loop takes a second or
two where none lies in the cache on disk: it is for tests of at least `rules.WORTH` rounds.
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
from dpwitness.auditors.running.rounds import Run, of_this_project
from dpwitness.mechanisms.numerics.drawing import Draws
from dpwitness.mechanisms.numerics.jit import jit
from dpwitness.mechanisms.terms.protocol import FloatArray

_BLOCK = 256
_TRIED = 64  # outputs that must be the same as those of `sample`


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts rounds of a mechanism on one dataset in the cells of one event."""

    draws: Draws
    kernel: Kernel

    def count(self, size: int, rng: Generator) -> tuple[NDArray[np.int64], Outputs]:
        """How many of `size` rounds abstain, name D1 and name D0, and the outputs of the first of them, at most 256."""
        table = np.zeros(3, dtype=np.int64)
        if size == 0:
            return table, Outputs(np.empty((0, 1)), np.empty(0))
        head = np.empty((min(size, _BLOCK), self.draws.width))
        count, rule = self.kernel
        _loop(self.draws.fill, count)(self.draws.arguments, rule, size, head, table, rng)
        return table, encode(head, len(head))


def counter(run: Run, dataset: Any, event: Event) -> Counter | None:
    """What counts rounds of `run` where they are drawn.

    None unless `run` is the `sample` of a mechanism that offers ``draws``, both are compiled, and they give the same outputs.
    """
    draws = _draws_of(run, dataset)
    if draws is None:
        return None
    kernel = kernel_of(event, draws.width, float(encode(np.empty((1, draws.width)), 1).codes[0]))
    return None if kernel is None else Counter(draws, kernel)


def _draws_of(run: Run, dataset: Any) -> Draws | None:
    owner = getattr(run, "__self__", None)
    kinds = type(owner).__mro__
    sampled, drawn = (next((i for i, kind in enumerate(kinds) if name in vars(kind)), None) for name in ("sample", "draws"))
    if sampled is None or drawn is None or sampled < drawn or getattr(run, "__func__", None) is not vars(kinds[sampled])["sample"]:
        return None  # a class below has a `sample` of its own: that one is audited
    try:
        draws = owner.draws(dataset)  # type: ignore[union-attr]
        fits = isinstance(draws, Draws) and hasattr(draws.fill, "py_func")
        return draws if fits and (of_this_project(run) or _same(run, dataset, draws)) else None
    except Exception:  # whatever it is, the run raises it where it is counted
        return None


def _same(run: Run, dataset: Any, draws: Draws) -> bool:
    """Whether the first outputs of `run` are those of its draws, in blocks and bit for bit, and leave the generator alike."""
    one, two = np.random.default_rng(0), np.random.default_rng(0)
    rows = run(dataset, _TRIED, one)
    blocks = np.concatenate([draws.sample(size, two) for size in (_TRIED // 2, _TRIED // 2)])
    shaped = isinstance(rows, np.ndarray) and rows.dtype == np.float64 and rows.shape == blocks.shape
    return shaped and rows.tobytes() == blocks.tobytes() and one.bytes(8) == two.bytes(8)


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
