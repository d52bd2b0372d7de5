"""Mutable state of a target: its description, its warnings and its used time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.foreign.python_worker import Interpreter


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
        """Return the time limit of a batch: `least`, or ten times the mean time of previous runs, whichever is longer."""
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
