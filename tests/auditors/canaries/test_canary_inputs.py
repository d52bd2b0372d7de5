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
from canary_scores import leaking_response, normal_scores
from scipy.stats import binom

import dpwitness as dpw
from dpwitness.auditors.canaries import bounds
from dpwitness.auditors.canaries.inputs import read, read_score_file
from dpwitness.canaries import CanaryMonitor
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms import DPSGD


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


@pytest.mark.parametrize("parts", [(slice(None), slice(1, None)), (slice(0, -9), slice(9, None))])
def test_parts_of_a_run_that_are_given_again_are_refused(parts):
    given = split(noisy(rng := np.random.default_rng(4), mask := rng.random(200) < 0.5, None), mask)
    with pytest.raises(
        InvalidArgument, match="runs 0 and 1 order included and left-out canaries alike"
    ):
        dpw.audit_canaries(*([side[part] for part in parts] for side in given), "gdp:1")


def test_copies_that_are_joined_to_one_run_are_refused():
    rng = np.random.default_rng(2)
    sides = split(rng.normal(size=100), rng.random(100) < 0.5)
    with pytest.raises(InvalidArgument, match="every score occurs 20 times"):
        dpw.audit_canaries(*(np.tile(side, 20) for side in sides), "gdp:1")


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


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_correlated_coins_are_refused_by_name(share):
    """Coins that agree too often, and coins that disagree too often."""
    rng = np.random.default_rng(5)
    first = rng.random(1000) < 0.5
    masks = [first, np.where(rng.random(1000) < share, first, ~first)]
    runs = [split(rng.normal(size=1000), c) for c in masks]
    ids = [split(np.arange(1000), c) for c in masks]
    with pytest.raises(
        InvalidArgument, match=r"the coins of runs 0 and 1 agree for \d+ of 1000 canaries"
    ):
        dpw.audit_canaries(
            *zip(*runs, strict=True),
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


COUNTS = RNG.poisson(0.5 + 2 * INCLUDED)
KEPT = {
    "zeros and ones on both sides": split(
        np.where(RNG.random(200) < 0.8, INCLUDED, ~INCLUDED).astype(int), INCLUDED
    ),
    "counts": split(COUNTS, INCLUDED),
    "coins in other units": split(2.0 * INCLUDED, INCLUDED),
    "sorted scores": (np.sort(IN), np.sort(OUT)),
    "lists": (IN.tolist(), tuple(OUT.tolist())),
    "single numbers of zero dimensions": ([np.array(x) for x in IN], [np.array(x) for x in OUT]),
    "integers": split(np.round(100 * SCORES).astype(int), INCLUDED),
}


@pytest.mark.parametrize("case", KEPT)
def test_scores_that_resemble_a_mistake_are_accepted(case):
    assert dpw.audit_canaries(*KEPT[case], "gdp:9").canaries == 200


def test_a_small_run_that_equals_its_coins_by_chance_is_accepted():
    rng = np.random.default_rng(0)
    first = np.arange(10) % 2 == 0
    masks = [first, *(rng.random((20, 10)) < 0.5)]
    runs = [
        split(np.where((rng.random(10) < 0.7) | (i == 0), c, ~c).astype(float), c)
        for i, c in enumerate(masks)
    ]
    assert dpw.audit_canaries(*zip(*runs, strict=True), "gdp:9").runs == 21


def test_columns_of_a_file_that_are_exchanged_or_misnamed(tmp_path):
    np.savez(tmp_path / "a.npz", score=INCLUDED, included=SCORES)
    with pytest.raises(InvalidArgument, match="exchange the two columns"):
        read_score_file(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", scores=SCORES, mask=INCLUDED)
    with pytest.raises(InvalidArgument, match="rename scores to score and mask to included"):
        read_score_file(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", score=INCLUDED, included=INCLUDED)
    with pytest.raises(InvalidArgument, match="scores must not be the coins"):
        dpw.audit_canaries(**read_score_file(tmp_path / "c.npz"), claim="gdp:1")


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


def test_what_would_have_been_found_is_found():
    """50 audits at the detectable epsilon. If each is VIOLATED with probability 0.9, the test fails
    at most once in 1e6.

    Gaussian scores; and binary ones, where nearly all canaries that may be guessed are.
    """
    claim = dpw.ApproxDP(1.0, 1e-5)
    mu = dpw.GDP.with_epsilon(
        dpw.audit_canaries(*normal_scores(0, 4000, 0.1), claim).detectable, 1e-5
    ).mu
    results = [dpw.audit_canaries(*normal_scores([seed, 8], 4000, mu), claim) for seed in range(50)]
    epsilon, binary = dpw.canaries.canary_limit("pure:1", 400).detectable, []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        coins = rng.random(400) < 0.5
        scores = leaking_response(rng, coins, epsilon, 0.0)
        binary.append(dpw.audit_canaries(scores[coins], scores[~coins], "pure:1", seed=seed))
    for found in (results, binary):
        assert sum(result.verdict is dpw.Verdict.VIOLATED for result in found) >= binom.ppf(
            1e-6, 50, 0.9
        )
    assert binary[-1].guesses > 0.4 * 400


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


def test_the_limit_of_a_training_is_that_of_the_gaussian_with_its_epsilon():
    assert dpw.canaries.canary_limit(DPSGD(1.0, 1.0, 1), 1000).epsilon == pytest.approx(
        dpw.canaries.canary_limit("gdp:1", 1000).epsilon, rel=0.01
    )
    with pytest.raises(InvalidArgument, match="claim must be pure, approx, gdp or a curve"):
        dpw.canaries.canary_limit("zcdp:1", 1000)


def test_the_limit_of_a_pure_claim_is_that_of_randomized_response():
    """All coins are guessed; half of the audits with as many fixed guesses stay below."""
    limit, rng = dpw.canaries.canary_limit("pure:1", 2000), np.random.default_rng(4)
    assert limit.guesses == 2000 and 0.8 < limit.epsilon < 0.95 and 1 < limit.detectable < 1.5
    right = rng.binomial(2000, 1 / (1 + math.exp(-1.0)), 200)
    below = np.sum(
        bounds.epsilons_refuted(right, np.full(200, 2000), 0.0, 2000, 0.05, bounds.chance)
        <= limit.epsilon
    )
    assert abs(below - 100) < 5 * math.sqrt(50)
    with pytest.raises(InvalidArgument, match="method must be 'best' for a claim without delta"):
        dpw.canaries.canary_limit("pure:1", 1000, method="curve")


def test_curves():
    assert DPSGD(1.0, 1.0, 1).epsilon_at(1e-5) == pytest.approx(
        dpw.GDP(1.0).epsilon_at(1e-5), rel=1e-3
    )
    epsilons, deltas = DPSGD(1.0, 1.0, 1).tangents()
    assert (
        np.all(deltas >= dpw.GDP(1.0).delta(epsilons) - 1e-9)
        and np.max(deltas - dpw.GDP(1.0).delta(epsilons)) < 2e-3
    )
    curve = dpw.claims.TradeoffCurve([0, 1 / (1 + math.e), 1], [1, 1 / (1 + math.e), 0])
    assert curve.tangents()[0] == pytest.approx([1.0, -1.0]) and curve.tangents()[
        1
    ] == pytest.approx([0.0, 1 - 1 / math.e])
    q = np.linspace(0, 1, 50)
    for each in (curve, curve.with_parameter(1.7), DPSGD(0.1, 1.5, 10)):
        epsilons, deltas = each.tangents()
        assert np.minimum(1, (np.exp(epsilons) * q[:, None] + deltas).min(axis=1)) == pytest.approx(
            each.tradeoff(q), abs=1e-9
        )


def test_few_canaries_are_held_against_steep_and_weak_curves():
    """Of few canaries the smallest number of guesses is one or two; weak claims are held against
    more guesses.
    """
    half = 1 / (1 + math.exp(3.0))
    found = dpw.audit_canaries(
        *normal_scores(1, 37, 1.0), dpw.claims.TradeoffCurve([0, half, 1], [1, half, 0])
    )
    assert found.verdict is dpw.Verdict.NOT_REFUTED and found.detectable > 1
    assert (
        bounds.schedule(1000, 440, 0.05, 0.268)[0][0]
        > bounds.schedule(1000, 440, 0.05, 0.5)[0][0]
        == 228
    )
