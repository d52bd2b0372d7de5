"""Worker processes of targets: started, timed, killed, and kept. What is said to them, `interpreter` and `program` know."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from dpwitness.mechanisms.core.validation import InvalidArgument

_KEEPER = str(Path(__file__).resolve().with_name("supervisor.py"))
_TOLD = 600  # characters of what a process last printed that a message holds
_END = 10.0  # seconds in which a worker and all that it has started must have ended
_IDLE = 2 * (os.cpu_count() or 1) + 2  # workers kept for the next batch, of all targets together
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_PIPE = 2**20  # bytes that a pipe may hold, where that can be said (Linux): large blocks cost fewer turns


class WorkerDied(RuntimeError):
    """The process has ended, or had to be ended, before it answered."""


class TookTooLong(WorkerDied):
    """The process was ended because it did not answer in time."""


class Process:
    """One process with its keeper: its pipes, its end, and what it last printed."""

    noise: tuple[str, ...] = ()  # parts of lines that tell nobody anything

    def __init__(self, slot: Slot[Any]) -> None:
        self.slot = slot
        self._log = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - lives as long as the process
        self._process, self._life = _SPAWNER.start(slot, self._log)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        with contextlib.suppress(AttributeError, OSError):
            fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, _PIPE)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._out, select.POLLIN)
        self._writable.register(self._in, select.POLLOUT)

    def send(self, parts: Iterable[Any], deadline: float) -> None:
        """Write all parts. Raises BrokenPipeError where nobody can read them, TimeoutError where nobody does."""
        for part in parts:
            left = memoryview(part).cast("B") if len(part) else memoryview(b"")
            while left:
                if not self._writable.poll(1000 * _left(deadline)):
                    continue
                with contextlib.suppress(BlockingIOError):
                    left = left[os.write(self._in, left) :]

    def some(self, view: memoryview, deadline: float) -> int:
        """Read what is there into `view`, at least a byte; 0 if the process has ended. Raises TimeoutError."""
        while not self._readable.poll(1000 * _left(deadline)):
            if not self.alive:
                return 0  # though a process that it forked holds the pipe open
        return os.readv(self._out, [view])

    def read(self, size: int, deadline: float) -> memoryview:
        """`size` bytes of the answer, or fewer if the process has ended."""
        whole, have = memoryview(bytearray(size)), 0
        while have < size:
            count = self.some(whole[have:], deadline)
            if count == 0:
                break
            have += count
        return whole[:have]

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ended(self) -> str:
        """How the process ended, and the last lines it printed."""
        try:
            code = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            code = 0  # it closed its pipe but lives: killed below
        self.kill()
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by signal {-code} ({signal.Signals(-code).name}){self.last_lines()}"
            return f"was killed by signal {-code}{self.last_lines()}"
        return f"ended with exit code {code}{self.last_lines()}"

    def last_lines(self) -> str:
        """What it last printed, to be added to a message."""
        text = os.pread(self._log.fileno(), 4000, max(0, self.printed - 4000)).decode(errors="replace")
        lines = [line for line in text.splitlines() if line.strip() and not any(part in line for part in self.noise)][-6:]
        told = " | ".join(line.strip() for line in lines)
        return f"; it last printed: {told if len(told) <= _TOLD else '... ' + told[-_TOLD:]}" if told else ""

    @property
    def printed(self) -> int:
        """Bytes on standard error so far, or since the keeper has thrown some away."""
        return os.fstat(self._log.fileno()).st_size

    def finish(self, time_limit: float) -> tuple[int | None, bytes]:
        """Close its standard input: its exit code (None if it goes on) and what it still writes."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        rest = b""
        with contextlib.suppress(subprocess.TimeoutExpired, TimeoutError):
            deadline = time.monotonic() + time_limit
            chunk = memoryview(bytearray(200))
            while count := self.some(chunk, deadline):
                rest = rest or bytes(chunk[:count])
            return self._process.wait(_left(deadline)), rest
        return None, rest

    def kill(self) -> None:
        """End the process and what it has started, at once."""
        self.let_go()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:  # the keeper itself was stopped
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()

    def let_go(self) -> None:
        """Close the pipe that keeps the process alive."""
        with _lock:
            life, self._life = self._life, -1
        if life >= 0:
            os.close(life)

    def close(self) -> None:
        """Kill, and give back its pipes: for who has the worker to himself."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                pipe.close()


P_co = TypeVar("P_co", bound=Process, covariant=True)
P = TypeVar("P", bound=Process)


class Slot(Protocol[P_co]):
    """What a worker serves; workers of equal slots stand in for each other."""

    @property
    def memory(self) -> int:
        """A limit in bytes; 0: none."""

    def argv(self) -> list[str]:
        """The command line. Raises InvalidArgument for one that cannot be."""

    def folder(self) -> str | None:
        """Where it runs; the current folder if None."""

    def environment(self) -> dict[str, str]: ...

    def start(self, time_limit: float) -> P_co:
        """A worker that is ready to be asked."""


def _left(deadline: float) -> float:
    """Seconds to wait before the next look."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return min(left, 1.0)


