"""Sessions of the gray box: patches are removed whatever happens, also by several threads."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.core.values.validation import InvalidArgument

sys.path.insert(0, str(Path(__file__).parent))
import traced
from traced import PAIR


def places():
    kept = [
        np.random.default_rng,
        np.random.Generator,
        np.random.RandomState,
        np.random.mtrand._rand,
    ]
    kept += [
        np.random.laplace,
        np.random.shuffle,
        random.Random.random,
        random.SystemRandom.getrandbits,
    ]
    return [*kept, traced.laplace_mechanism, traced.Ledger.__dict__["charge"]]


def raising(data, size, rng):
    raise KeyError("always")


def endless(data, size, rng):
    while True:
        pass


def endless_draws(data, size, rng):
    while True:
        rng.random()


@pytest.mark.slow
@pytest.mark.parametrize(
    "run", [traced.right, raising, endless, endless_draws], ids=lambda v: v.__name__
)
def test_everything_is_put_back_whatever_happens(run):
    before, state = places(), random.getstate()
    result = dpw.trace(run, PAIR, "pure:1", traced.PRIMITIVES, time_limit=0.3, confirm=False)
    assert all(a is b for a, b in zip(before, places(), strict=True)) and random.getstate() == state
    if run in (endless, endless_draws):
        assert result.verdict is dpw.Verdict.ERROR and "time_limit = 0.3" in result.headline()


def test_everything_is_put_back_after_a_wrong_name():
    before = places()
    with pytest.raises(InvalidArgument, match="nothing_such"):
        dpw.trace(traced.right, PAIR, "pure:1", {**traced.PRIMITIVES, "traced.nothing_such": {}})
    assert all(a is b for a, b in zip(before, places(), strict=True))
