"""MPI executor: rank 0 runs the command, and the other ranks run its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dpwitness.executors.pools import ENGINE_MODULE, HAS_HUNG_WORKERS, set_worker_signals
from dpwitness.mechanisms.core.validation import InvalidArgument

MPI_COMMAND = "mpiexec -n 5 python -m mpi4py.futures -m dpwitness ..."
_SHUTDOWN_TIMEOUT = 2.0  # time limit of running tasks at shutdown, in seconds


@contextmanager
def ranks() -> Iterator[Executor]:
    """Yield an executor on the other MPI ranks, one task per rank at a time; the ranks end with rank 0.

    Raise InvalidArgument without an MPI library, or unless ``mpiexec`` started two or more ranks under ``-m mpi4py.futures``.
    """
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPIPoolExecutor
    except (ImportError, RuntimeError):  # mpi4py is installed without an MPI library
        raise InvalidArgument("--executor mpi: mpi4py finds no MPI library; install one, or name its folder in LD_LIBRARY_PATH") from None
    size = MPI.COMM_WORLD.Get_size()
    executor: Any = MPIPoolExecutor(initializer=_initialize_rank) if size > 1 else None
    if executor is None or executor.num_workers != size - 1:
        raise InvalidArgument(f"--executor mpi needs two ranks or more, start it with: {MPI_COMMAND}")
    original_submit, under_way = executor.submit, set[Future[Any]]()

    def submit(fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = original_submit(fn, *args, **kwargs)
        under_way.add(future)
        future.add_done_callback(under_way.discard)
        return future

    executor.submit, executor.remote = submit, True
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        HAS_HUNG_WORKERS[0] |= bool(wait(list(under_way), timeout=_SHUTDOWN_TIMEOUT).not_done)


def _initialize_rank() -> None:
    set_worker_signals()
    import_module(ENGINE_MODULE)
