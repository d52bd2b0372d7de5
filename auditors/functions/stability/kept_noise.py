"""Whether a transformation keeps noise: outcomes of two inputs in fresh states, in which the noise
would be drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.functions.stability.outcomes import EXCEEDS, Comparison, Failure
from dpwitness.auditors.functions.stability.search import Found
from dpwitness.auditors.statistics.dependence import log_dependence, mean_evidence
from dpwitness.auditors.workers.fresh_processes import STATES, in_new_processes
from dpwitness.auditors.workers.memos import memos_of
from dpwitness.mechanisms.wrappers.programs.declared import Unfinished

_SECONDS = 0.5  # time limit of the runs in fresh states
_MOST_DEPENDENCE = math.log(1000)  # log-evidence from which runs are not taken as independent
_LEAST_BLOCK = 2  # consecutive runs of one input that are compared with the others
_BLOCKS = 4  # smallest number of blocks


def fresh_outcomes(
    apply: Callable[[Sequence[Any]], list[Any]], datasets: Sequence[Any]
) -> list[list[Any]]:
    """Return the outcomes of the datasets in each fresh state; states in which all runs fail are
    left out.
    """
    if not isinstance(apply, partial):  # a transformation that runs in processes of its own
        return []
    found = in_new_processes(partial(_outcomes, apply, tuple(datasets)), STATES, _SECONDS)
    if not found:
        memos = memos_of(partial(_output, apply), datasets, 0, _SECONDS)
        for _ in range(STATES):
            with memos.emptied():
                found.append(apply(datasets))
    return [
        outcomes
        for outcomes in found
        if not all(isinstance(each, Failure | Unfinished) for each in outcomes)
    ]


def _outcomes(
    apply: Callable[[Sequence[Any]], list[Any]], datasets: Sequence[Any], _: int
) -> list[Any]:
    return apply(datasets)


def _output(apply: Callable[[Sequence[Any]], list[Any]], dataset: Any, *_: Any) -> Any:
    """Return the output of a dataset. Raise ValueError if there is none."""
    (found,) = apply([dataset])
    if isinstance(found, Failure | Unfinished):
        raise ValueError("the transformation fails")
    return found


def is_kept(
    found: Found, apply: Callable[[Sequence[Any]], list[Any]], comparison: Comparison
) -> bool:
    """Return whether the outcomes of a transformation that looks deterministic show another finding
    in some fresh state.
    """
    if found.excess.kind != EXCEEDS:
        return False
    excesses = [
        comparison.excess(first, second, found.d_in)
        for first, second in fresh_outcomes(apply, [found.first, found.second])
    ]
    return any(
        each is None or each.kind != found.excess.kind or each.measured != found.excess.measured
        for each in excesses
    )


def depends(indicator: NDArray[np.bool_], fresh: NDArray[np.bool_]) -> bool:
    """Return whether runs depend on each other: those of a test, in their order, or those of fresh
    states in comparison.
    """
    logs, size = list[float](), _LEAST_BLOCK
    while len(indicator) // size >= _BLOCKS:
        counts = indicator[: len(indicator) // size * size].reshape(-1, size).sum(axis=1)
        logs.append(log_dependence(np.column_stack([counts, size - counts])))
        size *= 2
    groups = [
        [int(indicator.sum()), int((~indicator).sum())],
        *([int(each), int(not each)] for each in fresh),
    ]
    return mean_evidence([log_dependence(groups), mean_evidence(logs)]) > _MOST_DEPENDENCE
