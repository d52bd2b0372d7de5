"""Creation of an executor from its specification."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from dpwitness.executors.cluster import local, remote_cluster
from dpwitness.executors.mpi import ranks
from dpwitness.executors.pools import loky_pool, pool
from dpwitness.executors.specs import parse
from dpwitness.mechanisms.core.validation import InvalidArgument

_EXTRAS = {"dask": ("dask", "distributed"), "dask-local": ("dask", "distributed"), "loky": ("loky", "loky"), "mpi": ("mpi", "mpi4py")}


def executor(spec: str, *, ship: Sequence[str | Path] = ()) -> AbstractContextManager[Executor]:
    """Return a context manager that yields an executor for audits; workers that it starts end with the block.

    Counts do not depend on the executor: they are a function of the seed.

    Parameters
    ----------
    spec : str
        ``threads:N`` or ``processes:N`` on this machine; ``loky:N``, processes that share nothing with this process;
        ``dask-local:N``, a Dask cluster of N processes on this machine; ``dask://HOST:PORT``, the scheduler of a cluster;
        ``mpi``, the other ranks of ``mpiexec -n N python -m mpi4py.futures ...``.
    ship : list of str or Path
        For ``dask://`` only: files to send to the workers, first of all the mechanism's module. The workers store them in one
        folder and import modules from there.

    Returns
    -------
    context manager of concurrent.futures.Executor

    Raises
    ------
    InvalidArgument
        If `spec` is malformed, its optional dependency is not installed, a file cannot be read, no scheduler or worker
        answers in time, or the workers run another version of dpwitness.

    Examples
    --------
    >>> import dpwitness as dpw
    >>> with dpw.executors.executor("threads:2") as workers:
    ...     workers.submit(pow, 2, 10).result()
    1024
    """
    found = parse(spec)
    if ship and found.kind != "dask":
        raise InvalidArgument(f"executor: files are shipped to dask://HOST:PORT only, got {spec!r} with {str(ship[0])!r}")
    extra, module = _EXTRAS.get(found.kind, ("", "concurrent"))
    if importlib.util.find_spec(module) is None:
        raise InvalidArgument(f"--executor {spec} needs the extra dpwitness[{extra}]: pip install 'dpwitness[{extra}]'")
    match found.kind:
        case "threads":
            return threads(found.count)
        case "processes":
            return pool(found.count)
        case "loky":
            return loky_pool(found.count)
        case "mpi":
            return ranks()
        case "dask-local":
            return local(found.count)
        case _:
            return remote_cluster(found.address, ship)


@contextmanager
def threads(count: int) -> Iterator[Executor]:
    """Yield a pool of `count` threads; the exit does not wait for running tasks, because a hung worker already has its verdict."""
    found = ThreadPoolExecutor(count, thread_name_prefix="dpwitness")
    try:
        yield found
    finally:
        found.shutdown(wait=False, cancel_futures=True)
