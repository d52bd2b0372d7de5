"""Fixtures of the tests of the command line and the packages."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

MINE = '''
import numpy as np


def leaky(dataset, size, rng):
    """Noise scaled by 0.9: epsilon = 1.11 where 1 is claimed."""
    return np.sum(dataset) + rng.laplace(0.0, 0.9, size)


def fine(dataset, size, rng):
    """Rounded to a grid of 2^-10."""
    return np.round(1024 * (np.sum(dataset) + rng.laplace(0.0, 1.0, size))) / 1024


def bare(dataset, size, rng):
    return np.sum(dataset) + rng.laplace(0.0, 1.0, size)


def scaled(dataset, size, rng, *, scale):
    return np.sum(dataset) + rng.laplace(0.0, scale, size)


def raises(dataset, size, rng):
    raise RuntimeError("out of order")


def slow(dataset, size, rng):
    import time

    time.sleep(0.02)
    return fine(dataset, size, rng)


class Answers:
    def __init__(self, scale):
        self.scale = scale

    def sample(self, dataset, size, rng):
        return np.sum(dataset) + rng.laplace(0.0, self.scale, size)


number = 3
'''


@dataclass
class Shell:
    """Runner of commands in a temporary folder outside the repository."""

    folder: Path
    command_line: Callable

    def environment(self):
        return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "120"}

    def run(self, *command):
        return subprocess.run(command, cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=300)

    def dpwitness(self, *arguments):
        return self.command_line(arguments, self.folder, self.environment())

    def pytest(self, *arguments):
        return self.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments)


@pytest.fixture
def shell(tmp_path, command_line):
    (tmp_path / "mine.py").write_text(MINE)
    return Shell(tmp_path, command_line)
