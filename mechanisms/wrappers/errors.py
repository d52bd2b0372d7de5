"""The two exceptions of this folder: those of dpwitness where it is installed, otherwise
substitutes with the same names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpwitness.core.protocols.mechanism import MechanismFailed
    from dpwitness.core.values.validation import InvalidArgument, short_repr
else:
    try:
        from dpwitness.core.protocols.mechanism import MechanismFailed
        from dpwitness.core.values.validation import InvalidArgument, short_repr
    except ImportError:  # the interpreter of a foreign target

        class MechanismFailed(RuntimeError):
            """Failure of a mechanism; the worker recognizes the exception by its name."""

        class InvalidArgument(ValueError):
            """Invalid argument; the controller shows the message."""

        def short_repr(value: object) -> str:
            """Return a value as short text on one line for a message."""
            text = " ".join(repr(value).split())
            return text if len(text) <= 80 else text[:77] + "..."


def require_callable(owner: str, name: str, value: Any) -> None:
    """Raise InvalidArgument unless the value is callable."""
    if not callable(value):
        raise InvalidArgument(f"{owner}: {name} must be callable, got {short_repr(value)}")


__all__ = ["InvalidArgument", "MechanismFailed", "require_callable", "short_repr"]
