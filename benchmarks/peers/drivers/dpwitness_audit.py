"""Driver of ``dpwitness.audit``."""

from __future__ import annotations

from typing import Any

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.peers.drivers.task import Answer, Task
from dpwitness.core.datasets.pairs import Pair

# part of the budget that is asked for: a time budget is approximate, and an attack beyond the
# budget has no answer
_SHARE = 0.8


def attack(task: Task) -> Answer:
    """Return the bound and the verdict of an audit.

    By default the audit has the time budget alone, as ``dpwitness audit --seconds S --clock cpu``.
    The best settings are the number of runs and the confidence.
    """
    pair: Pair = task.mechanism.worst_pair()
    best: dict[str, Any] = {
        "trials": 2 * task.size,
        "confidence": task.confidence,
        "stop": "never",
        "bits": False,
    }
    chosen = best if task.best else {"seconds": _SHARE * task.cpu_seconds, "clock": "cpu"}
    result = audit(task.mechanism, pair=pair, seed=task.seed, **chosen)
    return Answer(result.verdict is Verdict.VIOLATED, result.epsilon_lower, f"{result.trials} runs")
