"""The whole pipeline, pair search included, on correct mechanisms at their exact epsilon: how often
does it cry wolf?
"""

import numpy as np
import pytest
from scipy.stats import binom

from dpwitness import Pair, PureDP, Target, Verdict, audit
from dpwitness.mechanisms import Laplace, RandomizedResponse

PAIRS = [Pair(np.array([0.0]), np.array([value])) for value in (1.0, 0.5, -1.0)]


def alarms(audits: int, first: int) -> tuple[int, int]:
    """Value-level and bit-level false alarms at alpha = .05 of audits at the exact epsilon."""
    value = bits = 0
    mechanisms = [Laplace(1.0, arithmetic="grid"), RandomizedResponse(1.0)]
    for number in range(first, first + audits):
        mechanism = mechanisms[number % 2]
        pairs = PAIRS if number % 2 == 0 else None
        result = audit(
            mechanism, claim=PureDP(1.0), pair=pairs, trials=6_000, confidence=0.95, seed=number
        )
        value += result.verdict is Verdict.VIOLATED
        bits += result.bit_level is not None and result.bit_level.verdict is Verdict.VIOLATED
    return value, bits


@pytest.mark.slow
def test_false_alarm_rate():
    """60 audits at alpha = .05; false-failure probability of this test 1e-6."""
    value, bits = alarms(60, 0)
    most = binom.isf(1e-6, 60, 0.05)
    assert value <= most and bits <= most


@pytest.mark.benchmark
def test_false_alarm_rate_over_2000_audits():
    """At most 5 % plus three standard errors."""
    value, bits = alarms(2_000, 10_000)
    print(
        f"false alarms in 2000 audits at alpha = .05: {value} value level, {bits} bit level "
        "(of 1000 with float outputs)"
    )
    assert value <= 2_000 * 0.05 + 3 * np.sqrt(2_000 * 0.05 * 0.95)
    assert bits <= 2_000 * 0.05


RAISING = """
import math
import numpy as np

def quiet(dataset, size, rng):
    if np.any(dataset[0] + rng.laplace(0.0, 1.0, size) > 4.2):
        raise OverflowError("too much")
    return np.zeros(size)

def often(dataset, size, rng):
    if np.any(rng.random(size) < (math.e if dataset[0] else 1.0) / (1 + math.e)):
        raise KeyError("yes")
    return np.ones(size)

def tails(dataset, size, rng):
    x = np.round(4 * (dataset[0] + rng.laplace(0.0, 1.0, size))) / 4
    if np.any(x > 5):
        raise ValueError("high")
    if np.any(x < -3):
        raise ArithmeticError("low")
    return x

def rare(dataset, size, rng):
    if np.any(dataset[0] + rng.laplace(0.0, 1.0, size) > 9.5):
        raise OverflowError("rare")
    return np.zeros(size)

for function in (quiet, often, tails, rare):
    function.claim, function.batch = "pure:1", 64
"""


@pytest.mark.benchmark
@pytest.mark.parametrize("where", ["here", "worker"])
@pytest.mark.parametrize("name", ["quiet", "often", "tails", "rare"])
def test_false_alarm_rate_of_mechanisms_that_raise(tmp_path, name, where):
    """200 audits at alpha = .05 where the claim is tight; false-failure probability 1e-6."""
    path = tmp_path / "raising.py"
    path.write_text(RAISING)
    space: dict = {}
    exec(RAISING, space)
    mechanism = space[name] if where == "here" else Target(str(path), name)
    options = {
        "claim": "pure:1",
        "pair": PAIRS[0],
        "trials": 16_000,
        "confidence": 0.95,
        "bits": False,
    }
    found = [audit(mechanism, **options, seed=seed).verdict for seed in range(200)]
    wrong = sum(verdict is Verdict.VIOLATED for verdict in found)
    print(f"{name}, {where}: {wrong} false alarms in 200 audits at alpha = .05")
    assert wrong <= binom.isf(1e-6, 200, 0.05) and Verdict.ERROR not in found
