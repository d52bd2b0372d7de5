"""Programs: targets in any language, asked by lines of JSON and answering in lines and blocks, as docs/reference/protocol.md says."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
import re
import shutil
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.core.dataframe_backends import apart, library_of, values_of
from dpwitness.mechanisms.core.json_reader import Json, each_name_once
from dpwitness.mechanisms.core.validation import said
from dpwitness.mechanisms.foreign.inside import codec
from dpwitness.mechanisms.foreign.worker_pool import SENT, TargetError
from dpwitness.mechanisms.foreign.worker_process import Process, TookTooLong, WorkerDied
from dpwitness.mechanisms.protocols.mechanism import MechanismFailed

PROTOCOL = 1
KEPT = 16  # numbers of datasets: a new one takes the place of the one that was used the longest ago
BLOCKS = {"float64": "<f8", "int64": "<i8"}
ENCODINGS = ("json", "float64")
HEADER = 2**16  # bytes of a line before a block, and of hello
LINE = 2**24  # bytes of an output as a line
_COLUMNS = 2**20
_BLOCK = 2**33  # bytes
_START = 120.0  # seconds that a program may take to say hello
_AHEAD = 256  # single runs that are asked for before their answers are read: as many as both pipes hold
_INSTALLED = ("/usr/", "/bin/", "/opt/", sys.prefix + os.sep, sys.base_prefix + os.sep)
_TEXTUAL = str(Path(__file__).resolve().with_name("textual.py"))
_SHELL = frozenset(["|", "||", "&&", ";", "&", ">", ">>", "<", "<<", "2>", "2>&1", "&>", "|&"])
_INTERPRETER = re.compile(r"(python|node|deno|bun|java|Rscript|ruby|julia|perl|php|lua|sh|bash)[\d.]*")
_BUILT_IN = frozenset(["cd", "export", "source", ".", "alias", "set", "eval", "exec", "ulimit", "umask", "unset"])


class Misspoke(WorkerDied):
    """The program has said what the protocol does not have."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, where it runs, and a limit on memory in bytes (0: none). `text`: see `Target`."""

    command: tuple[str, ...]
    cwd: str
    memory: int = 0
    text: str = ""

    def argv(self) -> list[str]:
        """The program by its path; in text mode what speaks for it (`textual`)."""
        found = [resolved(self.command, self.cwd), *self.command[1:]]
        return [sys.executable, "-I", "-S", _TEXTUAL, self.text, *found] if self.text else found

    def folder(self) -> str | None:
        return self.cwd or None

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self, time_limit: float) -> Program:
        return Program(self, time_limit)


def slot_of_command(command: Sequence[str], cwd: str, memory_limit: float, text: str) -> Command:
    """Which worker serves a program; of files that came along with a task, those that lie here."""
    sent = SENT.get()
    found = tuple(sent.here.get(place_of(part, cwd), part) for part in command)
    folder = cwd if not sent.here or os.path.isdir(cwd) else sent.paths[0]
    return Command(found, folder, round(memory_limit * 2**30), text)


def place_of(part: str, cwd: str) -> str:
    """The place that a word of a command names, if it names one."""
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(part)))


def resolved(command: Sequence[str], cwd: str) -> str:
    """The path of the program.

    Raises
    ------
    TargetError
        If it is not there or cannot be executed, or if the command is one for a shell.
    """
    name = command[0]
    for part in command:
        if part in _SHELL:
            raise TargetError(f"command is read by no shell, got {part!r} in it; if it needs one, name it: sh -c '...'")
    path = os.path.join(cwd, os.path.expanduser(name)) if os.sep in name else shutil.which(name)
    if path is None or not os.path.exists(path):
        hint = ""
        if name in _BUILT_IN or "=" in name:
            hint = "; words of a shell need one: sh -c '...'"
        elif " " in name:
            hint = "; its arguments are texts of their own"
        elif os.path.exists(os.path.join(cwd, name)):
            hint = f"; one of the folder {cwd or '.'} is named ./{name}"
        raise TargetError(f"command must name a program that is there, got {name!r}{hint}")
    if os.path.isdir(path):
        raise TargetError(f"command must name a program, got {name!r}, which is a folder")
    if not os.access(path, os.X_OK):
        raise TargetError(f"command must name a program that may be executed, got {name!r}; make it so: chmod +x {name}")
    return path


def files_of(command: Sequence[str], cwd: str) -> list[str]:
    """The files that a command names by their place: the program, if it is no installed one, and arguments."""
    found = [place_of(part, cwd) for i, part in enumerate(command) if i > 0 or os.sep in part]
    return [path for path in found if os.path.isfile(path) and not path.startswith(_INSTALLED)]


