"""Random events for the fuzzer of the kernel: every class of rule, score and feature that a witness
may name.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpwitness.auditors.events.event import Event, Restricted
from dpwitness.auditors.events.features import (
    Affine,
    Block,
    Distances,
    Levels,
    Places,
    Products,
    ProjectedRamps,
    Ramps,
    SignedLog,
    Sorted,
    Trees,
    WhitenedDistances,
)
from dpwitness.auditors.events.rules import (
    Atoms,
    Intervals,
    Lattice,
    LowBits,
    Threshold,
    WeightedScore,
)
from dpwitness.core.protocols.mechanism import FloatArray

CLASSES = (
    *(
        "LowBits",
        "Intervals",
        "Lattice",
        "Atoms",
        "Threshold",
        "Restricted",
        "Binned",
        "WeightedScore",
        "Levels",
        "Ramps",
        "Affine",
    ),
    *(
        "SignedLog",
        "Sorted",
        "Products",
        "Distances",
        "WhitenedDistances",
        "ProjectedRamps",
        "Places",
        "Trees",
        "Event",
        "Laplace",
    ),
)


def _rising(rng: Generator, size: int, *, infinite: bool = False) -> FloatArray:
    """Return increasing numbers, of which the last may be infinite."""
    found = np.cumsum(rng.uniform(0.1, 2, size)) - 1
    if infinite and size and rng.random() < 0.2:
        found[-1] = np.inf
    return found


def _guesses(rng: Generator, size: int) -> FloatArray:
    """Return guesses."""
    return rng.integers(-1, 2, size).astype(np.float64)


def _limits(rng: Generator) -> tuple[float, float]:
    """Return a lower and an upper limit, which may be infinite."""
    low, high = np.sort(rng.normal(size=2)).tolist()
    return (-np.inf if rng.random() < 0.3 else low), (np.inf if rng.random() < 0.3 else high)


def _column(rng: Generator) -> int:
    """Return the number of a column, mostly a small one."""
    return int(rng.choice([0, 0, 1, 3, 2**17]))


def random_simple_event(rng: Generator) -> Event:
    """Return a rule without other rules inside."""
    size = int(rng.integers(1, 5))
    low, high = _limits(rng)
    kind = int(rng.integers(5))
    if kind == 0:
        return LowBits(
            _column(rng), float(rng.choice([-40.0, -53.5, np.inf])), int(rng.choice([-1, 1]))
        )
    if kind == 1:
        edges = _rising(rng, size - 1, infinite=True)
        return Intervals(_column(rng), edges, _guesses(rng, size), int(rng.integers(-1, 2)))
    if kind == 2:
        return Lattice(
            _column(rng), rng.integers(-9, 9, (size, 2)).astype(np.float64), _guesses(rng, size)
        )
    if kind == 3:
        width = int(rng.integers(1, 4))
        rows = rng.choice([0.0, 1.5, np.inf, np.nan], (size, width))
        names = tuple("abcd"[:size]) if rng.random() < 0.5 else ()
        exact = (
            np.array([[1.0, 2.0]] * int(rng.integers(3))).reshape(-1, 2)
            if width > 1 and rng.random() < 0.5
            else None
        )
        return Atoms(rows, _guesses(rng, size), names, exact)
    return Threshold(_score(rng), low, high)


def random_event(rng: Generator) -> Event:
    """Return a rule of a class that counts guesses."""
    if rng.random() < 0.85:
        return random_simple_event(rng)
    mask = random_simple_event(rng) if rng.random() < 0.5 else None
    codes = _rising(rng, int(rng.integers(3)))
    return Restricted(
        random_simple_event(rng), codes, mask, bool(rng.integers(2)), int(rng.integers(-1, 2))
    )


def _score(rng: Generator) -> WeightedScore:
    """Return a score over up to three groups of features."""
    width, blocks = int(rng.integers(1, 4)), list[Any]()
    for _ in range(int(rng.integers(4))):
        block = _block(rng, width)
        weights = rng.normal(size=block.columns(np.zeros((1, width + 1))).shape[1])
        blocks.append((block, weights))
    structures = (("number", 0.5), ("None", -1.0))[: int(rng.integers(3))]
    return WeightedScore(width, tuple(blocks), float(rng.normal()), structures)


def _block(rng: Generator, width: int) -> Block:
    """Return a group of features of outputs with `width` numbers."""
    kind, column, size = (
        int(rng.integers(11)),
        int(rng.integers(width + 1)),
        int(rng.integers(1, 4)),
    )
    knots = _rising(rng, size + 1)
    if kind == 0:
        return Levels(column, _rising(rng, size, infinite=True))
    if kind == 1:
        return Ramps(column, int(rng.integers(-1, width + 1)), knots)
    at: NDArray[np.int64] = rng.integers(0, width + 1, size)
    if kind == 2:
        return Places(at, float(rng.choice([1.0, np.inf])))
    if kind == 3:
        children = np.array([1, -1, -1]), np.array([2, -1, -1])
        return Trees(
            np.array([column, 0, 0]),
            np.array([0.5, 0.0, 0.0]),
            *children,
            np.array([0.0, 1.0, -1.0]),
            np.array([0] * size),
        )
    scaled = at, rng.normal(size=size), rng.uniform(0.5, 2, size)
    if kind == 4:
        return ProjectedRamps(*scaled, rng.normal(size=size), knots)
    one, zero = rng.normal(size=(2, size))
    if kind == 5:
        return Distances(*scaled, one, zero)
    if kind == 6:
        return WhitenedDistances(*scaled, one, zero, rng.normal(size=(size, size)))
    return (Affine, SignedLog, Sorted, Products)[kind - 7](*scaled)
