"""Parquet files for large data frames of witnesses and reports.

The files lie in the folder of the JSON document, which holds their names and the hashes of their
content. A frame of up to `ENTRIES` entries stays in the JSON, as do all frames if pyarrow is not
installed.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.core.values.dataframe_backends import UnsupportedData, library
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json, read_bytes, record, text
from dpwitness.core.values.validation import InvalidArgument, error_text

ENTRIES = 10_000
_REFERENCE_RULE = record(file=text(60), sha256=text(64))


def _replaced(value: Any, tag: str, replace: Callable[[Json], Any]) -> Any:
    """Return the JSON with `replace` applied to the objects of a type."""
    if isinstance(value, list):
        return [_replaced(part, tag, replace) for part in value]
    if not isinstance(value, dict):
        return value
    if value.get("$type") == tag:
        return replace(value)
    return {key: _replaced(part, tag, replace) for key, part in value.items()}


def write_frame_files(value: Any, folder: Path) -> Any:
    """Return the JSON with its large frames moved to Parquet files in `folder`."""
    return _replaced(value, "frame", partial(_write_frame, folder=folder))


def has_frame_files(value: Any) -> bool:
    """Return whether the JSON refers to Parquet files."""
    if isinstance(value, dict):
        return value.get("$type") == "parquet" or any(map(has_frame_files, value.values()))
    return isinstance(value, list) and any(map(has_frame_files, value))


def read_frame_files(value: Any, folder: Path) -> Any:
    """Return the JSON with the frames read from its Parquet files in `folder`.

    Raises
    ------
    InvalidArgument
        If a file is missing, its content does not match the recorded hash, or pyarrow is not
        installed.
    """
    return _replaced(value, "parquet", partial(_read_frame, folder=folder))


def _all_columns(frame: Json) -> list[Json]:
    """Return the columns of a frame, then its index if there is one."""
    return [*frame["columns"], *([frame["index"]] if frame["index"] is not None else [])]


def _write_frame(frame: Json, folder: Path) -> Json:
    """Write a frame to a Parquet file and return the reference to it; return the frame if it stays
    in the JSON.
    """
    names = [str(column["name"]) for column in frame["columns"]]
    names += ["(index)"] if frame["index"] is not None else []
    if frame["rows"] * len(names) <= ENTRIES or len(set(names)) < len(names):
        return frame
    try:
        arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
    except UnsupportedData:
        return frame
    arrow_columns = {}
    for name, column in zip(names, _all_columns(frame), strict=True):
        values = from_jsonable(column["values"])
        plain = values.view(np.int64) if values.dtype.kind in "mM" else values
        arrow_columns[name] = arrow.array(
            plain.tolist() if plain.dtype.kind == "U" else plain,
            mask=None if column["missing"] is None else from_jsonable(column["missing"]),
        )
    stream = io.BytesIO()
    parquet.write_table(arrow.table(arrow_columns), stream)
    content = stream.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    name = f"frame-{digest[:16]}.parquet"
    (folder / name).write_bytes(content)
    hollow = [
        {**c, "values": {**c["values"], "value": []}, "missing": c["missing"] is not None}
        for c in _all_columns(frame)
    ]
    content_free = _with_columns(frame, hollow)
    return {"$type": "parquet", "file": name, "sha256": digest, "frame": content_free}


def _with_columns(frame: Json, columns: list[Json]) -> Json:
    """Return the frame with other columns; one more than before is the index."""
    count = len(frame["columns"])
    index = columns[count] if len(columns) > count else None
    return {**frame, "columns": columns[:count], "index": index}


def _read_frame(reference: Json, folder: Path) -> Json:
    """Return the frame that a reference points to, after checking the hash of the file."""
    try:
        name, digest, hollow = reference["file"], reference["sha256"], reference["frame"]
        _REFERENCE_RULE({"file": name, "sha256": digest}, "parquet")
        if name != f"frame-{digest[:16]}.parquet" or not digest.isalnum():
            raise InvalidArgument(
                f"parquet.file must be frame-HASH.parquet with its own hash, got {name!r}"
            )
        try:
            content = read_bytes(folder / name, most=2**28)
        except InvalidArgument as error:
            raise InvalidArgument(f"{name}, the Parquet file of a frame, {error}") from None
        if hashlib.sha256(content).hexdigest() != digest:
            raise InvalidArgument(
                f"{name} was edited or damaged: the SHA-256 of its content is not the recorded one"
            )
        try:
            arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
        except UnsupportedData as error:
            raise InvalidArgument(str(error)) from None
        table = parquet.read_table(arrow.BufferReader(content))
        columns = [
            _fill_column(column, table.column(i)) for i, column in enumerate(_all_columns(hollow))
        ]
        return _with_columns(hollow, columns)
    except InvalidArgument:
        raise
    except Exception as error:  # the file may hold anything
        raise InvalidArgument(f"parquet: the frame cannot be read: {error_text(error)}") from None


def _fill_column(column: Json, chunked: Any) -> Json:
    """Return a column with the values and missing entries of the Parquet file."""
    dtype = np.dtype(column["values"]["dtype"])
    missing_mask = np.asarray(chunked.is_null())
    if dtype.kind == "U":
        values = np.array(["" if v is None else v for v in chunked.to_pylist()], dtype=dtype)
    else:
        stored = np.dtype(np.int64) if dtype.kind in "mM" else dtype
        values = (
            np.asarray(chunked.fill_null(False if dtype.kind == "b" else 0))
            .astype(stored)
            .view(dtype)
        )
    return {
        **column,
        "values": to_jsonable(values),
        "missing": to_jsonable(missing_mask) if column["missing"] else None,
    }
