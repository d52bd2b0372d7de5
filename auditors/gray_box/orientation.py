"""The two sides of a pair: choice of the recorded dataset, and differences between the runs on both sides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dpwitness.auditors.black_box.environment_errors import check_exception_text
from dpwitness.auditors.gray_box.calls import record_count
from dpwitness.auditors.results.trace_result import Finding
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.data.pairs import Pair


def describe_replay_difference(again: Json) -> str:
    """Return a description of how a replay on the recorded dataset differs from the record; empty if the replay is equal.

    Compares the output, the calls and the inputs.
    """
    if again["output"] or again["differences"]:
        return str(again["output"] or again["differences"][0]["told"])
    table = again["table"]
    for i in range(len(table["primitive"])):
        if table["linf"][i] > 0 or table["alone"][i]:
            return f"the input of {table['names'][table['primitive'][i]]} is {table['told'][i]}"
    return ""


def close(a: Any, b: Any) -> bool:
    """Return whether two arrays are equal to 1e-4 of their largest entry."""
    size = float(max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0)))
    return bool(np.isfinite(size) and np.max(np.abs(a - b), initial=0.0) <= 1e-4 * size)


def always(own: list[Json], others: list[Json]) -> Iterable[Finding]:
    """Yield findings for parts of the output that are constant on each dataset and differ between the datasets."""
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
        yield Finding("OUTPUT", f"it has {sizes[0].pop()} numbers and {sizes[1].pop()}, whatever the noise")
        return
    if any(len(side) != 1 for side in sizes) or sizes[0] != sizes[1]:
        return
    first, second = (np.array([r["numbers"] for r in side], dtype=float) for side in sides)
    nan = np.flatnonzero(
        (np.isnan(first).all(axis=0) & ~np.isnan(second).any(axis=0)) | (np.isnan(second).all(axis=0) & ~np.isnan(first).any(axis=0))
    )
    if nan.size:
        yield Finding("OUTPUT", f"number {nan[0]} of the output is NaN on one side only, whatever the noise")
        return
    with np.errstate(invalid="ignore"):
        fixed = ((first == first[0]) | (np.isnan(first) & np.isnan(first[0]))).all(axis=0)
        fixed &= ((second == second[0]) | (np.isnan(second) & np.isnan(second[0]))).all(axis=0)
        fixed &= ~((first[0] == second[0]) | (np.isnan(first[0]) & np.isnan(second[0])))
    if fixed.any():
        k = int(np.flatnonzero(fixed)[0])
        yield Finding("OUTPUT", f"number {k} of the output is {first[0, k]:.6g} and {second[0, k]:.6g}, whatever the noise")
        return
    texts = [{tuple(r["texts"]) for r in side} for side in sides]
    if all(len(side) == 1 for side in texts) and texts[0] != texts[1]:
        yield Finding("OUTPUT", f"it holds {list(texts[0].pop())[:3]} and {list(texts[1].pop())[:3]}, whatever the noise")


def sides(pair: Pair) -> tuple[Any, Any, tuple[int, int] | None]:
    """Return the dataset to record, the dataset to replay on, and the missing record as (number of records, index), or None.

    The dataset with more records is recorded: then the draws for a record that is missing on the other side can be left out.
    """
    sizes = [record_count(d) for d in (pair.d1, pair.d0)]
    if None in sizes or sizes[0] == sizes[1]:
        return pair.d1, pair.d0, None
    large, small = (pair.d1, pair.d0) if sizes[0] > sizes[1] else (pair.d0, pair.d1)  # type: ignore[operator]
    if abs(sizes[0] - sizes[1]) != 1:  # type: ignore[operator]
        return large, small, None
    missing_index = next((k for k in range(len(small)) if not _same(large[k], small[k])), len(small))
    return large, small, (len(large), missing_index)


def _same(a: Any, b: Any) -> bool:
    """Return whether two records are equal; arrays with NaN in the same places are equal."""
    try:
        return bool(np.array_equal(a, b, equal_nan=True))
    except (TypeError, ValueError):
        return bool(a == b)
