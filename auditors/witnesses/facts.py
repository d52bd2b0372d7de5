"""Facts of written results, as cards show them, and the facts that all kinds share: claim,
relation, pair and run.
"""

from __future__ import annotations

from typing import NamedTuple

from dpwitness.core.claims import Claim, exact_claim, parse_claim
from dpwitness.core.datasets.relations import describe_relation, parse_relation
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import dataset, differences, figure, format_times, number


class Fact(NamedTuple):
    """A line of a card: label, text, and whether the text is shown as code."""

    label: str
    text: str
    code: bool = False


Facts = list[Fact]


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


def claim_facts(result: Json) -> Facts:
    """Return the claim, and the relation with its meaning; an unknown relation has no meaning."""
    relation = str(result.get("relation") or "")
    meaning = describe_relation(relation)
    return [
        Fact("claim", str(result.get("claim") or ""), code=True),
        Fact("relation", f"{relation}: {meaning}" if meaning else relation),
    ]


def pair_facts(result: Json) -> Facts:
    """Return both datasets of a result's pair, their difference, and why they are neighbors."""
    pair = result.get("pair")
    if not pair:
        return []
    relation = str(pair.get("relation", ""))
    checked = not describe_relation(relation) or parse_relation(relation).checked
    neighbors = (
        f"checked to be {relation} neighbors"
        if checked
        else f"stated to be neighbors ({relation}), not checked here"
    )
    return [
        Fact("D0", dataset(pair["d0"]), code=True),
        Fact("D1", dataset(pair["d1"]), code=True),
        Fact("where they differ", differences(pair["d0"], pair["d1"])),
        Fact("why this pair", f"{pair.get('why', '')}; {neighbors}"),
    ]


def run_facts(result: Json) -> Facts:
    """Return the facts of a result's run: seed, environment and time."""
    seed = result.get("seed")
    return [
        Fact("seed", "" if seed is None else str(seed), code=True),
        Fact("environment", describe_environment(result)),
        Fact("time", format_times(result.get("seconds"), result.get("cpu_seconds"))),
    ]


def describe_environment(result: Json) -> str:
    """Return the environment of a result, package names and versions, as one line."""
    found = result.get("environment") or {}
    return ", ".join(f"{name} {version}" for name, version in found.items())


def enclosure(result: Json, digits: int = 6) -> str:
    """Return the enclosure of the claim's parameter as ``[lower, upper]``, from a white-box result
    or a black-box result's enclosure.
    """
    ends = [number(result.get(f"parameter_{end}")) for end in ("lower", "upper")]
    return f"[{', '.join(figure(end, digits) for end in ends)}]"
