"""The recording or replay of one run: every call of a primitive, in the order in which its stream
of work makes it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
import types
from typing import Any, Callable, Iterator, Tuple

import numpy as np

from .calls import INPUT, PLAIN, SCALE, BoundPrimitive, Call, compared, without_record
from .primitives import LOCATION_LAWS
from .values import copied

MOST = 1_000_000  # limit of calls in one run
_MAX_INNER_DRAWS = 4  # limit of recorded draws inside a primitive

_OWN_FILES = frozenset(
    os.path.join(os.path.dirname(__file__), name)
    for name in ("recorder.py", "generators.py", "patches.py", "session.py")
)


class Stopped(BaseException):
    """The run took too long or made too many calls. A BaseException, so that the handlers of
    libraries do not catch it.
    """


_ITERATORS = (types.GeneratorType, zip, map, filter)
Stream = Tuple[Any, ...]


class _ThreadState(threading.local):
    """State of a thread: its recorder, its stream of work, and the inner draws of the primitive
    that it is calling.
    """

    recorder: Any = None
    stream: Stream = ()
    inside: Any = None
    pooling: bool = False


here = _ThreadState()


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
        self.streams: dict[Stream, list[Call]] = {}
        self.children: dict[Stream, int] = {}
        self.deadline, self.played, self.shifts, self.left_out = (
            deadline,
            played,
            shifts or {},
            left_out,
        )
        self.differences: list[tuple[str, Stream, int, str]] = []
        self.lost: set[Stream] = set()  # streams that no longer follow the record
        self.count = 0
        self.above: Any = None  # the recorder of an enclosing trace
        self.lock = threading.Lock()

    def call(self, made: BoundPrimitive, args: Any, kwargs: Any) -> Any:
        """Return the output of a call: drawn and recorded, or replayed."""
        if here.inside is not None:  # only the outermost primitive is recorded as a call
            if (
                made.primitive.source
                and made.primitive.law in LOCATION_LAWS
                and len(here.inside) < _MAX_INNER_DRAWS
            ):
                inside, read = (
                    here.inside,
                    made.primitive.reads(made.names, made.defaults, args, kwargs),
                )
                output = made.original(*args, **kwargs)
                inside.append((made.primitive.law, read[INPUT], read[SCALE], copied(output)))
                return output
            return made.original(*args, **kwargs)
        self.count += 1
        if self.count & 63 == 0:
            self._check_limits()
        copied_args = _copied_values(args, made.place)
        copied_kwargs = {k: copied(v) for k, v in kwargs.items()} if kwargs else kwargs
        if made.primitive.codes:  # attributes may change after the call, so they are read now
            read = _copied_values(made.primitive.reads(made.names, made.defaults, args, kwargs))
            call = Call(
                made,
                copied_args,
                copied_kwargs,
                read,
                _calling_place(args[0] if made.place and args else None),
            )
        else:
            call = Call(made, copied_args, copied_kwargs, None, _calling_place())
        stream = here.stream
        current = self.streams.get(stream)
        if current is None:
            with self.lock:
                current = self.streams.setdefault(stream, [])
        current.append(call)
        if self.played is None or stream in self.lost:
            return self._draw(call, args, kwargs)
        return self._replay(call, stream, len(current) - 1, args, kwargs)

    def _check_limits(self) -> None:
        """Raise Stopped after too many calls or after the deadline."""
        if self.count > MOST:
            raise Stopped(f"more than {MOST:,} calls of primitives in one run")
        if time.monotonic() > self.deadline:
            raise Stopped("time limit")

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
        # an iterator can be consumed only once, so the record stores its items
        if isinstance(output, _ITERATORS):
            call.output, call.once = list(output), True
            return iter(copied(call.output))
        call.output = copied(output)
        return output

    def _replay(self, call: Call, stream: Stream, index: int, args: Any, kwargs: Any) -> Any:
        """Return the recorded output of a call, or draw a new one once the calls no longer match
        the record.
        """
        assert self.played is not None
        recorded = self.played.streams.get(stream, [])
        if index >= len(recorded):
            self._add_difference(
                "more calls", stream, index, f"{call.primitive.name} is called once more than on D1"
            )
            self.lost.add(stream)
            return self._draw(call, args, kwargs)
        then = recorded[index]
        if then.primitive.name != call.primitive.name:
            self._add_difference(
                "other call",
                stream,
                index,
                f"{call.primitive.name} is called where {then.primitive.name} was on D1",
            )
            self.lost.add(stream)
            return self._draw(call, args, kwargs)
        output, fits = self._compare_with_record(then, call, stream, index)
        call.inner = then.inner
        if not fits:
            self.lost.add(stream)
            return self._draw(call, args, kwargs)
        if then.raised is not None:
            raise then.raised
        offset = self.shifts.get((stream, index))
        output = copied(output) if offset is None else _shifted(output, offset)
        call.output = copied(output)
        if then.once:
            return iter(output)
        return call.made.writes(output, args, kwargs) if call.made.writes is not None else output

    def _compare_with_record(
        self, then: Call, call: Call, stream: Stream, index: int
    ) -> tuple[Any, bool]:
        """Return the recorded output and whether it fits this call; add the differences to the
        list.
        """
        primitive, output = call.primitive, then.output
        if primitive.source and self.left_out is not None:
            shorter = without_record(then, call, *self.left_out)
            if shorter is not None:
                return shorter, True
        found = compared(then, call)
        for kind, text in found:
            self._add_difference(kind, stream, index, text)
        return output, not any(
            text.startswith(f"{primitive.name}: size ") for kind, text in found if kind == "shape"
        )

    def _add_difference(self, kind: str, stream: Stream, index: int, text: str) -> None:
        """Add a difference to the list."""
        with self.lock:
            self.differences.append((kind, stream, index, text))

    def finished(self) -> None:
        """Add the recorded calls that this run did not make to the differences."""
        if self.played is None:
            return
        for stream, recorded in self.played.streams.items():
            done = len(self.streams.get(stream, ()))
            if stream not in self.lost and done < len(recorded):
                text = (
                    f"{recorded[done].primitive.name} is not called: only {done} of the "
                    f"{len(recorded)} calls recorded on D1 are repeated"
                )
                self._add_difference("fewer calls", stream, done, text)

    def caller(self) -> Any:
        """Return (file, line) of the calling code."""
        return _calling_place()

    def child(self, kind: str) -> Stream:
        """Return the name of the stream of work for the next thread or task that this thread
        starts.
        """
        with self.lock:
            number = self.children.get(here.stream, 0)
            self.children[here.stream] = number + 1
        return (*here.stream, f"{kind}{number}")


def varies(first: Recorder, second: Recorder, left_out: Any = None) -> set[tuple[str, Stream, int]]:
    """Return where two recordings differ in more than the drawn values: kind, stream and index."""
    found: set[tuple[str, Stream, int]] = set()
    for stream in {**first.streams, **second.streams}:
        left, right = first.streams.get(stream, []), second.streams.get(stream, [])
        if len(left) != len(right):
            found.add(("calls", stream, min(len(left), len(right))))
        for index, (then, call) in enumerate(zip(left, right)):
            if then.primitive.name != call.primitive.name:
                found.add(("calls", stream, index))
                break
            if (
                left_out is None
                or not then.primitive.source
                or without_record(then, call, *left_out) is None
            ):
                found.update((kind, stream, index) for kind, _ in compared(then, call))
    return found


def _copied_values(values: Any, start: int = 0) -> Any:
    """Return copies of the arguments from `start` on; immutable values are not copied."""
    for value in values[start:] if start else values:
        if type(value) not in PLAIN:
            return (*values[:start], *(copied(v) for v in values[start:]))
    return values


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


def _calling_place(owner: Any = None) -> Any:
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
    for mark in ("/site-packages/", "/dist-packages/"):
        if mark in file:
            return file.rpartition(mark)[2]
    parts = file.split("/")
    library = [
        i
        for i, part in enumerate(parts[:-1])
        if part.startswith("python3.") and parts[i - 1] == "lib"
    ]
    if library:
        return "/".join(parts[library[-1] + 1 :])
    try:
        relative = os.path.relpath(file)
    except (ValueError, OSError):
        return file
    return relative if not relative.startswith("..") else "/".join(parts[-2:])


def passed(made: BoundPrimitive, args: Any, kwargs: Any) -> Any:
    """Return the output of a patched call, recorded if this thread's run belongs to the session
    that made the patch.
    """
    recorder = current = here.recorder
    while recorder is not None and recorder.owner is not made.owner:
        recorder = recorder.above
    if recorder is None:
        return made.original(*args, **kwargs)
    if recorder is current:
        return recorder.call(made, args, kwargs)
    inside = here.inside
    here.recorder, here.inside = recorder, None  # the enclosing trace sees the call as its own
    try:
        return recorder.call(made, args, kwargs)
    finally:
        here.recorder, here.inside = current, inside


@contextlib.contextmanager
def running(recorder: Recorder) -> Iterator[None]:
    """Assign the work of this thread inside the block to `recorder`."""
    before = here.recorder, here.stream, here.inside
    # a trace inside a run of another trace
    recorder.above = here.recorder if here.inside is None else None
    here.recorder, here.stream, here.inside = recorder, (), None
    try:
        yield
    finally:
        here.recorder, here.stream, here.inside = before


def as_stream(work: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """Return `work` for another thread, as a separate stream of this run; unchanged if no run is
    active.
    """
    recorder = here.recorder
    if recorder is None or here.pooling:
        return work
    stream, inside = recorder.child(kind), here.inside

    @functools.wraps(work)
    def run(*args: Any, **kwargs: Any) -> Any:
        before = here.recorder, here.stream, here.inside
        here.recorder, here.stream, here.inside = recorder, stream, inside
        try:
            return work(*args, **kwargs)
        finally:
            here.recorder, here.stream, here.inside = before

    return run
