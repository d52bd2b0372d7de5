"""Large frames of witnesses and reports: Parquet files that lie beside the JSON, which holds their names and the hashes of their content.

A frame of up to `ENTRIES` entries stays in the JSON, and so does any where pyarrow is not installed.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.mechanisms.terms.jsonable import from_jsonable, to_jsonable
from dpwitness.mechanisms.terms.libraries import Unheld, library
from dpwitness.mechanisms.terms.reading import Json, read_bytes, record, text
from dpwitness.mechanisms.terms.validation import InvalidArgument, said

ENTRIES = 10_000
_BYTES = 2**28  # of one file
_FILE = record(file=text(60), sha256=text(64))


def put_beside(value: Any, folder: Path) -> Any:
    """The JSON with its large frames in files of the folder."""
    if isinstance(value, list):
        return [put_beside(part, folder) for part in value]
    if not isinstance(value, dict):
        return value
    if value.get("$type") == "frame":
        return _written(value, folder) or value
    return {key: put_beside(part, folder) for key, part in value.items()}


def has_beside(value: Any) -> bool:
    """Whether JSON names files that lie beside it."""
    if isinstance(value, dict):
        return value.get("$type") == "parquet" or any(map(has_beside, value.values()))
    return isinstance(value, list) and any(map(has_beside, value))


def taken_in(value: Any, folder: Path) -> Any:
    """The JSON with the frames that lie beside it.

    Raises
    ------
    InvalidArgument
        If a file is missing, is not the one that was written, or pyarrow is not installed.
    """
    if isinstance(value, list):
        return [taken_in(part, folder) for part in value] if has_beside(value) else value
    if not isinstance(value, dict):
        return value
    if value.get("$type") == "parquet":
        return _read(value, folder)
    return {key: taken_in(part, folder) for key, part in value.items()} if has_beside(value) else value


def _columns(frame: Json) -> list[Json]:
    return [*frame["columns"], *([frame["index"]] if frame["index"] is not None else [])]


def _names(frame: Json) -> list[str]:
    return [*(str(column["name"]) for column in frame["columns"]), *(["(index)"] if frame["index"] is not None else [])]


def _written(frame: Json, folder: Path) -> Json | None:
    """The reference to a frame that was written; None for one that stays where it is."""
    names = _names(frame)
    if frame["rows"] * len(names) <= ENTRIES or len(set(names)) < len(names):
        return None
    try:
        arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
    except Unheld:
        return None
    held = {}
    for name, column in zip(names, _columns(frame), strict=True):
        values = from_jsonable(column["values"])
        plain = values.view(np.int64) if values.dtype.kind in "mM" else values
        gone = None if column["missing"] is None else from_jsonable(column["missing"])
        held[name] = arrow.array(plain.tolist() if plain.dtype.kind == "U" else plain, mask=gone)
    stream = io.BytesIO()
    parquet.write_table(arrow.table(held), stream)
    content = stream.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    name = f"frame-{digest[:16]}.parquet"
    (folder / name).write_bytes(content)
    return {"$type": "parquet", "file": name, "sha256": digest, "frame": _hollow(frame)}


def _hollow(frame: Json) -> Json:
    """The frame without what the file holds."""

    def bare(column: Json) -> Json:
        return {**column, "values": {**column["values"], "value": []}, "missing": column["missing"] is not None}

    index = frame["index"]
    return {**frame, "columns": list(map(bare, frame["columns"])), "index": None if index is None else bare(index)}


def _read(reference: Json, folder: Path) -> Json:
    try:
        name, digest, hollow = reference["file"], reference["sha256"], reference["frame"]
        _FILE({"file": name, "sha256": digest}, "parquet")
        if name != f"frame-{digest[:16]}.parquet" or not digest.isalnum():
            raise InvalidArgument(f"parquet.file must be named by its content, got {name!r}")
        try:
            content = read_bytes(folder / name, most=_BYTES)
        except InvalidArgument as error:
            raise InvalidArgument(f"{name}, the frame that lies beside it, {error}") from None
        if hashlib.sha256(content).hexdigest() != digest:
            raise InvalidArgument(f"{name} is not the file that was written: its content has another SHA-256")
        try:
            arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
        except Unheld as error:
            raise InvalidArgument(str(error)) from None
        table = parquet.read_table(arrow.BufferReader(content))
        columns = [_filled(column, table.column(i)) for i, column in enumerate(_columns(hollow))]
        count = len(hollow["columns"])
        return {**hollow, "columns": columns[:count], "index": columns[count] if len(columns) > count else None}
    except InvalidArgument:
        raise
    except Exception as error:  # whatever a file may hold
        raise InvalidArgument(f"parquet: the frame cannot be read: {said(error)}") from None


def _filled(column: Json, chunked: Any) -> Json:
    dtype = np.dtype(column["values"]["dtype"])
    gone = np.asarray(chunked.is_null())
    if dtype.kind == "U":
        values = np.array(["" if v is None else v for v in chunked.to_pylist()], dtype=dtype)
    else:
        stored = np.dtype(np.int64) if dtype.kind in "mM" else dtype
        values = np.asarray(chunked.fill_null(False if dtype.kind == "b" else 0)).astype(stored).view(dtype)
    return {**column, "values": to_jsonable(values), "missing": to_jsonable(gone) if column["missing"] else None}
