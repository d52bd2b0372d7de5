"""CMA-ES minimization (Hansen 2016, through the package cma) for objectives on which gradients do
not help.
"""

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

from dpwitness.core.protocols.mechanism import FloatArray


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cma = _package()
        k = len(start)
        if k == 1:  # cma needs two dimensions: add one that the objective ignores
            return minimize_cma_es(
                lambda z: objective(z[:, :1]),
                np.append(start, 0.0),
                step,
                seed=seed,
                evaluations=evaluations,
                deadline=deadline,
            )[:1]
        options = {
            "seed": seed,
            "verbose": -9,
            "maxfevals": evaluations,
            "tolfun": 1e-10,
            "tolx": 1e-10,
            "tolflatfitness": 20,
        }
        strategy = cma.CMAEvolutionStrategy(np.asarray(start, dtype=float), step, options)
        best, value = np.asarray(start, dtype=float), np.inf
        while not strategy.stop() and (deadline is None or time.monotonic() < deadline):
            points = np.asarray(strategy.ask())
            values = np.clip(
                np.nan_to_num(objective(points), nan=1e100, posinf=1e100, neginf=-1e100),
                -1e100,
                1e100,
            )
            i = int(np.argmin(values))
            if values[i] < value:
                best, value = points[i].copy(), float(values[i])
            strategy.tell(list(points), values.tolist())
        return best


def _package() -> Any:
    """Import and return the package cma.

    The import needs docstrings. If Python drops docstrings (-OO), cma is compiled with docstrings
    anyway.
    """
    with without_matplotlib_backend():  # cma imports matplotlib
        if sys.flags.optimize < 2 or "cma" in sys.modules:
            return importlib.import_module("cma")
        sys.meta_path.insert(0, _CmaFinder)
        try:
            return importlib.import_module("cma")
        finally:
            sys.meta_path.remove(_CmaFinder)


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


class _CmaFinder(PathFinder):
    """Import finder that compiles the modules of cma with their docstrings."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        spec = (
            super().find_spec(fullname, path, target)
            if fullname.partition(".")[0] == "cma"
            else None
        )
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _DocstringLoader(spec.loader.name, spec.loader.path)
        return spec


class _DocstringLoader(SourceFileLoader):
    """Source loader that keeps docstrings, whatever the optimization level of Python."""

    def get_code(self, fullname: str) -> Any:
        return compile(self.get_data(self.path), self.path, "exec", dont_inherit=True, optimize=0)
