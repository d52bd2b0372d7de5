"""Clocks of a time budget: wall time, and CPU time of this process and all of its descendants."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from dpwitness.mechanisms.wrappers.programs.supervisor import below

CLOCKS = ("wall", "cpu")


def read_clock(clock: str) -> Callable[[], float]:
    """Return the function that reads a clock of `CLOCKS`, in seconds."""
    return cpu_seconds if clock == "cpu" else time.perf_counter


def has_cpu_clock() -> bool:
    """Return whether `cpu_seconds` can see other processes, which needs /proc."""
    return os.path.exists(f"/proc/{os.getpid()}/stat")


def cpu_seconds() -> float:
    """Return the CPU time so far of this process and its descendants, such as workers and
    interpreters of targets; 0 without /proc.

    Ended descendants count as soon as their parent has waited for them.
    """
    if not has_cpu_clock():
        return 0.0
    ended = _of_ended_children()
    for _ in range(3):  # the process tree is read again if a child ends meanwhile
        # utime, stime, cutime, cstime of proc(5)
        running = sum(sum(map(int, fields[11:15])) for fields in below(os.getpid()).values())
        before, ended = ended, _of_ended_children()
        if ended == before:
            break
    return time.process_time() + ended + running / os.sysconf("SC_CLK_TCK")


def _of_ended_children() -> float:
    times = os.times()
    return times.children_user + times.children_system
