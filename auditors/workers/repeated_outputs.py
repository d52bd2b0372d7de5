"""Detection of repeated rounds, as from noise that is cached between calls, or equal in two
workers.

Each side of a chunk has a mark: a hash of its first rows. Rows that repeat by chance must have a
high probability. No distribution gives n independent outcomes x a probability above prod_v (n_v /
n)^(n_v) = exp(-n H). Here n_v counts the value v in x and H is the empirical entropy, because the
empirical distribution fits best. A sequence has a mark only if n H >= 52. Then another chunk
repeats the sequence with probability at most e^-52 = 2.6e-23, and any two of a million chunks
coincide with probability 1.3e-11.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from dpwitness.auditors.events.outputs import Outputs, row_keys

# sequence lengths: the first is enough for numbers, the second for labels and bits
_LENGTHS = (24, 256)
_MIN_ENTROPY = 52.0
_MAX_MARKS = 2**15


def mark(outputs: Outputs) -> int | None:
    """Return a hash of the first rows; None if too few of them differ to distinguish repetition
    from chance.
    """
    for length in _LENGTHS:
        if len(outputs) < length:
            return None
        codes, values = outputs.codes[:length], outputs.values[:length]
        # in a set, NaN differs from itself
        different = set(values[:, 0].tolist()) if values.shape[1] else ()
        # some rows are equal, so the entropy decides
        if len(different) < length or np.isnan(values[:, 0]).any():
            keys = row_keys(np.column_stack([codes, values]))
            _, counts = np.unique(keys, return_counts=True)
            if float(np.sum(counts * np.log(length / counts))) < _MIN_ENTROPY:
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
            if len(self._seen) > _MAX_MARKS:
                self._step *= 2
                self._seen = {kept for kept in self._seen if kept % self._step == 0}
        return False
