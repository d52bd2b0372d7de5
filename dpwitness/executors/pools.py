"""Executors by name: threads, processes, and workers of Dask. Each process leads its own process
group and ends with its parent.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.executors.specs import parse
from dpwitness.mechanisms.wrappers.programs.supervisor import PARENT_DEATH_SIGNAL, prctl
from dpwitness.mechanisms.wrappers.programs.worker_process import close_all

if TYPE_CHECKING:
    from distributed import Client

# imported at worker start, so that the first run's time does not include the import
ENGINE_MODULE = "dpwitness.auditors.workers.engine"


@contextmanager
def pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of `count` processes; at exit, kill workers and their children
    without waiting.
    """
    executor = ProcessPoolExecutor(
        count, initializer=start_contained_worker, initargs=(os.getpid(),)
    )
    try:
        yield executor
    finally:
        alive = list((getattr(executor, "_processes", None) or {}).values())
        manager = getattr(executor, "_executor_manager_thread", None)
        results = getattr(getattr(executor, "_result_queue", None), "_writer", None)
        # the manager thread raises on cancelled futures when the workers are killed (CPython 3.11)
        hook = threading.excepthook
        threading.excepthook = lambda found: None if found.thread is manager else hook(found)
        try:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in alive:
                end(process.pid)
            if results is not None:
                # closes the pipe's last writer: a reader would wait for the rest of a killed
                # worker's message
                results.close()
            if manager is not None:
                manager.join(5.0)
        finally:
            threading.excepthook = hook


@contextmanager
def ignored_by_children() -> Iterator[None]:
    """Block SIGINT for processes that start in the block: Ctrl-C is handled by this process, which
    gets the signal when all have started.
    """
    resource_tracker.ensure_running()  # starting the tracker later would unblock SIGINT
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def end(pid: int) -> None:
    """Kill a worker and its process group.

    SIGKILL is used because a worker may ignore SIGTERM. A worker that has not run
    `start_contained_worker` has no group yet and is killed alone.
    """
    for kill in (os.killpg, os.kill):
        with suppress(OSError):
            kill(pid, signal.SIGKILL)


def start_contained_worker(parent: int) -> None:
    """Put this worker into its own process group, leave Ctrl-C to the parent, let other signals end
    the worker, and make the worker end with its parent.
    """
    with suppress(OSError):
        os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_DFL)  # a fork inherits the parent's handlers
    prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Kill this worker when its parent's sentinel pipe closes, for systems without a signal at the
    parent's death.
    """
    found = parent_process()
    if found is not None:
        wait([found.sentinel])
        with suppress(OSError):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


CONNECT = 10.0  # time limit of a scheduler's first answer, in seconds
FIRST_WORKER = 60.0  # time limit of the start of a worker, in seconds
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

    with (
        tempfile.TemporaryDirectory(prefix="dpwitness-", ignore_cleanup_errors=True) as folder,
        _silent_log(),
    ):
        with ignored_by_children(), dask.config.set(_CONFIG):
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                memory_limit=0,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
                local_directory=folder,
            )
        try:
            with Client(cluster, set_as_default=False) as client:
                yield DaskExecutor(client, remote=False)
        finally:
            # time limit of the shutdown, in seconds
            cluster.close(timeout=5.0)


@contextmanager
def remote_cluster(address: str) -> Iterator[Executor]:
    """Yield an executor on the cluster of a running scheduler. At exit, idle interpreters of
    targets end on its workers. Raise InvalidArgument if no scheduler or worker answers, or versions
    differ.
    """
    from distributed import Client

    with _silent_log():
        try:
            client = Client(address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError):
            raise InvalidArgument(
                f"--executor dask://{address}: no scheduler answered within {CONNECT:g} s: "
                "check the address, and that the scheduler runs"
            ) from None
        with client:
            try:
                client.wait_for_workers(1, timeout=FIRST_WORKER)
            except TimeoutError:
                raise InvalidArgument(
                    f"--executor dask://{address}: no worker started within {FIRST_WORKER:g} s: "
                    "start a worker of this scheduler"
                ) from None
            # on which counts depend: dpwitness, and the series of NumPy
            series = ".".join(version("numpy").split(".")[:2])
            for name, own in {"dpwitness": version("dpwitness"), "numpy": series}.items():
                for worker, found in client.run(version, name, on_error="return").items():
                    if not f"{found}.".startswith(f"{own}."):
                        there = f"no {name}" if isinstance(found, Exception) else f"{name} {found}"
                        raise InvalidArgument(
                            f"--executor dask://{address}: worker {worker} has {there}, this "
                            f"process has {own}: install the same version on all workers"
                        )
            yield DaskExecutor(client, remote=True)
            with suppress(Exception):
                client.run(close_all, busy=False, on_error="ignore")


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
    """Run a pickled function with its arguments, on a worker. Raise MechanismFailed if the function
    ends the process.
    """
    function, args, kwargs = pickle.loads(task)
    try:
        return function(*args, **kwargs)
    except (SystemExit, GeneratorExit, KeyboardInterrupt) as error:  # Dask would stop the worker
        raise MechanismFailed(f"the mechanism ended its run with {error_text(error)}") from None


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
    kind, count, address = parse(spec)
    if kind.startswith("dask") and importlib.util.find_spec("distributed") is None:
        raise InvalidArgument(
            f"--executor {spec} needs the extra dpwitness[dask]: pip install 'dpwitness[dask]'"
        )
    if kind == "dask":
        return remote_cluster(address)
    start: Callable[[int], AbstractContextManager[Executor]] = {
        "threads": threads,
        "processes": pool,
        "dask-local": local,
    }[kind]
    return start(count)


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
