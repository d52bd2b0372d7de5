"""The privacy loss as a function of outputs, with a bound on its rounding error, and the search
among outputs that are atoms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.capabilities import has_capability
from dpwitness.core.protocols.mechanism import FloatArray, WhiteBox
from dpwitness.core.values.validation import InvalidArgument

_ROUNDING = 1e-15  # relative to a log-density, which has few terms of its magnitude
# below, a density that was computed before its logarithm is subnormal and has lost digits
_LOG_SUBNORMAL = -707.0
_LOG_SMALLEST = -745.2  # logarithm of the smallest positive number


def sampled(mechanism: Any, dataset: Any, size: int, rng: Generator) -> FloatArray:
    """Return `size` outputs as floats of shape (size, k)."""
    try:
        rows = np.asarray(mechanism.sample(dataset, size, rng), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"worst_output: mechanism must give rows of numbers, got {error}"
        ) from None
    return rows[:, None] if rows.ndim == 1 else rows.reshape(len(rows), -1)


class Loss:
    """Privacy loss log p - log q of a pair, with P the law on D1, for many outputs at once."""

    def __init__(self, mechanism: Any, pair: Pair) -> None:
        if not has_capability(mechanism, WhiteBox):
            raise InvalidArgument(
                f"worst_output: mechanism must offer log_density, got {type(mechanism).__name__}"
            )
        self._mechanism, self._pair = mechanism, pair

    def logs(self, outputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log q on D0 and log p on D1. Raise InvalidArgument that names the first output
        with a NaN.
        """
        found = []
        for name, dataset in (("D0", self._pair.d0), ("D1", self._pair.d1)):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                logs = np.asarray(
                    self._mechanism.log_density(outputs, dataset), dtype=np.float64
                ).reshape(len(outputs))
            wrong = np.isnan(logs)
            if wrong.any():
                row = outputs[int(np.flatnonzero(wrong)[0])]
                if np.abs(row).max() < 1e100:
                    raise InvalidArgument(
                        f"worst_output: log_density must be a number, got nan on {name} at "
                        f"{row.tolist()!r}"
                    )
                logs = np.where(wrong, -np.inf, logs)
            found.append(logs)
        return found[0], found[1]

    def signed(self, outputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log p - log q, and a bound on its rounding error. The loss is 0 where both
        densities are zero or both are unbounded.
        """
        first, second = self.logs(outputs)
        with np.errstate(invalid="ignore"):
            difference = second - first
        # a zero next to a tiny density has underflowed
        difference = np.where(
            np.isinf(difference) & (np.maximum(first, second) < _LOG_SUBNORMAL), 0.0, difference
        )
        faint = ((first > _LOG_SMALLEST) & (first < _LOG_SUBNORMAL)) | (
            (second > _LOG_SMALLEST) & (second < _LOG_SUBNORMAL)
        )
        rounding = np.where(faint, 1.0, 0.0) + _ROUNDING * (
            np.abs(np.where(np.isfinite(first), first, 0))
            + np.abs(np.where(np.isfinite(second), second, 0))
        )
        return np.where(np.isnan(difference), 0.0, difference), rounding

    def __call__(self, outputs: FloatArray) -> FloatArray:
        """Return |log p - log q| minus the bound on its rounding error, at least 0."""
        difference, rounding = self.signed(outputs)
        return np.maximum(np.abs(difference) - rounding, 0.0)

    def share_of_atoms(self, rows: FloatArray, rng: Generator) -> float:
        """Return the share of outputs that a small move makes impossible, as in discrete columns; 0
        if below a tenth.
        """
        some = rows[np.unique(np.linspace(0, len(rows) - 1, 32).astype(int))]
        moved = some + 1e-7 * (1 + np.abs(some)) * rng.uniform(0.5, 1.0, some.shape)
        first, second = self.logs(moved)
        before = self.logs(some)
        lost = (np.maximum(first, second) == -np.inf) & (np.maximum(*before) > -np.inf)
        share = float(lost.mean())
        return share if share > 0.1 else 0.0


def search_atoms(loss: Loss, rows: FloatArray, heads: int = 4) -> tuple[FloatArray, float]:
    """Return the output with the largest loss found by coordinate search, and its loss.

    The search starts from the best outputs. A column may take any value seen in this column, or a
    power of ten, while the loss grows.
    """
    k = rows.shape[1]
    sizes = 10.0 ** np.arange(-6, 7)
    seen = [np.concatenate([np.unique(rows[:, j])[:64], sizes, -sizes]) for j in range(k)]
    totals = rows.sum(axis=1)
    # frequencies: add the corners of their simplex
    if k > 1 and np.all(rows >= 0) and np.ptp(totals) <= 1e-9 * abs(totals[0]):
        rows = np.vstack([rows, totals[0] * np.eye(k)])
    values = loss(rows)
    order = np.argsort(-values)[:heads]
    best, top = rows[int(order[0])], float(values[int(order[0])])
    for i in order:
        point, value = rows[int(i)].copy(), float(values[int(i)])
        improved = True
        while improved and np.isfinite(value):
            improved = False
            for j in range(k):
                trials = np.repeat(point[None, :], len(seen[j]), axis=0)
                trials[:, j] = seen[j]
                found = loss(trials)
                at = int(np.argmax(found))
                if found[at] > value + 1e-12:
                    point, value, improved = trials[at], float(found[at]), True
        if value > top:
            best, top = point, value
    return best, top
