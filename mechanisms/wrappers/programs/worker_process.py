"""Worker processes of targets: start, lines and blocks with time limits, termination, and reuse.
`worker_pool` and `program` know the messages.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from dpwitness.core.values.validation import InvalidArgument

_MAX_OUTPUT = 600  # largest number of characters of the process's last output in a message
_KILL_SECONDS = 10.0  # seconds in which a worker and all that it has started must have ended
# workers kept for the next batch, of all targets together
_MAX_IDLE = 2 * (os.cpu_count() or 1) + 2
_ONE_THREAD = dict.fromkeys(  # unless the user sets another number
    (
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "POLARS_MAX_THREADS",
        "RAYON_NUM_THREADS",
    ),
    "1",
)
# a backtrace takes a hundred times as long as its error
_FIXED = {"PYTHONHASHSEED": "0", "RUST_BACKTRACE": "0", "RUST_LIB_BACKTRACE": "0"}
CACHE_SIZE = 16  # datasets that a worker stores; a new one replaces the least recently used one


class WorkerDied(RuntimeError):
    """Error of a worker process that ended, or had to be ended, before it answered."""


class WorkerTimeout(WorkerDied):
    """Error of a worker process that was ended because it did not answer in time."""


class ProtocolViolation(WorkerDied):
    """Error of a worker process that violates its protocol."""


T = TypeVar("T")


class Process:
    """Worker process with its supervisor (`keeper`), its pipes and the log of its output."""

    noise: tuple[str, ...] = ()  # lines that contain one of these are not shown

    def __init__(self, slot: Slot[Any]) -> None:
        self.slot = slot
        self.stored: OrderedDict[Any, int] = OrderedDict()  # numbers of the stored datasets, by key
        self._expected = ""  # what the process had to send, for messages
        self._log = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - lives as long as the process
        self.process, self._life = _SPAWNER.submit(_start, slot, self._log).result()
        assert self.process.stdin is not None and self.process.stdout is not None
        self._in = self.process.stdin.fileno()
        self.output = io.BufferedReader(cast(io.RawIOBase, self.process.stdout), 2**16)
        with contextlib.suppress(AttributeError, OSError):
            # a larger pipe (Linux), so that large blocks need fewer system calls
            fcntl.fcntl(self.output.fileno(), fcntl.F_SETPIPE_SZ, 2**20)

    def send(self, parts: Iterable[Any]) -> None:
        """Write all parts. Raise BrokenPipeError if the process has closed the pipe."""
        for part in parts:
            left = memoryview(part).cast("B") if len(part) else memoryview(b"")
            while left:
                left = left[os.write(self._in, left) :]

    def line(self, limit: int, what: str) -> bytes:
        """Return the next line without its end. Raise EOFError, or ProtocolViolation for a line
        longer than `limit`.
        """
        self._expected = f"{what} was due" if what else ""
        found = self.output.readline(limit + 1)
        if not found.endswith(b"\n"):
            if len(found) <= limit:
                raise EOFError
            start = repr(found[:120])
            raise ProtocolViolation(
                f"{what} must be a line of at most {limit} bytes, got more: {start}"
            )
        self._expected = ""
        return found[:-1]

    def fill(self, view: memoryview) -> memoryview:
        """Fill the view with the next bytes and return the view. Raise EOFError."""
        count = self.output.readinto(view)
        if count < len(view):
            self._expected = f"{count} of {len(view)} bytes of a block were there"
            raise EOFError
        return view

    def within(self, time_limit: float, talk: Callable[[], T]) -> T:
        """Return `talk()`, with errors of the process turned into exceptions. The process is killed
        after the time limit.

        Raises
        ------
        WorkerDied
            If the process ends first. ProtocolViolation if the process violates the protocol.
            WorkerTimeout if it does not answer in time.
        """
        late = threading.Event()

        def end() -> None:
            late.set()
            self.kill()

        timer = threading.Timer(min(time_limit, threading.TIMEOUT_MAX), end)
        timer.daemon = True
        timer.start()
        try:
            return talk()
        except ProtocolViolation as error:
            self.kill()
            raise ProtocolViolation(f"{error}{self.last_output()}") from None
        except (BrokenPipeError, EOFError):
            expected = f" ({self._expected})" if self._expected else ""
            if not late.is_set():
                raise WorkerDied(f"{self.ended()}{expected}") from None
            raise WorkerTimeout(
                f"took longer than time_limit = {time_limit:g} s{expected}{self.last_output()}"
            ) from None
        finally:
            timer.cancel()

    def number_of(self, key: Any) -> tuple[int, bool]:
        """Return the number of the dataset with this key, and whether the process stores the
        dataset already.
        """
        if key in self.stored:
            self.stored.move_to_end(key)
            return self.stored[key], True
        is_full = len(self.stored) >= CACHE_SIZE
        number = self.stored.popitem(last=False)[1] if is_full else len(self.stored)
        self.stored[key] = number
        return number, False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ended(self) -> str:
        """Kill the process if necessary, and return how it ended, with the last lines
        it printed.
        """
        try:
            code = self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            code = 0  # the process closed its pipe but still runs: it is killed below
        self.kill()
        how = f"ended with exit code {code}"
        if code < 0:
            names = {each.value: f" ({each.name})" for each in signal.Signals}
            how = f"was killed by signal {-code}{names.get(-code, '')}"
        return f"{how}{self.last_output()}"

    def last_output(self) -> str:
        """Return the last lines that the process printed, as a suffix for a message."""
        text = os.pread(self._log.fileno(), 4000, max(0, self.printed - 4000)).decode(
            errors="replace"
        )
        lines = [line.strip() for line in text.splitlines()]
        # the marks below a line of a traceback say nothing alone
        lines = [
            line for line in lines if line.strip("^~ ") and not any(map(line.count, self.noise))
        ]
        lines = list(dict.fromkeys(lines))  # each run of a program may print the same
        output = " | ".join(lines[-6:])
        if len(output) > _MAX_OUTPUT:
            output = f"... {output[-_MAX_OUTPUT:]}"
        return f"; it last printed: {output}" if output else ""

    @property
    def printed(self) -> int:
        """Bytes on standard error so far, or since the supervisor last emptied the log."""
        return os.fstat(self._log.fileno()).st_size

    def kill(self) -> None:
        """Kill the process and all processes that it has started."""
        self.close_life_pipe()
        try:
            self.process.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:  # the supervisor itself was stopped
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()

    def close_life_pipe(self) -> None:
        """Close the pipe that keeps the process alive."""
        with _lock:
            life, self._life = self._life, -1
        if life >= 0:
            os.close(life)

    def close(self) -> None:
        """Kill the process and close its pipes. Only for the exclusive user of the worker."""
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout, self._log):
            if pipe is not None:
                pipe.close()


# command line, working directory (None for the current one), environment variables
Launch = tuple[list[str], str | None, dict[str, str]]
P_co = TypeVar("P_co", bound=Process, covariant=True)
P = TypeVar("P", bound=Process)


class Slot(Protocol[P_co]):
    """Specification of a worker. Workers of equal slots are interchangeable."""

    @property
    def memory(self) -> int:
        """Memory limit in bytes; 0 for no limit."""

    def launch(self) -> Launch:
        """Return command line, working directory and environment. Raise InvalidArgument if the
        command cannot be run.
        """

    def start(self, time_limit: float) -> P_co:
        """Start a worker and return it when it is ready for requests."""


def _start(slot: Slot[Any], log: Any) -> tuple[subprocess.Popen[bytes], int]:
    """Start the supervisor of a new worker. Return its process, and the end of the pipe that keeps
    both alive.
    """
    command, folder, environment = slot.launch()
    life, own_end = os.pipe()
    keeper = [
        *(sys.executable, "-I", "-S", str(Path(__file__).resolve().with_name("supervisor.py"))),
        *(str(life), str(os.getpid()), str(slot.memory)),
    ]
    try:
        process = subprocess.Popen(
            [*keeper, *command],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            # one thread per library where the user sets no number, and no backtraces
            env=_ONE_THREAD | environment | _FIXED,
            pass_fds=[life],
            start_new_session=True,  # Ctrl-C is handled by the controller
        )
    except OSError as error:
        os.close(own_end)
        raise InvalidArgument(f"a worker process could not be started: {error.strerror}") from None
    finally:
        os.close(life)
    return process, own_end


# one long-lived thread, because a worker dies with the thread that started it (Linux,
# PR_SET_PDEATHSIG)
_SPAWNER = ThreadPoolExecutor(1, thread_name_prefix="dpwitness-spawner")
_lock = threading.Lock()
_idle: list[Process] = []
_busy: set[Process] = set()


@contextlib.contextmanager
def borrowed_worker(slot: Slot[P], time_limit: float, *, fresh: bool = False) -> Iterator[P]:
    """Yield a worker for one batch: an idle one, or a new one if none is idle or `fresh` is true.
    An exception closes the worker.
    """
    with _lock:
        idle = [] if fresh else [w for w in _idle if w.slot == slot and w.alive]
        if idle:
            _idle.remove(idle[-1])
    worker = cast(P, idle[-1]) if idle else slot.start(time_limit)
    with _lock:
        _busy.add(worker)
    try:
        yield worker
    except BaseException:
        worker.close()
        raise
    else:
        with _lock:
            _idle.append(worker)
            surplus = _idle.pop(0) if len(_idle) > _MAX_IDLE else None
        if surplus is not None:
            surplus.close()
    finally:
        with _lock:
            _busy.discard(worker)


def close_all(slot: Slot[Any] | None = None, *, busy: bool = True) -> None:
    """Kill all workers, or the workers of one slot. Batches of busy workers fail. Without `busy`,
    kill the idle ones only, for a process that continues after its audits.
    """
    with _lock:
        workers = [*_idle, *(_busy if busy else ())]
        found = [w for w in workers if slot is None or w.slot == slot]
        _idle[:] = [w for w in _idle if w not in found]
    for worker in found:
        worker.kill()


def _drop_workers() -> None:
    """Drop all workers in a forked child, because they belong to the parent."""
    global _SPAWNER, _lock
    spawner = ThreadPoolExecutor(1, thread_name_prefix="dpwitness-spawner")
    _SPAWNER, _lock = spawner, threading.Lock()
    for worker in (*_idle, *_busy):
        worker.close_life_pipe()
    _idle.clear()
    _busy.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_drop_workers)
