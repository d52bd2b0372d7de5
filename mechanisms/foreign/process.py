"""Worker processes of foreign targets: started, asked, timed, killed, and kept for the next batch."""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.mechanisms.foreign import wire
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument

_SCRIPT = str(Path(__file__).resolve().with_name("worker.py"))
_KEEPER = str(Path(__file__).resolve().with_name("keeper.py"))
_START = 120.0  # seconds that an interpreter may take to say hello
_END = 10.0  # seconds in which a worker and all that it has started must have ended
_INLINE = 4096  # bytes up to which a dataset is sent with every request
_IDLE = 2 * (os.cpu_count() or 1) + 2  # workers kept for the next batch, of all targets together
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerDied(RuntimeError):
    """The process has ended, or had to be ended, before it answered."""


class TookTooLong(WorkerDied):
    """The process was ended because it did not answer in time."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What a worker serves: an interpreter (this one if None), a target file or module, and a limit on memory in bytes (0: none)."""

    python: str | None
    place: str
    paths: tuple[str, ...]
    memory: int = 0


class Worker:
    """One process of the foreign interpreter, which has loaded the target file."""

    def __init__(self, slot: Slot, time_limit: float) -> None:
        self.slot = slot
        self.kept: OrderedDict[str, None] = OrderedDict()
        self._log = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - lives as long as the process
        self._process, self._life = _SPAWNER.start(slot, self._log)
        assert self._process.stdout is not None
        self._poll = select.poll()
        self._poll.register(self._process.stdout, select.POLLIN)
        try:
            hello, _ = self.ask({"op": "hello"}, [], _START)
        except WorkerDied as error:
            self.close()
            raise InvalidArgument(self._no_start(str(error))) from None
        if hello.get("protocol") != wire.PROTOCOL:
            self.close()
            raise InvalidArgument(f"{self.python} speaks protocol {hello.get('protocol')}, this dpwitness {wire.PROTOCOL}")
        self.versions = {"python": hello["python"], "numpy": hello["numpy"]}
        try:
            self.loaded, _ = self.ask(
                {"op": "load", "place": slot.place, "paths": list(slot.paths), "front": slot.python is None}, [], time_limit
            )
        except WorkerDied as error:
            self.close()
            raise InvalidArgument(f"target {slot.place} could not be loaded by {self.python}: {error}") from None

    @property
    def python(self) -> str:
        return self.slot.python or sys.executable

    def _no_start(self, why: str) -> str:
        if "No module named 'numpy'" in why:
            return f"python must have NumPy, {self.python} has not; install it: {self.python} -m pip install numpy"
        return f"python must be a Python interpreter (3.8 or later), {self.python} did not answer: {why}"

    def ask(self, header: Json, blobs: wire.Blobs, time_limit: float) -> tuple[Json, wire.Blobs]:
        """Send a request and wait for its answer.

        Raises
        ------
        WorkerDied
            If the process ends first, or takes longer than `time_limit` seconds and is killed; the message says what it last printed.
        """
        deadline = time.monotonic() + time_limit
        assert self._process.stdin is not None
        try:
            for part in wire.message(header, blobs):
                left = memoryview(part)
                while left:
                    left = left[self._process.stdin.write(left) :]
            found = wire.receive(lambda size: self._read(size, deadline))
        except BrokenPipeError:
            found = None
        except (ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
            self.kill()
            raise WorkerDied(f"answered what is no message: {error}{self._last_lines()}") from None
        except TimeoutError:
            self.kill()
            raise TookTooLong(f"took longer than time_limit = {time_limit:g} s") from None
        if found is None:
            raise WorkerDied(self._end())
        return found

    def _read(self, size: int, deadline: float) -> memoryview:
        """`size` bytes of the answer, or fewer if the process has ended."""
        assert self._process.stdout is not None
        whole, have = memoryview(bytearray(size)), 0
        while have < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if not self._poll.poll(1000 * min(left, 1.0)):
                if self.alive:
                    continue
                break  # it has ended, though a process that it forked holds the pipe open
            count = os.readv(self._process.stdout.fileno(), [whole[have:]])
            if count == 0:
                break
            have += count
        return whole[:have]

    def dataset(self, packed: Any, blobs: wire.Blobs) -> tuple[Json, wire.Blobs]:
        """The part of a request that tells the dataset: large ones travel once."""
        if sum(map(len, blobs)) < _INLINE and len(str(packed)) < _INLINE:
            return {"data": packed}, blobs
        digest = hashlib.blake2b(json.dumps(packed).encode(), digest_size=16)
        for blob in blobs:
            digest.update(blob)
        key = digest.hexdigest()
        if key in self.kept:
            return {"key": key}, []
        self.kept[key] = None
        if len(self.kept) > wire.KEPT:
            self.kept.popitem(last=False)
        return {"key": key, "data": packed}, blobs

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def _end(self) -> str:
        """How the process ended, and the last lines it printed."""
        try:
            code = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            code = 0  # it closed its pipe but lives: killed below
        self.kill()
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by signal {-code} ({signal.Signals(-code).name}){self._last_lines()}"
            return f"was killed by signal {-code}{self._last_lines()}"
        return f"ended with exit code {code}{self._last_lines()}"

    def _last_lines(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), 4000, max(0, size - 4000)).decode(errors="replace")
        noise = (_SCRIPT, "Extension modules:")  # of faulthandler
        lines = [line for line in text.splitlines() if line.strip() and not any(part in line for part in noise)][-6:]
        return "; it last printed: " + " | ".join(line.strip() for line in lines) if lines else ""

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


class _Spawner:
    """Starts processes from one thread that lives on: a worker dies with the thread that started it (Linux, PR_SET_PDEATHSIG)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None

    def start(self, slot: Slot, log: Any) -> tuple[subprocess.Popen[bytes], int]:
        with self._lock:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="dpwitness-spawner")
        return self._thread.submit(_start, slot, log).result()


def _start(slot: Slot, log: Any) -> tuple[subprocess.Popen[bytes], int]:
    """The keeper of a new worker, and the end of the pipe that keeps both alive."""
    environment = dict.fromkeys(_THREADS, "1") | dict(os.environ) | {"PYTHONHASHSEED": "0"}
    if slot.python is not None:
        for name in ("PYTHONPATH", "PYTHONHOME"):
            environment.pop(name, None)  # they are this interpreter's
    python = slot.python or sys.executable
    if not os.access(python, os.X_OK):
        raise InvalidArgument(f"python must be a Python interpreter, got {python!r}: {os.strerror(errno.EACCES)}")
    life, ours = os.pipe()
    keeper = [sys.executable, "-I", "-S", _KEEPER, str(life), str(os.getpid())]
    try:
        process = subprocess.Popen(
            [*keeper, python, "-u", _SCRIPT, str(slot.memory)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
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
_idle: list[Worker] = []
_busy: set[Worker] = set()


@contextlib.contextmanager
def borrow(slot: Slot, time_limit: float, *, fresh: bool = False) -> Iterator[Worker]:
    """A worker for one batch: an idle one, or a new one (always, if `fresh`). Whatever goes wrong with it, it is not used again."""
    with _lock:
        found = None if fresh else next((w for w in reversed(_idle) if w.slot == slot), None)
        if found is not None:
            _idle.remove(found)
    if found is not None and not found.alive:
        found.close()
        found = None
    worker = found or Worker(slot, time_limit)
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


def close_all(slot: Slot | None = None) -> None:
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
