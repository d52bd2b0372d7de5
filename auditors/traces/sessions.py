"""Recording sessions of a mechanism, in this process or in a target's own interpreter, with the
known primitives of noise; and the runs of one pair.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dpwitness.auditors.traces.calls import record_count
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.inside import codec
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError
from dpwitness.mechanisms.wrappers.programs.worker_process import (
    WorkerDied,
    WorkerTimeout,
    borrowed_worker,
)
from dpwitness.mechanisms.wrappers.recording import global_generators
from dpwitness.mechanisms.wrappers.recording.primitives import (
    WrongPrimitive,
    entries_of,
    known_primitives,
)
from dpwitness.mechanisms.wrappers.recording.recorder import Stopped
from dpwitness.mechanisms.wrappers.recording.session import Entry, RecordingSession
from dpwitness.mechanisms.wrappers.recording.values import difference

# ``step(name, **arguments)`` calls this method of a `RecordingSession`
Steps = Callable[..., Any]


class ValidatedEntries(list[Entry]):
    """A list of validated entries of primitives."""


def validate_primitives(primitives: Any, owner: str, *, required: bool = True) -> ValidatedEntries:
    """Return the validated entries of the primitives that a user names; raise InvalidArgument on
    behalf of `owner` for invalid ones.

    Primitives that are not `required` are skipped if they do not exist, and nothing is imported for
    them.
    """
    if isinstance(primitives, ValidatedEntries):
        return primitives
    try:
        return ValidatedEntries(
            (name, entry, source, required) for name, entry, source, _ in entries_of(primitives)
        )
    except WrongPrimitive as error:
        raise InvalidArgument(f"{owner}: primitives: {error}") from None


@dataclass(slots=True)
class SessionRecorder:
    """Runs of one session under a root seed. Each run has a new seed; the runs and their CPU time
    are counted.
    """

    step: Steps
    seed: int
    runs: int = 0
    cpu: float = 0.0

    def run_seed(self) -> int:
        """Return the seed of the latest run."""
        return (self.seed << 20) + self.runs

    def counted(self, name: str, **arguments: Any) -> Json:
        """Return the answer of the step ``record`` or ``replay``, which is one run."""
        self.runs += 1
        found: Json = self.step(name, seed=self.run_seed(), **arguments)
        self.cpu += found["seconds"]
        return found


@dataclass(frozen=True, slots=True)
class PairSession:
    """Runs on one pair: the dataset that is recorded, the dataset of the replays, and the claim on
    this pair.

    The dataset with more records is recorded: then the draws for a record that is missing in the
    other dataset can be left out.
    """

    recorder: SessionRecorder
    claim: Claim
    first: Any
    second: Any
    left_out: tuple[int, int] | None  # number of records, index of the missing record

    @classmethod
    def of(cls, recorder: SessionRecorder, pair: Pair, promise: Claim) -> PairSession:
        """Return the runs of a pair under the user's claim."""
        claim, sizes = promise.on(pair), (record_count(pair.d1), record_count(pair.d0))
        if None in sizes or sizes[0] == sizes[1]:
            return cls(recorder, claim, pair.d1, pair.d0, None)
        large, small = sorted((pair.d1, pair.d0), key=len, reverse=True)
        if len(large) != len(small) + 1:
            return cls(recorder, claim, large, small, None)
        pairs = enumerate(zip(_records(large), _records(small), strict=False))
        missing = next((k for k, (a, b) in pairs if difference(a, b)), len(small))
        return cls(recorder, claim, large, small, (len(large), missing))

    def record(self, *, second: bool = False) -> Json:
        """Record one run on the first dataset, or on the second one."""
        return self.recorder.counted("record", dataset=self.second if second else self.first)

    def record_both(self, *, brief: bool = False) -> tuple[Json, Json]:
        """Record one run on the first dataset, and replay it on the second dataset."""
        recorded = self.record()
        return recorded, self.replay(recorded, brief=brief)

    def replay(
        self,
        recorded: Json,
        shifts: Any = None,
        *,
        brief: bool = False,
        own: bool = False,
        whole: bool = False,
    ) -> Json:
        """Replay a recording on the second dataset, with shifted draws; if `brief`, without the
        table of calls.

        If `own`, the recording is replayed on the dataset on which it was recorded, the first one.
        If `whole`, the recording is one of the second dataset, and no draws are left out.
        """
        return self.recorder.counted(
            "replay",
            key=recorded["key"],
            dataset=self.first if own else self.second,
            shifts=shifts,
            left_out=None if own or whole else self.left_out,
            brief=brief,
        )

    def replay_own(self, recorded: Json, shifts: Any = None, *, brief: bool = False) -> Json:
        """Replay a recording on the dataset on which it was recorded."""
        return self.replay(recorded, shifts, brief=brief, own=True)


