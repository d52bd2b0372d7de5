"""A trace of a target in its own interpreter: the session of the recording room, at the other end of the pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.foreign.inside import codec
from dpwitness.mechanisms.foreign.python_worker import Worker
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.foreign.worker_pool import TargetError
from dpwitness.mechanisms.foreign.worker_process import TookTooLong, WorkerDied, borrow
from dpwitness.mechanisms.protocols.mechanism import MechanismFailed
from dpwitness.mechanisms.recording.recorder import Stopped
from dpwitness.mechanisms.recording.session import Entry

_GRACE = 30.0  # seconds beside those of one run: for the comparison


class ForeignSession:
    """`recording.session.Session` of a target, by the same methods.

    Raises
    ------
    MechanismFailed
        If the worker process dies, or answers what cannot be read.
    TargetError
        If a primitive is not there.
    """

    def __init__(self, target: Target, worker: Worker, time_limit: float) -> None:
        self._target, self._worker, self._limit = target, worker, time_limit

    def record(self, dataset: Any, seed: int) -> Json:
        found: Json = self._ask("record", {"seed": seed}, dataset)
        return found

    def replay(self, key: int, dataset: Any, seed: int, shifts: Any = None, left_out: Any = None, brief: bool = False) -> Json:
        arguments = {"key": key, "seed": seed, "shifts": shifts, "left_out": left_out, "brief": brief}
        found: Json = self._ask("replay", arguments, dataset)
        return found

    def constant(self, first: int, others: list[int]) -> list[str]:
        found: list[str] = self._ask("constant", {"first": first, "others": others})
        return found

    def varies(self, first: int, others: list[int], left_out: Any = None) -> list[list[Any]]:
        found: list[list[Any]] = self._ask("varies", {"first": first, "others": others, "left_out": left_out})
        return found

    def past(self, key: int, dataset: Any, seed: int) -> list[str]:
        found: list[str] = self._ask("past", {"key": key, "seed": seed}, dataset)
        return found

    def uncompile(self) -> bool:
        return bool(self._ask("uncompile", {}))

    def _ask(self, step: str, arguments: Json, dataset: Any = None, **more: Any) -> Any:
        blobs: codec.Blobs = []
        request = {"op": "trace", "step": step, **more}
        if dataset is not None:
            request["data"] = codec.pack_dataset(self._target._sent(dataset), blobs)
        request["arguments"] = codec.pack(arguments, blobs)
        try:
            reply, found = self._worker.ask(request, blobs, self._limit + _GRACE)
        except TookTooLong:
            raise Stopped("time limit") from None
        except WorkerDied as error:
            raise MechanismFailed(f"the worker process {error}") from None
        if "stopped" in reply:
            raise Stopped(reply["stopped"])
        if "error" in reply:
            raise TargetError(f"{self._target.__name__}: {reply['error']}", reply.get("traceback", ""))
        return codec.unpack(reply["value"], found)


@contextmanager
def foreign_session(target: Target, entries: Iterable[Entry], time_limit: float) -> Iterator[ForeignSession]:
    """A worker of the target with its primitives patched, until the block ends."""
    with borrow(target._slot, target.time_limit) as worker:
        if "error" in worker.loaded:
            raise MechanismFailed(f"a worker could not load the target: {worker.loaded['error']}")
        session = ForeignSession(target, worker, time_limit)
        arguments = {"entries": [list(entry) for entry in entries], "limit": time_limit}
        session._ask("open", arguments, name=target.name, kwargs=codec.pack(target._plain_kwargs(), []))
        try:
            yield session
        finally:
            if worker.alive:
                session._ask("close", {})
