"""Mechanisms whose outputs include scores, and the test that scores are numbers and functions of
each output alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.events.outputs import (
    Key,
    Score,
    ScoredOutputs,
    guarded,
    numeric_column,
    same_scores,
    score_columns,
)
from dpwitness.auditors.workers.engine import Stage, stream
from dpwitness.auditors.workers.fitness import Unfit
from dpwitness.auditors.workers.rounds import Run
from dpwitness.core.protocols.mechanism import FloatArray, MechanismFailed, Parts

_TEST_OUTPUTS = 64  # test outputs of each dataset


@dataclass(frozen=True, slots=True)
class ScoredMechanism:
    """Wrapper of a mechanism that adds scores to its outputs."""

    run: Run
    scores: tuple[Score, ...]

    def __call__(self, dataset: Any, size: int, rng: Generator) -> Any:
        """Return the outputs of `size` runs with their scores."""
        try:
            raw = self.run(dataset, size, rng)
        except (MechanismFailed, MemoryError):
            raise
        except Exception as error:
            if size > 1:
                raise
            raw = [error.with_traceback(None)]
        return ScoredOutputs(
            raw, np.column_stack([self._columns(score, raw, size) for score in self.scores])
        )

    def _columns(self, score: Score, raw: Any, size: int) -> FloatArray:
        """Return one score of all outputs; raise Unfit if the score of the first output depends on
        the others.
        """
        if isinstance(raw, Parts):
            parts = [part if isinstance(part, list) or np.ndim(part) else [part] for part in raw]
            return np.concatenate([score.columns(part, len(part)) for part in parts])
        found = score.columns(raw, size)
        if size > 1 and not same_scores(found[:1], score.columns(raw[:1], 1)):
            raise Unfit(
                f"score {score.name} is not a function of each output alone: its values "
                "change with the other outputs of a batch"
            )
        return found


def usable_scores_of(
    stage: Stage, scores: Sequence[Score]
) -> tuple[tuple[Score, ...], list[str], int]:
    """Return the usable scores with their usable columns, notes on the others, and the number of
    runs used.

    A column is usable if it holds numbers that are functions of each output alone.
    """
    batches = [
        batch
        for side, dataset in enumerate((stage.pair.d1, stage.pair.d0))
        for batch in _test_batches(stage, dataset, side)
    ]
    usable_scores, notes = [], []
    for score in scores:
        keys: dict[Key, str] = {}
        for raw, size in batches:
            for key, problem in _column_problems(score, raw, size):
                keys[key] = keys.get(key, "") or problem
        for key, problem in keys.items():
            if problem:
                notes.append(f"score {score.label(key)} was left out: {problem}")
        usable = tuple(key for key, problem in keys.items() if not problem)
        if usable:
            usable_scores.append(replace(score, keys=usable))
        elif not keys:
            notes.append(f"score {score.name} was left out: there was no output to try it on")
    return tuple(usable_scores), notes, 2 * _TEST_OUTPUTS


def _test_batches(stage: Stage, dataset: Any, side: int) -> Iterator[tuple[Any, int]]:
    """Yield a batch of outputs and its size; if the batch raises, yield the single runs that do not
    raise.
    """
    try:
        yield stage.run(dataset, _TEST_OUTPUTS, stream(stage.seed, *stage.key, side)), _TEST_OUTPUTS
    except MechanismFailed:
        raise
    except Exception:
        for i in range(_TEST_OUTPUTS):
            try:
                raw = stage.run(dataset, 1, stream(stage.seed, *stage.key, 2 + side, i))
            except MechanismFailed:
                raise
            except Exception:
                continue
            yield raw, 1


def _column_problems(score: Score, raw: Any, size: int) -> Iterator[tuple[Key, str]]:
    """Yield each column of a score with a description of its problem, empty if there is none."""
    if isinstance(raw, Parts):
        raw, size = raw[0], len(raw[0])
    try:
        found = score_columns(score.function(guarded(raw)), size)
        second_call = score_columns(score.function(guarded(raw)), size)
        single_calls = [
            score_columns(score.function(guarded(raw[i : i + 1])), 1) for i in range(min(size, 4))
        ]
    except MechanismFailed:
        raise
    except ValueError as error:
        yield (
            None,
            str(error)
            if str(error).startswith("it gave")
            else f"it raises ValueError: {str(error)[:200]}",
        )
        return
    except Exception as error:
        yield None, f"it raises {type(error).__name__}: {str(error)[:200]}"
        return
    for key, column in found.items():
        try:
            values = numeric_column(column, size)
            one_by_one = np.concatenate([numeric_column(each[key], 1) for each in single_calls])
            if np.isnan(values).any():
                yield key, f"it gave NaN for {int(np.isnan(values).sum())} of {size} outputs"
            elif not same_scores(values, numeric_column(second_call[key], size)):
                yield key, "it gave different values for the same outputs"
            elif not same_scores(values[: len(one_by_one)], one_by_one):
                yield (
                    key,
                    "it is not a function of each output alone: its values change with the "
                    "other outputs of a batch",
                )
            else:
                yield key, ""
        except KeyError:
            yield key, "it gave different columns for fewer outputs"
        except ValueError as error:
            yield key, str(error)
