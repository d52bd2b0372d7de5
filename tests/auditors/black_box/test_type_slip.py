"""An exception on one side that speaks of types is a slip where the datasets differ in type, and an event where they do not."""

import numpy as np
import pytest

from dpwitness.auditors.black_box.audit import audit
from dpwitness.mechanisms import Pair


def total(dataset, size, rng):
    return sum(dataset) + rng.laplace(size=size)


def ages(dataset, size, rng):
    return sum(row["age"] for row in dataset) + rng.laplace(size=size)


def strict(dataset, size, rng):
    if 2.0 in np.asarray(dataset):
        raise TypeError("unsupported operand type(s): 2.0 is no record")
    return rng.laplace(size=size)


def private(dataset, size, rng):
    if None in dataset:
        raise ValueError("a patient is missing")
    return rng.laplace(size=size)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("mechanism", "d0", "d1"), [(total, [1.0, None], [1.0, 2.0]), (ages, [{"age": 3}], [{"age": "x"}])])
def test_a_slip_is_an_error(mechanism, d0, d1, swapped):
    pair = Pair(d1, d0) if swapped else Pair(d0, d1)
    result = audit(mechanism, claim="pure:1", pair=pair, trials=4000)
    assert result.verdict.value == "ERROR"
    assert "alone: TypeError: unsupported operand" in result.headline() and "a type error and not a violation" in result.headline()


@pytest.mark.parametrize(
    ("mechanism", "pair"),
    [
        (strict, Pair(np.array([1.0]), np.array([2.0]))),  # of one type: the value decides
        (strict, Pair([1.0], [2.0])),
        (private, Pair([1.0, None], [1.0, 2.0])),  # its text is not about types
    ],
)
def test_exceptions_that_tell_values_apart_are_violations(mechanism, pair):
    """Every run tells: 4000 of them prove epsilon > 1 at 1 - 1e-9 whatever the seed."""
    assert audit(mechanism, claim="pure:1", pair=pair, trials=4000, confidence=1 - 1e-9).verdict.value == "VIOLATED"
