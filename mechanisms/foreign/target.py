"""Targets: functions of a target file, run in worker processes of the interpreter that their library needs; and programs in any language.

What a **program** says and is asked stands in docs/reference/protocol.md.

A **target file** is plain Python that imports NumPy, the library under test and nothing of dpwitness. Its targets are functions
``name(dataset, size, rng)`` with an attribute `claim`; ``rng`` is a `numpy.random.Generator` of the worker's NumPy::

    LIBRARY = "diffprivlib"              # optional: the distribution whose version is reported
    TESTED = ">=0.6.6,<0.7"              # optional: other versions are run with a warning
    INSTALL = "pip install diffprivlib"  # optional: shown where the library is missing

    def laplace(dataset, size, rng):     # returns an array (size,) or (size, k), or a list of `size` outputs of any kind; may raise
        ...

    laplace.claim = "pure:1"             # text as `parse_claim` takes it, or a function without arguments that returns such text
    laplace.domain = {"kind": "Records", "size": 1, "low": 0.0, "high": 1.0, "relation": "replace-one"}
    laplace.seeded = True                # optional: False if the library cannot take a seed
    laplace.expected_failures = {}       # optional: names of checks that are known to fail, with the reason
    laplace.primitives = {"mine.add_noise": {"law": "laplace", "input": "value"}}   # optional: noise that `trace` is to record, see there
    laplace.expected_findings = {}       # optional: kinds of findings of a trace that are no fault, with the reason
    laplace.batch = 64                   # optional: most runs in one batch, for slow targets
    laplace.trials = 20_000              # optional: runs of one audit where nobody says how many
    laplace.features = np.abs            # optional: numbers of outputs that may tell datasets apart, for events to use

`domain` names a class of `dpwitness.mechanisms.domains` and its arguments. Datasets arrive as NumPy arrays, lists, tuples, dicts and
scalars; a dataset class of dpwitness arrives as the dict of its fields. The dataset is a fresh copy in every batch and must be left as
it is.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dpwitness.mechanisms.core.json_codec import from_jsonable
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument, require
from dpwitness.mechanisms.foreign.inside import codec, global_generators
from dpwitness.mechanisms.foreign.manifest import Described
from dpwitness.mechanisms.foreign.program import Command, Misspoke, joined, script_of, sent_as, slot_of_command
from dpwitness.mechanisms.foreign.python_worker import Interpreter
from dpwitness.mechanisms.foreign.python_worker import sent_as as packed_as
from dpwitness.mechanisms.foreign.worker_pool import SENT, TargetError, loaded, slot_of
from dpwitness.mechanisms.foreign.worker_process import P, Slot, TookTooLong, WorkerDied, borrow, close_all
from dpwitness.mechanisms.protocols.mechanism import MechanismFailed, Parts

Answer = TypeVar("Answer")


@dataclasses.dataclass(frozen=True, eq=False)
class Target(Described):
    """A mechanism that runs in its own interpreter, or is a program of its own.

    Parameters
    ----------
    file : str
        A target file (``.py``), an adapter that comes with dpwitness (``diffprivlib``), or a module that the interpreter can import.
    name : str
        A function in it.
    python : str, optional
        The interpreter, by path, or the name of an environment made by ``dpwitness targets setup``. Default: the adapter's environment,
        or this interpreter.
    kwargs : dict
        Keyword arguments of the function.
    time_limit : float
        Seconds that one batch may take; a slow target's batches may take ten times what its runs before them took.
    memory_limit : float
        Gigabytes of address space of each worker; 0 for no limit.
    command : list of str
        Instead of `file` and `name`, a program that speaks the protocol of docs/reference/protocol.md, with its arguments.
        No shell reads it.
    cwd : str, optional
        The folder in which the program runs; the current one if left out.
    text : {"", "batch", "one"}
        For a program that speaks no protocol and prints one output a line: it is started anew for each batch of runs, or for each one.
        Its arguments may hold ``{size}``, ``{seed}`` and ``{dataset}``, its environment holds DPWITNESS_SIZE, DPWITNESS_SEED and
        DPWITNESS_DATASET.

    Notes
    -----
    Each thread that calls `sample` gets a worker process of its own: with a ``ThreadPoolExecutor(K)`` K of them work side by side.

    A worker that crashes is replaced and its batch done once more, with the same seed; then MechanismFailed names the signal.

    Examples
    --------
    >>> target = Target("mine.py", "noisy_sum", python="/opt/old/bin/python")     # doctest: +SKIP
    >>> dpwitness.audit(target)                                                  # doctest: +SKIP
    >>> Target(command=["./my_mechanism"])                                       # doctest: +SKIP
    """

    file: str = ""
    name: str = ""
    python: str | None = None
    kwargs: Json = dataclasses.field(default_factory=dict)
    time_limit: float = 300.0
    memory_limit: float = 0.0
    command: Sequence[str] = ()
    cwd: str | None = None
    text: str = ""
    _state: _State = dataclasses.field(default_factory=lambda: _State(), init=False, repr=False)

    def __post_init__(self) -> None:
        require(self).positive("time_limit").nonnegative("memory_limit").one_of("text", ("", "batch", "one"))
        if len(self.command):
            self._check_command()
            return
        for field, what in (("cwd", self.cwd), ("text", self.text)):
            if what:
                raise InvalidArgument(f"Target: {field} is for programs: it needs a command, got {what!r}")
        for field in ("file", "name"):
            if not isinstance(getattr(self, field), str) or not getattr(self, field):
                raise InvalidArgument(f"Target: {field} must be a non-empty text, got {getattr(self, field)!r}")
        if self.file.endswith(".py"):  # a witness is replayed from anywhere
            object.__setattr__(self, "file", os.path.abspath(os.path.expanduser(self.file)))
        if self.python is not None and os.sep in self.python:
            object.__setattr__(self, "python", os.path.abspath(os.path.expanduser(self.python)))

    def _check_command(self) -> None:
        given = self.command
        if isinstance(given, str) or not all(isinstance(part, str) and "\0" not in part for part in given) or not given[0]:
            raise InvalidArgument(f"Target: command must be a list of texts, the program first, got {given!r}")
        if self.file or self.name or self.python or self.kwargs:
            raise InvalidArgument("Target: command stands alone: leave out file, name, python and kwargs; a program's arguments are in it")
        if self.cwd is not None and not os.path.isdir(os.path.expanduser(self.cwd)) and not SENT.get().here:
            raise InvalidArgument(f"Target: cwd must be a folder, got {self.cwd!r}")
        object.__setattr__(self, "command", tuple(given))
        object.__setattr__(self, "cwd", os.path.abspath(os.path.expanduser(self.cwd or "")))

    def __reduce__(self) -> Any:
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.init)

    @property
    def __name__(self) -> str:
        if self.command:
            return (script_of(self.command, self.cwd or "") or Path(self.command[0])).name
        return f"{Path(self.file).stem}:{self.name}"

    def sample(self, dataset: Any, size: int, rng: np.random.Generator) -> Any:
        """Run `size` times in a worker process: what the function returns, types that are not built in as stand-ins of the same name.

        Raises
        ------
        MechanismFailed
            If the worker crashes twice, takes too long, runs out of memory, or changes the dataset.
        Exception
            What the call raised, as a stand-in of the same name and text. Nothing is run again.
        """
        if self.command:
            (answer,) = self._run(dataset, [size], rng)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return self._read(*self._sample(dataset, size, rng))

    def sample_each(self, dataset: Any, size: int, rng: np.random.Generator) -> Any:
        """Run `size` times, one run at a time: what each returned or raised, in order."""
        if self.command:
            return Parts(joined(self._run(dataset, [1] * size, rng)))
        return self._read(*self._sample(dataset, size, rng, each=True))

    def _read(self, reply: Json, blobs: codec.Blobs) -> Any:
        """What a worker's answer holds; raises what the call raised."""
        try:
            found = {key: codec.unpack(reply[key], blobs) for key in ("raised", "parts", "value") if key in reply}
        except Exception as error:  # not of the mechanism, and so no output
            raise MechanismFailed(f"the worker's answer cannot be read: {type(error).__name__}: {error}") from None
        if "raised" in found:
            raise found["raised"]
        return Parts(found["parts"]) if "parts" in found else found["value"]

    def draws(self, dataset: Any, size: int, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
        """How many 64-bit words each of `size` single runs takes from its generator: (size,); 0 for a program, which has its own."""
        if self.command:
            return np.zeros(size, dtype=np.int64)
        return np.asarray(self._sample(dataset, size, rng, each=True)[0]["draws"], dtype=np.int64)

    def words(self, dataset: Any, size: int, rng: np.random.Generator) -> int:
        """How many 64-bit words one batch of `size` runs takes from its generator; 0 for a program."""
        return 0 if self.command else int(self._sample(dataset, size, rng)[0]["words"])

    @property
    def features(self) -> Callable[[Any], Any]:
        """The scores that the function, or its class, suggests by an attribute of this name. Raises AttributeError where it has none."""
        if not self.describe()["features"]:
            raise AttributeError("features")
        return self._features

    def _features(self, outputs: Any) -> Any:
        sent: codec.Blobs = []
        request = {
            "op": "features",
            "name": self.name,
            "kwargs": codec.pack(self._plain_kwargs(), []),
            "outputs": codec.pack(outputs, sent),
        }
        try:
            with borrow(self._slot, self.time_limit) as worker:
                reply, blobs = worker.ask(request, sent, self.time_limit)
        except (TookTooLong, WorkerDied) as error:
            raise MechanismFailed(f"features of {len(outputs)} outputs: the worker process {error}") from None
        if "failed" in reply or "error" in reply:
            raise MechanismFailed(reply.get("failed") or reply["error"])
        return self._read(reply, blobs)

    @property
    def warned(self) -> tuple[str, ...]:
        """What its first batches have warned of so far, each once."""
        return tuple(self._state.warned)

    @property
    def cpu_seconds(self) -> float:
        """Processor time that the function itself has taken in this process' batches so far."""
        return float(self._state.cpu)

    def describe(self) -> Json:
        """All that the target file says: library, version, tested, install, claim, domain, seeded, doc, and the interpreter's versions.

        Raises
        ------
        TargetError
            If the interpreter, the library, the file or the name is missing, or the file raises.
        """
        state = self._state
        with state.lock:
            if state.about is None:
                state.about = self._hello() if self.command else self._describe()
            return state.about

    def state(self, claim: str | None, domain: Json | None) -> None:
        """What the program does not say of itself, said by whoever runs it."""
        stated = {"claim": claim, "domain": domain}
        self.describe().update({key: value for key, value in stated.items() if value is not None})

    def _hello(self) -> Json:
        try:
            with borrow(self.slot_of_program, self.time_limit) as worker:
                return worker.about
        except WorkerDied as error:
            raise TargetError(f"{self.__name__} {error}") from None
        except InvalidArgument as error:
            raise TargetError(str(error)) from None

    def recognize(self, dataset: Any = None) -> Json:
        """Return the form, the name and a sentence on how the function or class is run; a trial call on `dataset` decides where it must."""
        sent: codec.Blobs = []
        request = {"op": "recognize", "name": self.name, "kwargs": codec.pack(self._plain_kwargs(), sent)}
        request["dataset"] = codec.pack(dataset, sent)
        with loaded(self._slot, self.time_limit) as worker:
            try:
                reply, _ = worker.ask(request, sent, self.time_limit)
            except (TookTooLong, WorkerDied) as error:
                raise TargetError(f"{self.__name__} could not be tried: the worker process {error}") from None
        if "error" in reply:
            raise TargetError(reply["error"], reply["traceback"])
        return reply

    def _describe(self) -> Json:
        request = {"op": "describe", "name": self.name, "kwargs": codec.pack(self._plain_kwargs(), [])}
        with loaded(self._slot, self.time_limit) as worker:
            try:
                reply, blobs = worker.ask(request, [], self.time_limit)
            except WorkerDied as error:
                raise TargetError(f"{self.__name__} could not be described: the worker process {error}") from None
            about = worker.loaded | worker.versions | reply
        if "error" in reply:
            raise TargetError(
                f"{reply.get('what', self.__name__)}: {reply['error']}".removeprefix(f"{self.__name__}: "), reply["traceback"]
            )
        about["domain"], about["queries"] = codec.unpack(about["domain"], blobs), codec.unpack(about["queries"], blobs)
        return about

    def _sent(self, dataset: Any) -> Any:
        """A dataset as the function gets it: a target file knows nothing of dpwitness."""
        return _plain(dataset)

    def _plain_kwargs(self) -> Json:
        return {key: from_jsonable(value) for key, value in self.kwargs.items()}

    def close(self) -> None:
        """Kill the workers of this target, busy ones too: their batches fail. The next call starts new ones."""
        self._state.closed += 1
        close_all(self.slot_of_program if self.command else self._slot)

    @property
    def _slot(self) -> Interpreter:
        if self.command:
            raise InvalidArgument(f"{self.__name__} is a program: only Python can be looked into")
        if self._state.slot is None:
            self._state.slot = slot_of(self.file, self.python, self.memory_limit)
        return self._state.slot

    @property
    def slot_of_program(self) -> Command:
        """What is run, of a target that is a program."""
        return slot_of_command(self.command, self.cwd or "", self.memory_limit, self.text)

    def _run(self, dataset: Any, sizes: list[int], rng: np.random.Generator) -> list[Any]:
        """What a program answers to batches of these sizes: arrays, lists, and what was raised."""
        seeds = rng.integers(2**32, size=(len(sizes), 4), dtype=np.uint32).tolist()
        sent = sent_as(_plain(dataset))
        return self._asked(sum(sizes), self.slot_of_program, lambda worker, limit: worker.run(sent, sizes, seeds, limit))

    def _sample(self, dataset: Any, size: int, rng: np.random.Generator, each: bool = False) -> tuple[Json, codec.Blobs]:
        # the generator itself goes to the worker and comes back: what is drawn is what would be drawn here
        seed = global_generators.words_of(rng)
        sent = packed_as(self._sent(dataset))
        request = {
            "op": "sample",
            "name": self.name,
            "kwargs": codec.pack(self._plain_kwargs(), []),
            "size": size,
            "seed": seed,
            "each": each,
        }
        if hasattr(np.random, rng.bit_generator.state["bit_generator"]):
            request["rng"] = codec.words(rng.bit_generator.state)

        def ask(worker: Any, limit: float) -> tuple[Json, codec.Blobs]:
            if "error" in worker.loaded:
                raise MechanismFailed(f"a worker could not load the target again: {worker.loaded['error']}")
            part, blobs = worker.dataset(sent)
            found: tuple[Json, codec.Blobs] = worker.ask(request | part, blobs, limit)
            return found

        reply, found = self._asked(size, self._slot, ask)
        if "failed" in reply or "error" in reply:
            raise MechanismFailed(reply.get("failed") or reply["error"])
        self._state.add(reply["cpu"])
        self._state.warned.update(dict.fromkeys(reply["warned"]))
        if "rng" in reply:
            rng.bit_generator.state = codec.unworded(reply["rng"])
        return reply, found

    def _asked(self, size: int, slot: Slot[P], ask: Callable[[P, float], Answer]) -> Answer:
        """What a worker answers; one that dies is replaced, and its batch done once more, with the same seed."""
        died, limit, closed = "", self._state.limit(self.time_limit, size), self._state.closed
        for attempt in range(2):
            try:
                with borrow(slot, self.time_limit, fresh=attempt > 0) as worker:
                    started = time.perf_counter()
                    found = ask(worker, limit)
                    self._state.took(time.perf_counter() - started, size)
                    return found
            except TookTooLong as error:
                raise MechanismFailed(f"a batch of {size} runs {error}") from None
            except Misspoke as error:
                raise MechanismFailed(f"{self.__name__} {error} (a batch of {size} runs)") from None
            except WorkerDied as error:
                died = str(error)
                if self._state.closed > closed:
                    raise MechanismFailed("the target was closed while it ran a batch") from None
            except InvalidArgument as error:
                raise MechanismFailed(str(error)) from None
        raise MechanismFailed(f"the worker process {died} (a batch of {size} runs, tried twice with the same seed)")


class Isolated(Target):
    """A mechanism of this interpreter, kept apart from this process: it gets datasets as they are, and draws what it would draw here."""

    @property
    def plain(self) -> bool:
        """Whether it is written as target files are, which know nothing of dpwitness."""
        return bool(self.describe()["plain"])

    @property
    def density(self) -> bool:
        """Whether it has a method `log_density`, which is only used in this process."""
        return bool(self.describe()["density"])

    def _sent(self, dataset: Any) -> Any:
        return dataset


class _State:
    """What a target has found out, and what it has spent."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.about: Json | None = None
        self.slot: Interpreter | None = None
        self.cpu = 0.0
        self.seconds = 0.0
        self.runs = 0
        self.closed = 0  # times
        self.warned: dict[str, None] = {}

    def limit(self, least: float, size: int) -> float:
        """Seconds that a batch may take: what the user allows, or ten times what runs have taken so far if that is more."""
        with self.lock:
            return max(least, 10 * self.seconds * size / max(self.runs, 1))

    def took(self, seconds: float, runs: int) -> None:
        with self.lock:
            self.seconds += seconds
            self.runs += runs

    def add(self, seconds: float) -> None:
        with self.lock:
            self.cpu += seconds


def _plain(dataset: Any) -> Any:
    """Dataset classes as dicts of their fields: the worker has no dpwitness."""
    if dataclasses.is_dataclass(dataset) and not isinstance(dataset, type):
        return {field.name: _plain(getattr(dataset, field.name)) for field in dataclasses.fields(dataset)}
    return dataset
