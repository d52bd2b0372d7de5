"""Task of a driver and its answer, recorded outputs in place of a mechanism whose library runs in
another interpreter, and placeholders for libraries that a tool imports without need.

A driver is a module with the function ``attack(task)``.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Outputs = NDArray[np.float64]


class NotExpressible(Exception):
    """The tool has no form for this claim or for this kind of output."""


@dataclass(frozen=True, slots=True)
class Task:
    """Mechanism with a claim and a pair of datasets, for one run of a tool.

    Parameters
    ----------
    mechanism : object
        Object with ``sample(dataset, size, rng)``, which returns an array of shape (size, k).
    datasets : tuple
        Neighboring datasets.
    epsilon, delta : float
        The claim.
    confidence : float
        Confidence of the tool's statements with the best settings; the default settings have their
        own.
    best : bool
        Whether to use the best settings that we found, instead of the tool's default settings.
    size : int
        Number of runs of the mechanism on each dataset that the best settings may use, in the
        tool's own unit. The default settings fix it.
    seed : int
        Seed of the mechanism and of the tool.
    cpu_seconds : float
        Time budget of the attack, for a tool that takes one.
    bits : bool
        Whether the fault to be found is in the low bits of the outputs.
    """

    mechanism: Any
    datasets: tuple[Any, Any]
    epsilon: float
    delta: float
    confidence: float
    best: bool
    size: int
    seed: int
    cpu_seconds: float = math.inf
    bits: bool = False

    def generator(self) -> np.random.Generator:
        """Return the generator of the mechanism's randomness."""
        return np.random.default_rng([self.seed, self.size, self.best])

    def draw(self, side: int, size: int, rng: np.random.Generator) -> Outputs:
        """Return outputs of the mechanism on one of the two datasets, of shape (size, k)."""
        outputs = np.asarray(
            self.mechanism.sample(self.datasets[side], size, rng), dtype=np.float64
        )
        return outputs.reshape(size, -1)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool states: a lower bound on epsilon at the claimed delta, if it has one, and whether
    it states a violation of the claim.
    """

    violated: bool
    bound: float | None = None
    note: str = ""


class Exhausted(Exception):
    """An attack has taken all recorded outputs. An ordinary exception, because tools pass those on
    from their threads.
    """


@dataclass
class Recorded:
    """Mechanism that returns recorded outputs in order, each at most once in an attack.

    Parameters
    ----------
    outputs : tuple of ndarray
        Outputs on each of the two datasets, (n, k).
    cost : float
        CPU seconds of the library per output.
    """

    outputs: tuple[Outputs, Outputs]
    cost: float
    # outputs that a tool which reads one output at a time takes at once
    chunk: int = 500
    exhausted: bool = False
    _taken: list[int] = field(default_factory=lambda: [0, 0])

    def sample(self, dataset: Any, size: int, rng: object) -> Outputs:
        """Return the next outputs on the dataset with the number ``dataset[0]``. Raise Exhausted if
        there are not as many.
        """
        side = int(dataset[0])
        begin = self._taken[side]
        if begin + size > len(self.outputs[side]):
            self.exhausted = True
            raise Exhausted
        self._taken[side] += size
        return self.outputs[side][begin : begin + size]

    def rewind(self) -> None:
        """Start an attack: all outputs are there again."""
        self._taken, self.exhausted = [0, 0], False

    @property
    def charged(self) -> float:
        """CPU seconds of the library for the outputs that this attack has taken."""
        return sum(self._taken) * self.cost


def recorded(file: Path) -> dict[str, Any]:
    """Return the fields of a Task from a file of recorded outputs."""
    with np.load(file) as found:
        mechanism = Recorded((found["first"], found["second"]), float(found["cost"]))
        claim = {
            "epsilon": float(found["epsilon"]),
            "delta": float(found["delta"]),
            "bits": bool(found["bits"]),
        }
    return {"mechanism": mechanism, "datasets": (np.zeros(1), np.ones(1)), **claim}


class _Anything:
    """Base class of all names in a placeholder; a call accepts any arguments."""

    def __init__(self, *arguments: object, **options: object) -> None: ...


class _Placeholder(ModuleType):
    """Module that has an empty class for every name."""

    __path__: list[str] = []  # noqa: RUF012
    __all__: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Anything,), {})


def leave_out(*modules: str) -> None:
    """Make imports of these modules and of their parents succeed without the library."""
    for module in modules:
        parent, name = None, ""
        for part in module.split("."):
            name = f"{name}.{part}".lstrip(".")
            found = sys.modules.setdefault(name, _Placeholder(name))
            if parent is not None:
                setattr(parent, part, found)
            parent = found
