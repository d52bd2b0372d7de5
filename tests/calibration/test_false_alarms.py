"""The whole pipeline, pair search included, on correct mechanisms at their exact epsilon: how often does it cry wolf?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from dpwitness import Pair, PureDP, Verdict, audit
from dpwitness.mechanisms import Laplace, RandomizedResponse

PAIRS = [Pair(np.array([0.0]), np.array([value])) for value in (1.0, 0.5, -1.0)]


def alarms(audits: int, first: int) -> tuple[int, int]:
    """Value-level and bit-level false alarms at alpha = .05 of audits at the exact epsilon."""
    value = bits = 0
    mechanisms = [Laplace(1.0, arithmetic="grid"), RandomizedResponse(1.0)]
    for number in range(first, first + audits):
        mechanism = mechanisms[number % 2]
        pairs = PAIRS if number % 2 == 0 else None
        result = audit(mechanism, claim=PureDP(1.0), pair=pairs, trials=6_000, confidence=0.95, seed=number)
        value += result.verdict is Verdict.VIOLATED
        bits += result.bit_level is not None and result.bit_level.verdict is Verdict.VIOLATED
    return value, bits


def test_false_alarm_rate():
    """150 audits at alpha = .05; false-failure probability of this test 1e-6."""
    value, bits = alarms(150, 0)
    most = binom.isf(1e-6, 150, 0.05)
    assert value <= most and bits <= most


@pytest.mark.benchmark
def test_false_alarm_rate_over_2000_audits():
    """At most 5 % plus three standard errors."""
    value, bits = alarms(2_000, 10_000)
    print(f"false alarms in 2000 audits at alpha = .05: {value} value level, {bits} bit level (of 1000 with float outputs)")
    assert value <= 2_000 * 0.05 + 3 * np.sqrt(2_000 * 0.05 * 0.95)
    assert bits <= 2_000 * 0.05
