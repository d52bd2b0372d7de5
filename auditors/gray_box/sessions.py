"""Recording sessions of a mechanism, in this process or in a target's own interpreter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.foreign.inside import global_generators
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.foreign.tracing import foreign_session
from dpwitness.mechanisms.recording.primitive_tables import given, known
from dpwitness.mechanisms.recording.primitives import WrongPrimitive
from dpwitness.mechanisms.recording.session import Entry, Session


class TraceSession(Protocol):
    """Interface of a recording session; see `recording.session.Session`."""

    def record(self, dataset: Any, seed: int) -> Json: ...
    def replay(self, key: int, dataset: Any, seed: int, shifts: Any = None, left_out: Any = None, brief: bool = False) -> Json: ...
    def constant(self, first: int, others: list[int]) -> list[str]: ...
    def varies(self, first: int, others: list[int], left_out: Any = None) -> list[list[Any]]: ...
    def past(self, key: int, dataset: Any, seed: int) -> list[str]: ...
    def uncompile(self) -> bool: ...


@contextmanager
def opened(mechanism: Any, primitives: list[Entry], time_limit: float) -> Iterator[TraceSession]:
    """Open a recording session of a mechanism for the `with` block, with the known primitives and `primitives`.

    Raises InvalidArgument if a primitive does not exist.
    """
    named = {name for name, *_ in primitives}
    entries = [*(entry for entry in known() if entry[0] not in named), *primitives]
    if isinstance(mechanism, Target):
        with foreign_session(mechanism, entries, time_limit) as foreign:
            yield foreign
        return
    run = getattr(mechanism, "sample", mechanism)
    home = sys.modules.get(getattr(run, "__module__", ""))
    own = [getattr(home, "PRIMITIVES", None), getattr(mechanism, "primitives", None)]
    states = global_generators.snapshot()
    try:
        entries += [entry for each in own for entry in given(each, "trace") if entry[0] not in named]
        seed, snapshot = global_generators.seed, global_generators.snapshot
        with Session(run, entries, seed=seed, snapshot=snapshot, home=home, time_limit=time_limit) as session:
            yield session
    except WrongPrimitive as error:
        raise InvalidArgument(f"trace: {error}") from None
    finally:
        global_generators.restore(states)
