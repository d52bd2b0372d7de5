"""Kernels run where nothing can be cached: no home, a read-only installation, a full disk, a torn
file.
"""

import os
import stat
import subprocess
import sys

import pytest

RUN = """import numpy as np
from dpwitness.mechanisms import Laplace
print(Laplace(1.0).sample(np.zeros(1), 3, np.random.default_rng(1)).shape)
"""
ONLY_GIVEN = """import numba.core.caching as c
c.CacheImpl._locator_classes = [each for each in c.CacheImpl._locator_classes if "UserProvided" in each.__name__]
"""
NOWHERE = "import numba.core.caching as c; c.CacheImpl._locator_classes = []\n"
FULL = (
    "import numba.core.caching as c\ndef full(*_): raise OSError(28, 'No space left on device')\n"
    "c.IndexDataCacheFile.save = full\n"
)
TORN = (
    "import numba.core.caching as c\ndef torn(*_): raise EOFError('Ran out of input')\n"
    "c.IndexDataCacheFile.load = torn\n"
)


def _run(code, **variables):
    environment = {
        key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"
    } | variables
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.slow
@pytest.mark.parametrize("before", [ONLY_GIVEN, NOWHERE, FULL, TORN])
def test_kernels_compile_without_a_cache(tmp_path, before):
    found = _run(before + RUN, TMPDIR=str(tmp_path))
    assert (found.returncode, found.stdout) == (0, "(3, 1)\n"), found.stderr
    folder = tmp_path / f"dpwitness-kernels-{os.getuid()}"
    assert folder.exists() == (before in (ONLY_GIVEN, NOWHERE))
    if before is ONLY_GIVEN:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and list(folder.rglob("*.nbi"))


def test_a_folder_that_others_can_write_to_is_no_cache(tmp_path):
    """What lies in a cache is run."""
    folder = tmp_path / f"dpwitness-kernels-{os.getuid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    found = _run(ONLY_GIVEN + RUN, TMPDIR=str(tmp_path))
    assert (found.returncode, found.stdout) == (0, "(3, 1)\n"), found.stderr
    assert not list(folder.iterdir())


CALLERS = """from dpwitness.core.numerics.jit import jit
import kernels

def calling(inner):
    @jit
    def outer(x):
        return inner(x) + 1
    return outer

callers = [calling(kernels.one), calling(kernels.two), calling(kernels.scaled(3)), calling(kernels.scaled(4)), calling(kernels.plain)]
print([outer(5) for outer in callers], kernels.by_name(5))
print([sum(outer.stats.cache_hits.values()) for outer in [*callers, kernels.by_name]])
"""
KERNELS = """from numba import njit
from dpwitness.core.numerics.jit import jit
from deeper import deepest

@jit
def one(x):
    return 10 * x

@jit
def two(x):
    return deepest(x)

def scaled(by):
    @jit
    def inner(x):
        return by * x
    return inner

@njit
def plain(x):
    return -x

@jit
def by_name(x):
    return deepest(x)
"""
DEEPER = """from dpwitness.core.numerics.jit import jit

@jit
def deepest(x):
    return 100 * x
"""


@pytest.mark.slow
def test_what_a_kernel_calls_decides_what_is_taken_from_the_cache(tmp_path):
    """By closure or by name, however deep; kernels without a cache are compiled anew, for nobody
    knows what they were compiled from.
    """

    def run():
        found = _run("import callers", **environment)
        assert found.returncode == 0, found.stderr
        return found.stdout.splitlines()

    environment = {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name, text in {"callers": CALLERS, "kernels": KERNELS, "deeper": DEEPER}.items():
        (tmp_path / f"{name}.py").write_text(text)
    values = "[51, 501, 16, 21, -4] 500"
    assert run() == [values, "[0, 0, 0, 0, 0, 0]"]
    assert run() == [values, "[1, 1, 1, 1, 0, 1]"]
    (tmp_path / "deeper.py").write_text(DEEPER.replace("100", "2000"))
    assert run() == ["[51, 10001, 16, 21, -4] 10000", "[1, 0, 1, 1, 0, 0]"]
    (tmp_path / "kernels.py").write_text(KERNELS.replace("10 * x", "7 * x").replace("-x", "-9 * x"))
    assert run()[0] == "[36, 10001, 16, 21, -44] 10000"


RACING = """import sys
from dpwitness.core.numerics import jit as house

def adding(by):
    @house.jit
    def add(x):
        return x + by
    return add

if sys.argv[1:] == ["race"]:  # another process has read the same index, and saves its code last
    one, two = adding(1), adding(2)
    one._cache._cache_file._load_index = two._cache._cache_file._load_index = lambda: {}
    one._cache._cache_file._save_index = lambda _: None  # that of the other one came later
    two(0), one(0)
print(adding(1)(0), adding(2)(0))
"""


def test_processes_that_save_at_a_time_keep_their_code_apart(tmp_path):
    (tmp_path / "racing.py").write_text(RACING)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    for argument in ("'race'", ""):
        found = _run(f"import sys; sys.argv[1:] = [{argument}]; import racing", **environment)
        assert found.stdout == "1 2\n", found.stderr
