"""The ranks of an MPI program: the first runs the command, the others its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor

from dpwitness.executors.pools import ENGINE, HUNG, obedient
from dpwitness.mechanisms.terms.validation import InvalidArgument

LAUNCH = "mpiexec -n 5 python -m mpi4py.futures -m dpwitness ..."
_GOODBYE = 2.0  # seconds that tasks under way may take at the end


class Ranks(MPIPoolExecutor):  # type: ignore[misc]  # mpi4py is not typed where it is not installed
    """The pool of mpi4py, which knows what is under way."""

    def __init__(self) -> None:
        super().__init__(initializer=_fresh)
        self.under_way: set[Future[Any]] = set()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = super().submit(fn, *args, **kwargs)
        self.under_way.add(future)
        future.add_done_callback(self.under_way.discard)
        return future


@contextmanager
def ranks() -> Iterator[Executor]:
    """The other ranks, one task each at a time. They end with the first.

    Raises
    ------
    InvalidArgument
        Unless the program was started by ``mpiexec`` on two ranks or more, under ``-m mpi4py.futures``.
    """
    size = MPI.COMM_WORLD.Get_size()
    executor = Ranks() if size > 1 else None
    if executor is None or executor.num_workers != size - 1:
        raise InvalidArgument(f"--executor mpi needs two ranks or more, start it with: {LAUNCH}")
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        HUNG[0] |= bool(wait(list(executor.under_way), timeout=_GOODBYE).not_done)


def _fresh() -> None:
    obedient()
    import_module(ENGINE)