def _records(dataset: Any) -> Iterator[Any]:
    """Return the records of a dataset in order: the rows of a data frame, or the items of a
    sequence.
    """
    if hasattr(dataset, "itertuples"):
        return iter(dataset.itertuples(index=False))
    return iter(dataset.iter_rows() if hasattr(dataset, "iter_rows") else dataset)


@contextmanager
def opened(mechanism: Any, primitives: list[Entry], time_limit: float) -> Iterator[Steps]:
    """Open a recording session of a mechanism for the `with` block, with the known primitives and
    `primitives`.

    Raises InvalidArgument if a primitive does not exist.
    """
    named = {name for name, *_ in primitives}
    entries = [*(entry for entry in known_primitives() if entry[0] not in named), *primitives]
    if isinstance(mechanism, Target):
        with _opened_in_worker(mechanism, entries, time_limit) as step:
            yield step
        return
    run = getattr(mechanism, "sample", mechanism)
    home = sys.modules.get(getattr(run, "__module__", ""))
    own = [getattr(home, "PRIMITIVES", None), getattr(mechanism, "primitives", None)]
    states = global_generators.snapshot()
    try:
        entries += [
            entry
            for each in own
            for entry in validate_primitives(each, "trace")
            if entry[0] not in named
        ]
        with RecordingSession(run, entries, home=home, time_limit=time_limit) as session:
            yield lambda name, **arguments: getattr(session, name)(**arguments)
    except WrongPrimitive as error:
        raise InvalidArgument(f"trace: {error}") from None
    finally:
        global_generators.restore(states)


@contextmanager
def _opened_in_worker(target: Target, entries: list[Entry], time_limit: float) -> Iterator[Steps]:
    """Open a session in a worker process that has loaded the target.

    A step raises MechanismFailed if the worker process dies, and TargetError if a primitive does
    not exist.
    """
    with borrowed_worker(target._slot, target.time_limit) as worker:

        def step(name: str, **arguments: Any) -> Any:
            blobs: codec.Blobs = []
            request = target._request("trace") | {"step": name}
            if "dataset" in arguments:
                dataset = target._sent(arguments.pop("dataset"))
                request["data"] = codec.pack(dataset, blobs, exact=True)
            request["arguments"] = codec.pack(arguments, blobs)
            try:
                # 30 seconds more, for the comparison of recordings
                reply, found = worker.ask(request, blobs, time_limit + 30.0)
            except WorkerTimeout:
                raise Stopped("time limit") from None
            except WorkerDied as error:
                raise MechanismFailed(f"the worker process {error}") from None
            if "stopped" in reply:
                raise Stopped(reply["stopped"])
            if "error" in reply:
                raise TargetError(
                    f"{target.__name__}: {reply['error']}", reply.get("traceback", "")
                )
            return codec.unpack(reply["value"], found)

        step("open", entries=[list(entry) for entry in entries], limit=time_limit)
        try:
            yield step
        finally:
            if worker.alive:
                step("close")
