"""The check of noise at many draws: right noise passes, and every way in which noise may be wrong
turns a row of its own.
"""

import dataclasses

import numpy as np
import pytest

from dpwitness.benchmarks.performance import noise

DRAWS = 2_000_000


def changed(name, change):
    kind = next(each for each in noise.noises() if each.name == name)
    found = dataclasses.replace(kind, draw=lambda size, rng: change(kind.draw(size, rng), rng))
    found.run(DRAWS, seed=5)
    return {told for told, p in found.p_values().items() if p < noise.SIGNIFICANT}


@pytest.mark.parametrize("name", ["Laplace", "Gaussian", "geometric"])
def test_right_noise_passes(name):
    assert changed(name, lambda x, rng: x) == set()


def rare(x, rng, value):
    return np.where(rng.random(x.size) < 2e-5, value, x)


@pytest.mark.parametrize(
    ("name", "change", "turned"),
    [
        ("Laplace", lambda x, rng: 1.02 * x, {"chi-square", "first four moments"}),
        ("Gaussian", lambda x, rng: x + 0.02, {"chi-square", "first four moments"}),
        # a hole that hardly moves a moment
        ("Gaussian", lambda x, rng: np.where(np.abs(x) < 0.01, 0.0, x), {"chi-square"}),
        ("Laplace", lambda x, rng: rare(x, rng, 13.2), {"tails to 1e-9"}),
        (
            "geometric",
            lambda x, rng: (
                x * np.where(rng.random(x.size) < 0.01, -1.0, 1.0) + (rng.random(x.size) < 0.01)
            ),
            {"chi-square"},
        ),
        ("geometric", lambda x, rng: rare(x, rng, -15.0), {"chi-square", "tails to 1e-9"}),
    ],
)
def test_wrong_noise_is_told(name, change, turned):
    assert turned <= changed(name, change)


def test_tails_that_are_cut_are_told():
    """No value beyond 13 of 2e7 of which 20 should be."""
    kind = next(each for each in noise.noises() if each.name == "Laplace")
    kind.run(10 * DRAWS, seed=6)
    assert kind.p_values()["tails to 1e-9"] > noise.SIGNIFICANT
    kind.tails[:] = 0
    assert kind.p_values()["tails to 1e-9"] < 1e-6
