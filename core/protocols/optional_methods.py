"""Methods that an object offers only for some of its parameters, so that ``hasattr`` is correct for
each instance.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


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
        self._method: Any = None

    def __call__(self, method: F) -> F:
        self._method, self.__doc__ = method, method.__doc__
        return cast(F, self)

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._method
        if not self._condition(instance):
            name = self._method.__name__
            raise AttributeError(f"{owner.__name__} has no method {name} with these parameters")
        return MethodType(self._method, instance)
