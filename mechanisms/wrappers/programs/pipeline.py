"""Pipeline of batches: a worker gets requests before the controller needs their answers, so that
both run at the same time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.inside import codec
from dpwitness.mechanisms.wrappers.programs.python_worker import BatchRequest, Interpreter, Worker
from dpwitness.mechanisms.wrappers.programs.worker_process import WorkerDied, borrowed_worker

_DEPTH = 6  # batches that a worker has at once
# expected duration of a batch, above which a pipeline saves nothing and would delay the end of an
# audit
_MAX_BATCH_SECONDS = 0.05


class Pipeline:
    """Batches that one thread has sent to one worker, oldest first."""

    def __init__(
        self,
        borrowed: AbstractContextManager[Worker],
        requests: Iterable[BatchRequest],
        limit: float,
    ) -> None:
        self._borrowed, self._requests, self._limit = borrowed, iter(requests), limit
        self._sent: deque[BatchRequest] = deque()
        self._worker: Worker | None = borrowed.__enter__()

    def answer(self, request: BatchRequest, limit: float) -> tuple[Json, codec.Blobs] | None:
        """Return the answer to a request; None if the request was not sent, or another answer comes
        first.

        Raises
        ------
        WorkerDied
            If the worker ends first, or does not answer in `limit` seconds. The pipeline is then
            empty.
        """
        try:
            self._fill()
            if self._worker is None or not self._sent or self._sent[0].fields != request.fields:
                return None
            self._sent.popleft()
            return self._worker.take(limit)
        except WorkerDied as error:
            self._release(error)
            raise

    def _fill(self) -> None:
        """Send requests until the worker has enough."""
        while self._worker is not None and len(self._sent) < _DEPTH:
            request = next(self._requests, None)
            if request is None:
                return
            self._worker.send_batch(request, self._limit)
            self._sent.append(request)

    def close(self) -> None:
        """Receive the remaining answers, and release the worker."""
        try:
            while self._worker is not None and self._sent:
                self._sent.popleft()
                self._worker.take(self._limit)
        except WorkerDied as error:
            self._release(error)
        self._release()

    def _release(self, error: WorkerDied | None = None) -> None:
        """Return the worker to the idle ones, or close it after an error."""
        worker, self._worker = self._worker, None
        if worker is not None:
            self._borrowed.__exit__(type(error) if error else None, error, None)


class CurrentPipeline(threading.local):
    """Pipeline of the current thread."""

    value: Pipeline | None = None

    def answer(self, request: BatchRequest, limit: float) -> tuple[Json, codec.Blobs] | None:
        """Return the answer to a request that was sent ahead; otherwise None. Raises as
        `Pipeline.answer` does.
        """
        return None if self.value is None else self.value.answer(request, limit)


class _State(Protocol):
    """Protocol of the part of a target's state that a pipeline needs."""

    current: CurrentPipeline

    def limit(self, least: float, size: int) -> float: ...

    def expected(self, size: int) -> float | None: ...


@contextmanager
def pipelined(
    state: _State,
    slot: Interpreter,
    time_limit: float,
    requests: Iterable[BatchRequest],
    largest: int,
) -> Iterator[None]:
    """Send requests ahead in the block, if batches of `largest` runs are known to be fast."""
    expected, pipeline = state.expected(largest), None
    if expected is not None and expected < _MAX_BATCH_SECONDS and state.current.value is None:
        try:
            pipeline = Pipeline(
                borrowed_worker(slot, time_limit), requests, state.limit(time_limit, largest)
            )
        except (InvalidArgument, WorkerDied):
            pipeline = None  # the first batch starts a worker again, and reports the error
    state.current.value = pipeline
    try:
        yield
    finally:
        state.current.value = None
        if pipeline is not None:
            pipeline.close()
