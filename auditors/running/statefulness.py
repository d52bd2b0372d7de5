"""Fitness checks of a mechanism: independent rounds, randomness only from the given generator, and one output shape.

Every check has a false-alarm probability below 1e-9 for a correct mechanism. An alarm makes the
verdict ERROR.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.outputs import Outputs, row_keys
from dpwitness.auditors.statistics.dependence import total_evidence
from dpwitness.mechanisms.protocols.mechanism import MechanismFailed


class Unfit(MechanismFailed):
    """Raised when rounds do not meet the assumptions of a certificate; counts collected so far certify nothing."""


_ALARM_PROBABILITY = 1e-10
_MAX_CORRELATION_RUNS = 2**17  # number of runs tested for correlation
_MIN_DIFFERENT = 8  # rows that differ from the most frequent row, from which a batch counts as random


def same_outputs(a: Outputs, b: Outputs) -> bool:
    """Return whether two encoded batches are equal, with NaN equal to NaN."""
    return len(a) == len(b) and a.names == b.names and np.array_equal(row_keys(a.matrix()), row_keys(b.matrix()))


def digest(sides: Sequence[Outputs]) -> str:
    """Return a hash of encoded batches."""
    keys = [row_keys(side.matrix()).tobytes() for side in sides]
    return hashlib.blake2b(b"".join(keys), digest_size=12).hexdigest()


def check_training(chunks: Sequence[tuple[Outputs, Outputs]]) -> None:
    """Raise Unfit if training outputs show broken randomness; `chunks` holds a pair (D1, D0) of batches for each chunk."""
    for side, name in enumerate(("D1", "D0")):
        batches = [chunk[side] for chunk in chunks if len(chunk[side]) > 1]
        check_structure(batches, name)
        width = max((batch.values.shape[1] for batch in batches), default=1)  # equal rows have equal keys only at equal width
        keys = [row_keys(batch.matrix(width)) for batch in batches]
        for first, second in pairwise(keys):
            n = min(len(first), len(second))
            if not np.array_equal(first[:n], second[:n]):
                continue
            _, counts = np.unique(first[:n], return_counts=True)
            if n - counts.max() >= _MIN_DIFFERENT:
                raise Unfit(f"mechanism ignores rng: two calls on {name} with different streams returned identical outputs")
        constant = [np.all(key == key[0]) for key in keys]
        if len(keys) > 1 and all(constant) and len({int(key[0]) for key in keys}) > 1 and min(map(len, keys)) >= 32:
            raise Unfit(
                f"rounds are not independent: on {name} all runs of one call are equal but calls differ; draw fresh noise for each run"
            )
        _check_serial(batches, keys, name)


def check_structure(batches: Sequence[Outputs], name: str) -> None:
    """Raise Unfit if arrays from one dataset change their shape or type from call to call."""
    shapes = {batch.names[batch.codes[0]] for batch in batches if len(batch.names) == 1}
    arrays = sorted(shape for shape in shapes if shape.endswith("]"))
    if len(arrays) > 1:
        raise Unfit(f"mechanism changed its output between calls on {name}: {' and then '.join(arrays)}")


def _check_serial(batches: Sequence[Outputs], keys: Sequence[NDArray[np.uint64]], name: str) -> None:
    """Raise Unfit if consecutive runs are correlated.

    The tested signal is whether an output is the most frequent one; if few outputs are equal, it is
    the rank of the first number.
    """
    flat = np.concatenate(keys)[:_MAX_CORRELATION_RUNS] if keys else np.empty(0, dtype=np.uint64)
    if len(flat) < 200:
        return
    values, counts = np.unique(flat, return_counts=True)
    if len(values) < len(flat) / 4:
        signal = (flat == values[np.argmax(counts)]).astype(float)
    else:
        numbers = np.concatenate([batch.matrix(1, structure=False)[:, 0] for batch in batches])[: len(flat)]
        different, value_index, ties = np.unique(numbers, return_inverse=True, return_counts=True)
        if np.isnan(numbers).any() or len(different) < len(numbers) / 4:
            return
        signal = (np.cumsum(ties) - ties / 2)[value_index] / len(numbers)  # equal numbers have equal ranks, independent of their order
    signal -= signal.mean()
    spread = float(signal @ signal)
    if spread > 30 and abs(float(signal[:-1] @ signal[1:])) / spread * np.sqrt(len(signal)) > 7:
        raise Unfit(f"mechanism keeps state between rounds: neighboring runs on {name} are correlated")


def check_calls(logs: Sequence[float]) -> float:
    """Raise Unfit if counts vary between calls or processes beyond chance; otherwise return the evidence that they do.

    `logs` holds the log-evidence of each stage (`statistics/dependence`), in the order of the stages.
    """
    evidence = total_evidence(logs)
    if evidence >= -math.log(_ALARM_PROBABILITY):
        raise Unfit(
            "rounds are not independent: counts vary between calls, or between processes, more than independent runs allow. The runs of a "
            "call share noise, or the mechanism keeps state or noise between rounds; draw fresh noise for each run"
        )
    return evidence
