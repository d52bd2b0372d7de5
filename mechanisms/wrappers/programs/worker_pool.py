"""Workers that are Python interpreters, which load a target file and run its functions (`worker`):
the worker of a target file, its messages (`codec`), errors of a missing file, interpreter or
library.

In a clone, `benchmarks/libraries` has a folder for each library: target files (adapters), and
``environments.toml``, which names the virtual environments with the library. They are in the user's
cache; `benchmarks/installation` makes them. An installed package has none.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.dataframe_backends import UnsupportedData, fixed
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, short_repr
from dpwitness.mechanisms.wrappers.programs.confinement import confined
from dpwitness.mechanisms.wrappers.programs.environments import (
    FOLDER,
    SHARED,
    adapter_file,
    environment_of,
    environments,
    home,
)
from dpwitness.mechanisms.wrappers.programs.inside import codec
from dpwitness.mechanisms.wrappers.programs.worker_process import (
    Launch,
    Process,
    ProtocolViolation,
    WorkerDied,
    borrowed_worker,
)

# the only folder that new workers may write to; empty: no limits
CONFINED: ContextVar[str] = ContextVar("CONFINED", default="")
LAUNCHER = str(Path(__file__).resolve().parent / "inside" / "launch.py")
_START_SECONDS = 120.0  # seconds within which an interpreter must answer the first request
_INLINE_BYTES = 4096  # size in bytes from which a dataset is sent once and referred to by a key


class TargetError(InvalidArgument):
    """Error of a target that cannot be used. `traceback` is the user's part of the traceback if the
    target file raised.
    """

    def __init__(self, reason: str, traceback: str = "") -> None:
        super().__init__(reason)
        self.traceback = traceback


class MissingLibrary(TargetError):
    """Error of a target whose library, or the environment with this library, is not installed."""


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

    def launch(self) -> Launch:
        return launch_of(self.python, [LAUNCHER, "worker"], self.confined)

    def start(self, time_limit: float) -> InterpreterWorker:
        return InterpreterWorker(self, time_limit)


def launch_of(python: str | None, arguments: Sequence[str], folder: str = "") -> Launch:
    """Return how to start an interpreter, this one for None. With `folder`, it may write to this
    folder only, without network (`confinement`). Raise TargetError unless it is an executable file.
    """
    found = python or sys.executable
    if not os.access(found, os.X_OK):
        raise TargetError(
            f"python must be a Python interpreter, got {found!r}: {os.strerror(errno.EACCES)}"
        )
    command = [found, "-u", *arguments]
    # these variables belong to this interpreter
    others = ("PYTHONPATH", "PYTHONHOME") if python is not None else ()
    environment = {name: value for name, value in os.environ.items() if name not in others}
    if folder:
        return confined(folder, command), folder, environment
    return command, None, environment


class InterpreterWorker(Process):
    """Worker process of a Python interpreter that has loaded a target file. Raise TargetError with
    a remedy if the file cannot be loaded.
    """

    slot: Interpreter
    noise = (os.path.dirname(LAUNCHER), "Extension modules:")  # lines printed by faulthandler

    def __init__(self, slot: Interpreter, time_limit: float) -> None:
        super().__init__(slot)
        python = slot.python or sys.executable
        load = {
            "op": "load",
            "place": slot.place,
            "paths": list(slot.paths),
            "front": slot.python is None,
        }
        self.versions: Json = {}
        try:
            self.versions, _ = self.ask({"op": "hello"}, [], _START_SECONDS)
            self.loaded, _ = self.ask(load, [], time_limit)
        except WorkerDied as error:
            self.close()
            problem = f"target {slot.place} could not be loaded by {python}: {error}"
            if not self.versions and "No module named 'numpy'" in str(error):
                install = f"{python} -m pip install numpy"
                problem = f"python must have NumPy, {python} does not; install it: {install}"
            elif not self.versions:
                problem = (
                    f"python must be a Python interpreter (3.8 or later), {python} did not "
                    f"answer: {error}"
                )
            raise TargetError(problem) from None
        if "error" in self.loaded:
            self.close()
            raise _loading_error(slot, **self.loaded)

    def ask(self, header: Json, blobs: codec.Blobs, time_limit: float) -> tuple[Json, codec.Blobs]:
        """Send a request and wait for its answer.

        Raises
        ------
        WorkerDied
            If the process ends first, or takes longer than `time_limit` seconds and is killed. The
            message has the last output lines.
        """

        def talk() -> tuple[Json, codec.Blobs]:
            self.send(codec.message(header, blobs))
            try:
                found = codec.receive(
                    lambda: self.line(codec.MOST, "") + b"\n",
                    lambda size: self.fill(memoryview(bytearray(size))),
                )
            except (ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
                raise ProtocolViolation(f"sent an invalid message: {error}") from None
            assert found is not None
            return found

        return self.within(time_limit, talk)

    def dataset(self, sent: PackedDataset) -> tuple[Json, codec.Blobs]:
        """Return the part of a request that holds the dataset; a large dataset is sent once."""
        if not sent.key:
            return {"data": sent.packed}, sent.blobs
        number, is_stored = self.number_of(sent.key)
        if is_stored:
            return {"key": number}, []
        return {"key": number, "data": sent.packed}, sent.blobs


@dataclass(frozen=True, slots=True)
class PackedDataset:
    """Packed dataset for workers. A large dataset has a key, which is a hash of its content."""

    packed: Any
    blobs: codec.Blobs
    key: str


def packed_as(dataset: Any) -> PackedDataset:
    """Return a dataset in packed form. Raise MechanismFailed for a frame or graph that cannot be
    packed.
    """
    number = fixed(dataset)
    if (known := _PACKED.get(number)) is not None:  # another thread may clear the dict
        return known
    blobs: codec.Blobs = []
    try:
        packed = codec.pack(dataset, blobs, exact=True)
    except UnsupportedData as error:
        raise MechanismFailed(f"the dataset cannot be sent to a worker: {error}") from None
    parts, key = [json.dumps(packed).encode(), *blobs], ""
    if sum(map(len, parts)) >= _INLINE_BYTES:
        key = hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()
    found = PackedDataset(packed, blobs, key)
    if number:
        if len(_PACKED) >= 4:
            _PACKED.clear()
        _PACKED[number] = found
    return found


_PACKED: dict[int, PackedDataset] = {}  # packed form of immutable datasets, by serial number


def interpreter_path(python: str, argument: str = "python") -> str:
    """Return the absolute path of an interpreter, given as an environment of `dpwitness targets`,
    the folder of a virtual environment, a path, or a name on the PATH; `argument` is its name in
    messages.

    Raises
    ------
    TargetError
        If there is no such interpreter: MissingLibrary for an environment that is not installed.
    """
    place = str(home() / python) if python in environments() else os.path.expanduser(python)
    inside = os.path.join(place, "bin", "python")
    found = inside if os.path.exists(inside) else shutil.which(place)
    if found is not None:
        return os.path.abspath(found)
    if python in environments():
        raise MissingLibrary(
            f"environment {python} is missing; make it with: dpwitness targets setup {python}"
        )
    raise TargetError(
        f"{argument} must be an interpreter or an environment of `dpwitness targets`, got "
        f"{python!r}: no such file"
    )


def interpreter_slot(file: str, python: str | None, memory_limit: float = 0.0) -> Interpreter:
    """Return the worker slot of a target file: interpreter, path, and folders for its imports.

    Raises
    ------
    TargetError
        If the file or the interpreter is missing, or an adapter's environment is not installed.
    """
    adapter = adapter_file(file)
    if python is None and adapter is not None:
        python = environment_of(adapter)
    if python is not None:
        python = interpreter_path(python)
    place, folders = file, [Path.cwd()]
    if adapter is not None:
        place, folders = str(adapter), [SHARED]
    elif file.endswith(".py"):
        path = Path(file).resolve()
        place, folders = str(path), [path.parent, *([SHARED] if FOLDER in path.parents else [])]
        if not path.is_file():
            raise TargetError(f"target must name an existing file, got {file!r}")
    elif not all(part.isidentifier() for part in file.split(".")):
        raise TargetError(
            "target must name a module such as package.module, or a file that ends in "
            f".py, got {short_repr(file)}"
        )
    memory, paths = round(memory_limit * 2**30), tuple(map(str, folders))
    return Interpreter(python, place, paths, memory, CONFINED.get())


def _loading_error(
    slot: Interpreter, error: str, traceback: str, missing: str | None = None, **_: Any
) -> TargetError:
    """Return the error of a target file that cannot be loaded, with a remedy."""
    if missing is None:  # the file or an installed library raised
        return TargetError(f"target {slot.place} could not be loaded: {error}", traceback)
    if slot.place == missing or slot.place.startswith(f"{missing}."):
        return TargetError(
            f"target must be importable, got {slot.place!r}: no module named {missing!r}"
        )
    python, top = slot.python or sys.executable, missing.partition(".")[0]
    remedy = f"install it there: {python} -m pip install {_DISTRIBUTIONS.get(top, top)}"
    environment = environment_of(Path(slot.place))
    if environment is not None:
        remedy = f"make its environment with: dpwitness targets setup {environment}"
    return MissingLibrary(
        f"target {slot.place} needs {missing!r}, which {python} does not have; {remedy}", traceback
    )


def answer_of(
    slot: Interpreter,
    request: Json,
    blobs: codec.Blobs,
    time_limit: float,
    problem: str,
    *,
    limit: float | None = None,
) -> tuple[Json, codec.Blobs, Json]:
    """Return the answer of a worker that has loaded its target file, the blobs of the answer, and
    the names and versions that the worker knows. `limit` is the time limit of the answer.

    Raises
    ------
    TargetError
        If the file cannot be loaded, the worker refuses the request, or the worker ends or takes
        too long: then `problem` is the beginning of the message.
    """
    with borrowed_worker(slot, time_limit) as worker:
        try:
            reply, blobs = worker.ask(request, blobs, time_limit if limit is None else limit)
        except WorkerDied as error:
            raise TargetError(f"{problem}: the worker process {error}") from None
        if "error" in reply:
            what = f"{reply['what']}: " if "what" in reply else ""
            raise TargetError(f"{what}{reply['error']}", reply["traceback"])
        return reply, blobs, worker.loaded | worker.versions


_DISTRIBUTIONS = {  # distributions whose module has another name
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dp_accounting": "dp-accounting",
    "pipeline_dp": "pipeline-dp",
    "pkg_resources": "setuptools",
    "pydp": "python-dp",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "snsql": "smartnoise-sql",
    "snsynth": "smartnoise-synth",
    "tensorflow_privacy": "tensorflow-privacy",
    "yaml": "PyYAML",
}


def target_names(
    file: str, python: str | None = None, time_limit: float = 300.0, memory_limit: float = 0.0
) -> list[str]:
    """Return the names of the targets of a file, in order. Raise TargetError as `Target.describe`
    does.
    """
    with borrowed_worker(interpreter_slot(file, python, memory_limit), time_limit) as worker:
        return list(worker.loaded["names"])
