"""Check of a written result: its verdict follows from its figure and its parameters."""

from __future__ import annotations

from typing import Any

from dpwitness.auditors.accounting.audit import question_of
from dpwitness.auditors.accounting.games import GAMES
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument


def recheck(result: Json) -> bool:
    """Return whether exact arithmetic confirms a violation in JSON. Raise InvalidArgument if verdict and figures contradict each other."""
    verdict, name = result["verdict"], result.get("name", "")
    if verdict not in ("VIOLATED", "NOT_REFUTED", "ERROR"):
        raise InvalidArgument(f"result {name!r} is damaged or edited: an accountant cannot have the verdict {verdict}")
    if verdict == "ERROR" or result.get("mechanism") in GAMES or not isinstance(result.get("figure"), int | float):
        return False
    question, _ = question_of(_unused, result.get("mechanism"), result.get("returns"), result.get("parameters"))
    at = {key: tuple(value) if isinstance(value, list) else value for key, value in (result.get("at") or {}).items()}
    if question.violated(float(result["figure"]), at) is not (verdict == "VIOLATED"):
        raise InvalidArgument(f"result {name!r} is damaged or edited: verdict {verdict} contradicts the figure {result['figure']!r}")
    return bool(verdict == "VIOLATED")


def _unused(**arguments: Any) -> float:
    """Placeholder for the accountant, which a check of a written result does not call."""
    raise NotImplementedError
