"""Detection of exceptions on one dataset that are not privacy violations: faults of the
environment, and type errors.

Faults of the environment are a missing module, file or name, or another version of a library.

The rule: if every run on one dataset raises, the exception separates the datasets. This is still
not evidence about privacy if the code for that dataset could not run at all. This holds for the
exceptions of `_ENVIRONMENT_ERRORS`, for deprecation warnings turned into errors, and for messages
about names and arguments that a library does not have (`_MESSAGES`). ValueError, ZeroDivisionError,
KeyError, AssertionError and all other exceptions depend on the data, and remain findings.
"""

from __future__ import annotations

import builtins
import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.object_tree import text_of
from dpwitness.core.values.validation import error_text

_ENVIRONMENT_ERRORS = (
    ImportError,
    NameError,
    OSError,
    MemoryError,
    DeprecationWarning,
    PendingDeprecationWarning,
    FutureWarning,
)
_MESSAGES = re.compile(
    r"module '[\w.]+' has no attribute|'numpy[\w.]*' object has no attribute|partially "
    r"initialized module|"
    r"(unexpected|invalid) keyword argument|"
    r"\b(was|were|has been|have been|is|are) (removed|expired|deprecated and removed) "
    r"(in|from|since)\b|"
    r"\bno longer (available|supported|part)\b|requires? (the )?(package|module|library)\b|"
    r"\bcompiled (using|against) (a|an|the|NumPy|version|module)\b|numpy\.\w+ size changed, "
    r"may indicate binary incompatibility"
)
_TYPE_ERROR_TEXT = re.compile(
    r"NoneType|'\w+' object|unsupported operand|could not convert|must be real number|not "
    r"supported between|\btypes?\b|dtype|"
    r"\bufunc\b|can't multiply|concatenate|invalid literal|expected \w+, got|argument must "
    r"be|must be str|no len\(\)",
    re.IGNORECASE,
)
_FAULT = "this is a fault of the environment, not a violation"
_MISSING = (
    "install the missing package, or a version of the library that has the missing name, and run "
    "again"
)

_HINTS = {  # text of a message -> what to try
    r"No module named '(?P<name>[\w.]+)'": (
        "install the missing package and run again, for example: pip install {name}"
    ),
    r"NumPy [12]\.|\bnumpy\b|\bnp\.": (
        "the NumPy of this interpreter may be too new for the library: try numpy<2, or numpy<1.24 "
        "for names such as np.float, in an environment of its own (--python)"
    ),
    r"No such file or directory": "name the file by its full path, or run in its folder",
    r"has no attribute|is not defined|cannot import|keyword argument": _MISSING,
}


def what_to_try(message: str) -> str:
    """Return advice on an exception of the environment.

    Examples
    --------
    >>> what_to_try("No module named 'torch'").partition(", for ")[2]
    'example: pip install torch'
    """
    for pattern, hint in _HINTS.items():
        if found := re.search(pattern, message):
            return f"{_FAULT}: {hint.format(**found.groupdict())}"
    return f"{_FAULT}: repair it and run again"


def is_environment_fault(error: BaseException) -> bool:
    """Return whether the environment caused an exception, judged by its class, its message, or its
    cause (`__cause__`).

    Examples
    --------
    >>> errors = AttributeError("module 'numpy' has no attribute 'float'"), ZeroDivisionError("division by zero")
    >>> is_environment_fault(errors[0]), is_environment_fault(errors[1])
    (True, False)
    """  # noqa: E501
    cause = error.__cause__
    return names_environment_fault(type(error), text_of(error, str)) or (
        cause is not None and cause is not error and is_environment_fault(cause)
    )


def names_environment_fault(kind: type | str, text: str) -> bool:
    """Return whether an exception of this class, or class name, with this message indicates a fault
    of the environment.
    """
    builtin_class = (
        getattr(builtins, kind, None)
        if isinstance(kind, str)
        else getattr(builtins, kind.__name__, kind)
    )
    if isinstance(builtin_class, type) and issubclass(builtin_class, _ENVIRONMENT_ERRORS):
        # a NameError that depends on the data: a variable is assigned for some data only
        return not issubclass(builtin_class, UnboundLocalError)
    return _MESSAGES.search(text) is not None


def check_exception_text(where: str, message: str) -> None:
    """Raise MechanismFailed if `message`, such as "ImportError: No module named x", describes an
    exception of the environment.
    """
    kind, _, text = message.partition(": ")
    if names_environment_fault(kind, text):
        raise environment_failure(where, message)


def environment_failure(where: str, message: str) -> MechanismFailed:
    """Return the MechanismFailed to raise for a fault of the environment on the dataset `where`."""
    return MechanismFailed(
        f"mechanism always raises on {where} alone: {message}; {what_to_try(message)}"
    )


def check_imports(sides: Sequence[Outputs]) -> None:
    """Raise MechanismFailed if some runs miss a module or a name, on any branch of the code: that
    is never random.
    """
    for side in sides:
        for name in side.structures():
            if name in ("raises ImportError", "raises ModuleNotFoundError", "raises NameError"):
                raise MechanismFailed(f"mechanism {name} in some runs; {_FAULT}: {_MISSING}")


def check_one_sided(
    run: Callable[..., Any], d1: Any, d0: Any, sides: tuple[Outputs, Outputs]
) -> None:
    """Raise MechanismFailed if an exception separates the datasets, but not by their values.

    The check applies if every run of the probe raises on one dataset, but not on both: because of
    the environment, or, if no run on the other raises, with a message about types if the datasets
    differ in type.
    `sides` contains the outputs on D1 and on D0.
    """
    # no records, so no type of records either
    has_empty = any(hasattr(dataset, "__len__") and len(dataset) == 0 for dataset in (d0, d1))
    raising = [[name.startswith("raises ") for name in side.structures()] for side in sides]
    for (name, dataset, raised), raised_on_other in zip(
        (("D1", d1, raising[0]), ("D0", d0, raising[1])), reversed(raising), strict=True
    ):
        if not (raised and all(raised)) or (raised_on_other and all(raised_on_other)):
            continue
        error: Exception | None = None
        try:
            run(dataset, 1, np.random.default_rng(0))
        except Exception as raised_again:
            error = raised_again
        message = "" if error is None else error_text(error)
        if error is not None and is_environment_fault(error):
            raise environment_failure(name, message)
        if any(raised_on_other):
            continue
        if not has_empty and type_of(d0) != type_of(d1) and _TYPE_ERROR_TEXT.search(message):
            types = f"D0 is a {type_of(d0)}, D1 a {type_of(d1)}"
            raise MechanismFailed(
                f"mechanism always raises on {name} alone: {message}; that is a type error "
                f"and not a violation: {types}"
            )


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
        return "dict of " + ", ".join(
            sorted(f"{key}: {type_of(value)}" for key, value in dataset.items())
        )
    if isinstance(dataset, list | tuple | set | frozenset):
        return f"{type(dataset).__name__} of " + " and ".join(
            sorted({type_of(item) for item in dataset})
        )
    if dataclasses.is_dataclass(dataset) and not isinstance(dataset, type):
        fields = ", ".join(
            f"{field.name}: {type_of(getattr(dataset, field.name, None))}"
            for field in dataclasses.fields(dataset)
        )
        return f"{type(dataset).__name__} of {fields}"
    return type(dataset).__name__
