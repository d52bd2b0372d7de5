"""Recorded outputs of a mechanism on two datasets, in place of the mechanism: its library runs in
another interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.benchmarks.peers.drivers.task import Outputs


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
