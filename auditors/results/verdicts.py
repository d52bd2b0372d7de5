"""What every result has: a verdict, the words for it, JSON without infinities, and the versions it was reached with."""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dpwitness.mechanisms.terms.reading import Json

SCHEMA = 1
_SHOWN = 400  # characters of a headline in a repr


class Verdict(enum.Enum):
    """Outcome of an audit. CERTIFIED: a proof or a stated error covers it; SUPPORTED: only numerics or an assumption do."""

    VIOLATED = "VIOLATED"
    NOT_REFUTED = "NOT_REFUTED"
    CERTIFIED = "CERTIFIED"
    SUPPORTED = "SUPPORTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"

    def __bool__(self) -> bool:
        raise TypeError(f"a verdict is no truth value: compare it, as in `verdict is Verdict.{self.name}`")


class Result(ABC):
    """Base of everything that a report can show: a name, a verdict, one line for a person, and JSON."""

    name: str
    verdict: Verdict
    shown_by: ClassVar[str] = ""  # the module with `html` and `markdown` of a result, named by the front door: it stands above this room

    @property
    def evidence(self) -> str:
        """What the verdict rests on, in one word: ``proved``, ``statistical``, ``numerical`` or ``assumed``."""
        return "numerical"

    @abstractmethod
    def headline(self) -> str:
        """Verdict, number, and how sure: one line."""

    @abstractmethod
    def to_json(self) -> Json:
        """Everything that was measured, as plain JSON types."""

    def __repr__(self) -> str:
        told = " ".join(self.headline().split())
        return f"<{type(self).__name__} {self.name!s:.60}: {told if len(told) <= _SHOWN else told[: _SHOWN - 3] + '...'}>"

    def _repr_html_(self) -> str | None:
        return self._card("html")

    def _repr_markdown_(self) -> str | None:
        return self._card("markdown")

    def _card(self, form: str) -> str | None:
        """A card for a notebook; None, for which it shows the repr, where none can be made."""
        try:
            return str(getattr(import_module(self.shown_by), form)(self))
        except Exception:
            return None

    def __bool__(self) -> bool:
        raise TypeError("a result is no truth value: compare its verdict, as in `result.verdict is Verdict.VIOLATED`")


def strict(value: Any) -> Any:
    """JSON types only: infinities and NaN as words, NumPy scalars and arrays as numbers and lists, tuples as lists."""
    if isinstance(value, Mapping):
        return {str(k): strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [strict(v) for v in value]
    if hasattr(value, "tolist"):
        return strict(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "nan"
    return value


@cache
def environment() -> dict[str, str]:
    """Versions that an audit ran with."""
    import platform  # here, as the front door loads this module
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("dpwitness", "numpy", "scipy", "numba"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
