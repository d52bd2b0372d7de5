"""What cards of results show, whatever their kind: the entry itself, its claim, its pair, its enclosure, its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpwitness.mechanisms.terms.notions import Claim, exact_claim, parse_claim
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.relations import parse_relation, told_of
from dpwitness.mechanisms.terms.validation import InvalidArgument
from dpwitness.reports.words.wording import code, dataset, differences, figure, number, prose

Facts = list[tuple[str, str]]  # (label, markdown)


@dataclass(frozen=True, slots=True)
class Entry:
    """A result's JSON with what the report knows besides: its file name part, its files, its place in the family."""

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
    """The claim that a result was held against; None where it names none that can be read."""
    text, numbers = result.get("claim"), result.get("claim_numbers")
    try:
        return (exact_claim(text, numbers) if isinstance(numbers, list) else parse_claim(text)) if isinstance(text, str) else None
    except InvalidArgument:
        return None


def run_facts(result: Json) -> Facts:
    """Where a result comes from and what it took."""
    return [
        ("seed", code(result["seed"]) if result.get("seed") is not None else ""),
        ("environment", _environment(result)),
        ("time", f"{figure(result.get('seconds'), 3)} s" if result.get("seconds") else ""),
    ]


def relation_fact(result: Json) -> tuple[str, str]:
    """The relation and what it means; one that is not known comes from outside."""
    relation = str(result.get("relation") or "")
    return "relation", prose(f"{relation}: {told_of(relation)}" if told_of(relation) else relation)


def again(result: Json) -> str:
    """How a replay reaches the verdict of a result."""
    return "from its counts" if result.get("kind") == "canaries" else "with fresh randomness"


def pair_facts(result: Json) -> Facts:
    """The pair of a result, and why it is one."""
    pair = result.get("pair")
    if not pair:
        return []
    return [
        ("D0", code(dataset(pair["d0"]))),
        ("D1", code(dataset(pair["d1"]))),
        ("where they differ", prose(differences(pair["d0"], pair["d1"]))),
        ("why this pair", f"{prose(pair.get('why', ''))}; {_checked(str(pair.get('relation', '')))}"),
    ]


def _checked(relation: str) -> str:
    """Whether the two were compared."""
    if told_of(relation) and not parse_relation(relation).checked:
        return f"that they are neighbours was stated ({prose(relation)}), and not checked here"
    return f"checked to be {prose(relation)} neighbours"


def enclosure(result: Json, digits: int = 6) -> str:
    """``[lower, upper]`` of the claim's parameter, from a white-box result or one that a black-box result carries along."""
    ends = [number(result.get(f"parameter_{end}")) for end in ("lower", "upper")]
    return f"[{', '.join(figure(end, digits) for end in ends)}]"


def _environment(result: Json) -> str:
    """Versions on one line."""
    return ", ".join(f"{prose(name)} {prose(version)}" for name, version in (result.get("environment") or {}).items())
