"""Scores: numbers computed from an output that a mechanism suggests or a user gives. They stand in columns before the output's own numbers.

A score takes what ``sample`` returned for n runs and gives n numbers: an array (n,), or several columns, (n, k) or a dict of arrays (n,).
It must be a function of each output alone, for an event is a set of outputs: one that looks at its neighbours in a batch, all of one
dataset, would tell the datasets apart by itself. That is tried beforehand, and in every batch on its first output. Where a call raises or
gives the wrong length, outputs are scored one by one, and one that cannot be is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.auditors.targets.naming import describe_target
from dpwitness.mechanisms.terms.protocol import FloatArray, MechanismFailed, name_of
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_callable, shown

Key = str | int | None

_COLUMNS = 256


@dataclass(frozen=True, slots=True)
class Score:
    """A score by its name.

    Parameters
    ----------
    name : str
    function : callable
        ``function(outputs)``, outputs as ``sample`` returns them. Picklable if the executor uses processes.
    target : dict, optional
        How a witness says where to find it; None if it cannot be imported.
    suggested : bool
        Whether it is the mechanism's own ``features``.
    keys : tuple
        Columns that are used, found out before the audit: names of a dict, numbers of columns, or None for the one that there is.
    """

    name: str
    function: Callable[[Any], Any]
    target: Json | None = None
    suggested: bool = False
    keys: tuple[Key, ...] = (None,)

    @property
    def labels(self) -> tuple[str, ...]:
        """What its columns are called."""
        return tuple(self.label(key) for key in self.keys)

    def label(self, key: Key) -> str:
        """What a column is called."""
        return self.name if key is None else f"{self.name}[{key}]"

    def columns(self, raw: Any, size: int) -> FloatArray:
        """(size, keys) numbers; NaN for outputs that cannot be scored."""
        try:
            found = columns_of(self.function(guarded(raw)), size)
            return np.column_stack([number_of(found[key], size) for key in self.keys])
        except MechanismFailed:
            raise
        except Exception:
            if size == 1:
                return np.full((1, len(self.keys)), np.nan)
        return np.concatenate([self.columns(raw[i : i + 1], 1) for i in range(size)])

    def to_json(self) -> Json:
        """How a witness records it."""
        return {"name": self.name, "target": self.target, "suggested": self.suggested, "keys": list(self.keys)}


def guarded(raw: Any) -> Any:
    """Arrays that cannot be written to."""
    if not isinstance(raw, np.ndarray):
        return raw
    view = raw.view()
    view.flags.writeable = False
    return view


def columns_of(value: Any, size: int) -> dict[Key, FloatArray]:
    """Columns by key. Raises ValueError, with what is wrong, for what is none."""
    if isinstance(value, dict):
        found: dict[Key, Any] = {str(key): column for key, column in value.items()}
    else:
        array = np.asarray(value)
        found = {None: array} if array.ndim != 2 else dict(enumerate(array.T))
    if not 1 <= len(found) <= _COLUMNS:
        raise ValueError(f"it gave {len(found)} columns, between 1 and {_COLUMNS} may be")
    return {key: np.asarray(column) for key, column in found.items()}


def number_of(column: FloatArray, size: int) -> FloatArray:
    """A column as numbers. Raises ValueError, with what is wrong, where it is none."""
    if column.shape != (size,):
        raise ValueError(f"it gave shape {column.shape} for {size} outputs")
    if column.dtype.kind not in "fiub":
        raise ValueError(f"it gave {column.dtype} and no numbers")
    return column.astype(np.float64)


def same(a: FloatArray, b: FloatArray) -> bool:
    """Equal but for the last bits, which the size of a batch may change."""
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True))


def own_score(mechanism: Any) -> Score | None:
    """The score that a mechanism suggests by ``features(outputs)``."""
    found = getattr(mechanism, "features", None)
    return Score("features", found, None, suggested=True) if callable(found) else None


def scores_of(scores: Any, mechanism: Any, owner: str) -> tuple[Score, ...]:
    """Those that a user gave, callables or pairs (name, callable), and the mechanism's own."""
    if scores is not None and (not isinstance(scores, list | tuple) or len(scores) > 64):
        raise InvalidArgument(f"{owner}: scores must be a list of at most 64 callables, or pairs (name, callable), got {shown(scores)}")
    found = []
    for given in scores or ():
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
            given = Score(given[0], given[1], describe_target(given[1]))
        elif not isinstance(given, Score):
            given = Score(name_of(given), given, describe_target(given))
        require_callable("scores", given.function, owner, arguments=1)
        found.append(given)
    own = own_score(mechanism)
    every = (*found, own) if own is not None else tuple(found)
    names = [score.name for score in every]
    if len(set(names)) < len(names):
        raise InvalidArgument(f"{owner}: scores must have different names, got {', '.join(names)}; give (name, callable)")
    return every
