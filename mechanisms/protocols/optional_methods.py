"""Methods that an object offers for some parameters only, so that ``hasattr`` tells the truth about each instance."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class _Offered:
    def __init__(self, method: Callable[..., Any], condition: Callable[[Any], bool]) -> None:
        self._method, self._condition = method, condition
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._method
        if not self._condition(instance):
            raise AttributeError(f"{owner.__name__} offers no {self._method.__name__} with these parameters")
        return MethodType(self._method, instance)


class offered_when:
    """Decorate a method that exists only where `condition(self)` holds; elsewhere looking it up raises AttributeError.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> hasattr(Laplace(1.0, arithmetic="grid"), "support"), hasattr(Laplace(1.0), "support")
    (True, False)
    """

    def __init__(self, condition: Callable[[Any], bool]) -> None:
        self._condition = condition

    def __call__(self, method: F) -> F:
        return cast(F, _Offered(method, self._condition))
