"""Base class of results and the enumeration of verdicts, with helpers for strict JSON and software
versions.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dpwitness.core.values.json_reader import Json

SCHEMA = 1
_REPR_LIMIT = 400  # largest number of characters of a headline in a repr


class Verdict(enum.Enum):
    """Outcome of an audit.

    CERTIFIED rests on a proof or a stated error. SUPPORTED rests on numerics or an assumption
    only. SUSPECT is a violation of a claim that a scan has guessed: violated if the guess is right.
    """

    VIOLATED = "VIOLATED"
    SUSPECT = "SUSPECT"
    NOT_REFUTED = "NOT_REFUTED"
    CERTIFIED = "CERTIFIED"
    SUPPORTED = "SUPPORTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"

    def __bool__(self) -> bool:
        raise TypeError(
            f"a verdict is not a truth value: compare it, as in `verdict is Verdict.{self.name}`"
        )


class Result(ABC):
    """Base of all results that a report can show: a name, a verdict, a headline and JSON."""

    name: str
    verdict: Verdict
    # module with `html` and `markdown` for a result, set by the top package to avoid an upward
    # import
    shown_by: ClassVar[str] = ""

    @property
    def evidence(self) -> str:
        """Return the grade of evidence for the verdict: ``proved``, ``statistical``, ``numerical``
        or ``assumed``.
        """
        return "numerical"

    @abstractmethod
    def headline(self) -> str:
        """Return the verdict, the number and the confidence in one line."""

    @abstractmethod
    def to_json(self) -> Json:
        """Return all measured values as plain JSON types."""

    def __repr__(self) -> str:
        line = " ".join(self.headline().split())
        return (
            f"<{type(self).__name__} {self.name!s:.60}: "
            f"{line if len(line) <= _REPR_LIMIT else line[: _REPR_LIMIT - 3] + '...'}>"
        )

    def _repr_html_(self) -> str | None:
        return self._card("html")

    def _repr_markdown_(self) -> str | None:
        return self._card("markdown")

    def _card(self, card_format: str) -> str | None:
        """Return a card for a notebook; None if it cannot be made, in which case the notebook shows
        the repr.
        """
        try:
            return str(getattr(import_module(self.shown_by), card_format)(self))
        except Exception:
            return None

    def __bool__(self) -> bool:
        raise TypeError(
            "a result is not a truth value: compare its verdict, as in `result.verdict is "
            "Verdict.VIOLATED`"
        )


def strict(value: Any) -> Any:
    """Return a value in JSON types only.

    Infinities and NaN become words, NumPy scalars and arrays become numbers and lists, and tuples
    become lists.
    """
    if isinstance(value, Mapping):
        return {str(k): strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [strict(v) for v in value]
    if hasattr(value, "tolist"):
        return strict(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "nan"
    return value


def document(result: Any, kind: str, claim: str, fields: Json) -> Json:
    """Return the JSON of a result: `fields`, between the first and the last fields of
    all results.
    """
    return {
        "schema_version": SCHEMA,
        "kind": kind,
        "name": result.name,
        "claim": claim,
        "verdict": result.verdict.value,
        "headline": result.headline(),
        "evidence": result.evidence,
        **fields,
        "notes": list(result.notes),
        "target": result.target,
        "environment": environment(),
        "seconds": round(result.seconds, 3),
    }


def claim_document(result: Any, kind: str, fields: Json) -> Json:
    """Return the JSON of a result about a privacy claim."""
    pair = getattr(result, "pair", None)
    more = {
        "claim_numbers": list(result.claim.numbers),
        "relation": None if pair is None else pair.relation,
    }
    return document(result, kind, str(result.claim), more | fields)


@cache
def environment() -> dict[str, str]:
    """Return the versions of Python and of the main packages."""
    import platform  # imported late, as the top package loads this module at startup
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("dpwitness", "numpy", "scipy", "numba"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