class _Spawner:
    """Starts processes from one thread that lives on: a worker dies with the thread that started it (Linux, PR_SET_PDEATHSIG)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None

    def start(self, slot: Slot[Any], log: Any) -> tuple[subprocess.Popen[bytes], int]:
        with self._lock:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="dpwitness-spawner")
        return self._thread.submit(_start, slot, log).result()


def _start(slot: Slot[Any], log: Any) -> tuple[subprocess.Popen[bytes], int]:
    """The keeper of a new worker, and the end of the pipe that keeps both alive."""
    command = slot.argv()
    life, ours = os.pipe()
    keeper = [sys.executable, "-I", "-S", _KEEPER, str(life), str(os.getpid()), str(slot.memory)]
    try:
        process = subprocess.Popen(
            [*keeper, *command],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=slot.folder(),
            env=dict.fromkeys(_THREADS, "1") | slot.environment() | {"PYTHONHASHSEED": "0"},
            pass_fds=[life],
            start_new_session=True,  # Ctrl-C is the controller's to handle
        )
    except OSError as error:
        os.close(ours)
        raise InvalidArgument(f"a worker process could not be started: {error.strerror}") from None
    finally:
        os.close(life)
    return process, ours


_SPAWNER = _Spawner()
_lock = threading.Lock()
_idle: list[Process] = []
_busy: set[Process] = set()


@contextlib.contextmanager
def borrow(slot: Slot[P], time_limit: float, *, fresh: bool = False) -> Iterator[P]:
    """A worker for one batch: an idle one, or a new one (always, if `fresh`). Whatever goes wrong with it, it is not used again."""
    with _lock:
        found = None if fresh else next((w for w in reversed(_idle) if w.slot == slot), None)
        if found is not None:
            _idle.remove(found)
    if found is not None and not found.alive:
        found.close()
        found = None
    worker = slot.start(time_limit) if found is None else cast(P, found)
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
            surplus = _idle.pop(0) if len(_idle) > _IDLE else None
        if surplus is not None:
            surplus.close()
    finally:
        with _lock:
            _busy.discard(worker)


def close_all(slot: Slot[Any] | None = None) -> None:
    """Kill all workers, or those of one slot; busy ones too: their batches fail."""
    with _lock:
        found = [w for w in (*_idle, *_busy) if slot is None or w.slot == slot]
        _idle[:] = [w for w in _idle if w not in found]
    for worker in found:
        worker.kill()


def close_idle() -> None:
    """Kill the workers that are between batches: for a process that lives on when its audits have ended."""
    with _lock:
        found, _idle[:] = list(_idle), []
    for worker in found:
        worker.kill()


def _forget() -> None:
    """In a forked child: the workers are the parent's."""
    global _SPAWNER, _lock
    _SPAWNER, _lock = _Spawner(), threading.Lock()
    for worker in (*_idle, *_busy):
        worker.let_go()
    _idle.clear()
    _busy.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget)
