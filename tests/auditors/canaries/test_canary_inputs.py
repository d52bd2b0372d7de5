"""Inputs of `audit_canaries` that break its assumptions: repeated runs, shared coins, masks,
tables; sound inputs that look alike.

Sequential canary audit: exact error at the claim, DP-SGD without noise, and invalid
arguments.

Limits of canary audits: the bound that ideal canaries certify, and the violation that an audit
would have found.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.canaries.inputs import read
from dpwitness.canaries import CanaryMonitor
from dpwitness.core.values.validation import InvalidArgument


def split(scores, included):
    return scores[included], scores[~included]


def noisy(rng, included, difficulty):
    return rng.normal(size=included.size) + included


SOUND = {
    "noise": noisy,
    "one difficulty in all runs, little noise": lambda rng, c, f: (
        f + 0.01 * rng.normal(size=c.size) + 0.3 * c
    ),
    "a function of the canary": lambda rng, c, f: f,
    "no noise": lambda rng, c, f: f + 0.5 * c,
    "a small effect on a lattice": lambda rng, c, f: np.floor(3 * f) + 1e-6 * c,
    "pairs of equal difficulty": lambda rng, c, f: np.floor(f.argsort().argsort() / 2) + 1e-6 * c,
    "separated": lambda rng, c, f: 0.01 * f + 10.0 * c,
    "two values": lambda rng, c, f: np.where(rng.random(c.size) < 0.7, c, ~c) * 1.0,
    "ranks": lambda rng, c, f: (rng.normal(size=c.size) + 3 * c).argsort().argsort(),
    "separated ranks": lambda rng, c, f: (f + 30 * c).argsort().argsort(),
    "rounded": lambda rng, c, f: noisy(rng, c, f).round(1),
    "clipped": lambda rng, c, f: np.clip(noisy(rng, c, f), 0, 1),
}


@pytest.mark.parametrize("law", SOUND)
@pytest.mark.parametrize(("size", "runs"), [(10, 60), (100, 20), (1000, 6)])
def test_runs_with_new_coins_are_accepted(law, size, runs):
    """Also where all runs have the same canaries and scores without noise. A run is refused with
    probability at most 1e-9.
    """
    rng = np.random.default_rng([7, size])
    difficulty = rng.normal(size=size)
    masks = [rng.random(size) < 0.5 for _ in range(runs)]
    found = [
        split(np.asarray(SOUND[law](rng, included, difficulty)), included) for included in masks
    ]
    ids = [split(np.arange(size), included) for included in masks]
    taken = read(
        [a for a, _ in found], [b for _, b in found], [a for a, _ in ids], [b for _, b in ids]
    )
    assert taken.runs == runs and taken.scores.size == runs * size


COPIES = {
    "equal": lambda x, rng: x,
    "in another order": lambda x, rng: rng.permutation(x),
    "scaled": lambda x, rng: 3 * x + 1,
    "perturbed": lambda x, rng: x + 1e-4 * rng.normal(size=x.size),
    "rounded": lambda x, rng: x.round(3),
    "in 32 bits": lambda x, rng: x.astype(np.float32),
    "transformed": lambda x, rng: np.exp(x),
    "negated": lambda x, rng: -x,
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize(
    ("size", "runs", "different"), [(200, 2, 1), (1000, 20, 10), (100, 20, 1), (10, 400, 1)]
)
def test_copies_of_a_run_are_refused(how, size, runs, different):
    rng = np.random.default_rng([3, size])
    base = [split(noisy(rng, c, None), c) for c in rng.random((different, size)) < 0.5]
    given = [
        base[i % different] if i < different else [COPIES[how](x, rng) for x in base[i % different]]
        for i in range(runs)
    ]
    with pytest.raises(InvalidArgument, match="draw new coins for each") as error:
        dpw.audit_canaries([a for a, _ in given], [b for _, b in given], "gdp:1")
    assert "\n" not in str(error.value)


def test_one_set_of_coins_for_several_trainings_is_refused():
    """By the sizes from seven runs on; by the names of the canaries from two runs on."""
    rng = np.random.default_rng(4)
    included = rng.random(1000) < 0.5
    runs = [split(noisy(rng, included, None), included) for _ in range(8)]
    with pytest.raises(
        InvalidArgument, match=f"8 of 8 runs include exactly {included.sum()} of 1000 canaries"
    ):
        dpw.audit_canaries([a for a, _ in runs], [b for _, b in runs], "gdp:1")
    ids = [split(np.arange(1000), included)] * 2
    with pytest.raises(
        InvalidArgument, match="runs 0 and 1 include exactly the same canaries, by their ids"
    ):
        dpw.audit_canaries(
            *zip(*runs[:2], strict=True),
            "gdp:1",
            ids_in=[a for a, _ in ids],
            ids_out=[b for _, b in ids],
        )


RNG = np.random.default_rng(1)
INCLUDED = RNG.random(200) < 0.5
SCORES = RNG.normal(size=200) + INCLUDED
IN, OUT = split(SCORES, INCLUDED)
WRONG = {
    "a mask": (
        (SCORES, INCLUDED),
        r"scores_out must hold scores, got an array of True and False.* pass "
        r"scores\[included\] as scores_in",
    ),
    "a mask as a list": (
        (SCORES, INCLUDED.tolist()),
        "scores_out must hold scores, got an array of True and False",
    ),
    "a mask first": (
        (INCLUDED, SCORES),
        "scores_in must hold scores, got an array of True and False",
    ),
    "two masks": (
        (INCLUDED, ~INCLUDED),
        "scores_in must hold scores, got an array of True and False",
    ),
    "a mask of integers": (
        (SCORES, INCLUDED.astype(int)),
        "scores_out must hold scores, got only 0 and 1",
    ),
    "a mask of floats": (
        (IN, INCLUDED.astype(float)),
        "scores_out must hold scores, got only 0 and 1",
    ),
    "a mask beside whole scores": (
        (RNG.integers(0, 50, 200), INCLUDED.astype(int)),
        "scores_out must hold scores, got only 0 and 1",
    ),
    "indices": (
        (SCORES, np.flatnonzero(INCLUDED)),
        "scores_out must hold scores, got rising whole numbers",
    ),
    "places on both sides": (
        (np.flatnonzero(INCLUDED), np.flatnonzero(~INCLUDED)),
        "got rising whole numbers",
    ),
    "a mask and its complement": (
        (INCLUDED.astype(int), 1 - INCLUDED),
        "got a mask and its complement",
    ),
    "signs": ((2.0 * INCLUDED - 1, 1 - 2.0 * INCLUDED), "got a mask and its complement"),
    "products with a mask": (
        (SCORES * INCLUDED, SCORES * ~INCLUDED),
        "got a mask and its complement, or products",
    ),
    "one array in 32 bits": ((SCORES, SCORES.astype(np.float32)), "got the same array twice"),
    "one array twice": (
        (SCORES, SCORES),
        "must be of different canaries, got the same array twice",
    ),
    "one selection twice": (
        (IN, IN.copy()),
        "must be of different canaries, got the same array twice",
    ),
    "one selection twice in another order": ((IN, IN[::-1]), "scores that occur in both"),
    "the coins": (
        (INCLUDED[INCLUDED].astype(int), INCLUDED[~INCLUDED].astype(int)),
        "scores must not be the coins, got 1 for each",
    ),
    "a table": (
        (IN[:80].reshape(8, 10), OUT[:80].reshape(8, 10)),
        r"shape \(8, 10\): for several runs pass a list",
    ),
    "a column": ((IN[:, None], OUT[:, None]), r"pass its \.ravel\(\)"),
    "transposed runs": (([[1.0, 2.0]] * 100, [[0.0, 1.0]] * 100), "the lists look transposed"),
    "constant runs": (
        ([[1.0] * 20] * 5, [[1.0] * 20] * 5),
        "scores must differ, those of each run are all equal",
    ),
    "not a number": (
        (np.append(IN, math.nan), OUT),
        f"array of finite numbers, got nan at place {IN.size}",
    ),
    "all and the rest": (
        (np.append(SCORES, SCORES + 9), OUT),
        r"near half .* Pass scores\[included\]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_answered_with_the_call_that_was_meant(case):
    sides, message = WRONG[case]
    with pytest.raises(InvalidArgument, match=message) as error:
        dpw.audit_canaries(*sides, "gdp:1")
    assert "\n" not in str(error.value)


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


def test_coins_are_revealed_once_and_scores_must_fit():
    monitor = CanaryMonitor("pure:1", canaries=20)
    monitor.update(np.zeros(20), np.arange(20) % 2 == 0)
    with pytest.raises(InvalidArgument, match="each once"):
        monitor.update([1.0], [True])
    with pytest.raises(InvalidArgument, match="one bool for each of 2 scores"):
        CanaryMonitor("pure:1", canaries=20).update([1.0, 2.0], [True])
    with pytest.raises(InvalidArgument, match="scores"):
        CanaryMonitor("pure:1", canaries=20).update([math.nan], [True])


@pytest.mark.parametrize(
    ("epsilon", "canaries", "counted", "curve"),
    [
        (1, 1000, 0.22, 0.34),
        (2, 1000, 0.69, 0.98),
        (4, 1000, 1.57, 2.31),
        (8, 1000, 3.04, 4.8),
        (8, 5000, 3.73, 5.37),
    ],
)
def test_limits(epsilon, canaries, counted, curve):
    claim = f"approx:{epsilon},1e-5"
    assert dpw.canaries.canary_limit(claim, canaries).epsilon == pytest.approx(counted, abs=0.03)
    assert dpw.canaries.canary_limit(claim, canaries, method="curve").epsilon == pytest.approx(
        curve, abs=0.06
    )
    assert dpw.canaries.canary_limit(claim, canaries, runs=10).epsilon > counted
