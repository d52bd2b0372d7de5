"""Driver of StatDP, by the package ``pystatdp`` (a fork of StatDP that the registry has).

Documentation: README of StatDP. A mechanism is a function of query answers that returns one number
or a tuple, one run per call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from multiprocessing.dummy import Pool
from typing import Any

import numpy as np
from pystatdp import pystatdp
from pystatdp.core import run_algorithm
from pystatdp.hypotest import test_statistics
from pystatdp.selectors import select_event

from dpwitness.benchmarks.peers.drivers.task import (
    Answer,
    Exhausted,
    NotExpressible,
    Outputs,
    Recorded,
    Task,
)

_ALPHA = 0.05  # p-value that the paper takes for a violation
_CHUNK = 20_000
_TUPLE = 3  # most numbers of an output of which the tool can try all combinations of events
_FEW = 20  # most different values of a categorical number
_TRAINING, _EXCESS = 5_000, 50
_MOST_CALL = 1_000_000  # the tool fails for more iterations in a call
_EPSILONS = np.concatenate([np.arange(0.02, 2, 0.02), np.geomspace(2, 12, 40)])
Reduction = Callable[..., list[Any]]
_sources: dict[bytes, Iterator[Any]] = {}


def mechanism(queries: Any, epsilon: float) -> Any:
    """Return one output on a dataset: the next of a batch, because the mechanisms of the zoo are
    fast in batches only.
    """
    return next(_sources[queries.tobytes()])


def attack(task: Task) -> Answer:
    """Return the statement of the tool: a p-value below 0.05 at the claimed epsilon.

    The best settings run the tool's own steps, selection of an event and hypothesis test, and
    invert its test statistic at the counts of that event: the largest epsilon that it rejects is
    the bound. Outputs with many numbers become one number as in the tool's examples: an entry, the
    distance to a reference output, or the count of a value, whichever separates other runs best.
    """
    if task.delta:
        raise NotExpressible("the tool tests pure differential privacy only")
    datasets = tuple(np.asarray(dataset) for dataset in task.datasets)
    rng = task.generator()
    reduce = _reduction(task, rng) if task.best else _as_tuple
    for side, dataset in enumerate(datasets):
        _sources[dataset.tobytes()] = _outputs(task, side, rng, reduce)
    np.random.seed(task.seed)  # the tool's own randomness
    kwargs = {"epsilon": task.epsilon}
    if task.best:
        return _best(task, datasets, kwargs)
    if (
        isinstance(task.mechanism, Recorded)
        # default number of runs on each dataset
        and 2 * 600_000 * task.mechanism.cost > task.cpu_seconds
    ):
        # the tool's own process would take the outputs, and the cost of the library would be lost
        raise Exhausted
    options = {"databases": datasets, "cores": 1, "quiet": True, "loglevel": logging.ERROR}
    (found,) = pystatdp().detect_counterexample(mechanism, task.epsilon, kwargs, **options)
    return Answer(found[1] < _ALPHA, None, f"p = {found[1]:.3g}")


def _best(task: Task, datasets: tuple[Any, ...], kwargs: dict[str, float]) -> Answer:
    size = min(task.size, _MOST_CALL)
    with Pool(1) as pool:
        *_, event = select_event(
            mechanism,
            ((*datasets, kwargs),),
            task.epsilon,
            max(size // 5, 100),
            quiet=True,
            process_pool=pool,
        )
    total, runs = np.zeros(2, dtype=np.int64), 0
    while runs < task.size:
        part = min(task.size - runs, _MOST_CALL)
        counts, _ = run_algorithm(mechanism, *datasets, kwargs, event, part)
        total, runs = total + counts[0], runs + part
    p_values = [
        test_statistics(int(total.max()), int(total.min()), epsilon, runs) for epsilon in _EPSILONS
    ]
    accepted = np.flatnonzero(np.asarray(p_values) >= 1 - task.confidence)
    rejected = accepted[0] if accepted.size else len(_EPSILONS)
    bound = float(_EPSILONS[rejected - 1]) if rejected else 0.0
    violated = (
        test_statistics(int(total.max()), int(total.min()), task.epsilon, runs)
        < 1 - task.confidence
    )
    return Answer(violated, bound, f"{2 * runs} runs")


def _outputs(task: Task, side: int, rng: np.random.Generator, reduce: Reduction) -> Iterator[Any]:
    while True:
        yield from reduce(task.draw(side, getattr(task.mechanism, "chunk", _CHUNK), rng))


def _as_tuple(outputs: Outputs) -> list[Any]:
    if outputs.shape[1] == 1:
        return list(outputs[:, 0])
    if outputs.shape[1] > _TUPLE:
        raise NotExpressible(
            f"the tool tries all combinations of events of the {outputs.shape[1]} numbers of "
            "an output"
        )
    return [tuple(row) for row in outputs]


def _reduction(task: Task, rng: np.random.Generator) -> Reduction:
    """Return the function from outputs to what the tool reads: for long outputs, the candidate that
    separates other runs best.
    """
    samples = [task.draw(side, min(_TRAINING, max(task.size // 5, 200)), rng) for side in (0, 1)]
    if samples[0].shape[1] <= _TUPLE:
        return _as_tuple
    separations = [
        _separation(*(np.asarray(reduce(sample), dtype=float) for sample in samples))
        for reduce in _candidates(samples)
    ]
    return _candidates(samples)[int(np.argmax(separations))]


def _candidates(samples: list[Outputs]) -> list[Reduction]:
    """Return reductions to one number: single entries, and for categorical outputs distances to
    usual outputs and counts of a value.
    """
    found: list[Reduction] = [
        lambda outputs, column=column: list(outputs[:, column])
        for column in range(samples[0].shape[1])
    ]
    values = np.unique(samples)
    if len(values) <= _FEW:
        usual = [np.median(sample, axis=0) for sample in samples]
        found += [
            lambda outputs, near=near: list(np.count_nonzero(outputs != near, axis=1))
            for near in usual
        ]
        found += [
            lambda outputs, value=value: list(np.count_nonzero(outputs == value, axis=1))
            for value in values
        ]
    return found


def _separation(first: Outputs, second: Outputs) -> float:
    """Return the largest log ratio of the frequencies of a value or tail, with an excess that makes
    rare events count less.
    """
    cuts = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, 21)))
    events = [
        np.stack([part <= cut for cut in cuts] + [part == cut for cut in cuts]).sum(axis=1)
        + _EXCESS
        for part in (first, second)
    ]
    return float(np.abs(np.log(events[0] / events[1])).max())
