"""Pools of worker processes that leave nothing behind: each worker leads a group of its own, and ends with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import wait
from typing import Any

_PDEATHSIG = 1  # of prctl, see linux/prctl.h


@contextmanager
def pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of `count` processes. On the way out nothing is waited for: workers are killed, with what they have started."""
    executor = ProcessPoolExecutor(count, initializer=_contained, initargs=(os.getpid(),))
    try:
        yield executor
    finally:
        alive = list((getattr(executor, "_processes", None) or {}).values())
        manager = getattr(executor, "_executor_manager_thread", None)
        results = getattr(getattr(executor, "_result_queue", None), "_writer", None)
        with _silent(manager):
            executor.shutdown(wait=False, cancel_futures=True)
            for process in alive:
                _end(process)
            if results is not None:
                results.close()  # ours is the last end: else a reader would wait for the rest of what a worker was killed over
            if manager is not None:
                manager.join(5.0)


@contextmanager
def _silent(thread: threading.Thread | None) -> Iterator[None]:
    """A pool whose workers are gone fails the futures that are left, and stumbles over those that were cancelled (CPython 3.11)."""
    hook = threading.excepthook
    threading.excepthook = lambda found: None if found.thread is thread else hook(found)
    try:
        yield
    finally:
        threading.excepthook = hook


def _end(process: Any) -> None:
    """A worker may ignore SIGTERM."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(OSError, ValueError):
        process.kill()


def _contained(parent: int) -> None:
    """In a worker: a group of its own, Ctrl-C is the parent's to handle, and an end with the parent's end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_DFL)  # the parent's handlers came along
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    """Where the system does not tell a child that its parent has died, a pipe does."""
    found = parent_process()
    if found is not None:
        wait([found.sentinel])
        with contextlib.suppress(OSError):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)
