"""What happens in a Dask worker: files that were sent along are laid out, arguments read, the task run.

Dask itself imports this module (`dask_setup`) where we start the workers.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import shutil
import sys
import tempfile
import threading
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpwitness.executors.pools import contained
from dpwitness.mechanisms.foreign.slots import SENT, Sent
from dpwitness.mechanisms.terms.protocol import MechanismFailed
from dpwitness.mechanisms.terms.validation import InvalidArgument, said

Files = tuple[tuple[str, bytes], ...]  # where they lie on the machine that sends them, and what they hold
_MISSING = ("no module named", "existing file", "program that is there")
_KEPT = 16  # audits whose files are kept

SHIP = "send it with --ship FILE or PACKAGE.zip (`ship=` in Python), or install it where the workers run"

_reading = threading.Lock()
_last = [Sent()]  # the files whose modules are loaded


def dask_setup(worker: Any) -> None:
    """In a worker of a cluster that we have started."""
    contained(os.getppid())
    hush(logging.CRITICAL)


def hush(level: int) -> dict[logging.Handler, int]:
    """Let Dask log nothing below `level` in this process: what it repairs or loses is said in lines of ours. Returns the levels before."""
    before = {handler: handler.level for handler in logging.getLogger("distributed").handlers}
    for handler in before:
        handler.setLevel(level)
    return before


@cache
def builds() -> tuple[str, str]:
    """What must be the same everywhere for counts to be the same: dpwitness, and the series of NumPy."""
    return version("dpwitness"), ".".join(version("numpy").split(".")[:2])


def call(told: tuple[str, str], sent: bytes, *parts: bytes) -> Any:
    """Run what `parts` hold, the function first.

    Raises
    ------
    InvalidArgument
        If this worker has another dpwitness or NumPy, or lacks what the mechanism needs.
    MechanismFailed
        Where the mechanism would end the worker.
    """
    if told != builds():
        here, there = (f"dpwitness {found[0]} with NumPy {found[1]}" for found in (builds(), told))
        raise InvalidArgument(f"workers must run what this process runs, {there}; one runs {here}")
    files = laid_out(sent)
    token = SENT.set(files)
    try:
        function, *args = _read(parts, files)
        return function(*args)
    except MechanismFailed as error:
        if any(missing in str(error).lower() for missing in _MISSING):
            raise InvalidArgument(f"{error}; {SHIP}") from None
        raise
    except (SystemExit, GeneratorExit, KeyboardInterrupt) as error:  # Dask would end the worker
        raise MechanismFailed(f"the mechanism ended its run with {said(error)}") from None
    finally:
        SENT.reset(token)


def _read(parts: tuple[bytes, ...], files: Sent) -> list[Any]:
    """Objects from their pickles; modules that were sent stand before others of their names, also before those of earlier audits."""
    with _reading:
        if files is not _last[0]:
            _forget(_last[0])
            sys.path[:] = [*files.paths, *(place for place in sys.path if place not in (*files.paths, *_last[0].paths))]
            for file in files.here.values():
                if file.endswith(".py"):
                    sys.modules.pop(Path(file).stem, None)
            _last[0] = files
        try:
            return [pickle.loads(part) for part in parts]
        except ModuleNotFoundError as error:
            raise InvalidArgument(f"the workers have no module {error.name!r}, which the mechanism needs: {SHIP}") from None
        except AttributeError as error:
            raise InvalidArgument(f"the workers have another version of a module that the mechanism needs ({error}): {SHIP}") from None


def _forget(files: Sent) -> None:
    """Unload what was imported from their folders: another audit may send another version."""
    for name, module in list(sys.modules.items()):
        top, file = name.partition(".")[0], str(getattr(module, "__file__", None))
        places = [os.path.join(place, top) for place in files.paths]
        if top != "dpwitness" and any(file == f"{place}.py" or file.startswith(f"{place}{os.sep}") for place in places):
            del sys.modules[name]


@lru_cache(_KEPT)
def laid_out(sent: bytes) -> Sent:
    """Where the files of an audit lie here: at their own places where they are there with the same content, else in one new folder."""
    files: Files
    _, files = pickle.loads(sent)
    if all(_same(Path(place), content) for place, content in files):
        return Sent({place: place for place, _ in files})
    folder = Path(tempfile.mkdtemp(prefix="dpwitness-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for place, content in files:
        (folder / Path(place).name).write_bytes(content)
        (folder / Path(place).name).chmod(0o700)  # it may be a program
    return Sent({place: str(folder / Path(place).name) for place, _ in files})


def _same(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False
