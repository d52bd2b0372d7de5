"""Ledger of one audit in a store: its identity, its settled facts, and its counts.

The identity holds the parts on which the counts depend, as text or hash. A span of chunks is stored
as bytes: JSON for counts, a NumPy archive if outputs are included. Reading never executes code from
the bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import json
import platform
import sqlite3
import time
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from dpwitness import auditors, mechanisms
from dpwitness.auditors.events.leaves import TextColumns
from dpwitness.auditors.events.outputs import Outputs, Score
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.store import (
    Identity,
    Store,
    StoredAudit,
    insert_statement,
    stage_number,
)
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.workers.chunks import Segment, Span
from dpwitness.auditors.workers.descriptions import globals_and_cells, place_of, source_of
from dpwitness.auditors.workers.rounds import Sides, Stage
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import ForeignMechanism, MechanismFailed
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument


def identity_of(
    mechanism: Any,
    target: Json | None,
    pairs: Sequence[Pair],
    scores: Sequence[Score],
    **settings: Any,
) -> Identity:
    """Return the parts that identify an audit, by name: the target and its source, pairs, scores,
    settings, and versions of code that affect counts.
    """
    file = source_of(mechanism, target)
    parts: dict[str, Any] = {
        "target": target or getattr(mechanism, "__qualname__", type(mechanism).__qualname__),
        "source": (
            f"sha256 {file['sha256'][:16]}"
            if file is not None
            else _code_hash(mechanism)
            if target is None
            else "of an installed package"
        ),
        "pair": [pair.to_json() for pair in pairs],
        "scores": [[score.to_json(), _code_hash(score.function)] for score in scores],
        "batch": mechanism.batch if isinstance(mechanism, ForeignMechanism) else None,
        **settings,
        "version of dpwitness": version("dpwitness"),
        "source of dpwitness": _package_hash(),
        "version of NumPy": np.__version__,
        "version of Python": ".".join(platform.python_version_tuple()[:2]),
    }
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for name, value in parts.items()
    }
    # the hash of a long text replaces it
    return {
        name: text if len(text) <= 60 else _short_hash(text.encode())
        for name, text in texts.items()
    }


def _short_hash(content: bytes) -> str:
    return f"sha256 {hashlib.sha256(content).hexdigest()[:16]}"


@functools.cache
def _package_hash() -> str:
    """Return a hash of the code that draws, learns and counts, so that counts of other code are not
    mixed with its counts.
    """
    folders = [Path(package.__path__[0]) for package in (mechanisms, auditors)]
    files = [(folder, file) for folder in folders for file in sorted(folder.rglob("*.py"))]
    return _short_hash(
        b"".join(
            file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes()
            for folder, file in files
        )
    )


def _code_hash(found: Any) -> str:
    """Return a hash of a function's code, defaults and closure, or of the fields and sampling
    method of another object.
    """
    parts: list[Any] = []
    while isinstance(found, functools.partial):
        parts += [found.args, found.keywords]
        found = found.func
    function = getattr(found, "py_func", getattr(found, "__func__", found))
    if not isinstance(function, types.FunctionType):
        parts.append(getattr(function, "__dict__", None))
        function = getattr(type(function), "sample", vars(type(function)).get("__call__"))
    parts += [getattr(function, name, None) for name in ("__defaults__", "__kwdefaults__")]
    if isinstance(function, types.FunctionType):
        parts.append(globals_and_cells(function, ()))
    content = json.dumps([_json_or_class_name(part) for part in parts], sort_keys=True).encode()
    return _short_hash(_code_bytes(getattr(function, "__code__", None)) + content)


def _code_bytes(code: types.CodeType | None) -> bytes:
    """Return bytecode, constants and names of a code object and of the code objects inside it."""
    if code is None:
        return b""
    inner = b"".join(
        _code_bytes(part) if isinstance(part, types.CodeType) else repr(part).encode()
        for part in code.co_consts
    )
    return code.co_code + inner + " ".join(code.co_names).encode()


def _json_or_class_name(value: Any) -> Any:
    """Return a value as JSON; the name of its class if it has no JSON form."""
    try:
        return to_jsonable(value)
    except InvalidArgument:
        return f"{type(value).__module__}.{type(value).__qualname__}"


JSON, ARCHIVE = b"J", b"Z"  # first byte, which tells the format


def pack(span: Span) -> bytes:
    """Return a span, the results of consecutive chunks, as bytes."""
    arrays: dict[str, Any] = {}
    head = {
        "last": span.last,
        "raised": span.raised,
        "seconds": span.seconds,
        "parts": [
            {
                "segment": place,
                "rounds": part.rounds,
                "lost": part.lost,
                "single": part.single,
                "seconds": part.seconds,
                "marks": [f"{mark:x}" for mark in part.marks],
                "tables": [table.tolist() for table in part.tables],
                "sides": [[_outputs_json(side, arrays) for side in sides] for sides in part.sides],
            }
            for place, part in span.parts
        ],
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    if not arrays:
        return JSON + text
    file = io.BytesIO()
    np.savez(file, head=np.frombuffer(text, dtype=np.uint8), **arrays)
    return ARCHIVE + file.getvalue()


def unpack(first: int, data: bytes) -> Span:
    """Return the span (the results of consecutive chunks) that begins at chunk `first`, from its
    bytes.

    Raise ValueError, KeyError or TypeError if `data` are not the bytes of a span.
    """
    kind, rest = data[:1], data[1:]
    if kind == JSON:
        head, arrays = json.loads(rest), {}
    elif kind == ARCHIVE:
        with np.load(io.BytesIO(rest), allow_pickle=False) as archive:
            arrays = dict(archive)
        head = json.loads(arrays["head"].tobytes())
    else:
        raise ValueError(f"no span begins with {kind!r}")
    parts = [(int(part["segment"]), _part_from_json(part, arrays)) for part in head["parts"]]
    return Span(first, int(head["last"]), parts, bool(head["raised"]), float(head["seconds"]))


def _outputs_json(side: Outputs | None, arrays: dict[str, Any]) -> Any:
    """Return the outputs of one side as JSON, and add their numbers to `arrays`."""
    if side is None:
        return None
    number = len(arrays) // 2
    arrays[f"values{number}"], arrays[f"codes{number}"] = side.values, side.codes
    return [
        number,
        [[code, name] for code, name in side.names.items()],
        sorted(side.opaque),
        [
            [code, [list(dataclasses.astuple(each)) for each in held]]
            for code, held in side.texts.items()
        ],
        side.signs,
    ]


def _part_from_json(part: dict[str, Any], arrays: dict[str, Any]) -> Segment:
    """Return a part of a span from its JSON and the arrays of its outputs."""

    def outputs(fields: Any) -> Outputs | None:
        if fields is None:
            return None
        number, names, opaque, texts, signs = fields
        held = {code: tuple(TextColumns(*each) for each in several) for code, several in texts}
        return Outputs(
            arrays[f"values{number}"],
            arrays[f"codes{number}"],
            dict(map(tuple, names)),
            held,
            frozenset(opaque),
            signs,
        )

    sides: list[Sides] = [(outputs(one), outputs(zero)) for one, zero in part["sides"]]
    return Segment(
        [np.array(table, dtype=np.int64) for table in part["tables"]],
        sides,
        int(part["rounds"]),
        int(part["lost"]),
        [int(mark, 16) for mark in part["marks"]],
        float(part["seconds"]),
        bool(part["single"]),
    )


T = TypeVar("T")

_MISSING = object()
_RETRY = 5.0  # seconds after a failed transaction


class AuditLedger:
    """Ledger that writes to a store, as `dpwitness.auditors.workers.engine.Ledger` requires.

    A failed write, as on a full disk, does not stop the audit. The rows are kept in memory and
    written again later; `trouble` holds the error.
    """

    def __init__(self, store: Store, identity: Identity, name: str, planned: int) -> None:
        found = store.find(identity, name)
        self.store, self.resumed = store, found is not None
        self.entry: StoredAudit = found or store.begin(identity, name, planned)
        self.trouble = ""
        self._pending: list[tuple[str, tuple[Any, ...]]] = []
        self._due = 0.0
        self._stages: set[int] = set()  # numbers of the stages whose plan was checked

    def describe(self, *, sequential: bool = False) -> str:
        """Return the progress of the audit in the store, in one line; a sequential audit is never
        finished.
        """
        entry, planned = self.entry, "" if sequential else f" of {self.entry.planned:,}"
        state = f"goes on, {entry.done:,}{planned} runs are done"
        if not self.resumed:
            state = "begins"
        elif entry.verdict is not None and not sequential:
            state = "is finished, there is nothing left to run"
        return f"{self.store.path}: {entry.name} {state}"

    def fact(self, key: str, find: Callable[[], T]) -> T:
        """Return the value under a key. If it is missing, compute it with `find` and store it."""
        found: T | object = self.value(key, _MISSING)
        if found is _MISSING:
            found = find()
            self.put(key, found)
        return cast("T", found)

    def value(self, key: str, missing: Any) -> Any:
        """Return the stored value under a key, or `missing`."""
        found = self.store.rows("facts", "audit = ? AND key = ?", self.entry.id, key)
        return json.loads(found[0][2]) if found else missing

    def values(self, prefix: str) -> dict[str, Any]:
        """Return all stored values whose keys begin with a prefix, by key."""
        rows = self.store.rows("facts", "audit = ?", self.entry.id)
        return {key: json.loads(value) for _, key, value in rows if key.startswith(prefix)}

    def end(self, number: int, outcome: Any) -> None:
        """Store the end of the plan, or of an extension, and delete the stored outputs: only counts
        are needed afterwards.
        """
        self.flush()
        self._put(*insert_statement("facts", self.entry.id, f"end {number}", json.dumps(outcome)))
        self._put(
            "DELETE FROM spans WHERE stage IN (SELECT id FROM stages WHERE audit = ?) AND "
            "substr(payload, 1, 1) = ?",
            (self.entry.id, ARCHIVE),
        )
        self.flush()
        with suppress(sqlite3.Error):
            self.store.connection.executescript("PRAGMA incremental_vacuum")

    def put(self, key: str, value: Any) -> None:
        """Store a JSON value under a key, at once."""
        self._put(*insert_statement("facts", self.entry.id, key, json.dumps(value)))
        self.flush()

    def spans(self, stage: Stage) -> dict[int, int]:
        """Return the last chunk of each stored span of a stage, by the first chunk."""
        return dict(
            self.store.query("SELECT first, last FROM spans WHERE stage = ?", self._stage(stage))
        )

    def read(self, stage: Stage, first: int) -> Span:
        """Return the span that begins at this chunk. Raises InvalidArgument if the span cannot be
        read.
        """
        rows = self.store.rows("spans", "stage = ? AND first = ?", self._stage(stage), first)
        try:
            return unpack(first, rows[0][4])
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise InvalidArgument(
                f"store must be undamaged, got {self.store.path}: the chunks from {first} on of "
                f"phase {stage.key[2]} cannot be read ({error}); use another store"
            ) from None

    def write(self, stage: Stage, span: Span) -> None:
        """Add a span; the next transaction writes it."""
        self._put(
            *insert_statement(
                "spans",
                self._stage(stage),
                span.first,
                span.last,
                sum(part.rounds for _, part in span.parts),
                pack(span),
                how="OR IGNORE",
            )
        )

    def progress(self, done: int, planned: int) -> None:
        """Record the number of runs done and planned, unless an earlier session has done more."""
        self._put(
            "UPDATE audits SET done = ?, planned = ? WHERE id = ? AND done <= ?",
            (done, planned, self.entry.id, done),
        )

    def reopen(self, planned: int) -> None:
        """Mark an ended audit as unfinished, with a new number of planned runs."""
        self._put(
            "UPDATE audits SET verdict = NULL, ended = NULL, planned = ? WHERE id = ?",
            (planned, self.entry.id),
        )
        self.flush()
        self.entry = replace(self.entry, verdict=None, planned=planned)

    def finish(self, result: Result, done: int, planned: int) -> None:
        """Record the end of the audit, with its result if it has a verdict or has made
        every run.
        """
        self.progress(done, planned)
        # every run was made, but no pair exercises the mechanism
        unexercised = getattr(result, "exercised", None) is False
        if unexercised or result.verdict not in (Verdict.ERROR, Verdict.INCONCLUSIVE):
            content = result.to_json() | {
                "witness": result.witness,
                "source": place_of(result.source_of, result.target),
            }
            text = json.dumps(strict(content), allow_nan=False)
            self._put(
                "UPDATE audits SET ended = ?, verdict = ?, result = ? WHERE id = ?",
                (time.time(), result.verdict.value, text, self.entry.id),
            )
        self.flush()

    def changed_outputs(self, rounds: int) -> InvalidArgument:
        """Return the exception for a stage whose first outputs differ from the stored digest."""
        return self.changed_mechanism(
            f"the first {rounds:,} rounds of a stored stage give other outputs under the same seed "
            "now: the target, or something that it uses, has changed"
        )

    def changed_mechanism(self, evidence: str) -> InvalidArgument:
        """Return the exception for a mechanism that did not make the stored counts."""
        return InvalidArgument(
            f"store was made by another version of this mechanism: {evidence}; "
            "use another store, or remove the audit with `dpwitness store gc "
            f"{self.store.path} {self.entry.name}`"
        )

    def flush(self) -> None:
        """Write all pending statements in one transaction."""
        if not self._pending:
            return
        try:
            with self.store.transaction() as connection:
                for statement, values in self._pending:
                    connection.execute(statement, values)
                self.store.reseal(self.entry.id)
            # seconds between two transactions
            self._pending, self.trouble, wait = [], "", 0.5
        except (sqlite3.Error, InvalidArgument) as error:
            self.trouble, wait = str(error.__cause__ or error), _RETRY
        self._due = time.monotonic() + wait

    def _put(self, statement: str, values: tuple[Any, ...]) -> None:
        """Add a pending statement, and write all pending statements if a transaction is due."""
        self._pending.append((statement, values))
        if time.monotonic() >= self._due:
            self.flush()

    def _stage(self, stage: Stage) -> int:
        """Return the row number of a stage, and add the row if it is missing. Raise MechanismFailed
        if the stored plan differs.
        """
        _, pair, phase = stage.key
        key, plan = (phase, pair, stage.single), (stage.rounds, stage.chunk)
        number = stage_number(self.entry.id, *key)
        if number in self._stages:
            return number
        rows = self.store.rows("stages", "id = ?", number)
        if not rows:
            row = (number, self.entry.id, *key, *plan)
            self._put(*insert_statement("stages", *row, how="OR IGNORE"))
        elif rows[0][5:] != plan:
            raise MechanismFailed(
                f"the plan of this run is not that of {self.store.path}: phase {phase} "
                f"had {rows[0][5]} rounds in chunks of {rows[0][6]}, "
                f"and has {stage.rounds} in chunks of {stage.chunk}; use another store"
            )
        self._stages.add(number)
        return number
