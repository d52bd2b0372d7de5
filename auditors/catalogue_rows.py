"""Patterns of neighbouring pairs for plain rows: a changed row from the corners of the features, its label turned over, among crowds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpwitness.auditors.catalogue import NAMED_LABELS, PLACES, between, far_outside, inserted, ranked
from dpwitness.mechanisms.domains import Rows
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.protocol import FloatArray

__all__ = ["row_pairs"]

Change = tuple[str, FloatArray, FloatArray]


def row_pairs(domain: Rows) -> list[Pair | None]:
    """Pairs of (size, k) arrays, what promises most first; None in place of one in which a label is lost, if every label must occur.

    The changed row stands last, first and in the middle by turns.
    """
    crowds, changes = list(_crowds(domain)), list(_changes(domain))
    first, middle, last = PLACES
    found = []
    for rank in range(len(crowds) + len(changes) - 1):
        for turn, (crowd, others), (why, before, after) in ranked(crowds, changes, rank):
            at, place = (last, first, middle)[turn]
            changed = inserted(others, after, place)
            base = others if domain.relation == "add-remove" else inserted(others, before, place)
            found.append(domain.pair(base, changed, f"{why}, {at}, {crowd}"))
    return found


def _corners(domain: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
    low, high = domain.ends.T
    middle = between(low, high, 0.5)
    middle[list(domain.integer)] = np.floor(middle[list(domain.integer)])
    return low, middle, high


def _row(features: FloatArray, *label: float) -> FloatArray:
    return np.append(features, label)


def _changes(domain: Rows) -> Iterator[Change]:
    """What the changed row was, and what it becomes; under add-remove only the latter."""
    low, middle, high = _corners(domain)
    labels: list[tuple[float, ...]] = [(label,) for label in sorted(domain.labels)] or [()]
    first, last = labels[0], labels[-1]
    yield "features from low to high", _row(low, *last), _row(high, *last)
    if first != last:
        yield "one label turned over", _row(high, *first), _row(high, *last)
        yield "features and label turned over", _row(low, *first), _row(high, *last)
    yield "features from the middle to high", _row(middle, *last), _row(high, *last)
    if first != last:
        yield "one label turned over, low features", _row(low, *last), _row(low, *first)
    if len(low) > 1:
        side = np.arange(len(low)) % 2 == 0
        yield "features alternately low and high", _row(np.where(side, low, high), *last), _row(np.where(side, high, low), *last)
        yield "one feature from low to high", _row(low, *last), _row(np.where(np.arange(len(low)) == 0, high, low), *last)
    if domain.outside:
        below, above = far_outside(low, high)
        yield "features far outside", _row(below, *last), _row(above, *last)
    for label in labels[1:-1][:NAMED_LABELS]:
        yield f"label {label[0]:g} for the lowest", _row(high, *first), _row(high, *label)


def _crowds(domain: Rows) -> Iterator[tuple[str, FloatArray]]:
    """The other rows: size - 1 of them."""
    n = domain.size - 1
    low, middle, high = _corners(domain)
    labels = sorted(domain.labels)

    def crowd(features: list[FloatArray], values: list[float]) -> FloatArray:
        rows = [_row(features[i % len(features)], *([values[i % len(values)]] if values else [])) for i in range(n)]
        return np.array(rows).reshape(n, len(low) + bool(labels))

    yield "others in the middle", crowd([middle], labels[:1])
    if n == 0:
        return
    if len(labels) > 1:
        yield "others low, labels in turn", crowd([low], labels)
    yield "others low", crowd([low], labels[:1])
    yield "others high", crowd([high], labels[:1])
    yield "others low and high, labels in turn", crowd([low, high], labels)
    yield "others high, labels in turn", crowd([high], labels)
