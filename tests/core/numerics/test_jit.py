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


@pytest.mark.slow
def test_a_folder_that_others_can_write_to_is_no_cache(tmp_path):
    """What lies in a cache is run."""
    folder = tmp_path / f"dpwitness-kernels-{os.getuid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    found = _run(ONLY_GIVEN + RUN, TMPDIR=str(tmp_path))
    assert (found.returncode, found.stdout) == (0, "(3, 1)\n"), found.stderr
    assert not list(folder.iterdir())
