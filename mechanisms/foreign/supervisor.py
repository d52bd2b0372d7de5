"""The keeper of a worker: starts it, and ends it with every process that it has started, whatever ends the controller.

Stands alone (standard library); `process` starts it as a script, one for each worker, in this interpreter::

    python supervisor.py LIFE CONTROLLER MEMORY PROGRAM ARGUMENTS...

LIFE is the read end of a pipe whose other end the controller holds. When that closes, when the controller dies (Linux) or when the worker
ends, all descendants are killed: on Linux also those that have left the worker's session, for orphans become children of the keeper. It
leaves as the worker did: with its exit code, or by its signal. MEMORY limits the worker's address space (bytes; 0: not). The environment
tells the worker the keeper's process id.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterator

MOST = 512  # processes that a worker may have started and not ended
LOG = 2**26  # bytes of what it prints that are kept while it runs
TICK = 0.2  # seconds between two looks
TOO_MANY = 70  # exit code
_END = 8.0  # seconds in which all must have ended

_PDEATHSIG, _SUBREAPER = 1, 36  # of prctl, see linux/prctl.h
_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """All processes that descend from `root`, where /proc tells; else none.

    Those that have ended are left out, but not their children: the first thread of a process shows as ended while others of it end.
    """
    children: dict[int, list[int]] = {}
    ended = set()
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    with open(f"/proc/{name}/stat", "rb") as file:
                        state, parent = file.read().rpartition(b")")[2].split()[:2]
                    children.setdefault(int(parent), []).append(int(name))
                    if state == b"Z":
                        ended.add(int(name))
    found, left = [], [root]
    while left:
        new = children.get(left.pop(), [])
        found += new
        left += new
    return [pid for pid in found if pid not in ended]


def end_all(worker: int) -> None:
    """Kill the worker's group and all descendants. They are stopped first, so that none starts another one meanwhile."""
    seen: set[int] = set()
    for _ in range(400):
        found = _send(worker, signal.SIGSTOP)
        if found <= seen:
            break
        seen |= found
    given_up = time.monotonic() + _END
    _send(worker, signal.SIGKILL)
    while _reap(worker) and time.monotonic() < given_up:
        time.sleep(0.002)
        _send(worker, signal.SIGKILL)


def _send(worker: int, sign: signal.Signals) -> set[int]:
    """Signal the worker's group and all descendants, which are returned."""
    with contextlib.suppress(OSError):
        os.killpg(worker, sign)
    found = set(descendants(os.getpid()))
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, sign)
    return found


_ended: dict[str, int] = {}


def _reap(worker: int) -> bool:
    """Take leave of children that have ended; whether any is left. The kernel knows; a walk through /proc may miss some."""
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True
            if pid == worker:
                _ended["worker"] = status
    except ChildProcessError:
        return False


@contextlib.contextmanager
def limited(memory: int) -> Iterator[None]:
    """A limit on address space, which a process that is started meanwhile keeps."""
    if not memory:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def main() -> None:
    """Start the worker, wait, end everything, leave as it did."""
    life, controller, memory, command = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    woken, waker = os.pipe()
    for end in (woken, waker):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for sign in (*_ENDS, signal.SIGCHLD):
        signal.signal(sign, lambda *_: None)
    _prctl(_PDEATHSIG, signal.SIGTERM)
    _prctl(_SUBREAPER, 1)
    if os.getppid() != controller:
        return
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.set_inheritable(life, False)
    environment = dict(os.environ, DPWITNESS_KEEPER=str(os.getpid()))
    try:
        with limited(memory):  # SIGPIPE as this interpreter found it
            worker = os.posix_spawn(command[0], command, environment, setpgroup=0, setsigdef=[signal.SIGPIPE])
    except OSError as error:
        os.write(2, f"cannot be started: {error.strerror}\n".encode())
        os._exit(127)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)  # the pipes are the worker's: they close with it
    looked = time.monotonic()
    while _reap(worker) and "worker" not in _ended:
        ready = select.select([life, woken], [], [], TICK)[0]
        signs = b""
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                signs = os.read(woken, 4096)
        if life in ready or any(sign in signs for sign in _ENDS):
            break
        if os.fstat(2).st_size > LOG:
            os.ftruncate(2, 0)
        if time.monotonic() - looked > 1.0:
            looked = time.monotonic()
            count = len(descendants(os.getpid())) - 1
            if count > MOST:
                end_all(worker)
                os.write(2, f"the target has started {count} processes that still run, more than {MOST}\n".encode())
                os._exit(TOO_MANY)
    end_all(worker)
    status = _ended.get("worker", signal.SIGKILL)
    if os.WIFSIGNALED(status):
        its = os.WTERMSIG(status)
        with contextlib.suppress(OSError, ValueError):
            signal.signal(its, signal.SIG_DFL)
        os.kill(os.getpid(), its)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)


if __name__ == "__main__":
    main()
