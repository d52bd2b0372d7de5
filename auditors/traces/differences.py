"""Differences between runs on the two sides of a pair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.witnesses.trace_evidence import Finding
from dpwitness.auditors.workers.environment_errors import check_exception_text
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_reader import Json


def describe_replay_difference(again: Json) -> str:
    """Return a description of how a replay on the recorded dataset differs from the record; empty
    if the replay is equal.

    Compares the output, the calls and the inputs.
    """
    if again["output"] or again["differences"]:
        return str(again["output"] or again["differences"][0]["text"])
    table = again["table"]
    for i in range(len(table["primitive"])):
        if table["linf"][i] > 0 or table["alone"][i]:
            return f"the input of {table['names'][table['primitive'][i]]} is {table['text'][i]}"
    return ""


def close(a: Any, b: Any) -> bool:
    """Return whether two arrays are equal to 1e-4 of their largest entry."""
    size = float(max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0)))
    return bool(np.isfinite(size) and np.max(np.abs(a - b), initial=0.0) <= 1e-4 * size)


def always(own: list[Json], others: list[Json]) -> Iterator[Finding]:
    """Yield findings for parts of the output that are constant on each dataset and differ between
    the datasets.
    """
    raised = [{bool(r["raised"]) for r in side} for side in (own, others)]
    if all(len(side) == 1 for side in raised) and raised[0] != raised[1]:
        message = next(r["raised"] for r in (*own, *others) if r["raised"])
        check_exception_text("one dataset", message)
        yield Finding("EXCEPTION", f"it raises on one side only, whatever the noise: {message}")
        return
    sides = [[r for r in side if not r["raised"]] for side in (own, others)]
    if not all(sides):
        return
    sizes = [{np.size(r["numbers"]) for r in side} for side in sides]
    if all(len(side) == 1 for side in sizes) and sizes[0] != sizes[1]:
        yield Finding(
            "OUTPUT", f"it has {sizes[0].pop()} numbers and {sizes[1].pop()}, whatever the noise"
        )
        return
    if any(len(side) != 1 for side in sizes) or sizes[0] != sizes[1]:
        return
    first, second = (np.array([r["numbers"] for r in side], dtype=float) for side in sides)
    nan = [np.isnan(side) for side in (first, second)]
    lone = np.flatnonzero(
        (nan[0].all(axis=0) & ~nan[1].any(axis=0)) | (nan[1].all(axis=0) & ~nan[0].any(axis=0))
    )
    if lone.size:
        yield Finding(
            "OUTPUT", f"number {lone[0]} of the output is NaN on one side only, whatever the noise"
        )
        return
    fixed = (
        _equal(first, first[0]).all(axis=0)
        & _equal(second, second[0]).all(axis=0)
        & ~_equal(first[0], second[0])
    )
    if fixed.any():
        k = int(np.flatnonzero(fixed)[0])
        yield Finding(
            "OUTPUT",
            f"number {k} of the output is {first[0, k]:.6g} and {second[0, k]:.6g}, whatever "
            "the noise",
        )
        return
    texts = [{tuple(r["texts"]) for r in side} for side in sides]
    if all(len(side) == 1 for side in texts) and texts[0] != texts[1]:
        yield Finding(
            "OUTPUT",
            f"it holds {list(texts[0].pop())[:3]} and {list(texts[1].pop())[:3]}, whatever "
            "the noise",
        )


def _equal(a: FloatArray, b: FloatArray) -> NDArray[np.bool_]:
    """Return where two arrays are equal; NaN equals NaN."""
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))
