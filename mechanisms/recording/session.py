"""A mechanism run with its primitives patched: recorded on one dataset, played back on another, compared call by call."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import ctypes
import gc
import itertools
import random
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, Tuple

import numpy as np

from . import generators
from .comparing import Raised, differences, outcome, outputs_differ, place_of, table
from .patches import Patch, lock, modules, patch, replace, resolve, unbound
from .primitives import Primitive, WrongPrimitive, parameters_of
from .recorder import Made, Recorder, Stopped, here, in_stream, running, varies
from .values import copied, difference, leaves

Entry = Tuple[str, Dict[str, Any], bool, bool]  # name, what is said of it, a generator's own draw, must be there


class Session:
    """Patched from ``with`` to its end.

    Parameters
    ----------
    run : callable
        ``run(dataset, 1, rng)``: one run.
    entries : iterable of (name, entry, source, required)
        The primitives. One that is not required is left out while its module is not loaded.
    home : module, optional
        Where names without dots are looked up.
    seed : callable
        ``seed(words)`` seeds the generators that the process shares.
    snapshot : callable
        Their states, by name.
    time_limit : float
        Seconds of one run.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        entries: Iterable[Entry],
        *,
        seed: Callable[[list[int]], None],
        snapshot: Callable[[], dict[str, Any]],
        home: Any = None,
        time_limit: float = 60.0,
    ) -> None:
        self.run, self.home, self.seed, self.snapshot, self.time_limit = run, home, seed, snapshot, time_limit
        self.primitives = [(Primitive(name, entry, source), required) for name, entry, source, required in entries]
        self.sources: dict[str, Made] = {}
        self.patches: list[Patch] = []
        self.patched: set[str] = set()
        self.kept: dict[int, Recorder] = {}
        self.outputs: dict[int, Any] = {}
        self.numbers = itertools.count()
        self.compiled = True

    def __enter__(self) -> Session:
        try:
            with lock:
                self._generators()
                self._threads()
                self._patch_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        with lock:
            for each in reversed(self.patches):
                each.undo()
        self.patches.clear()
        self.kept.clear()
        self.outputs.clear()

    def _generators(self) -> None:
        """NumPy's compiled generators: their subclasses stand in for them, also for those made before."""
        table = {p.name: p for p, _ in self.primitives if p.source}
        shared = {
            generators.STATE + name[len(generators.GENERATOR) :]: p for name, p in table.items() if name.startswith(generators.GENERATOR)
        }
        for name, original in generators.originals({**shared, **table}).items():
            primitive = table.get(name) or Primitive(name, shared[name].entry, True)
            names, defaults = parameters_of(original, primitive.entry.get("arguments", ""))
            self.sources[name] = Made(self, primitive, original, names, defaults, _fill_out)
            self.patched.add(name)
        generators.equip(self.sources)
        for name, new in generators.replacements().items():
            self.patches += replace(name, new)
        for module in modules():
            if module.__name__.partition(".")[0] != "numpy":
                self._inside(module)
        owner = getattr(self.run, "__self__", None)
        if owner is not None and hasattr(owner, "__dict__"):
            self._inside(owner)
        for cell in getattr(unbound(self.run), "__closure__", None) or ():
            new = generators.traced(_content(cell))
            if new is not None:
                self.patches.append(Patch(cell, "cell_contents", new))

    def _inside(self, holder: Any) -> None:
        for name, value in list(vars(holder).items()):
            new = generators.traced(value)
            if new is not None:
                with contextlib.suppress(AttributeError, TypeError):  # a frozen dataclass keeps what it has
                    self.patches.append(Patch(holder, name, new))

    def _threads(self) -> None:
        """Work that the run gives to threads is part of the run."""
        start, pool = threading.Thread.start, concurrent.futures.ThreadPoolExecutor
        submit = pool.submit

        def started(thread: threading.Thread) -> None:
            thread.run = in_stream(thread.run, "thread ")  # type: ignore[method-assign]
            start(thread)

        def submitted(executor: Any, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            work = in_stream(work, "task ")
            before, here.pooling = here.pooling, True  # the pool's own threads are no streams of the run
            try:
                return submit(executor, work, *args, **kwargs)
            finally:
                here.pooling = before

        self.patches += [Patch(threading.Thread, "start", started), Patch(pool, "submit", submitted)]

    def _install(self) -> None:
        """Patch every primitive that is there and not yet patched."""
        with lock:
            self._patch_all()

    def _patch_all(self) -> None:
        for primitive, required in self.primitives:
            name = primitive.name
            if name in self.patched:
                continue
            if not required and name.partition(".")[0] not in sys.modules:
                continue
            if name.startswith((generators.GENERATOR, generators.STATE)):
                if required:
                    raise WrongPrimitive(f"primitives: {name!r} is compiled, and recorded in any case; name what calls it")
                continue
            try:
                holder, attribute, found = resolve(name, self.home, required)
            except WrongPrimitive:
                if required:
                    raise
                continue  # another release of the library
            raw = vars(holder).get(attribute, found) if isinstance(holder, type) else found
            original = unbound(raw) if isinstance(raw, (staticmethod, classmethod)) else found
            names, defaults = parameters_of(original, primitive.entry.get("arguments", ""))
            primitive.check(names)
            made = Made(self, primitive, original, names, defaults, _writer(name))
            try:
                done = patch(made, holder, attribute)
            except WrongPrimitive:
                if required:
                    raise
                continue
            self.patches += done + self._in_cells(found, done[0].new)
            if name.startswith("random.Random."):  # the module's functions are methods of one generator, bound before
                self.patches += replace(f"random.{attribute}", getattr(random._inst, attribute))
            self.patched.add(name)

    def _in_cells(self, old: Any, new: Any) -> list[Patch]:
        """The same in what the run itself has closed over."""
        cells = getattr(unbound(self.run), "__closure__", None) or ()
        return [Patch(cell, "cell_contents", new) for cell in cells if _content(cell) is old]

    def uncompile(self) -> bool:
        """Let functions compiled by Numba run as the Python they were written in: False where there are none, or they do already."""
        dispatcher = getattr(sys.modules.get("numba.core.dispatcher"), "Dispatcher", None)
        if dispatcher is None or not self.compiled:
            return False
        self.compiled = False
        found = [
            (module, name, value)
            for module in modules()
            if module.__name__.partition(".")[0] != "numba"
            for name, value in list(vars(module).items())
            if isinstance(value, dispatcher)
        ]
        self.patches += [Patch(module, name, value.py_func) for module, name, value in found]
        return bool(found)

    def record(self, dataset: Any, seed: int) -> dict[str, Any]:
        """Run on a dataset; what was called and drawn is kept under the number ``key``."""
        self._install()  # what the run before has imported
        before = len(sys.modules)
        recorder, output, seconds = self._once(dataset, seed, Recorder(self, time.monotonic() + self.time_limit))
        if len(sys.modules) > before and not self.kept:  # the run has imported, which may draw, and what may hold primitives
            self._install()
            recorder, output, seconds = self._once(dataset, seed, Recorder(self, time.monotonic() + self.time_limit))
        key = next(self.numbers)
        self.kept[key], self.outputs[key] = recorder, output
        unseeded = [f"{name} at {place_of(where)}" for name, where in recorder.unseeded]
        return {"key": key, "calls": recorder.count, "seconds": seconds, "unseeded": unseeded, **outcome(output)}

    def replay(self, key: int, dataset: Any, seed: int, shifts: Any = None, left_out: Any = None, brief: bool = False) -> dict[str, Any]:
        """Run on a dataset with what was recorded under `key`, and compare.

        Parameters
        ----------
        shifts : list of (stream, index, array), optional
            What is added to those outputs.
        left_out : (int, int), optional
            Number of records, and the one that is absent here: draws for each record leave out its own.
        brief : bool
            Without the table of calls.
        """
        recorded = self.kept[key]
        moved = {(tuple(filter(None, stream.split("/"))), index): by for stream, index, by in shifts or ()}
        played = Recorder(self, time.monotonic() + self.time_limit, recorded, moved, left_out)
        recorder, output, seconds = self._once(dataset, seed, played)
        recorder.finished()
        told = outputs_differ(self.outputs[key], output)
        found = {
            "seconds": seconds,
            "calls": recorder.count,
            "output": told,
            "lost": bool(recorder.lost),
            "differences": differences(recorder),
            **outcome(output),
        }
        return found if brief else dict(found, table=table(recorded, recorder))

    def constant(self, first: int, others: list[int]) -> list[str]:
        """Generators' draws of real numbers that are the same in recordings under different seeds."""
        told = []
        for stream, calls in self.kept[first].streams.items():
            for i, call in enumerate(calls):
                numbers, _ = leaves(call.output) if call.primitive.source else (np.zeros(0), [])
                real = numbers.size and (numbers != np.round(numbers)).any()
                if not real and not (numbers.size > 8 and len(set(numbers.tolist())) > 4):
                    continue
                again = [self.kept[key].streams.get(stream, []) for key in others]
                if all(len(c) > i and not difference(c[i].output, call.output) for c in again):
                    told.append(f"{call.primitive.name} at {place_of(call.where)}")
        return sorted(set(told))

    def varies(self, first: int, others: list[int], left_out: Any = None) -> list[list[Any]]:
        """Kinds and places at which recordings differ from the first in more than what was drawn."""
        found = {each for key in others for each in varies(self.kept[first], self.kept[key], left_out)}
        return [[kind, "/".join(stream), index] for kind, stream, index in sorted(found)][:10_000]

    def _once(self, dataset: Any, seed: int, recorder: Recorder) -> tuple[Recorder, Any, float]:
        words = np.random.SeedSequence(seed).generate_state(4).tolist()
        self.seed(words)
        recorder.words = words
        rng = generators.TracedGenerator(np.random.SFC64(np.random.SeedSequence(words)))
        dataset = copy.deepcopy(dataset)
        begin = time.process_time()
        try:
            with running(recorder), _watched(self.time_limit):
                output = copied(self.run(dataset, 1, rng))
        except Stopped:
            raise
        except Exception as error:
            output = Raised(error.with_traceback(None))
        except (SystemExit, GeneratorExit) as error:
            output = Raised(error.with_traceback(None))
        return recorder, output, time.process_time() - begin

    def past(self, key: int, dataset: Any, seed: int) -> list[str]:
        """Generators that a run from the record draws from all the same, past the primitives."""
        kinds = (np.random.BitGenerator, random.Random)  # by `type`: a proxy of what is gone raises when it is asked for its class
        known = [g for g in gc.get_objects() if issubclass(type(g), kinds) and not _is_systems(g)]
        words = np.random.SeedSequence(seed).generate_state(4).tolist()
        self.seed(words)
        before, states = self.snapshot(), [_state(g) for g in known]
        played = Recorder(self, time.monotonic() + self.time_limit, self.kept[key])
        self._once(dataset, seed, played)
        after = self.snapshot()
        told = [f"the generator of {name}" for name in before if difference(before[name], after.get(name))]
        for found, state in zip(known, states):
            if difference(state, _state(found)) and found is not getattr(random, "_inst", None):
                names = [
                    k for r in gc.get_referrers(found) if isinstance(r, dict) for k, v in r.items() if v is found and isinstance(k, str)
                ]
                told.append(f"a {type(found).__name__} kept as {names[0]!r}" if names else f"a {type(found).__name__}")
        return sorted(set(told))[:8]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


def _is_systems(generator: Any) -> bool:
    return isinstance(generator, random.SystemRandom)


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    bits = getattr(generator, "_bit_generator", generator)
    return copy.deepcopy(bits.state)


def _fill_out(output: Any, args: Any, kwargs: Any) -> Any:
    """A recorded output, put where the call was told to write it."""
    out = kwargs.get("out")
    if out is None:
        return output
    out[...] = output
    return out


def _writer(name: str) -> Any:
    """Tensor methods that end in an underscore write into their tensor."""
    if not (name.startswith("torch.Tensor.") and name.endswith("_")):
        return None

    def write(output: Any, args: Any, kwargs: Any) -> Any:
        args[0].copy_(output)
        return args[0]

    return write


@contextlib.contextmanager
def _watched(seconds: float) -> Iterator[None]:
    """Stopped is raised in this thread when the time is over, if it runs Python by then."""
    thread, over, fired = threading.get_ident(), threading.Event(), threading.Event()

    def stop() -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Stopped))

    def wait() -> None:
        left = seconds
        while not over.wait(left):  # again, where a callback has swallowed it
            fired.set()
            stop()
            left = 0.5

    watch = threading.Thread(target=wait, daemon=True)
    before, here.pooling = here.pooling, True
    watch.start()
    here.pooling = before
    try:
        yield
    finally:
        while True:
            try:
                over.set()
                watch.join()
                if fired.is_set():  # one may be under way: it is met here. To take it back would leave the interpreter
                    fired.clear()  # waiting for it, in which a traced function of Python 3.11 never begins
                    stop()
                    time.sleep(0.01)
                break
            except Stopped:
                continue
