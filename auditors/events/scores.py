"""Scores: numbers computed from an output by a user's function or by the mechanism's `features`,
placed before the output's own numbers.

A score takes the result of ``sample`` for n runs and returns n numbers: an array (n,), or several
columns, (n, k) or a dict of arrays (n,). A score must be a function of each output alone, because
an event is a set of outputs. A score that depends on the other outputs of a batch, all from one
dataset, could separate the datasets by itself. This is tested before the audit, and in every batch
on the first output. If a call raises or returns the wrong length, outputs are scored one at a time,
and an output that cannot be scored is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.auditors.workers.loading import describe_target
from dpwitness.core.protocols.mechanism import FloatArray, MechanismFailed, name_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, require_callable, short_repr

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
            found = columns_of(self.function(guarded(raw)), size)
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


def columns_of(value: Any, size: int) -> dict[Key, FloatArray]:
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


def same(a: FloatArray, b: FloatArray) -> bool:
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
    found = []
    for given in scores or ():
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
            score = Score(given[0], given[1], describe_target(given[1]))
        else:
            score = (
                given
                if isinstance(given, Score)
                else Score(name_of(given), given, describe_target(given))
            )
        require_callable("scores", score.function, owner, arguments=1)
        found.append(score)
    own = suggested_score(mechanism)
    all_scores = (*found, own) if own is not None else tuple(found)
    names = [score.name for score in all_scores]
    if len(set(names)) < len(names):
        raise InvalidArgument(
            f"{owner}: scores must have different names, got {', '.join(names)}; give (name, "
            "callable)"
        )
    return all_scores
