"""Rules that a result breaks, and a stable id per broken rule. The id does not depend on the run,
machine or measured numbers.
"""

from __future__ import annotations

import hashlib
import json

from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.phrasing.summary import suspected, violated_in_bits

RULES = (
    "VALUE",
    "BITS",
    "SENSITIVITY",
    "STABILITY",
    "ACCOUNTANT",
    "METAMORPHIC",
    "UTILITY",
    "TRACE",
    "CHECK",
    "SUSPECT",
)

_RULE_OF_KIND = {  # other kinds: VALUE
    **{
        "sensitivity": "SENSITIVITY",
        "stability": "STABILITY",
        "utility": "UTILITY",
        "check": "CHECK",
        "checks": "CHECK",
    },
    **{"accountant": "ACCOUNTANT", "metamorphic": "METAMORPHIC"},
}
# settings of a target's worker process, which do not identify the target
_MACHINE_SETTINGS = ("python", "time_limit", "memory_limit")


def rules_of(result: Json) -> list[str]:
    """Return the rules that a result breaks, in the order of `RULES`.

    A trace whose findings an audit has certified also breaks VALUE. Any failed check breaks CHECK.

    Examples
    --------
    >>> rules_of({"kind": "black box", "verdict": "VIOLATED", "bit_level": {"verdict": "VIOLATED"}})
    ['VALUE', 'BITS']
    >>> rules_of({"kind": "trace", "verdict": "INCONCLUSIVE", "findings": [{"kind": "scale"}]})
    ['TRACE']
    """
    kind = str(result.get("kind"))
    rule, found = _RULE_OF_KIND.get(kind, "VALUE"), set()
    if result.get("verdict") == Verdict.VIOLATED.value:
        found.add(rule)
    if violated_in_bits(result):
        found.add("BITS")
    if suspected(result):
        found.add("SUSPECT")
    if kind == "trace" and result.get("findings"):
        found.add("TRACE")
    if rule == "CHECK" and any(
        finding.get("status") == "failed" for finding in result.get("findings") or []
    ):
        found.add(rule)
    return [rule for rule in RULES if rule in found]


def fingerprint(result: Json, rule: str) -> str:
    """Return a stable id of a broken rule: a hash of target (the name if the target is unknown),
    claim, relation and rule.

    Examples
    --------
    >>> fingerprint({"name": "laplace", "claim": "pure:1", "relation": "replace-one"}, "VALUE")
    '5fcf6f31381f829e1e1f74ec108a2806'
    """
    target = result.get("target")
    if isinstance(target, dict):
        given = target.get("kwargs")
        kwargs = (
            {key: value for key, value in given.items() if key not in _MACHINE_SETTINGS}
            if isinstance(given, dict)
            else {}
        )
        identified_by = {"target": target.get("target"), "kwargs": kwargs}
    else:
        identified_by = {"name": result.get("name")}
    identity = json.dumps(
        [identified_by, result.get("claim"), result.get("relation"), rule], sort_keys=True
    )
    return hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()
