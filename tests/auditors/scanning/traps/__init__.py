"""Modules that misbehave at import, and functions that misbehave when they are called."""

import time

import numpy as np

from traps.shadow import shadow

__all__ = ["aborting", "shadow", "writing"]


def aborting(value, epsilon):
    """Private value from native code that crashes."""
    import os

    os.abort()


def writing(value, epsilon):
    """Private value, with a log file outside of the working folder."""
    with open("/dpwitness-scan-must-not-write-here", "w") as file:
        file.write(str(time.time()))
    return value + np.random.laplace(0.0, 1 / epsilon)
