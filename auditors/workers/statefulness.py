"""Fitness checks of a mechanism: independent rounds, randomness only from the given generator, and
one output shape.

Every check has a false-alarm probability below 1e-9 for a correct mechanism. An alarm makes the
verdict ERROR.

Rounds repeat if noise is cached between calls, or equal in two workers. Each side of a chunk has
a mark: a hash of its first rows. Rows that repeat by chance must have a high probability. No
distribution gives n independent outcomes x a probability above prod_v (n_v / n)^(n_v) = exp(-n
H). Here n_v counts the value v in x and H is the empirical entropy, because the empirical
distribution fits best. A sequence has a mark only if n H >= 52. Then another chunk repeats the
sequence with probability at most e^-52 = 2.6e-23, and any two of a million chunks coincide with
probability 1.3e-11.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.outputs import Outputs, row_keys
from dpwitness.auditors.statistics.anytime import log_dependence, mean_evidence, total_evidence
from dpwitness.core.protocols.mechanism import MechanismFailed


class Unfit(MechanismFailed):
    """Raised when rounds do not meet the assumptions of a certificate; counts collected so far
    certify nothing.
    """


_ALARM_PROBABILITY = 1e-10


def same_outputs(a: Outputs, b: Outputs) -> bool:
    """Return whether two encoded batches are equal, with NaN equal to NaN."""
    return (
        len(a) == len(b)
        and a.names == b.names
        and np.array_equal(row_keys(a.matrix()), row_keys(b.matrix()))
    )


def digest(sides: Sequence[Outputs]) -> str:
    """Return a hash of encoded batches."""
    keys = [row_keys(side.matrix()).tobytes() for side in sides]
    return hashlib.blake2b(b"".join(keys), digest_size=12).hexdigest()


def check_training(chunks: Sequence[tuple[Outputs, Outputs]]) -> None:
    """Raise Unfit if training outputs show broken randomness; `chunks` holds a pair (D1, D0) of
    batches for each chunk.
    """
    for side, name in enumerate(("D1", "D0")):
        batches = [chunk[side] for chunk in chunks if len(chunk[side]) > 1]
        check_structure(batches, name)
        # equal rows have equal keys only at equal width
        width = max((batch.values.shape[1] for batch in batches), default=1)
        keys = [row_keys(batch.matrix(width)) for batch in batches]
        for first, second in pairwise(keys):
            n = min(len(first), len(second))
            if not np.array_equal(first[:n], second[:n]):
                continue
            _, counts = np.unique(first[:n], return_counts=True)
            if n - counts.max() >= 8:  # otherwise, nearly all rows are equal
                raise Unfit(
                    f"mechanism ignores rng: two calls on {name} with different streams "
                    "returned identical outputs"
                )
        constant = [np.all(key == key[0]) for key in keys]
        if (
            len(keys) > 1
            and all(constant)
            and len({int(key[0]) for key in keys}) > 1
            and min(map(len, keys)) >= 32
        ):
            raise Unfit(
                f"rounds are not independent: on {name} all runs of one call are equal but "
                "calls differ; draw fresh noise for each run"
            )
        _check_serial(batches, keys, name)


def check_structure(batches: Sequence[Outputs], name: str) -> None:
    """Raise Unfit if arrays from one dataset change their shape or type from call to call."""
    shapes = {batch.names[batch.codes[0]] for batch in batches if len(batch.names) == 1}
    arrays = sorted(shape for shape in shapes if shape.endswith("]"))
    if len(arrays) > 1:
        raise Unfit(
            f"mechanism changed its output between calls on {name}: {' and then '.join(arrays)}"
        )


def _check_serial(
    batches: Sequence[Outputs], keys: Sequence[NDArray[np.uint64]], name: str
) -> None:
    """Raise Unfit if consecutive runs are correlated, or too many different outputs occur equally
    often, but not once.

    The tested signal is whether an output is the most frequent one; if few outputs are equal, it is
    the rank of the first number.
    """
    flat = np.concatenate(keys)[: 2**17] if keys else np.empty(0, dtype=np.uint64)
    values, counts = np.unique(flat, return_counts=True)
    # If outputs are independent and their number is Poisson, an output that occurs has a given
    # number of occurrences above 1 with probability below 0.33, whatever its probability: the
    # maximum of P(N = c) / P(N > 0) over c > 1 and the means of a Poisson number N. A fixed number
    # of outputs multiplies probabilities by sqrt(2 pi n) at most.
    times, outputs = np.unique(counts, return_counts=True)
    most = int(outputs[times > 1].max(initial=0))
    chance = bdtrc(most - 1, len(counts), 0.33) * np.sqrt(2 * np.pi * counts.sum()) * len(times)
    if most and chance < _ALARM_PROBABILITY:
        often = int(times[times > 1][np.argmax(outputs[times > 1])])
        raise Unfit(
            f"rounds are not independent: on {name} {most} of {len(counts)} different "
            f"outputs occur {often} times each"
        )
    if len(flat) < 200:
        return
    if len(values) < len(flat) / 4:
        signal = (flat == values[np.argmax(counts)]).astype(float)
    else:
        numbers = np.concatenate([batch.matrix(1, structure=False)[:, 0] for batch in batches])[
            : len(flat)
        ]
        different, value_index, ties = np.unique(numbers, return_inverse=True, return_counts=True)
        if np.isnan(numbers).any() or len(different) < len(numbers) / 4:
            return
        # equal numbers have equal ranks, independent of their order
        signal = (np.cumsum(ties) - ties / 2)[value_index] / len(numbers)
    signal -= signal.mean()
    spread = float(signal @ signal)
    if spread > 30 and abs(float(signal[:-1] @ signal[1:])) / spread * np.sqrt(len(signal)) > 7:
        raise Unfit(
            f"mechanism keeps state between rounds: neighboring runs on {name} are correlated"
        )


def check_rows(sides: Sequence[Outputs], event: Event) -> None:
    """Raise Unfit if the guesses of an event on (D1, D0) vary between blocks of consecutive rows
    beyond chance.

    The event may be learned from a random half of the rows, because their order is then still
    exchangeable. That costs a factor of n + 1 for each dataset, the inverse of the least
    probability of the most probable number of guesses.
    """
    guesses = [event.guess(side.take(np.arange(min(len(side), 2**14)))) for side in sides]
    cells = [
        np.column_stack([guess == value for value in np.unique(np.concatenate(guesses))]).astype(
            float
        )
        for guess in guesses
    ]
    logs, size, fewest = [], 2, min(map(len, cells))
    while size <= fewest // 4:
        blocks = [
            each[: len(each) // size * size].reshape(-1, size, each.shape[1]).sum(axis=1)
            for each in cells
        ]
        logs.append(log_dependence(*blocks))
        size *= 2
    if logs and mean_evidence(logs) - sum(math.log(len(each) + 1) for each in cells) >= -math.log(
        _ALARM_PROBABILITY
    ):
        raise Unfit(
            "rows are not independent: outputs of nearby rows are more alike than those of others"
        )


def check_calls(logs: Sequence[float]) -> float:
    """Raise Unfit if counts vary between calls or processes beyond chance; otherwise return the
    evidence that they do.

    `logs` holds the log-evidence of each stage (`statistics/anytime`), in the order of the
    stages.
    """
    evidence = total_evidence(logs)
    if evidence >= -math.log(_ALARM_PROBABILITY):
        raise Unfit(
            "rounds are not independent: counts vary between calls, or between processes, "
            "more than independent runs allow. The runs of a "
            "call share noise, or the mechanism keeps state or noise between rounds; draw "
            "fresh noise for each run"
        )
    return evidence


def mark(outputs: Outputs) -> int | None:
    """Return a hash of the first rows; None if too few of them differ to distinguish repetition
    from chance.
    """
    # the first length is enough for numbers, the second for labels and bits
    for length in (24, 256):
        if len(outputs) < length:
            return None
        codes, values = outputs.codes[:length], outputs.values[:length]
        # in a set, NaN differs from itself
        different = set(values[:, 0].tolist()) if values.shape[1] else ()
        # some rows are equal, so the entropy decides
        if len(different) < length or np.isnan(values[:, 0]).any():
            keys = row_keys(np.column_stack([codes, values]))
            _, counts = np.unique(keys, return_counts=True)
            if float(np.sum(counts * np.log(length / counts))) < 52.0:
                continue
        content = codes.tobytes() + np.ascontiguousarray(values).tobytes()
        return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest())
    return None


class RepeatDetector:
    """Set of the marks seen so far, in constant memory: a full set keeps only the multiples of the
    next power of 2.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._step = 1

    def stored_marks(self) -> list[int]:
        """Return the stored marks, sorted."""
        return sorted(self._seen)

    def add(self, marks: Iterable[int]) -> bool:
        """Add the marks, and return whether one of them was already stored."""
        for value in marks:
            if value % self._step:
                continue
            if value in self._seen:
                return True
            self._seen.add(value)
            if len(self._seen) > 2**15:
                self._step *= 2
                self._seen = {kept for kept in self._seen if kept % self._step == 0}
        return False
