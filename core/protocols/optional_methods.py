"""Methods that an object offers only for some of its parameters, so that ``hasattr`` is correct for
each instance.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class _ConditionalMethod:
    """Descriptor of a method that instances have only if a condition on the instance holds."""

    def __init__(self, method: Callable[..., Any], condition: Callable[[Any], bool]) -> None:
        self._method, self._condition = method, condition
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._method
        if not self._condition(instance):
            raise AttributeError(
                f"{owner.__name__} has no method {self._method.__name__} with these parameters"
            )
        return MethodType(self._method, instance)


class available_if:
    """Decorator of a method that exists only where `condition(self)` holds; elsewhere its lookup
    raises AttributeError.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> hasattr(Laplace(1.0, arithmetic="grid"), "support"), hasattr(Laplace(1.0), "support")
    (True, False)
    """

    def __init__(self, condition: Callable[[Any], bool]) -> None:
        self._condition = condition

    def __call__(self, method: F) -> F:
        return cast(F, _ConditionalMethod(method, self._condition))
