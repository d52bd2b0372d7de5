"""The recording or replay of one run: every call of a primitive, in order.

Calls of other threads than that of the run are not recorded.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import sys
import threading
import time
from typing import Any, Iterator

import numpy as np

from .calls import INPUT, SCALE, BoundPrimitive, Call, compared, without_record
from .primitives import LOCATION_LAWS
from .values import copied

MOST = 1_000_000  # limit of calls in one run

_OWN_FILES = frozenset(
    os.path.join(os.path.dirname(__file__), name)
    for name in ("recorder.py", "patches.py", "session.py")
)


_MAX_INNER_DRAWS = 4  # limit of recorded draws inside a primitive
_LIBRARY = re.compile(r".*/(?:(?:site|dist)-packages|lib/python3\.[^/]*)/(.+)")  # path of a file


class Stopped(BaseException):
    """The run took too long or made too many calls. A BaseException, so that the handlers of
    libraries do not catch it.
    """


@contextlib.contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise Stopped after `seconds`, as soon as the main thread runs Python code. The block is not
    stopped in other threads.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise Stopped

    handler, timer = signal.signal(signal.SIGALRM, stop), (0.0, 0.0)
    try:
        try:
            # repeated in case a callback swallows the exception
            timer = signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # again, in case the exception arrived in between
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, *timer)


class _RecordingState(threading.local):
    """State of a thread: its recorder, and the inner draws of the primitive that it is calling."""

    recorder: Any = None
    inside: Any = None


here = _RecordingState()


class Recorder:
    """The calls of one run. With `played`, the run receives the recorded outputs of another run
    while its calls are the same.
    """

    def __init__(
        self,
        owner: Any,
        deadline: float,
        played: Recorder | None = None,
        shifts: dict[Any, Any] | None = None,
        left_out: Any = None,
    ) -> None:
        self.owner = owner
        self.words: list[int] = []  # the seed of the run
        self.made = 0  # number of generators that the run made without a seed
        # name and place of each generator made without a seed
        self.unseeded: list[tuple[str, Any]] = []
        self.calls: list[Call] = []
        self.deadline, self.played, self.left_out = deadline, played, left_out
        self.shifts = shifts or {}
        self.differences: list[tuple[str, int, str]] = []  # kind, index of the call, text
        self.lost = False  # whether the calls no longer follow the record

    def call(self, made: BoundPrimitive, args: Any, kwargs: Any) -> Any:
        """Return the output of a call: drawn and recorded, or replayed. Raise Stopped beyond the
        limits of calls and time.
        """
        primitive, inside = made.primitive, here.inside
        if inside is not None:  # only the outermost primitive is recorded as a call
            output = made.original(*args, **kwargs)
            is_noise = primitive.source and primitive.law in LOCATION_LAWS
            if is_noise and len(inside) < _MAX_INNER_DRAWS:
                values = made.reads(args, kwargs)
                inside.append((primitive.law, values[INPUT], values[SCALE], copied(output)))
            return output
        if len(self.calls) & 63 == 63:
            if len(self.calls) >= MOST:
                raise Stopped(f"more than {MOST:,} calls of primitives in one run")
            if time.monotonic() > self.deadline:
                raise Stopped("time limit")
        # arguments and attributes may change after the call, so they are read now
        given = tuple(args[: made.place]) + copied(tuple(args[made.place :]))
        named = {key: copied(value) for key, value in kwargs.items()}
        read = copied(made.reads(given, named))
        owner = args[0] if made.place and args else None
        call = Call(made, given, named, read, calling_place(owner))
        self.calls.append(call)
        if self.played is None or self.lost:
            return self._draw(call, args, kwargs)
        return self._replay(call, len(self.calls) - 1, args, kwargs)

    def _draw(self, call: Call, args: Any, kwargs: Any) -> Any:
        """Return the output of the original callable, and record it."""
        inside: list[Any] = []
        here.inside = inside
        try:
            output = call.made.original(*args, **kwargs)
        except Exception as error:
            call.raised = error
            raise
        finally:
            here.inside = None
            call.inner = inside
        call.output = copied(output)
        return output

    def _replay(self, call: Call, index: int, args: Any, kwargs: Any) -> Any:
        """Return the recorded output of a call, or draw a new one once the calls no longer match
        the record.
        """
        assert self.played is not None
        name, recorded = call.primitive.name, self.played.calls
        then = recorded[index] if index < len(recorded) else None
        if then is None:
            found = [("more calls", f"{name} is called once more than on D1")]
        elif then.primitive.name != name:
            found = [("other call", f"{name} is called where {then.primitive.name} was on D1")]
            then = None
        else:
            call.inner = then.inner
            shorter = without_record(then, call, self.left_out)
            found = compared(then, call) if shorter is None else []
        self.differences += [(kind, index, text) for kind, text in found]
        # an output of another size does not fit
        resized = ("shape", f"{name}: size ")
        if then is None or any((kind, text[: len(resized[1])]) == resized for kind, text in found):
            self.lost = True
            return self._draw(call, args, kwargs)
        output = then.output if shorter is None else shorter
        if then.raised is not None:
            raise then.raised
        offset = self.shifts.get(index)
        output = copied(output) if offset is None else _shifted(output, offset)
        call.output = copied(output)
        return call.made.writes(output, args, kwargs) if call.made.writes is not None else output

    def finished(self) -> None:
        """Add the recorded calls that this run did not make to the differences."""
        recorded, done = [] if self.played is None else self.played.calls, len(self.calls)
        if not self.lost and done < len(recorded):
            text = (
                f"{recorded[done].primitive.name} is not called: only {done} of the "
                f"{len(recorded)} calls recorded on D1 are repeated"
            )
            self.differences.append(("fewer calls", done, text))


def _shifted(output: Any, by: Any) -> Any:
    """Return a recorded output plus a shift, in its original type."""
    if isinstance(output, np.ndarray):
        return (output + np.asarray(by).reshape(output.shape)).astype(output.dtype)
    if isinstance(output, (list, tuple)):
        return type(output)(v + type(v)(d) for v, d in zip(output, np.ravel(by)))
    step = np.ravel(by)[0]
    if hasattr(output, "detach"):
        return output + output.new_tensor(np.asarray(by, dtype=float)).reshape(output.shape)
    return type(output)(output + step)


def calling_place(owner: Any = None) -> Any:
    """Return (file, line) of the nearest frame outside of this folder, and outside of the methods
    of the called object.
    """
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in _OWN_FILES:
        frame = frame.f_back
    first_outside = frame
    while owner is not None and frame is not None and frame.f_locals.get("self") is owner:
        frame = frame.f_back
    frame = frame or first_outside
    return None if frame is None else (_short_path(frame.f_code.co_filename), frame.f_lineno)


@functools.lru_cache(maxsize=4096)
def _short_path(file: str) -> str:
    """Return a short path for reports.

    Paths of libraries start at the library's folder. Other paths are relative to the current
    folder, or have only their last two parts.
    """
    library = _LIBRARY.fullmatch(file)
    if library is not None:
        return library[1]
    try:
        relative = os.path.relpath(file)
    except (ValueError, OSError):
        return file
    return relative if not relative.startswith("..") else "/".join(file.split("/")[-2:])


@contextlib.contextmanager
def running(recorder: Recorder) -> Iterator[None]:
    """Assign the calls of this thread inside the block to `recorder`."""
    before = here.recorder, here.inside
    here.recorder, here.inside = recorder, None
    try:
        yield
    finally:
        here.recorder, here.inside = before
