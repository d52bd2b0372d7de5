"""Conversion of arrays of numbers and times to float columns: main columns, and extra columns for
information lost in the main ones.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# blocks of extra columns: width and values; None if all values are NaN
Extras = list[tuple[int, Floats | None]]

# most distinct values of a table's column for which the set of values is hashed
_MAX_CATEGORIES = 32
EXACT_LIMIT = 2.0**53  # integers up to this one are exact floats


def text_hash(text: str) -> float:
    """Return the hash of a text as a whole number below 2^53, the same in every process."""
    return float(
        int.from_bytes(
            hashlib.blake2b(text.encode(errors="backslashreplace"), digest_size=8).digest()
        )
        >> 11
    )


def columns_of(raw: NDArray[Any]) -> tuple[str, Floats, Extras] | None:
    """Return dtype name, main columns and extra columns of an array of numbers or times; None for
    any other array.
    """
    if isinstance(raw, np.ma.MaskedArray):
        return _masked_columns(raw)
    kind, flat = raw.dtype.kind, raw.reshape(len(raw), -1)
    if kind == "c":
        halves = np.concatenate([flat.real, flat.imag], axis=1)
        return raw.dtype.name, *floats(halves)
    if kind in "mM":
        missing = np.isnat(flat)
        ticks, extras = floats(
            np.where(
                missing,
                0,
                flat.view(np.int64) if flat.flags.c_contiguous else flat.astype(np.int64),
            )
        )
        ticks[missing] = np.nan
        return raw.dtype.name, ticks, extras
    return (raw.dtype.name, *floats(flat)) if kind in "fiub" else None


def summary(cells: Floats) -> Floats:
    """Return statistics of a table's columns that do not depend on the order of the rows.

    Per column: minimum, maximum, mean, number of missing values, number of distinct values, and a
    hash of the values if there are few.
    """
    seen = ~np.isnan(cells)
    low, high = (np.where(seen, cells, bound) for bound in (np.inf, -np.inf))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.where(seen, cells, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    distinct = [np.unique(column[here]) for column, here in zip(cells.T, seen.T, strict=True)]
    codes = [
        text_hash(repr(values.tolist())) if len(values) <= _MAX_CATEGORIES else np.nan
        for values in distinct
    ]
    missing_count = (~seen).sum(axis=0)
    return np.concatenate(
        [
            low.min(axis=0),
            high.max(axis=0),
            mean,
            missing_count,
            [float(len(values)) for values in distinct],
            codes,
        ]
    )


def _masked_columns(raw: np.ma.MaskedArray[Any, Any]) -> tuple[str, Floats, Extras] | None:
    """Return the columns of a masked array: visible numbers and the mask.

    The numbers under the mask and a non-default fill value become extra columns.
    """
    inner = columns_of(raw.data)
    if inner is None:
        return None
    name, main, extras = inner
    hidden = np.ma.getmaskarray(raw).reshape(len(raw), -1)

    def where_hidden(block: Floats) -> NDArray[np.bool_]:
        return np.tile(hidden, (1, block.shape[1] // max(hidden.shape[1], 1)))

    under = where_hidden(main)
    some = bool(under.any())
    fill = (
        raw.fill_value
        if raw.size and raw.fill_value != np.ma.default_fill_value(raw.dtype)
        else None
    )
    columns = None if fill is None else np.full((len(raw), 1), text_hash(repr(fill)))
    return (
        f"masked {name}",
        np.column_stack([np.where(under, np.nan, main), hidden.astype(float)]),
        [*extras, (main.shape[1], np.where(under, main, np.nan) if some else None), (1, columns)],
    )


def floats(flat: NDArray[Any]) -> tuple[Floats, Extras]:
    """Return float columns of an array, and extra columns: the signs of zeros, or the rounding
    errors.
    """
    width, kind = flat.shape[1], flat.dtype.kind
    if kind == "b" or (kind in "iu" and flat.dtype.itemsize < 8):
        return np.ascontiguousarray(flat, dtype=np.float64), []
    with np.errstate(over="ignore"):
        high = np.ascontiguousarray(flat, dtype=np.float64)
    if kind in "iu":
        if np.abs(high).max(initial=0.0) < EXACT_LIMIT:
            return high, [(width, None)]
        residual = (flat - np.vectorize(int, otypes=[object])(high)).astype(np.float64)
        return high, [(width, np.where(residual == 0, np.nan, residual))]
    signs = (
        width,
        np.where((high == 0) & np.signbit(high), 1.0, np.nan) if _has_negative_zero(high) else None,
    )
    if flat.dtype.itemsize <= 8:
        return high, [signs]
    return high, [*_long_double_extras(flat, high), signs]


def _has_negative_zero(values: Floats) -> bool:
    """Return whether an array holds -0.0."""
    return bool((values.view(np.int64) == np.iinfo(np.int64).min).any())


def _long_double_extras(flat: NDArray[Any], high: Floats) -> Extras:
    """Return the rounding errors of long doubles; beyond the range of floats, fraction and
    exponent.
    """
    width = flat.shape[1]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        residual = (flat - high).astype(np.float64)
        out_of_range = (
            np.isfinite(flat)
            & (flat != 0)
            & ((np.abs(flat) > np.finfo(float).max) | (np.abs(flat) < 1e-290))
        )
        residual[~np.isfinite(high) | out_of_range] = 0.0
        first = np.where(residual == 0, np.nan, residual) if residual.any() else None
        if not out_of_range.any():
            return [(width, first), (3 * width, None)]
        fraction, exponent = np.frexp(np.where(out_of_range, flat, 1))
        leading = fraction.astype(np.float64)
        rest = (fraction - leading).astype(np.float64)
    columns = np.column_stack(
        [
            np.where(out_of_range, part, np.nan)
            for part in (leading, rest, exponent.astype(np.float64))
        ]
    )
    return [(width, first), (3 * width, columns)]
