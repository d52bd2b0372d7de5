"""An exception that speaks of types, on one of two datasets that differ in type: a slip in what was given, not an event of privacy."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.mechanisms.terms.protocol import MechanismFailed
from dpwitness.mechanisms.terms.validation import said

_OF_TYPES = re.compile(
    r"NoneType|'\w+' object|unsupported operand|could not convert|must be real number|not supported between|\btypes?\b|dtype|"
    r"\bufunc\b|can't multiply|concatenate|invalid literal|expected \w+, got|argument must be|must be str|no len\(\)",
    re.IGNORECASE,
)


def check_types(run: Callable[..., Any], d1: Any, d0: Any, sides: tuple[Outputs, Outputs]) -> None:
    """Hold the outputs of the probe, D1's first, against a slip of type.

    Raises
    ------
    MechanismFailed
        If every run on one dataset raises and none on the other, the text of the exception is about types, and the two datasets differ in
        type. Where they do not, the exception tells their values apart, and the audit goes on.
    """
    if any(hasattr(dataset, "__len__") and len(dataset) == 0 for dataset in (d0, d1)):
        return  # what has no records has no type of them either
    raising = [[name.startswith("raises ") for name in side.names.values()] for side in sides]
    for (name, dataset, mine), others in zip((("D1", d1, raising[0]), ("D0", d0, raising[1])), reversed(raising), strict=True):
        if not (mine and all(mine)) or any(others) or type_of(d0) == type_of(d1):
            continue
        told = _told(run, dataset)
        if _OF_TYPES.search(told):
            types = f"D0 is a {type_of(d0)}, D1 a {type_of(d1)}"
            raise MechanismFailed(f"mechanism always raises on {name} alone: {told}; that is a slip of type and no violation: {types}")


def type_of(dataset: Any) -> str:
    """The types in a dataset, whatever its values and sizes.

    Examples
    --------
    >>> type_of([1, None, 2]), type_of({"a": [1.5]})
    ('list of NoneType and int', 'dict of a: list of float')
    """
    if isinstance(dataset, np.ndarray):
        return f"array of {'texts' if dataset.dtype.kind == 'U' else dataset.dtype.name}"
    if isinstance(dataset, dict):
        return "dict of " + ", ".join(sorted(f"{key}: {type_of(value)}" for key, value in dataset.items()))
    if isinstance(dataset, list | tuple | set | frozenset):
        return f"{type(dataset).__name__} of " + " and ".join(sorted({type_of(item) for item in dataset}))
    if dataclasses.is_dataclass(dataset) and not isinstance(dataset, type):
        fields = ", ".join(f"{field.name}: {type_of(getattr(dataset, field.name, None))}" for field in dataclasses.fields(dataset))
        return f"{type(dataset).__name__} of {fields}"
    return type(dataset).__name__


def _told(run: Callable[..., Any], dataset: Any) -> str:
    """Type and text of the exception; the text alone where a name was hashed with the outputs."""
    try:
        run(dataset, 1, np.random.default_rng(0))
    except Exception as error:
        return said(error)
    return ""
