"""Programs in any language as workers: requests are lines of JSON, answers are lines and blocks
(docs/reference/protocol.md).
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.dataframe_backends import library_name, to_parts, values_of
from dpwitness.core.values.json_reader import Json, object_without_duplicates
from dpwitness.core.values.validation import error_text
from dpwitness.mechanisms.wrappers.programs.inside import codec
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError
from dpwitness.mechanisms.wrappers.programs.worker_process import (
    Launch,
    Process,
    ProtocolViolation,
    WorkerDied,
)

PROTOCOL = 1
BLOCKS = {"float64": "<f8", "int64": "<i8"}
ENCODINGS = ("json", "float64")
HEADER = 2**16  # most bytes of a header line and of hello
LINE = 2**24  # most bytes of an output line
_MAX_COLUMNS = 2**20  # most columns of a block
_MAX_BLOCK_BYTES = 2**33  # most bytes of a block
_START_SECONDS = 120.0  # seconds within which a program must send hello
# single runs requested before their answers are read; both pipes must have room for them
_MAX_REQUESTS_AHEAD = 256
_SHELL_OPERATORS = frozenset(
    ["|", "||", "&&", ";", "&", ">", ">>", "<", "<<", "2>", "2>&1", "&>", "|&"]
)
_INTERPRETER = re.compile(
    r"(python|node|deno|bun|java|Rscript|ruby|julia|perl|php|lua|sh|bash)[\d.]*"
)


@dataclass(frozen=True, slots=True)
class Sent:
    """Dataset in the forms in which it is sent to a program: a float array if possible, otherwise
    JSON.
    """

    key: bytes
    array: NDArray[np.float64] | None
    value: Any

    def message(self, number: int, encodings: Sequence[str]) -> list[Any]:
        """Return the message of the dataset in an encoding that the program reads. Raise
        MechanismFailed if there is none.
        """
        head: Json = {"op": "dataset", "dataset": number}
        array = self.array
        if "json" not in encodings and array is None:
            try:
                array = np.asarray(self.value, dtype="<f8")
            except (TypeError, ValueError, OverflowError):
                raise MechanismFailed(
                    "the program reads datasets as float64 only, which "
                    f"{excerpt(repr(self.value))} is not"
                ) from None
        if array is not None and "float64" in encodings:
            return [
                line_of(head | {"encoding": "float64", "shape": list(array.shape)}),
                array.tobytes(),
            ]
        value = self.value if self.array is None else dataset_json(self.array.tolist())
        return [line_of(head | {"encoding": "json", "value": value})]


def plain_fields(dataset: Any) -> Any:
    """Return dataset classes as dicts of their fields, because the worker may not have
    dpwitness.
    """
    if is_dataclass(dataset) and not isinstance(dataset, type):
        return {field.name: plain_fields(getattr(dataset, field.name)) for field in fields(dataset)}
    return dataset


def sent_as(dataset: Any) -> Sent:
    """Return a dataset in the forms in which it is sent to a program. Raise MechanismFailed if JSON
    cannot represent the dataset.
    """
    if (
        isinstance(dataset, np.ndarray)
        and dataset.dtype.kind == "f"
        and not isinstance(dataset, np.ma.MaskedArray)
    ):
        array = np.ascontiguousarray(dataset, dtype="<f8").reshape(dataset.shape)
        return Sent(
            hashlib.blake2b(array.tobytes(), key=repr(array.shape).encode()[:64]).digest(),
            array,
            None,
        )
    value = dataset_json(dataset)
    return Sent(hashlib.blake2b(json.dumps(value).encode()).digest(), None, value)


def dataset_json(value: Any) -> Any:
    """Return a dataset in JSON. Raise MechanismFailed for an object without a JSON form.

    Arrays and tuples become lists, frames dicts of columns, graphs nodes and edges. NaN, infinities
    and dates become texts.
    """
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fiubU":
        value = value.tolist()
    if library_name(value):
        parts = to_parts(value)
        is_graph = "nodes" in parts
        columns = {key: parts[key] for key in ("nodes", "edges")} if is_graph else values_of(parts)
        value = {str(name): column for name, column in columns.items()}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: dataset_json(part) for key, part in value.items()}
    for kinds, convert in _JSON_FORMS:
        if isinstance(value, kinds):
            return convert(value)
    raise MechanismFailed(
        "a dataset for a program must be representable in JSON, got one with a "
        f"{type(value).__name__}"
    )


_NOT_FINITE: dict[str, Any] = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_JSON_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((type(None), bool, str), lambda value: value),
    (float, lambda value: _NOT_FINITE.get(str(float(value)), float(value))),
    (int, int),
    ((np.datetime64, np.timedelta64, datetime.date), str),
    ((list, tuple), lambda value: [dataset_json(part) for part in value]),
)


def run_line(number: int, size: int, seed: Sequence[int]) -> bytes:
    """Return a request to run."""
    return line_of({"op": "run", "dataset": number, "size": size, "seed": list(seed)})


def line_of(message: Json) -> bytes:
    """Return a message as a line, without blanks and with the keys in their given order."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def parse_message(line: bytes, what: str) -> Json:
    """Return the JSON object of a line. Raise ProtocolViolation if the line is not a
    JSON object.
    """
    try:
        # decode explicitly: for bytes, json.loads accepts other encodings and a byte order mark
        found = json.loads(line.decode(), object_pairs_hook=object_without_duplicates)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ProtocolViolation(
            f"wrote {excerpt(line)} where {what} was due, a JSON object in a line"
        )
    return found


