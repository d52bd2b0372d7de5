"""Tests of executors by name: each gives the counts of a serial audit, survives lost workers, and
leaves no process behind.
"""

import importlib.util
import os
import sys

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.core.protocols import MechanismFailed
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


@pytest.fixture(scope="module")
def serial():
    return dpw.audit(Laplace(1.0), pair=NEAR, trials=20_000, seed=3)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    file = tmp_path_factory.mktemp("targets") / "slow_target.py"
    file.write_text(SLOW)
    return dpw.Target(str(file), "slow")


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


def test_dask_counts_are_those_of_a_serial_audit(cluster, serial):
    found = dpw.audit(Laplace(1.0), pair=NEAR, trials=20_000, seed=3, executor=cluster)
    assert cluster._max_workers == 2
    assert counted(found) == counted(serial)


@pytest.mark.slow
def test_a_mechanism_that_ends_its_run_ends_no_worker(cluster):
    before = pids(cluster)
    with pytest.raises(MechanismFailed, match="SystemExit: 3"):
        cluster.submit(sys.exit, 3).result()
    assert pids(cluster) == before
