"""Arrays of numbers and times as columns of floats: main ones, and extra ones for what the main ones leave out."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Extras = list[tuple[int, Floats | None]]  # blocks of extra columns: how many, and what they hold, None for NaN everywhere

_FEW = 32  # different values in a column of a table that are one category
_EXACT = 2.0**53  # integers up to here are floats


def code_of(text: str) -> float:
    """Return a whole number below 2^53, the same in every process."""
    return float(int.from_bytes(hashlib.blake2b(text.encode(errors="backslashreplace"), digest_size=8).digest()) >> 11)


def columns_of(raw: NDArray[Any]) -> tuple[str, Floats, Extras] | None:
    """Return name of the kind, main and extra columns of an array of numbers or of times; None for anything else."""
    if isinstance(raw, np.ma.MaskedArray):
        return _masked(raw)
    kind, flat = raw.dtype.kind, raw.reshape(len(raw), -1)
    if kind == "c":
        halves = np.concatenate([flat.real, flat.imag], axis=1)
        return raw.dtype.name, *floats(halves)
    if kind in "mM":
        missing = np.isnat(flat)
        ticks, extras = floats(np.where(missing, 0, flat.view(np.int64) if flat.flags.c_contiguous else flat.astype(np.int64)))
        ticks[missing] = np.nan
        return raw.dtype.name, ticks, extras
    return (raw.dtype.name, *floats(flat)) if kind in "fiub" else None


def summary(cells: Floats) -> Floats:
    """Return what a table's columns hold in whatever order: least, largest, mean, how many are missing and different, a hash of few."""
    seen = ~np.isnan(cells)
    low, high = (np.where(seen, cells, bound) for bound in (np.inf, -np.inf))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.where(seen, cells, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    known = [np.unique(column[here]) for column, here in zip(cells.T, seen.T, strict=True)]
    codes = [code_of(repr(values.tolist())) if len(values) <= _FEW else np.nan for values in known]
    gaps = (~seen).sum(axis=0)
    return np.concatenate([low.min(axis=0), high.max(axis=0), mean, gaps, [float(len(values)) for values in known], codes])


def _masked(raw: np.ma.MaskedArray[Any, Any]) -> tuple[str, Floats, Extras] | None:
    """Visible numbers and the mask; what is under the mask, and a fill value of its own, are extra columns."""
    inner = columns_of(raw.data)
    if inner is None:
        return None
    name, main, extras = inner
    hidden = np.ma.getmaskarray(raw).reshape(len(raw), -1)

    def where_hidden(block: Floats) -> NDArray[np.bool_]:
        return np.tile(hidden, (1, block.shape[1] // max(hidden.shape[1], 1)))

    under = where_hidden(main)
    some = bool(under.any())
    fill = raw.fill_value if raw.size and raw.fill_value != np.ma.default_fill_value(raw.dtype) else None
    told = None if fill is None else np.full((len(raw), 1), code_of(repr(fill)))
    return (
        f"masked {name}",
        np.column_stack([np.where(under, np.nan, main), hidden.astype(float)]),
        [*extras, (main.shape[1], np.where(under, main, np.nan) if some else None), (1, told)],
    )


def floats(flat: NDArray[Any]) -> tuple[Floats, Extras]:
    """Columns of floats, and extra ones: signs of zeros, or what rounding lost."""
    width, kind = flat.shape[1], flat.dtype.kind
    if kind == "b" or (kind in "iu" and flat.dtype.itemsize < 8):
        return np.ascontiguousarray(flat, dtype=np.float64), []
    with np.errstate(over="ignore"):
        high = np.ascontiguousarray(flat, dtype=np.float64)
    if kind in "iu":
        if np.abs(high).max(initial=0.0) < _EXACT:
            return high, [(width, None)]
        lost = (flat - np.vectorize(int, otypes=[object])(high)).astype(np.float64)
        return high, [(width, np.where(lost == 0, np.nan, lost))]
    signs = (width, np.where((high == 0) & np.signbit(high), 1.0, np.nan) if _has_negative_zero(high) else None)
    if flat.dtype.itemsize <= 8:
        return high, [signs]
    return high, [*_long(flat, high), signs]


def _has_negative_zero(values: Floats) -> bool:
    return bool((values.view(np.int64) == np.iinfo(np.int64).min).any())


def _long(flat: NDArray[Any], high: Floats) -> Extras:
    """What rounding a long double lost; of one beyond the range of floats, its fraction and its exponent."""
    width = flat.shape[1]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        lost = (flat - high).astype(np.float64)
        far = np.isfinite(flat) & (flat != 0) & ((np.abs(flat) > np.finfo(float).max) | (np.abs(flat) < 1e-290))
        lost[~np.isfinite(high) | far] = 0.0
        first = np.where(lost == 0, np.nan, lost) if lost.any() else None
        if not far.any():
            return [(width, first), (3 * width, None)]
        fraction, exponent = np.frexp(np.where(far, flat, 1))
        near = fraction.astype(np.float64)
        rest = (fraction - near).astype(np.float64)
    told = np.column_stack([np.where(far, part, np.nan) for part in (near, rest, exponent.astype(np.float64))])
    return [(width, first), (3 * width, told)]
