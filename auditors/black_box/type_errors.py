"""Check of exceptions that occur on one dataset only: faults of the environment and type errors are not privacy violations."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from dpwitness.auditors.black_box.environment_errors import environment_failure, is_environment_fault
from dpwitness.auditors.events.outputs import Outputs
from dpwitness.mechanisms.core.validation import said
from dpwitness.mechanisms.protocols.mechanism import MechanismFailed

_TYPE_ERROR_TEXT = re.compile(
    r"NoneType|'\w+' object|unsupported operand|could not convert|must be real number|not supported between|\btypes?\b|dtype|"
    r"\bufunc\b|can't multiply|concatenate|invalid literal|expected \w+, got|argument must be|must be str|no len\(\)",
    re.IGNORECASE,
)


def check_one_sided(run: Callable[..., Any], d1: Any, d0: Any, sides: tuple[Outputs, Outputs]) -> None:
    """Raise MechanismFailed if an exception separates the datasets, but not by their values.

    The check applies if every run of the probe raises on one dataset and no run on the other.
    `sides` contains the outputs on D1 and on D0. In all cases other than those below, the audit
    continues.

    Raises
    ------
    MechanismFailed
        If the environment causes the exception (`environment`), or if its message is about types
        and the datasets differ in type.
    """
    has_empty = any(hasattr(dataset, "__len__") and len(dataset) == 0 for dataset in (d0, d1))  # no records, so no type of records either
    raising = [[name.startswith("raises ") for name in side.structures()] for side in sides]
    for (name, dataset, raised), raised_on_other in zip((("D1", d1, raising[0]), ("D0", d0, raising[1])), reversed(raising), strict=True):
        if not (raised and all(raised)) or any(raised_on_other):
            continue
        error = _exception_of_run(run, dataset)
        message = "" if error is None else said(error)
        if error is not None and is_environment_fault(error):
            raise environment_failure(name, message)
        if not has_empty and type_of(d0) != type_of(d1) and _TYPE_ERROR_TEXT.search(message):
            types = f"D0 is a {type_of(d0)}, D1 a {type_of(d1)}"
            raise MechanismFailed(f"mechanism always raises on {name} alone: {message}; that is a type error and not a violation: {types}")


def type_of(dataset: Any) -> str:
    """Return a description of the types in a dataset, independent of its values and sizes.

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


def _exception_of_run(run: Callable[..., Any], dataset: Any) -> Exception | None:
    """Run the mechanism once more and return its exception; None if the run does not raise."""
    try:
        run(dataset, 1, np.random.default_rng(0))
    except Exception as error:
        return error
    return None
