"""Pools of worker processes that leave nothing behind: each worker leads a group of its own, and ends with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import wait
from typing import Any

ENGINE = "dpwitness.auditors.running.engine"  # loaded by workers that begin afresh, lest the first run be taken for a slow one
HUNG = [False]  # whether workers still run that only the end of this process ends, and for which its end would wait

_PDEATHSIG = 1  # of prctl, see linux/prctl.h


@contextmanager
def pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of `count` processes. On the way out nothing is waited for: workers are killed, with what they have started."""
    executor = ProcessPoolExecutor(count, initializer=contained, initargs=(os.getpid(),))
    try:
        yield executor
    finally:
        alive = list((getattr(executor, "_processes", None) or {}).values())
        manager = getattr(executor, "_executor_manager_thread", None)
        results = getattr(getattr(executor, "_result_queue", None), "_writer", None)
        with _silent(manager):
            executor.shutdown(wait=False, cancel_futures=True)
            for process in alive:
                end(process.pid)
            if results is not None:
                results.close()  # ours is the last end: else a reader would wait for the rest of what a worker was killed over
            if manager is not None:
                manager.join(5.0)


@contextmanager
def loky_pool(count: int) -> Iterator[Executor]:
    """A pool of `count` processes that begin afresh instead of as a fork of this one. Killed on the way out, as those of `pool`."""
    from loky import ProcessPoolExecutor as Loky
    from loky.backend.resource_tracker import ensure_running

    from dpwitness.auditors.running.handed import reduced
    from dpwitness.mechanisms.terms.pairs import Pair

    ensure_running()
    executor = Loky(count, {Pair: reduced}, timeout=None, initializer=_fresh, initargs=(os.getpid(),))
    try:
        with unheard():
            executor.submit(int).result()  # starts them all
        yield executor
    finally:
        alive = list((executor._processes or {}).values())
        executor.shutdown(wait=False, kill_workers=True)
        for process in alive:
            end(process.pid)


@contextmanager
def unheard() -> Iterator[None]:
    """Processes that are started here never hear Ctrl-C, not even before `contained` runs in them; we hear signals when all have started.

    Half a pool could not be ended in peace.
    """
    resource_tracker.ensure_running()  # which unblocks the signal where it starts its process
    heard: list[tuple[int, Any]] = []
    handlers = {}
    with contextlib.suppress(ValueError):  # not in the main thread
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(found := signal.getsignal(sign)):
                signal.signal(sign, lambda *told: heard.append(told))
                handlers[sign] = found
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for sign, handler in handlers.items():
            signal.signal(sign, handler)
        if heard:
            handlers[signal.Signals(heard[0][0])](*heard[0])


@contextmanager
def _silent(thread: threading.Thread | None) -> Iterator[None]:
    """A pool whose workers are gone fails the futures that are left, and stumbles over those that were cancelled (CPython 3.11)."""
    hook = threading.excepthook
    threading.excepthook = lambda found: None if found.thread is thread else hook(found)
    try:
        yield
    finally:
        threading.excepthook = hook


def end(pid: int) -> None:
    """Kill a worker and its group. It may ignore SIGTERM; one that has not come to `contained` has no group of its own."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(pid, signal.SIGKILL)


def contained(parent: int) -> None:
    """In a worker: a group of its own, Ctrl-C is the parent's to handle, and an end with the parent's end."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    obedient()
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_watch, daemon=True).start()


def _fresh(parent: int) -> None:
    contained(parent)
    import_module(ENGINE)


def obedient() -> None:
    """In a worker of any kind: Ctrl-C is the first process' to handle, other signals end it, and so does its parent's end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_DFL)  # the parent's handlers came along
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _watch() -> None:
    """Where the system does not tell a child that its parent has died, a pipe does."""
    found = parent_process()
    if found is not None and found.sentinel is not None:  # loky has none
        wait([found.sentinel])
        with contextlib.suppress(OSError):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)
