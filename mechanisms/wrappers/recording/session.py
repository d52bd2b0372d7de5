"""A session: a mechanism with patched primitives, recorded on one dataset, replayed on another and
compared call by call.
"""

from __future__ import annotations

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
from .calls import BoundPrimitive, Raised, differences, outcome, output_difference, place_of, table
from .patches import (
    Patch,
    attributes,
    locations_of,
    lock,
    modules,
    patch,
    replace,
    resolve,
    unbound,
)
from .primitives import Primitive, WrongPrimitive, parameters_of
from .recorder import Recorder, Stopped, running, varies
from .values import copied, difference, leaves

# name, properties, whether it is a generator's method, whether it must exist
Entry = Tuple[str, Dict[str, Any], bool, bool]

_WAIT_SECONDS = 600.0  # seconds to wait for the end of a session of another thread


class Session:
    """A mechanism whose primitives are patched inside a ``with`` block, one session at a time in a
    process; a session inside a run of another one is not part of the record of that run.

    Parameters
    ----------
    run : callable
        ``run(dataset, 1, rng)`` makes one run.
    entries : iterable of (name, entry, source, required)
        The primitives. One that is not required is skipped while its module is not loaded.
    home : module, optional
        Module in which names without dots are looked up.
    seed : callable
        ``seed(words)`` seeds the global generators of the process.
    snapshot : callable
        Returns the states of the global generators by name.
    time_limit : float
        Largest duration of one run, in seconds.
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
        self.run, self.home, self.seed, self.snapshot, self.time_limit = (
            run,
            home,
            seed,
            snapshot,
            time_limit,
        )
        self.primitives = [
            (Primitive(name, entry, source), required) for name, entry, source, required in entries
        ]
        self.sources: dict[str, BoundPrimitive] = {}
        self.patches: list[Patch] = []
        self.patched: set[str] = set()
        self.recorders: dict[int, Recorder] = {}
        self.outputs: dict[int, Any] = {}
        self.numbers = itertools.count()
        self.compiled = True
        self.kernels: list[Any] = []  # compiled functions that are replaced by their Python source

    def __enter__(self) -> Session:
        if not lock.acquire(timeout=_WAIT_SECONDS):
            raise RuntimeError("another trace in this process does not end")
        try:
            self._patch_generators()
            self._patch_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        for each in reversed(self.patches):
            each.undo()
        lock.release()
        self.patches.clear()
        # a compilation that failed beside replaced functions would fail ever after
        for kernel in self.kernels:
            getattr(getattr(kernel, "_compiler", None), "_failed_cache", {}).clear()
        self.kernels.clear()
        self.recorders.clear()
        self.outputs.clear()

    def _patch_generators(self) -> None:
        """Patch NumPy's compiled generators by recording subclasses, also the generators made
        earlier.
        """
        table = {p.name: p for p, _ in self.primitives if p.source}
        shared = {
            generators.STATE + name[len(generators.GENERATOR) :]: p
            for name, p in table.items()
            if name.startswith(generators.GENERATOR)
        }
        for name, original in generators.original_methods({**shared, **table}).items():
            primitive = table.get(name) or Primitive(name, shared[name].entry, True)
            names, defaults = parameters_of(original, primitive.entry.get("arguments", ""))
            self.sources[name] = BoundPrimitive(
                self, primitive, original, names, defaults, _write_to_out
            )
            self.patched.add(name)
        generators.add_recording_methods(self.sources)
        self.patches += replace(generators.numpy_replacements())
        held = [
            each
            for each in attributes(generators.KINDS, by_type=True)
            if each[0].__name__.partition(".")[0] != "numpy"
        ]
        owner = getattr(self.run, "__self__", None)
        if owner is not None and hasattr(owner, "__dict__"):
            held += [(owner, name, value) for name, value in vars(owner).items()]
        for holder, name, value in held:
            new = generators.traced(value)
            if new is not None:
                # attributes of a frozen dataclass cannot be replaced
                with contextlib.suppress(AttributeError, TypeError):
                    self.patches.append(Patch(holder, name, new))
        for cell in getattr(unbound(self.run), "__closure__", None) or ():
            new = generators.traced(_cell_content(cell))
            if new is not None:
                self.patches.append(Patch(cell, "cell_contents", new))

    def _patch_all(self) -> None:
        """Patch every primitive that exists and is not patched yet."""
        bound: dict[str, Any] = {}
        missing = [each for each in self.primitives if each[0].name not in self.patched]
        missing = [
            each for each in missing if each[1] or each[0].name.partition(".")[0] in sys.modules
        ]
        functions = [
            function for primitive, _ in missing for function in self._loaded(primitive.name)
        ]
        # one pass over all modules instead of one for each primitive
        known = locations_of(functions)
        for primitive, required in missing:
            name = primitive.name
            if name.startswith((generators.GENERATOR, generators.STATE)):
                if required:
                    raise WrongPrimitive(
                        f"primitives: {name!r} is compiled and always recorded; name the "
                        "function that calls it instead"
                    )
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
            made = BoundPrimitive(
                self, primitive, original, names, defaults, _in_place_writer(name)
            )
            try:
                done = patch(made, holder, attribute, known)
            except WrongPrimitive:
                if required:
                    raise
                continue
            cells = getattr(unbound(self.run), "__closure__", None) or ()
            self.patches += done + [
                Patch(cell, "cell_contents", done[0].new)
                for cell in cells
                if _cell_content(cell) is found
            ]
            # the functions of `random` are methods of one generator, bound before the patch
            if name.startswith("random.Random."):
                bound[f"random.{attribute}"] = getattr(random._inst, attribute)
            self.patched.add(name)
        if bound:
            self.patches += replace(bound)

    def _loaded(self, name: str) -> list[Any]:
        """Return the function of this name if its module is loaded, else nothing."""
        with contextlib.suppress(WrongPrimitive):
            return [resolve(name, self.home, imports=False)[2]]
        return []

    def uncompile(self) -> bool:
        """Replace functions compiled by Numba by their Python source. Return False if there are
        none or they are already replaced.
        """
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
        self.kernels += [kernel for _, _, kernel in found]
        self.patches += [Patch(module, name, kernel.py_func) for module, name, kernel in found]
        return bool(found)

    def record(self, dataset: Any, seed: int) -> dict[str, Any]:
        """Run on a dataset, and record its calls and draws under the number ``key`` of
        the result.
        """
        self._patch_all()  # the run before may have imported modules with primitives
        before = len(sys.modules)
        recorder, output, seconds = self._run_once(
            dataset, seed, Recorder(self, time.monotonic() + self.time_limit)
        )
        if (
            len(sys.modules) > before and not self.recorders
        ):  # the imported modules may contain primitives, and importing them may have drawn
            self._patch_all()
            recorder, output, seconds = self._run_once(
                dataset, seed, Recorder(self, time.monotonic() + self.time_limit)
            )
        key = next(self.numbers)
        self.recorders[key], self.outputs[key] = recorder, output
        unseeded = [f"{name} at {place_of(where)}" for name, where in recorder.unseeded]
        return {
            "key": key,
            "calls": len(recorder.calls),
            "seconds": seconds,
            "unseeded": unseeded,
            **outcome(output),
        }

    def replay(
        self,
        key: int,
        dataset: Any,
        seed: int,
        shifts: Any = None,
        left_out: Any = None,
        brief: bool = False,
    ) -> dict[str, Any]:
        """Run on a dataset with the outputs recorded under `key`, and compare the calls.

        Parameters
        ----------
        key : int
            Number of the recording.
        dataset : object
            Dataset of this run.
        seed : int
            Seed of the draws that are not replayed.
        shifts : list of (index, array), optional
            Shifts added to the outputs of these calls.
        left_out : (int, int), optional
            Number of records, and the index of the record that is missing here. Draws for each
            record omit that of the missing one.
        brief : bool
            Whether to omit the table of calls.

        Returns
        -------
        dict
            Output, differences, number of calls and duration, and the table of calls.
        """
        recorded = self.recorders[key]
        played = Recorder(
            self, time.monotonic() + self.time_limit, recorded, dict(shifts or ()), left_out
        )
        recorder, output, seconds = self._run_once(dataset, seed, played)
        recorder.finished()
        report = output_difference(self.outputs[key], output)
        found = {
            "seconds": seconds,
            "calls": len(recorder.calls),
            "output": report,
            "lost": recorder.lost,
            "differences": differences(recorder),
            **outcome(output),
        }
        return found if brief else dict(found, table=table(recorded, recorder))

    def constant(self, first: int, others: list[int]) -> list[str]:
        """Return the generators' draws of real numbers that are equal in recordings with different
        seeds.
        """
        report = []
        again = [self.recorders[key].calls for key in others]
        for i, call in enumerate(self.recorders[first].calls):
            numbers, _ = leaves(call.output) if call.primitive.source else (np.zeros(0), [])
            real = numbers.size and (numbers != np.round(numbers)).any()
            if not real and not (numbers.size > 8 and len(set(numbers.tolist())) > 4):
                continue
            if all(len(c) > i and not difference(c[i].output, call.output) for c in again):
                report.append(f"{call.primitive.name} at {place_of(call.where)}")
        return sorted(set(report))

    def varies(self, first: int, others: list[int], left_out: Any = None) -> list[list[Any]]:
        """Return the kinds and places in which recordings differ from the first one in more than
        the drawn values.
        """
        found = {
            each
            for key in others
            for each in varies(self.recorders[first], self.recorders[key], left_out)
        }
        return [list(each) for each in sorted(found)][:10_000]

    def _run_once(self, dataset: Any, seed: int, recorder: Recorder) -> tuple[Recorder, Any, float]:
        """Run once with a recorder. Return the recorder, the output and the CPU time in seconds."""
        words = np.random.SeedSequence(seed).generate_state(4).tolist()
        self.seed(words)
        recorder.words = words
        rng = generators.TracedGenerator(np.random.SFC64(np.random.SeedSequence(words)))
        dataset = copy.deepcopy(dataset)
        begin = time.process_time()
        try:
            with running(recorder), _watched(self.time_limit):
                output = copied(self.run(dataset, 1, rng))
        except (Exception, SystemExit, GeneratorExit) as error:
            output = Raised(error.with_traceback(None))
        return recorder, output, time.process_time() - begin

    def past(self, key: int, dataset: Any, seed: int) -> list[str]:
        """Return the generators that a replayed run still draws from, bypassing the primitives."""
        # by `type`: a dead weak proxy raises on access to its class
        kinds = (np.random.BitGenerator, random.Random)
        known = [
            g
            for g in gc.get_objects()
            if issubclass(type(g), kinds) and not isinstance(g, random.SystemRandom)
        ]
        words = np.random.SeedSequence(seed).generate_state(4).tolist()
        self.seed(words)
        before, states = self.snapshot(), [_generator_state(g) for g in known]
        played = Recorder(self, time.monotonic() + self.time_limit, self.recorders[key])
        self._run_once(dataset, seed, played)
        after = self.snapshot()
        report = [
            f"the generator of {name}"
            for name in before
            if difference(before[name], after.get(name))
        ]
        for found, state in zip(known, states):
            if difference(state, _generator_state(found)) and found is not getattr(
                random, "_inst", None
            ):
                names = [
                    k
                    for r in gc.get_referrers(found)
                    if isinstance(r, dict)
                    for k, v in r.items()
                    if v is found and isinstance(k, str)
                ]
                report.append(
                    f"a {type(found).__name__} kept as {names[0]!r}"
                    if names
                    else f"a {type(found).__name__}"
                )
        return sorted(set(report))[:8]


def _cell_content(cell: Any) -> Any:
    """Return the value of a closure cell, None if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:  # the cell is empty
        return None


