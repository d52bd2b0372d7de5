"""One audit's part of a store: what it has settled, what it has counted, where it has looked."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from dpwitness.auditors.results.verdicts import Result, Verdict, strict
from dpwitness.auditors.running.spans import Span
from dpwitness.auditors.running.stage import Stage
from dpwitness.auditors.storing.identity import Identity
from dpwitness.auditors.storing.payload import ARCHIVE, pack, unpack
from dpwitness.auditors.storing.rows import insertion
from dpwitness.auditors.storing.store import Entry, Store, stage_number
from dpwitness.auditors.targets.places import place_of
from dpwitness.mechanisms.terms.protocol import MechanismFailed
from dpwitness.mechanisms.terms.validation import InvalidArgument

T = TypeVar("T")

_WAIT = 0.5  # seconds between two transactions
_RETRY = 5.0  # after one that failed


class AuditLedger:
    """Satisfies `dpwitness.auditors.running.engine.Ledger`.

    Writing never stops an audit: where the disk is full, what cannot be written is kept and tried again, and `trouble` says why.
    """

    def __init__(self, store: Store, identity: Identity, name: str, planned: int) -> None:
        found = store.find(identity, name)
        self.store, self.resumed = store, found is not None
        try:
            self.entry: Entry = found or store.begin(identity, name, planned)
        except sqlite3.Error as error:
            raise InvalidArgument(f"store must be a file that can be written, got {store.path}: {error}") from None
        self.trouble = ""
        self._pending: list[tuple[str, tuple[Any, ...]]] = []
        self._due = 0.0
        self._stages: dict[tuple[int, int, bool], int] = {}

    def told(self) -> str:
        """What there is of the audit, in one line."""
        entry = self.entry
        if not self.resumed:
            return f"{self.store.path}: {entry.name} begins"
        if entry.verdict is not None:
            return f"{self.store.path}: {entry.name} was run to its end before, nothing is left to run"
        return f"{self.store.path}: {entry.name} goes on, {entry.done:,} of {entry.planned:,} runs are done"

    def fact(self, key: str, find: Callable[[], T]) -> T:
        """A plain value that was settled once and for all: by an earlier run, or now."""
        missing = object()
        found: Any = self.value(key, missing)
        if found is missing:
            found = find()
            self.put(key, found)
        kept: T = found
        return kept

    def value(self, key: str, missing: Any) -> Any:
        """What is there under a key, or `missing`."""
        found = self.store.rows("facts", "audit = ? AND key = ?", self.entry.id, key)
        return json.loads(found[0][2]) if found else missing

    def values(self, prefix: str) -> dict[str, Any]:
        """All that is there under keys with a prefix."""
        rows = self.store.rows("facts", "audit = ?", self.entry.id)
        return {key: json.loads(value) for _, key, value in rows if key.startswith(prefix)}

    def end(self, number: int, told: Any) -> None:
        """Write down how the plan, or an extension, has ended. From here on outputs are no longer needed, counts stay."""
        self.flush()
        self._put(*insertion("facts", self.entry.id, f"end {number}", json.dumps(told)))
        spans = "DELETE FROM spans WHERE stage IN (SELECT id FROM stages WHERE audit = ?) AND substr(payload, 1, 1) = ?"
        self._put(spans, (self.entry.id, ARCHIVE))
        self.flush()
        with suppress(sqlite3.Error):
            self.store.connection.executescript("PRAGMA incremental_vacuum")

    def put(self, key: str, value: Any) -> None:
        """Write a plain value under a key, at once."""
        self._put(*insertion("facts", self.entry.id, key, json.dumps(value)))
        self.flush()

    def spans(self, stage: Stage) -> dict[int, int]:
        """First and last chunk of what is there of a stage."""
        return dict(self.store.query("SELECT first, last FROM spans WHERE stage = ?", self._stage(stage)))

    def read(self, stage: Stage, first: int) -> Span:
        """The span that begins at this chunk. Raises InvalidArgument if it cannot be read."""
        rows = self.store.rows("spans", "stage = ? AND first = ?", self._stage(stage), first)
        try:
            return unpack(first, rows[0][4])
        except (ValueError, KeyError, TypeError, IndexError) as error:
            told = f"the chunks from {first} on of phase {stage.key[2]} cannot be read ({error})"
            raise InvalidArgument(f"store must be whole, got {self.store.path}: {told}") from None

    def write(self, stage: Stage, span: Span) -> None:
        """Add a span, with the next transaction."""
        rounds = sum(part.rounds for _, part in span.parts)
        self._put(*insertion("spans", self._stage(stage), span.first, span.last, rounds, pack(span), how="OR IGNORE"))

    def look(self, runs: int, bound: float) -> None:
        """Note a look: runs made by then, and what was certified."""
        self._put(*insertion("looks", self.entry.id, runs, float(min(bound, 1e308))))

    def progress(self, done: int, planned: int) -> None:
        """Note how far the audit is."""
        self._put("UPDATE audits SET done = max(done, ?), planned = ? WHERE id = ?", (done, planned, self.entry.id))

    def reopen(self, planned: int) -> None:
        """The audit has not come to its end after all."""
        self._put("UPDATE audits SET verdict = NULL, ended = NULL, planned = ? WHERE id = ?", (planned, self.entry.id))
        self.flush()
        self.entry = replace(self.entry, verdict=None, planned=planned)

    def finish(self, result: Result, done: int, planned: int) -> None:
        """Note the end, and the result where there is a verdict."""
        self.progress(done, planned)
        ended = getattr(result, "exercised", None) is False  # with every run made, and without a verdict
        if ended or result.verdict not in (Verdict.ERROR, Verdict.INCONCLUSIVE):
            mechanism, target = getattr(result, "mechanism", None), result.to_json().get("target")
            whole = result.to_json() | {"witness": getattr(result, "witness", None), "source": place_of(mechanism, target)}
            told = json.dumps(strict(whole), allow_nan=False)
            values = (time.time(), result.verdict.value, told, self.entry.id)
            self._put("UPDATE audits SET ended = ?, verdict = ?, result = ? WHERE id = ?", values)
        self.flush()

    def flush(self) -> None:
        """Write what is pending in one transaction."""
        if not self._pending:
            return
        try:
            with self.store.transaction() as connection:
                for statement, values in self._pending:
                    connection.execute(statement, values)
                self.store.reseal(self.entry.id)
            self._pending, self.trouble, wait = [], "", _WAIT
        except (sqlite3.Error, InvalidArgument) as error:
            self.trouble, wait = str(error), _RETRY
        self._due = time.monotonic() + wait

    def _put(self, statement: str, values: tuple[Any, ...]) -> None:
        self._pending.append((statement, values))
        if time.monotonic() >= self._due:
            self.flush()

    def _stage(self, stage: Stage) -> int:
        """The number of a stage. It is a formula, so that its row may be written with the spans that refer to it.

        Raises
        ------
        MechanismFailed
            If the stage is there with another plan.
        """
        _, pair, phase = stage.key
        key = (phase, pair, stage.single)
        if key not in self._stages:
            number = stage_number(self.entry.id, *key)
            rows = self.store.rows("stages", "id = ?", number)
            row = rows[0][5:] if rows else (stage.rounds, stage.chunk)
            if not rows:
                self._put(*insertion("stages", number, self.entry.id, *key, stage.rounds, stage.chunk, how="OR IGNORE"))
            elif row != (stage.rounds, stage.chunk):
                raise MechanismFailed(
                    f"the plan of this run is not that of {self.store.path}: phase {phase} had {row[0]} rounds in chunks of {row[1]}, "
                    f"and has {stage.rounds} in chunks of {stage.chunk}"
                )
            self._stages[key] = number
        return self._stages[key]
