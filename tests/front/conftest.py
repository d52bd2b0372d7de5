"""Fixtures of the tests of the command line and the packages."""

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


@pytest.fixture
def shell(shell):
    """Return a runner of commands in a folder with the file `mine.py`."""
    (shell.folder / "mine.py").write_text(MINE)
    return shell
