"""Executors on Dask: a local cluster, or the scheduler of a remote cluster.

`Client.get_executor` costs client and scheduler the least time per task (6.3 ms for tasks of 10 ms, 5 in flight, on two cores; futures of
`Client.submit` take 7.1 ms). One scheduler serves about 100 workers with tasks of 0.25 s, or 400 with tasks of 1 s. A large argument is a
task keyed by the hash of its content: 8.7 ms per task for 1 MB, against 11.3 ms if the argument is sent with each task.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pickle
import tempfile
import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness.executors.dask_worker import Files, builds, call, silence_dask_log
from dpwitness.executors.pools import ENGINE_MODULE, delay_signals, end
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.foreign.worker_process import close_idle

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

CONNECT = 10.0  # time limit of a scheduler's first answer, in seconds
FIRST_TASK_TIMEOUT = 60.0  # time limit of the first task on a worker, in seconds
_SHUTDOWN_TIMEOUT = 5.0  # time limit of the shutdown, in seconds

_DASK_CONFIG = {
    # By default Dask makes workers return memory at once, so each chunk maps its arrays again: jitted mechanisms take 1.6 times as long.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # Dask's profiler for the dashboard slows mechanisms in Python down by 5 %.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
}

_MAX_INLINE_BYTES = 2**14  # bytes up to which an argument is sent with every task
_MAX_SHARED_ARGUMENTS = 16  # number of larger arguments that stay on the cluster


class DaskExecutor(Executor):
    """Executor that runs tasks on a Dask cluster, after the `sent` files are written on each worker."""

    def __init__(self, client: Client, sent: Files = (), remote: bool = False) -> None:
        self.remote = remote  # whether other processes have started the workers
        self._client, self._inner = client, client.get_executor(pure=False)
        self._threads = 1
        self._shared: OrderedDict[str, Any] = OrderedDict()
        self._pickled_files = pickle.dumps((uuid.uuid4().hex, sent))  # the random tag makes each audit import the files again

    @property
    def _max_workers(self) -> int:
        """Return the current number of threads of all workers, or the last known number if the scheduler does not answer."""
        with contextlib.suppress(Exception):
            self._threads = max(1, sum(self._client.nthreads().values()))
        return self._threads

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a task; errors of serialization or submission become the future's exception, as in process pools."""
        import cloudpickle

        try:
            parts = [self._task_argument(cloudpickle.dumps(part)) for part in (partial(fn, **kwargs) if kwargs else fn, *args)]
            future: Future[Any] = self._inner.submit(call, builds(), self._task_argument(self._pickled_files), *parts)
        except Exception as error:
            future = Future()
            future.set_exception(error)
        return future

    def _task_argument(self, pickled: bytes) -> Any:
        """Return a task argument; a large argument becomes a task, which each worker receives once and Dask can recompute."""
        if len(pickled) <= _MAX_INLINE_BYTES:
            return pickled
        key = f"dpwitness-{hashlib.blake2b(pickled, digest_size=16).hexdigest()}"
        if key not in self._shared:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")
                self._shared[key] = self._client.submit(bytes, pickled, key=key)
        self._shared.move_to_end(key)
        if len(self._shared) > _MAX_SHARED_ARGUMENTS:
            self._shared.popitem(last=False)
        return self._shared[key]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._shared.clear()
        self._inner.shutdown(wait=wait)


@contextmanager
def local(count: int) -> Iterator[Executor]:
    """Yield an executor on a cluster of `count` local processes; at exit, kill the processes and their children."""
    import dask
    from distributed import Client, LocalCluster

    with _silence_dask(), tempfile.TemporaryDirectory(prefix="dpwitness-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        with delay_signals(), dask.config.set(_DASK_CONFIG):
            found = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                memory_limit=0,
                silence_logs=logging.CRITICAL,
                local_directory=folder,
                preload="dpwitness.executors.dask_worker",
            )
            stack.callback(_close_cluster, found)
            client = Client(found, set_as_default=False)
            stack.callback(_close_client, client)
            stack.callback(_kill_workers, list(found.workers.values()))
            client.run(import_module, ENGINE_MODULE)
        yield DaskExecutor(client)


@contextmanager
def remote_cluster(address: str, files: Sequence[str | Path] = ()) -> Iterator[Executor]:
    """Yield an executor on the cluster of a running scheduler.

    At exit, cancel its tasks and stop idle interpreters of targets.
    """
    from distributed import Client

    sent = tuple({os.path.abspath(file): _read_file(file) for file in files}.items())
    with _silence_dask():
        try:
            client = Client(address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError):
            raise InvalidArgument(f"--executor dask://{address}: no scheduler answered within {CONNECT:g} s") from None
        try:
            _require_same_versions(client, address)
            yield DaskExecutor(client, sent, remote=True)
        finally:
            with contextlib.suppress(Exception):
                client.sync(client._run, close_idle, on_error="ignore", callback_timeout=_SHUTDOWN_TIMEOUT)
            _close_client(client)


def _require_same_versions(client: Client, address: str) -> None:
    """Raise InvalidArgument unless the cluster has a worker and all workers run this version of dpwitness and NumPy."""
    try:
        client.submit(version, "numpy", pure=False).exception(
            timeout=FIRST_TASK_TIMEOUT
        )  # an adaptive cluster starts a worker for this task
    except TimeoutError:
        raise InvalidArgument(f"--executor dask://{address}: no worker ran a first task within {FIRST_TASK_TIMEOUT:g} s") from None
    for name, own_version in zip(("dpwitness", "numpy"), builds(), strict=True):
        for worker, found in client.run(version, name, on_error="return").items():
            if not f"{found}.".startswith(f"{own_version}."):
                found_version = f"no {name}" if isinstance(found, Exception) else f"{name} {found}"
                raise InvalidArgument(
                    f"--executor dask://{address}: worker {worker} has {found_version}, "
                    f"this process has {own_version}: install the same version on all workers"
                )
    client.run(import_module, ENGINE_MODULE)


def _kill_workers(nannies: list[Any]) -> None:
    """Kill the workers of nannies, including workers that are restarting."""
    for nanny in nannies:
        nanny.close_gracefully(reason="dpwitness")
    deadline = time.monotonic() + _SHUTDOWN_TIMEOUT
    while (alive := [nanny.pid for nanny in nannies if nanny.is_alive()]) and time.monotonic() < deadline:
        for pid in alive:
            end(pid)
        time.sleep(0.02)


def _close_client(client: Client) -> None:
    """Close the client without waiting for running tasks; the scheduler cancels the tasks of a closed client."""
    with contextlib.suppress(Exception):
        client.close(timeout=_SHUTDOWN_TIMEOUT)


def _close_cluster(found: LocalCluster) -> None:
    with contextlib.suppress(Exception):
        found.close(timeout=_SHUTDOWN_TIMEOUT)


@contextmanager
def _silence_dask() -> Iterator[None]:
    before = silence_dask_log(logging.CRITICAL)
    try:
        yield
    finally:
        for handler, level in before.items():
            handler.setLevel(level)


def _read_file(file: str | Path) -> bytes:
    """Read a file to be sent. Raise InvalidArgument if it cannot be read."""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"ship must name files that can be read, got {str(file)!r}: {error.strerror}") from None
