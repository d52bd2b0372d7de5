"""Exact values that repeat among continuous ones: a release that now and then forgets its noise."""

import json

import numpy as np
import pytest

from dpwitness import Pair, Verdict, audit, replay

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def forgetful(share, width=1, decoy=0.0):
    """Laplace noise for epsilon 1, left out in this share of the runs; one in a thousand is 7
    whatever the data.
    """

    def run(data, size, rng):
        values = data[0] / width + rng.laplace(0.0, 1.0, (size, width))
        values[rng.random(size) < share] = data[0] / width
        values[rng.random(size) < decoy, 0] = 7.0
        return values[:, 0] if width == 1 else values

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "trials", "least"),
    [
        (forgetful(2e-4), 2_000_000, 3.5),
        (forgetful(3e-3), 80_000, 2.5),
        (forgetful(1e-3, width=5), 300_000, 3.0),
        (forgetful(1e-3, decoy=1e-3), 400_000, 3.0),
    ],
    ids=["rare", "few runs", "vectors", "beside a value that says nothing"],
)
def test_a_release_without_noise_is_found(mechanism, trials, least):
    """What an oracle certifies of n such runs a side and none of the other is about log(n / 5): 3.6
    to 4.4 here.
    """
    result = audit(mechanism, claim="pure:1", pair=PAIR, trials=trials, bits=False, seed=1)
    assert result.verdict is Verdict.VIOLATED and result.parameter_lower > least
    assert result.method == "exact values"
    witness = json.loads(json.dumps(result.witness))
    assert replay(witness, mechanism=mechanism, trials=trials, seed=8).verdict is Verdict.VIOLATED
