"""Merging of two stores: the union of their audits and, for shared audits, of their chunks, each
counted once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dpwitness.auditors.witnesses.serialization import unpack
from dpwitness.auditors.witnesses.store import Store, stage_number
from dpwitness.auditors.workers.chunks import Segment
from dpwitness.core.values.validation import InvalidArgument

# fields of an audit's end that depend on the mechanism's speed, and determine no count
_CLOCK_FIELDS = ("seconds", "cpu_seconds", "notes")


@dataclass(frozen=True, slots=True)
class Merged:
    """Numbers of audits and spans that a merge added, and of spans that both stores hold with equal
    counts.
    """

    audits: int
    spans: int
    equal: int


def merge(into: Store, other: Store) -> Merged:
    """Add the audits and chunks of `other` to `into`. Chunks in both stores must have equal counts.

    Parameters
    ----------
    into : Store
        Store opened to write.
    other : Store
        Store to read; it does not change.

    Returns
    -------
    Merged
        Numbers of added and of equal parts.

    Raises
    ------
    InvalidArgument
        If a store is damaged, or if the stores disagree. Then the mechanism is not a function of
        its seed, or one of the files was edited.
    """
    mine = {entry.hash: entry for entry in into.entries()}
    audits = spans = equal = 0
    for damage in other.damage(spans=True):
        raise InvalidArgument(
            f"store is damaged, got {other.path} ({damage.row}): remove the damaged rows "
            f"with `dpwitness store gc {other.path}`"
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
                if entry.verdict is not None and (
                    ends[0] < ends[1] or (here.verdict is None and ends[0] == ends[1])
                ):
                    values = (entry.done, entry.planned, *theirs[7:], here.id)
                    connection.execute(
                        "UPDATE audits SET done = ?, planned = ?, ended = ?, verdict = ?, "
                        "result = ? WHERE id = ?",
                        values,
                    )
            added, same = _copy_spans(into, other, number, entry.id, entry.name)
            spans, equal = spans + added, equal + same
            connection.execute(
                "UPDATE audits SET done = max(done, ?) WHERE id = ?",
                (max(entry.done, here.done if here is not None else 0), number),
            )
            into.reseal(number)
    return Merged(audits, spans, equal)


def _facts(store: Store, audit: int) -> dict[str, str]:
    """Return the facts of an audit as JSON texts, by key."""
    return {row[1]: row[2] for row in store.rows("facts", "audit = ?", audit)}


def _add_plan(into: Store, other: Store, mine: int, facts: list[dict[str, str]], name: str) -> None:
    """Add the facts that only `other` has settled.

    Raises InvalidArgument if the stores disagree on a fact, since their counts are then of
    different events.
    """
    here, there = facts
    for key in here.keys() & there.keys():
        one, two = _without_clock(key, here[key]), _without_clock(key, there[key])
        if key == "extensions":  # the extensions of one store may continue those of the other
            one, two = one[: len(two)], two[: len(one)]
        if one != two:
            raise InvalidArgument(
                f"stores must agree, got {into.path} and {other.path}, which differ in {key} "
                f"of {name}"
            )
    for key in there:
        if key not in here or (key == "extensions" and len(there[key]) > len(here[key])):
            into.write("facts", mine, key, there[key])


def _without_clock(key: str, text: str) -> Any:
    """Return the value of a fact without the fields that depend on the clock."""
    value = json.loads(text)
    return (
        {name: part for name, part in value.items() if name not in _CLOCK_FIELDS}
        if key.startswith("end ")
        else value
    )


def _copy_spans(into: Store, other: Store, mine: int, theirs: int, name: str) -> tuple[int, int]:
    """Add the spans that overlap no stored span; return the numbers of added and of equal spans.

    Raises InvalidArgument if stored spans cover a span exactly and their counts differ.
    """
    added = equal = 0
    for number, _, *stage in other.rows("stages", "audit = ?", theirs):
        ours = stage_number(mine, *stage[:3])
        if not into.rows("stages", "id = ?", ours):
            into.write("stages", ours, mine, *stage)
        here = [row[1:] for row in into.rows("spans", "stage = ?", ours)]
        for _, first, last, rounds, payload in other.rows("spans", "stage = ?", number):
            overlapping = sorted(row for row in here if row[0] < last and first < row[1])
            if not overlapping:
                into.write("spans", ours, first, last, rounds, payload)
                added += 1
            elif (
                overlapping[0][0] == first
                and overlapping[-1][1] == last
                and sum(row[2] for row in overlapping) == rounds
            ):
                if not _total([(row[0], row[3]) for row in overlapping]).agrees(
                    _total([(first, payload)])
                ):
                    raise InvalidArgument(
                        f"stores must agree, got {other.path} with other counts for chunks "
                        f"{first} to {last - 1} of {name}: "
                        "the mechanism is not a function of its seed"
                    )
                equal += 1
    return added, equal


def _total(spans: list[tuple[int, bytes]]) -> Segment:
    """Return the sum of all counts of packed spans, given with their first chunks."""
    total = Segment()
    for first, payload in spans:
        for _, part in unpack(first, payload).parts:
            total.add(part)
    return total
