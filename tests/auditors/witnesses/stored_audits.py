"""Mechanism and options of the audits that the tests of stores keep and stop."""

import inspect

import numpy as np

from dpwitness import Pair

PAIR = Pair(np.array([0.0]), np.array([1.0]))
SMALL = {"claim": "pure:1", "pair": PAIR, "trials": 20_000, "seed": 3, "bits": False}
SHORT = SMALL | {"trials": 1_000}


def noisy(dataset, size, rng):
    return np.round(dataset[0] + rng.laplace(0.0, 1.0, size), 2)


SOURCE = f"import numpy as np\n\n{inspect.getsource(noisy)}\nnoisy.claim = 'pure:1'\n"


def without_time(result):
    """Return the JSON of a result without its duration."""
    data = result.to_json()
    data.pop("seconds")
    data.pop("cpu_seconds", None)
    return data


def stopping(after):
    """Return a progress callback that interrupts the audit after a number of runs."""

    def progress(done, planned):
        if done >= after:
            raise KeyboardInterrupt

    return progress
