"""Outputs of any kind as numbers: a matrix of values, and a code for the structure (type, length, keys, exception) of each output.

Everything that a mechanism returns is part of its output: None, strings, ragged lists, exceptions and data types. The code of a row
is a hash of its structure, so that two structures are two atoms; the numbers inside it fill the row (`leaves` finds them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.leaves import Leaves, code_of, columns_of, walk
from dpwitness.mechanisms.terms.protocol import FloatArray, Parts

ONE_RUN = "dpwitness.one_run makes a mechanism of a function of one run, also of an async one"

_NAMES = 4096  # structures and texts that are kept to be printed


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
    hashed : frozenset of str
        Types of outputs that were compared as wholes although they hold numbers.
    """

    values: FloatArray
    codes: FloatArray
    names: dict[float, str] = field(default_factory=dict)
    hashed: frozenset[str] = frozenset()

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
        return Outputs(self.values[rows], self.codes[rows], self.names, self.hashed)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a mechanism returned, and columns of scores (`scores`) that stand before its own numbers."""

    raw: Any
    columns: FloatArray


def concatenate(parts: Sequence[Outputs]) -> Outputs:
    """Batches one after another."""
    width = max(part.values.shape[1] for part in parts)
    names: dict[float, str] = {}
    for part in parts:
        names.update(part.names)
    return Outputs(
        np.concatenate([part.matrix(width, structure=False) for part in parts]),
        np.concatenate([part.codes for part in parts]),
        names,
        frozenset().union(*(part.hashed for part in parts)),
    )


def encode(raw: Any, size: int) -> Outputs:
    """Encode what a mechanism returned for `size` runs.

    Raises
    ------
    WrongShape
        If `raw` does not hold exactly one output for each run, or one that is nested too deeply.
    """
    if isinstance(raw, Seen):
        found = encode(raw.raw, size)
        return Outputs(np.column_stack([raw.columns, found.values]), found.codes, found.names, found.hashed)
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
        code = code_of("float")  # as in a list of mixed outputs, only faster
        return Outputs(np.asarray(raw)[:, None], np.full(size, code), {code: "float"})
    if not isinstance(raw, np.ndarray):
        raise WrongShape(f"mechanism must return an array or a list of size = {size} outputs, got {type(raw).__name__}; {ONE_RUN}")
    if raw.ndim == 0 or raw.shape[0] != size:
        raise WrongShape(f"mechanism returned shape {raw.shape} for size = {size}; the first axis must count the runs")
    plain = columns_of(raw)
    if plain is None:
        return _encode_objects(raw.tolist() if raw.ndim == 1 and raw.dtype.kind != "V" else list(raw))
    kind, values = plain
    name = f"{kind}{list(raw.shape[1:])}"
    code = code_of(name)
    return Outputs(values, np.full(size, code), {code: name})


def _encode_objects(items: Sequence[Any]) -> Outputs:
    rows: list[list[float]] = []
    codes, names, hashed = np.empty(len(items)), dict[float, str](), set[str]()
    for i, item in enumerate(items):
        leaves = Leaves()
        try:
            name = "".join(walk(item, leaves))
        except RecursionError:
            raise WrongShape("mechanism returned an output that is nested too deeply to be read, or contains itself") from None
        code = code_of(name)
        names.setdefault(code, name)
        codes[i] = code
        rows.append(leaves.numbers)
        hashed |= leaves.hashed
        if len(names) < _NAMES:
            names |= leaves.texts
    values = np.full((len(items), max(map(len, rows), default=0)), np.nan)
    for i, numbers in enumerate(rows):
        values[i, : len(numbers)] = numbers
    return Outputs(values, codes, names, frozenset(hashed))


def row_keys(matrix: FloatArray) -> NDArray[np.uint64]:
    """One 64-bit key a row; equal rows (NaN equal to NaN, -0.0 to 0.0) have equal keys. Two rows that share a key are one atom."""
    keys = np.full(len(matrix), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in matrix.T:
        bits = np.where(np.isnan(column), np.nan, column + 0.0).view(np.uint64)
        keys = (keys ^ bits) * np.uint64(0xBF58476D1CE4E5B9)
        keys ^= keys >> np.uint64(29)
    return keys
