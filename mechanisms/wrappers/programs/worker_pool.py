"""Selection of the worker for a target file, error messages for a missing file, interpreter or
library, and the state of a target.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpwitness.core import domains
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, short_repr
from dpwitness.mechanisms.wrappers.programs import environments
from dpwitness.mechanisms.wrappers.programs.inside import codec
from dpwitness.mechanisms.wrappers.programs.python_worker import Interpreter, Worker
from dpwitness.mechanisms.wrappers.programs.worker_process import WorkerDied, borrowed_worker

# the only folder that new workers may write to; empty: no limits
CONFINED: ContextVar[str] = ContextVar("CONFINED", default="")


class TargetError(InvalidArgument):
    """Error of a target that cannot be used. `traceback` is the user's part of the traceback if the
    target file raised.
    """

    def __init__(self, reason: str, traceback: str = "") -> None:
        super().__init__(reason)
        self.traceback = traceback


class MissingLibrary(TargetError):
    """Error of a target whose library, or the environment with this library, is not installed."""


def interpreter_slot(file: str, python: str | None, memory_limit: float = 0.0) -> Interpreter:
    """Return the worker slot of a target file: interpreter, path, and folders for its imports.

    Raises
    ------
    TargetError
        If the file is missing, or an adapter's environment has not been set up.
    """
    memory = round(memory_limit * 2**30)
    adapter = None if file.endswith(".py") else environments.adapter_file(file)
    known = environments.environments().get(python or "")
    if known is None and python is None and adapter is not None:
        known = environments.environment_of(adapter)
    if known is not None:
        if not known.interpreter.exists():
            raise MissingLibrary(
                f"environment {known.name} is missing; make it with: dpwitness targets setup "
                f"{known.name}"
            )
        python = str(known.interpreter)
    elif python is not None:
        folder = os.path.expanduser(python)
        inside = os.path.join(folder, "Scripts/python.exe" if os.name == "nt" else "bin/python")
        found = inside if os.path.isdir(folder) and os.path.exists(inside) else shutil.which(python)
        if found is None:
            raise TargetError(
                "python must be an interpreter or an environment of `dpwitness targets`, "
                f"got {python!r}: no such file"
            )
        python = os.path.abspath(found)
    if adapter is not None:
        return Interpreter(python, str(adapter), (), memory, CONFINED.get())
    if not file.endswith(".py"):
        if not all(part.isidentifier() for part in file.split(".")):
            raise TargetError(
                "target must name a module such as package.module, or a file that ends in "
                f".py, got {short_repr(file)}"
            )
        return Interpreter(python, file, (os.getcwd(),), memory, CONFINED.get())
    path = Path(file).resolve()
    if not path.is_file():
        raise TargetError(f"target must name an existing file, got {file!r}")
    return Interpreter(python, str(path), (str(path.parent),), memory, CONFINED.get())


@contextmanager
def loaded(slot: Interpreter, time_limit: float) -> Iterator[Worker]:
    """Yield a worker that has loaded its target file. Raise TargetError with a remedy if the file
    cannot be loaded.
    """
    with ExitStack() as stack:
        try:
            worker = stack.enter_context(borrowed_worker(slot, time_limit))
        except InvalidArgument as error:
            raise TargetError(str(error)) from None
        reply = worker.loaded
        if "error" in reply:
            missing = reply.get("missing")
            if missing is None:  # the file or an installed library raised
                raise TargetError(
                    f"target {slot.place} could not be loaded: {reply['error']}", reply["traceback"]
                )
            if slot.place == missing or slot.place.startswith(f"{missing}."):
                raise TargetError(
                    f"target must be importable, got {slot.place!r}: no module named {missing!r}"
                )
            raise MissingLibrary(
                f"target {slot.place} needs {missing!r}, which {worker.python} does not "
                f"have; {_remedy(slot, reply)}",
                reply["traceback"],
            )
        yield worker


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
        If the file cannot be loaded, or the worker ends or takes too long: then `problem` is the
        begin of the message.
    """
    with loaded(slot, time_limit) as worker:
        try:
            found = worker.ask(request, blobs, time_limit if limit is None else limit)
        except WorkerDied as error:
            raise TargetError(f"{problem}: the worker process {error}") from None
        return *found, worker.loaded | worker.versions


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


def _remedy(slot: Interpreter, reply: Json) -> str:
    """Return the command that installs a missing library."""
    adapter = (
        environments.environment_of(Path(slot.place))
        if slot.place.startswith(str(environments.FOLDER))
        else None
    )
    if adapter is not None:
        return f"make its environment with: dpwitness targets setup {adapter.name}"
    top = reply["missing"].partition(".")[0]
    line = (
        reply.get("install")
        or f"pip install {reply.get('library') or _DISTRIBUTIONS.get(top, top)}"
    )
    return f"install it there: {slot.python or sys.executable} -m {line}"


def target_names(
    file: str, python: str | None = None, time_limit: float = 300.0, memory_limit: float = 0.0
) -> list[str]:
    """Return the names of the targets of a file, in order. Raise TargetError as `Target.describe`
    does.
    """
    with loaded(interpreter_slot(file, python, memory_limit), time_limit) as worker:
        return list(worker.loaded["names"])


@dataclass(slots=True)
class TargetState:
    """State of a target that its threads share."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    about: Json | None = None
    slot: Interpreter | None = None
    cpu: float = 0.0
    seconds: float = 0.0
    runs: int = 0
    closed: int = 0  # number of calls of `close`
    warned: dict[str, None] = field(default_factory=dict)

    def limit(self, least: float, size: int) -> float:
        """Return the time limit of a batch: `least`, or ten times the mean time of previous runs,
        whichever is longer.
        """
        with self.lock:
            return max(least, 10 * self.seconds * size / max(self.runs, 1))

    def took(self, seconds: float, runs: int) -> None:
        """Add the wall time of a batch of runs."""
        with self.lock:
            self.seconds += seconds
            self.runs += runs

    def add(self, seconds: float) -> None:
        """Add processor time."""
        with self.lock:
            self.cpu += seconds


def build_domain(found: Any, owner: str) -> domains.Domain:
    """Return the domain of its declaration ``{"kind": NAME, **arguments}``. Raise TargetError if
    the declaration is invalid.
    """
    if not isinstance(found, dict) or "kind" not in found:
        raise TargetError(
            f"{owner}: domain must be a dict with a kind and its arguments, got {found!r}"
        )
    kinds = domains.domain_kinds()
    cls = kinds.get(found["kind"]) if isinstance(found["kind"], str) else None
    if cls is None:
        raise TargetError(
            f"{owner}: domain kind must be one of {', '.join(kinds)}, got {found['kind']!r}"
        )
    known = domains.field_texts(cls)
    for key in found:
        if key != "kind" and key not in known:
            raise TargetError(
                f"{owner}: domain {cls.__name__} has the keys {', '.join(known)}, got {key!r}"
            )
    try:
        return cls(**{key: value for key, value in found.items() if key != "kind"})
    except (TypeError, InvalidArgument) as error:
        raise TargetError(f"{owner}: domain: {error}") from None
