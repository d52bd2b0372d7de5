"""Who may use the process' global generators: one chunk that draws from them, or any number of chunks that have not been seen to."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """The two kinds must not overlap.

    A chunk that turns out to draw from the global generators would take numbers from another one's seeded stream, and what that one puts
    back would hide it.
    """

    def __init__(self) -> None:
        self.free = threading.Condition()
        self.watched = self.wanted = 0
        self.held = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """For a chunk that has not been seen to draw from them. Chunks that wait to seed them go first."""
        with self.free:
            self.free.wait_for(lambda: not (self.held or self.wanted))
            self.watched += 1
        try:
            yield
        finally:
            with self.free:
                self.watched -= 1
                self.free.notify_all()

    @contextmanager
    def seeding(self) -> Iterator[None]:
        """For one that draws from them, alone."""
        with self.free:
            self.wanted += 1
            self.free.wait_for(lambda: not (self.held or self.watched))
            self.wanted -= 1
            self.held = True
        try:
            yield
        finally:
            with self.free:
                self.held = False
                self.free.notify_all()


_PROCESS = [Turns()]
_THREAD = threading.local()


def turns() -> Turns:
    """Those of this process, or of the task that this thread is at."""
    found: Turns | None = getattr(_THREAD, "turns", None)
    return found or _PROCESS[0]


@contextmanager
def one_task() -> Iterator[None]:
    """For a task, which ends with the turns that it began with: one that was left behind holds up nobody with its later chunks."""
    _THREAD.turns = turns()
    try:
        yield
    finally:
        _THREAD.turns = None


def renew() -> None:
    """Begin anew: whoever holds them is gone, or hangs."""
    _PROCESS[0] = Turns()


os.register_at_fork(after_in_child=renew)
