"""One run, recorded or played back: every call of a primitive in the order in which its own thread of work makes it."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import threading
import time
import types
from typing import Any, Callable, Iterator, Tuple

import numpy as np

from .primitives import LOCATION, READ, Primitive
from .values import copied, difference, shift

MOST = 1_000_000  # calls of one run
_INNER = 4  # draws inside a primitive that are kept
_INPUT, _SCALE, _SIZE = READ.index("input"), READ.index("scale"), READ.index("size")
_HERE = frozenset(os.path.join(os.path.dirname(__file__), name) for name in ("recorder.py", "generators.py", "patches.py", "session.py"))


class Stopped(BaseException):
    """The run took too long, or made too many calls; no library's own handler catches it."""


class Call:
    """A primitive, called."""

    __slots__ = ("args", "inner", "kwargs", "made", "once", "output", "primitive", "raised", "told", "where")

    def __init__(self, made: Made, args: Any, kwargs: Any, told: Any, where: Any) -> None:
        self.made, self.args, self.kwargs, self.told, self.where = made, args, kwargs, told, where
        self.primitive = made.primitive
        self.output: Any = None
        self.raised: Any = None
        self.once = False
        self.inner: Any = ()

    @property
    def read(self) -> tuple[Any, ...]:
        """Values of the primitive's expressions; those of arguments alone are found when they are asked for."""
        if self.told is None:
            made = self.made
            self.told = made.primitive.reads(made.names, made.defaults, self.args, self.kwargs)
        found: tuple[Any, ...] = self.told
        return found


class Made:
    """A primitive together with the callable that it names."""

    __slots__ = ("defaults", "names", "original", "owner", "place", "primitive", "writes")

    def __init__(
        self, owner: Any, primitive: Primitive, original: Callable[..., Any], names: Any, defaults: Any, writes: Any = None
    ) -> None:
        self.owner = owner  # the session that patched it
        self.primitive, self.original, self.names, self.defaults = primitive, original, names, defaults
        self.writes = writes  # how to put a recorded output where the call writes it
        self.place = 0 if not names or names[0] not in ("self", "cls") else 1


_ONCE = (types.GeneratorType, zip, map, filter)
Stream = Tuple[Any, ...]


class _Here(threading.local):
    """What this thread is doing: for which recorder, in which stream of work, inside which primitive."""

    recorder: Any = None
    stream: Stream = ()
    inside: Any = None
    pooling: bool = False


here = _Here()