def _is_name(value: Any) -> bool:
    """Return whether a value is a printable text of at most 200 characters."""
    return isinstance(value, str) and len(value) <= 200 and value.isprintable()


_HELLO_RULES: dict[str, tuple[bool, str, Any]] = {  # key -> required, rule in messages, test
    "protocol": (True, "a whole number", lambda v: type(v) is int),
    "name": (True, "a text of 1 to 200 characters in a line", lambda v: v != "" and _is_name(v)),
    "version": (False, "a text of at most 200 characters in a line", _is_name),
    "seedable": (True, "true or false", lambda v: isinstance(v, bool)),
    "datasets": (
        True,
        f"a list of some of {', '.join(ENCODINGS)}",
        lambda v: _some_of(v, ENCODINGS),
    ),
    "outputs": (
        True,
        f"a list of some of {', '.join(BLOCKS)}, json",
        lambda v: _some_of(v, (*BLOCKS, "json")),
    ),
    "claim": (False, "a text such as pure:1", lambda v: isinstance(v, str)),
    "domain": (False, "an object with a kind", lambda v: isinstance(v, dict) and "kind" in v),
    "batch": (False, "a whole number, at least 1", lambda v: type(v) is int and v >= 1),
    "trials": (False, "a whole number, at least 1000", lambda v: type(v) is int and v >= 1000),
    "expected_failures": (
        False,
        "an object of texts",
        lambda v: isinstance(v, dict) and all(isinstance(t, str) for t in v.values()),
    ),
}


