"""Command ``python -m dpwitness.benchmarks.peers.drivers``: run a tool on mechanisms, and print a
JSON line for each.

The argument is a JSON list of objects with tool, case, settings, CPU seconds and seed. A case is a
mechanism of the zoo, or a file of recorded outputs, whose library's processor time the tool pays.
With the default settings the tool runs once. With the best settings the number of runs grows until
one attack takes most of the budget. That last attack counts, and its processor time alone: start,
compilation and the other attacks are free.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from dpwitness.benchmarks.peers.cases import case_named
from dpwitness.benchmarks.peers.drivers.task import (
    Answer,
    Exhausted,
    NotExpressible,
    Recorded,
    Task,
    recorded,
)

_WARM_UP_SIZE, _FIRST_SIZE, _LEAST_SIZE, _MOST_SIZE = 2_000, 10_000, 200, 50_000_000
_STEPS = 8
_GROWTH = 30
_WORTH = 1.4  # least growth of the size for which another attack is made
_TARGET = 0.85  # share of the budget for which a size is chosen
_SPARE = 0.75  # share of the budget below which the size is at least doubled
# CPU seconds for start and compilation, and multiple of the budget for the search of the size
_START, _SEARCH = 60, 16
_WARM_UP = 2  # multiple of the budget that the first attack, which is free, may take
# answer and cost of an attack, by its size and its limit in CPU seconds
Attempt = Callable[[int, float], tuple[Answer | None, float]]


class _OutOfTime(BaseException):
    """The processor time of an attack is spent."""


def main() -> int:
    """Run the attacks that the argument lists, and print one outcome as JSON for each."""
    tasks = json.loads(sys.argv[1])
    limit = int(sum(_START + _SEARCH * asked["cpu_seconds"] for asked in tasks))
    # ends a tool that ignores the end of its budget
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    for asked in tasks:
        with contextlib.redirect_stdout(sys.stderr):  # tools print
            outcome = _outcome(asked)
        print(json.dumps(outcome), flush=True)
    os._exit(0)  # pools and threads of a tool must not keep the process


def _outcome(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the outcome: the answer of the tool, or the reason why there is none."""
    np.seterr(all="ignore")
    begin = time.monotonic()
    try:
        answer, cost, size = _attack(asked)
    except NotExpressible as error:
        return {"state": "not expressible", "note": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"state": "error", "note": f"{type(error).__name__}: {error}"[:200]}
    if answer is None:
        return {
            "state": "no answer",
            "note": f"needs more than {asked['cpu_seconds']:g} CPU seconds",
        }
    print(f"{asked}: {time.monotonic() - begin:.0f} s by the clock")
    bound = None if answer.bound is None else float(answer.bound)
    found = {"bound": bound, "violated": bool(answer.violated), "note": answer.note}
    return {"state": "answer", **found, "cpu_seconds": round(cost, 2), "size": size}


def _attack(asked: dict[str, Any]) -> tuple[Answer | None, float, int]:
    """Return the answer of the tool, its processor time, and the size of the attack."""
    driver, budget = import_module(f"{__package__}.{asked['tool']}"), float(asked["cpu_seconds"])
    subject = (
        recorded(asked["recording"]) if asked.get("recording") else _zoo_subject(asked["case"])
    )
    mechanism, best = subject["mechanism"], asked["settings"] == "best"

    def task(size: int) -> Task:
        return Task(
            **subject,
            confidence=asked["confidence"],
            best=best,
            size=size,
            seed=asked["seed"],
            cpu_seconds=budget,
        )

    task(0).draw(0, 10, np.random.default_rng(0))  # compiles the mechanism

    def attempt(size: int, limit: float) -> tuple[Answer | None, float]:
        return _timed(lambda: driver.attack(task(size)), limit, mechanism)

    if not best:
        return *(attempt(0, budget) if _warmed_up(attempt, budget) else (None, 0.0)), 0
    return _largest(attempt, budget, asked.get("first_size") or _FIRST_SIZE)


def _zoo_subject(name: str) -> dict[str, Any]:
    """Return the fields of a Task from a mechanism of the zoo."""
    case = case_named(name)
    pair = case.mechanism.worst_pair()
    return {
        "mechanism": case.mechanism,
        "datasets": (pair.d0, pair.d1),
        "epsilon": case.epsilon,
        "delta": case.delta,
    }


def _timed(
    attack: Callable[[], Answer], budget: float, mechanism: Any = None
) -> tuple[Answer | None, float]:
    """Return the answer of an attack and its processor time; no answer if the attack takes more
    than the budget.
    """
    ended, library = False, mechanism if isinstance(mechanism, Recorded) else None
    if library is not None:
        library.rewind()

    def stop(signal_number: int, frame: object) -> None:
        nonlocal ended
        ended = True
        raise _OutOfTime

    signal.signal(signal.SIGPROF, stop)
    begin = _cpu_seconds()
    signal.setitimer(signal.ITIMER_PROF, budget)
    answer: Answer | None = None
    try:
        answer = attack()
    except Exhausted:
        ended = True
    except BaseException:  # libraries may replace the exception of the signal by one of their own
        if not ended and not (library is not None and library.exhausted):
            raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    cost = _cpu_seconds() - begin
    if library is not None:
        cost, ended = cost + library.charged, ended or library.exhausted
    return (None if ended or cost > budget else answer), cost


def _warmed_up(attempt: Attempt, budget: float) -> bool:
    """Make one free attack, which compiles and loads what the tool needs, and return whether
    another one may have an answer.
    """
    try:
        return attempt(0, _WARM_UP * budget)[0] is not None
    except NotExpressible:
        raise
    except Exception:  # such as a tool that measured its compilation and finds the time too short
        return True


def _largest(
    attempt: Attempt, budget: float, first: int = _FIRST_SIZE
) -> tuple[Answer | None, float, int]:
    """Return the last attack of a growing sequence whose cost is within the budget, with its cost
    and size.

    The cost of an attack is taken as a constant plus a part that is proportional to its size,
    fitted to the two last attacks. After an attack of a first size that took most of the budget
    with another seed, the cost is taken as proportional.
    """
    attempt(_WARM_UP_SIZE, _WARM_UP * budget)  # compiles and loads what the tool needs
    kept: tuple[Answer | None, float, int] = (None, 0.0, 0)
    size, limit = first, _MOST_SIZE
    for _ in range(_STEPS):
        answer, cost = attempt(size, budget)
        if answer is None:
            limit, wanted = size, int(math.sqrt(max(kept[2], size // 100) * size))
        else:
            slope = (cost - kept[1]) / (size - kept[2]) if kept[2] or first != _FIRST_SIZE else 0.0
            wanted = size + int(min((_TARGET * budget - cost) / max(slope, 1e-12), _MOST_SIZE))
            # the cost may grow more slowly than the size
            wanted = max(wanted, 2 * size if cost < _SPARE * budget else 0)
            kept = answer, cost, size
        size = min(max(wanted, _LEAST_SIZE), kept[2] * _GROWTH or _MOST_SIZE, int(0.9 * limit))
        if size < max(_WORTH * kept[2], _LEAST_SIZE):
            break
    return kept


def _cpu_seconds() -> float:
    """Return the processor time of this process and its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


if __name__ == "__main__":
    sys.exit(main())
