"""Executors on Dask: a cluster of processes on this machine, or a cluster that runs already.

Workers of a running cluster must have the modules of the mechanism, and the same versions of
dpwitness and NumPy as this process: counts depend on them.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.executors.pools import ENGINE_MODULE, delay_signals
from dpwitness.mechanisms.wrappers.programs.worker_process import close_idle

if TYPE_CHECKING:
    from distributed import Client

CONNECT = 10.0  # time limit of a scheduler's first answer, in seconds
FIRST_WORKER = 60.0  # time limit of the start of a worker, in seconds
_SHUTDOWN = 5.0  # time limit of the shutdown, in seconds
_CONFIG = {
    # By default Dask makes workers return memory at once, so each chunk maps its arrays again:
    # jitted mechanisms take 1.6 times as long.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # Dask's profiler for the dashboard slows mechanisms in Python down by 5 %.
    "distributed.worker.profile.enabled": False,
}


@contextmanager
def local(count: int) -> Iterator[Executor]:
    """Yield an executor on a cluster of `count` local processes, which end with the block."""
    import dask
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {
        "n_workers": count,
        "threads_per_worker": 1,
        "processes": True,
        "host": "127.0.0.1",
        "memory_limit": 0,
    }
    options |= {"dashboard_address": None, "silence_logs": logging.CRITICAL}
    with (
        tempfile.TemporaryDirectory(prefix="dpwitness-", ignore_cleanup_errors=True) as folder,
        _silent_log(),
    ):
        with delay_signals(), dask.config.set(_CONFIG):
            cluster = LocalCluster(**options, local_directory=folder)
        try:
            with Client(cluster, set_as_default=False) as client:
                yield DaskExecutor(client, remote=False)
        finally:
            cluster.close(timeout=_SHUTDOWN)


@contextmanager
def remote_cluster(address: str) -> Iterator[Executor]:
    """Yield an executor on the cluster of a running scheduler. At exit, idle interpreters of
    targets end on its workers.
    """
    from distributed import Client

    with _silent_log():
        try:
            client = Client(address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError):
            raise InvalidArgument(
                f"--executor dask://{address}: no scheduler answered within {CONNECT:g} s"
            ) from None
        with client:
            _require_same_versions(client, address)
            yield DaskExecutor(client, remote=True)
            with contextlib.suppress(Exception):
                client.run(close_idle, on_error="ignore")


class DaskExecutor(Executor):
    """`Client.get_executor` with the two attributes that an audit reads.

    A task is unpickled where it runs, so that a module that the worker lacks is an error of the
    task. Dask itself may wait forever for a task that it cannot unpickle.
    """

    def __init__(self, client: Client, *, remote: bool) -> None:
        self.remote = remote  # whether other processes have started the workers
        client.run(import_module, ENGINE_MODULE)
        self._client, self._inner = client, client.get_executor(pure=False)
        self._max_workers = max(1, sum(client.nthreads().values()))

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a task; errors of pickling become the future's exception, as in process pools."""
        import cloudpickle

        future: Future[Any] = Future()
        try:
            future = self._inner.submit(run_pickled, cloudpickle.dumps((fn, args, kwargs)))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._inner.shutdown(wait=wait)


def run_pickled(task: bytes) -> Any:
    """Run a pickled function with its arguments, on a worker."""
    function, args, kwargs = pickle.loads(task)
    try:
        return function(*args, **kwargs)
    except (SystemExit, GeneratorExit, KeyboardInterrupt) as error:  # Dask would stop the worker
        raise MechanismFailed(f"the mechanism ended its run with {error_text(error)}") from None


def versions() -> dict[str, str]:
    """Return the versions on which counts depend: dpwitness, and the series of NumPy."""
    return {"dpwitness": version("dpwitness"), "numpy": ".".join(version("numpy").split(".")[:2])}


def _require_same_versions(client: Client, address: str) -> None:
    """Raise InvalidArgument unless the cluster has a worker, and all workers run this version of
    dpwitness and this series of NumPy.
    """
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER)
    except TimeoutError:
        raise InvalidArgument(
            f"--executor dask://{address}: no worker started within {FIRST_WORKER:g} s"
        ) from None
    for name, own in versions().items():
        for worker, found in client.run(version, name, on_error="return").items():
            if not f"{found}.".startswith(f"{own}."):
                there = f"no {name}" if isinstance(found, Exception) else f"{name} {found}"
                raise InvalidArgument(
                    f"--executor dask://{address}: worker {worker} has {there}, this process has "
                    f"{own}: install the same version on all workers"
                )


@contextmanager
def _silent_log() -> Iterator[None]:
    """Silence Dask's log: failures of workers have dpwitness's own messages."""
    before = {handler: handler.level for handler in logging.getLogger("distributed").handlers}
    for handler in before:
        handler.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for handler, level in before.items():
            handler.setLevel(level)
