"""Detection of exceptions caused by the environment, which are not privacy violations.

Examples are a missing module, file or name, or another version of a library.

The rule: if every run on one dataset raises and no run on the other does, the exception separates
the datasets perfectly. This is still not evidence about privacy if the code for that dataset could
not run at all. This holds for the exceptions of `_ENVIRONMENT_ERRORS`, for deprecation warnings
turned into errors, and for messages about names and arguments that a library does not have
(`_MESSAGES`). ValueError, ZeroDivisionError, KeyError, AssertionError and all other exceptions
depend on the data, and remain findings.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.mechanisms.foreign.inside.codec import text_of
from dpwitness.mechanisms.protocols.mechanism import MechanismFailed

_ENVIRONMENT_ERRORS = (ImportError, NameError, OSError, MemoryError, DeprecationWarning, PendingDeprecationWarning, FutureWarning)
_DATA_ERRORS = (UnboundLocalError,)  # subclass of NameError that depends on the data: a variable is assigned for some data only
_NEVER_RANDOM = ("raises ImportError", "raises ModuleNotFoundError", "raises NameError")
_MESSAGES = re.compile(
    r"module '[\w.]+' has no attribute|partially initialized module|(unexpected|invalid) keyword argument|"
    r"\b(was|were|has been|have been|is|are) (removed|expired|deprecated and removed) (in|from|since)\b|"
    r"\bno longer (available|supported|part)\b|requires? (the )?(package|module|library)\b"
)
_ADVICE = (
    "that is a fault of the environment and not a violation: install what is missing, or a version of the library that has it, "
    "and run again"
)


def is_environment_fault(error: BaseException) -> bool:
    """Return whether the environment caused an exception, judged by its class, its message, or its cause (`__cause__`).

    Examples
    --------
    >>> errors = AttributeError("module 'numpy' has no attribute 'float'"), ZeroDivisionError("division by zero")
    >>> is_environment_fault(errors[0]), is_environment_fault(errors[1])
    (True, False)
    """
    cause = error.__cause__
    return names_environment_fault(type(error), text_of(error, str)) or (
        cause is not None and cause is not error and is_environment_fault(cause)
    )


def names_environment_fault(kind: type | str, text: str) -> bool:
    """Return whether an exception indicates a fault of the environment.

    `kind` is the class of the exception, or the name of its class in another process; `text` is its
    message.
    """
    builtin_class = getattr(builtins, kind, None) if isinstance(kind, str) else getattr(builtins, kind.__name__, kind)
    if isinstance(builtin_class, type) and issubclass(builtin_class, _ENVIRONMENT_ERRORS):
        return not issubclass(builtin_class, _DATA_ERRORS)
    return _MESSAGES.search(text) is not None


def check_exception_text(where: str, told: str) -> None:
    """Raise MechanismFailed if `told`, such as "ImportError: No module named x", describes an exception of the environment."""
    kind, _, text = told.partition(": ")
    if names_environment_fault(kind, text):
        raise environment_failure(where, told)


def environment_failure(where: str, told: str) -> MechanismFailed:
    """Return the MechanismFailed to raise for a fault of the environment on the dataset `where`."""
    return MechanismFailed(f"mechanism always raises on {where} alone: {told}; {_ADVICE}")


def check_imports(sides: Sequence[Outputs]) -> None:
    """Raise MechanismFailed if some runs miss a module or a name, on any branch of the code.

    A missing module is never random, so the exception is a fault of the environment.

    Raises
    ------
    MechanismFailed
        If some output is an ImportError, ModuleNotFoundError or NameError.
    """
    for side in sides:
        for name in side.structures():
            if name in _NEVER_RANDOM:
                raise MechanismFailed(f"mechanism {name} in some runs; {_ADVICE}")
