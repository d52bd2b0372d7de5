"""Recording sessions of a mechanism, in this process or in a target's own interpreter, and the runs
of one pair.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dpwitness.auditors.traces.calls import record_count
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.inside import global_generators
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.tracing import foreign_session
from dpwitness.mechanisms.wrappers.recording.primitive_tables import (
    known_primitives,
    validate_primitives,
)
from dpwitness.mechanisms.wrappers.recording.primitives import WrongPrimitive
from dpwitness.mechanisms.wrappers.recording.session import Entry, Session


class TraceSession(Protocol):
    """Interface of a recording session; see `recording.session.Session`."""

    def record(self, dataset: Any, seed: int) -> Json: ...
    def replay(
        self,
        key: int,
        dataset: Any,
        seed: int,
        shifts: Any = None,
        left_out: Any = None,
        brief: bool = False,
    ) -> Json: ...
    def constant(self, first: int, others: list[int]) -> list[str]: ...
    def varies(self, first: int, others: list[int], left_out: Any = None) -> list[list[Any]]: ...
    def past(self, key: int, dataset: Any, seed: int) -> list[str]: ...
    def uncompile(self) -> bool: ...


@dataclass(slots=True)
class Recorder:
    """Runs of one session under a root seed. Each run has a new seed; the runs and their CPU time
    are counted.
    """

    session: TraceSession
    seed: int
    runs: int = 0
    cpu: float = 0.0

    def run_seed(self) -> int:
        """Return the seed of the latest run."""
        return (self.seed << 20) + self.runs

    def record(self, dataset: Any) -> Json:
        """Record one run on the dataset."""
        self.runs += 1
        return self._counted(self.session.record(dataset, self.run_seed()))

    def replay(
        self,
        recorded: Json,
        dataset: Any,
        shifts: Any = None,
        *,
        left_out: Any = None,
        brief: bool = False,
    ) -> Json:
        """Replay a recording on the dataset, with shifted draws; if `brief`, without the table of
        calls.
        """
        self.runs += 1
        return self._counted(
            self.session.replay(recorded["key"], dataset, self.run_seed(), shifts, left_out, brief)
        )

    def _counted(self, found: Json) -> Json:
        self.cpu += found["seconds"]
        return found


@dataclass(frozen=True, slots=True)
class PairSession:
    """Runs on one pair: the dataset that is recorded, the dataset of the replays, and the claim on
    this pair.

    The dataset with more records is recorded: then the draws for a record that is missing on the
    other side can be left out.
    """

    recorder: Recorder
    claim: Claim
    first: Any
    second: Any
    left_out: tuple[int, int] | None  # number of records, index of the missing record

    @classmethod
    def of(cls, recorder: Recorder, pair: Pair, promise: Claim) -> PairSession:
        """Return the runs of a pair under the user's claim."""
        claim, sizes = promise.on(pair), [record_count(d) for d in (pair.d1, pair.d0)]
        if sizes[0] is None or sizes[1] is None or sizes[0] == sizes[1]:
            return cls(recorder, claim, pair.d1, pair.d0, None)
        large, small = (pair.d1, pair.d0) if sizes[0] > sizes[1] else (pair.d0, pair.d1)
        if abs(sizes[0] - sizes[1]) != 1:
            return cls(recorder, claim, large, small, None)
        records = [_records(dataset) for dataset in (large, small)]
        missing_index = next(
            (k for k, (a, b) in enumerate(zip(*records, strict=False)) if not _same(a, b)),
            len(small),
        )
        return cls(recorder, claim, large, small, (len(large), missing_index))

    def record(self) -> Json:
        """Record one run on the first dataset."""
        return self.recorder.record(self.first)

    def replay(self, recorded: Json, shifts: Any = None, *, brief: bool = False) -> Json:
        """Replay a recording on the second dataset."""
        return self.recorder.replay(
            recorded, self.second, shifts, left_out=self.left_out, brief=brief
        )


def _records(dataset: Any) -> Iterator[Any]:
    """Return the records of a dataset in order: the rows of a data frame, or the items of a
    sequence.
    """
    if hasattr(dataset, "itertuples"):
        return iter(dataset.itertuples(index=False))
    return iter(dataset.iter_rows()) if hasattr(dataset, "iter_rows") else iter(dataset)


def _same(a: Any, b: Any) -> bool:
    """Return whether two records are equal; arrays with NaN in the same places are equal."""
    try:
        return bool(np.array_equal(a, b, equal_nan=True))
    except (TypeError, ValueError):
        return bool(a == b)


@contextmanager
def opened(mechanism: Any, primitives: list[Entry], time_limit: float) -> Iterator[TraceSession]:
    """Open a recording session of a mechanism for the `with` block, with the known primitives and
    `primitives`.

    Raises InvalidArgument if a primitive does not exist.
    """
    named = {name for name, *_ in primitives}
    entries = [*(entry for entry in known_primitives() if entry[0] not in named), *primitives]
    if isinstance(mechanism, Target):
        with foreign_session(mechanism, entries, time_limit) as foreign:
            yield foreign
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
        seed, snapshot = global_generators.seed, global_generators.snapshot
        with Session(
            run, entries, seed=seed, snapshot=snapshot, home=home, time_limit=time_limit
        ) as session:
            yield session
    except WrongPrimitive as error:
        raise InvalidArgument(f"trace: {error}") from None
    finally:
        global_generators.restore(states)
