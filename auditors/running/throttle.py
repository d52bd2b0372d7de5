"""Speed of the rounds of an audit: determines the number of chunks per task and the time limit of a task, never the counts."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from dpwitness.auditors.running.chunks import Span
from dpwitness.auditors.running.stage import Stage

TASK_SECONDS = 0.25  # target duration of a task, in seconds
_MAX_SERVED = 64  # workers that one coordinator can serve with tasks of this duration; with more workers, tasks are longer
_HUNG_FACTOR = 10  # multiple of the expected duration after which a task counts as hung
_LATE_AFTER = (1.0, 4.0)  # seconds, and multiple of the expected duration: beyond both, a task is started a second time
_DEFAULT_WORKERS = 8  # assumed number of workers if the executor does not report it


@dataclass(slots=True)
class Pace:
    """Duration of the rounds so far, weighted toward recent ones, and the tasks that are still running after their stage."""

    window: int | None = None  # maximum number of tasks in flight; None: 2 * workers + 1
    seconds: float = 0.0
    rounds: int = 0
    stopped: bool = False  # stopped early by an interim look: tasks in flight may finish
    under_way: list[Future[Any]] = field(default_factory=list)  # tasks that could not be cancelled when the stage ended
    copies: dict[Future[Span], Span] = field(default_factory=dict)  # second runs of tasks that another worker has already answered

    def took(self, seconds: float, rounds: int) -> None:
        """Add the duration of these rounds to the weighted totals."""
        self.seconds, self.rounds = 0.9 * self.seconds + seconds, int(0.9 * self.rounds) + rounds

    def expected(self, rounds: int) -> float:
        """Return the expected number of seconds for `rounds` rounds on one worker."""
        return self.seconds / max(self.rounds, 1) * rounds

    def chunks(self, stage: Stage, left: int, workers: int) -> int:
        """Return the number of chunks for the next task."""
        chunk_seconds = self.expected(stage.chunk)
        wanted_chunks = int(TASK_SECONDS * max(1.0, workers / _MAX_SERVED) / chunk_seconds) if chunk_seconds > 0 else 1
        return max(1, min(wanted_chunks, left // (2 * workers), 4096))

    def limit(self, stage: Stage, rounds: int) -> float:
        """Return the time limit of `rounds` rounds, in seconds."""
        return max(stage.time_limit, _HUNG_FACTOR * self.expected(rounds))

    def straggles(self, rounds: int, seconds: float) -> bool:
        """Return whether a task of `rounds` rounds is so late that a second run is worthwhile."""
        return seconds > _LATE_AFTER[0] and seconds > _LATE_AFTER[1] * self.expected(rounds)


def worker_count(executor: Executor) -> int:
    """Return how many tasks an executor runs at once."""
    return max(1, int(getattr(executor, "_max_workers", None) or _DEFAULT_WORKERS))
