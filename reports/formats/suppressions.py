"""Suppressions: reasons why a violation needs no action. It is accepted until a date, or the suite
expects the violation.
"""

from __future__ import annotations

from dpwitness.core.values.json_reader import Json
from dpwitness.reports.phrasing.fingerprint import rules_of
from dpwitness.reports.phrasing.wording import line


def excuse(result: Json, rule: str) -> str:
    """Return the reason that suppresses one broken rule of a result; an empty text if the rule is
    not suppressed.

    Examples
    --------
    >>> excuse({"accepted": {"reason": "being replaced", "expires": "2030-01-01",
    ...     "rules": ["VALUE"]}}, "VALUE")
    'accepted until 2030-01-01: being replaced'
    """
    accepted = result.get("accepted")
    if accepted and rule in accepted["rules"]:
        return f"accepted until {line(accepted['expires'], 40)}: {line(accepted['reason'])}"
    if result.get("right") is True:
        return f"expected by the suite: {line(result.get('expected') or 'wrong on purpose')}"
    return ""


def excused(result: Json) -> str:
    """Return a reason if all broken rules of a result are suppressed; an empty text otherwise."""
    reasons = [excuse(result, rule) for rule in rules_of(result)]
    return reasons[0] if reasons and all(reasons) else ""
