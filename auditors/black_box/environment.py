"""Exceptions that the environment causes: a missing module, file or name, or a library of another version. They are not events of privacy.

The rule: where every run on one dataset raises, and none on the other, the exception separates the datasets perfectly. It still says
nothing about privacy if the code of that dataset could not run at all. This is so for the exceptions of `_KINDS`, for warnings about
deprecation that were turned into errors, and for texts about names and arguments that a library does not have (`_TEXTS`). ValueError,
ZeroDivisionError, KeyError, AssertionError and all other exceptions depend on the data, and remain findings.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.mechanisms.foreign.inside.wire import text_of
from dpwitness.mechanisms.terms.protocol import MechanismFailed

_KINDS = (ImportError, NameError, OSError, MemoryError, DeprecationWarning, PendingDeprecationWarning, FutureWarning)
_DATA = (UnboundLocalError,)  # a variable that only some data set
_NEVER_CHANCE = ("raises ImportError", "raises ModuleNotFoundError", "raises NameError")
_TEXTS = re.compile(
    r"module '[\w.]+' has no attribute|partially initialized module|(unexpected|invalid) keyword argument|"
    r"\b(was|were|has been|have been|is|are) (removed|expired|deprecated and removed) (in|from|since)\b|"
    r"\bno longer (available|supported|part)\b|requires? (the )?(package|module|library)\b"
)
_ADVICE = (
    "that is a fault of the environment and not a violation: install what is missing, or a version of the library that has it, "
    "and run again"
)


def of_environment(error: BaseException) -> bool:
    """Return whether an exception is caused by the environment, by its class, by its text, or by the exception that it was raised from.

    Examples
    --------
    >>> of_environment(AttributeError("module 'numpy' has no attribute 'float'")), of_environment(ZeroDivisionError("division by zero"))
    (True, False)
    """
    cause = error.__cause__
    return named_so(type(error), text_of(error, str)) or (cause is not None and cause is not error and of_environment(cause))


def named_so(kind: type | str, text: str) -> bool:
    """Return the same for a class, or the name of a class in another process, and the text of the exception."""
    found = getattr(builtins, kind, None) if isinstance(kind, str) else getattr(builtins, kind.__name__, kind)
    if isinstance(found, type) and issubclass(found, _KINDS):
        return not issubclass(found, _DATA)
    return _TEXTS.search(text) is not None


def check_told(where: str, told: str) -> None:
    """Raise MechanismFailed if `told`, such as "ImportError: No module named x", is an exception of the environment."""
    kind, _, text = told.partition(": ")
    if named_so(kind, text):
        raise environment_fault(where, told)


def environment_fault(where: str, told: str) -> MechanismFailed:
    """Return the failure to raise for an exception of the environment on one dataset."""
    return MechanismFailed(f"mechanism always raises on {where} alone: {told}; {_ADVICE}")


def check_imports(sides: Sequence[Outputs]) -> None:
    """Look for runs that miss a module or a name, on some branch of the code.

    Raises
    ------
    MechanismFailed
        If there is one: a module is missing by chance in no environment.
    """
    for side in sides:
        for name in side.structures():
            if name in _NEVER_CHANCE:
                raise MechanismFailed(f"mechanism {name} in some runs; {_ADVICE}")
