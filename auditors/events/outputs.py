"""Encoding of outputs of any kind as numbers: a matrix of values, and a code for the structure
(type, length, keys, exception).

Everything that a mechanism returns is part of its output: None, strings, ragged lists, exceptions
and data types. The code of a row is a hash of its structure, so different structures are different
atoms. The numbers inside an output fill its row (see `leaves`).

**Scores** are numbers that a user's function, or the mechanism's `features`, computes from an
output; they precede the output's own numbers. A score takes the result of ``sample`` for n runs and
returns n numbers: an array (n,), or several columns, (n, k) or a dict of arrays (n,). A score must
be a function of each output alone, because an event is a set of outputs. A score that depends on
the other outputs of a batch, all from one dataset, could separate the datasets by itself. This is
tested before the audit, and in every batch on the first output. If a call raises or returns the
wrong length, outputs are scored one at a time, and an output that cannot be scored is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.leaves import (
    EXACT_LIMIT,
    Extras,
    Leaves,
    TextColumns,
    columns_of,
    floats,
    text_hash,
    walk,
)
from dpwitness.auditors.statistics.columns import varying_columns
from dpwitness.auditors.workers.descriptions import describe_target
from dpwitness.core.protocols import FloatArray, MechanismFailed, Parts, name_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, require_callable, short_repr

ONE_RUN_ADVICE = (
    "dpwitness.one_run makes a mechanism of a function of one run, also of an async one"
)

UNAUDITED_PREFIX = "not audited: "  # prefix of notes that rule out the verdict NOT REFUTED

_SCALAR_NAMES: dict[type, str] = {
    kind: kind.__name__
    for kind in (float, np.float64, np.float32, np.float16, int, np.int64, np.int32, bool)
} | {np.bool_: "numpy bool"}
_BLOCK_ROWS = 4096  # rows that are hashed at a time: they fit in the processor's cache
# minimum number of rows per distinct row from which rows are described by counts
MIN_ROWS_PER_ATOM = 4
_MAX_COMPARED = 4096  # maximum number of outputs of a side whose texts are compared


class WrongShape(ValueError):
    """Raised when a mechanism does not return exactly one output for each run."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Encoded outputs of a batch."""

    values: FloatArray  # the numbers in each output, padded with NaN
    codes: FloatArray  # the structure code of each output: an integer below 2^53
    # the structure or text of each code, for printing
    names: dict[float, str] = field(default_factory=dict)
    # structure code -> columns that hold hashes of texts
    texts: dict[float, tuple[TextColumns, ...]] = field(default_factory=dict)
    # types of the objects in the outputs that cannot be decomposed
    opaque: frozenset[str] = frozenset()
    # index of the first of the last columns, which hold only signs of zeros; 0 if there are none
    signs: int = 0

    def __len__(self) -> int:
        return len(self.values)

    def structures(self) -> list[str]:
        """Return the names of all structures that occur; names of exceptions without their
        arguments.
        """
        return [self.names[code].partition(" with (")[0] for code in np.unique(self.codes).tolist()]

    def matrix(self, width: int | None = None, *, structure: bool = True) -> FloatArray:
        """Return the structure code (unless `structure` is false) and `width` numbers per row,
        truncated or padded with NaN.
        """
        values = self.values
        if width is not None and width != values.shape[1]:
            fitted = np.full((len(values), width), np.nan)
            shared = min(width, values.shape[1])
            fitted[:, :shared] = values[:, :shared]
            values = fitted
        return np.column_stack([self.codes, values]) if structure else values

    def take(self, rows: NDArray[np.int64]) -> Outputs:
        """Return the outputs of these rows, in this order."""
        return replace(self, values=self.values[rows], codes=self.codes[rows])

    def copied(self) -> Outputs:
        """Return a copy whose `values` do not share memory with these outputs."""
        return replace(self, values=self.values.copy())

    def unsigned(self) -> Outputs:
        """Return the outputs without the columns of signs of zeros."""
        return replace(self, values=self.values[:, : self.signs], signs=0) if self.signs else self

    def after(self, columns: FloatArray) -> Outputs:
        """Return the outputs with `columns` inserted before the numbers."""
        width = columns.shape[1]
        texts = {
            code: tuple(
                replace(each, first=each.first + width, rest=each.rest + width) for each in entries
            )
            for code, entries in self.texts.items()
        }
        signs = self.signs + width if self.signs else 0
        return replace(
            self, values=np.column_stack([columns, self.values]), texts=texts, signs=signs
        )


