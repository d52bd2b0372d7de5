"""Shrinking of a finding to the smallest inputs that still show it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from dpwitness.auditors.functions.stability.exact_numbers import Incomparable
from dpwitness.auditors.functions.stability.inputs.spaces import InputSpace
from dpwitness.auditors.functions.stability.metrics import Metric, input_key
from dpwitness.auditors.functions.stability.outcomes import Comparison
from dpwitness.auditors.functions.stability.search import Found, Search

_BATCH = 16  # candidates that are evaluated together
_ENTRIES = 40  # positions whose values are made simpler one by one

RowPair = tuple[list[Any], list[Any]]


def shrunk(
    found: Found, space: InputSpace, input_metric: Metric, search: Search, seconds: float
) -> Found:
    """Return the finding with smaller inputs: fewer rows, simpler values, and the
    smallest `d_in`.
    """
    deadline = time.monotonic() + seconds
    improved = True
    while improved:
        improved = False
        for candidates in (_with_less_rows, _with_simpler_values, _with_simpler_entries):
            place = 0
            while time.monotonic() < deadline:
                rows = space.rows(found.first), space.rows(found.second)
                better, place = _next_better(
                    found,
                    islice(candidates(*rows, space), place, None),
                    place,
                    space,
                    input_metric,
                    search,
                )
                if better is None:
                    break
                found, improved = better, True
    return found


def _next_better(
    found: Found,
    candidates: Iterator[RowPair],
    place: int,
    space: InputSpace,
    metric: Metric,
    search: Search,
) -> tuple[Found | None, int]:
    """Return the first candidate that shows the same kind of finding, and its place; (None, the
    number of candidates) if there is none.
    """
    while True:
        batch: list[tuple[Any, Any, Any] | None] = []
        for first, second in islice(candidates, _BATCH):
            datasets = space.build(first), space.build(second)
            if datasets == (found.first, found.second):
                batch.append(None)
                continue
            within = distance_within(*datasets, space, metric, search.comparison)
            batch.append(None if within is None or within > found.d_in else (*datasets, within))
        if not batch:
            return None, place
        at = _first_that_shows([each for each in batch if each is not None], found, search)
        if at is not None:
            better, number = at
            return better, place + [i for i, each in enumerate(batch) if each is not None][number]
        place += len(batch)


def distance_within(
    first: Any, second: Any, space: InputSpace, metric: Metric, comparison: Comparison
) -> Any:
    """Return the smallest audited `d_in` that two datasets do not exceed; None if they do, or one
    is not of the space.
    """
    if not space.contains(first) or not space.contains(second):
        return None
    try:
        distance = metric.measure(first, second, strict=True)
    except Incomparable:
        return None
    return next((d for d in sorted(comparison.bounds) if not distance > d**metric.root), None)


def _first_that_shows(
    batch: list[tuple[Any, Any, Any]], found: Found, search: Search
) -> tuple[Found, int] | None:
    """Return the first candidate that shows the same kind of finding, and its position."""
    outcomes = search.apply([dataset for first, second, _ in batch for dataset in (first, second)])
    for i, ((first, second, d_in), left, right) in enumerate(
        zip(batch, outcomes[::2], outcomes[1::2], strict=True)
    ):
        excess = search.comparison.excess(left, right, d_in)
        if excess is not None and excess.kind == found.excess.kind:
            return replace(
                found, first=first, second=second, d_in=d_in, outcomes=(left, right), excess=excess
            ), i
    return None


def _with_less_rows(first: list[Any], second: list[Any], space: InputSpace) -> Iterator[RowPair]:
    """Yield the pair without common rows, many at once first, then without a row of one side."""
    if space.size is not None:
        return
    size = max(len(first), len(second))
    while size:
        for start in range(0, max(len(first), len(second)), size):
            cut = first[start : start + size]
            yield first[:start] + first[start + size :], _without(second, cut)
            yield first[:start] + first[start + size :], second[:start] + second[start + size :]
        size //= 2
    for i in range(len(first)):
        yield first[:i] + first[i + 1 :], second
    for i in range(len(second)):
        yield first, second[:i] + second[i + 1 :]


def _with_simpler_values(
    first: list[Any], second: list[Any], space: InputSpace
) -> Iterator[RowPair]:
    """Yield the pair with a simpler value for all rows of one value."""
    distinct = {input_key(row): row for row in (*first, *second)}
    for key, row in distinct.items():
        for simpler in space.simpler_rows(row):
            yield _replaced(first, key, simpler), _replaced(second, key, simpler)


def _with_simpler_entries(
    first: list[Any], second: list[Any], space: InputSpace
) -> Iterator[RowPair]:
    """Yield the pair with a simpler value at one position, on both sides or on one."""
    for i in range(min(len(first), len(second), _ENTRIES)):
        for simpler in space.simpler_rows(first[i]):
            yield [*first[:i], simpler, *first[i + 1 :]], [*second[:i], simpler, *second[i + 1 :]]
            yield [*first[:i], simpler, *first[i + 1 :]], second
        for simpler in space.simpler_rows(second[i]):
            yield first, [*second[:i], simpler, *second[i + 1 :]]


def _without(rows: list[Any], cut: list[Any]) -> list[Any]:
    """Return the rows without those of `cut`, as far as they occur."""
    left, kept = Counter(map(input_key, cut)), []
    for row in rows:
        key = input_key(row)
        if left[key]:
            left[key] -= 1
        else:
            kept.append(row)
    return kept


def _replaced(rows: list[Any], key: Any, simpler: Any) -> list[Any]:
    return [simpler if input_key(row) == key else row for row in rows]
