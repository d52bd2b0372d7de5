"""Declarations in TARGETS of a target file, and calls of the file's functions in worker processes,
in batches.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, did_you_mean, error_text, short_repr
from dpwitness.mechanisms.wrappers.programs.inside import codec
from dpwitness.mechanisms.wrappers.programs.target import Target, library_note
from dpwitness.mechanisms.wrappers.programs.worker_pool import (
    CONFINED,
    TargetError,
    answer_of,
    interpreter_slot,
)
from dpwitness.mechanisms.wrappers.programs.worker_process import (
    WorkerDied,
    WorkerTimeout,
    borrowed_worker,
)

_BATCH_SECONDS = 0.5  # duration of a batch of calls to aim at
_MAX_BATCH = 2048


RAISES, ABORTS, UNFINISHED = "raises", "aborts", "unfinished"


class FailedRun(Exception):
    """Outcome of a run without an output: it raised an exception, it ended its process (a crash, or
    native code that gave up), or it did not end in its time.

    Parameters
    ----------
    kind : {"raises", "aborts", "unfinished"}
    text : str
        The exception, or how the process ended.
    name : str
        Class of the exception.
    """

    def __init__(self, kind: str, text: str, name: str = "") -> None:
        super().__init__(kind, text, name)
        self.kind, self.text, self.name = kind, text, name

    @classmethod
    def of(cls, error: BaseException) -> FailedRun:
        """Return the outcome of a run that raised `error`, which may be an outcome itself."""
        if isinstance(error, FailedRun):
            return error
        return cls(RAISES, error_text(error), type(error).__name__)

    def __str__(self) -> str:
        return f"raises {self.text}" if self.kind == RAISES else self.text


def declarations(
    file: str, python: str | None = None, time_limit: float = 300.0, memory_limit: float = 0.0
) -> dict[str, Json]:
    """Return TARGETS of a target file by name; empty if the file has none.

    Raises
    ------
    TargetError
        If the file cannot be loaded, or TARGETS is malformed.
    """
    reply, blobs, _ = answer_of(
        interpreter_slot(file, python, memory_limit),
        {"op": "declarations"},
        [],
        time_limit,
        f"{file}: TARGETS could not be read",
    )
    found: dict[str, Json] = codec.unpack(reply["declared"], blobs)
    return found


def note_on_library(target: Target) -> str:
    """Return library, version and interpreter of a target file for reports; an empty text if the
    file names no LIBRARY.
    """
    with borrowed_worker(target._slot, target.time_limit) as worker:
        found = worker.loaded | worker.versions
    return library_note(found) if found["library"] else ""


@dataclass(slots=True)
class Calls:
    """Calls of the functions of a target's file in worker processes of its interpreter.

    A call that ends its process has a FailedRun as its outcome; the other calls of its batch are
    made again in a new process.
    """

    target: Target
    aborts: int = 0  # number of processes that calls have ended
    _size: int = field(default=8, repr=False)

    def call(
        self, name: str, arguments: Sequence[Sequence[Any]], keywords: Sequence[str] = ()
    ) -> list[Any]:
        """Return the values and exceptions of the calls of one function, in order; with `keywords`,
        as the names of its arguments.

        Raises
        ------
        TargetError
            If the file cannot be loaded, or has no function of this name.
        """
        found: list[Any] = []
        with tempfile.NamedTemporaryFile(
            prefix="dpwitness-calls-", dir=CONFINED.get() or None
        ) as marker:
            while len(found) < len(arguments):
                batch = arguments[len(found) : len(found) + self._size]
                begin = time.perf_counter()
                found += self._batch(name, batch, keywords, marker.name)
                seconds = time.perf_counter() - begin
                if seconds > _BATCH_SECONDS:
                    self._size = max(1, self._size // 2)
                elif seconds < _BATCH_SECONDS / 4:
                    self._size = min(_MAX_BATCH, 2 * self._size)
        return found

    def _batch(
        self, name: str, batch: Sequence[Sequence[Any]], keywords: Sequence[str], marker: str
    ) -> list[Any]:
        """Return the outcomes of a batch. After an abort, return the abort and the outcomes of the
        earlier calls, which are made again.
        """
        with contextlib.suppress(OSError):
            os.truncate(marker, 0)
        sent: codec.Blobs = []
        header = {
            "op": "call",
            "name": name,
            "marker": marker,
            "keywords": list(keywords),
            "calls": [codec.pack(list(each), sent, exact=True) for each in batch],
        }
        try:
            with borrowed_worker(self.target._slot, self.target.time_limit) as worker:
                reply, blobs = worker.ask(header, sent, self.target.time_limit)
        except WorkerDied as error:
            self.aborts += 1
            outcome = FailedRun(
                UNFINISHED if isinstance(error, WorkerTimeout) else ABORTS, str(error)
            )
            self._size = max(1, self._size // 2)
            at = 0  # position of the call in progress
            with contextlib.suppress(OSError, ValueError):
                at = int(Path(marker).read_text(encoding="ascii") or 0)
            return [*(self._batch(name, batch[:at], keywords, marker) if at else []), outcome]
        if "error" in reply:
            raise TargetError(
                f"{os.path.basename(self.target.file)}: {reply['error']}", reply["traceback"]
            )
        return [
            codec.unpack(each.get("value", each.get("raised")), blobs) for each in reply["outcomes"]
        ]


@dataclass(frozen=True, eq=False)
class Declared:
    """Base class of the declarations in TARGETS; each kind has its name, its keys, and the keys
    that name functions.

    Parameters
    ----------
    target : Target
        File, name and interpreter.
    declaration : dict
        The entry of TARGETS.

    Raises
    ------
    InvalidArgument
        If the declaration is of another kind, or lacks a key.
    """

    KIND: ClassVar[str]
    NEEDED: ClassVar[tuple[str, ...]] = ()
    KEYS: ClassVar[tuple[str, ...]]
    FUNCTIONS: ClassVar[tuple[str, ...]]

    target: Target
    declaration: Json
    calls: Calls = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found, keys = self.declaration, ("kind", *self.KEYS)
        where = f"{os.path.basename(self.target.file)}:{self.target.name}"
        wrong_kind = f'kind must be "{self.KIND}", got {short_repr(found.get("kind"))}'
        faults = [
            *([] if found.get("kind") == self.KIND else [wrong_kind]),
            *(
                f"the kind {self.KIND!r} needs the key {key!r}; its keys are {', '.join(keys)}"
                for key in self.NEEDED
                if key not in found
            ),
            *(
                f"key {key!r} is unknown{hint}"
                for key in found
                if key not in keys and (hint := did_you_mean(key, keys, similarity=0.85))
            ),
            *(
                f"{key} must name a function of the file, got {short_repr(found[key])}"
                for key in self.FUNCTIONS
                if not isinstance(found.get(key, ""), str)
            ),
        ]
        if faults:
            raise InvalidArgument(f"{where}: {faults[0]}")
        object.__setattr__(self, "calls", Calls(self.target))

    @property
    def __name__(self) -> str:
        return self.target.name

    @classmethod
    def of(cls, target: Target) -> Self:
        """Return the declaration that a target names in TARGETS of its file. Raise InvalidArgument
        if there is none.
        """
        found = declarations(target.file, target.python, target.time_limit, target.memory_limit)
        if target.name not in found:
            names = ", ".join(found) or "nothing"
            raise InvalidArgument(
                f"{os.path.basename(target.file)}: TARGETS must declare {target.name!r}, it "
                f"has {names}"
            )
        return cls(target, found[target.name])