@dataclass(frozen=True, slots=True, eq=False)
class ScoredOutputs:
    """Raw outputs of a mechanism, and columns of scores (see `scores`) that are placed before the
    outputs' numbers.
    """

    raw: Any
    columns: FloatArray


def concatenate(parts: Sequence[Outputs]) -> Outputs:
    """Return the outputs of several batches as one batch."""
    width = max(part.values.shape[1] for part in parts)
    signs = max(part.signs for part in parts)
    return Outputs(
        np.concatenate([part.matrix(width, structure=False) for part in parts]),
        np.concatenate([part.codes for part in parts]),
        {code: name for part in parts for code, name in part.names.items()},
        {code: held for part in parts for code, held in part.texts.items()},
        frozenset().union(*(part.opaque for part in parts)),
        signs if all(part.signs == signs or part.values.shape[1] <= signs for part in parts) else 0,
    )


def encode(raw: Any, size: int) -> Outputs:
    """Encode the return value of a mechanism for `size` runs.

    Raises
    ------
    WrongShape
        If `raw` does not hold exactly one output per run, or an output is nested too deeply.
    """
    if isinstance(raw, ScoredOutputs):
        return encode(raw.raw, size).after(raw.columns)
    if isinstance(raw, Parts):
        sizes = [len(part) if isinstance(part, list) or np.ndim(part) else 1 for part in raw]
        if sum(sizes) != size:
            raise WrongShape(f"mechanism returned {sum(sizes)} outputs for size = {size}")
        return concatenate([encode(part, count) for part, count in zip(raw, sizes, strict=True)])
    if isinstance(raw, list | tuple):
        if len(raw) != size:
            raise WrongShape(f"mechanism returned {len(raw)} outputs for size = {size}")
        return _encode_scalars(raw) or _encode_objects(raw)
    if isinstance(raw, np.ndarray):
        return _encode_array(raw, size)
    raise WrongShape(
        f"mechanism must return an array or a list of size = {size} outputs, got "
        f"{type(raw).__name__}; {ONE_RUN_ADVICE}"
    )


def _encode_array(raw: NDArray[Any], size: int) -> Outputs:
    """Encode an array, with one output in each row."""
    if raw.ndim == 0 or raw.shape[0] != size:
        raise WrongShape(
            f"mechanism returned shape {raw.shape} for size = {size}; the first axis must "
            "count the runs"
        )
    found = columns_of(raw)
    if found is None:
        is_plain = raw.ndim == 1 and raw.dtype.kind != "V"
        return _encode_objects(raw.tolist() if is_plain else list(raw))
    kind, main, extras = found
    signs_only = (raw.dtype.kind, len(extras)) in (("f", 1), ("c", 1))
    signed = signs_only and not isinstance(raw, np.ma.MaskedArray)
    return _uniform_outputs(f"{kind}{list(raw.shape[1:])}", main, extras, signed)


def _uniform_outputs(name: str, main: FloatArray, extras: Extras, signed: bool) -> Outputs:
    """Return outputs of one structure. Empty extra columns at the end are dropped; extra columns
    are signs of zeros if `signed`.
    """
    code, size = text_hash(name), len(main)
    used_extras = 1 + max(
        (place for place, (_, block) in enumerate(extras) if block is not None), default=-1
    )
    blocks = [
        np.full((size, width), np.nan) if block is None else block
        for width, block in extras[:used_extras]
    ]
    values = np.column_stack([main, *blocks]) if blocks else main
    signs = main.shape[1] if blocks and signed else 0
    return Outputs(values, np.full(size, code), {code: name}, signs=signs)


def _encode_scalars(items: Sequence[Any]) -> Outputs | None:
    """Encode numbers of one type, with the same columns as `_encode_objects` but faster; None for
    any other sequence.
    """
    kinds = set(map(type, items))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or kind not in _SCALAR_NAMES:
        return None
    column = np.asarray(items)[:, None]
    if issubclass(kind, float | np.floating):
        return _uniform_outputs(_SCALAR_NAMES[kind], *floats(column), True)
    if column.dtype.kind in "biu" and np.abs(column.astype(np.float64)).max() < EXACT_LIMIT:
        return _uniform_outputs(_SCALAR_NAMES[kind], column.astype(np.float64), [], False)
    return None


