"""Scope of a report: the elements of a privacy claim that NIST SP 800-226 asks for, and what was
not tested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.claims.claim import NOTIONS
from dpwitness.core.datasets.relations import describe_relation
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import format_times, number
from dpwitness.reports.phrasing.wording import code, escaped_markdown

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
    classes = [NOTIONS.get(claim.partition(":")[0]) for claim in claims]
    notions = [found.notion if found else "a bound on what a function does" for found in classes]
    bits = sum(r.get("bit_level") is not None for r in results)
    adversary = (
        "the adversary sees outputs, knows the code and both datasets, and does not see the noise"
    )
    level = (
        f"values; low bits of floating-point outputs as well in {bits} of {len(results)}"
        if bits
        else "values; low bits were not examined"
    )
    return [
        ("unit of privacy", _join_with_counts(_UNITS.get(r, r) for r in relations)),
        (
            "neighboring relation",
            _join_with_counts(
                f"{r}: {describe_relation(r)}" if describe_relation(r) else r for r in relations
            ),
        ),
        ("notion", _join_with_counts(notions)),
        ("parameters claimed", _join_with_counts(claims, quote=True)),
        ("trust model", f"{adversary}; {level}"),
        (
            "evidence",
            _join_with_counts(
                _EVIDENCE.get(str(r.get("evidence", "numerical")), str(r.get("evidence")))
                for r in results
            ),
        ),
    ]


def _join_with_counts(words: Iterable[str], *, quote: bool = False) -> str:
    """Join the distinct words, most common first, with their counts if there are several distinct
    words.
    """
    found = Counter(words)
    shown = [
        f"{code(word) if quote else escaped_markdown(word)}{f' ({n} audits)' if len(found) > 1 and n > 1 else ''}"  # noqa: E501
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