def script_of(command: Sequence[str], cwd: str) -> Path | None:
    """The file that says what is run: the program, or the first argument of an interpreter that is a file; None if there is none."""
    parts = command[1:] if _INTERPRETER.fullmatch(os.path.basename(command[0])) or os.sep not in command[0] else command[:1]
    return next((path for path in (Path(cwd, os.path.expanduser(part)) for part in parts) if path.is_file()), None)


@dataclass(frozen=True, slots=True)
class Sent:
    """A dataset on its way: floats as an array, where it is one, and the same in JSON."""

    key: bytes
    array: NDArray[np.float64] | None
    value: Any

    def message(self, number: int, encodings: Sequence[str]) -> list[Any]:
        """What tells it to a program that reads these encodings. Raises MechanismFailed."""
        head: Json = {"op": "dataset", "dataset": number}
        array = self.array
        if "json" not in encodings and array is None:
            array = _numbers(self.value)
        if array is not None and "float64" in encodings:
            return [line_of(head | {"encoding": "float64", "shape": list(array.shape)}), array.tobytes()]
        value = self.value if self.array is None else json_of(self.array.tolist())
        return [line_of(head | {"encoding": "json", "value": value})]


def sent_as(dataset: Any) -> Sent:
    """A dataset as it goes to a program. Raises MechanismFailed for what JSON cannot say."""
    if isinstance(dataset, np.ndarray) and dataset.dtype.kind == "f" and not isinstance(dataset, np.ma.MaskedArray):
        array = np.ascontiguousarray(dataset, dtype="<f8").reshape(dataset.shape)
        return Sent(hashlib.blake2b(array.tobytes(), key=repr(array.shape).encode()[:64]).digest(), array, None)
    value = json_of(dataset)
    return Sent(hashlib.blake2b(json.dumps(value).encode()).digest(), None, value)


def _numbers(value: Any) -> NDArray[np.float64]:
    try:
        found = np.asarray(value, dtype="<f8")
    except (TypeError, ValueError, OverflowError):
        raise MechanismFailed(f"the program reads datasets as float64 only, which {_short(repr(value))} is not") from None
    return found


