"""Fixture that finds the processes which a test started, directly or indirectly."""

import os
import time
import uuid
from pathlib import Path

import pytest


def _read(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
    except OSError:
        return ""


class Processes:
    """Processes whose environment has the variable of `environment`, which child
    processes inherit.
    """

    def __init__(self):
        self.token = uuid.uuid4().hex
        self.environment = {"DPWITNESS_TEST": self.token}

    def commands(self):
        """Return the command lines, without resource trackers of `multiprocessing`, because they
        end with this process.
        """
        found = [
            _read(pid, "cmdline")
            for pid in filter(str.isdigit, os.listdir("/proc"))
            if self.token in _read(pid, "environ")
        ]
        return [command for command in found if "tracker" not in command]

    def wait_for(self, count):
        """Wait at most 30 seconds until there are `count` processes."""
        until = time.monotonic() + 30
        while len(self.commands()) < count and time.monotonic() < until:
            time.sleep(0.05)

    def left(self):
        """Return the command lines of the processes that are still there after at most five
        seconds.
        """
        until = time.monotonic() + 5
        while (found := self.commands()) and time.monotonic() < until:
            time.sleep(0.05)
        return found


@pytest.fixture
def processes():
    """Return the class `Processes`."""
    return Processes
