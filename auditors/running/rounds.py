r"""Calls of a mechanism: batches, or rounds one at a time; and what a call that raises may enter the counts as.

**What a mechanism promises.** For every n, ``run(dataset, n, rng)`` draws n independent outcomes of one law, values and exceptions; it
returns them if none is an exception, and raises if one is. An exception is an output, so M(D) is the law of ``run(dataset, 1, rng)``.

A batch that raises shows that one of its outcomes is an exception, and not which. Run again, its rounds would be drawn afresh exactly where
one of n raised: exceptions of probability p would enter with p (1 - (1 - p)^n). Left out, the others would be counted given that no
exception came. Hence two rules. Where earlier stages have seen a batch raise, a stage runs its rounds one at a time from its start
(`Stage.single`), and each enters by its own first draw. A batch that raises for the first time in a test is **lost**: none of its rounds is
run again, all count as wrong guesses, and the stage's later rounds are run one at a time.

**Theorem.** A certificate of counts with lost rounds is valid at its level, at all looks together.

*Proof.* Let y_1, ..., y_N be the outcomes of the N rounds, those of lost ones too: independent, y_i ~ M(D_{b_i}), as the mechanism
promises. That later rounds are run one at a time is decided by earlier ones alone and leaves their law as it is. Let C*, W* be the right
and wrong guesses among all y_i, C and W those among the rounds seen, K the number of lost ones. Then C* >= C, W* <= W + K and
C* + W* >= C + W. The Clopper-Pearson limits of `certificate` rise with successes and fall with failures, so

    theta_L(C, W + K) <= theta_L(C*, W*)    and    s_L(C + W of N) <= s_L(C* + W* of N),

and the parameter rises with both. What is reported at any look is at most what the full counts would have certified there, which exceeds
the truth at some look with probability alpha at most.  []
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpwitness.auditors.events.outputs import Outputs, concatenate, encode
from dpwitness.mechanisms.foreign.target import Isolated, Target
from dpwitness.mechanisms.terms.protocol import MechanismFailed

Run = Callable[[Any, int, Generator], Any]

_PLAIN = (float, int, bool, str, bytes, type(None))  # items that nobody can change afterwards


def of_this_project(run: Run) -> bool:
    """Whether `run` is the method of a mechanism of this project: it draws from `rng` alone and returns arrays of its own."""
    owner = getattr(run, "__self__", None)
    return type(owner).__module__.startswith("dpwitness.") and not isinstance(owner, Isolated)


def batch(run: Run, dataset: Any, size: int, rng: Generator) -> Outputs | None:
    """Encoded outputs of `size` runs in one call; None if it raises, unless it is a single run, whose output the exception is."""
    if size == 0:
        return Outputs(np.empty((0, 1)), np.empty(0))
    try:
        raw = run(dataset, size, rng)
    except Exception as error:
        _reraise(error)
        return encode([error], 1) if size == 1 else None
    found = encode(raw, size)
    if isinstance(raw, np.ndarray) and np.may_share_memory(found.values, raw) and not of_this_project(run):
        return found.copied()  # the mechanism may write there again
    return found


def singles(run: Run, datasets: Sequence[Any], sides: NDArray[np.int64], rngs: Sequence[Generator]) -> list[Outputs]:
    """Encoded outputs on each dataset of runs one at a time, on the datasets and in the order that `sides` names."""
    worker = getattr(run, "__self__", None)
    if isinstance(worker, Target) and run.__name__ == "sample":  # in its process, one dataset after the other
        order = dict.fromkeys(sides.tolist())
        found = {s: encode(worker.sample_each(datasets[s], int(np.sum(sides == s)), rngs[s]), int(np.sum(sides == s))) for s in order}
        return [found.get(s, Outputs(np.empty((0, 1)), np.empty(0))) for s in range(len(datasets))]
    kept = [_Singles() for _ in datasets]
    for side in sides.tolist():
        try:
            raw = run(datasets[side], 1, rngs[side])
        except Exception as error:
            _reraise(error)
            raw = [error.with_traceback(None)]
        kept[side].add(raw)
    return [each.outputs() for each in kept]


def run_side(run: Run, dataset: Any, size: int, rng: Generator) -> Outputs:
    """Encoded outputs of `size` runs on one dataset, to be looked at: a batch that raises is run again one by one.

    Not for counts that certify: see the module's first lines.
    """
    found = batch(run, dataset, size, rng)
    return singles(run, [dataset], np.zeros(size, dtype=np.int64), [rng])[0] if found is None else found


def _reraise(error: Exception) -> None:
    """What is no output."""
    if isinstance(error, MechanismFailed):
        raise error
    if isinstance(error, MemoryError):
        raise MechanismFailed(f"the mechanism ran out of memory: {error}".rstrip(": ")) from None


class _Singles:
    """Outputs of single runs: those of one kind are encoded together, and end in the order in which they came."""

    def __init__(self) -> None:
        self._kinds: dict[Any, tuple[list[int], list[Any]]] = {}
        self._size = 0

    def add(self, raw: Any) -> None:
        kind: Any = ("own", self._size)
        if isinstance(raw, np.ndarray) and raw.shape[:1] == (1,) and raw.dtype.kind in "fiub" and type(raw) is np.ndarray:
            kind, raw = (raw.dtype, raw.shape), raw.copy()
        elif isinstance(raw, list | tuple) and len(raw) == 1:
            kind = "list"
            raw = raw[0] if isinstance(raw[0], (*_PLAIN, BaseException)) else _copied(raw[0])
        else:
            raw = encode(raw, 1)
        places, held = self._kinds.setdefault(kind, ([], []))
        places.append(self._size)
        held.append(raw)
        self._size += 1

    def outputs(self) -> Outputs:
        if not self._size:
            return Outputs(np.empty((0, 1)), np.empty(0))
        parts, places = [], []
        for kind, (where, held) in self._kinds.items():
            places.extend(where)
            if isinstance(held[0], Outputs):
                parts.extend(held)
            else:
                parts.append(encode(held if kind == "list" else np.concatenate(held), len(held)))
        return concatenate(parts).take(np.argsort(places))


def _copied(item: Any) -> Any:
    """A copy, for the mechanism may write into the item again; the item itself where it cannot be copied."""
    try:
        return copy.deepcopy(item)
    except Exception:
        return item
