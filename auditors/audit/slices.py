"""Slices of a watched release in a store, and their sum.

A **release** is one version of a target: its source, its claim and pairs, and its outputs under one
seed. Its evidence is that of a sequential audit (`statistics/anytime`). Each call adds a **slice**,
whose rounds have fresh random streams. A slice holds the counts that it adds to each epoch. An
epoch holds its event and its prior, which rounds of earlier slices, or earlier rounds of its own
slice, chose.

The sum of slices depends neither on the clock nor on the order in which stores are merged: slices
are ordered by number and id, a slice that occurs twice is the same row, and slices of two machines
that continue one state add up. Two such slices may both begin an epoch. Each epoch depends on
rounds before its own slice only, so that the proof of Theorem 2 holds for the ordered list.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpwitness.auditors.statistics.certificate import Part, Prior, Tally
from dpwitness.auditors.witnesses.recompute import read_part
from dpwitness.auditors.witnesses.store import Entry, Store, insert_statement
from dpwitness.core.values.json_reader import (
    Json,
    anything,
    integer,
    listing,
    number,
    parse,
    record,
    short_json,
    text,
)
from dpwitness.core.values.validation import InvalidArgument

# keys of facts, or their prefixes
SLICE, EPOCH, BEGUN, FOUND = "slice ", "epoch ", "begun ", "found"

_COUNTS = listing(integer(), 4, 4)
_SLICE = record(
    time=number(),
    runs=integer(0, 10**18),
    counts=listing(anything),
    bound=number(lambda x: x >= 0, "a number, at least 0"),
)
_PLAN = record(
    event=anything,
    method=text(),
    directions=integer(1, 2),
    prior=listing(number(), 3, 3),
    pair=integer(0, 10**6),
    trained=integer(),
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Counts that one call adds: `counts` holds (epoch, right, wrong, rounds, lost), and `bound`
    the certified bound after the call.
    """

    number: int
    id: str
    time: float
    runs: int
    counts: tuple[tuple[str, int, int, int, int], ...]
    bound: float

    def to_json(self) -> Json:
        """Return the slice as JSON."""
        numbers = [[epoch, *counts] for epoch, *counts in self.counts]
        return {
            "time": round(self.time, 1),
            "runs": self.runs,
            "counts": numbers,
            "bound": self.bound,
        }

    @classmethod
    def from_json(cls, key: str, data: Json) -> Slice:
        """Return the slice that `to_json` wrote under a key."""
        found = re.fullmatch(f"{SLICE}([0-9]{{1,18}}) ([0-9a-f]+)", key)
        if found is None:
            raise InvalidArgument(
                f"key must be {SLICE!r}, a number and an id, got {short_json(key)}"
            )
        slice_data = _SLICE(data, "")
        counts = [
            (text()(row[0], "epoch"), *_COUNTS(row[1:], "counts"))
            for row in listing(listing(anything, 5, 5))(data["counts"], "counts")
        ]
        if sum(rounds for _, _, _, rounds, _ in counts) > slice_data["runs"]:
            raise InvalidArgument(
                f"runs must be at least the number of counted rounds, got {slice_data['runs']}"
            )
        return cls(
            int(found[1]),
            found[2],
            slice_data["time"],
            slice_data["runs"],
            tuple(counts),
            slice_data["bound"],
        )


@dataclass(frozen=True, slots=True)
class Release:
    """Sum of the slices of a release: its epochs in order, with the counts of each."""

    slices: tuple[Slice, ...] = ()
    # event, method, prior, pair and training size of each epoch
    epochs: dict[str, Json] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    unfinished: int = 0  # calls that ended without a slice
    found: bool = False  # whether the release was a discovery, so that no further slices are run

    @property
    def runs(self) -> int:
        """Number of runs of all slices."""
        return sum(each.runs for each in self.slices)

    @property
    def looks(self) -> tuple[tuple[int, float], ...]:
        """Return the number of runs and the certified bound after each slice."""
        runs, looks = 0, []
        for each in self.slices:
            runs += each.runs
            looks.append((runs, each.bound))
        return tuple(looks)


def epoch_id(slice_id: str, number: int, plan: Json) -> str:
    """Return the name of an epoch that a slice begins."""
    content = json.dumps([slice_id, number, plan], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def read_release(store: Store, entry: Entry) -> Release:
    """Return the sum of the slices in a store. Raise InvalidArgument if they cannot be read."""
    rows = store.rows("facts", "audit = ?", entry.id)
    try:
        facts = {key: parse(value) for _, key, value in rows}
        slices = [
            Slice.from_json(key, value) for key, value in facts.items() if key.startswith(SLICE)
        ]
        slices.sort(key=lambda each: (each.number, each.id))
        epochs = {
            key.removeprefix(EPOCH): _PLAN(value, "")
            for key, value in facts.items()
            if key.startswith(EPOCH)
        }
        done = {f"{each.number} {each.id}" for each in slices}
        unfinished = sum(
            key.removeprefix(BEGUN) not in done for key in facts if key.startswith(BEGUN)
        )
        return Release(tuple(slices), epochs, _sum(slices, epochs), unfinished, FOUND in facts)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"store is damaged or edited at {entry.name}: a slice cannot be read ({error})"
        ) from None


def _sum(slices: Sequence[Slice], epochs: dict[str, Json]) -> dict[str, Part]:
    """Return the counts of each epoch, in the order in which the epochs occur in the slices."""
    parts: dict[str, Part] = {}
    for each in slices:
        for name, correct, wrong, rounds, lost in each.counts:
            plan = epochs.get(name)
            if plan is None:
                raise InvalidArgument(f"epoch {short_json(name)} is missing")
            start = Part(Tally(0, 0, 0, plan["directions"]), 0.0, 0, Prior(*plan["prior"]))
            parts[name] = parts.get(name, start).plus(
                Tally(correct, wrong, rounds, plan["directions"]), lost
            )
    return {name: read_part(part.to_json()) for name, part in parts.items()}  # checks the numbers


def write_slice(store: Store, entry: Entry, new: Slice, epochs: dict[str, Json]) -> None:
    """Add a slice with the epochs that it begins, and remove the mark that it has begun, in one
    transaction.
    """
    with store.transaction() as connection:
        for name, plan in epochs.items():
            connection.execute(
                *insert_statement(
                    "facts", entry.id, f"{EPOCH}{name}", json.dumps(plan, separators=(",", ":"))
                )
            )
        key = f"{SLICE}{new.number} {new.id}"
        connection.execute(
            *insert_statement(
                "facts", entry.id, key, json.dumps(new.to_json(), separators=(",", ":"))
            )
        )
        connection.execute(
            "DELETE FROM facts WHERE audit = ? AND key = ?",
            (entry.id, f"{BEGUN}{new.number} {new.id}"),
        )
        connection.execute(
            "UPDATE audits SET done = done + ?, planned = done + ? WHERE id = ?",
            (new.runs, new.runs, entry.id),
        )
        store.reseal(entry.id)
