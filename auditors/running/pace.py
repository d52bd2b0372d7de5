"""How fast the rounds of an audit run: it decides how many chunks go into one task and how long one may take, never what is counted."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from dpwitness.auditors.running.spans import Span
from dpwitness.auditors.running.stage import Stage

TASK = 0.25  # seconds of work that are worth a task of their own
_MANY = 64  # workers that one coordinator serves at that; of more, tasks are longer
_SLACK = 10  # times what the rounds before took: longer than that is taken for hung
_STRAGGLES = (1.0, 4.0)  # seconds, and times what was expected: after both a task is run once more elsewhere
_UNKNOWN = 8  # workers of an executor that does not tell


@dataclass(slots=True)
class Pace:
    """Seconds and rounds so far, those of late weighing more; how many tasks are in flight; and what runs on after its stage."""

    window: int | None = None  # tasks in flight; None: twice the workers and one more
    seconds: float = 0.0
    rounds: int = 0
    stopped: bool = False  # early, by a look: what is in flight may come to its end
    under_way: list[Future[Any]] = field(default_factory=list)  # tasks that no longer could be cancelled when an error stopped the others
    copies: dict[Future[Span], Span] = field(default_factory=dict)  # tasks whose answer came from another worker first

    def took(self, seconds: float, rounds: int) -> None:
        self.seconds, self.rounds = 0.9 * self.seconds + seconds, int(0.9 * self.rounds) + rounds

    def expected(self, rounds: int) -> float:
        """Seconds for so many rounds on one worker."""
        return self.seconds / max(self.rounds, 1) * rounds

    def chunks(self, stage: Stage, left: int, workers: int) -> int:
        """How many chunks the next task takes."""
        each = self.expected(stage.chunk)
        wanted = int(TASK * max(1.0, workers / _MANY) / each) if each > 0 else 1
        return max(1, min(wanted, left // (2 * workers), 4096))

    def limit(self, stage: Stage, rounds: int) -> float:
        """Seconds that so many rounds may take."""
        return max(stage.time_limit, _SLACK * self.expected(rounds))

    def straggles(self, rounds: int, seconds: float) -> bool:
        """Whether a task of so many rounds takes so long that it is worth being run twice."""
        return seconds > _STRAGGLES[0] and seconds > _STRAGGLES[1] * self.expected(rounds)


def workers_of(executor: Executor) -> int:
    """How many tasks an executor runs at once."""
    return max(1, int(getattr(executor, "_max_workers", None) or _UNKNOWN))
