"""Targets: functions of a target file, run in worker processes of the interpreter that their
library needs, and programs in any language.

The messages of a **program** are described in docs/reference/protocol.md.

A **target file** is plain Python that imports NumPy and the library under test, but not dpwitness.
Its targets are functions ``name(dataset, size, rng)`` with an attribute `claim`; ``rng`` is a
`numpy.random.Generator` of the worker's NumPy::

    LIBRARY = "diffprivlib"              # optional: distribution whose version is reported

    def laplace(dataset, size, rng):     # an array (size,) or (size, k), or a list of outputs
        ...

    laplace.claim = "pure:1"             # text for `parse_claim`, or a function that returns it
    laplace.domain = {"kind": "Records", "size": 1, "low": 0.0, "high": 1.0}
    laplace.seeded = True                # optional: False if the library cannot take a seed
    laplace.expected_failures = {}       # optional: checks that are known to fail, with reasons
    laplace.primitives = {"mine.add_noise": {"law": "laplace", "input": "value"}}
                                         # optional: noise functions that `trace` records
    laplace.expected_findings = {}       # optional: kinds of findings of a trace that are not
                                         # faults, with reasons
    laplace.batch = 64                   # optional: most runs in one batch, for slow targets
    laplace.trials = 20_000              # optional: default number of runs of one audit
    laplace.guessed = "..."              # optional: guess of a scan; a violation is then SUSPECT
    laplace.features = np.abs            # optional: statistics of outputs, for events

`domain` names a class of `dpwitness.core.domains` and its arguments, or is the place of a domain
in another file, ``"relations.py:near"``, which is read where dpwitness is installed. Datasets are
passed as NumPy arrays, lists, tuples, dicts and scalars; a dataset class of dpwitness is passed as
the dict of its fields. The dataset is a fresh copy in every batch and must not be changed.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import runpy
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dpwitness.core import domains
from dpwitness.core.claims import Claim, parse_claim
from dpwitness.core.protocols import ForeignMechanism, MechanismFailed, Parts, TookTooLong
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, require, require_rules, short_repr
from dpwitness.mechanisms.wrappers.programs.inside import codec
from dpwitness.mechanisms.wrappers.programs.inside.target_runs import joined
from dpwitness.mechanisms.wrappers.programs.program import (
    ProgramSlot,
    command_script,
    plain_fields,
    program_note,
    sent_as,
)
from dpwitness.mechanisms.wrappers.programs.worker_pool import (
    Interpreter,
    InterpreterWorker,
    TargetError,
    answer_of,
    interpreter_slot,
    packed_as,
)
from dpwitness.mechanisms.wrappers.programs.worker_process import (
    P,
    ProtocolViolation,
    Slot,
    WorkerDied,
    WorkerTimeout,
    borrowed_worker,
    close_all,
)
from dpwitness.mechanisms.wrappers.recording import global_generators

Answer = TypeVar("Answer")


@dataclasses.dataclass(slots=True)
class TargetState:
    """State of a target that its threads share."""

    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    seconds: float = 0.0
    runs: int = 0
    closed: int = 0  # number of calls of `close`
    warned: dict[str, None] = dataclasses.field(default_factory=dict)


# declarations that are attributes of a target: whether the library takes a seed; names of checks
# and kinds of trace findings that are known to fail, with the reasons; parts that a scan has
# guessed; the largest batch, and the default number of runs, or None; whether the function is
# written without dpwitness, as target files are; whether it has a method `log_density`
_DECLARED = (
    *("seeded", "expected_failures", "expected_findings", "guessed", "batch", "trials"),
    *("plain", "density"),
)


@dataclasses.dataclass(frozen=True, eq=False)
class Target(ForeignMechanism):
    """Mechanism that runs in a separate interpreter, or is a separate program.

    Parameters
    ----------
    file : str
        A target file (``.py``), an adapter that is part of dpwitness (``diffprivlib``), or a module
        that the interpreter can import.
    name : str
        A function of this file.
    python : str, optional
        Path of the interpreter, or name of an environment made by ``dpwitness targets setup``.
        Default: the adapter's environment, or this interpreter.
    kwargs : dict
        Keyword arguments of the function.
    time_limit : float
        Time limit of one batch in seconds. Batches of a slow target may take ten times as long as
        its previous runs predict.
    memory_limit : float
        Address space of each worker in gigabytes; 0 for no limit.
    command : list of str
        A program that speaks the protocol of docs/reference/protocol.md, with its arguments,
        instead of `file` and `name`. The command is run without a shell.
    cwd : str, optional
        Working directory of the program. Default: the current directory.
    text : {"", "batch", "one"}
        For a program without the protocol that prints one output per line: "batch" starts the
        program for each batch of runs, "one" for each run. Its arguments may contain ``{size}``,
        ``{seed}`` and ``{dataset}``; its environment has DPWITNESS_SIZE, DPWITNESS_SEED and
        DPWITNESS_DATASET.

    Raises
    ------
    InvalidArgument
        If an argument is invalid, or arguments for files and for programs are combined.

    Notes
    -----
    Each thread that calls `sample` has its own worker process: with a ``ThreadPoolExecutor(K)``, K
    workers run in parallel.

    A worker that crashes is replaced, and its batch is run once more with the same seed. A second
    crash raises MechanismFailed, which names the signal.

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
    _state: TargetState = dataclasses.field(default_factory=TargetState, init=False, repr=False)

    def __post_init__(self) -> None:
        require(self).positive("time_limit").nonnegative("memory_limit").one_of(
            "text", ("", "batch", "one")
        )
        if not len(self.command):
            self._use_file()
            return
        argv = self.command
        folder = os.path.abspath(os.path.expanduser(self.cwd or ""))
        texts = [part for part in argv if isinstance(part, str) and not isinstance(argv, str)]
        is_command = len(texts) == len(argv) and texts[0] and "\0" not in "".join(texts)
        others = [key for key in ("file", "name", "python", "kwargs") if getattr(self, key)]
        require_rules(
            "Target",
            (is_command, "command must be a list of texts, the program first", argv),
            (
                not others,
                "command excludes file, name, python and kwargs: leave them out; put a program's "
                "arguments in command",
                others,
            ),
            (os.path.isdir(folder), "cwd must be a folder", self.cwd),
        )
        object.__setattr__(self, "command", tuple(argv))
        object.__setattr__(self, "cwd", folder)

    def _use_file(self) -> None:
        """Check the fields of a target that is a function of a file."""
        program = {"cwd": self.cwd, "text": self.text}
        function = {"file": self.file, "name": self.name}
        require_rules(
            "Target",
            *(
                (not value, f"{key} is for programs only: give a command, or leave it out", value)
                for key, value in program.items()
            ),
            *(
                (isinstance(value, str) and value, f"{key} must be a non-empty text", value)
                for key, value in function.items()
            ),
        )
        # absolute, because a witness may be replayed from another folder
        if self.file.endswith(".py"):
            object.__setattr__(self, "file", os.path.abspath(os.path.expanduser(self.file)))
        if self.python is not None and os.sep in self.python:
            object.__setattr__(self, "python", os.path.abspath(os.path.expanduser(self.python)))

    def __reduce__(self) -> Any:
        return type(self), tuple(
            getattr(self, field.name) for field in dataclasses.fields(self) if field.init
        )

    @property
    def __name__(self) -> str:
        if self.command:
            return self.slot_of_program.name
        return f"{Path(self.file).stem}:{self.name}"

    @property
    def source_file(self) -> Path | None:
        """The target file, or the script of a program; None if unknown."""
        if self.command:
            return command_script(self.command, self.cwd or "")
        return Path(self.file) if self.file.endswith(".py") else None

    def sample(self, dataset: Any, size: int, rng: np.random.Generator) -> Any:
        """Return the outputs of `size` runs in a worker process. Objects of non-built-in types are
        stand-ins with the same class name.

        Raises
        ------
        MechanismFailed
            If the worker crashes twice, takes too long, runs out of memory, or changes the dataset.
        Exception
            The exception of the call, as a stand-in with the same class name and text. Nothing is
            run again.
        """
        if self.command:
            (answer,) = self._run(dataset, [size], rng)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return self._read(*self._sample(dataset, size, rng))

    def sample_each(self, dataset: Any, size: int, rng: np.random.Generator) -> Any:
        """Return the outputs or exceptions of `size` single runs, in order."""
        if self.command:
            answers = self._run(dataset, [1] * size, rng)
            return Parts(joined([[a] if isinstance(a, Exception) else a for a in answers]))
        return self._read(*self._sample(dataset, size, rng, each=True))

    def _read(self, reply: Json, blobs: codec.Blobs) -> Any:
        """Return the content of a worker's answer. Raise the exception that the call raised."""
        if "failed" in reply or "error" in reply:
            raise MechanismFailed(reply.get("failed") or reply["error"])
        try:
            key = next(key for key in ("raised", "parts", "value") if key in reply)
            found = codec.unpack(reply[key], blobs)
        except Exception as error:  # not of the mechanism, and so no output
            raise MechanismFailed(
                f"the worker's answer cannot be read: {type(error).__name__}: {error}"
            ) from None
        if key == "raised":
            raise found
        return Parts(found) if key == "parts" else found

    def draws(
        self, dataset: Any, size: int, rng: np.random.Generator
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the number of 64-bit words that each of `size` single runs draws from its
        generator: (size,).

        The counts are 0 for a program, which has its own generator.
        """
        if self.command:
            return np.zeros(size, dtype=np.int64)
        return np.asarray(self._sample(dataset, size, rng, each=True)[0]["draws"], dtype=np.int64)

    @property
    def features(self) -> Callable[[Any], Any]:
        """Statistics of outputs that the function or its class suggests by its attribute
        `features`. Raises AttributeError if none.
        """
        if not self.describe()["features"]:
            raise AttributeError("features")
        return self._features

    def _features(self, outputs: Any) -> Any:
        sent: codec.Blobs = []
        request = self._request("features") | {"outputs": codec.pack(outputs, sent)}
        reply, blobs = self._ask_worker(
            len(outputs), self._slot, lambda worker, limit: worker.ask(request, sent, limit)
        )
        return self._read(reply, blobs)

    def last_output(self) -> str:
        """Return the last lines that a program has printed to standard error, as a suffix for a
        message; empty for a function of a file.
        """
        if not self.command:
            return ""
        with borrowed_worker(self.slot_of_program, self.time_limit) as program:
            return program.last_output()

    @property
    def warned(self) -> tuple[str, ...]:
        """Distinct warnings of the first batches so far."""
        return tuple(self._state.warned)

    def describe(self) -> Json:
        """Return all declarations of the target file, and the versions of its interpreter and
        NumPy.

        The keys are library, version, claim, domain, seeded, doc and the other attributes of a
        target.

        Raises
        ------
        TargetError
            If the interpreter, the library, the file or the name is missing, or the file raises.
        """
        return self._description

    @functools.cached_property
    def _description(self) -> Json:
        if self.command:
            with borrowed_worker(self.slot_of_program, self.time_limit) as program:
                return program.about
        problem = f"{self.__name__} could not be described"
        request = self._request("describe")
        reply, blobs, about = answer_of(self._slot, request, [], self.time_limit, problem)
        packed = {key: codec.unpack(reply[key], blobs) for key in ("domain", "queries")}
        return about | reply | packed

    @property
    def claim(self) -> Claim | None:
        """Claim of the target file. Raises TargetError if the library reports an invalid claim."""
        text = self.describe()["claim"]
        if text is None:
            return None
        try:
            return parse_claim(text)
        except InvalidArgument as error:
            raise TargetError(f"{self.__name__}: {error}") from None

    @property
    def domain(self) -> domains.Domain | None:
        """Declared domain, built from its kind and arguments, or read from the file that is named.
        Raise TargetError for a user-defined class.
        """
        found = self.describe()["domain"]
        if isinstance(found, str):
            return self._domain_of_file(found)
        if found is not None and "own" in found:
            raise TargetError(
                f"{self.__name__}: its domain is a user-defined class, {found['own']}; define it "
                f'in another file, and name it: {self.name}.domain = "FILE.py:NAME"'
            )
        return None if found is None else domains.build_domain(found, self.__name__)

    def _domain_of_file(self, place: str) -> domains.Domain:
        """Return the domain at FILE.py:NAME, which runs in this process; the file is relative to
        the folder of the target file.
        """
        file, _, name = place.rpartition(":")
        path = Path(self.file).parent / file
        found = runpy.run_path(str(path)).get(name) if path.is_file() else None
        if not isinstance(found, domains.Domain):
            raise TargetError(
                f"{self.__name__}: domain must name a domain or a dpwitness.domains.Relation as "
                f"FILE.py:NAME, got {short_repr(place)}"
            )
        return found

    def __getattr__(self, name: str) -> Any:
        """Return a declaration of the target file, such as `seeded` or `trials` (`describe`)."""
        if name not in _DECLARED:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.describe()[name]

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for reports: library and version, and a library without seeds."""
        found = self.describe()
        notes = []
        if self.command:
            notes.append(program_note(found, self.text))
        elif found["library"]:
            notes.append(library_note(found))
        notes += found["notes"]
        if not found["seeded"]:
            notes.append(
                "not reproducible: the library takes no seed, so the same seed gives other counts"
            )
        return tuple(notes)

    def state(self, claim: str | None, domain: Json | None) -> None:
        """Set the claim and the domain that the user states for a program that declares none."""
        stated = {"claim": claim, "domain": domain}
        self.describe().update({key: value for key, value in stated.items() if value is not None})

    def recognize(self, dataset: Any = None) -> Json:
        """Return form and name of the function or class, and how it is run; a trial call on
        `dataset` decides between several forms.
        """
        sent: codec.Blobs = []
        request = self._request("recognize") | {"dataset": codec.pack(dataset, sent)}
        # minimum time for imports and a trial call, also on a loaded machine
        limit = max(self.time_limit, 30.0)  # imports are not a run
        tried = f"{self.__name__} could not be tried"
        reply, _, _ = answer_of(self._slot, request, sent, self.time_limit, tried, limit=limit)
        return reply

    def _sent(self, dataset: Any) -> Any:
        """Return a dataset as the function receives it: plain types, because a target file does not
        import dpwitness.
        """
        return plain_fields(dataset)

    def _request(self, op: str) -> Json:
        """Return a request for the worker, with the keyword arguments as plain values."""
        kwargs = {key: from_jsonable(value) for key, value in self.kwargs.items()}
        return {"op": op, "name": self.name, "kwargs": codec.pack(kwargs, None)}

    def close(self) -> None:
        """Kill the workers of this target. Batches of busy workers fail. The next call starts new
        workers.
        """
        self._state.closed += 1
        close_all(self.slot_of_program if self.command else self._slot)

    @functools.cached_property
    def _slot(self) -> Interpreter:
        """Worker slot of the target file."""
        if self.command:
            raise InvalidArgument(
                f"{self.__name__} is a program: only Python targets can be inspected"
            )
        return interpreter_slot(self.file, self.python, self.memory_limit)

    @property
    def slot_of_program(self) -> ProgramSlot:
        """Worker slot of a target that is a program."""
        memory = round(self.memory_limit * 2**30)
        return ProgramSlot(tuple(self.command), self.cwd or "", memory, self.text)

    def _run(self, dataset: Any, sizes: list[int], rng: np.random.Generator) -> list[Any]:
        """Return the answers of a program to batches of these sizes: arrays, lists and
        exceptions.
        """
        seeds = rng.integers(2**32, size=(len(sizes), 4), dtype=np.uint32).tolist()
        sent = sent_as(plain_fields(dataset))
        return self._ask_worker(
            sum(sizes),
            self.slot_of_program,
            lambda worker, limit: worker.run(sent, sizes, seeds, limit),
        )

    def _sample(
        self, dataset: Any, size: int, rng: np.random.Generator, each: bool = False
    ) -> tuple[Json, codec.Blobs]:
        # the generator itself goes to the worker and comes back: what is drawn is what would be
        # drawn here
        fields = self._request("sample") | {
            "size": size,
            "seed": global_generators.words_of(rng),
            "each": each,
            "rng": codec.pack(rng.bit_generator.state, None),
        }
        sent = packed_as(self._sent(dataset))

        def ask(worker: InterpreterWorker, limit: float) -> tuple[Json, codec.Blobs]:
            part, blobs = worker.dataset(sent)
            return worker.ask(fields | part, blobs, limit)

        reply, found = self._ask_worker(size, self._slot, ask)
        if "failed" in reply or "error" in reply:
            raise MechanismFailed(reply.get("failed") or reply["error"])
        self._state.warned.update(dict.fromkeys(reply["warned"]))
        rng.bit_generator.state = codec.unpack(reply["rng"], None)
        return reply, found

    def _ask_worker(self, size: int, slot: Slot[P], ask: Callable[[P, float], Answer]) -> Answer:
        """Return the answer of a worker. If the worker dies, run the batch once more in a new
        worker, with the same seed.
        """
        state = self._state
        with state.lock:  # ten times the mean time of previous runs, if that is longer
            limit = max(self.time_limit, 10 * state.seconds * size / max(state.runs, 1))
        crash, closed = "", state.closed
        for attempt in range(2):
            try:
                with borrowed_worker(slot, self.time_limit, fresh=attempt > 0) as worker:
                    started = time.perf_counter()
                    found = ask(worker, limit)
                with state.lock:
                    state.seconds += time.perf_counter() - started
                    state.runs += size
                return found
            except WorkerTimeout as error:
                raise TookTooLong(f"a batch of {size} runs {error}") from None
            except ProtocolViolation as error:
                raise MechanismFailed(f"{self.__name__} {error} (a batch of {size} runs)") from None
            except WorkerDied as error:
                crash = str(error)
                if state.closed > closed:
                    raise MechanismFailed("the target was closed while it ran a batch") from None
            except InvalidArgument as error:
                raise MechanismFailed(str(error)) from None
        raise MechanismFailed(
            f"the worker process {crash} (a batch of {size} runs, tried twice with the same seed)"
        )


def library_note(found: Json) -> str:
    """Return library, version and interpreter of a target file for reports."""
    version = found["version"] or "of unknown version"
    return f"{found['library']} {version}, Python {found['python']}, NumPy {found['numpy']}"


class Isolated(Target):
    """Mechanism of this interpreter that runs in another process, with the same datasets and the
    same random draws as in this one.
    """

    calls_user = True  # so its arrays may be reused, and its draws are not known

    def _sent(self, dataset: Any) -> Any:
        return dataset
