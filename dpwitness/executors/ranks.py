"""The ranks of an MPI program: the first runs the command, the others its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dpwitness.executors.pools import ENGINE, HUNG, obedient
from dpwitness.mechanisms.terms.validation import InvalidArgument

LAUNCH = "mpiexec -n 5 python -m mpi4py.futures -m dpwitness ..."
_GOODBYE = 2.0  # seconds that tasks under way may take at the end


@contextmanager
def ranks() -> Iterator[Executor]:
    """The other ranks, one task each at a time. They end with the first.

    Raises
    ------
    InvalidArgument
        If no MPI library is found, or unless the program was started by ``mpiexec`` on two ranks or more, under ``-m mpi4py.futures``.
    """
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPIPoolExecutor
    except (ImportError, RuntimeError):  # mpi4py is there, the library that it calls is not
        raise InvalidArgument("--executor mpi: mpi4py finds no MPI library; install one, or name its folder in LD_LIBRARY_PATH") from None
    size = MPI.COMM_WORLD.Get_size()
    executor: Any = MPIPoolExecutor(initializer=_fresh) if size > 1 else None
    if executor is None or executor.num_workers != size - 1:
        raise InvalidArgument(f"--executor mpi needs two ranks or more, start it with: {LAUNCH}")
    plain, under_way = executor.submit, set[Future[Any]]()

    def submit(fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = plain(fn, *args, **kwargs)
        under_way.add(future)
        future.add_done_callback(under_way.discard)
        return future

    executor.submit = submit
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        HUNG[0] |= bool(wait(list(under_way), timeout=_GOODBYE).not_done)


def _fresh() -> None:
    obedient()
    import_module(ENGINE)
