"""Dask: a cluster on this machine, or the scheduler of one elsewhere, as an executor.

Measured with distributed 2026.8.0 and Python 3.11 on two cores that others used too: client, scheduler and two workers in four processes;
tasks of 10 ms, 5 under way. Milliseconds a task, by the clock (5 at best) and of processor time; messages of the client, out and in:

=======================================================  =====  ======  =========  =========
5,000 tasks                                              clock  client  scheduler  messages
=======================================================  =====  ======  =========  =========
`Client.get_executor`                                      6.3     1.5        2.4  1.5 + 2.0
futures of `Client.submit`, those that are done gathered   7.1     1.4        2.4  1.6 + 2.0
in one request
what stands here                                           6.4     1.6        2.4  1.6 + 2.0
=======================================================  =====  ======  =========  =========

=======================================================  =====  ======  =========
1,000 tasks with the same argument of 1 MB               clock  client  scheduler
=======================================================  =====  ======  =========
sent with each                                            11.3     3.2        4.2
scattered; gone with the last worker that has it           9.8     1.8        2.7
what stands here: a task by its content's hash             8.7     3.0        2.6
=======================================================  =====  ======  =========

Hence `get_executor`; one scheduler then drives about 100 workers with tasks of a quarter of a second, 400 with tasks of a second.
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

from dpwitness.executors.pools import ENGINE, end, unheard
from dpwitness.executors.worker import Files, builds, call, hush
from dpwitness.mechanisms.foreign.process import close_idle
from dpwitness.mechanisms.terms.validation import InvalidArgument

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

CONNECT = 10.0  # seconds in which a scheduler must answer
FIRST = 60.0  # seconds in which a worker must have run a first task
_GOODBYE = 5.0  # seconds that the end may take

_OURS = {
    # Dask has workers give memory back at once: each chunk's arrays are mapped anew, and jitted mechanisms take 1.6 times as long.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # What it watches for a dashboard costs mechanisms in Python 5 %.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
}

_INLINE = 2**14  # bytes up to which an argument is sent with every task
_KEPT = 16  # larger arguments that stay on the cluster


class Cluster(Executor):
    """Tasks on a Dask cluster; the files that are `sent` lie where they run."""

    def __init__(self, client: Client, sent: Files = ()) -> None:
        self._client, self._inner = client, client.get_executor(pure=False)
        self._threads = 1
        self._held: OrderedDict[str, Any] = OrderedDict()
        self._sent = pickle.dumps((uuid.uuid4().hex, sent))  # each audit imports afresh

    @property
    def _max_workers(self) -> int:
        """Threads of all workers, as they are now, for clusters grow and shrink; as they were, if nobody answers."""
        with contextlib.suppress(Exception):
            self._threads = max(1, sum(self._client.nthreads().values()))
        return self._threads

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As any executor does. What goes wrong on the way is the future's exception, as with processes."""
        import cloudpickle

        try:
            parts = [self._part(cloudpickle.dumps(part)) for part in (partial(fn, **kwargs) if kwargs else fn, *args)]
            future: Future[Any] = self._inner.submit(call, builds(), self._part(self._sent), *parts)
        except Exception as error:
            future = Future()
            future.set_exception(error)
        return future

    def _part(self, pickled: bytes) -> Any:
        """Large arguments travel once to each worker. They are tasks, not scattered data: what a worker takes along is made again."""
        if len(pickled) <= _INLINE:
            return pickled
        key = f"dpwitness-{hashlib.blake2b(pickled, digest_size=16).hexdigest()}"
        if key not in self._held:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")
                self._held[key] = self._client.submit(bytes, pickled, key=key)
        self._held.move_to_end(key)
        if len(self._held) > _KEPT:
            self._held.popitem(last=False)
        return self._held[key]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._held.clear()
        self._inner.shutdown(wait=wait)


@contextmanager
def local(count: int) -> Iterator[Executor]:
    """A cluster of `count` processes on this machine. Killed on the way out, with what they have started."""
    import dask
    from distributed import Client, LocalCluster

    with _quiet(), tempfile.TemporaryDirectory(prefix="dpwitness-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        with unheard(), dask.config.set(_OURS):
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
                preload="dpwitness.executors.worker",
            )
            stack.callback(_close, found)
            client = Client(found, set_as_default=False)
            stack.callback(_leave, client)
            stack.callback(_end, list(found.workers.values()))
            client.run(import_module, ENGINE)
        yield Cluster(client)


@contextmanager
def remote(address: str, files: Sequence[str | Path] = ()) -> Iterator[Executor]:
    """The cluster of a scheduler that runs already. On the way out our tasks are cancelled, and idle interpreters of targets ended."""
    from distributed import Client

    sent = tuple({os.path.abspath(file): _content(file) for file in files}.items())
    with _quiet():
        try:
            client = Client(address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError):
            raise InvalidArgument(f"--executor dask://{address}: no scheduler answered within {CONNECT:g} s") from None
        try:
            _agree(client, address)
            yield Cluster(client, sent)
        finally:
            with contextlib.suppress(Exception):
                client.sync(client._run, close_idle, on_error="ignore", callback_timeout=_GOODBYE)
            _leave(client)


def _agree(client: Client, address: str) -> None:
    """Raise InvalidArgument unless there is a worker, and all of them run this dpwitness and this NumPy."""
    try:
        client.submit(version, "numpy", pure=False).exception(timeout=FIRST)  # a cluster that grows on demand starts one for it
    except TimeoutError:
        raise InvalidArgument(f"--executor dask://{address}: no worker ran a first task within {FIRST:g} s") from None
    for name, mine in zip(("dpwitness", "numpy"), builds(), strict=True):
        for worker, found in client.run(version, name, on_error="return").items():
            if not f"{found}.".startswith(f"{mine}."):
                has = f"no {name}" if isinstance(found, Exception) else f"{name} {found}"
                raise InvalidArgument(
                    f"--executor dask://{address}: worker {worker} has {has}, this process {mine}: install the same there"
                )
    client.run(import_module, ENGINE)


def _end(nannies: list[Any]) -> None:
    """Kill their workers, those too that are just being started again."""
    for nanny in nannies:
        nanny.close_gracefully(reason="dpwitness")
    given_up = time.monotonic() + _GOODBYE
    while (alive := [nanny.pid for nanny in nannies if nanny.is_alive()]) and time.monotonic() < given_up:
        for pid in alive:
            end(pid)
        time.sleep(0.02)


def _leave(client: Client) -> None:
    """Tasks that still run are not waited for: a client that leaves takes its tasks along."""
    with contextlib.suppress(Exception):
        client.close(timeout=_GOODBYE)


def _close(found: LocalCluster) -> None:
    with contextlib.suppress(Exception):
        found.close(timeout=_GOODBYE)


@contextmanager
def _quiet() -> Iterator[None]:
    before = hush(logging.CRITICAL)
    try:
        yield
    finally:
        for handler, level in before.items():
            handler.setLevel(level)


def _content(file: str | Path) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"ship must name files that can be read, got {str(file)!r}: {error.strerror}") from None
