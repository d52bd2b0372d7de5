"""Do rounds repeat? Noise that is kept from call to call, or drawn alike in two workers, shows the same outputs again in the same order.

Each side of a chunk leaves a mark: a hash of its first rows. Rows that repeat by chance must have been likely: no law gives n independent
outcomes x a probability above prod_v (n_v / n)^(n_v) = exp(-n H), where n_v counts the value v in x and H is their empirical entropy, for
the law that fits best is the empirical one. A sequence leaves a mark only if n H >= 52: another chunk repeats it with probability at most
e^-52 = 2.6e-23, and any two of a million chunks with probability 1.3e-11.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from dpwitness.auditors.events.outputs import Outputs, row_keys

_LENGTHS = (24, 256)  # of the sequences: the first serves numbers, the second labels and bits
_ENTROPY = 52.0
_KEPT = 2**15


def mark(outputs: Outputs) -> int | None:
    """A hash of the first rows; None where too few of them differ to tell a repetition from chance."""
    for length in _LENGTHS:
        if len(outputs) < length:
            return None
        codes, values = outputs.codes[:length], outputs.values[:length]
        different = set(values[:, 0].tolist()) if values.shape[1] else ()  # NaN differs from itself there
        if len(different) < length or np.isnan(values[:, 0]).any():  # not all different: how likely can the sequence have been?
            keys = row_keys(np.column_stack([codes, values]))
            _, counts = np.unique(keys, return_counts=True)
            if float(np.sum(counts * np.log(length / counts))) < _ENTROPY:
                continue
        told = codes.tobytes() + np.ascontiguousarray(values).tobytes()
        return int.from_bytes(hashlib.blake2b(told, digest_size=16).digest())
    return None


class Repeats:
    """Marks seen so far, in constant memory: once there are too many, the odd ones go, then those that four does not divide."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._step = 1

    def kept(self) -> list[int]:
        """The marks that are remembered."""
        return sorted(self._seen)

    def add(self, marks: Iterable[int]) -> bool:
        """Whether one of them has been there before."""
        for value in marks:
            if value % self._step:
                continue
            if value in self._seen:
                return True
            self._seen.add(value)
            if len(self._seen) > _KEPT:
                self._step *= 2
                self._seen = {kept for kept in self._seen if kept % self._step == 0}
        return False
