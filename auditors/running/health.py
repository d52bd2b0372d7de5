"""Is the mechanism fit to be audited? Independent rounds, randomness from the generator that it is given, one shape.

Every check has a false-alarm probability below 1e-9 on a sound mechanism: an alarm is an ERROR, and no verdict is given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from dpwitness.auditors.events.outputs import Outputs, row_keys
from dpwitness.mechanisms.terms.protocol import MechanismFailed


class Unfit(MechanismFailed):
    """Rounds are not what a certificate takes them for: nothing that was counted so far certifies anything."""


_ALARM = 1e-10
_SERIAL = 2**17  # runs that are looked at for correlation
_DIFFERENT = 8  # rows beside the commonest one that make a batch random for certain


def same_outputs(a: Outputs, b: Outputs) -> bool:
    """Equality of two encoded batches, NaN equal to NaN."""
    return len(a) == len(b) and a.names == b.names and np.array_equal(row_keys(a.matrix()), row_keys(b.matrix()))


def digest(sides: Sequence[Outputs]) -> str:
    """A hash of encoded batches."""
    keys = [row_keys(side.matrix()).tobytes() for side in sides]
    return hashlib.blake2b(b"".join(keys), digest_size=12).hexdigest()


def check_training(chunks: Sequence[tuple[Outputs, Outputs]]) -> None:
    """Look for broken randomness in training outputs: a pair (D1, D0) of batches for each chunk.

    Raises
    ------
    Unfit
        Naming what is wrong.
    """
    for side, name in enumerate(("D1", "D0")):
        batches = [chunk[side] for chunk in chunks if len(chunk[side]) > 1]
        check_structure(batches, name)
        width = max((batch.values.shape[1] for batch in batches), default=1)  # the keys of equal rows are equal where the widths are
        keys = [row_keys(batch.matrix(width)) for batch in batches]
        for first, second in pairwise(keys):
            n = min(len(first), len(second))
            if not np.array_equal(first[:n], second[:n]):
                continue
            _, counts = np.unique(first[:n], return_counts=True)
            if n - counts.max() >= _DIFFERENT:
                raise Unfit(f"mechanism ignores rng: two calls on {name} with different streams returned identical outputs")
        constant = [np.all(key == key[0]) for key in keys]
        if len(keys) > 1 and all(constant) and len({int(key[0]) for key in keys}) > 1 and min(map(len, keys)) >= 32:
            raise Unfit(
                f"rounds are not independent: on {name} all runs of one call are equal but calls differ; draw fresh noise for each run"
            )
        _check_serial(batches, keys, name)


def check_structure(batches: Sequence[Outputs], name: str) -> None:
    """Arrays from one dataset must keep their shape and type from call to call."""
    shapes = {batch.names[batch.codes[0]] for batch in batches if len(batch.names) == 1}
    arrays = sorted(shape for shape in shapes if shape.endswith("]"))
    if len(arrays) > 1:
        raise Unfit(f"mechanism changed its output between calls on {name}: {' and then '.join(arrays)}")


def _check_serial(batches: Sequence[Outputs], keys: Sequence[NDArray[np.uint64]], name: str) -> None:
    """Correlation of neighbouring runs: in being the commonest output, or where few outputs are equal in the rank of the first number."""
    flat = np.concatenate(keys)[:_SERIAL] if keys else np.empty(0, dtype=np.uint64)
    if len(flat) < 200:
        return
    values, counts = np.unique(flat, return_counts=True)
    if len(values) < len(flat) / 4:
        signal = (flat == values[np.argmax(counts)]).astype(float)
    else:
        numbers = np.concatenate([batch.matrix(1, structure=False)[:, 0] for batch in batches])[: len(flat)]
        different, place, ties = np.unique(numbers, return_inverse=True, return_counts=True)
        if np.isnan(numbers).any() or len(different) < len(numbers) / 4:
            return
        signal = (np.cumsum(ties) - ties / 2)[place] / len(numbers)  # equal numbers have equal ranks, in whatever order they came
    signal -= signal.mean()
    spread = float(signal @ signal)
    if spread > 30 and abs(float(signal[:-1] @ signal[1:])) / spread * np.sqrt(len(signal)) > 7:
        raise Unfit(f"mechanism keeps state between rounds: neighbouring runs on {name} are correlated")


def check_drift(tables: NDArray[np.float64]) -> None:
    """Do all chunks follow one law? `tables` has shape (chunks, 2, cells): counts of each cell on D1 and on D0.

    Raises
    ------
    Unfit
        If a cell's share varies between chunks beyond binomial noise.
    """
    if len(tables) < 4:
        return
    for side, name in enumerate(("D1", "D0")):
        sizes = tables[:, side].sum(axis=1)
        for cell in tables[:, side].T:
            share = cell.sum() / max(sizes.sum(), 1)
            use = sizes * share * (1 - share) >= 5
            if np.count_nonzero(use) < 4:
                continue
            statistic = np.sum((cell[use] - sizes[use] * share) ** 2 / (sizes[use] * share * (1 - share)))
            if chdtrc(float(np.count_nonzero(use) - 1), statistic) < _ALARM:
                raise Unfit(f"mechanism keeps state between rounds: its outputs on {name} drift from call to call")
