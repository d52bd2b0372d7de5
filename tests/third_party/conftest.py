"""Fixture with the environment of diffprivlib, installed once in ``$DPWITNESS_HOME``, or in
``.venv-targets`` of the clone.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(os.environ.get("DPWITNESS_HOME") or Path(__file__).parents[2] / ".venv-targets")


@pytest.fixture(scope="session")
def diffprivlib_home():
    """Return the folder that contains ``environments/diffprivlib``; skip the tests that need it if
    no package index is available.
    """
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test workers are processes
        command = [sys.executable, "-m", "dpwitness", "targets", "setup", "diffprivlib"]
        made = subprocess.run(
            command,
            env={**os.environ, "DPWITNESS_HOME": str(HOME)},
            capture_output=True,
            text=True,
            timeout=900,
        )
    if made.returncode:
        output = made.stdout + made.stderr
        reason = (
            "No matching distribution"
            if "No matching distribution" in output
            else "Temporary failure in name resolution"
        )
        if reason in output:
            pytest.skip(f"diffprivlib cannot be installed, no package index answers: {reason}")
        pytest.fail(output)
    return HOME
