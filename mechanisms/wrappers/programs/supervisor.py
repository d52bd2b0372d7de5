"""Supervisor process of a worker: starts the worker, and ends the worker and all of its descendants
when the controller or the worker ends.

Uses the standard library only; `process` starts one supervisor per worker as a script, in this interpreter::

    python supervisor.py LIFE CONTROLLER MEMORY PROGRAM ARGUMENTS...

LIFE is the read end of a pipe whose other end the controller holds. All descendants are killed when
this pipe closes, when the controller dies (Linux) or when the worker ends. On Linux this includes
descendants that have left the worker's session, because orphans become children of the supervisor.
The supervisor exits as the worker did: with its exit code, or by its signal. MEMORY limits the
worker's address space (bytes; 0: no limit). An environment variable gives the worker the
supervisor's process id.
"""  # noqa: E501

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import resource
import select
import signal
import sys
import time

MOST = 512  # most running descendants of a worker
_KILL_SECONDS = 8.0  # seconds after which killing is given up

PARENT_DEATH_SIGNAL, _SUBREAPER = 1, 36  # of prctl, see linux/prctl.h
_END_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def prctl(option: int, value: int) -> None:
    """Call Linux's prctl, ignoring errors; do nothing on other systems."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Return the running descendants of process `root`; an empty list on systems without /proc.

    Ended processes are omitted, but their children are followed: the first thread of a process can
    be shown as ended while its other threads still end.
    """
    return [pid for pid, fields in below(root).items() if fields[0] != b"Z"]


def below(root: int) -> dict[int, list[bytes]]:
    """Return the fields of ``/proc/PID/stat``, from the third on, of all descendants of a process,
    also of ended ones.
    """
    children: dict[int, dict[int, list[bytes]]] = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # the process has ended
            with open(path, "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            children.setdefault(int(fields[1]), {})[int(path.split("/")[2])] = fields
    found: dict[int, list[bytes]] = {}
    left = [root]
    while left:
        new = children.get(left.pop(), {})
        found.update(new)
        left += new
    return found


def listed_below(root: int) -> dict[int, list[bytes]]:
    """Return what `below` does, by the kernel's lists of children where it has them: many times
    faster, but incomplete where a process starts or ends meanwhile.
    """
    if not os.path.exists(f"/proc/{root}/task/{root}/children"):
        return below(root)
    found: dict[int, list[bytes]] = {}
    left = [root]
    while left:
        for path in glob.glob(f"/proc/{left.pop()}/task/*/children"):
            with contextlib.suppress(OSError, IndexError):  # the process has ended
                with open(path, "rb") as file:
                    children = list(map(int, file.read().split()))
                left += children
                for child in children:
                    with open(f"/proc/{child}/stat", "rb") as file:
                        found[child] = file.read().rpartition(b")")[2].split()
    return found


def kill_all(worker: int) -> None:
    """Kill the worker's process group and all descendants. All are stopped first, so that none can
    start another process.
    """
    seen: set[int] = set()
    for _ in range(400):
        found = _signal_all(worker, signal.SIGSTOP)
        if found <= seen:
            break
        seen |= found
    deadline = time.monotonic() + _KILL_SECONDS
    _signal_all(worker, signal.SIGKILL)
    while _has_children(worker) and time.monotonic() < deadline:
        time.sleep(0.002)
        _signal_all(worker, signal.SIGKILL)


def _signal_all(worker: int, sign: signal.Signals) -> set[int]:
    """Send a signal to the worker's process group and all descendants, and return the
    descendants.
    """
    with contextlib.suppress(OSError):
        os.killpg(worker, sign)
    found = set(descendants(os.getpid()))
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, sign)
    return found


_exit_status: dict[str, int] = {}


def _has_children(worker: int) -> bool:
    """Wait for ended children, without blocking, and return whether a child is left. Does not
    depend on /proc.
    """
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True
            if pid == worker:
                _exit_status["worker"] = status
    except ChildProcessError:
        return False


def _end_if_too_many(worker: int) -> None:
    """Kill all descendants, and end this process with exit code 70, if too many run."""
    count = len(descendants(os.getpid())) - 1
    if count > MOST:
        kill_all(worker)
        text = (
            f"the target has started {count} processes that still run, at most {MOST} are allowed\n"
        )
        os.write(2, text.encode())
        os._exit(70)


def main() -> None:
    """Start the worker, wait for its end or the controller's, kill all descendants, and exit as the
    worker did.
    """
    life, controller, memory = map(int, sys.argv[1:4])
    command = sys.argv[4:]
    wake_read, wake_write = os.pipe()
    for end in (wake_read, wake_write):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for sign in (*_END_SIGNALS, signal.SIGCHLD):
        signal.signal(sign, lambda *_: None)
    prctl(PARENT_DEATH_SIGNAL, signal.SIGTERM)
    prctl(_SUBREAPER, 1)
    if os.getppid() != controller:
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.set_inheritable(life, False)
    environment = dict(os.environ, DPWITNESS_KEEPER=str(os.getpid()))
    before = resource.getrlimit(resource.RLIMIT_AS)
    if memory:  # the worker inherits the limit on address space
        resource.setrlimit(resource.RLIMIT_AS, (memory, before[1]))
    try:  # restore the default action of SIGPIPE
        worker = os.posix_spawn(
            command[0], command, environment, setpgroup=0, setsigdef=[signal.SIGPIPE]
        )
    except OSError as error:
        os.write(2, f"cannot be started: {error.strerror}\n".encode())
        os._exit(127)
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, before)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)  # only the worker holds the pipes, so they close when the worker ends
    next_check = time.monotonic() + 1.0
    while _has_children(worker) and "worker" not in _exit_status:
        # wait at most 0.2 seconds for a signal or the end of the controller
        ready = select.select([life, wake_read], [], [], 0.2)[0]
        received = os.read(wake_read, 4096) if wake_read in ready else b""
        if life in ready or any(sign in received for sign in _END_SIGNALS):
            break
        # the log of printed output is emptied above 64 MiB
        if os.fstat(2).st_size > 2**26:
            os.ftruncate(2, 0)
        if time.monotonic() > next_check:
            next_check = time.monotonic() + 1.0
            _end_if_too_many(worker)
    kill_all(worker)
    code = os.waitstatus_to_exitcode(_exit_status.get("worker", signal.SIGKILL))
    if code < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


if __name__ == "__main__":
    main()
