"""CMA-ES minimization (Hansen 2016, through the package cma) for objectives on which gradients do
not help.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from dpwitness.core.protocols import FloatArray


def minimize_cma_es(
    objective: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    step: float,
    *,
    seed: int,
    evaluations: int,
    deadline: float | None = None,
) -> FloatArray:
    """Minimize a function over R^k with CMA-ES from `start`, with initial step size `step`, and
    return the best point found.

    `objective` returns the values at the rows of an (m, k) array. NaN and plus infinity count as
    very bad, minus infinity as very good. The same positive `seed` gives the same steps. The search
    stops after `evaluations`, or when ``time.monotonic()`` exceeds `deadline`.
    """
    # there is nothing to optimize, for example if records consist of a label only
    if len(start) == 0:
        return start
    # cma needs two dimensions: a single one gets a second one that the objective ignores
    width = len(start)
    best, value = np.append(np.asarray(start, dtype=float), [0.0] * (width == 1)), np.inf
    options = {
        "seed": seed,
        "verbose": -9,
        "maxfevals": evaluations,
        "tolfun": 1e-10,
        "tolx": 1e-10,
        "tolflatfitness": 20,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with without_matplotlib_backend():
            import cma  # imports matplotlib
        strategy = cma.CMAEvolutionStrategy(best, step, options)
        while not strategy.stop() and (deadline is None or time.monotonic() < deadline):
            points = np.asarray(strategy.ask())
            values = np.clip(
                np.nan_to_num(objective(points[:, :width]), nan=1e100, posinf=1e100, neginf=-1e100),
                -1e100,
                1e100,
            )
            i = int(np.argmin(values))
            if values[i] < value:
                best, value = points[i].copy(), float(values[i])
            strategy.tell(list(points), values.tolist())
    return best[:width]


@contextmanager
def without_matplotlib_backend() -> Iterator[None]:
    """Return a context manager that hides the environment variable MPLBACKEND.

    No figure here is shown in a window, and a backend that is not installed makes the import of
    matplotlib fail.
    """
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        yield
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
