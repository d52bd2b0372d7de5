"""Sequential canary audit: exact error at the claim, DP-SGD without noise, and invalid
arguments.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpwitness.canaries import CanaryMonitor
from dpwitness.core.values.validation import InvalidArgument


def train(noise, steps=200, batch=5, dimension=400, seed=1, claim="gdp:1"):
    """Run DP-SGD with unit gradients, each in one step of an epoch, and return the monitor and the
    number of steps.
    """
    rng = np.random.default_rng(seed)
    monitor = CanaryMonitor(claim, canaries=steps * batch)
    for step in range(1, steps + 1):
        gradients = rng.normal(size=(batch, dimension))
        gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
        coins = rng.random(batch) < 0.5
        update = gradients[coins].sum(axis=0) + noise * rng.normal(size=dimension)
        if monitor.update(gradients @ update, coins).violated:
            return monitor, step
    return monitor, steps


def test_training_without_noise_is_found_long_before_the_first_epoch_ends():
    for claim, most in (("approx:1,1e-5", 30), ("gdp:0.5", 100)):
        monitor, step = train(0.0, claim=claim)
        assert monitor.progress.violated
        assert step < most  # of 200 steps


def test_training_with_the_promised_noise_is_not_accused():
    """Four trainings at the claim; all four are accused with probability below 1e-5."""
    assert sum(train(1.0, steps=20, seed=seed)[0].progress.violated for seed in range(4)) < 4


def test_guesses_at_the_claim_err_with_at_most_alpha():
    """Randomized response at the claim: each coin is shown with odds e^epsilon; false-failure
    probability below 1e-6.
    """
    rng, alarms, runs = np.random.default_rng(3), 0, 60
    for _ in range(runs):
        monitor = CanaryMonitor("pure:1", canaries=150, confidence=0.8)
        for _ in range(5):
            coins = rng.random(30) < 0.5
            shown = coins ^ (rng.random(30) > 1 / (1 + math.exp(-1.0)))
            monitor.update(np.where(shown, 1.0, -1.0), coins)
        alarms += monitor.progress.violated
    assert alarms <= 0.2 * runs + 5 * math.sqrt(0.16 * runs)


def test_the_delta_of_the_claim_takes_its_share_of_the_error():
    assert CanaryMonitor("approx:1,1e-5", canaries=1_000).error == pytest.approx(0.04)
    assert CanaryMonitor("pure:1", canaries=1_000).error == pytest.approx(0.05)
    gaussian = CanaryMonitor("gdp:1", canaries=1_000)
    assert gaussian.error == pytest.approx(0.045)
    assert gaussian.epsilon == pytest.approx(gaussian.claim.epsilon_at(5e-6))
    with pytest.raises(InvalidArgument, match="use fewer canaries"):
        CanaryMonitor("approx:1,1e-3", canaries=1_000)


def test_coins_are_revealed_once_and_scores_must_fit():
    monitor = CanaryMonitor("pure:1", canaries=20)
    monitor.update(np.zeros(20), np.arange(20) % 2 == 0)
    with pytest.raises(InvalidArgument, match="each once"):
        monitor.update([1.0], [True])
    with pytest.raises(InvalidArgument, match="one bool for each of 2 scores"):
        CanaryMonitor("pure:1", canaries=20).update([1.0, 2.0], [True])
    with pytest.raises(InvalidArgument, match="scores"):
        CanaryMonitor("pure:1", canaries=20).update([math.nan], [True])