class Recorder:
    """The calls of one run. With `played`, the run gets the recorded outputs of another, as long as its calls are the same."""

    def __init__(
        self, owner: Any, deadline: float, played: Recorder | None = None, shifts: dict[Any, Any] | None = None, left_out: Any = None
    ) -> None:
        self.owner = owner
        self.words: list[int] = []  # the seed of the run
        self.made = 0  # generators that it made for itself
        self.unseeded: list[tuple[str, Any]] = []  # generators that the run made for itself, without a seed
        self.streams: dict[Stream, list[Call]] = {}
        self.children: dict[Stream, int] = {}
        self.deadline, self.played, self.shifts, self.left_out = deadline, played, shifts or {}, left_out
        self.differences: list[tuple[str, Stream, int, str]] = []
        self.lost: set[Stream] = set()  # streams that no longer follow the record
        self.count = 0
        self.above: Any = None  # the recorder of a trace that this one runs in
        self.lock = threading.Lock()

    def call(self, made: Made, args: Any, kwargs: Any) -> Any:
        """What the call returns: drawn and recorded, or as recorded."""
        if here.inside is not None:  # within another primitive: that one counts
            if made.primitive.source and made.primitive.law in LOCATION and len(here.inside) < _INNER:
                inside, read = here.inside, made.primitive.reads(made.names, made.defaults, args, kwargs)
                output = made.original(*args, **kwargs)
                inside.append((made.primitive.law, read[_INPUT], read[_SCALE], copied(output)))
                return output
            return made.original(*args, **kwargs)
        self.count += 1
        if self.count & 63 == 0:
            self._check()
        kept = _kept(args, made.place)
        named = {k: copied(v) for k, v in kwargs.items()} if kwargs else kwargs
        if made.primitive.codes:  # attributes may change after the call: they are read now
            read = _kept(made.primitive.reads(made.names, made.defaults, args, kwargs))
            call = Call(made, kept, named, read, _caller(args[0] if made.place and args else None))
        else:
            call = Call(made, kept, named, None, _caller())
        stream = here.stream
        mine = self.streams.get(stream)
        if mine is None:
            with self.lock:
                mine = self.streams.setdefault(stream, [])
        mine.append(call)
        if self.played is None or stream in self.lost:
            return self._drawn(call, args, kwargs)
        return self._replayed(call, stream, len(mine) - 1, args, kwargs)

    def _check(self) -> None:
        if self.count > MOST:
            raise Stopped(f"more than {MOST:,} calls of primitives in one run")
        if time.monotonic() > self.deadline:
            raise Stopped("time limit")

    def _drawn(self, call: Call, args: Any, kwargs: Any) -> Any:
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
        if isinstance(output, _ONCE):  # can be read once: the record keeps the items
            call.output, call.once = list(output), True
            return iter(copied(call.output))
        call.output = copied(output)
        return output

    def _replayed(self, call: Call, stream: Stream, index: int, args: Any, kwargs: Any) -> Any:
        assert self.played is not None
        recorded = self.played.streams.get(stream, [])
        if index >= len(recorded):
            self._differs("more calls", stream, index, f"{call.primitive.name} is called once more than on D1")
            self.lost.add(stream)
            return self._drawn(call, args, kwargs)
        then = recorded[index]
        if then.primitive.name != call.primitive.name:
            self._differs("other call", stream, index, f"{call.primitive.name} is called where {then.primitive.name} was on D1")
            self.lost.add(stream)
            return self._drawn(call, args, kwargs)
        output, fits = self._compared(then, call, stream, index)
        call.inner = then.inner
        if not fits:
            self.lost.add(stream)
            return self._drawn(call, args, kwargs)
        if then.raised is not None:
            raise then.raised
        moved = self.shifts.get((stream, index))
        output = copied(output) if moved is None else _moved(output, moved)
        call.output = copied(output)
        if then.once:
            return iter(output)
        return call.made.writes(output, args, kwargs) if call.made.writes is not None else output

    def _compared(self, then: Call, call: Call, stream: Stream, index: int) -> tuple[Any, bool]:
        """The recorded output, whether it fits this call; what differs is noted."""
        primitive, output = call.primitive, then.output
        if primitive.source and self.left_out is not None:
            shorter = _without(then, call, *self.left_out)
            if shorter is not None:
                return shorter, True
        found = compared(then, call)
        for kind, told in found:
            self._differs(kind, stream, index, told)
        return output, not any(told.startswith(f"{primitive.name}: size ") for kind, told in found if kind == "shape")

    def _differs(self, kind: str, stream: Stream, index: int, told: str) -> None:
        with self.lock:
            self.differences.append((kind, stream, index, told))

    def finished(self) -> None:
        """Note what the record holds and this run has not asked for."""
        if self.played is None:
            return
        for stream, recorded in self.played.streams.items():
            done = len(self.streams.get(stream, ()))
            if stream not in self.lost and done < len(recorded):
                told = f"{recorded[done].primitive.name} is not called, of {len(recorded)} calls on D1 {done} are made"
                self._differs("fewer calls", stream, done, told)

    def caller(self) -> Any:
        """(file, line) of who is calling."""
        return _caller()

    def child(self, kind: str) -> Stream:
        """The stream of work that this thread's next thread or task is."""
        with self.lock:
            number = self.children.get(here.stream, 0)
            self.children[here.stream] = number + 1
        return (*here.stream, f"{kind}{number}")


