"""Tracing of a target in its own interpreter: a recording session in a worker process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.programs.inside import codec
from dpwitness.mechanisms.wrappers.programs.python_worker import Worker
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError
from dpwitness.mechanisms.wrappers.programs.worker_process import (
    WorkerDied,
    WorkerTimeout,
    borrowed_worker,
)
from dpwitness.mechanisms.wrappers.recording.recorder import Stopped
from dpwitness.mechanisms.wrappers.recording.session import Entry

# seconds added to the time limit of a run, for the comparison of recordings
_COMPARISON_SECONDS = 30.0


class ForeignSession:
    """Recording session of a target in a worker process, with the methods of
    `recording.session.Session`.

    Raises
    ------
    MechanismFailed
        If the worker process dies, or its answer cannot be read.
    TargetError
        If a primitive does not exist.
    """

    def __init__(self, target: Target, worker: Worker, time_limit: float) -> None:
        self._target, self._worker, self._limit = target, worker, time_limit

    def record(self, dataset: Any, seed: int) -> Json:
        """Return the recording of a run on a dataset."""
        found: Json = self._request("record", {"seed": seed}, dataset)
        return found

    def replay(
        self,
        key: int,
        dataset: Any,
        seed: int,
        shifts: Any = None,
        left_out: Any = None,
        brief: bool = False,
    ) -> Json:
        """Return the comparison of a run with the recording `key`, whose draws the run reuses."""
        arguments = {
            "key": key,
            "seed": seed,
            "shifts": shifts,
            "left_out": left_out,
            "brief": brief,
        }
        found: Json = self._request("replay", arguments, dataset)
        return found

    def constant(self, first: int, others: list[int]) -> list[str]:
        """Return the generators whose real-valued draws are equal in recordings under different
        seeds.
        """
        found: list[str] = self._request("constant", {"first": first, "others": others})
        return found

    def varies(self, first: int, others: list[int], left_out: Any = None) -> list[list[Any]]:
        """Return the kinds and places at which recordings differ from the first one in more than
        their draws.
        """
        found: list[list[Any]] = self._request(
            "varies", {"first": first, "others": others, "left_out": left_out}
        )
        return found

    def past(self, key: int, dataset: Any, seed: int) -> list[str]:
        """Return the generators from which a run draws without a recorded primitive."""
        found: list[str] = self._request("past", {"key": key, "seed": seed}, dataset)
        return found

    def uncompile(self) -> bool:
        """Make functions compiled by Numba run as plain Python, and return whether
        there are any.
        """
        return bool(self._request("uncompile", {}))

    def _request(self, step: str, arguments: Json, dataset: Any = None, **more: Any) -> Any:
        blobs: codec.Blobs = []
        request = {"op": "trace", "step": step, **more}
        if dataset is not None:
            request["data"] = codec.pack_dataset(self._target._sent(dataset), blobs)
        request["arguments"] = codec.pack(arguments, blobs)
        try:
            reply, found = self._worker.ask(request, blobs, self._limit + _COMPARISON_SECONDS)
        except WorkerTimeout:
            raise Stopped("time limit") from None
        except WorkerDied as error:
            raise MechanismFailed(f"the worker process {error}") from None
        if "stopped" in reply:
            raise Stopped(reply["stopped"])
        if "error" in reply:
            raise TargetError(
                f"{self._target.__name__}: {reply['error']}", reply.get("traceback", "")
            )
        return codec.unpack(reply["value"], found)


@contextmanager
def foreign_session(
    target: Target, entries: Iterable[Entry], time_limit: float
) -> Iterator[ForeignSession]:
    """Yield a session of a worker that has loaded the target and patched its primitives, for the
    duration of the block.
    """
    with borrowed_worker(target._slot, target.time_limit) as worker:
        if "error" in worker.loaded:
            raise MechanismFailed(f"a worker could not load the target: {worker.loaded['error']}")
        session = ForeignSession(target, worker, time_limit)
        arguments = {"entries": [list(entry) for entry in entries], "limit": time_limit}
        session._request(
            "open", arguments, name=target.name, kwargs=target._request("trace", [])["kwargs"]
        )
        try:
            yield session
        finally:
            if worker.alive:
                session._request("close", {})
