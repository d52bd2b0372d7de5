"""Creation of an executor from its specification."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

from dpwitness.core.values.validation import InvalidArgument
from dpwitness.executors.cluster import local, remote_cluster
from dpwitness.executors.pools import pool
from dpwitness.executors.specs import parse


def executor(spec: str) -> AbstractContextManager[Executor]:
    """Return a context manager that yields an executor for audits; workers that it starts end with
    the block.

    Counts do not depend on the executor: they are a function of the seed.

    Parameters
    ----------
    spec : str
        ``threads:N`` or ``processes:N`` on this machine; ``dask-local:N``, a Dask cluster of N
        processes on this machine; ``dask://HOST:PORT``, the scheduler of a cluster, whose workers
        have the mechanism's modules.

    Returns
    -------
    context manager of concurrent.futures.Executor

    Raises
    ------
    InvalidArgument
        If `spec` is malformed, Dask is not installed, no scheduler or worker answers in time, or
        the workers run another version of dpwitness.

    Examples
    --------
    >>> import dpwitness as dpw
    >>> with dpw.executors.executor("threads:2") as workers:
    ...     workers.submit(pow, 2, 10).result()
    1024
    """
    found = parse(spec)
    if found.kind.startswith("dask") and importlib.util.find_spec("distributed") is None:
        raise InvalidArgument(
            f"--executor {spec} needs the extra dpwitness[dask]: pip install 'dpwitness[dask]'"
        )
    match found.kind:
        case "threads":
            return threads(found.count)
        case "processes":
            return pool(found.count)
        case "dask-local":
            return local(found.count)
        case _:
            return remote_cluster(found.address)


@contextmanager
def threads(count: int) -> Iterator[Executor]:
    """Yield a pool of `count` threads; the exit does not wait for running tasks, because a hung
    worker already has its verdict.
    """
    found = ThreadPoolExecutor(count, thread_name_prefix="dpwitness")
    try:
        yield found
    finally:
        found.shutdown(wait=False, cancel_futures=True)
