"""Fused drawing and counting: one compiled loop of a mechanism's kernel and an event's kernel, over
a block that fits in the cache.

The counts equal those of separate sampling and counting: the same outputs from the same stream, and
the same rule. Without a cache on disk, compiling a loop takes one or two seconds, so the loop is
used for tests of at least `event.MIN_KERNEL_ROUNDS` rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpwitness.auditors.events.event import Event, cached_kernel
from dpwitness.auditors.events.outputs import Outputs, encode
from dpwitness.auditors.workers.rounds import Run, is_builtin_mechanism
from dpwitness.core.numerics.draws import Draws, state_of
from dpwitness.core.protocols.mechanism import FloatArray

if TYPE_CHECKING:
    from dpwitness.auditors.events.kernels import Kernel

_BLOCK_ROWS = 256
_COMPARED_OUTPUTS = 64  # number of outputs compared with those of `sample`


@dataclass(frozen=True, slots=True)
class Counter:
    """Compiled counter of a mechanism's rounds on one dataset, in the cells of one event."""

    draws: Draws
    kernel: Kernel

    def count(self, size: int, rng: Generator) -> tuple[NDArray[np.int64], Outputs]:
        """Return the counts of `size` rounds (abstain, D1, D0), and the outputs of the first
        rounds, at most 256.
        """
        table = np.zeros(3, dtype=np.int64)
        if size == 0:
            return table, Outputs(np.empty((0, 1)), np.empty(0))
        head = np.empty((min(size, _BLOCK_ROWS), self.draws.width))
        count, rule = self.kernel
        fill: Callable[..., None] = self.draws.fill
        source: Any = rng
        if self.draws.inlined is not None and (state := state_of(rng)) is not None:
            fill, source = self.draws.inlined, state
        _fused_loop(fill, count)(self.draws.arguments, rule, size, head, table, source)
        return table, encode(head, len(head))


def counter(run: Run, dataset: Any, event: Event) -> Counter | None:
    """Return the compiled counter of rounds of `run` on a dataset, or None.

    None unless `run` is the `sample` of a mechanism that offers ``draws``, both kernels are
    compiled, and both give the same outputs.
    """
    draws = _draws_of(run, dataset)
    if draws is None:
        return None
    kernel = cached_kernel(
        event, draws.width, float(encode(np.empty((1, draws.width)), 1).codes[0])
    )
    return None if kernel is None else Counter(draws, kernel)


def _draws_of(run: Run, dataset: Any) -> Draws | None:
    """Return the mechanism's `draws` for a dataset if they exist and match its `sample`; otherwise
    None.
    """
    owner = getattr(run, "__self__", None)
    classes = type(owner).__mro__
    sample_level, draws_level = (
        next((i for i, kind in enumerate(classes) if name in vars(kind)), None)
        for name in ("sample", "draws")
    )
    if (
        sample_level is None
        or draws_level is None
        or sample_level < draws_level
        or getattr(run, "__func__", None) is not vars(classes[sample_level])["sample"]
    ):
        return None  # a subclass overrides `sample`, and that method is audited
    try:
        draws = owner.draws(dataset)  # type: ignore[union-attr]
        fits = isinstance(draws, Draws) and hasattr(draws.fill, "py_func")
        return (
            draws
            if fits and (is_builtin_mechanism(run) or _give_same_outputs(run, dataset, draws))
            else None
        )
    except Exception:  # the run itself will raise the error and is counted then
        return None


def _give_same_outputs(run: Run, dataset: Any, draws: Draws) -> bool:
    """Return whether `run` and `draws` give bitwise equal first outputs and leave the generator in
    the same state.
    """
    one, two = np.random.default_rng(0), np.random.default_rng(0)
    rows = run(dataset, _COMPARED_OUTPUTS, one)
    blocks = np.concatenate(
        [draws.sample(size, two) for size in (_COMPARED_OUTPUTS // 2, _COMPARED_OUTPUTS // 2)]
    )
    shaped = (
        isinstance(rows, np.ndarray) and rows.dtype == np.float64 and rows.shape == blocks.shape
    )
    return shaped and rows.tobytes() == blocks.tobytes() and one.bytes(8) == two.bytes(8)


@lru_cache(maxsize=64)
def _fused_loop(fill: Callable[..., None], count: Callable[..., None]) -> Callable[..., None]:
    """Return the compiled loop of a drawing kernel and a counting kernel."""
    from dpwitness.core.numerics.jit import jit  # loads Numba

    @jit
    def loop(
        arguments: tuple[Any, ...],
        rule: tuple[Any, ...],
        size: int,
        head: FloatArray,
        table: NDArray[np.int64],
        rng: Any,
    ) -> None:
        fill(*arguments, head, rng)
        count(*rule, head, table)
        block = np.empty((_BLOCK_ROWS, head.shape[1]))
        for start in range(len(head), size, _BLOCK_ROWS):
            rows = block[: min(_BLOCK_ROWS, size - start)]
            fill(*arguments, rows, rng)
            count(*rule, rows, table)

    return loop
