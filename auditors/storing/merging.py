"""What two stores hold, in one: audits of either, and of those in both the chunks of both, each counted once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dpwitness.auditors.running.spans import Segment
from dpwitness.auditors.storing.payload import unpack
from dpwitness.auditors.storing.store import Store, stage_number
from dpwitness.mechanisms.terms.validation import InvalidArgument

_CLOCK = ("seconds", "notes")  # of an audit's end: they depend on how fast the mechanism was, and determine no count


@dataclass(frozen=True, slots=True)
class Merged:
    """How many audits and spans were added, and how many spans of both were found equal."""

    audits: int
    spans: int
    equal: int


def merge(into: Store, other: Store) -> Merged:
    """Add what `other` holds. Chunks that are in both must have given the same.

    Raises
    ------
    InvalidArgument
        If they have not: then the mechanism is no function of its seed, or one of the files is not what it says.
    """
    mine = {entry.hash: entry for entry in into.entries()}
    audits = spans = equal = 0
    for damage in other.damage(spans=True):
        raise InvalidArgument(
            f"store is damaged, got {other.path} ({damage.row}): remove what is damaged with `dpwitness store gc {other.path}`"
        )
    with into.transaction() as connection:
        for entry in other.entries():
            here, theirs = mine.get(entry.hash), other.rows("audits", "id = ?", entry.id)[0]
            if here is None:
                audits += 1
                number = 1 + max([0, *(found for (found,) in into.query("SELECT id FROM audits"))])
                into.write("audits", number, *theirs[1:])
                for table in ("facts", "looks"):
                    for row in other.rows(table, "audit = ?", entry.id):
                        into.write(table, number, *row[1:])
            else:
                number = here.id
                into.require_intact(here)
                facts = [_facts(into, here.id), _facts(other, entry.id)]
                ends = [sum(key.startswith("end ") for key in each) for each in facts]
                _add_plan(into, other, here.id, facts, entry.name)
                if entry.verdict is not None and (ends[0] < ends[1] or (here.verdict is None and ends[0] == ends[1])):
                    values = (entry.done, entry.planned, *theirs[7:], here.id)
                    connection.execute("UPDATE audits SET done = ?, planned = ?, ended = ?, verdict = ?, result = ? WHERE id = ?", values)
            added, same = _copy_spans(into, other, number, entry.id, entry.name)
            spans, equal = spans + added, equal + same
            connection.execute(
                "UPDATE audits SET done = max(done, ?) WHERE id = ?", (max(entry.done, here.done if here is not None else 0), number)
            )
            into.reseal(number)
    return Merged(audits, spans, equal)


def _facts(store: Store, audit: int) -> dict[str, str]:
    return {row[1]: row[2] for row in store.rows("facts", "audit = ?", audit)}


def _add_plan(into: Store, other: Store, mine: int, facts: list[dict[str, str]], name: str) -> None:
    """Add what `other` has settled. What both have settled must be the same, or the counts are of different events."""
    here, there = facts
    for key in here.keys() & there.keys():
        one, two = _counted(key, here[key]), _counted(key, there[key])
        if key == "extensions":  # those of one store may go on from those of the other
            one, two = one[: len(two)], two[: len(one)]
        if one != two:
            raise InvalidArgument(f"stores must agree, got {into.path} and {other.path}, which differ in {key} of {name}")
    for key in there:
        if key not in here or (key == "extensions" and len(there[key]) > len(here[key])):
            into.write("facts", mine, key, there[key])


def _counted(key: str, text: str) -> Any:
    """A fact without what depends on the clock."""
    value = json.loads(text)
    return {name: part for name, part in value.items() if name not in _CLOCK} if key.startswith("end ") else value


def _copy_spans(into: Store, other: Store, mine: int, theirs: int, name: str) -> tuple[int, int]:
    """Add the spans that overlap none that is there; those that some of them cover exactly must agree with these."""
    added = equal = 0
    for number, _, *stage in other.rows("stages", "audit = ?", theirs):
        ours = stage_number(mine, *stage[:3])
        if not into.rows("stages", "id = ?", ours):
            into.write("stages", ours, mine, *stage)
        here = [row[1:] for row in into.rows("spans", "stage = ?", ours)]
        for _, first, last, rounds, payload in other.rows("spans", "stage = ?", number):
            within = sorted(row for row in here if row[0] < last and first < row[1])
            if not within:
                into.write("spans", ours, first, last, rounds, payload)
                added += 1
            elif within[0][0] == first and within[-1][1] == last and sum(row[2] for row in within) == rounds:
                if not _sum([(row[0], row[3]) for row in within]).agrees(_sum([(first, payload)])):
                    raise InvalidArgument(
                        f"stores must agree, got {other.path} with other counts for chunks {first} to {last - 1} of {name}: "
                        "the mechanism is not a function of its seed"
                    )
                equal += 1
    return added, equal


def _sum(spans: list[tuple[int, bytes]]) -> Segment:
    total = Segment()
    for first, payload in spans:
        for _, part in unpack(first, payload).parts:
            total.add(part)
    return total
