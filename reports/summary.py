"""Entries of a report, and summaries of several audits: counts of verdicts, Holm's correction over
the family of audits, the scope that NIST SP 800-226 asks for, and the rules that results break.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.auditors.witnesses.kinds import explained_relation, kind_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.trust import permissions_for
from dpwitness.core.claims.claim import NOTIONS
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import format_times, number
from dpwitness.reports.wording import code, escaped_markdown, line


@dataclass(frozen=True, slots=True)
class Entry:
    """Result's JSON with its data in the report: the part of file names, the files, and the
    adjusted p-value.
    """

    result: Json
    slug: str
    witness_file: str | None = None
    plots: tuple[tuple[str, str], ...] = ()  # (alternative text, file)
    adjusted: float | None = None  # Holm-adjusted p-value

    @property
    def name(self) -> str:
        return str(self.result.get("name", self.slug))


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
        if None not in (number(r.get("p_value")), number(r.get("confidence")))
    ]
    if len(members) < 2:
        return None
    values = holm([results[i]["p_value"] for i in members]).tolist()
    adjusted = dict(zip(members, values, strict=True))
    error = min(error_of(results[i]["confidence"]) for i in members)
    violated = [i for i in members if results[i].get("verdict") == "VIOLATED"]
    refuted = tuple(i for i in violated if adjusted[i] <= error)
    return Family(error, adjusted, refuted, tuple(sorted({*violated} - {*refuted})))


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


# rule -> (title, description, advice, precision, severity out of 10; None if the rule does not
# concern security)
RULES: dict[str, tuple[str, str, str, str, str | None]] = {
    "VALUE": (
        "Privacy claim refuted",
        "Outputs distinguish two neighboring datasets better than the claim allows, by a "
        "bound certified at the stated confidence.",
        "Release nothing under this claim. Replay the witness with `dpwitness replay`, then "
        "repair the mechanism or withdraw the claim.",
        "very-high",
        "8.0",
    ),
    "BITS": (
        "Privacy claim refuted by floating-point bits",
        "The low bits of floating-point outputs distinguish two neighboring datasets better "
        "than the claim allows.",
        "Round outputs to a grid that does not depend on the data, or draw discrete noise, "
        "before release.",
        "very-high",
        "5.0",
    ),
    "SENSITIVITY": (
        "Sensitivity bound exceeded",
        "A function changes more between two neighboring datasets than the sensitivity bound "
        "that scales the noise.",
        "Raise the bound at least by the ratio that was found, or change the function.",
        "high",
        "8.0",
    ),
    "STABILITY": (
        "Stability map exceeded",
        "Two inputs within a distance have outputs that are further apart than the stability "
        "map allows, in exact arithmetic.",
        "Replay the witness with `dpwitness replay`, then raise the map or repair the "
        "transformation.",
        "very-high",
        "8.0",
    ),
    "ACCOUNTANT": (
        "Privacy figure too low",
        "An accountant returns a figure below the exact one, so a mechanism that relies on "
        "it leaks more than stated.",
        "Replay the witness with `dpwitness replay`, then repair the accountant, and compute "
        "the figures of past releases again.",
        "very-high",
        "8.0",
    ),
    "METAMORPHIC": (
        "Metamorphic relation broken",
        "Several runs differ where the runs of a private mechanism must agree: rows in "
        "another order, epsilon 0, or doubled epsilon.",
        "Replay the witness with `dpwitness replay`, then repair the function, or do not "
        "claim the relation.",
        "high",
        "5.0",
    ),
    "UTILITY": (
        "Utility claim refuted",
        "The error of a mechanism is larger than claimed, at the stated confidence.",
        "Promise less, or repair the mechanism.",
        "high",
        None,
    ),
    "TRACE": (
        "Noise calls depend on the data",
        "Two runs with the same noise on neighboring datasets differ where runs of a private "
        "mechanism must agree: a suspicion, "
        "not a proof, until an audit certifies a violation.",
        "Look at the lines that the findings name; `dpwitness audit` with more trials may "
        "confirm them.",
        "medium",
        "5.0",
    ),
    "CHECK": (
        "A check of the mechanism failed",
        "A check that every private mechanism should pass has failed, for the reason in the "
        "message.",
        "Fix the problem that the check names, or list the check in `expected_failures` with "
        "the reason.",
        "medium",
        "5.0",
    ),
    "SUSPECT": (
        "A guessed privacy claim is refuted",
        "Outputs distinguish two neighboring datasets better than a claim allows that a scan "
        "has guessed from the signature or docstring.",
        "Read what is guessed. If the library promises this, delete the line `guessed` of "
        "the target, and audit it again.",
        "medium",
        "3.0",
    ),
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
    kind, verdict = kind_of(result), result.get("verdict")
    bits = (result.get("bit_level") or {}).get("verdict")
    conditions = (
        (kind.rule, verdict == Verdict.VIOLATED.value),
        ("BITS", bits == Verdict.VIOLATED.value),
        ("SUSPECT", Verdict.SUSPECT.value in (verdict, bits)),  # a guessed claim is violated
        (kind.suspicion, bool(kind.suspicion and kind.findings(result))),
    )
    found = {rule for rule, is_broken in conditions if is_broken}
    return [rule for rule in RULES if rule in found]


def outcome(result: Json, *, bits: bool = True) -> str:
    """Return what a result means for whoever waits for it: exit codes, JUnit XML, pytest.

    ``violated`` also holds for a verdict that contradicts the known truth of a suite, ``expected``
    for a violation that a suite knows, ``accepted`` for violations that a baseline accepts, and
    ``undecided`` for a result without a verdict. A leak in low bits is a violation if `bits`.

    Examples
    --------
    >>> outcome({"kind": "black box", "verdict": "VIOLATED"})
    'violated'
    >>> outcome({"kind": "black box", "verdict": "SUSPECT"})
    'undecided'
    """
    right, found = result.get("right"), Verdict(result["verdict"])
    broken = found is Verdict.VIOLATED or (bits and violated_in_bits(result))
    accepted = bool(result.get("accepted")) and not unaccepted_rules(result, bits=bits)
    is_kept = str(result.get("expected")).startswith("kept")
    outcomes = (
        ("violated", right is False and not is_kept),
        ("expected", broken and right),
        ("accepted", accepted and (found.decided or "TRACE" in rules_of(result))),
        ("violated", (broken and not accepted) or right is False),
        ("undecided", not found.decided),
    )
    return next((word for word, holds in outcomes if holds), "passed")


def unaccepted_rules(result: Json, *, bits: bool = False) -> list[str]:
    """Return the rules that a result breaks and that are not accepted; the rule BITS is included
    only if `bits` is true.
    """
    accepted = (result.get("accepted") or {}).get("rules", [])
    return [rule for rule in rules_of(result) if rule not in accepted and (bits or rule != "BITS")]


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


QUESTION = "Does this implementation keep the privacy promise it makes?"

_UNITS = {
    "replace-one": "one record of the dataset, which may change to any value",
    "add-remove": "one record of the dataset, present or absent",
    "substitution": "one cost of the sequence, which may change to any value",
    "l1": "a change of the vector of answers by at most 1 in L1 norm",
    "l2": "a change of the vector of answers by at most 1 in L2 norm",
    "linf": "a change of each answer by at most 1",
    "stated": "the difference between the two datasets, as stated by the user and not checked",
}
_EVIDENCE = {
    "statistical": "statistical: counts of runs and exact limits, at the confidence of each card",
    "proved": "proved: exact arithmetic, ball arithmetic or algebra",
    "numerical": "numerical: no proof covers the last digits",
    "assumed": "assumed in part: see the cards",
    "one trace": "one recorded run, replayed on the neighboring dataset",
}
_MAX_SHOWN = 6


def claim_facts(results: Sequence[Json]) -> list[tuple[str, str]]:
    """Return the facts of the header card as (label, markdown)."""
    relations = [str(r["relation"]) for r in results if r.get("relation")]
    claims = [str(r["claim"]) for r in results if r.get("claim") and kind_of(r).topic != "utility"]
    grades = (str(r.get("evidence", "numerical")) for r in results)
    bits = sum(r.get("bit_level") is not None for r in results)
    examined = f"float rounding as well in {bits} of {len(results)}"
    return [
        ("unit of privacy", _join_with_counts(_UNITS.get(r, r) for r in relations)),
        ("neighboring relation", _join_with_counts(map(explained_relation, relations))),
        ("notion", _join_with_counts(map(_notion, claims))),
        ("parameters claimed", _join_with_counts(claims, quote=True)),
        (
            "trust model",
            f"{_ADVERSARY}; values; {examined if bits else 'float rounding was not examined'}",
        ),
        ("evidence", _join_with_counts(_EVIDENCE.get(grade, grade) for grade in grades)),
    ]


def _notion(claim: str) -> str:
    """Return the notion of a claim in words."""
    notion = NOTIONS.get(claim.partition(":")[0])
    return notion.notion if notion else "a bound on what a function does"


_ADVERSARY = (
    "the adversary sees outputs, knows the code and both datasets, and does not see the noise"
)


def _join_with_counts(words: Iterable[str], *, quote: bool = False) -> str:
    """Join the distinct words, most common first, with their counts if there are several distinct
    words.
    """
    found = Counter(words)
    shown = [
        (code(word) if quote else escaped_markdown(word))
        + (f" ({n} audits)" if n > 1 and len(found) > 1 else "")
        for word, n in found.most_common(_MAX_SHOWN)
    ]
    more = [f"and {len(found) - _MAX_SHOWN} more"] if len(found) > _MAX_SHOWN else []
    return "; ".join(shown + more) or "none stated"


def untested(results: Sequence[Json]) -> list[str]:
    """Return one line for each kind of leak that the audits of a report did not test."""
    by_kind: dict[str, list[Json]] = {}
    for result in results:
        by_kind.setdefault(str(result.get("kind")), []).append(result)
    found = [text for group in by_kind.values() for text in kind_of(group[0]).untested(group)]
    without_verdict = sum(
        r.get("verdict") in (Verdict.ERROR.value, Verdict.INCONCLUSIVE.value) for r in results
    )
    if without_verdict:
        found.append(f"The claims of the {without_verdict} audits without a verdict.")
    found.append(
        "Time, memory, logs and error messages as channels; the quality of the random source and "
        "how it is seeded; the total leakage of several releases of the same data; whether the "
        "parameters protect enough."
    )
    return found


def cost(result: Json) -> str:
    """Format the cost of a result: number of runs, and seconds."""
    runs = number(result.get("trials") or result.get("evaluations") or result.get("runs"))
    parts = [f"{int(runs):,} runs"] if runs is not None else []
    times = format_times(result.get("seconds"), result.get("cpu_seconds"))
    return ", ".join([*parts, *([times] if times else [])]) or "-"
