"""Scores: numbers computed from an output that a mechanism suggests or a user gives. They stand in columns before the output's own numbers.

A score takes what ``sample`` returned for n runs and gives n numbers: an array (n,), or several columns, (n, k) or a dict of arrays (n,).
It must be a function of each output alone, for an event is a set of outputs: one that looks at its neighbours in a batch, all of one
dataset, would tell the datasets apart by itself. That is tried beforehand, and in every batch on its first output. Where a call raises or
gives the wrong length, outputs are scored one by one, and one that cannot be is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpwitness.auditors.engine import Stage, stream
from dpwitness.auditors.health import Unfit
from dpwitness.auditors.outputs import Seen
from dpwitness.auditors.rounds import Run
from dpwitness.auditors.targets import describe_target
from dpwitness.mechanisms.protocol import MechanismFailed, Parts, name_of
from dpwitness.mechanisms.validation import InvalidArgument, require_callable, shown

__all__ = ["Score", "Scored", "own_score", "scores_of", "try_scores"]

FloatArray = NDArray[np.float64]
Key = str | int | None

_TRIED = 64  # outputs of each dataset
_ALONE = 4  # of them, one by one
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
    target: dict[str, Any] | None = None
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
            found = _columns(self.function(_guarded(raw)), size)
            return np.column_stack([_number(found[key], size) for key in self.keys])
        except MechanismFailed:
            raise
        except Exception:
            if size == 1:
                return np.full((1, len(self.keys)), np.nan)
        return np.concatenate([self.columns(raw[i : i + 1], 1) for i in range(size)])

    def to_json(self) -> dict[str, Any]:
        """How a witness records it."""
        return {"name": self.name, "target": self.target, "suggested": self.suggested, "keys": list(self.keys)}


@dataclass(frozen=True, slots=True)
class Scored:
    """A mechanism whose outputs come with their scores."""

    run: Run
    scores: tuple[Score, ...]

    def __call__(self, dataset: Any, size: int, rng: Generator) -> Any:
        try:
            raw = self.run(dataset, size, rng)
        except (MechanismFailed, MemoryError):
            raise
        except Exception as error:
            if size > 1:
                raise
            raw = [error.with_traceback(None)]
        return Seen(raw, np.column_stack([self._columns(score, raw, size) for score in self.scores]))

    def _columns(self, score: Score, raw: Any, size: int) -> FloatArray:
        if isinstance(raw, Parts):
            parts = [part if isinstance(part, list) or np.ndim(part) else [part] for part in raw]
            return np.concatenate([score.columns(part, len(part)) for part in parts])
        found = score.columns(raw, size)
        if size > 1 and not _same(found[:1], score.columns(raw[:1], 1)):
            raise Unfit(f"score {score.name} is no function of each output alone: its values change with the other outputs of a batch")
        return found


def _guarded(raw: Any) -> Any:
    """Arrays that cannot be written to."""
    if not isinstance(raw, np.ndarray):
        return raw
    view = raw.view()
    view.flags.writeable = False
    return view


def _columns(value: Any, size: int) -> dict[Key, FloatArray]:
    """Columns by key. Raises ValueError, with what is wrong, for what is none."""
    if isinstance(value, dict):
        found: dict[Key, Any] = {str(key): column for key, column in value.items()}
    else:
        array = np.asarray(value)
        found = {None: array} if array.ndim != 2 else dict(enumerate(array.T))
    if not 1 <= len(found) <= _COLUMNS:
        raise ValueError(f"it gave {len(found)} columns, between 1 and {_COLUMNS} may be")
    return {key: np.asarray(column) for key, column in found.items()}


def _number(column: FloatArray, size: int) -> FloatArray:
    """A column as numbers. Raises ValueError, with what is wrong, where it is none."""
    if column.shape != (size,):
        raise ValueError(f"it gave shape {column.shape} for {size} outputs")
    if column.dtype.kind not in "fiub":
        raise ValueError(f"it gave {column.dtype} and no numbers")
    return column.astype(np.float64)


def _same(a: FloatArray, b: FloatArray) -> bool:
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


def try_scores(stage: Stage, scores: Sequence[Score]) -> tuple[tuple[Score, ...], list[str], int]:
    """The scores, and their columns, that are numbers and functions of each output alone; notes on the others; how many runs that took."""
    batches = [batch for side, dataset in enumerate((stage.pair.d1, stage.pair.d0)) for batch in _batches(stage, dataset, side)]
    kept, notes = [], []
    for score in scores:
        keys: dict[Key, str] = {}
        for raw, size in batches:
            for key, wrong in _tried(score, raw, size):
                keys[key] = keys.get(key, "") or wrong
        for key, wrong in keys.items():
            if wrong:
                notes.append(f"score {score.label(key)} was left out: {wrong}")
        good = tuple(key for key, wrong in keys.items() if not wrong)
        if good:
            kept.append(replace(score, keys=good))
        elif not keys:
            notes.append(f"score {score.name} was left out: there was no output to try it on")
    return tuple(kept), notes, 2 * _TRIED


def _batches(stage: Stage, dataset: Any, side: int) -> Iterator[tuple[Any, int]]:
    """A batch, or where that raises single runs that do not."""
    try:
        yield stage.run(dataset, _TRIED, stream(stage.seed, *stage.key, side)), _TRIED
    except MechanismFailed:
        raise
    except Exception:
        for i in range(_TRIED):
            try:
                raw = stage.run(dataset, 1, stream(stage.seed, *stage.key, 2 + side, i))
            except MechanismFailed:
                raise
            except Exception:
                continue
            yield raw, 1


def _tried(score: Score, raw: Any, size: int) -> Iterator[tuple[Key, str]]:
    """Each column of a score with what is wrong with it, empty if nothing."""
    if isinstance(raw, Parts):
        raw, size = raw[0], len(raw[0])
    try:
        found = _columns(score.function(_guarded(raw)), size)
        again = _columns(score.function(_guarded(raw)), size)
        alone = [_columns(score.function(_guarded(raw[i : i + 1])), 1) for i in range(min(size, _ALONE))]
    except MechanismFailed:
        raise
    except ValueError as error:
        yield None, str(error) if str(error).startswith("it gave") else f"it raises ValueError: {str(error)[:200]}"
        return
    except Exception as error:
        yield None, f"it raises {type(error).__name__}: {str(error)[:200]}"
        return
    for key, column in found.items():
        try:
            values = _number(column, size)
            one_by_one = np.concatenate([_number(each[key], 1) for each in alone])
            if np.isnan(values).any():
                yield key, f"it gave NaN for {int(np.isnan(values).sum())} of {size} outputs"
            elif not _same(values, _number(again[key], size)):
                yield key, "it gave other values for the same outputs"
            elif not _same(values[: len(one_by_one)], one_by_one):
                yield key, "it is no function of each output alone: its values change with the other outputs of a batch"
            else:
                yield key, ""
        except KeyError:
            yield key, "it gave other columns for fewer outputs"
        except ValueError as error:
            yield key, str(error)