def compared(then: Call, call: Call) -> list[tuple[str, str]]:
    """How two calls of one primitive differ in all but the value of their input: (kind, what was seen)."""
    name, found = call.primitive.name, []
    for place, (key, first, second) in enumerate(zip(READ, then.read, call.read)):
        told = "" if place == _INPUT or first is second else _differ(first, second)
        if told:
            found.append(({"scale": "scale", "size": "shape"}.get(key, "parameter"), f"{name}: {key} {told}"))
    told = _shapes(then.read[_INPUT], call.read[_INPUT]) if call.primitive.law != "opaque" else ""  # a dataset, of any size
    if told:
        found.append(("shape", f"{name}: input {told}"))
    told = _arguments(then, call)
    if told:
        found.append(("parameter", f"{name}: {told}"))
    return found


def _arguments(then: Call, call: Call) -> str:
    """The first argument that is not what it was, of those that no expression speaks of."""
    made = call.made
    seen, names = made.primitive.used, made.names
    if len(then.args) <= made.place >= len(call.args) and not then.kwargs and not call.kwargs:
        return ""
    for i in range(made.place, max(len(then.args), len(call.args))):
        name = names[i] if i < len(names) else f"argument {i}"
        if name in seen:
            continue
        if i >= len(then.args) or i >= len(call.args):
            return f"{name} is given on one side only"
        told = difference(then.args[i], call.args[i], name, objects=False)
        if told:
            return told
    for name in {**then.kwargs, **call.kwargs}:
        if name in seen or name in ("out", "generator"):
            continue
        if (name in then.kwargs) != (name in call.kwargs):
            return f"{name} is given on one side only"
        told = difference(then.kwargs[name], call.kwargs[name], name, objects=False)
        if told:
            return told
    return ""


def varies(first: Recorder, second: Recorder, left_out: Any = None) -> set[tuple[str, Stream, int]]:
    """Where two recordings differ in more than what was drawn: kind, stream and place."""
    found: set[tuple[str, Stream, int]] = set()
    for stream in {**first.streams, **second.streams}:
        left, right = first.streams.get(stream, []), second.streams.get(stream, [])
        if len(left) != len(right):
            found.add(("calls", stream, min(len(left), len(right))))
        for index, (then, call) in enumerate(zip(left, right)):
            if then.primitive.name != call.primitive.name:
                found.add(("calls", stream, index))
                break
            if left_out is None or not then.primitive.source or _without(then, call, *left_out) is None:
                found.update((kind, stream, index) for kind, _ in compared(then, call))
    return found


_PLAIN = frozenset((float, int, str, bool, bytes, type(None), np.float64, np.int64, np.bool_))


def _kept(values: Any, start: int = 0) -> Any:
    """Copies of arguments from `start` on; most are numbers, and stay."""
    for value in values[start:] if start else values:
        if type(value) not in _PLAIN:
            return (*values[:start], *(copied(v) for v in values[start:]))
    return values


def _moved(output: Any, by: Any) -> Any:
    """A recorded output with a shift added, in the form that it has."""
    if isinstance(output, np.ndarray):
        return (output + np.asarray(by).reshape(output.shape)).astype(output.dtype)
    if isinstance(output, (list, tuple)):
        return type(output)(v + type(v)(d) for v, d in zip(output, np.ravel(by)))
    step = np.ravel(by)[0]
    if hasattr(output, "detach"):
        return output + output.new_tensor(np.asarray(by, dtype=float)).reshape(output.shape)
    return type(output)(output + step)


def _without(then: Call, now: Call, length: int, place: int) -> Any:
    """A draw for each of `length` records, or an order of them, without that of the record at `place`; None if it is no such draw."""
    whole = not hasattr(then.output, "detach")
    output = then.output if whole else then.output.numpy()
    sizes = [[v for arg in call.args[call.made.place :] for v in np.ravel(_whole_numbers(arg)).tolist()] for call in (then, now)]
    sizes = [
        side + [v for arg in call.kwargs.values() for v in np.ravel(_whole_numbers(arg)).tolist()] for side, call in zip(sizes, (then, now))
    ]
    asked = [(a, b) for a, b in zip(*sizes) if a != b] if len(sizes[0]) == len(sizes[1]) else []
    if asked != [(length, length - 1)] or not isinstance(output, np.ndarray) or output.shape[:1] != (length,):
        return None
    if then.primitive.law == "permutation":
        shorter = output[output != place]
        shorter = shorter - (shorter > place)
    else:
        shorter = np.delete(output, place, axis=0)
    return shorter if whole else then.output.new_tensor(shorter)