def _encode_objects(items: Sequence[Any]) -> Outputs:
    """Encode a sequence of arbitrary Python objects, one output each."""
    rows: list[list[float]] = []
    codes, names, opaque = np.empty(len(items)), dict[float, str](), set[str]()
    texts: dict[float, tuple[TextColumns, ...]] = {}
    for i, item in enumerate(items):
        leaves = Leaves()
        try:
            name = "".join(walk(item, leaves))
        except RecursionError:
            raise WrongShape(
                "mechanism returned an output that is nested too deeply to be read, or "
                "contains itself"
            ) from None
        code = text_hash(name)
        names.setdefault(code, name)
        if leaves.texts and code not in texts:
            texts[code] = leaves.placed()
        codes[i] = code
        rows.append(leaves.row())
        opaque |= leaves.opaque
        if len(names) < 4096:  # for printing
            names |= leaves.printable
    values = np.full((len(items), max(map(len, rows), default=0)), np.nan)
    for i, numbers in enumerate(rows):
        values[i, : len(numbers)] = numbers
    return Outputs(values, codes, names, texts, frozenset(opaque))


def signs_may_differ(outputs: Outputs, ones: int) -> bool:
    """Return whether the signs of zeros may distinguish the first `ones` outputs from the others.

    Only then do the signs get separate columns.
    """
    width = outputs.signs
    values, is_minus = outputs.values[:, :width], outputs.values[:, width:] == 1
    is_zero = values[:, width - is_minus.shape[1] :] == 0
    sides = [
        (is_zero[part].sum(axis=0), is_minus[part].sum(axis=0))
        for part in (slice(None, ones), slice(ones, None))
    ]
    (zeros1, minus1), (zeros0, minus0) = sides
    share = (minus1 + minus0) / np.maximum(zeros1 + zeros0, 1)
    spread = np.sqrt(share * (1 - share) * (1 / np.maximum(zeros1, 1) + 1 / np.maximum(zeros0, 1)))
    difference = np.abs(minus1 / np.maximum(zeros1, 1) - minus0 / np.maximum(zeros0, 1))
    return bool(
        (difference > math.sqrt(9 + 2 * math.log(is_minus.shape[1])) * spread).any()
    ) or _signs_correlate(values, is_zero, is_minus, ones)


def _signs_correlate(
    values: FloatArray, zero: NDArray[np.bool_], minus: NDArray[np.bool_], ones: int
) -> bool:
    """Return whether correlations of signs of zeros, with each other or with large numbers, differ
    between the datasets.
    """
    if minus.shape[1] > 64 or not minus.any():
        return False
    signs = np.where(zero, np.where(minus, 1.0, -1.0), 0.0)
    above_median = np.nan_to_num(
        np.sign(values - np.nanmedian(np.where(np.isfinite(values), values, 0.0), axis=0))
    )
    others = np.column_stack([signs, above_median])
    sides = slice(None, ones), slice(ones, None)
    counts = [np.maximum(np.abs(signs[part]).T @ np.abs(others[part]), 1.0) for part in sides]
    means = [
        signs[part].T @ others[part] / count for part, count in zip(sides, counts, strict=True)
    ]
    spread = np.sqrt(1 / counts[0] + 1 / counts[1])
    return bool(
        (np.abs(means[0] - means[1]) > math.sqrt(9 + 2 * math.log(spread.size)) * spread).any()
    )


def opaque_type_notes(*sides: Outputs) -> list[str]:
    """Return notes on objects in the outputs that cannot be decomposed."""
    return [
        f"{UNAUDITED_PREFIX}objects of type {name} in the outputs, which cannot be "
        "decomposed; return the values that they contain"
        for name in sorted(frozenset().union(*(side.opaque for side in sides)))
    ]


def unrepeated_text_notes(*sides: Outputs) -> list[str]:
    """Return notes on texts that are not audited, because they hardly ever repeat.

    A text consists of its numbers, which are columns, and the rest. A rest that occurs once in a
    sample does not predict other outputs. The texts of a column, or all keys of the dicts, are not
    audited if more than a quarter of their rests occur once in the outputs on one dataset.
    """
    kinds = sorted({kind for side in sides for kind in _unrepeated_kinds(side)})
    return [
        f"{UNAUDITED_PREFIX}the outputs' values of type {kind}: they rarely repeat, and the "
        "difference between them is not a number; "
        "return numbers or categories, or use more trials"
        for kind in kinds
    ]


