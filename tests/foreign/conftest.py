"""Fixtures of the tests of targets in other processes and interpreters."""

import sys
import venv
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from broken_programs import GOOD

from dpwitness.mechanisms.wrappers.programs import Target
from dpwitness.mechanisms.wrappers.programs.worker_process import close_all

TARGETS = '''
"""Targets with one peculiarity each."""
import functools
import os
import signal
import sys
import time
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np

DOMAIN = {"kind": "Records", "size": 1, "low": 0.0, "high": 1.0, "relation": "replace-one"}

def target(claim="pure:1", **more):
    def declare(function):
        function.claim, function.domain = claim, DOMAIN
        for name, value in more.items():
            setattr(function, name, value)
        return function
    return declare

@target()
def leaky(dataset, size, rng):
    """Noise scaled by 0.9: epsilon = 1.11 where 1 is claimed."""
    return np.clip(np.sum(dataset), 0, 1) + rng.laplace(0.0, 0.9, size)

@target()
def grid(dataset, size, rng):
    """Rounded to a grid of 2^-10."""
    if not np.all(np.isfinite(dataset)):
        raise ValueError("not finite")
    return np.round(1024 * (np.clip(np.sum(dataset), 0, 1) + rng.laplace(0.0, 1.0, size))) / 1024

@target(seeded=False)
def unseeded(dataset, size, rng):
    return grid(dataset, size, np.random.default_rng())

@target()
def ones(dataset, size, rng):
    return np.full(size, dataset[0])

@target()
def raises_on_one(dataset, size, rng):
    if dataset[0] == 1.0:
        raise KeyError("one")
    return rng.laplace(0.0, 1.0, size)

@target()
def raises_at_times(dataset, size, rng):
    noise = rng.laplace(0.0, 1.0, size)
    if np.any(noise > 2.0):
        raise ValueError("too large")
    return noise

@target()
def shape_tells(dataset, size, rng):
    return [rng.random(2 if dataset[0] > 0.5 else 1) for _ in range(size)]

@target()
def draws_tell(dataset, size, rng):
    out = np.empty(size)
    for i in range(size):
        for _ in range(2 if dataset[0] > 0.5 else 1):
            out[i] = np.round(64 * rng.laplace()) / 64
    return out

@target()
def remembers(dataset, size, rng, seen=[0.0]):
    before, seen[0] = seen[0], float(dataset[0])
    return before + rng.laplace(0.0, 1.0, size)

@target()
def nan_passes(dataset, size, rng):
    return np.round(1024 * (np.sum(np.clip(dataset, 0, 1)) + rng.laplace(0.0, 1.0, size))) / 1024

@target()
def changes_its_data(dataset, size, rng):
    dataset[0] = 0.0
    return rng.random(size)

@target()
def crashes(dataset, size, rng):
    print("the last words", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)

@target()
def crashes_with_a_child(dataset, size, rng):
    if os.fork() == 0:
        time.sleep(60)
    os.abort()

@target()
def crashes_once(dataset, size, rng, flag=""):
    if not os.path.exists(flag):
        open(flag, "w").close()
        os._exit(7)
    return rng.random(size)

@target()
def leaves(dataset, size, rng):
    sys.exit("enough")

@target()
def hangs(dataset, size, rng):
    time.sleep(60)

@target()
def slow(dataset, size, rng, note=""):
    with open(note, "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(0.2)
    return rng.random(size)

@target()
def eats(dataset, size, rng):
    return np.ones(2**29).sum() + np.zeros(size)

@target(batch=8)
def in_eights(dataset, size, rng):
    if size > 64:
        raise AssertionError(size)
    return np.full(size, rng.laplace() if size == 0 else 0.0) + np.round(16 * rng.laplace(0, 1, size)) / 16

@target("pure:inf")
def promises_nothing(dataset, size, rng):
    return rng.random(size)

@target(lambda: "approx:%r,%r" % (0.1 + 0.2, 1e-5))
def accounted(dataset, size, rng):
    return rng.random(size)

@target(lambda: {}["epsilon"])
def accountant_fails(dataset, size, rng):
    return rng.random(size)

def kinds(dataset, size, rng, kind="float"):
    return KINDS[kind](size, rng)

class Money(int):
    pass

class Thing:
    def __repr__(self):
        return "a thing"

KINDS = {
    "float": lambda n, rng: [float(v) for v in rng.random(n)],
    "int": lambda n, rng: [int(v) for v in rng.integers(5, size=n)],
    "bool": lambda n, rng: [bool(v) for v in rng.integers(2, size=n)],
    "big": lambda n, rng: [2**70 + i for i in range(n)],
    "int64": lambda n, rng: np.full(n, 2**60 + 1),
    "uint64": lambda n, rng: np.full(n, 2**64 - 1, dtype=np.uint64),
    "float32": lambda n, rng: rng.random((n, 3)).astype(np.float32),
    "swapped": lambda n, rng: rng.random(n).astype(">f8"),
    "complex": lambda n, rng: rng.random(n) + 1j,
    "text": lambda n, rng: ["a" * int(k) for k in rng.integers(3, size=n)],
    "text array": lambda n, rng: np.array(["a", "bc"])[rng.integers(2, size=n)],
    "scalars": lambda n, rng: list(rng.random(n)),
    "arrays": lambda n, rng: list(rng.random((n, 2))),
    "ragged": lambda n, rng: [rng.random(k) for k in rng.integers(3, size=n)],
    "mixed": lambda n, rng: [[None, 1, 2.5, "x", b"y", float("nan"), -0.0, True, np.float64(1.5), np.int32(3)][i % 10] for i in range(n)],
    "nested": lambda n, rng: [{"a": (1, 2.0), 3: {4}, "b": [frozenset((1,)), np.arange(2)]} for _ in range(n)],
    "exceptions": lambda n, rng: [KeyError("k") if i % 2 else ZeroDivisionError("z") for i in range(n)],
    "own types": lambda n, rng: [[Money(3), Thing(), np.datetime64("2020-01-01"), 1j][i % 4] for i in range(n)],
    "objects": lambda n, rng: np.array([1, "a", None] * n, dtype=object)[:n],
    "none": lambda n, rng: [None] * n,
    "decimals": lambda n, rng: [[Decimal(x), Decimal("1.50"), Fraction(x)] for x in rng.random(n)],
    "times": lambda n, rng: [[date(2020, 1, 1), datetime(2020, 1, 2), timedelta(seconds=x)] for x in rng.random(n)],
    "masked": lambda n, rng: np.ma.masked_greater(rng.random((n, 2)), 0.5),
    "records": lambda n, rng: np.array(list(zip(rng.random(n), range(n))), dtype=[("a", "f8"), ("b", "i4")]),
    "deep": lambda n, rng: [functools.reduce(lambda inner, _: [inner], range(3000), [])] * n,
    "empty": lambda n, rng: np.empty((n, 0)),
    "too few": lambda n, rng: [1.0] * (n - 1),
    "number": lambda n, rng: 3.5,
}
'''


@pytest.fixture(scope="session")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("targets") / "peculiar.py"
    path.write_text(TARGETS)
    return str(path)


@pytest.fixture(scope="session")
def bare(tmp_path_factory):
    """Return the path of an interpreter without installed packages."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")


@pytest.fixture(scope="session")
def foreign(tmp_path_factory):
    """Return the path of an interpreter that has NumPy only, without dpwitness."""
    folder = tmp_path_factory.mktemp("foreign")
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    numpy = Path(np.__file__).parent
    for found in (numpy, numpy.with_name("numpy.libs")):
        if found.exists():
            (site / found.name).symlink_to(found)
    return str(folder / "bin" / "python")


@pytest.fixture
def program(tmp_path):
    """A target of the specimen, with something put in."""

    def make(put_in="", **options):
        file = tmp_path / f"specimen{len(list(tmp_path.iterdir()))}.py"
        file.write_text(GOOD.replace("#BREAK", put_in))
        return Target(command=[sys.executable, "-I", "-S", str(file)], **options)

    return make


@pytest.fixture(autouse=True)
def _close_workers():
    """Close all worker processes after each test."""
    yield
    close_all()