def json_of(value: Any) -> Any:
    """A dataset in JSON: arrays and tuples are lists, frames dicts of columns, graphs nodes and edges; NaN, infinities and dates texts."""
    if value is None or isinstance(value, bool | str):
        return value
    if library_of(value):
        parts = apart(value)
        if "nodes" in parts:
            return {"nodes": json_of(parts["nodes"]), "edges": json_of(parts["edges"])}
        return {str(name): json_of(column) for name, column in values_of(parts).items()}
    if isinstance(value, np.datetime64 | np.timedelta64 | datetime.date):
        return str(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fiubU":
        return json_of(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [json_of(part) for part in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: json_of(part) for key, part in value.items()}
    raise MechanismFailed(f"a dataset must be something that JSON can say to go to a program, got one with a {type(value).__name__}")


class Program(Process):
    """One process of a program, which has said hello."""

    def __init__(self, slot: Command, time_limit: float) -> None:
        super().__init__(slot)
        self.kept: OrderedDict[bytes, int] = OrderedDict()
        self._rest, self._at, self._due = bytearray(), 0, ""
        try:
            self.about = hello_of(self.within(min(_START, time_limit), lambda deadline: self.line(HEADER, deadline, "hello")))
        except WorkerDied as error:
            self.close()
            if "Exec format error" in str(error):
                why = "it is no program, nor a script whose first line names what runs it, such as #!/bin/sh"
                raise TargetError(f"command must name a program, got {slot.command[0]!r}: {why}") from None
            raise

    def within(self, time_limit: float, talk: Any) -> Any:
        """What `talk(deadline)` gives.

        Raises
        ------
        WorkerDied
            If the process ends first; of its kinds Misspoke if it says what makes no sense, TookTooLong if it does not answer in time.
        """
        try:
            return talk(time.monotonic() + time_limit)
        except (BrokenPipeError, EOFError):
            raise WorkerDied(f"{self.ended()}{self._waited()}") from None
        except TimeoutError:
            self.kill()
            raise TookTooLong(f"took longer than time_limit = {time_limit:g} s{self._waited()}{self.last_lines()}") from None
        except Misspoke as error:
            self.kill()
            raise Misspoke(f"{error}{self.last_lines()}") from None

    def _waited(self) -> str:
        return f" ({self._due})" if self._due else ""

    def run(self, sent: Sent, sizes: Sequence[int], seeds: Sequence[Sequence[int]], time_limit: float) -> list[Any]:
        """Its answers to batches of these sizes: arrays, lists, and exceptions."""
        found: list[Any] = self.within(time_limit, lambda deadline: self._run(sent, sizes, seeds, deadline))
        return found

    def _run(self, sent: Sent, sizes: Sequence[int], seeds: Sequence[Sequence[int]], deadline: float) -> list[Any]:
        self.quiet()
        number, parts = self.dataset(sent)
        found: list[Any] = []
        for first in range(0, len(sizes), _AHEAD):
            asked = range(first, min(first + _AHEAD, len(sizes)))
            self.send([*parts, b"".join(run_line(number, sizes[i], seeds[i]) for i in asked)], deadline)
            found += [self.answer(sizes[i], deadline) for i in asked]
            parts = []
        return found

    def dataset(self, sent: Sent) -> tuple[int, list[Any]]:
        """The number of a dataset, and what has to be sent for it: it travels once."""
        number = self.kept.get(sent.key)
        if number is not None:
            self.kept.move_to_end(sent.key)
            return number, []
        number = len(self.kept) if len(self.kept) < KEPT else self.kept.popitem(last=False)[1]
        self.kept[sent.key] = number
        return number, sent.message(number, self.about["datasets"])

    def quiet(self, _deadline: float = 0.0) -> None:
        """Raise Misspoke if it has written what nobody asked for."""
        if self._at == len(self._rest) and self._readable.poll(0):
            self._more(time.monotonic() + 1.0)
        if self._at < len(self._rest):
            raise Misspoke(f"wrote to standard output what nobody had asked for: {_short(bytes(self._rest[self._at : self._at + 200]))}")

    def answer(self, size: int, deadline: float) -> Any:
        """The next answer, to a batch of `size` runs: array, list, or what the batch raised. MechanismFailed where it says `failed`."""
        head = message_of(self.line(HEADER, deadline, "an answer"), "an answer")
        if "failed" in head:
            raise MechanismFailed(f"the program says: {said(Exception(head['failed'])).removeprefix('Exception: ')}")
        if "raised" in head:
            return _raised(head)
        kind, rows = head.get("kind"), head.get("rows")
        if kind not in self.about["outputs"]:
            raise Misspoke(f"answered the kind {_short(repr(kind))}, hello names {', '.join(self.about['outputs'])}")
        if type(rows) is not int or rows != size:
            raise Misspoke(f"answered {_short(repr(rows))} rows for size = {size}")
        if kind == "json":
            return [self._value(deadline, i) for i in range(size)]
        columns = head.get("columns")
        if type(columns) is not int or not 0 <= columns <= _COLUMNS or 8 * rows * columns > _BLOCK:
            raise Misspoke(f"columns must be a whole number, of a block of at most {_BLOCK} bytes, got {_short(repr(columns))}")
        found = np.empty((rows, columns), dtype=BLOCKS[str(kind)])
        if found.size:
            self._fill(memoryview(found.data).cast("B"), deadline)
        return found[:, 0] if columns == 1 else found

    def _value(self, deadline: float, place: int) -> Any:
        line = self.line(LINE, deadline, f"output {place + 1}")
        try:
            return json.loads(line.decode(), parse_int=_whole, object_pairs_hook=each_name_once)
        except (ValueError, RecursionError):
            raise Misspoke(f"output {place + 1} must be a line of JSON, got {_short(line)}") from None

    def line(self, limit: int, deadline: float, what: str) -> bytes:
        """The next line, without its end. Raises EOFError, TimeoutError, and Misspoke for one beyond the limit."""
        self._due = f"{what} was due"
        seen = self._at
        while (end := self._rest.find(b"\n", seen)) < 0:
            if len(self._rest) - self._at > limit:
                raise Misspoke(f"{what} must be a line of at most {limit} bytes, got more: {_short(bytes(self._rest[self._at :][:200]))}")
            del self._rest[: self._at]
            self._at, seen = 0, len(self._rest)
            if not self._more(deadline):
                raise EOFError
        found = bytes(self._rest[self._at : end])
        if len(found) > limit:
            raise Misspoke(f"{what} must be a line of at most {limit} bytes, got {len(found)}")
        self._at, self._due = end + 1, ""
        return found

    def _more(self, deadline: float) -> int:
        chunk = bytearray(2**16)
        count = self.some(memoryview(chunk), deadline)
        self._rest += chunk[:count]
        return count

    def _fill(self, view: memoryview, deadline: float) -> None:
        """The next bytes, read to where they belong."""
        have = min(len(view), len(self._rest) - self._at)
        view[:have] = self._rest[self._at : self._at + have]
        self._at += have
        while have < len(view):
            self._due = f"{have} of {len(view)} bytes of a block were there"
            count = self.some(view[have:], deadline)
            if count == 0:
                raise EOFError
            have += count
        self._due = ""


def _whole(text: str) -> int | float:
    """A whole number: a float, as languages write 1 for 1.0 and 0.5 beside it, but where a float would round it."""
    value = int(text)
    return float(value) if abs(value) <= 2**53 else value


def run_line(number: int, size: int, seed: Sequence[int]) -> bytes:
    """A request to run."""
    return line_of({"op": "run", "dataset": number, "size": size, "seed": list(seed)})


def line_of(message: Json) -> bytes:
    """A message as a line: no blanks, keys in the order in which they stand."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def joined(answers: list[Any]) -> list[Any]:
    """Answers of single runs, so that what is alike is one array or list."""

    def kind(part: Any) -> Any:
        return (part.dtype, part.shape) if isinstance(part, np.ndarray) else "list"

    as_lists: list[Any] = [[part] if isinstance(part, Exception) else part for part in answers]
    grouped = ((key, list(same)) for key, same in groupby(as_lists, kind))
    return [list(chain.from_iterable(same)) if key == "list" else np.concatenate(same) for key, same in grouped]


def message_of(line: bytes, what: str) -> Json:
    """A line of JSON that is an object. Raises Misspoke."""
    try:
        # decoded first: of bytes, JSON would take what is not UTF-8, and a byte order mark
        found = json.loads(line.decode(), object_pairs_hook=each_name_once)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Misspoke(f"wrote {_short(line)} where {what} was due, a JSON object in a line")
    return found


def _raised(head: Json) -> Exception:
    name, text = head["raised"], head.get("text", "")
    if name == "" or not _is_name(name) or not isinstance(text, str):
        raise Misspoke(f"raised must be the name of an exception, and text a text, got {_short(repr(head))}")
    found: Exception = codec.stand_in(name, Exception)(text)
    return found


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 200 and value.isprintable()


_HELLO: dict[str, tuple[bool, str, Any]] = {  # key: needed, what it must be, whether it is
    "protocol": (True, "a whole number", lambda v: type(v) is int),
    "name": (True, "a text of 1 to 200 characters in a line", lambda v: v != "" and _is_name(v)),
    "version": (False, "a text of at most 200 characters in a line", _is_name),
    "seedable": (True, "true or false", lambda v: isinstance(v, bool)),
    "datasets": (True, f"a list of some of {', '.join(ENCODINGS)}", lambda v: _some_of(v, ENCODINGS)),
    "outputs": (True, f"a list of some of {', '.join(BLOCKS)}, json", lambda v: _some_of(v, (*BLOCKS, "json"))),
    "claim": (False, "a text such as pure:1", lambda v: isinstance(v, str)),
    "domain": (False, "an object with a kind", lambda v: isinstance(v, dict) and "kind" in v),
    "batch": (False, "a whole number, at least 1", lambda v: type(v) is int and v >= 1),
    "trials": (False, "a whole number, at least 1000", lambda v: type(v) is int and v >= 1000),
    "expected_failures": (False, "an object of texts", lambda v: isinstance(v, dict) and all(isinstance(t, str) for t in v.values())),
}


def _some_of(value: Any, names: Sequence[str]) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) and v in names for v in value)


def faults_of_hello(found: Json) -> list[str]:
    """What is wrong with a hello: each in a sentence."""
    if found.get("protocol") != PROTOCOL and type(found.get("protocol")) is int:
        return [f"speaks protocol {found['protocol']}, this dpwitness {PROTOCOL}"]
    faults = [f"hello has no {key}" for key, (needed, _, _) in _HELLO.items() if needed and key not in found]
    faults += [
        f"hello: {key} must be {rule}, got {_short(repr(found[key]))}"
        for key, (_, rule, is_so) in _HELLO.items()
        if key in found and found[key] is not None and not is_so(found[key])
    ]
    return faults + [f"hello has a key {key!r}; there are {', '.join(_HELLO)}" for key in found if key not in _HELLO]


def hello_of(line: bytes) -> Json:
    """What a program says of itself, as `Target.describe` tells it. Raises Misspoke."""
    found = message_of(line, "hello")
    faults = faults_of_hello(found)
    if faults:
        raise Misspoke("; ".join(faults))
    optional: Json = {"version": "", "claim": None, "domain": None, "batch": None, "trials": None}
    told = optional | found | {"seeded": found["seedable"], "library": found["name"], "tested": None, "features": False}
    return told | {
        "expected_failures": found.get("expected_failures") or {},
        "expected_findings": {},
        "notes": [],
        "queries": None,
        "rounds": None,
    }


def told_by(about: Json, text: str) -> str:
    """What a report says of a program."""
    if text:
        each = "run" if text == "one" else "batch of runs"
        return f"{about['name']}, a program that prints its outputs: it is started anew for each {each}, which its time is spent on"
    return f"{about['name']} {about['version'] or 'of unknown version'}, a program (protocol {about['protocol']})"


def _short(value: str | bytes, most: int = 120) -> str:
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
    return repr(text if len(text) <= most else f"{text[:most]}...") if isinstance(value, bytes) else text[:most]
