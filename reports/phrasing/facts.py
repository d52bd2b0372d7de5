"""Facts that the cards of all kinds of results share: claim, relation, pair, enclosure and run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpwitness.auditors.witnesses.trace_evidence import TraceEvidence
from dpwitness.core.claims import Claim, exact_claim, parse_claim
from dpwitness.core.datasets.relations import describe_relation, parse_relation
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.phrasing.wording import (
    code,
    dataset,
    differences,
    escaped_markdown,
    figure,
    format_times,
    number,
    verdict,
)

Facts = list[tuple[str, str]]  # (label, markdown)


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


Card = Callable[[Entry], Facts]


def claim_of(result: Json) -> Claim | None:
    """Return the claim that a result was tested against; None if the result has no claim that can
    be parsed.
    """
    text, numbers = result.get("claim"), result.get("claim_numbers")
    try:
        return (
            (exact_claim(text, numbers) if isinstance(numbers, list) else parse_claim(text))
            if isinstance(text, str)
            else None
        )
    except InvalidArgument:
        return None


def explanations(result: Json) -> tuple[str, ...]:
    """Return what the traced runs of an audit show, one line for each kind of call and each
    finding; empty without a readable trace.
    """
    try:
        return TraceEvidence.from_json(result["trace"]).explanation
    except (KeyError, TypeError, ValueError):
        return ()


def causes_text(result: Json) -> str:
    """Return the verdicts on the causes of a violation in one line; empty if causes were not
    separated.

    Examples
    --------
    >>> causes = [("exceptions", "raises KeyError", "VIOLATED", 4.25),
    ...     ("values", "", "NOT_REFUTED", 0.5)]
    >>> keys = ("kind", "words", "verdict", "parameter_lower")
    >>> causes_text({"parameter": "mu", "causes": [dict(zip(keys, cause)) for cause in causes]})
    'VIOLATED by exceptions (raises KeyError), mu > 4.25; NOT REFUTED by values, mu > 0.5'
    """
    lines = []
    for cause in result.get("causes") or ():
        words = f" ({cause['words']})" if cause["words"] else ""
        bound = f", {result.get('parameter', 'epsilon')} > {figure(cause['parameter_lower'])}"
        counted = cause["verdict"] not in ("INCONCLUSIVE", "ERROR")
        lines.append(
            f"{verdict(cause['verdict'])} by {cause['kind']}{words}{bound if counted else ''}"
        )
    return "; ".join(lines)


def run_facts(result: Json) -> Facts:
    """Return the facts of a result's run: seed, environment and time."""
    return [
        ("seed", code(result["seed"]) if result.get("seed") is not None else ""),
        ("environment", _environment(result)),
        ("time", format_times(result.get("seconds"), result.get("cpu_seconds"))),
    ]


def relation_fact(result: Json) -> tuple[str, str]:
    """Return the relation with its meaning as a fact; an unknown relation is printed without a
    meaning.
    """
    relation = str(result.get("relation") or "")
    return "relation", escaped_markdown(
        f"{relation}: {describe_relation(relation)}" if describe_relation(relation) else relation
    )


def again(result: Json) -> str:
    """Return the phrase on how a replay obtains the verdict: from the counts, or with fresh
    randomness.
    """
    same = dict.fromkeys(("stability", "accountant", "metamorphic"), "on the same inputs")
    return {"canaries": "from its counts", **same}.get(
        str(result.get("kind")), "with fresh randomness"
    )


def pair_facts(result: Json) -> Facts:
    """Return the facts of a result's pair: both datasets, their difference, and why the datasets
    are neighbors.
    """
    pair = result.get("pair")
    if not pair:
        return []
    relation = escaped_markdown(pair.get("relation", ""))
    known = describe_relation(str(pair.get("relation", "")))
    checked = not known or parse_relation(str(pair["relation"])).checked
    told = (
        f"checked to be {relation} neighbors"
        if checked
        else f"stated to be neighbors ({relation}), not checked here"
    )
    return [
        ("D0", code(dataset(pair["d0"]))),
        ("D1", code(dataset(pair["d1"]))),
        ("where they differ", escaped_markdown(differences(pair["d0"], pair["d1"]))),
        ("why this pair", f"{escaped_markdown(pair.get('why', ''))}; {told}"),
    ]


def enclosure(result: Json, digits: int = 6) -> str:
    """Format the enclosure of the claim's parameter as ``[lower, upper]``, from a white-box result
    or a black-box result's enclosure.
    """
    ends = [number(result.get(f"parameter_{end}")) for end in ("lower", "upper")]
    return f"[{', '.join(figure(end, digits) for end in ends)}]"


def _environment(result: Json) -> str:
    """Format the environment of a result, package names and versions, as one line."""
    return ", ".join(
        f"{escaped_markdown(name)} {escaped_markdown(version)}"
        for name, version in (result.get("environment") or {}).items()
    )
