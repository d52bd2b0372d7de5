"""CMA-ES (Hansen 2016, through the package cma): maximum-free search for functions that gradients do not climb."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

from dpwitness.mechanisms.protocol import FloatArray

__all__ = ["evolve"]


def evolve(
    objective: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    step: float,
    *,
    seed: int,
    evaluations: int,
    population: int | None = None,
    deadline: float | None = None,
) -> FloatArray:
    """The best point found for a minimisation over R^k.

    Parameters
    ----------
    objective : callable
        Values at the rows of an (m, k) array; NaN and infinities count as very bad, minus infinity as very good.
    start, step
        Where to start, and how far the first steps go.
    seed : int
        Positive; the same seed gives the same steps.
    evaluations : int
        Stop after this many.
    population : int, optional
    deadline : float, optional
        Stop when ``time.monotonic()`` passes it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import cma

        k = len(start)
        if k == 1:  # cma wants two dimensions: one that does nothing is added
            return evolve(
                lambda z: objective(z[:, :1]), np.append(start, 0.0), step, seed=seed, evaluations=evaluations, deadline=deadline
            )[:1]
        options = {"seed": seed, "verbose": -9, "maxfevals": evaluations, "tolfun": 1e-10, "tolx": 1e-10, "tolflatfitness": 20}
        if population is not None:
            options["popsize"] = population
        strategy = cma.CMAEvolutionStrategy(np.asarray(start, dtype=float), step, options)
        best, value = np.asarray(start, dtype=float), np.inf
        while not strategy.stop() and (deadline is None or time.monotonic() < deadline):
            points = np.asarray(strategy.ask())
            found = np.clip(np.nan_to_num(objective(points), nan=1e100, posinf=1e100, neginf=-1e100), -1e100, 1e100)
            i = int(np.argmin(found))
            if found[i] < value:
                best, value = points[i].copy(), float(found[i])
            strategy.tell(list(points), found.tolist())
        return best
