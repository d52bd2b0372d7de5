"""Pools of worker processes without leftovers: each worker leads its own process group and ends
with its parent.
"""

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
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import wait
from typing import Any

# imported at worker start, so that the first run's time does not include the import
ENGINE_MODULE = "dpwitness.auditors.workers.engine"

_PR_SET_PDEATHSIG = 1  # of prctl, see linux/prctl.h


@contextmanager
def pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of `count` processes; at exit, kill workers and their children
    without waiting.
    """
    executor = ProcessPoolExecutor(
        count, initializer=start_contained_worker, initargs=(os.getpid(),)
    )
    try:
        yield executor
    finally:
        alive = list((getattr(executor, "_processes", None) or {}).values())
        manager = getattr(executor, "_executor_manager_thread", None)
        results = getattr(getattr(executor, "_result_queue", None), "_writer", None)
        with _silence_thread(manager):
            executor.shutdown(wait=False, cancel_futures=True)
            for process in alive:
                end(process.pid)
            if results is not None:
                # closes the pipe's last writer: a reader would wait for the rest of a killed
                # worker's message
                results.close()
            if manager is not None:
                manager.join(5.0)


@contextmanager
def delay_signals() -> Iterator[None]:
    """Block SIGINT for processes that start in the block, and delay signals to this process until
    all have started.

    A half-started pool cannot be shut down cleanly.
    """
    resource_tracker.ensure_running()  # starting the tracker later would unblock SIGINT
    received: list[tuple[int, Any]] = []
    handlers = {}
    with contextlib.suppress(ValueError):  # not in the main thread
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(found := signal.getsignal(sign)):
                signal.signal(sign, lambda *arguments: received.append(arguments))
                handlers[sign] = found
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for sign, handler in handlers.items():
            signal.signal(sign, handler)
        if received:
            handlers[signal.Signals(received[0][0])](*received[0])


@contextmanager
def _silence_thread(thread: threading.Thread | None) -> Iterator[None]:
    """Hide exceptions of a pool's manager thread, which raises on cancelled futures when the
    workers are killed (CPython 3.11).
    """
    hook = threading.excepthook
    threading.excepthook = lambda found: None if found.thread is thread else hook(found)
    try:
        yield
    finally:
        threading.excepthook = hook


def end(pid: int) -> None:
    """Kill a worker and its process group.

    SIGKILL is used because a worker may ignore SIGTERM. A worker that has not run
    `start_contained_worker` has no group yet and is killed alone.
    """
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(pid, signal.SIGKILL)


def start_contained_worker(parent: int) -> None:
    """Put this worker into its own process group, leave Ctrl-C to the parent, and make the worker
    end with its parent.
    """
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    set_worker_signals()
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def set_worker_signals() -> None:
    """In any worker, ignore Ctrl-C, end at other signals, and end with the parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_DFL)  # a fork inherits the parent's handlers
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _exit_with_parent() -> None:
    """Kill this worker when its parent's sentinel pipe closes, for systems without a signal at the
    parent's death.
    """
    found = parent_process()
    if found is not None:
        wait([found.sentinel])
        with contextlib.suppress(OSError):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)
