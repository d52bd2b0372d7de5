"""Recorded outputs of bugs of the recall corpus: each library runs in its own interpreter once, and
all tools read the same outputs.

A tool pays the processor time of the library for each output that it takes, so recordings change no
figure.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.benchmarks.recall.campaign import declared_kind
from dpwitness.benchmarks.recall.corpus import Entry
from dpwitness.core.claims import ApproxDP, parse_claim
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import home

Outputs = NDArray[np.float64]
MISSING = -1.0  # number for a missing output, which the experiments of DP-Sniper use
# columns whose usual size is larger are divided by it, because networks need small numbers
_LARGE = 100.0
_UNBOUNDED = 1e9  # number for an infinite output
_MOST = 1_000_000  # outputs per dataset
_BATCH, _BATCH_SECONDS = 4096, 0.5
_PATIENCE = 4  # multiple of the CPU seconds by the clock after which a recording ends


class NoForm(Exception):
    """The entry has no form in any tool that compares distributions of numbers at an (epsilon,
    delta) claim.
    """


def recording(entry: Entry, cpu_seconds: float) -> Path:
    """Return the file of the outputs of an entry that were recorded in these CPU seconds, in the
    user's cache.
    """
    return home().parent / "recordings" / f"{entry.name}-{cpu_seconds:g}.npz"


def _location(entry: Entry) -> tuple[str, str, str]:
    """Return the file and the name of the target, and the interpreter of the release
    with the bug.
    """
    assert entry.before.environment is not None
    file, _, name = entry.target.rpartition(":")
    return file, name, str(entry.before.environment.interpreter)


def record(entry: Entry, pair: Any, cpu_seconds: float) -> None:
    """Run the release with the bug on both datasets until its CPU seconds are spent, and write the
    outputs.

    Parameters
    ----------
    entry : Entry
        Entry of the corpus, whose environment is installed.
    pair : dict or None
        The pair in JSON form; the first pair of the catalog if None.
    cpu_seconds : float
        Processor time of the library for both datasets.

    Raises
    ------
    NoForm
        If the claim is not an (epsilon, delta) claim, or the outputs are not vectors of numbers.
        The message has the reason.
    """
    file, name, python = _location(entry)
    if kind := declared_kind(entry, python):
        raise NoForm(f"the target is not a mechanism, but a function of kind {kind}")
    target = Target(file, name, python)
    try:
        claim = _claim(target)
        datasets = _datasets(target, pair)
        outputs, cost = _drawn(target, datasets, cpu_seconds)
    except InvalidArgument as error:
        raise NoForm(f"the target cannot be loaded: {error}") from None
    finally:
        target.close()
    path = recording(entry, cpu_seconds)
    path.parent.mkdir(parents=True, exist_ok=True)
    first, second = numbers(outputs)
    np.savez(
        path,
        first=first,
        second=second,
        cost=cost,
        epsilon=claim.epsilon,
        delta=claim.delta_budget,
        bits=entry.bits,
    )


def _claim(target: Target) -> ApproxDP:
    text = target.describe()["claim"]
    found = parse_claim(text)
    if not isinstance(found, ApproxDP):
        raise NoForm(f"the claim is {text}, and not (epsilon, delta)")
    return found


def _datasets(target: Target, pair: Any) -> tuple[Any, Any]:
    if pair is not None:
        return from_jsonable(pair["d0"]), from_jsonable(pair["d1"])
    domain = target.domain
    if domain is None:
        raise NoForm("there is no pair of datasets")
    first = pairs_for(domain)[0]
    return first.d0, first.d1


def _drawn(
    target: Target, datasets: tuple[Any, Any], cpu_seconds: float
) -> tuple[tuple[Outputs, Outputs], float]:
    """Return equally many outputs on both datasets, and the CPU seconds per output."""
    rng, parts = np.random.default_rng(0), (list[Outputs](), list[Outputs]())
    size, runs, end = 10, 0, time.monotonic() + _PATIENCE * cpu_seconds
    most = target.batch or _BATCH
    while target.cpu_seconds < cpu_seconds and runs < _MOST and time.monotonic() < end:
        for side, dataset in enumerate(datasets):
            try:
                parts[side].append(vectors(target.sample(dataset, size, rng), size))
            except NoForm:
                raise
            except Exception as error:
                raise NoForm(f"the library raises {error_text(error)[:120]}") from None
        runs += size
        per_run = target.cpu_seconds / (2 * runs)
        size = int(
            min(max(_BATCH_SECONDS / max(per_run, 1e-9), 1), most, 4 * size, max(_MOST - runs, 1))
        )
    try:
        return (np.vstack(parts[0]), np.vstack(parts[1])), target.cpu_seconds / (2 * runs)
    except ValueError:
        raise NoForm("outputs are vectors of different lengths") from None


def vectors(outputs: Any, size: int) -> Outputs:
    """Return outputs as numbers of shape (size, k), NaN where one is missing.

    Raises
    ------
    NoForm
        If the outputs are not numbers, or not equally many in each run.
    """
    rows: Sequence[Any] = outputs
    if not isinstance(outputs, np.ndarray):
        width = next((len(row) for row in outputs if isinstance(row, list | tuple)), None)
        rows = (
            outputs
            if width is None
            else [[None] * width if row is None else row for row in outputs]
        )
    try:
        return np.asarray(rows, dtype=np.float64).reshape(size, -1)
    except (TypeError, ValueError):
        raise NoForm("outputs are not vectors of numbers of one length") from None


def numbers(outputs: tuple[Outputs, Outputs]) -> list[Outputs]:
    """Return outputs with finite numbers only, for missing and infinite numbers, and with large
    columns divided by their usual size.

    Examples
    --------
    >>> numbers((np.array([[500.0, np.nan]]), np.array([[500.0, 2.0]])))
    [array([[ 1., -1.]]), array([[1., 2.]])]
    """
    if outputs[0].shape[1] != outputs[1].shape[1]:
        raise NoForm("outputs are vectors of different lengths")
    both = np.abs(np.vstack(outputs))
    usual = np.array(
        [
            np.median(column[np.isfinite(column)]) if np.isfinite(column).any() else 1.0
            for column in both.T
        ]
    )
    scale = np.where(usual > _LARGE, usual, 1.0)
    return [
        np.nan_to_num(part / scale, nan=MISSING, posinf=_UNBOUNDED, neginf=-_UNBOUNDED)
        for part in outputs
    ]
