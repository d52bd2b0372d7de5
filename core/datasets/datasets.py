"""Dataset classes that witnesses are written in: labeled vectors with multiplicities, and sequences
of linear costs.

The multiplicity of a record is the number of its copies. The ledger's pairs have up to a million
copies of a record, which are stored once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpwitness.core.values.validation import InvalidArgument, short_repr

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, init=False)
class LabelledVectors:
    """Multiset of records (x_i, y_i), each with a multiplicity. The order of the records is ignored
    in comparisons.

    Parameters
    ----------
    x : (m, d) array
        One vector per row. Finite. Mechanisms may require vectors in a ball.
    y : (m,) array
        Labels or responses. Finite.
    multiplicity : (m,) array of int, optional
        Number of copies of each row, at least 1. Default: 1 for each row.

    Raises
    ------
    InvalidArgument
        If an array is empty, not finite or of the wrong shape, or a multiplicity is not a positive
        whole number.

    Examples
    --------
    >>> data = LabelledVectors([[0.1], [1.0]], [1, -1], multiplicity=[1_000_000, 1])
    >>> data.n, data.dimension, len(data)
    (1000001, 1, 2)
    >>> data == LabelledVectors([[1.0], [0.1], [0.1]], [-1, 1, 1], multiplicity=[1, 1, 999_999])
    True
    """

    x: FloatArray
    y: FloatArray
    multiplicity: IntArray

    def __init__(self, x: ArrayLike, y: ArrayLike, multiplicity: ArrayLike | None = None) -> None:
        rows = _finite_array("LabelledVectors", "x", x, 2)
        copies = np.ones(len(rows)) if multiplicity is None else multiplicity
        copies = _finite_array("LabelledVectors", "multiplicity", copies, 1)
        invalid = np.flatnonzero((copies < 1) | (copies != np.floor(copies)) | (copies > 2**53))
        if len(invalid):
            raise InvalidArgument(
                "LabelledVectors: multiplicity must be whole numbers, at least 1, got "
                f"{float(copies[invalid[0]])!r} at index [{invalid[0]}]"
            )
        labels = _finite_array("LabelledVectors", "y", y, 1)
        for name, entries in (("y", labels), ("multiplicity", copies)):
            if len(entries) != len(rows):
                raise InvalidArgument(
                    f"LabelledVectors: {name} must have one entry for each of the {len(rows)} "
                    f"rows of x, got {len(entries)}"
                )
        object.__setattr__(self, "x", rows)
        object.__setattr__(self, "y", labels)
        object.__setattr__(self, "multiplicity", copies.astype(np.int64))

    def __len__(self) -> int:
        """Return the number of stored rows, without multiplicities."""
        return len(self.x)

    @property
    def n(self) -> int:
        """Number of records, counted with multiplicity: n in the papers."""
        return int(self.multiplicity.sum())

    @property
    def dimension(self) -> int:
        """Length of each vector: d (or p) in the papers."""
        return int(self.x.shape[1])

    @property
    def weights(self) -> FloatArray:
        """Multiplicities as floats, for the numerical kernels."""
        return self.multiplicity.astype(np.float64)

    def records(self) -> Sequence[tuple[FloatArray, float, int]]:
        """Return the stored rows as tuples (x, y, multiplicity)."""
        return [
            (row, float(label), int(count))
            for row, label, count in zip(self.x, self.y, self.multiplicity, strict=True)
        ]

    def counts(self) -> Counter[tuple[bytes, float]]:
        """Return the number of copies of each distinct (x, y), which equality and the neighbor
        check compare. 0.0 equals -0.0.
        """
        total: Counter[tuple[bytes, float]] = Counter()
        for row, label, count in zip(self.x + 0.0, self.y + 0.0, self.multiplicity, strict=True):
            total[row.tobytes(), float(label)] += int(count)
        return total

    def merged(self) -> LabelledVectors:
        """Return the same multiset with equal rows merged into one stored row."""
        table = np.column_stack([self.x, self.y]) + 0.0
        rows, place = np.unique(table, axis=0, return_inverse=True)
        total = np.zeros(len(rows), dtype=np.int64)
        np.add.at(total, place.ravel(), self.multiplicity)
        return LabelledVectors(rows[:, :-1], rows[:, -1], total)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelledVectors):
            return NotImplemented
        return self.dimension == other.dimension and self.counts() == other.counts()

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False, init=False)
class LinearCosts:
    """Sequence of linear costs <x_t, theta>, one per row, in order of arrival. Neighbors differ in
    one row ("substitution").

    Parameters
    ----------
    x : (T, p) array
        Row t is the cost of round t. Finite.

    Raises
    ------
    InvalidArgument
        If the array is empty, not finite or not two-dimensional.

    Examples
    --------
    >>> LinearCosts([[1.0, -1.0], [0.0, 0.0]]).rounds
    2
    """

    x: FloatArray

    def __init__(self, x: ArrayLike) -> None:
        object.__setattr__(self, "x", _finite_array("LinearCosts", "x", x, 2))

    def __len__(self) -> int:
        return len(self.x)

    @property
    def rounds(self) -> int:
        """Number of costs: T in the paper."""
        return len(self.x)

    @property
    def dimension(self) -> int:
        """Length of each cost vector: p in the paper."""
        return int(self.x.shape[1])

    def records(self) -> Sequence[Any]:
        """Return the list of cost vectors in order."""
        return list(self.x + 0.0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinearCosts):
            return NotImplemented
        return self.x.shape == other.x.shape and bool(np.all(self.x == other.x))

    __hash__ = None  # type: ignore[assignment]


def _finite_array(owner: str, name: str, value: ArrayLike, axes: int) -> FloatArray:
    """Return a C-contiguous float64 copy with `axes` axes. Raise InvalidArgument that names the
    first entry that is not finite.
    """
    try:
        array = np.array(value, dtype=np.float64, order="C")
    except (
        Exception
    ):  # a ragged list, a text, an integer beyond the floats, an object that raises on access
        raise InvalidArgument(
            f"{owner}: {name} must be numeric with rows of one length, got {short_repr(value)}"
        ) from None
    if array.ndim != axes:
        raise InvalidArgument(f"{owner}: {name} must have {axes} axes, got shape {array.shape}")
    if axes == 2 and not array.size:
        raise InvalidArgument(
            f"{owner}: {name} must hold at least one record and one column, got shape {array.shape}"
        )
    invalid = np.argwhere(~np.isfinite(array))
    if len(invalid):
        place = tuple(int(i) for i in invalid[0])
        raise InvalidArgument(
            f"{owner}: {name} must be finite, got {float(array[place])!r} at index {list(place)}"
        )
    return array
