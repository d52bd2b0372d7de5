"""Validation of the fields of a domain, and conversion of datasets that are vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpwitness.core.domains.base import Domain
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_finite,
    require_integer,
    require_type,
)

MAX_ENTRIES = 10**6  # entries of an array: a catalogue holds some hundred arrays at once


def sized(count: int, size: int, relation: str) -> bool:
    """Return whether `count` records are allowed: up to `size` under add-remove, exactly `size`
    otherwise.
    """
    return count <= size if relation == "add-remove" else count == size


def vector(dataset: Any) -> FloatArray | None:
    """Return the numbers of a vector as float64; None for anything else, and for integers that
    floats cannot represent.
    """
    if isinstance(dataset, list | tuple):
        if not all(
            isinstance(v, int | float | np.integer | np.floating) and not isinstance(v, bool)
            for v in dataset
        ):
            return None
        try:
            values = np.array([float(v) for v in dataset], dtype=np.float64)
        except OverflowError:
            return None
        return (
            values
            if all(a == b or math.isnan(a) for a, b in zip(values.tolist(), dataset, strict=True))
            else None
        )
    if (
        not isinstance(dataset, np.ndarray)
        or dataset.ndim != 1
        or dataset.dtype.kind not in "iuf"
        or dataset.dtype.itemsize > 8
        or isinstance(dataset, np.ma.MaskedArray)
    ):
        return None
    values = dataset.astype(np.float64)
    if dataset.dtype.kind in "iu" and dataset.tolist() != [int(v) for v in values.tolist()]:
        return None
    return values


def flags(domain: Domain, *names: str) -> None:
    """Raise InvalidArgument unless the named fields of the domain are True or False."""
    for name in names:
        require_type(
            name, getattr(domain, name), (bool, np.bool_), "be True or False", type(domain).__name__
        )


def items(name: str, value: Any, owner: str) -> Sequence[Any]:
    """Return the items of a field; raise InvalidArgument unless the field is a sequence."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(require_type(name, value, (list, tuple), "be a sequence", owner))


def columns(name: str, value: Any, count: int) -> tuple[int, ...]:
    """Return the distinct column indices of a field of `Rows`, sorted; raise InvalidArgument for an
    index outside of 0 .. count - 1.
    """
    places = {require_integer(name, place, "Rows", least=0) for place in items(name, value, "Rows")}
    if places and max(places) >= count:
        raise InvalidArgument(
            f"Rows: {name} must name columns of features, counted from 0, got {max(places)} "
            f"of {count} columns"
        )
    return tuple(sorted(places))


def require_labels(labels: Any, owner: str) -> tuple[float, ...]:
    """Return the labels as floats; raise InvalidArgument unless all are finite numbers."""
    return tuple(require_finite("labels", label, owner) for label in items("labels", labels, owner))
