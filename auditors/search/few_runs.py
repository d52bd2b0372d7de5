"""Checks of a few runs, for mechanisms that are too slow for an audit in the time.

A finding shows where a violation may lie. It is not a verdict, because no error probability
covers it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic, process_time

import numpy as np

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.search.coupled import CoupledRuns
from dpwitness.auditors.workers.rounds import Stage, current_lock, task_lock
from dpwitness.core.datasets.pairs import Pair
from dpwitness.mechanisms.wrappers.recording import global_generators


@task_lock()
def run_duration(stage: Stage, clock: str) -> float:
    """Return the seconds of a run on D0 of the stage's pair, of wall time or of this process's CPU
    time.
    """
    with current_lock().seeding(), global_generators.seeded([0, 0, 0, 0]):
        return CoupledRuns(stage).duration(
            stage.pair.d0, process_time if clock == "cpu" else monotonic
        )


@task_lock()
def few_run_findings(stage: Stage, pairs: Sequence[Pair], seconds: float) -> list[tuple[int, str]]:
    """Return what two or three runs on each of some pairs show, with the number of the pair:
    another structure or exception on one dataset, outputs without noise, and noise that several
    numbers of an output share.

    The first pair is tried, and others until `seconds` are over, those of the smallest datasets
    first.
    """
    runs, end, found = CoupledRuns(stage), monotonic() + seconds, list[tuple[int, str]]()
    order = [0, *sorted(range(1, len(pairs)), key=lambda k: _fewest(pairs[k]))]
    with current_lock().seeding(), global_generators.seeded([0, 0, 0, 0]):
        for k in order:
            pair = pairs[k]
            one, zero = (runs.output(dataset, 0) for dataset in (pair.d1, pair.d0))
            if one.codes[0] != zero.codes[0]:
                shown = (f"{side.structures()[0]} on D{i}" for i, side in ((1, one), (0, zero)))
                found.append((k, f"{', but '.join(shown)} ({pair.why})"))
            elif not found:
                texts = _noise_findings(one, zero, runs.output(pair.d0, 1))
                found.extend((k, f"{text} ({pair.why})") for text in texts)
            if monotonic() > end:
                break
    return found


def _fewest(pair: Pair) -> int:
    """Return the number of records of the smaller dataset; 0 for datasets without a length."""
    return min(len(d) if hasattr(d, "__len__") else 0 for d in (pair.d0, pair.d1))


def _noise_findings(one: Outputs, zero: Outputs, again: Outputs) -> Iterator[str]:
    """Yield what is wrong with the noise, from outputs on D1 and on D0 under one seed, and on D0
    under another seed.
    """
    if zero.codes[0] != again.codes[0] or zero.values.shape != one.values.shape:
        return
    with np.errstate(invalid="ignore"):
        moved, noise = (side.values[0] - zero.values[0] for side in (one, again))
    if not noise.any():
        if moved.any():
            yield "runs with two seeds give equal outputs, which differ between D0 and D1"
        return
    # coordinates of which the noise cancels in their difference
    apart = np.abs(noise[:, None] - noise) <= 1e-9 * np.abs(noise)
    leaks = apart & (noise != 0) & (np.abs(moved[:, None] - moved) > 1e-9 * np.abs(noise))
    if leaks.any():
        i, j = np.argwhere(leaks)[0]
        yield f"numbers {i} and {j} of the output have the same noise, but move differently"
