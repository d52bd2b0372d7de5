"""Lock for the process's global random generators.

Either one chunk draws from the global generators, or any number of chunks run for
which no draw from them is known.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class GlobalGeneratorLock:
    """Lock that keeps chunks that seed the global generators separate from all other chunks.

    A chunk that unexpectedly draws from the global generators would take numbers from another
    chunk's seeded stream. When the other chunk restores the generators, the draw could not be
    detected.
    """

    def __init__(self) -> None:
        self.free = threading.Condition()
        self.watched = self.wanted = 0
        self.holder: int | None = None  # the thread that seeds the generators
        self.abandoned = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hold the lock for a chunk that is not known to draw from the global generators; chunks
        waiting to seed them go first.
        """
        with self.free:
            self.free.wait_for(lambda: self.holder is None and not self.wanted)
            self.watched += 1
        try:
            yield
        finally:
            with self.free:
                self.watched -= 1
                self.free.notify_all()

    @contextmanager
    def seeding(self) -> Iterator[None]:
        """Hold the lock exclusively, for work that draws from the global generators; a thread may
        hold it several times.

        An abandoned task that wakes up finds generators that others have used, and must not seed
        them.
        """
        if self.abandoned:
            raise RuntimeError("the task took too long and was abandoned")
        if self.holder == threading.get_ident():
            yield
            return
        with self.free:
            self.wanted += 1
            self.free.wait_for(lambda: self.holder is None and not self.watched)
            self.wanted -= 1
            self.holder = threading.get_ident()
        try:
            yield
        finally:
            with self.free:
                self.holder = None
                self.free.notify_all()


_PROCESS_LOCK = [GlobalGeneratorLock()]
_THREAD_STATE = threading.local()


def current_lock() -> GlobalGeneratorLock:
    """Return the lock of the task that this thread runs, or else of this process."""
    lock: GlobalGeneratorLock | None = getattr(_THREAD_STATE, "lock", None)
    return lock or _PROCESS_LOCK[0]


@contextmanager
def task_lock() -> Iterator[None]:
    """Use one lock for all chunks of a task.

    After `reset_generator_lock`, an abandoned task keeps its old lock, so its later chunks do not
    block other tasks.
    """
    _THREAD_STATE.lock = current_lock()
    try:
        yield
    finally:
        _THREAD_STATE.lock = None


def reset_generator_lock() -> None:
    """Replace the process's lock, because its holders hang: their tasks are abandoned."""
    _PROCESS_LOCK[0].abandoned = True
    _new_process_lock()


def _new_process_lock() -> None:
    """Replace the process's lock, because its holders are not in this process."""
    _PROCESS_LOCK[0] = GlobalGeneratorLock()


os.register_at_fork(after_in_child=_new_process_lock)
