"""Code that runs in a Dask worker: write the sent files, unpickle arguments, run the task.

In local clusters Dask imports this module itself (`dask_setup`).
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

from dpwitness.executors.pools import start_contained_worker
from dpwitness.mechanisms.core.validation import InvalidArgument, error_text
from dpwitness.mechanisms.foreign.worker_pool import SENT, Sent
from dpwitness.mechanisms.protocols.mechanism import MechanismFailed

Files = tuple[tuple[str, bytes], ...]  # (path on the sender, content) pairs
_MISSING = ("no module named", "existing file", "program that exists")
_MAX_AUDITS = 16  # number of audits whose files are kept

SHIP_ADVICE = "send it with --ship FILE or PACKAGE.zip (`ship=` in Python), or install it where the workers run"

_import_lock = threading.Lock()
_imported = [Sent()]  # the files whose modules are currently imported


def dask_setup(worker: Any) -> None:
    """Initialize a worker of a local cluster; Dask calls this function."""
    start_contained_worker(os.getppid())
    silence_dask_log(logging.CRITICAL)


def silence_dask_log(level: int) -> dict[logging.Handler, int]:
    """Silence Dask's log below `level` in this process, and return the previous levels.

    Failures of workers are reported in dpwitness's own messages instead.
    """
    before = {handler: handler.level for handler in logging.getLogger("distributed").handlers}
    for handler in before:
        handler.setLevel(level)
    return before


@cache
def builds() -> tuple[str, str]:
    """Return the versions on which counts depend: dpwitness, and the minor release of NumPy."""
    return version("dpwitness"), ".".join(version("numpy").split(".")[:2])


def call(client_builds: tuple[str, str], sent: bytes, *parts: bytes) -> Any:
    """Run the task that `parts` hold in pickled form, the function first.

    Raise InvalidArgument if this worker has another version of dpwitness or NumPy, or lacks a module or file of the mechanism, and
    MechanismFailed if the mechanism tries to exit the worker process.
    """
    if client_builds != builds():
        here, there = (f"dpwitness {found[0]} with NumPy {found[1]}" for found in (builds(), client_builds))
        raise InvalidArgument(f"workers must run the same versions as this process ({there}), one worker runs {here}")
    files = write_sent_files(sent)
    token = SENT.set(files)
    try:
        function, *args = _unpickle(parts, files)
        return function(*args)
    except MechanismFailed as error:
        if any(missing in str(error).lower() for missing in _MISSING):
            raise InvalidArgument(f"{error}; {SHIP_ADVICE}") from None
        raise
    except (SystemExit, GeneratorExit, KeyboardInterrupt) as error:  # Dask would stop the worker
        raise MechanismFailed(f"the mechanism ended its run with {error_text(error)}") from None
    finally:
        SENT.reset(token)


def _unpickle(parts: tuple[bytes, ...], files: Sent) -> list[Any]:
    """Unpickle objects, importing sent modules in preference to other modules of the same name and to those of earlier audits."""
    with _import_lock:
        if files is not _imported[0]:
            _unload(_imported[0])
            sys.path[:] = [*files.paths, *(place for place in sys.path if place not in (*files.paths, *_imported[0].paths))]
            for file in files.here.values():
                if file.endswith(".py"):
                    sys.modules.pop(Path(file).stem, None)
            _imported[0] = files
        try:
            return [pickle.loads(part) for part in parts]
        except ModuleNotFoundError as error:
            raise InvalidArgument(f"the workers have no module {error.name!r}, which the mechanism needs: {SHIP_ADVICE}") from None
        except AttributeError as error:
            raise InvalidArgument(
                f"the workers have another version of a module that the mechanism needs ({error}): {SHIP_ADVICE}"
            ) from None


def _unload(files: Sent) -> None:
    """Unload the modules of an earlier audit, because another audit may send another version."""
    for name, module in list(sys.modules.items()):
        top, file = name.partition(".")[0], str(getattr(module, "__file__", None))
        places = [os.path.join(place, top) for place in files.paths]
        if top != "dpwitness" and any(file == f"{place}.py" or file.startswith(f"{place}{os.sep}") for place in places):
            del sys.modules[name]


@lru_cache(_MAX_AUDITS)
def write_sent_files(sent: bytes) -> Sent:
    """Write the files of an audit, and return their paths on this machine.

    Files that exist at their original paths with equal content are used there. Otherwise all are written to one new folder.
    """
    files: Files
    _, files = pickle.loads(sent)
    if all(_has_content(Path(place), content) for place, content in files):
        return Sent({place: place for place, _ in files})
    folder = Path(tempfile.mkdtemp(prefix="dpwitness-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for place, content in files:
        (folder / Path(place).name).write_bytes(content)
        (folder / Path(place).name).chmod(0o700)  # the file may be an executable
    return Sent({place: str(folder / Path(place).name) for place, _ in files})


def _has_content(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False
