"""Which rules a result breaks, and one stable id for each of them: the same in every run, on every machine, whatever was measured."""

from __future__ import annotations

import hashlib
import json

from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.words.summary import violated_in_bits

RULES = ("VALUE", "BITS", "SENSITIVITY", "UTILITY", "TRACE", "CHECK")

_OF_KIND = {"sensitivity": "SENSITIVITY", "utility": "UTILITY", "check": "CHECK", "checks": "CHECK"}  # others: VALUE
_OF_THIS_MACHINE = ("python", "time_limit", "memory_limit")  # of a target in a process of its own: how it is run, not what it is


def rules_of(result: Json) -> list[str]:
    """The rules that a result breaks, in the order of `RULES`.

    A trace whose findings an audit has certified breaks VALUE too; CHECK is broken by any check that failed.

    Examples
    --------
    >>> rules_of({"kind": "black box", "verdict": "VIOLATED", "bit_level": {"verdict": "VIOLATED"}})
    ['VALUE', 'BITS']
    >>> rules_of({"kind": "trace", "verdict": "INCONCLUSIVE", "findings": [{"kind": "scale"}]})
    ['TRACE']
    """
    kind = str(result.get("kind"))
    rule, found = _OF_KIND.get(kind, "VALUE"), set()
    if result.get("verdict") == Verdict.VIOLATED.value:
        found.add(rule)
    if violated_in_bits(result):
        found.add("BITS")
    if kind == "trace" and result.get("findings"):
        found.add("TRACE")
    if rule == "CHECK" and any(finding.get("status") == "failed" for finding in result.get("findings") or []):
        found.add(rule)
    return [rule for rule in RULES if rule in found]


def fingerprint(result: Json, rule: str) -> str:
    """A stable id of what breaks which rule: of target (the name where no target is known), claim, relation and rule.

    Examples
    --------
    >>> fingerprint({"name": "laplace", "claim": "pure:1", "relation": "replace-one"}, "VALUE")
    '5fcf6f31381f829e1e1f74ec108a2806'
    """
    target = result.get("target")
    if isinstance(target, dict):
        given = target.get("kwargs")
        kwargs = {key: value for key, value in given.items() if key not in _OF_THIS_MACHINE} if isinstance(given, dict) else {}
        what = {"target": target.get("target"), "kwargs": kwargs}
    else:
        what = {"name": result.get("name")}
    told = json.dumps([what, result.get("claim"), result.get("relation"), rule], sort_keys=True)
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()
