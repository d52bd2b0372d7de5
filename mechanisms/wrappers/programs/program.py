"""Workers that are programs in any language: requests are lines of JSON, answers are lines and
blocks (docs/reference/protocol.md).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.json_reader import object_without_duplicates
from dpwitness.core.values.validation import error_text
from dpwitness.mechanisms.wrappers.programs.program_messages import (
    BLOCKS,
    ProtocolViolation,
    Sent,
    exception_of,
    excerpt,
    parse_hello,
    parse_message,
    run_line,
)
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError
from dpwitness.mechanisms.wrappers.programs.worker_process import Process, WorkerDied, WorkerTimeout

CACHE_SIZE = 16  # datasets that a program stores; a new one replaces the least recently used one


HEADER = 2**16  # most bytes of a header line and of hello
LINE = 2**24  # most bytes of an output line
_MAX_COLUMNS = 2**20  # most columns of a block
_MAX_BLOCK_BYTES = 2**33  # most bytes of a block
_START_SECONDS = 120.0  # seconds within which a program must send hello
# single runs requested before their answers are read; both pipes must have room for them
_MAX_REQUESTS_AHEAD = 256
_TEXT_ADAPTER = str(Path(__file__).resolve().with_name("text_adapter.py"))
_SHELL_OPERATORS = frozenset(
    ["|", "||", "&&", ";", "&", ">", ">>", "<", "<<", "2>", "2>&1", "&>", "|&"]
)
_INTERPRETER = re.compile(
    r"(python|node|deno|bun|java|Rscript|ruby|julia|perl|php|lua|sh|bash)[\d.]*"
)
_SHELL_COMMANDS = frozenset(
    ["cd", "export", "source", ".", "alias", "set", "eval", "exec", "ulimit", "umask", "unset"]
)


@dataclass(frozen=True, slots=True)
class Command:
    """Slot of a program: command with arguments, working directory, memory limit in bytes (0:
    none), and text mode (see `Target`).
    """

    command: tuple[str, ...]
    cwd: str
    memory: int = 0
    text: str = ""

    def argv(self) -> list[str]:
        """Return the command line with the program's path; in text mode, the command line of the
        adapter `text_adapter`.
        """
        found = [resolved(self.command, self.cwd), *self.command[1:]]
        return (
            [sys.executable, "-I", "-S", _TEXT_ADAPTER, self.text, *found] if self.text else found
        )

    def folder(self) -> str | None:
        return self.cwd or None

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self, time_limit: float) -> Program:
        return Program(self, time_limit)


def resolved(command: Sequence[str], cwd: str) -> str:
    """Return the path of the program of a command.

    Raises
    ------
    TargetError
        If the program does not exist or cannot be executed, or if the command needs a shell.
    """
    name = command[0]
    for part in command:
        if part in _SHELL_OPERATORS:
            raise TargetError(
                f"command is run without a shell, got {part!r} in it; to use a shell, write: "
                "sh -c '...'"
            )
    path = os.path.join(cwd, os.path.expanduser(name)) if os.sep in name else shutil.which(name)
    if path is None or not os.path.exists(path):
        hint = ""
        if name in _SHELL_COMMANDS or "=" in name:
            hint = "; shell commands need a shell: sh -c '...'"
        elif " " in name:
            hint = "; give each argument as a separate text"
        elif os.path.exists(os.path.join(cwd, name)):
            hint = f"; for the file in the folder {cwd or '.'} write ./{name}"
        raise TargetError(f"command must name a program that exists, got {name!r}{hint}")
    if os.path.isdir(path):
        raise TargetError(f"command must name a program, got {name!r}, which is a folder")
    if not os.access(path, os.X_OK):
        raise TargetError(
            f"command must name an executable program, got {name!r}; make it executable: "
            f"chmod +x {name}"
        )
    return path


def command_script(command: Sequence[str], cwd: str) -> Path | None:
    """Return the file with the mechanism: the program, or an interpreter's first argument that is a
    file; None if there is none.
    """
    parts = (
        command[1:]
        if _INTERPRETER.fullmatch(os.path.basename(command[0])) or os.sep not in command[0]
        else command[:1]
    )
    return next(
        (
            path
            for path in (Path(cwd, os.path.expanduser(part)) for part in parts)
            if path.is_file()
        ),
        None,
    )


class Program(Process):
    """Worker process of a program that has sent hello."""

    def __init__(self, slot: Command, time_limit: float) -> None:
        super().__init__(slot)
        self.slots: OrderedDict[bytes, int] = OrderedDict()
        self._buffer, self._at, self._expected = bytearray(), 0, ""
        try:
            self.about = parse_hello(
                self.within(
                    min(_START_SECONDS, time_limit),
                    lambda deadline: self.line(HEADER, deadline, "hello"),
                )
            )
        except WorkerDied as error:
            self.close()
            if "Exec format error" in str(error):
                why = (
                    "it is neither a program nor a script whose first line names its "
                    "interpreter, such as #!/bin/sh"
                )
                raise TargetError(
                    f"command must name a program, got {slot.command[0]!r}: {why}"
                ) from None
            raise

    def within(self, time_limit: float, talk: Any) -> Any:
        """Return `talk(deadline)`, with errors of the process turned into exceptions.

        Raises
        ------
        WorkerDied
            If the process ends first. ProtocolViolation if the process violates the protocol.
            WorkerTimeout if it does not answer in time.
        """
        try:
            return talk(time.monotonic() + time_limit)
        except (BrokenPipeError, EOFError):
            raise WorkerDied(f"{self.ended()}{self._due_text()}") from None
        except TimeoutError:
            self.kill()
            raise WorkerTimeout(
                f"took longer than time_limit = {time_limit:g} "
                f"s{self._due_text()}{self.last_output()}"
            ) from None
        except ProtocolViolation as error:
            self.kill()
            raise ProtocolViolation(f"{error}{self.last_output()}") from None

    def _due_text(self) -> str:
        """Return a description of the expected answer, in parentheses, for error messages."""
        return f" ({self._expected})" if self._expected else ""

    def run(
        self, sent: Sent, sizes: Sequence[int], seeds: Sequence[Sequence[int]], time_limit: float
    ) -> list[Any]:
        """Return the answers to batches of these sizes: arrays, lists and exceptions."""
        found: list[Any] = []

        def talk(deadline: float) -> None:
            self.quiet()
            number, parts = self.dataset(sent)
            for first in range(0, len(sizes), _MAX_REQUESTS_AHEAD):
                requested = range(first, min(first + _MAX_REQUESTS_AHEAD, len(sizes)))
                lines = b"".join(run_line(number, sizes[i], seeds[i]) for i in requested)
                self.send([*parts, lines], deadline)
                found.extend(self.answer(sizes[i], deadline) for i in requested)
                parts = []

        self.within(time_limit, talk)
        return found

    def dataset(self, sent: Sent) -> tuple[int, list[Any]]:
        """Return the number of a dataset, and the messages to send for it. Each dataset is sent
        once.
        """
        number = self.slots.get(sent.key)
        if number is not None:
            self.slots.move_to_end(sent.key)
            return number, []
        number = (
            len(self.slots) if len(self.slots) < CACHE_SIZE else self.slots.popitem(last=False)[1]
        )
        self.slots[sent.key] = number
        return number, sent.message(number, self.about["datasets"])

    def quiet(self, _deadline: float = 0.0) -> None:
        """Raise ProtocolViolation if the program has written output without a request."""
        if self._at == len(self._buffer) and self._readable.poll(0):
            self._read_more(time.monotonic() + 1.0)
        if self._at < len(self._buffer):
            raise ProtocolViolation(
                "wrote to standard output without a request: "
                f"{excerpt(bytes(self._buffer[self._at : self._at + 200]))}"
            )

    def answer(self, size: int, deadline: float) -> Any:
        """Return the next answer, to a batch of `size` runs: array, list or exception. Raise
        MechanismFailed if it has `failed`.
        """
        head = parse_message(self.line(HEADER, deadline, "an answer"), "an answer")
        if "failed" in head:
            raise MechanismFailed(
                "the program says: "
                f"{error_text(Exception(head['failed'])).removeprefix('Exception: ')}"
            )
        if "raised" in head:
            return exception_of(head)
        kind, rows = head.get("kind"), head.get("rows")
        if kind not in self.about["outputs"]:
            raise ProtocolViolation(
                f"answered the kind {excerpt(repr(kind))}, hello names "
                f"{', '.join(self.about['outputs'])}"
            )
        if type(rows) is not int or rows != size:
            raise ProtocolViolation(f"answered {excerpt(repr(rows))} rows for size = {size}")
        if kind == "json":
            return [self._read_output(deadline, i) for i in range(size)]
        columns = head.get("columns")
        if (
            type(columns) is not int
            or not 0 <= columns <= _MAX_COLUMNS
            or 8 * rows * columns > _MAX_BLOCK_BYTES
        ):
            raise ProtocolViolation(
                f"columns must be a whole number, of a block of at most {_MAX_BLOCK_BYTES} "
                f"bytes, got {excerpt(repr(columns))}"
            )
        found = np.empty((rows, columns), dtype=BLOCKS[str(kind)])
        if found.size:
            self._fill(memoryview(found.data).cast("B"), deadline)
        return found[:, 0] if columns == 1 else found

    def _read_output(self, deadline: float, place: int) -> Any:
        """Return the next output line as a value."""
        line = self.line(LINE, deadline, f"output {place + 1}")
        try:
            return json.loads(
                line.decode(), parse_int=_parse_integer, object_pairs_hook=object_without_duplicates
            )
        except (ValueError, RecursionError):
            raise ProtocolViolation(
                f"output {place + 1} must be a line of JSON, got {excerpt(line)}"
            ) from None

    def line(self, limit: int, deadline: float, what: str) -> bytes:
        """Return the next line without its end. Raise EOFError, TimeoutError, or ProtocolViolation
        for a line longer than `limit`.
        """
        self._expected = f"{what} was due"
        seen = self._at
        while (end := self._buffer.find(b"\n", seen)) < 0:
            if len(self._buffer) - self._at > limit:
                raise ProtocolViolation(
                    f"{what} must be a line of at most {limit} bytes, got more: "
                    f"{excerpt(bytes(self._buffer[self._at :][:200]))}"
                )
            del self._buffer[: self._at]
            self._at, seen = 0, len(self._buffer)
            if not self._read_more(deadline):
                raise EOFError
        found = bytes(self._buffer[self._at : end])
        if len(found) > limit:
            raise ProtocolViolation(
                f"{what} must be a line of at most {limit} bytes, got {len(found)}"
            )
        self._at, self._expected = end + 1, ""
        return found

    def _read_more(self, deadline: float) -> int:
        """Read available bytes into the buffer and return their count."""
        chunk = bytearray(2**16)
        count = self.some(memoryview(chunk), deadline)
        self._buffer += chunk[:count]
        return count

    def _fill(self, view: memoryview, deadline: float) -> None:
        """Fill the view with the next bytes."""
        filled = min(len(view), len(self._buffer) - self._at)
        view[:filled] = self._buffer[self._at : self._at + filled]
        self._at += filled
        while filled < len(view):
            self._expected = f"{filled} of {len(view)} bytes of a block were there"
            count = self.some(view[filled:], deadline)
            if count == 0:
                raise EOFError
            filled += count
        self._expected = ""


def _parse_integer(text: str) -> int | float:
    """Return a JSON integer as a float, because languages print 1.0 as 1; as an int if a float
    would round it.
    """
    value = int(text)
    return float(value) if abs(value) <= 2**53 else value
