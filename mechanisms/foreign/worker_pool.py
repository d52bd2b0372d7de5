"""Which worker serves a target file, and what is said where it cannot: the file, its interpreter or its library is missing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpwitness.mechanisms import domains
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument, shown
from dpwitness.mechanisms.foreign import environments
from dpwitness.mechanisms.foreign.python_worker import Interpreter, Worker
from dpwitness.mechanisms.foreign.worker_process import borrow


@dataclass(frozen=True, eq=False)
class Sent:
    """Files that came along with a task, on a machine of a cluster: where each lies `here`, by its place on the machine that sent it."""

    here: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        """From where their modules are imported: their folders, and archives themselves."""
        return tuple(dict.fromkeys(p if p.endswith((".zip", ".whl", ".egg")) else os.path.dirname(p) for p in self.here.values()))


_NOTHING = Sent()
SENT: ContextVar[Sent] = ContextVar("SENT", default=_NOTHING)


class TargetError(InvalidArgument):
    """A target file cannot be used. `traceback` is the part of the traceback that is the user's code, if it raised."""

    def __init__(self, reason: str, traceback: str = "") -> None:
        super().__init__(reason)
        self.traceback = traceback


class MissingLibrary(TargetError):
    """A target cannot be used because its library, or the environment that holds it, is not installed."""


def slot_of(file: str, python: str | None, memory_limit: float = 0.0) -> Interpreter:
    """Which worker serves a target file: interpreter, path, and folders that its own imports need.

    Raises
    ------
    TargetError
        If the file is missing, or an adapter's environment has not been made.
    """
    memory = round(memory_limit * 2**30)
    adapter = None if file.endswith(".py") else environments.adapter_file(file)
    known = environments.environments().get(python or "")
    if known is None and python is None and adapter is not None:
        known = environments.environment_of(adapter)
    if known is not None:
        if not known.interpreter.exists():
            raise MissingLibrary(f"environment {known.name} is missing; make it with: dpwitness targets setup {known.name}")
        python = str(known.interpreter)
    elif python is not None:
        folder = os.path.expanduser(python)
        inside = os.path.join(folder, "Scripts/python.exe" if os.name == "nt" else "bin/python")
        found = inside if os.path.isdir(folder) and os.path.exists(inside) else shutil.which(python)
        if found is None:
            raise TargetError(f"python must be an interpreter or an environment of `dpwitness targets`, got {python!r}, which is not there")
        python = os.path.abspath(found)
    if adapter is not None:
        return Interpreter(python, str(adapter), (), memory)
    if not file.endswith(".py"):
        if not all(part.isidentifier() for part in file.split(".")):
            raise TargetError(f"target must name a module such as package.module, or a file that ends in .py, got {shown(file)}")
        return Interpreter(python, file, (os.getcwd(), *SENT.get().paths), memory)
    path = Path(SENT.get().here.get(file, file)).resolve()
    if not path.is_file():
        raise TargetError(f"target must name an existing file, got {file!r}")
    return Interpreter(python, str(path), tuple(dict.fromkeys((str(path.parent), *SENT.get().paths))), memory)


@contextmanager
def loaded(slot: Interpreter, time_limit: float) -> Iterator[Worker]:
    """A worker that has loaded its target file, or a TargetError that says what to do."""
    with ExitStack() as stack:
        try:
            worker = stack.enter_context(borrow(slot, time_limit))
        except InvalidArgument as error:
            raise TargetError(str(error)) from None
        wrong = worker.loaded
        if "error" in wrong:
            missing = wrong.get("missing")
            if missing is None:  # also an error of an installed library while it is imported
                raise TargetError(f"target {slot.place} could not be loaded: {wrong['error']}", wrong["traceback"])
            if slot.place == missing or slot.place.startswith(f"{missing}."):
                raise TargetError(f"target must be importable, got {slot.place!r}: no module named {missing!r}")
            raise MissingLibrary(
                f"target {slot.place} needs {missing!r}, which {worker.python} has not; {_remedy(slot, wrong)}", wrong["traceback"]
            )
        yield worker


_DISTRIBUTIONS = {  # which hold a module of another name
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


def _remedy(slot: Interpreter, wrong: Json) -> str:
    adapter = environments.environment_of(Path(slot.place)) if slot.place.startswith(str(environments.FOLDER)) else None
    if adapter is not None:
        return f"make its environment with: dpwitness targets setup {adapter.name}"
    top = wrong["missing"].partition(".")[0]
    line = wrong.get("install") or f"pip install {wrong.get('library') or _DISTRIBUTIONS.get(top, top)}"
    return f"install it there: {slot.python or sys.executable} -m {line}"


def targets_in(file: str, python: str | None = None, time_limit: float = 300.0, memory_limit: float = 0.0) -> list[str]:
    """Names of the targets of a file, in its order. Raises TargetError as `Target.describe` does."""
    with loaded(slot_of(file, python, memory_limit), time_limit) as worker:
        return list(worker.loaded["names"])


def build_domain(found: Any, owner: str) -> domains.Domain:
    """A domain from its declaration: ``{"kind": NAME, **arguments}``."""
    if not isinstance(found, dict) or "kind" not in found:
        raise TargetError(f"{owner}: domain must be a dict with a kind and its arguments, got {found!r}")
    kinds = domains.KINDS
    cls = kinds.get(found["kind"]) if isinstance(found["kind"], str) else None
    if cls is None:
        raise TargetError(f"{owner}: domain kind must be one of {', '.join(kinds)}, got {found['kind']!r}")
    known = domains.keys_of(cls)
    for key in found:
        if key != "kind" and key not in known:
            raise TargetError(f"{owner}: domain {cls.__name__} has the keys {', '.join(known)}, got {key!r}")
    try:
        return cls(**{key: value for key, value in found.items() if key != "kind"})
    except (TypeError, InvalidArgument) as error:
        raise TargetError(f"{owner}: domain: {error}") from None
