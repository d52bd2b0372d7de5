"""Workers that are Python interpreters: a target file is loaded and its functions are run (`worker`), by the messages of `wire`."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sys
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.mechanisms.core.dataframe_backends import Unheld, fixed
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.foreign.inside import codec
from dpwitness.mechanisms.foreign.worker_process import Process, TookTooLong, WorkerDied
from dpwitness.mechanisms.protocols.mechanism import MechanismFailed

_SCRIPT = str(Path(__file__).resolve().with_name("inside") / "worker.py")
_START = 120.0  # seconds that an interpreter may take to say hello
_INLINE = 4096  # bytes up to which a dataset is sent with every request


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter (this one if None), a target file or module that it loads, and a limit on memory in bytes (0: none)."""

    python: str | None
    place: str
    paths: tuple[str, ...]
    memory: int = 0

    def argv(self) -> list[str]:
        python = self.python or sys.executable
        if not os.access(python, os.X_OK):
            raise InvalidArgument(f"python must be a Python interpreter, got {python!r}: {os.strerror(errno.EACCES)}")
        return [python, "-u", _SCRIPT]

    def folder(self) -> str | None:
        return None

    def environment(self) -> dict[str, str]:
        others = ("PYTHONPATH", "PYTHONHOME") if self.python is not None else ()  # they are this interpreter's
        return {name: value for name, value in os.environ.items() if name not in others}

    def start(self, time_limit: float) -> Worker:
        return Worker(self, time_limit)


class Worker(Process):
    """One process of the foreign interpreter, which has loaded the target file."""

    slot: Interpreter
    noise = (_SCRIPT, "Extension modules:")  # of faulthandler

    def __init__(self, slot: Interpreter, time_limit: float) -> None:
        super().__init__(slot)
        self.kept: OrderedDict[str, None] = OrderedDict()
        try:
            hello, _ = self.ask({"op": "hello"}, [], _START)
        except WorkerDied as error:
            self.close()
            raise InvalidArgument(self._no_start(str(error))) from None
        if hello.get("protocol") != codec.PROTOCOL:
            self.close()
            raise InvalidArgument(f"{self.python} speaks protocol {hello.get('protocol')}, this dpwitness {codec.PROTOCOL}")
        self.versions = {"python": hello["python"], "numpy": hello["numpy"]}
        try:
            self.loaded, _ = self.ask(
                {"op": "load", "place": slot.place, "paths": list(slot.paths), "front": slot.python is None}, [], time_limit
            )
        except WorkerDied as error:
            self.close()
            raise InvalidArgument(f"target {slot.place} could not be loaded by {self.python}: {error}") from None

    @property
    def python(self) -> str:
        return self.slot.python or sys.executable

    def _no_start(self, why: str) -> str:
        if "No module named 'numpy'" in why:
            return f"python must have NumPy, {self.python} has not; install it: {self.python} -m pip install numpy"
        return f"python must be a Python interpreter (3.8 or later), {self.python} did not answer: {why}"

    def ask(self, header: Json, blobs: codec.Blobs, time_limit: float) -> tuple[Json, codec.Blobs]:
        """Send a request and wait for its answer.

        Raises
        ------
        WorkerDied
            If the process ends first, or takes longer than `time_limit` seconds and is killed; the message says what it last printed.
        """
        deadline = time.monotonic() + time_limit
        try:
            self.send(codec.message(header, blobs), deadline)
            found = codec.receive(lambda size: self.read(size, deadline))
        except BrokenPipeError:
            found = None
        except TimeoutError:
            self.kill()
            raise TookTooLong(f"took longer than time_limit = {time_limit:g} s") from None
        except (ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
            self.kill()
            raise WorkerDied(f"answered what is no message: {error}{self.last_lines()}") from None
        if found is None:
            raise WorkerDied(self.ended())
        return found

    def dataset(self, sent: Sent) -> tuple[Json, codec.Blobs]:
        """The part of a request that tells the dataset: large ones travel once."""
        if not sent.key:
            return {"data": sent.packed}, sent.blobs
        if sent.key in self.kept:
            return {"key": sent.key}, []
        self.kept[sent.key] = None
        if len(self.kept) > codec.KEPT:
            self.kept.popitem(last=False)
        return {"key": sent.key, "data": sent.packed}, sent.blobs


@dataclass(frozen=True, slots=True)
class Sent:
    """A dataset as it goes to a worker; large ones have a key, which is a hash of their content."""

    packed: Any
    blobs: codec.Blobs
    key: str


def sent_as(dataset: Any) -> Sent:
    """A dataset in the form of the wire. Raises MechanismFailed for a frame or a graph that has none."""
    number = fixed(dataset)
    if number in _PACKED:
        return _PACKED[number]
    blobs: codec.Blobs = []
    try:
        packed = codec.pack_dataset(dataset, blobs)
    except Unheld as error:
        raise MechanismFailed(f"the dataset cannot be sent to a worker: {error}") from None
    key = ""
    if sum(map(len, blobs)) >= _INLINE or len(str(packed)) >= _INLINE:
        digest = hashlib.blake2b(json.dumps(packed).encode(), digest_size=16)
        for blob in blobs:
            digest.update(blob)
        key = digest.hexdigest()
    found = Sent(packed, blobs, key)
    if number:
        _PACKED[number] = found
        while len(_PACKED) > _FEW:
            with contextlib.suppress(KeyError, RuntimeError):  # another thread was first
                del _PACKED[next(iter(_PACKED))]
    return found


_PACKED: dict[int, Sent] = {}  # of datasets that are fixed, by their number
_FEW = 4
