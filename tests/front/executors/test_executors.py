"""Tests of executors by name: each gives the counts of a serial audit, survives lost workers, and
leaves no process behind.
"""

import importlib.util
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.workers.engine import MechanismFailed, explained
from dpwitness.executors import pools as cluster_module
from dpwitness.executors.specs import FORMS, parse
from dpwitness.mechanisms import Laplace

NEAR = dpw.Pair(np.array([0.0]), np.array([1.0]))
SLOW = """
import time

import numpy as np

def slow(dataset, size, rng):
    time.sleep(0.01)
    return np.round(1024 * (np.sum(dataset) + rng.laplace(0.0, 1.0, size))) / 1024

slow.claim = "pure:1"
"""
PAIR = ["--claim", "pure:1", "--d0", "[0]", "--d1", "[1]"]


def needs(module):
    return pytest.mark.skipif(
        importlib.util.find_spec(module) is None, reason=f"{module} is not installed"
    )


@pytest.fixture(scope="module")
def serial():
    return dpw.audit(Laplace(1.0), pair=NEAR, trials=20_000, seed=3)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    file = tmp_path_factory.mktemp("targets") / "slow_target.py"
    file.write_text(SLOW)
    return dpw.Target(str(file), "slow")


@pytest.fixture(scope="module")
def alone(target):
    found = dpw.audit(target, pair=NEAR, trials=1_000, seed=3, bits=False)
    target.close()
    return found


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("distributed")
    with dpw.executors.executor("dask-local:2") as executor:
        yield executor


@pytest.fixture
def address(cluster):
    return "dask://" + cluster._client.scheduler.address.removeprefix("tcp://")


def counted(result):
    """Return the fields of a result that the seed determines: counts, event and bounds."""
    told = result.to_json()
    return {key: told[key] for key in ("tally", "event", "bit_level", "epsilon_lower", "trials")}


def pids(executor):
    return set(executor._client.run(os.getpid).values())


@pytest.mark.parametrize(
    ("text", "kind", "count", "where"),
    [
        ("threads:1", "threads", 1, ""),
        ("processes:1024", "processes", 1024, ""),
        ("dask-local:2", "dask-local", 2, ""),
        ("dask://node-1.local:8786", "dask", 0, "node-1.local:8786"),
        ("dask://tls://10.0.0.1:8786", "dask", 0, "tls://10.0.0.1:8786"),
        ("dask://[::1]:8786", "dask", 0, "[::1]:8786"),
    ],
)
def test_specs(text, kind, count, where):
    assert parse(text) == (kind, count, where)


NO_SPECS = [
    "",
    "threads",
    "threads:",
    "threads:0",
    "threads:1025",
    "threads:-1",
    "threads:2.0",
    "threads:\u0662",
    " threads:2",
    "mpi",
    "loky:2",
]
NO_SPECS += [
    "dask",
    "dask:2",
    "dask-local",
    "dask://",
    "dask://h",
    "dask://h:0",
    "dask://h:65536",
    "dask://a b:1",
    "slurm:3",
]


@pytest.mark.parametrize("text", [*NO_SPECS, None, 2])
def test_what_is_no_spec_is_told_the_forms(text):
    with pytest.raises(dpw.InvalidArgument, match="executor must be") as told:
        dpw.executors.executor(text)
    assert FORMS in str(told.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--executor", "threads:0"], FORMS),
        (["--executor", "threads:2", "--workers", "2"], "not allowed with"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, told, refused):
    assert told in refused(
        "audit", "dpwitness.mechanisms:Laplace", "--kwargs", '{"epsilon": 1}', *PAIR, *options
    )


@pytest.mark.parametrize(
    ("spec", "extra"), [("dask-local:2", "dask"), ("dask://127.0.0.1:8786", "dask")]
)
def test_an_extra_that_is_missing_is_named(spec, extra, monkeypatch):
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "distributed" else True
    )
    with pytest.raises(dpw.InvalidArgument) as told:
        dpw.executors.executor(spec)
    assert str(told.value).startswith(f"--executor {spec} needs the extra dpwitness[{extra}]")


