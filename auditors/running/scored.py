"""Mechanisms whose outputs come with their scores; and which scores are numbers, and functions of each output alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.events.outputs import Seen
from dpwitness.auditors.events.scores import Key, Score, columns_of, guarded, number_of, same
from dpwitness.auditors.running.engine import Stage, stream
from dpwitness.auditors.running.health import Unfit
from dpwitness.auditors.running.rounds import Run
from dpwitness.mechanisms.terms.protocol import FloatArray, MechanismFailed, Parts

_TRIED = 64  # outputs of each dataset
_ALONE = 4  # of them, one by one


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
        if size > 1 and not same(found[:1], score.columns(raw[:1], 1)):
            raise Unfit(f"score {score.name} is no function of each output alone: its values change with the other outputs of a batch")
        return found


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
        found = columns_of(score.function(guarded(raw)), size)
        again = columns_of(score.function(guarded(raw)), size)
        alone = [columns_of(score.function(guarded(raw[i : i + 1])), 1) for i in range(min(size, _ALONE))]
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
            values = number_of(column, size)
            one_by_one = np.concatenate([number_of(each[key], 1) for each in alone])
            if np.isnan(values).any():
                yield key, f"it gave NaN for {int(np.isnan(values).sum())} of {size} outputs"
            elif not same(values, number_of(again[key], size)):
                yield key, "it gave other values for the same outputs"
            elif not same(values[: len(one_by_one)], one_by_one):
                yield key, "it is no function of each output alone: its values change with the other outputs of a batch"
            else:
                yield key, ""
        except KeyError:
            yield key, "it gave other columns for fewer outputs"
        except ValueError as error:
            yield key, str(error)