def _whole_numbers(value: Any) -> Any:
    """The whole numbers among arguments: sizes of draws."""
    return value if isinstance(value, (int, tuple, list)) and all(isinstance(v, int) for v in np.ravel(value).tolist()) else ()


def _differ(a: Any, b: Any) -> str:
    if a is b or (type(a) is type(b) and type(a) in _PLAIN and a == b and a != 0):
        return ""
    return difference(a, b, objects=False)


def _shapes(a: Any, b: Any) -> str:
    """How two inputs differ in kind, whatever their values."""
    if type(a) is type(b) and type(a) in _PLAIN:
        return ""
    left, right = (None if v is None else (np.asarray(v).dtype, np.shape(v)) if _numeric(v) else type(v) for v in (a, b))
    return "" if left == right else f"is {_told(a, left)} and {_told(b, right)}"


def _told(value: Any, form: Any) -> str:
    return f"{form[0]} {form[1]}" if isinstance(form, tuple) else "None" if value is None else type(value).__name__


def _numeric(value: Any) -> bool:
    try:
        return isinstance(value, (int, float, np.generic, np.ndarray)) and not np.asarray(value).dtype.hasobject
    except Exception:
        return False


def _caller(owner: Any = None) -> Any:
    """(file, line) of the nearest frame outside this folder, and outside the methods of the object that is called."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in _HERE:
        frame = frame.f_back
    here_first = frame
    while owner is not None and frame is not None and frame.f_locals.get("self") is owner:
        frame = frame.f_back
    frame = frame or here_first
    return None if frame is None else (_shortened(frame.f_code.co_filename), frame.f_lineno)


@functools.lru_cache(maxsize=4096)
def _shortened(file: str) -> str:
    """A file as it is told: a library's from its own folder on, others relative to the current one, or by their last two parts."""
    for mark in ("/site-packages/", "/dist-packages/"):
        if mark in file:
            return file.rpartition(mark)[2]
    parts = file.split("/")
    library = [i for i, part in enumerate(parts[:-1]) if part.startswith("python3.") and parts[i - 1] == "lib"]
    if library:
        return "/".join(parts[library[-1] + 1 :])
    try:
        relative = os.path.relpath(file)
    except (ValueError, OSError):
        return file
    return relative if not relative.startswith("..") else "/".join(parts[-2:])


def passed(made: Made, args: Any, kwargs: Any) -> Any:
    """A patched call: through the recorder of this thread's run, if it belongs to one of the session that patched it."""
    recorder = mine = here.recorder
    while recorder is not None and recorder.owner is not made.owner:
        recorder = recorder.above
    if recorder is None:
        return made.original(*args, **kwargs)
    if recorder is mine:
        return recorder.call(made, args, kwargs)
    inside = here.inside
    here.recorder, here.inside = recorder, None  # as the trace around this one sees it
    try:
        return recorder.call(made, args, kwargs)
    finally:
        here.recorder, here.inside = mine, inside


@contextlib.contextmanager
def running(recorder: Recorder) -> Iterator[None]:
    """What this thread does in the block belongs to `recorder`."""
    before = here.recorder, here.stream, here.inside
    recorder.above = here.recorder if here.inside is None else None  # a trace within a run of another
    here.recorder, here.stream, here.inside = recorder, (), None
    try:
        yield
    finally:
        here.recorder, here.stream, here.inside = before


def in_stream(work: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """`work` for another thread, as a stream of this run; itself where no run is under way."""
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


def shift_of(then: Call, now: Call) -> Any:
    """|input on D1 - input on D0|, number by number; None where there is no number to compare."""
    first, second = then.read[_INPUT], now.read[_INPUT]
    if first is None and second is None:
        return None
    if isinstance(first, float) and isinstance(second, float) and math.isfinite(first) and math.isfinite(second):
        return np.array([abs(float(first) - float(second))])
    return shift(first, second)
