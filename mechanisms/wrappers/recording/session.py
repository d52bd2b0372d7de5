"""A session: a mechanism with patched primitives, recorded on one dataset, replayed on another and
compared call by call.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import inspect
import random
import sys
import time
from typing import Any, Callable, Dict, Iterable, Tuple

import numpy as np

from dpwitness.mechanisms.wrappers.recording import global_generators

from .calls import (
    BoundPrimitive,
    RaisedText,
    compared,
    differences,
    outcome,
    output_difference,
    place_of,
    table,
    without_record,
)
from .patches import (
    GENERATOR,
    KINDS,
    STATE,
    TracedGenerator,
    TracedState,
    attributes,
    lock,
    numpy_replacements,
    recorded_methods,
    replaced,
    resolve,
    traced,
)
from .primitives import Primitive, WrongPrimitive
from .recorder import Recorder, here, running, stopped_after
from .values import copied, difference, leaves

# name, properties, whether it is a generator's method, whether it must exist
Entry = Tuple[str, Dict[str, Any], bool, bool]


class RecordingSession:
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
    time_limit : float
        Largest duration of one run, in seconds.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        entries: Iterable[Entry],
        *,
        home: Any = None,
        time_limit: float = 60.0,
    ) -> None:
        self.run, self.home, self.time_limit = run, home, time_limit
        self.primitives = [
            (Primitive(name, entry, source), required) for name, entry, source, required in entries
        ]
        self.sources: dict[str, BoundPrimitive] = {}
        self.patches = contextlib.ExitStack()  # restores what is replaced
        self.patched: set[str] = set()
        self.recorders: dict[int, Recorder] = {}
        self.outputs: dict[int, Any] = {}
        self.kernels: list[Any] = []  # compiled functions that are replaced by their Python source

    def __enter__(self) -> RecordingSession:
        # seconds to wait for the end of a session of another thread
        if not lock.acquire(timeout=600.0):
            raise RuntimeError("another trace in this process has not ended after 600 s")
        try:
            self._patch_generators()
            self._patch_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self.patches.close()
        lock.release()
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
            STATE + name[len(GENERATOR) :]: p
            for name, p in table.items()
            if name.startswith(GENERATOR)
        }
        for name, original in recorded_methods({**shared, **table}).items():
            primitive = table.get(name) or Primitive(name, shared[name].entry, True)
            self.sources[name] = BoundPrimitive(self, primitive, original, _write_to_out)
            self.patched.add(name)
        for kind, traced_kind in (("Generator", TracedGenerator), ("RandomState", TracedState)):
            self.patches.callback(replaced(np.random, kind, traced_kind))
        self._replace(numpy_replacements(), KINDS)

    def _patch_all(self) -> None:
        """Patch every primitive that exists and is not patched yet."""
        replacements = []
        for primitive, required in self.primitives:
            name = primitive.name
            is_loaded = required or name.partition(".")[0] in sys.modules
            if name in self.patched or not is_loaded:
                continue
            try:
                replacements += self._patch(primitive, required)
                self.patched.add(name)
            except WrongPrimitive:
                if required:
                    raise  # otherwise, another release of the library
        if replacements:
            self._replace(replacements)

    def _patch(self, primitive: Primitive, required: bool) -> list[tuple[Any, Any]]:
        """Patch a primitive, and return objects and their replacements. Raise WrongPrimitive if it
        does not exist or cannot be replaced.
        """
        name = primitive.name
        if name.startswith((GENERATOR, STATE)):
            raise WrongPrimitive(
                f"primitives: {name!r} is compiled and always recorded; name the function that "
                "calls it instead"
            )
        holder, attribute, found = resolve(name, self.home, required)
        raw = inspect.getattr_static(holder, attribute, found)
        wrapper: Any = None
        if isinstance(holder, type) and isinstance(raw, (staticmethod, classmethod)):
            wrapper, found = type(raw), raw.__func__
        in_place = name.startswith("torch.Tensor.") and name.endswith("_")
        made = BoundPrimitive(self, primitive, found, _write_to_self if in_place else None)
        primitive.check(made.names)
        call = _recording_call(made)
        original = getattr(holder, attribute)
        try:
            self.patches.callback(
                replaced(holder, attribute, call if wrapper is None else wrapper(call))
            )
        except (TypeError, AttributeError):
            raise WrongPrimitive(
                f"primitives: {name!r} belongs to a compiled class and cannot be replaced; name "
                "the Python function or method that calls it, or one that you write around it"
            ) from None
        # the functions of `random` are methods of one generator, bound before the patch
        if name.startswith("random.Random.") and hasattr(random, attribute):
            bound = getattr(random, attribute), getattr(random._inst, attribute)
            return [(original, call), bound]
        return [(original, call)]

    def _replace(
        self, replacements: list[tuple[Any, Any]], kinds: frozenset[int] = frozenset()
    ) -> None:
        """Replace objects, and generators of these classes, wherever modules, the object of the
        mechanism and its closure refer to them, in one pass over all modules.
        """
        new = {id(old): found for old, found in replacements}
        held = list(attributes({*new, *kinds}))
        owner = getattr(self.run, "__self__", None)
        held += [(owner, name, value) for name, value in getattr(owner, "__dict__", {}).items()]
        for cell in getattr(getattr(self.run, "__func__", self.run), "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # the cell is empty
                held.append((cell, "cell_contents", cell.cell_contents))
        for holder, name, value in held:
            found = new.get(id(value))
            if found is None and getattr(holder, "__name__", "").partition(".")[0] != "numpy":
                found = traced(value)
            if found is not None:
                # attributes of a frozen dataclass cannot be replaced
                with contextlib.suppress(AttributeError, TypeError):
                    self.patches.callback(replaced(holder, name, found))

    def uncompile(self) -> bool:
        """Replace functions compiled by Numba by their Python source. Return False if there are
        none or they are already replaced.
        """
        dispatcher = getattr(sys.modules.get("numba.core.dispatcher"), "Dispatcher", None)
        if dispatcher is None or self.kernels:
            return False
        kinds = {id(kind) for kind in (dispatcher, *dispatcher.__subclasses__())}
        for module, name, value in list(attributes(kinds)):
            if isinstance(value, dispatcher) and module.__name__.partition(".")[0] != "numba":
                self.kernels.append(value)
                self.patches.callback(replaced(module, name, value.py_func))
        return bool(self.kernels)

    def record(self, dataset: Any, seed: int) -> dict[str, Any]:
        """Run on a dataset, and record its calls and draws under the number ``key`` of
        the result.
        """
        self._patch_all()  # the run before may have imported modules with primitives
        before = len(sys.modules)
        recorder, output, seconds = self._run_once(dataset, seed)
        # the imported modules may contain primitives, and importing them may have drawn
        if len(sys.modules) > before and not self.recorders:
            self._patch_all()
            recorder, output, seconds = self._run_once(dataset, seed)
        key = len(self.recorders)
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
        recorder, output, seconds = self._run_once(
            dataset, seed, recorded, dict(shifts or ()), left_out
        )
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
        report = set()
        again = [self.recorders[key].calls for key in others]
        for i, call in enumerate(self.recorders[first].calls):
            numbers, _ = leaves(call.output) if call.primitive.source else (np.zeros(0), [])
            is_real = (numbers != np.round(numbers)).any()
            is_varied = is_real or (numbers.size > 8 and np.unique(numbers).size > 4)
            if is_varied and all(
                len(calls) > i and not difference(calls[i].output, call.output) for calls in again
            ):
                report.add(f"{call.primitive.name} at {place_of(call.where)}")
        return sorted(report)

    def varies(self, first: int, others: list[int], left_out: Any = None) -> list[list[Any]]:
        """Return the kinds and places in which recordings differ from the first one in more than
        the drawn values.
        """
        found: set[tuple[str, int]] = set()
        recorded = self.recorders[first].calls
        for key in others:
            again = self.recorders[key].calls
            if len(recorded) != len(again):
                found.add(("calls", min(len(recorded), len(again))))
            for index, (then, call) in enumerate(zip(recorded, again)):
                if then.primitive.name != call.primitive.name:
                    found.add(("calls", index))
                    break
                if without_record(then, call, left_out) is None:
                    found.update((kind, index) for kind, _ in compared(then, call))
        return [list(each) for each in sorted(found)][:10_000]

    def _run_once(self, dataset: Any, seed: int, *played: Any) -> tuple[Recorder, Any, float]:
        """Run once, and replay `played`, the record, shifts and left-out record of a `Recorder`.
        Return the recorder, the output and the CPU time in seconds.
        """
        recorder = Recorder(self, time.monotonic() + self.time_limit, *played)
        words = np.random.SeedSequence(seed).generate_state(4).tolist()
        global_generators.seed(words)
        recorder.words = words
        rng = TracedGenerator(np.random.SFC64(np.random.SeedSequence(words)))
        dataset = copy.deepcopy(dataset)
        begin = time.process_time()
        try:
            with running(recorder), stopped_after(self.time_limit):
                output = copied(self.run(dataset, 1, rng))
        except (Exception, SystemExit, GeneratorExit) as error:
            output = RaisedText(type(error).__name__)
            with contextlib.suppress(Exception):  # the text of an exception may raise
                output = RaisedText(f"{type(error).__name__}: {error}")
        return recorder, output, time.process_time() - begin

    def past(self, key: int, dataset: Any, seed: int) -> list[str]:
        """Return the generators that a replayed run still draws from, bypassing the primitives."""
        # by `type`: a dead weak proxy raises on access to its class
        kinds, own = (np.random.BitGenerator, random.Random), getattr(random, "_inst", None)
        known = [
            g
            for g in gc.get_objects()
            if issubclass(type(g), kinds)
            and g is not own
            and not isinstance(g, random.SystemRandom)
        ]
        global_generators.seed(np.random.SeedSequence(seed).generate_state(4).tolist())
        before, states = global_generators.snapshot(), [_generator_state(g) for g in known]
        self._run_once(dataset, seed, self.recorders[key])
        after = global_generators.snapshot()
        report = {f"the generator of {k}" for k in before if difference(before[k], after.get(k))}
        report.update(
            f"a {type(found).__name__}{_name_in_use(found)}"
            for found, state in zip(known, states)
            if difference(state, _generator_state(found))
        )
        return sorted(report)[:8]


def _name_in_use(found: Any) -> str:
    """Return the name under which a dict, such as the attributes of an object, holds an object."""
    holders = [each for each in gc.get_referrers(found) if isinstance(each, dict)]
    names = [key for each in holders for key, value in each.items() if value is found]
    return "".join([f" kept as {name!r}" for name in names if isinstance(name, str)][:1])


def _recording_call(made: BoundPrimitive) -> Callable[..., Any]:
    """Return the function that replaces a primitive. A call is recorded if this thread's run
    belongs to the session that made the patch.
    """

    @functools.wraps(made.original)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = here.recorder
        if recorder is None or recorder.owner is not made.owner:
            return made.original(*args, **kwargs)
        return recorder.call(made, args, kwargs)

    return call


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


def _write_to_self(output: Any, args: Any, kwargs: Any) -> Any:
    """Return a recorded output, written to the tensor whose in-place method was called."""
    args[0].copy_(output)
    return args[0]
