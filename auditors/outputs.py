"""Outputs of any kind as numbers: a matrix of values, and a code for the structure (type, length, keys, exception) of each output.

Everything that a mechanism returns is part of its output: None, strings, ragged lists, exceptions and data types. The code of a row
is a hash of its structure, so that two structures are two atoms; the numbers inside it fill the row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.protocol import Parts

__all__ = ["Outputs", "WrongShape", "concatenate", "encode"]

FloatArray = NDArray[np.float64]

_EXACT = 2.0**53  # integers up to here are floats


class WrongShape(ValueError):
    """A mechanism returned something else than one output for each run."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Encoded outputs of a batch.

    Parameters
    ----------
    values : (size, k) float array
        The numbers in each output, padded with NaN.
    codes : (size,) float array
        The structure of each output, as a whole number below 2^53.
    names : dict
        What each code stands for, to be printed.
    """

    values: FloatArray
    codes: FloatArray
    names: dict[float, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def matrix(self, width: int | None = None, *, structure: bool = True) -> FloatArray:
        """The structure code (unless left out) followed by `width` numbers a row, cut or padded with NaN."""
        values = self.values
        if width is not None and width != values.shape[1]:
            fitted = np.full((len(values), width), np.nan)
            shared = min(width, values.shape[1])
            fitted[:, :shared] = values[:, :shared]
            values = fitted
        return np.column_stack([self.codes, values]) if structure else values

    def take(self, rows: NDArray[np.int64]) -> Outputs:
        """These rows, in this order."""
        return Outputs(self.values[rows], self.codes[rows], self.names)


def concatenate(parts: Sequence[Outputs]) -> Outputs:
    """Batches one after another."""
    width = max(part.values.shape[1] for part in parts)
    names: dict[float, str] = {}
    for part in parts:
        names.update(part.names)
    return Outputs(
        np.concatenate([part.matrix(width, structure=False) for part in parts]), np.concatenate([part.codes for part in parts]), names
    )


def encode(raw: Any, size: int) -> Outputs:
    """Encode what a mechanism returned for `size` runs.

    Raises
    ------
    WrongShape
        If `raw` does not hold exactly one output for each run.
    """
    if isinstance(raw, Parts):
        sizes = [len(part) if isinstance(part, list) or np.ndim(part) else 1 for part in raw]
        if sum(sizes) != size:
            raise WrongShape(f"mechanism returned {sum(sizes)} outputs for size = {size}")
        return concatenate([encode(part, count) for part, count in zip(raw, sizes, strict=True)])
    if isinstance(raw, list | tuple):
        if len(raw) != size:
            raise WrongShape(f"mechanism returned {len(raw)} outputs for size = {size}")
        if not raw or set(map(type, raw)) != {float}:
            return _encode_objects(raw)
        code = _hash("float")  # as in a list of mixed outputs, only faster
        return Outputs(np.asarray(raw)[:, None], np.full(size, code), {code: "float"})
    if not isinstance(raw, np.ndarray):
        raise WrongShape(f"mechanism must return an array or a list of size = {size} outputs, got {type(raw).__name__}")
    if raw.ndim == 0 or raw.shape[0] != size:
        raise WrongShape(f"mechanism returned shape {raw.shape} for size = {size}; the first axis must count the runs")
    if raw.dtype.kind not in "fiub":
        return _encode_objects(raw.tolist() if raw.ndim == 1 else list(raw))
    name = f"{raw.dtype.name}{list(raw.shape[1:])}"
    code = _hash(name)
    return Outputs(_as_float(raw.reshape(size, -1)), np.full(size, code), {code: name})


def _as_float(array: NDArray[Any]) -> FloatArray:
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        high = array.astype(np.float64)
        if np.abs(high).max(initial=0.0) >= _EXACT:  # what rounding to a float lost goes to further columns, NaN for nothing
            lost = (array - np.vectorize(int, otypes=[object])(high)).astype(np.float64)
            return np.column_stack([high, np.where(lost == 0, np.nan, lost)])
        return high
    return np.ascontiguousarray(array, dtype=np.float64)


def _encode_objects(items: Sequence[Any]) -> Outputs:
    rows: list[list[float]] = []
    codes, names = np.empty(len(items)), dict[float, str]()
    for i, item in enumerate(items):
        leaves: list[float] = []
        name = "".join(_walk(item, leaves))
        code = _hash(name)
        names.setdefault(code, name)
        codes[i] = code
        rows.append(leaves)
    values = np.full((len(items), max(map(len, rows), default=0)), np.nan)
    for i, leaves in enumerate(rows):
        values[i, : len(leaves)] = leaves
    return Outputs(values, codes, names)


def _walk(item: Any, leaves: list[float]) -> Iterator[str]:
    """The structure of `item`, piece by piece; its numbers are appended to `leaves`."""
    if item is None:
        yield "None"
    elif isinstance(item, bool | np.bool_):
        leaves.append(float(item))
        yield "bool"
    elif isinstance(item, int | np.integer):
        whole = int(item)
        near = float(whole) if abs(whole) < 10**300 else float("inf")
        exact = np.isfinite(near) and int(near) == whole
        leaves.append(near)
        if not exact:
            leaves.append(float(whole - int(near)) if np.isfinite(near) else _hash(str(whole)))
        yield type(item).__name__ if exact else "big int"
    elif isinstance(item, float | np.floating):
        leaves.append(float(item))
        yield type(item).__name__
    elif isinstance(item, str | bytes):
        leaves.extend((_hash(repr(item)), float(len(item))))
        yield type(item).__name__
    elif isinstance(item, BaseException):
        leaves.append(_hash(str(item)))
        yield f"raises {type(item).__name__}"
    elif isinstance(item, np.ndarray) and item.dtype.kind in "fiub":
        leaves.extend(_as_float(item.reshape(1, -1))[0].tolist())
        yield f"{item.dtype.name}{list(item.shape)}"
    elif isinstance(item, dict):
        yield "{"
        for key in sorted(item, key=repr):
            yield f"{key!r}: "
            yield from _walk(item[key], leaves)
            yield ", "
        yield "}"
    elif isinstance(item, list | tuple | set | frozenset | np.ndarray):
        ordered = sorted(item, key=repr) if isinstance(item, set | frozenset) else item
        yield f"{type(item).__name__}("
        for part in ordered:
            yield from _walk(part, leaves)
            yield ", "
        yield ")"
    else:
        leaves.append(_hash(repr(item)))
        yield type(item).__name__


def _hash(text: str) -> float:
    """A whole number below 2^53, the same in every process."""
    return float(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 11)


def row_keys(matrix: FloatArray) -> NDArray[np.uint64]:
    """One 64-bit key a row; equal rows (NaN equal to NaN, -0.0 to 0.0) have equal keys. Two rows that share a key are one atom."""
    keys = np.full(len(matrix), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in matrix.T:
        bits = np.where(np.isnan(column), np.nan, column + 0.0).view(np.uint64)
        keys = (keys ^ bits) * np.uint64(0xBF58476D1CE4E5B9)
        keys ^= keys >> np.uint64(29)
    return keys
