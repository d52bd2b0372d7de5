"""Workers that are Python interpreters, which load a target file and run its functions (`worker`),
by the messages of `wire`.
"""

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

from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.dataframe_backends import UnsupportedData, fixed
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.confinement import confined
from dpwitness.mechanisms.wrappers.programs.inside import codec
from dpwitness.mechanisms.wrappers.programs.worker_process import Process, WorkerDied, WorkerTimeout

_SCRIPT = str(Path(__file__).resolve().with_name("inside") / "worker.py")
_START_SECONDS = 120.0  # seconds within which an interpreter must answer the first request
_INLINE_BYTES = 4096  # size in bytes from which a dataset is sent once and referred to by a key


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Slot of a Python worker: interpreter (this one if None), target file or module, import paths,
    memory limit in bytes (0: none).

    `confined` is the only folder that the worker may write to, without network (`confinement`);
    empty for a worker without limits.
    """

    python: str | None
    place: str
    paths: tuple[str, ...]
    memory: int = 0
    confined: str = ""

    def argv(self) -> list[str]:
        python = self.python or sys.executable
        if not os.access(python, os.X_OK):
            raise InvalidArgument(
                f"python must be a Python interpreter, got {python!r}: {os.strerror(errno.EACCES)}"
            )
        command = [python, "-u", _SCRIPT]
        return confined(self.confined, command) if self.confined else command

    def folder(self) -> str | None:
        return self.confined or None

    def environment(self) -> dict[str, str]:
        # these belong to this interpreter
        others = ("PYTHONPATH", "PYTHONHOME") if self.python is not None else ()
        return {name: value for name, value in os.environ.items() if name not in others}

    def start(self, time_limit: float) -> Worker:
        return Worker(self, time_limit)


class Worker(Process):
    """Worker process of a Python interpreter that has loaded a target file."""

    slot: Interpreter
    noise = (_SCRIPT, "Extension modules:")  # lines printed by faulthandler

    def __init__(self, slot: Interpreter, time_limit: float) -> None:
        super().__init__(slot)
        self.sent_keys: OrderedDict[str, None] = OrderedDict()
        try:
            hello, _ = self.ask({"op": "hello"}, [], _START_SECONDS)
        except WorkerDied as error:
            self.close()
            raise InvalidArgument(self._start_error(str(error))) from None
        if hello.get("protocol") != codec.PROTOCOL:
            self.close()
            raise InvalidArgument(
                f"{self.python} speaks protocol {hello.get('protocol')}, this dpwitness "
                f"{codec.PROTOCOL}"
            )
        self.versions = {"python": hello["python"], "numpy": hello["numpy"]}
        try:
            self.loaded, _ = self.ask(
                {
                    "op": "load",
                    "place": slot.place,
                    "paths": list(slot.paths),
                    "front": slot.python is None,
                },
                [],
                time_limit,
            )
        except WorkerDied as error:
            self.close()
            raise InvalidArgument(
                f"target {slot.place} could not be loaded by {self.python}: {error}"
            ) from None

    @property
    def python(self) -> str:
        return self.slot.python or sys.executable

    def _start_error(self, why: str) -> str:
        """Return the error message of an interpreter that could not be started."""
        if "No module named 'numpy'" in why:
            return (
                f"python must have NumPy, {self.python} does not; install it: {self.python} -m "
                "pip install numpy"
            )
        return (
            f"python must be a Python interpreter (3.8 or later), {self.python} did not answer: "
            f"{why}"
        )

    def ask(self, header: Json, blobs: codec.Blobs, time_limit: float) -> tuple[Json, codec.Blobs]:
        """Send a request and wait for its answer.

        Raises
        ------
        WorkerDied
            If the process ends first, or takes longer than `time_limit` seconds and is killed. The
            message has the last output lines.
        """
        deadline = time.monotonic() + time_limit
        found = None
        try:
            self.send(codec.message(header, blobs), deadline)
            found = codec.receive(lambda size: self.read(size, deadline))
        except BrokenPipeError:
            pass
        except TimeoutError:
            self.kill()
            raise WorkerTimeout(f"took longer than time_limit = {time_limit:g} s") from None
        except (ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
            self.kill()
            raise WorkerDied(f"sent an invalid message: {error}{self.last_output()}") from None
        if found is None:
            raise WorkerDied(self.ended())
        return found

    def dataset(self, sent: Sent) -> tuple[Json, codec.Blobs]:
        """Return the part of a request that holds the dataset; a large dataset is sent once."""
        if not sent.key:
            return {"data": sent.packed}, sent.blobs
        if sent.key in self.sent_keys:
            return {"key": sent.key}, []
        self.sent_keys[sent.key] = None
        if len(self.sent_keys) > codec.CACHE_SIZE:
            self.sent_keys.popitem(last=False)
        return {"key": sent.key, "data": sent.packed}, sent.blobs


@dataclass(frozen=True, slots=True)
class Sent:
    """Packed dataset for workers. A large dataset has a key, which is a hash of its content."""

    packed: Any
    blobs: codec.Blobs
    key: str


def sent_as(dataset: Any) -> Sent:
    """Return a dataset in packed form. Raise MechanismFailed for a frame or graph that cannot be
    packed.
    """
    number = fixed(dataset)
    if number in _PACKED:
        return _PACKED[number]
    blobs: codec.Blobs = []
    try:
        packed = codec.pack_dataset(dataset, blobs)
    except UnsupportedData as error:
        raise MechanismFailed(f"the dataset cannot be sent to a worker: {error}") from None
    key = ""
    if sum(map(len, blobs)) >= _INLINE_BYTES or len(str(packed)) >= _INLINE_BYTES:
        digest = hashlib.blake2b(json.dumps(packed).encode(), digest_size=16)
        for blob in blobs:
            digest.update(blob)
        key = digest.hexdigest()
    found = Sent(packed, blobs, key)
    if number:
        _PACKED[number] = found
        while len(_PACKED) > _MAX_PACKED:
            # another thread has removed the entry
            with contextlib.suppress(KeyError, RuntimeError):
                del _PACKED[next(iter(_PACKED))]
    return found


_PACKED: dict[int, Sent] = {}  # packed form of immutable datasets, by serial number
_MAX_PACKED = 4