def _some_of(value: Any, names: Sequence[str]) -> bool:
    """Return whether a value is a non-empty list of some of the names."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(v, str) and v in names for v in value)
    )


def parse_hello(line: bytes) -> Json:
    """Return a program's hello in the form of `Target.describe`. Raise ProtocolViolation if the
    hello is invalid.
    """
    found = parse_message(line, "hello")
    if found.get("protocol") != PROTOCOL and type(found.get("protocol")) is int:
        raise ProtocolViolation(f"speaks protocol {found['protocol']}, this dpwitness {PROTOCOL}")
    faults = [
        *(
            f"hello has no {key}"
            for key, (is_required, _, _) in _HELLO_RULES.items()
            if is_required and key not in found
        ),
        *(
            f"hello has an unknown key {key!r}; known keys are {', '.join(_HELLO_RULES)}"
            for key in found
            if key not in _HELLO_RULES
        ),
        *(
            f"hello: {key} must be {rule}, got {excerpt(repr(found[key]))}"
            for key, (_, rule, holds) in _HELLO_RULES.items()
            if found.get(key) is not None and not holds(found[key])
        ),
    ]
    if faults:
        raise ProtocolViolation("; ".join(faults))
    return {
        **dict.fromkeys(("claim", "domain", "batch", "trials", "queries", "rounds")),
        **{"version": "", "expected_findings": {}, "notes": [], "features": False, "guessed": ""},
        **found,
        "seeded": found["seedable"],
        "library": found["name"],
        "expected_failures": found.get("expected_failures") or {},
    }


def program_note(about: Json, text: str) -> str:
    """Return the note for reports on a program."""
    if not text:
        version = about["version"] or "of unknown version"
        return f"{about['name']} {version}, a program (protocol {about['protocol']})"
    return (
        f"{about['name']}, a program that prints its outputs: it is started again for each "
        f"{'run' if text == 'one' else 'batch of runs'}, which takes most of its time"
    )


def excerpt(value: str | bytes, most: int = 120) -> str:
    """Return the beginning of a value for a message."""
    if isinstance(value, str):
        return value[:most]
    text = value.decode(errors="backslashreplace")
    return repr(text if len(text) <= most else f"{text[:most]}...")


@dataclass(frozen=True, slots=True)
class ProgramSlot:
    """Slot of a program: command with arguments, working directory, memory limit in bytes (0:
    none), and text mode (see `Target`).
    """

    command: tuple[str, ...]
    cwd: str
    memory: int = 0
    text: str = ""

    @property
    def name(self) -> str:
        """Name of the file with the mechanism, for messages."""
        return (command_script(self.command, self.cwd) or Path(self.command[0])).name

    def launch(self) -> Launch:
        """Return how to start the program; in text mode, how to start the adapter
        `text_adapter`.
        """
        command = [resolved(self.command, self.cwd), *self.command[1:]]
        if self.text:
            adapter = Path(__file__).resolve().with_name("text_adapter.py")
            command = [sys.executable, "-I", "-S", str(adapter), self.text, *command]
        return command, self.cwd or None, dict(os.environ)

    def start(self, time_limit: float) -> Program:
        return Program(self, time_limit)


def resolved(command: Sequence[str], cwd: str) -> str:
    """Return the path of the program of a command.

    Raises
    ------
    TargetError
        If the program does not exist or cannot be executed, or if the command needs a shell.
    """
    name, path = command[0], shutil.which(command[0]) or ""
    operator = next((part for part in command if part in _SHELL_OPERATORS), "")
    if os.sep in name:
        path = os.path.join(cwd, os.path.expanduser(name))
    faults = (
        (operator, f"is run without a shell, got {operator!r} in it; to use a shell: sh -c '...'"),
        (
            not os.path.exists(path),
            f"must name a program that exists, got {name!r}; give each argument as a separate "
            f"text, write ./{name} for a file in the folder {cwd or '.'}, and sh -c '...' for "
            "commands of a shell",
        ),
        (
            os.path.isdir(path) or not os.access(path, os.X_OK),
            f"must name an executable program, got {name!r}, which is a folder or not executable: "
            f"chmod +x {name}",
        ),
    )
    for is_fault, problem in faults:
        if is_fault:
            raise TargetError(f"command {problem}")
    return path


def command_script(command: Sequence[str], cwd: str) -> Path | None:
    """Return the file with the mechanism: the program, or an interpreter's first argument that is a
    file; None if there is none.
    """
    is_interpreter = _INTERPRETER.fullmatch(os.path.basename(command[0]))
    parts = command[1:] if is_interpreter or os.sep not in command[0] else command[:1]
    paths = (Path(cwd, os.path.expanduser(part)) for part in parts)
    return next((path for path in paths if path.is_file()), None)


class Program(Process):
    """Worker process of a program that has sent hello. Raise TargetError if it sends none."""

    def __init__(self, slot: ProgramSlot, time_limit: float) -> None:
        super().__init__(slot)
        try:
            self.about = parse_hello(
                self.within(min(_START_SECONDS, time_limit), lambda: self.line(HEADER, "hello"))
            )
        except WorkerDied as error:
            self.close()
            problem = f"{slot.name} {error}"
            if "Exec format error" in problem:
                problem = (
                    f"command must name a program, got {slot.command[0]!r}: it is neither a "
                    "program nor a script whose first line names its interpreter, such as #!/bin/sh"
                )
            raise TargetError(problem) from None

    def run(
        self, sent: Sent, sizes: Sequence[int], seeds: Sequence[Sequence[int]], time_limit: float
    ) -> list[Any]:
        """Return the answers to batches of these sizes: arrays, lists and exceptions."""
        found: list[Any] = []

        def talk() -> None:
            self.quiet()
            number, is_stored = self.number_of(sent.key)
            parts = [] if is_stored else sent.message(number, self.about["datasets"])
            for first in range(0, len(sizes), _MAX_REQUESTS_AHEAD):
                requested = range(first, min(first + _MAX_REQUESTS_AHEAD, len(sizes)))
                lines = b"".join(run_line(number, sizes[i], seeds[i]) for i in requested)
                self.send([*parts, lines])
                found.extend(self.answer(sizes[i]) for i in requested)
                parts = []

        self.within(time_limit, talk)
        return found

    def quiet(self) -> None:
        """Raise ProtocolViolation if the program has written output without a request."""
        os.set_blocking(self.output.fileno(), False)
        found = self.output.peek(1)
        os.set_blocking(self.output.fileno(), True)
        if found:
            raise ProtocolViolation(
                f"wrote to standard output without a request: {excerpt(found[:200])}"
            )

    def answer(self, size: int) -> Any:
        """Return the next answer, to a batch of `size` runs: array, list or exception. Raise
        MechanismFailed if it has `failed`. Raise ProtocolViolation for an answer of another kind or
        size.
        """
        head = parse_message(self.line(HEADER, "an answer"), "an answer")
        if "failed" in head:
            text = error_text(Exception(head["failed"])).removeprefix("Exception: ")
            raise MechanismFailed(f"the program says: {text}")
        if "raised" in head:
            name, text = head["raised"], head.get("text", "")
            if name == "" or not _is_name(name) or not isinstance(text, str):
                raise ProtocolViolation(
                    "raised must be the name of an exception, and text a text, got "
                    f"{excerpt(repr(head))}"
                )
            return codec.stand_in(name, Exception)(text)
        kind, rows, kinds = head.get("kind"), head.get("rows"), self.about["outputs"]
        if kind not in kinds:
            raise ProtocolViolation(
                f"answered the kind {excerpt(repr(kind))}, hello names {', '.join(kinds)}"
            )
        if type(rows) is not int or rows != size:
            raise ProtocolViolation(f"answered {excerpt(repr(rows))} rows for size = {size}")
        if kind != "json":
            return self._block(size, head.get("columns"), BLOCKS[str(kind)])
        names = [f"output {i + 1}" for i in range(size)]
        return [_parse_output(self.line(LINE, name), name) for name in names]

    def _block(self, rows: int, columns: Any, dtype: str) -> Any:
        """Return the array of a block that follows its header."""
        most = min(_MAX_COLUMNS, _MAX_BLOCK_BYTES // max(8 * rows, 1))
        if type(columns) is not int or not 0 <= columns <= most:
            raise ProtocolViolation(
                f"columns must be a whole number, at most {most} for {rows} rows, got "
                f"{excerpt(repr(columns))}"
            )
        found = np.empty((rows, columns), dtype=dtype)
        if found.size:
            self.fill(memoryview(found.data).cast("B"))
        return found[:, 0] if columns == 1 else found


def _parse_output(line: bytes, what: str) -> Any:
    """Return the value of an output line."""
    try:
        return json.loads(
            line.decode(), parse_int=_parse_integer, object_pairs_hook=object_without_duplicates
        )
    except (ValueError, RecursionError):
        raise ProtocolViolation(f"{what} must be a line of JSON, got {excerpt(line)}") from None


def _parse_integer(text: str) -> int | float:
    """Return a JSON integer as a float, because languages print 1.0 as 1; as an int if a float
    would round it.
    """
    value = int(text)
    return float(value) if abs(value) <= 2**53 else value
