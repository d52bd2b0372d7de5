"""CMA-ES (Hansen 2016, through the package cma): maximum-free search for functions that gradients do not climb."""

from __future__ import annotations

import importlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder, SourceFileLoader
from typing import Any

import numpy as np

from dpwitness.mechanisms.terms.protocol import FloatArray


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
    if len(start) == 0:  # nothing to move, as where records have a label only
        return start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cma = _package()
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


def _package() -> Any:
    """The package cma. Its import needs docstrings: where Python drops them (-OO), it is compiled with them."""
    with windowless():  # it imports matplotlib
        if sys.flags.optimize < 2 or "cma" in sys.modules:
            return importlib.import_module("cma")
        sys.meta_path.insert(0, _Documented)
        try:
            return importlib.import_module("cma")
        finally:
            sys.meta_path.remove(_Documented)


@contextmanager
def windowless() -> Iterator[None]:
    """Without MPLBACKEND: no figure here has a window, and a backend that is not there stops the import of matplotlib."""
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        yield
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend


class _Documented(PathFinder):
    """Finds the modules of cma, compiled with their docstrings."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        spec = super().find_spec(fullname, path, target) if fullname.partition(".")[0] == "cma" else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _WithDocstrings(spec.loader.name, spec.loader.path)
        return spec


class _WithDocstrings(SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        return compile(self.get_data(self.path), self.path, "exec", dont_inherit=True, optimize=0)
