"""Canaries: the theorems against enumeration, their inversion, the choice of guesses, false alarms,
bad input, the command.
"""

import itertools
import math

import numpy as np
import pytest
from canary_scores import leaking_response, normal_scores
from scipy.special import expit
from scipy.stats import binom, norm

import dpwitness as dpw
from dpwitness.auditors.canaries import bounds
from dpwitness.core.values.validation import InvalidArgument


def worst_law(size, epsilon, delta, right):
    """Counts under which as much as delta allows goes to `right`; of Y = S with size - C coins
    turned, at random places.
    """
    unit, extra = np.zeros(size + 1), np.zeros(size + 1)
    unit[0] = 1.0
    for k in range(1, size + 1):
        up = math.exp(epsilon) * (size - k + 1) / k
        unit[k], extra[k] = (
            up * unit[k - 1],
            up * extra[k - 1] + (size * delta / k if k == right else 0.0),
        )
    return unit * (1 - extra.sum()) / unit.sum() + extra


@pytest.mark.parametrize(
    ("size", "epsilon", "delta", "right"),
    [(2, 2.0, 1e-6, 1), (4, 0.7, 1e-3, 4), (6, 1.0, 1e-2, 5), (7, 0.2, 0.02, 6)],
)
def test_counting_is_attained_by_a_mechanism_that_keeps_the_claim(size, epsilon, delta, right):
    """Enumerated: the mechanism is (epsilon, delta)-DP in each coin, and its counts reach the
    theorem: no smaller bound holds.
    """
    law = worst_law(size, epsilon, delta, right)
    outputs = list(itertools.product((0, 1), repeat=size))

    def output_law(coins):
        agree = [sum(a == b for a, b in zip(coins, y, strict=True)) for y in outputs]
        return np.array([law[k] / math.comb(size, k) for k in agree])

    for coins in outputs[:: max(1, len(outputs) // 8)]:
        p = output_law(coins)
        assert p.sum() == pytest.approx(1.0)
        for i in range(size):
            q = output_law((*coins[:i], 1 - coins[i], *coins[i + 1 :]))
            assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= delta * (1 + 1e-9) + 1e-15
    reached = law[right:].sum()
    assert bounds.chance(right, size, epsilon, delta, size) == pytest.approx(reached, rel=1e-9)


def enumerated(likelihood, size, guesses):
    """Law of the right guesses about `size` coins, each seen through likelihood[coin][output], of
    which the `guesses` surest are named.
    """
    law = np.zeros(guesses + 1)
    outputs = list(itertools.product(range(len(likelihood[0])), repeat=size))
    sure = [abs(math.log(b / a)) if a and b else math.inf for a, b in zip(*likelihood, strict=True)]
    for y in outputs:
        named = sorted(range(size), key=lambda i: -sure[y[i]])[:guesses]
        for coins in itertools.product((0, 1), repeat=size):
            p = math.prod(likelihood[s][o] for s, o in zip(coins, y, strict=True)) / 2**size
            law[sum(coins[i] == (likelihood[1][y[i]] > likelihood[0][y[i]]) for i in named)] += p
    return law


@pytest.mark.parametrize("guesses", [1, 2, 4])
def test_bounds_hold_for_randomized_response_with_a_leak_and_abstention(guesses):
    """All coins and outputs enumerated: answers flipped at e^epsilon, and the coin itself with
    probability delta.
    """
    epsilon, delta, size = 0.8, 0.05, 4
    yes, no = (1 - delta) * expit(epsilon), (1 - delta) * expit(-epsilon)
    law = enumerated(((delta, yes, no, 0.0), (0.0, no, yes, delta)), size, guesses)
    lines = np.array([epsilon, -epsilon]), np.array([delta, 1 - math.exp(-epsilon) * (1 - delta)])
    for v in range(1, guesses + 1):
        chance = law[v:].sum()
        assert chance <= float(bounds.chance(v, guesses, epsilon, delta, size)) + 1e-12
        assert not bounds.refutes(v, guesses, size, *lines, chance * (1 - 1e-9))
    # delta matters here: pure DP is refuted
    assert law[guesses] > binom.sf(guesses - 1, guesses, expit(epsilon)) * 1.01


def test_the_recursion_holds_for_a_gaussian_on_three_bins():
    """Coins seen through a rounded normal score, enumerated: at its own curve nothing beyond the
    true probability is refuted.
    """
    mu = 1.2
    cut = np.array([-np.inf, -0.2, 1.4, np.inf])
    likelihood = np.diff(norm.cdf(cut)), np.diff(norm.cdf(cut - mu))
    for guesses in (2, 4):
        law = enumerated(likelihood, 4, guesses)
        for v in range(1, guesses + 1):
            assert not bounds.refutes(
                v, guesses, 4, *dpw.GDP(mu).tangents(), law[v:].sum() * (1 - 1e-9)
            )


LAWS = {
    "gaussian": (lambda rng, coins: rng.normal(size=coins.size) + coins, dpw.GDP(1.0)),
    "gaussian, approximate": (
        lambda rng, coins: rng.normal(size=coins.size) + dpw.GDP.with_epsilon(2.0, 1e-2).mu * coins,
        dpw.ApproxDP(2.0, 1e-2),
    ),
    "response": (
        lambda rng, coins: leaking_response(rng, coins, 1.0, 1e-2),
        dpw.ApproxDP(1.0, 1e-2),
    ),
    "heavy": (lambda rng, coins: rng.laplace(size=coins.size) + coins, dpw.PureDP(1.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_false_alarms_at_the_exact_curve(law):
    """150 audits, m = 200 to 600, at 95 %: false failure below 1e-6 (a binomial tail of
    rate 0.05).
    """
    draw, claim = LAWS[law]
    alarms = 0
    for seed in range(150):
        rng = np.random.default_rng([seed, 5])
        coins = rng.random(200 + 100 * (seed % 5)) < 0.5
        scores = draw(rng, coins)
        alarms += (
            dpw.audit_canaries(scores[coins], scores[~coins], claim, seed=seed).verdict
            is dpw.Verdict.VIOLATED
        )
    assert binom.sf(alarms - 1, 150, 0.05) > 1e-6


def test_the_result_says_what_was_assumed_and_its_witness_is_replayed():
    result = dpw.audit_canaries(*normal_scores(0, 2000, 2.0), "approx:1,1e-5", ids_in=None)
    assert (
        result.verdict is dpw.Verdict.VIOLATED
        and result.epsilon_lower > 2.5
        and result.p_value < 0.05
    )
    assert any("fair coin" in note for note in result.notes)
    again = dpw.replay(result.witness, seed=8)
    assert again.verdict is dpw.Verdict.VIOLATED and again.parameter_lower == pytest.approx(
        result.parameter_lower
    )
    forged = {
        **{key: value for key, value in result.witness.items() if key != "sha256"},
        "counts": {**result.witness["counts"], "right": result.witness["counts"]["right"] - 5},
    }
    with pytest.raises(InvalidArgument, match="bound must be what the counts certify"):
        dpw.replay(forged)
    barely = dpw.audit_canaries(*normal_scores(0, 2000, 0.1), "approx:0.001,1e-5", confidence=0.01)
    assert barely.verdict is dpw.Verdict.VIOLATED
    again = dpw.replay(barely.witness)
    assert again.verdict is dpw.Verdict.NOT_REFUTED and again.confidence == 0.95
    assert again.alpha == pytest.approx(barely.alpha * 0.05 / 0.99)
    assert dpw.replay(barely.witness, confidence=0.01).verdict is dpw.Verdict.VIOLATED


BAD = {
    "a score that is no number": (
        {"scores_in": [1.0, math.nan] * 20},
        "scores_in must be an array of finite numbers",
    ),
    "an empty side": ({"scores_out": []}, "scores_out must be one row of at least one score"),
    "few": ({"scores_in": [1.0], "scores_out": [0.0]}, "at least 10 canaries together, got 2"),
    "unequal sides": (
        {"scores_in": np.arange(200.0)},
        "near half of the canaries, each included by a fair coin, got 200 of 240",
    ),
    "constant": (
        {"scores_in": [0.5] * 40, "scores_out": [0.5] * 40},
        "scores must differ, all 80 are 0.5",
    ),
    "a canary twice": (
        {"ids_in": [1, 1, *range(2, 40)], "ids_out": range(100, 140)},
        "ids_in must name each canary once",
    ),
    "on both sides": (
        {"ids_in": range(40), "ids_out": range(39, 79)},
        "ids_out must name each canary once, as included or as left out, got 39 again",
    ),
    "ids of one side": ({"ids_in": range(40)}, "must be given both or not at all"),
    "a shared coin": ({"groups": [0] * 40 + [1] * 40}, "groups must not share a coin"),
    "inclusion": ({"inclusion": 0.3}, "inclusion must be 0.5"),
    "a notion": ({"claim": "zcdp:1"}, "claim must be pure, approx, gdp or a curve"),
    "a curve without delta": ({"claim": "pure:1", "method": "curve"}, "for a claim without delta"),
    "runs on one side": (
        {"scores_in": [[1.0] * 40]},
        "must both be of one run, or both lists of runs",
    ),
    "too many guesses": ({"guesses": 80}, "guesses must be a whole number"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_in_one_line(case):
    given, told = BAD[case]
    sides = {
        "scores_in": np.arange(40.0) + 0.5,
        "scores_out": np.arange(40.0),
        "claim": "approx:1,1e-5",
    }
    with pytest.raises(InvalidArgument, match=told) as error:
        dpw.audit_canaries(**{**sides, **given})
    assert "\n" not in str(error.value)
