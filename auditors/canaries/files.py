"""Readers of canary scores from files: two arrays, or a table with one row per canary."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.core.values.validation import InvalidArgument, import_problem, number_from_text

_SIDES = ("scores_in", "scores_out")
_OPTIONAL = ("ids_in", "ids_out", "groups")
_ROW_COLUMNS = ("score", "included", "id", "group", "run")
_TRUE, _FALSE = ("1", "1.0", "true", "in", "yes"), ("0", "0.0", "false", "out", "no")


def read_score_file(path: str | Path) -> dict[str, Any]:
    """Return arguments for `audit_canaries` from a .npz, .csv or .parquet file: scores, and ids and
    groups if present.

    Raises InvalidArgument if the file cannot be read or lacks columns.
    """
    path = Path(path)
    readers = {".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise InvalidArgument(
            f"canaries: file must end in .npz, .csv or .parquet, got {path.name!r}"
        )
    if not path.is_file():
        raise InvalidArgument(f"canaries: file must exist, got {str(path)!r}")
    try:
        columns = readers[suffix](path)
    except InvalidArgument:
        raise
    except Exception as error:  # a damaged file can raise anything
        raise InvalidArgument(
            f"canaries: {path.name} must be readable: {type(error).__name__}: {str(error)[:200]}"
        ) from None
    if all(side in columns for side in _SIDES):
        other = next((name for name in _ROW_COLUMNS if name in columns), None)
        if other is not None:
            raise InvalidArgument(
                f"canaries: {path.name} must have {', '.join(_OPTIONAL)} as well as "
                f"scores_in and scores_out, or none of these, got {other}"
            )
        return {name: columns[name] for name in (*_SIDES, *_OPTIONAL) if name in columns}
    if not {"score", "included"} <= set(columns):
        synonyms = {
            "scores": "score",
            "include": "included",
            "mask": "included",
            "coins": "included",
            "ids": "id",
            "runs": "run",
        }
        renamed = [
            f"{name} to {synonyms[name]}"
            for name in columns
            if name in synonyms and synonyms[name] not in columns
        ]
        hint = f": rename {' and '.join(renamed)}" if renamed else ""
        raise InvalidArgument(
            f"canaries: {path.name} must have scores_in and scores_out, or score and "
            f"included, got {', '.join(columns) or 'nothing'}{hint}"
        )
    return _split_by_side(columns, path.name)


def _read_npz(path: Path) -> dict[str, Any]:
    """Return the arrays of an .npz file."""
    with np.load(path, allow_pickle=False) as contents:
        return {name: contents[name] for name in contents.files}


def _read_csv(path: Path) -> dict[str, Any]:
    """Return the columns of a .csv file. Raise InvalidArgument if a column occurs twice."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, restkey="", restval="")
        names = list(reader.fieldnames or ())
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise InvalidArgument(
                f"canaries: {path.name} must have each column once, got {duplicate!r} "
                f"{names.count(duplicate)} times: rename one"
            )
        rows = list(reader)
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _read_parquet(path: Path) -> dict[str, Any]:
    """Return the columns of a .parquet file. Raise InvalidArgument if pyarrow is not installed."""
    try:
        from pyarrow.parquet import read_table
    except ImportError as error:
        reason = import_problem("pyarrow", error, "pip install 'dpwitness[frames]'")
        raise InvalidArgument(f"canaries: .parquet files need pyarrow: {reason}") from None
    contents = read_table(path)
    return {name: contents[name].to_pylist() for name in contents.column_names}


def _split_by_side(columns: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the columns of a table as arguments for `audit_canaries`, split by side and by run."""
    try:
        scores = np.asarray(
            [
                number_from_text(value.strip()) if isinstance(value, str) else float(value)
                for value in columns["score"]
            ]
        )
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"canaries: score in {name} must be numbers: {error}") from None
    texts = [str(value).strip().lower() for value in columns["included"]]
    wrong = next((i for i, text in enumerate(texts) if text not in (*_TRUE, *_FALSE)), None)
    if wrong is not None and set(np.unique(scores).tolist()) == {0.0, 1.0}:
        raise InvalidArgument(
            f"canaries: included in {name} must be 0 or 1, and score holds only these: "
            "exchange the two columns"
        )
    if wrong is not None:
        raise InvalidArgument(
            f"canaries: included in {name} must be 0 or 1, true or false, got "
            f"{str(columns['included'][wrong])[:40]!r}"
        )
    included = np.array([text in _TRUE for text in texts], dtype=bool)
    if any(
        len(columns[key]) != scores.size
        for key in ("included", "run", "id", "group")
        if key in columns
    ):
        raise InvalidArgument(f"canaries: columns of {name} must have one length, {scores.size}")
    labels = np.asarray(columns["run"]) if "run" in columns else np.zeros(scores.size)
    parts = [labels == run for run in np.unique(labels)]

    def split(values: np.ndarray, wanted: np.ndarray) -> Any:
        contents = [values[part & wanted] for part in parts]
        return contents[0] if len(parts) == 1 else contents

    arguments = {"scores_in": split(scores, included), "scores_out": split(scores, ~included)}
    if "id" in columns:
        ids = np.asarray(columns["id"])
        arguments |= {"ids_in": split(ids, included), "ids_out": split(ids, ~included)}
    if "group" in columns:
        groups = np.asarray(columns["group"])
        by_run = [
            np.concatenate([groups[part & included], groups[part & ~included]]) for part in parts
        ]
        arguments["groups"] = by_run[0] if len(parts) == 1 else by_run
    return arguments