def _generator_state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    bits = getattr(generator, "_bit_generator", generator)
    return copy.deepcopy(bits.state)


def _write_to_out(output: Any, args: Any, kwargs: Any) -> Any:
    """Return a recorded output, written to the argument `out` if the call has one."""
    out = kwargs.get("out")
    if out is None:
        return output
    out[...] = output
    return out


def _in_place_writer(name: str) -> Any:
    """Return the function that writes a recorded output in place, for tensor methods that end in an
    underscore; otherwise None.
    """
    if not (name.startswith("torch.Tensor.") and name.endswith("_")):
        return None

    def write(output: Any, args: Any, kwargs: Any) -> Any:
        args[0].copy_(output)
        return args[0]

    return write


@contextlib.contextmanager
def _watched(seconds: float) -> Iterator[None]:
    """Raise Stopped in this thread after `seconds`, as soon as it runs Python code."""
    thread, over, fired = threading.get_ident(), threading.Event(), threading.Event()

    def stop() -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread), ctypes.py_object(Stopped)
        )

    def wait() -> None:
        remaining = seconds
        while not over.wait(remaining):  # repeated in case a callback has swallowed the exception
            fired.set()
            stop()
            remaining = 0.5

    watch = threading.Thread(target=wait, daemon=True)
    try:
        try:  # the watch may fire before it has been started, from this thread's point of view
            watch.start()
            yield
        finally:
            # again below, in case the exception arrives here: otherwise the watch would raise it
            # for ever
            over.set()
    finally:
        while True:
            try:
                over.set()
                if watch.ident is not None:
                    watch.join()
                # a pending exception is raised and caught here. Canceling it would leave the
                # interpreter
                if fired.is_set():
                    # waiting for it, and a traced function of Python 3.11 would never start
                    fired.clear()
                    stop()
                    time.sleep(0.01)
                break
            except Stopped:
                continue
