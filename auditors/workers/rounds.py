"""Calls of a mechanism, in batches or one round at a time; and the rules for counting a call that
raises an exception.

**Assumption about a mechanism.** For every n, ``run(dataset, n, rng)`` draws n independent outcomes
of one distribution, values and exceptions. The call returns the outcomes if none is an exception,
and raises if one is. An exception is an output, so M(D) is the distribution of ``run(dataset, 1,
rng)``.

A batch that raises shows that one of its outcomes is an exception, but not which. Running the batch
again would draw new rounds exactly where one of n raised: exceptions of probability p would be
counted with p (1 - (1 - p)^n). Leaving the batch out would count the others given that no exception
occurred. Hence two rules. If earlier stages have seen a batch raise, a stage runs its rounds one at
a time from its start (`Stage.single`), and each round is counted by its own first draw. A batch
that raises for the first time in a test is **lost**: none of its rounds is run again, all count as
wrong guesses, and the later rounds of the stage are run one at a time.

**Theorem.** A certificate of counts with lost rounds is valid at its level, at all interim looks
together.

*Proof.* Let y_1, ..., y_N be the outcomes of the N rounds, including lost ones. By the assumption
they are independent with y_i ~ M(D_{b_i}). The decision to run later rounds one at a time depends
on earlier rounds only, and does not change their distribution. Let C*, W* be the numbers of right
and wrong guesses among all y_i, C and W those among the observed rounds, and K the number of lost
rounds. Then C* >= C, W* <= W + K and C* + W* >= C + W. The Clopper-Pearson limits of `certificate`
increase with successes and decrease with failures, so

    theta_L(C, W + K) <= theta_L(C*, W*)    and    s_L(C + W of N) <= s_L(C* + W* of N),

and the parameter increases with both. So the reported parameter at any look is at most what the
full counts would have certified there. The latter exceeds the truth at some look with probability
alpha at most.  []
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpwitness.auditors.events.outputs import Outputs, concatenate, encode
from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.mechanisms.wrappers.programs.inside.batch_runner import copy_if_possible
from dpwitness.mechanisms.wrappers.programs.target import Isolated, Target

Run = Callable[[Any, int, Generator], Any]

_IMMUTABLE = (float, int, bool, str, bytes, type(None))  # immutable items


def is_builtin_mechanism(run: Run) -> bool:
    """Return whether `run` is the method of a dpwitness mechanism, which draws only from `rng` and
    returns new arrays.
    """
    owner = getattr(run, "__self__", None)
    return type(owner).__module__.startswith("dpwitness.") and not isinstance(owner, Isolated)


def batch(run: Run, dataset: Any, size: int, rng: Generator) -> Outputs | None:
    """Return the encoded outputs of `size` runs in one call; None if the call raises.

    An exception of a single run is its output.
    """
    if size == 0:
        return Outputs(np.empty((0, 1)), np.empty(0))
    try:
        raw = _call(run, dataset, size, rng)
    except Exception as error:
        _raise_unless_output(error)
        return encode([error], 1) if size == 1 else None
    encoded = encode(raw, size)
    if (
        isinstance(raw, np.ndarray)
        and np.may_share_memory(encoded.values, raw)
        and not is_builtin_mechanism(run)
    ):
        return encoded.copied()  # the mechanism may reuse its buffer
    return encoded


def singles(
    run: Run, datasets: Sequence[Any], sides: NDArray[np.int64], rngs: Sequence[Generator]
) -> list[Outputs]:
    """Return the encoded outputs on each dataset of runs one at a time; `sides` lists the dataset
    of each run in order.
    """
    worker = getattr(run, "__self__", None)
    # its process runs one dataset after the other
    if isinstance(worker, Target) and run.__name__ == "sample":
        order = dict.fromkeys(sides.tolist())
        encoded = {
            s: encode(
                worker.sample_each(datasets[s], int(np.sum(sides == s)), rngs[s]),
                int(np.sum(sides == s)),
            )
            for s in order
        }
        return [
            encoded.get(s, Outputs(np.empty((0, 1)), np.empty(0))) for s in range(len(datasets))
        ]
    buffers = [_SingleRuns() for _ in datasets]
    for side in sides.tolist():
        try:
            raw = _call(run, datasets[side], 1, rngs[side])
        except Exception as error:
            _raise_unless_output(error)
            raw = [error.with_traceback(None)]
        buffers[side].add(raw)
    return [each.outputs() for each in buffers]


def run_side(run: Run, dataset: Any, size: int, rng: Generator) -> Outputs:
    """Return the encoded outputs of `size` runs on one dataset; a batch that raises is run again
    one at a time.

    The outputs must not be used for counts that certify, see the module's docstring.
    """
    encoded = batch(run, dataset, size, rng)
    return (
        singles(run, [dataset], np.zeros(size, dtype=np.int64), [rng])[0]
        if encoded is None
        else encoded
    )


def _call(run: Run, dataset: Any, size: int, rng: Generator) -> Any:
    """Return the outputs of a call, in this process only: a forked child that returns from the call
    as well must not continue the audit.
    """
    process = os.getpid()
    try:
        return run(dataset, size, rng)
    finally:
        if os.getpid() != process:
            os._exit(0)


def _raise_unless_output(error: Exception) -> None:
    """Raise MechanismFailed if the error is not an output: a failed mechanism, or running out of
    memory.
    """
    if isinstance(error, MechanismFailed):
        raise error
    if isinstance(error, MemoryError):
        raise MechanismFailed(f"the mechanism ran out of memory: {error}".rstrip(": ")) from None


class _SingleRuns:
    """Buffer of outputs of single runs: outputs of one kind are encoded together and returned in
    their original order.
    """

    def __init__(self) -> None:
        self._kinds: dict[Any, tuple[list[int], list[Any]]] = {}
        self._size = 0

    def add(self, raw: Any) -> None:
        """Add the result of a single run."""
        kind: Any = ("own", self._size)
        if (
            isinstance(raw, np.ndarray)
            and raw.shape[:1] == (1,)
            and raw.dtype.kind in "fiub"
            and type(raw) is np.ndarray
        ):
            kind, raw = (raw.dtype, raw.shape), raw.copy()
        elif isinstance(raw, list | tuple) and len(raw) == 1:
            kind = "list"
            raw = (
                raw[0]
                if isinstance(raw[0], (*_IMMUTABLE, BaseException))
                else copy_if_possible(raw[0])
            )
        else:
            raw = encode(raw, 1)
        positions, group = self._kinds.setdefault(kind, ([], []))
        positions.append(self._size)
        group.append(raw)
        self._size += 1

    def outputs(self) -> Outputs:
        """Return all outputs, encoded, in the order in which they were added."""
        if not self._size:
            return Outputs(np.empty((0, 1)), np.empty(0))
        parts, positions = [], []
        for kind, (indices, group) in self._kinds.items():
            positions.extend(indices)
            if isinstance(group[0], Outputs):
                parts.extend(group)
            else:
                parts.append(encode(group if kind == "list" else np.concatenate(group), len(group)))
        return concatenate(parts).take(np.argsort(positions))
