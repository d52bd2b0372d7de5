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
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpwitness.executors.pools import contained
from dpwitness.mechanisms.foreign.slots import SENT
from dpwitness.mechanisms.terms.protocol import MechanismFailed
from dpwitness.mechanisms.terms.validation import InvalidArgument, said

Files = tuple[tuple[str, bytes], ...]  # where they lie on the machine that sends them, and what they hold

SHIP = "send its file with --ship FILE.py (`ship=` in Python), or install it where the workers run"

_reading = threading.Lock()
_owners: dict[str, dict[str, str]] = {}  # with which files a module came


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
        if "no module named" in str(error).lower() or "existing file" in str(error):
            raise InvalidArgument(f"{error}; {SHIP}") from None
        raise
    except (SystemExit, GeneratorExit, KeyboardInterrupt) as error:  # Dask would end the worker
        raise MechanismFailed(f"the mechanism ended its run with {said(error)}") from None
    finally:
        SENT.reset(token)


def _read(parts: tuple[bytes, ...], files: dict[str, str]) -> list[Any]:
    """Objects from their pickles; modules that were sent stand before others of their names, also before those of earlier audits."""
    with _reading:
        for name in [Path(file).stem for file in files.values() if file.endswith(".py")]:
            if _owners.get(name) is not files:
                sys.modules.pop(name, None)
                _owners[name] = files
        folders = list(dict.fromkeys(str(Path(file).parent) for file in files.values()))
        sys.path[:] = [*folders, *(place for place in sys.path if place not in folders)]
        try:
            return [pickle.loads(part) for part in parts]
        except ModuleNotFoundError as error:
            raise InvalidArgument(f"the workers have no module {error.name!r}, which the mechanism needs: {SHIP}") from None
        except AttributeError as error:
            raise InvalidArgument(f"the workers have another version of a module that the mechanism needs ({error}): {SHIP}") from None


@cache
def laid_out(sent: bytes) -> dict[str, str]:
    """Where the files that were sent lie here: at their own places where they are there with the same content, else in one new folder."""
    files: Files = pickle.loads(sent)
    if all(_same(Path(place), content) for place, content in files):
        return {place: place for place, _ in files}
    folder = Path(tempfile.mkdtemp(prefix="dpwitness-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found = {}
    for place, content in files:
        here = folder / Path(place).name
        here.write_bytes(content)
        found[place] = str(here)
    return found


def _same(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False