def _unrepeated_kinds(side: Outputs) -> Iterator[str]:
    """Yield the kinds of text that hardly ever repeat in the outputs on one dataset."""
    codes, values = side.codes[:_MAX_COMPARED], side.values[:_MAX_COMPARED]
    columns: dict[tuple[str, int], list[NDArray[np.float64]]] = {}
    for code, held in side.texts.items():
        rows = values[codes == code]
        for each in held:
            text = rows[:, each.first : each.first + each.stride * each.count : each.stride]
            rest = rows[:, each.rest : each.rest + each.count]
            # a row may omit its last columns
            shared = text[:, : rest.shape[1]]
            shared[:] = np.where(np.isnan(rest), shared, rest)
            places = range(each.first, values.shape[1], each.stride)
            found = [(-1, text.ravel())] if each.pooled else zip(places, text.T, strict=False)
            for column, entries in found:
                columns.setdefault((each.kind, column), []).append(entries)
    for (kind, _), parts in columns.items():
        texts = np.concatenate(parts)
        _, counts = np.unique(texts, return_counts=True)
        # fewer texts allow for no conclusion; a quarter of them may occur only once
        if len(texts) >= 20 and np.count_nonzero(counts == 1) > 0.25 * len(texts):
            yield kind


def row_keys(matrix: FloatArray) -> NDArray[np.uint64]:
    """Return a 64-bit hash key for each row; two rows with the same key count as the same atom.

    Equal rows have equal keys, where NaN equals NaN and -0.0 equals 0.0.
    """
    found = np.full(len(matrix), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for start in range(0, len(matrix), _BLOCK_ROWS):  # in the processor's cache
        keys = found[start : start + _BLOCK_ROWS]
        for column in matrix[start : start + _BLOCK_ROWS].T:
            numbers = column + 0.0
            numbers[numbers != numbers] = np.nan
            keys ^= numbers.view(np.uint64)
            keys *= np.uint64(0xBF58476D1CE4E5B9)
            keys ^= keys >> np.uint64(29)
    return found


@dataclass(frozen=True, slots=True)
class Distinct:
    """Distinct rows of a matrix: the index of the first of each, its number of copies, and the
    index of each row among them.
    """

    first: NDArray[np.intp]
    counts: NDArray[np.intp]
    place: NDArray[np.intp]

    @classmethod
    def of(cls, matrix: FloatArray) -> Distinct:
        """Find the distinct rows."""
        _, first, place, counts = np.unique(
            row_keys(matrix), return_index=True, return_inverse=True, return_counts=True
        )
        return cls(first, counts, place)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """Training outputs in random order: a matrix (structure code first), and for each row whether
    it came from D1.

    If outputs repeat, `same` holds the index of each row's distinct output. `distinct` holds the
    distinct rows if they are known.
    """

    matrix: FloatArray
    label: NDArray[np.bool_]
    names: dict[float, str]
    same: NDArray[np.intp] | None = None
    distinct: Distinct | None = None

    @classmethod
    def build(cls, outputs: Outputs, ones: int, rng: np.random.Generator) -> TrainingSet:
        """Build the training set from outputs, of which the first `ones` are from D1."""
        order = rng.permutation(len(outputs))
        matrix = outputs.matrix()[order]
        distinct = Distinct.of(matrix)
        repeats = MIN_ROWS_PER_ATOM * len(distinct.first) <= len(matrix)
        return cls(
            matrix, order < ones, outputs.names, distinct.place if repeats else None, distinct
        )

    def rows(self, which: NDArray[np.bool_]) -> TrainingSet:
        """Return the training set restricted to some rows."""
        return TrainingSet(
            self.matrix[which],
            self.label[which],
            self.names,
            None if self.same is None else self.same[which],
        )

    @property
    def varying(self) -> list[int]:
        """Indices of the columns that are not constant."""
        return varying_columns(self.matrix)


Key = str | int | None

_MAX_COLUMNS = 256


@dataclass(frozen=True, slots=True)
class Score:
    """A score function and its name."""

    name: str
    # ``function(outputs)``, with outputs as ``sample`` returns them. Must be picklable if the
    # executor uses processes.
    function: Callable[[Any], Any]
    # import location of the function for a witness; None if the function cannot be imported
    target: Json | None = None
    suggested: bool = False  # whether the function is the mechanism's own ``features``
    # columns that are used, determined before the audit: names of a dict, column numbers, or None
    # for a single column
    keys: tuple[Key, ...] = (None,)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the columns."""
        return tuple(self.label(key) for key in self.keys)

    def label(self, key: Key) -> str:
        """Return the label of a column."""
        return self.name if key is None else f"{self.name}[{key}]"

    def columns(self, raw: Any, size: int) -> FloatArray:
        """Return the scores of `size` outputs, (size, keys); NaN for outputs that
        cannot be scored.
        """
        try:
            found = score_columns(self.function(guarded(raw)), size)
            return np.column_stack([numeric_column(found[key], size) for key in self.keys])
        except MechanismFailed:
            raise
        except Exception:
            if size == 1:
                return np.full((1, len(self.keys)), np.nan)
        return np.concatenate([self.columns(raw[i : i + 1], 1) for i in range(size)])

    def to_json(self) -> Json:
        """Return the record of the score in a witness."""
        return {
            "name": self.name,
            "target": self.target,
            "suggested": self.suggested,
            "keys": list(self.keys),
        }


def guarded(raw: Any) -> Any:
    """Return a read-only view of an array; other objects are returned unchanged."""
    if not isinstance(raw, np.ndarray):
        return raw
    view = raw.view()
    view.flags.writeable = False
    return view


def score_columns(value: Any, size: int) -> dict[Key, FloatArray]:
    """Return the columns of a score's result by key. Raise ValueError with the reason if the number
    of columns is not allowed.
    """
    if isinstance(value, dict):
        found: dict[Key, Any] = {str(key): column for key, column in value.items()}
    else:
        array = np.asarray(value)
        found = {None: array} if array.ndim != 2 else dict(enumerate(array.T))
    if not 1 <= len(found) <= _MAX_COLUMNS:
        raise ValueError(f"it gave {len(found)} columns, between 1 and {_MAX_COLUMNS} are allowed")
    return {key: np.asarray(column) for key, column in found.items()}


def numeric_column(column: FloatArray, size: int) -> FloatArray:
    """Return a score column as floats. Raise ValueError with the reason if its shape or type is
    wrong.
    """
    if column.shape != (size,):
        raise ValueError(f"it gave shape {column.shape} for {size} outputs")
    if column.dtype.kind not in "fiub":
        raise ValueError(f"it gave values of type {column.dtype}, not numbers")
    return column.astype(np.float64)


def same_scores(a: FloatArray, b: FloatArray) -> bool:
    """Return whether two columns are equal up to rounding, which may depend on the size
    of a batch.
    """
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True))


def suggested_score(mechanism: Any) -> Score | None:
    """Return the score that a mechanism suggests with ``features(outputs)``; None if
    there is none.
    """
    found = getattr(mechanism, "features", None)
    return Score("features", found, None, suggested=True) if callable(found) else None


def collect_scores(scores: Any, mechanism: Any, owner: str) -> tuple[Score, ...]:
    """Return the scores given by the user, callables or pairs (name, callable), followed by the
    mechanism's own score.

    Raises
    ------
    InvalidArgument
        If `scores` is not a list of at most 64 callables or pairs, or two scores have the same
        name.
    """
    if scores is not None and (not isinstance(scores, list | tuple) or len(scores) > 64):
        raise InvalidArgument(
            f"{owner}: scores must be a list of at most 64 callables, or pairs (name, "
            f"callable), got {short_repr(scores)}"
        )
    found = [_as_score(given) for given in scores or ()]
    for score in found:
        require_callable("scores", score.function, owner, arguments=1)
    all_scores = (*found, *filter(None, [suggested_score(mechanism)]))
    names = [score.name for score in all_scores]
    if len(set(names)) < len(names):
        raise InvalidArgument(
            f"{owner}: scores must have different names, got {', '.join(names)}; give (name, "
            "callable)"
        )
    return all_scores


def _as_score(given: Any) -> Score:
    """Return a score of the user, a callable or a pair (name, callable), as a `Score`."""
    if isinstance(given, Score):
        return given
    named = isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)
    name, function = given if named else (name_of(given), given)
    return Score(name, function, describe_target(function))
