"""The two errors of this folder: dpwitness' own where it is there, stand-ins of the same names where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpwitness.mechanisms.terms.protocol import MechanismFailed
    from dpwitness.mechanisms.terms.validation import InvalidArgument, shown
else:
    try:
        from dpwitness.mechanisms.terms.protocol import MechanismFailed
        from dpwitness.mechanisms.terms.validation import InvalidArgument, shown
    except ImportError:  # the interpreter of a foreign target

        class MechanismFailed(RuntimeError):
            """Known to the worker by its name."""

        class InvalidArgument(ValueError):
            """Shown by the controller."""

        def shown(value: object) -> str:
            """In a message, on one short line."""
            text = " ".join(repr(value).split())
            return text if len(text) <= 80 else text[:77] + "..."


def require_callable(owner: str, name: str, value: Any) -> None:
    """An InvalidArgument unless it can be called."""
    if not callable(value):
        raise InvalidArgument(f"{owner}: {name} must be callable, got {shown(value)}")


__all__ = ["InvalidArgument", "MechanismFailed", "require_callable", "shown"]
