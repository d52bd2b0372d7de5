"""The two exceptions of this folder. Where dpwitness is not installed, a substitute has the name of
MechanismFailed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.values.validation import InvalidArgument, short_repr

if TYPE_CHECKING:
    from dpwitness.core.protocols.mechanism import MechanismFailed
else:
    try:
        from dpwitness.core.protocols.mechanism import MechanismFailed
    except ImportError:  # the interpreter of a foreign target

        class MechanismFailed(RuntimeError):
            """Failure of a mechanism; the worker recognizes the exception by its name."""


def require_callable(owner: str, name: str, value: Any) -> None:
    """Raise InvalidArgument unless the value is callable."""
    if not callable(value):
        raise InvalidArgument(f"{owner}: {name} must be callable, got {short_repr(value)}")


__all__ = ["InvalidArgument", "MechanismFailed", "require_callable", "short_repr"]
