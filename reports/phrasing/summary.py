"""Summaries of several audits: counts of verdicts, Holm's correction over the family of audits, and
the rules that a result breaks, with their fingerprints and the reasons that excuse them.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.trust import permissions_for
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import number
from dpwitness.reports.phrasing.wording import line


def holm(p_values: ArrayLike) -> FloatArray:
    """Return Holm's adjusted p-values.

    If all hypotheses with an adjusted p-value of at most a are rejected, the probability of any
    false rejection is at most a, under any dependence.

    Parameters
    ----------
    p_values : array_like of float
        One p-value per hypothesis.

    Returns
    -------
    ndarray of float
        Adjusted p-values, in the same order.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


@dataclass(frozen=True, slots=True)
class Family:
    """Family of all audits of a report that have a p-value, with Holm's correction."""

    error: float  # family-wise error probability: the smallest error probability of the audits
    adjusted: dict[int, float]  # Holm-adjusted p-value by position in the report
    refuted: tuple[int, ...]  # positions of the claims that are refuted at the family-wise error
    # positions of the audits that are VIOLATED, but not refuted at the family-wise error
    alone: tuple[int, ...]


def family(results: Sequence[Json]) -> Family | None:
    """Return the family of a report's audits; None if fewer than two audits have a p-value and a
    confidence.
    """
    members = [
        i
        for i, r in enumerate(results)
        if number(r.get("p_value")) is not None and number(r.get("confidence")) is not None
    ]
    if len(members) < 2:
        return None
    adjusted = dict(
        zip(members, holm([results[i]["p_value"] for i in members]).tolist(), strict=True)
    )
    error = min(error_of(results[i]["confidence"]) for i in members)
    violated = [i for i in members if results[i].get("verdict") == Verdict.VIOLATED.value]
    refuted = tuple(i for i in violated if adjusted[i] <= error)
    return Family(error, adjusted, refuted, tuple(i for i in violated if adjusted[i] > error))


def error_of(confidence: float) -> float:
    """Return 1 - confidence without floating-point noise: 0.01, and not 0.010000000000000009, for
    0.99.
    """
    return float(f"{1.0 - confidence:.6g}")


def count_verdicts(results: Sequence[Json]) -> dict[str, int]:
    """Return the number of results with each verdict, including zeros, but not for SUSPECT, which
    only scans have.
    """
    found = Counter(str(r.get("verdict")) for r in results)
    return {
        v.value: found.get(v.value, 0)
        for v in Verdict
        if v is not Verdict.SUSPECT or found.get(v.value)
    }


def violated_in_bits(result: Json) -> bool:
    """Return whether the low bits of the outputs violate the claim."""
    return (result.get("bit_level") or {}).get("verdict") == Verdict.VIOLATED.value


def suspected(result: Json) -> bool:
    """Return whether a guessed claim is violated, by the values of the outputs or by their low
    bits.
    """
    level = result.get("bit_level")
    return Verdict.SUSPECT.value in (
        result.get("verdict"),
        level.get("verdict") if isinstance(level, dict) else None,
    )


def acceptance_text(result: Json) -> str:
    """Return the expiry date, reason and rules of a result's accepted violations; an empty text if
    none is accepted.
    """
    found = result.get("accepted")
    return (
        f"until {found['expires']}: {found['reason']} ({', '.join(found['rules'])})"
        if found
        else ""
    )


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
    kind, found = kind_of(result), set()
    if result.get("verdict") == Verdict.VIOLATED.value:
        found.add(kind.rule)
    if violated_in_bits(result):
        found.add("BITS")
    if suspected(result):
        found.add("SUSPECT")
    if kind.suspicion and kind.findings(result):
        found.add(kind.suspicion)
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


def replay_command(file: str, target: Any, scores: Sequence[Any] = ()) -> str:
    """Return the command that replays a witness, with the permissions that its target and scores
    need.
    """
    words = ["dpwitness", "replay", file]
    for word in permissions_for(target, scores):
        words += ["--allow", word]
    return shlex.join(words)