@pytest.mark.slow_cases("dask-local:2")
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks into /proc")
@pytest.mark.parametrize(
    "spec", ["processes:2", pytest.param("dask-local:2", marks=needs("distributed"))]
)
def test_interpreters_of_targets_end_with_the_executor(spec, target, alone, monkeypatch, processes):
    mine = processes()
    monkeypatch.setenv("DPWITNESS_TEST", mine.token)
    with dpw.executors.executor(spec) as executor:
        found = dpw.audit(target, pair=NEAR, trials=1_000, seed=3, bits=False, executor=executor)
        assert sum("programs/inside/worker.py" in command for command in mine.commands()) >= 2
    assert counted(found) == counted(alone)
    target.close()
    assert mine.left() == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks into /proc")
@needs("distributed")
def test_ctrl_c_is_ours_to_handle(shell, processes):
    """A SIGINT to the whole process group, as from a terminal, ends the audit while workers start
    and while rounds run.
    """
    (shell.folder / "slow_target.py").write_text(SLOW)
    running = []
    for spec, pause in (("dask-local:2", 0.0), ("processes:2", 1.5)):
        mine = processes()
        command = ["audit", "slow_target.py:slow", *PAIR, "--trials", "1e8", "--executor", spec]
        running.append((mine, shell.start(*command, **mine.environment), pause))
    for mine, process, pause in running:
        mine.wait_for(4)
        time.sleep(pause)
        os.killpg(process.pid, signal.SIGINT)
    for mine, process, _ in running:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 3 and "Traceback" not in err, err
        assert mine.left() == []


def test_dask_counts_are_those_of_a_serial_audit(cluster, serial):
    found = dpw.audit(Laplace(1.0), pair=NEAR, trials=20_000, seed=3, executor=cluster)
    assert cluster._max_workers == 2
    assert counted(found) == counted(serial)


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_no_count(cluster, target):
    """Datasets are stored on the workers; a killed worker's datasets and rounds are
    computed again.
    """
    pair = dpw.Pair(np.zeros(10_000), np.r_[1.0, np.zeros(9_999)])
    options = {"pair": pair, "trials": 4_000, "seed": 3, "bits": False, "stop": "never"}
    alone = dpw.audit(target, **options)
    target.close()
    before, killed = pids(cluster), []

    def progress(done, planned):
        if done and not killed:
            killed.append(min(before))
            threading.Timer(0.05, os.kill, (killed[0], signal.SIGKILL)).start()

    found = dpw.audit(target, **options, executor=cluster, progress=progress)
    assert killed
    cluster._client.wait_for_workers(2)
    assert killed[0] not in pids(cluster)
    assert counted(found) == counted(alone)


def test_a_mechanism_that_ends_its_run_ends_no_worker(cluster):
    before = pids(cluster)
    with pytest.raises(MechanismFailed, match="SystemExit: 3"):
        cluster.submit(sys.exit, 3).result()
    assert pids(cluster) == before


def test_a_task_that_kills_its_workers_is_told(cluster):
    told = explained(cluster.submit(os._exit, 1).exception(timeout=60))
    assert (
        told
        == "4 worker processes died, one after the other, while they ran the same rounds of the "
        "mechanism"
    )
    assert explained(ValueError("CommClosedError")) is None


def test_a_module_that_the_workers_lack(address, tmp_path, monkeypatch):
    (tmp_path / "faraway.py").write_text(
        "def f(dataset, size, rng):\n    return dataset[0] + rng.laplace(0.0, 1.0, size)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    from faraway import f

    asked = {"claim": "pure:1", "pair": NEAR, "trials": 2_000, "seed": 3, "bits": False}
    with (
        dpw.executors.executor(address) as executor,
        pytest.raises(dpw.InvalidArgument, match=r"no module 'faraway'.*install it where they run"),
    ):
        dpw.audit(f, **asked, executor=executor)


def test_workers_of_another_version_are_named(address, monkeypatch):
    here = cluster_module.versions()["dpwitness"]
    monkeypatch.setattr(cluster_module, "versions", lambda: {"dpwitness": "0.0.9"})
    with (
        pytest.raises(
            dpw.InvalidArgument,
            match=f"worker tcp://.* has dpwitness {here}, this process has 0.0.9",
        ),
        dpw.executors.executor(address),
    ):
        pass


@needs("distributed")
def test_a_scheduler_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(cluster_module, "CONNECT", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        spec = f"dask://127.0.0.1:{taken.getsockname()[1]}"
        started = time.monotonic()
        with (
            pytest.raises(
                dpw.InvalidArgument, match=f"--executor {spec}: no scheduler answered within 0.5 s"
            ),
            dpw.executors.executor(spec),
        ):
            pass
    assert time.monotonic() - started < 30
