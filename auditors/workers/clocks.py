"""Clocks of a time budget: wall time, and CPU time of this process and all of its descendants."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

CLOCKS = ("wall", "cpu")
_TREE_READS = 3  # most readings of the process tree, which is read again if a child ends meanwhile


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
    for _ in range(_TREE_READS):
        running, before, ended = _of_descendants(), ended, _of_ended_children()
        if ended == before:
            break
    return time.process_time() + ended + running


def _of_ended_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _of_descendants() -> float:
    """Return the CPU time of all descendants that this process's record does not contain yet."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError):  # the process has ended
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # from field 3 of proc(5) on
            ticks[int(name)] = sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
            children.setdefault(int(fields[1]), []).append(int(name))
    found, left = 0, [os.getpid()]
    while left:
        new = children.get(left.pop(), [])
        found += sum(ticks[pid] for pid in new)
        left += new
    return found / os.sysconf("SC_CLK_TCK")
