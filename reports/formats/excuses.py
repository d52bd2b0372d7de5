"""Why a violation asks for nothing to be done now: it is accepted for a time, or is that of a mechanism that is wrong on purpose."""

from __future__ import annotations

from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.words.fingerprint import rules_of
from dpwitness.reports.words.wording import line


def excuse(result: Json, rule: str) -> str:
    """The reason for one rule that a result breaks; empty where there is none.

    Examples
    --------
    >>> excuse({"accepted": {"reason": "being replaced", "expires": "2030-01-01", "rules": ["VALUE"]}}, "VALUE")
    'accepted until 2030-01-01: being replaced'
    """
    accepted = result.get("accepted")
    if accepted and rule in accepted["rules"]:
        return f"accepted until {line(accepted['expires'], 40)}: {line(accepted['reason'])}"
    if result.get("right") is True:
        return f"expected by the suite: {line(result.get('expected') or 'wrong on purpose')}"
    return ""


def excused(result: Json) -> str:
    """The same for all that a result breaks; empty where something is left."""
    reasons = [excuse(result, rule) for rule in rules_of(result)]
    return reasons[0] if reasons and all(reasons) else ""
