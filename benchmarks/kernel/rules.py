"""Rules of events for questions to the checker: one of each class, and each of them with one part
changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np

from dpwitness.auditors.events.event import Binned, Event, Restricted
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
from dpwitness.benchmarks.kernel.cases import array, places

INF, ZERO, ONE, TWO = np.inf, np.array([0.0]), np.array([1.0]), np.array([1.0, 2.0])
AT = np.array([0, 2])
SCALED = AT, TWO, TWO
FEATURES: tuple[tuple[Block, int], ...] = (
    (Levels(1, np.array([0.0, 1.0, INF])), 3),
    (Levels(0, np.array([])), 0),
    (Ramps(2, -1, np.array([0.0, 1.0, 3.0])), 2),
    (Ramps(0, 2, TWO), 1),
    (Affine(*SCALED), 2),
    (SignedLog(*SCALED), 2),
    (Sorted(*SCALED), 2),
    (Products(np.array([0, 1, 2]), np.zeros(3), np.ones(3)), 6),
    (Distances(*SCALED, TWO, TWO), 3),
    (WhitenedDistances(*SCALED, TWO, TWO, np.eye(2)), 3),
    (ProjectedRamps(*SCALED, TWO, np.array([0.0, 1.0, 3.0])), 2),
    (Places(AT, INF), 8),
    (
        Trees(
            np.array([2, 0, 9]),
            np.zeros(3),
            np.array([1, -1, -1]),
            np.array([2, -1, -1]),
            np.zeros(3),
            np.array([0, 2]),
        ),
        1,
    ),
)
SIMPLE: tuple[Event, ...] = (
    LowBits(0, -40.0, 1),
    Intervals(3, TWO, np.array([-1.0, 0.0, 1.0]), 1),
    Intervals(0, np.array([-INF, INF]), np.array([0.0, -1.0, 0.0]), -1),
    Intervals(0, np.array([]), ZERO),
    Lattice(1, np.array([[1.0, 2.0], [3.0, INF]]), np.array([-1.0, 1.0])),
    Atoms(
        np.array([[1.0, np.nan], [2.0, 3.0]]),
        np.array([1.0, 1.0]),
        ("a", "b"),
        np.array([[1.0, 3.0], [1.0, INF]]),
    ),
    Atoms(np.array([[1.0], [2.0]]), np.array([1.0, -1.0])),
    Threshold(WeightedScore(2, (), 0.5, (("a", 1.0), ("b", INF))), -INF, 1.0),
)
EVENTS: tuple[Event, ...] = (
    *SIMPLE,
    *(
        Threshold(WeightedScore(2, ((block, np.ones(count)),)), 0.0, 1.0)
        for block, count in FEATURES
    ),
    Restricted(SIMPLE[1], TWO, SIMPLE[0], True, 0),
    Restricted(SIMPLE[1], np.array([]), None, False, -1),
    Restricted(SIMPLE[0], ONE),
    Binned(
        (SIMPLE[0], Restricted(SIMPLE[0], ONE)),
        np.array([-50.0, 0.0, 50.0]),
        2.0,
        True,
        np.array([0.0, 0.5]),
    ),
    Restricted(Restricted(SIMPLE[0], ONE), ONE),
)
OTHER: tuple[Any, ...] = (
    *(
        None,
        True,
        -2,
        -1,
        0,
        1,
        2,
        3,
        4,
        2**17,
        2**17 + 1,
        2**53,
        2**53 + 1,
        -(2**53),
        1.0,
        0.5,
        -0.5,
        1e308,
        50.5,
        10_000,
        10_001,
        "a",
        "",
        {},
        [],
    ),
    *({"$type": "float", "value": word} for word in ("inf", "-inf", "nan")),
    *({"$type": "tuple", "value": entries} for entries in ([], ["a"], ["a", "b"])),
    *(
        array(1.0),
        array(2.0, 1.0),
        array(1.0, 1.0),
        array(1, 2, dtype="<i8"),
        array(1.0, 2.0, shape=(1, 2)),
        array(1.0, 2.0, shape=(2, 1)),
    ),
    "dpwitness.auditors:LowBits",
    "dpwitness.auditors:Binned",
    "dpwitness.auditors:Affine",
    "dpwitness.auditors:Other",
    "dpwitness.mechanisms:LowBits",
)


@cache
def rules() -> tuple[Any, ...]:
    """Return the rules, and each rule with a part that is left out, repeated, or replaced."""
    return (*_changed(), *_sized())


def _changed() -> Iterator[Any]:
    """Yield the rules, and each rule with a part changed."""
    for event in EVENTS:
        rule = event.to_json()["rule"]
        yield rule
        for number, (container, key) in enumerate(list(places(rule))):
            if key in ("$type", "dtype"):
                continue
            for change in (None, *OTHER):
                copy = deepcopy(rule)
                parent, _ = list(places(copy))[number]
                if change is None:
                    del parent[key]
                else:
                    parent[key] = change
                yield copy
            if isinstance(container[key], list):
                copy = deepcopy(rule)
                list(places(copy))[number][0][key].append(1.0)
                yield copy


def _sized() -> Iterator[Any]:
    """Yield rules whose arrays have the largest number of entries, or one more."""
    for size in (255, 256, 257, 258):
        many = np.arange(float(size))
        at, features = np.zeros(size, np.int64), list[tuple[Block, int]]()
        features += [
            (Levels(0, many), size),
            (Ramps(0, -1, many), size - 1),
            (Affine(at, many, many + 1), size),
            (Places(at, 1.0), 3 * size + 2),
        ]
        for block, count in features:
            yield Threshold(WeightedScore(0, ((block, np.ones(count)),)), 0.0, 1.0).to_json()[
                "rule"
            ]
        trees = Trees(np.array([0]), ZERO, np.array([-1]), np.array([-1]), ZERO, at)
        yield Threshold(WeightedScore(0, ((trees, ONE),)), 0.0, 1.0).to_json()["rule"]
        yield Binned(
            (SIMPLE[0],) * size, np.zeros(size + 1), 2.0, True, np.array([0.0, 0.5])
        ).to_json()["rule"]
