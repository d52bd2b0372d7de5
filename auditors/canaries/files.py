"""Scores of canaries in files: two arrays, or a table with a row a canary."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.mechanisms.terms.validation import InvalidArgument, unimportable

_SIDES = ("scores_in", "scores_out")
_BESIDE = ("ids_in", "ids_out", "groups")
_ROWS = ("score", "included", "id", "group", "run")
_TRUE, _FALSE = ("1", "1.0", "true", "in", "yes"), ("0", "0.0", "false", "out", "no")


def read_file(path: str | Path) -> dict[str, Any]:
    """Arguments of `audit_canaries` from a file: scores, and ids and groups where it has them. Raises InvalidArgument."""
    path = Path(path)
    readers = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise InvalidArgument(f"canaries: file must end in .npz, .csv or .parquet, got {path.name!r}")
    if not path.is_file():
        raise InvalidArgument(f"canaries: file must be there, got {str(path)!r}")
    try:
        columns = readers[suffix](path)
    except InvalidArgument:
        raise
    except Exception as error:  # whatever a damaged file makes of its reader
        raise InvalidArgument(f"canaries: {path.name} must be readable: {type(error).__name__}: {str(error)[:200]}") from None
    if all(side in columns for side in _SIDES):
        other = next((name for name in _ROWS if name in columns), None)
        if other is not None:
            raise InvalidArgument(
                f"canaries: {path.name} must have {', '.join(_BESIDE)} beside scores_in and scores_out, or none of these, got {other}"
            )
        return {name: columns[name] for name in (*_SIDES, *_BESIDE) if name in columns}
    if not {"score", "included"} <= set(columns):
        near = {"scores": "score", "include": "included", "mask": "included", "coins": "included", "ids": "id", "runs": "run"}
        renamed = [f"{name} to {near[name]}" for name in columns if name in near and near[name] not in columns]
        hint = f": rename {' and '.join(renamed)}" if renamed else ""
        raise InvalidArgument(
            f"canaries: {path.name} must have scores_in and scores_out, or score and included, got {', '.join(columns) or 'nothing'}{hint}"
        )
    return _sides(columns, path.name)


def _npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def _csv(path: Path) -> dict[str, Any]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, restkey="", restval="")
        names = list(reader.fieldnames or ())
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidArgument(f"canaries: {path.name} must have each column once, got {twice!r} {names.count(twice)} times: rename one")
        rows = list(reader)
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _parquet(path: Path) -> dict[str, Any]:
    try:
        from pyarrow.parquet import read_table
    except ImportError as error:
        why = unimportable("pyarrow", error, "pip install 'dpwitness[frames]'")
        raise InvalidArgument(f"canaries: .parquet files need pyarrow: {why}") from None
    found = read_table(path)
    return {name: found[name].to_pylist() for name in found.column_names}


def _sides(columns: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Columns of a table as two sides, by run."""
    try:
        scores = np.asarray([float(value) for value in columns["score"]])
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"canaries: score in {name} must be numbers: {error}") from None
    if set(np.unique(scores).tolist()) == {0.0, 1.0} and not all(_is_coin(value) for value in columns["included"]):
        raise InvalidArgument(f"canaries: included in {name} must be 0 or 1, and score holds only these: exchange the two columns")
    included = np.array([_coin(value, name) for value in columns["included"]], dtype=bool)
    if any(len(columns[key]) != scores.size for key in ("included", "run", "id", "group") if key in columns):
        raise InvalidArgument(f"canaries: columns of {name} must have one length, {scores.size}")
    labels = np.asarray(columns["run"]) if "run" in columns else np.zeros(scores.size)
    parts = [labels == run for run in np.unique(labels)]

    def split(values: np.ndarray, wanted: np.ndarray) -> Any:
        found = [values[part & wanted] for part in parts]
        return found[0] if len(parts) == 1 else found

    told = {"scores_in": split(scores, included), "scores_out": split(scores, ~included)}
    if "id" in columns:
        ids = np.asarray(columns["id"])
        told |= {"ids_in": split(ids, included), "ids_out": split(ids, ~included)}
    if "group" in columns:
        groups = np.asarray(columns["group"])
        both = [np.concatenate([groups[part & included], groups[part & ~included]]) for part in parts]
        told["groups"] = both[0] if len(parts) == 1 else both
    return told


def _is_coin(value: Any) -> bool:
    return str(value).strip().lower() in (*_TRUE, *_FALSE)


def _coin(value: Any, name: str) -> bool:
    if not _is_coin(value):
        raise InvalidArgument(f"canaries: included in {name} must be 0 or 1, true or false, got {str(value)[:40]!r}")
    return str(value).strip().lower() in _TRUE
