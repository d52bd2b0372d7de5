"""The certificate, and the point and profile that plots draw from it: the error is at most as
stated, for every notion.

Anytime-valid certificate: exact error of evidence that is looked at after every round, limits,
and adaptive epochs.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import bdtrc, gammaln
from scipy.stats import binom

from dpwitness.auditors.statistics.anytime import log_e_value, log_evidence
from dpwitness.auditors.statistics.certificate import (
    Part,
    Prior,
    Tally,
    allowed,
    certified,
    certified_point,
    clopper_pearson_lower,
    lower_profile,
    p_value,
)
from dpwitness.core.claims import parse_claim
from dpwitness.mechanisms import GDP, RDP, ZCDP, ApproxDP, PureDP, TradeoffCurve

CORNER = 0.95 / (1 + np.e)
CURVE = TradeoffCurve([0, CORNER, 0.95, 1], [0.95, CORNER, 0, 0])  # that of (1, 0.05)-DP
CLAIMS = [
    CURVE,
    PureDP(1.0),
    ApproxDP(1.0, 0.05),
    ApproxDP(0.2, 1e-3),
    GDP(1.0),
    ZCDP(0.5),
    RDP(2.0, 0.5),
]


def boundary(claim, wrong, directions):
    """Probabilities (c, w) at which a rule is as right as the claim lets it be."""
    scale = 2 / directions
    return float(claim.tradeoff(scale * wrong)) / scale, wrong


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("wrong", [0.01, 0.1, 0.25])
def test_enumerated_error_is_at_most_alpha(claim, directions, wrong):
    """Exact: the sum over all outcomes of 30 rounds at the boundary of the claim."""
    c, w = boundary(claim, wrong, directions)
    if c + w > 1:
        pytest.skip("no rule is right and wrong that often")
    n, alpha = 30, 0.05
    correct, wrongs = (grid.ravel() for grid in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    keep = correct + wrongs <= n
    correct, wrongs = correct[keep], wrongs[keep]
    rest = n - correct - wrongs
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(rest > 0, rest * np.log(max(1 - c - w, 1e-300)), 0.0)
    logs = (
        gammaln(n + 1)
        - gammaln(correct + 1)
        - gammaln(wrongs + 1)
        - gammaln(rest + 1)
        + correct * np.log(c)
        + wrongs * np.log(w)
        + left
    )
    mass = np.exp(logs)
    assert mass.sum() == pytest.approx(1.0, abs=1e-9)
    lower = certified(claim, correct, wrongs, n, alpha, directions)
    assert mass[lower > claim.parameter * (1 + 1e-9)].sum() <= alpha


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_simulated_error_is_at_most_alpha_and_not_idle(claim):
    """2e5 audits of 2e5 rounds at the boundary; false-failure probability 1e-7. Far below alpha
    would be a waste: it must err 0.5 %.
    """
    c, w = boundary(claim, 0.02, 2)
    rng = np.random.default_rng(1)
    rounds, audits, alpha = 200_000, 200_000, 0.05
    made = rng.binomial(rounds, c + w, audits)
    correct = rng.binomial(made, c / (c + w))
    cells, times = np.unique(np.column_stack([correct, made - correct]), axis=0, return_counts=True)
    lower = certified(claim, cells[:, 0], cells[:, 1], rounds, alpha)
    errors = int(times[lower > claim.parameter].sum())
    assert errors <= binom.isf(1e-7, audits, alpha)
    assert errors >= 0.005 * audits


def test_the_published_formula_for_approximate_dp():
    """ln((1 - d/s)/(1 - theta) - 1) with d = delta k/2, at the limits that the certificate uses."""
    correct, wrong, rounds, delta, alpha = 900, 100, 50_000, 1e-3, 0.05
    theta = clopper_pearson_lower(correct, correct + wrong, alpha * 49 / 50)
    share = clopper_pearson_lower(correct + wrong, rounds, alpha / 50)
    for k in (1, 2):
        expected = np.log((1 - delta * k / 2 / share) / (1 - theta) - 1)
        assert certified(ApproxDP(1.0, delta), correct, wrong, rounds, alpha, k) == pytest.approx(
            expected, abs=1e-12
        )
    assert certified(ApproxDP(1.0, 0.9), correct, wrong, rounds, alpha) == 0.0


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_p_value_and_bound_are_one_test(claim):
    """The bound exceeds the claim exactly at errors above the p-value: counts a little beyond the
    boundary of each claim.
    """
    c, w = boundary(claim, 0.05, 2)
    counts = (int(44_000 * c), int(40_000 * w), 40_000)
    p = float(p_value(claim, *counts))
    assert 1e-100 < p < 0.05
    assert certified(claim, *counts, p * 1.001) > claim.parameter
    assert certified(claim, *counts, p * 0.999) <= claim.parameter


def test_pure_p_value_is_the_binomial_tail():
    """For delta = 0 the p-value is P(Bin(M, e^eps/(1 + e^eps)) >= C)."""
    theta = np.e / (1 + np.e)
    assert float(p_value(PureDP(1.0), 7_500, 2_500, 20_000)) == pytest.approx(
        bdtrc(7_499, 10_000, theta), rel=1e-6
    )


ALPHA = 0.05


@pytest.mark.parametrize(
    "claim", [ApproxDP(1.0, 1e-5), ApproxDP(0.5, 1e-2), GDP(1.0), ZCDP(0.5), RDP(2.0, 0.5)], ids=str
)
@pytest.mark.parametrize(
    "tally", [Tally(7_400, 2_600, 20_000), Tally(300, 20, 10_000, directions=1)], ids=str
)
def test_the_point_proves_what_the_certificate_does(claim, tally):
    point = certified_point(tally, ALPHA)
    expected = float(
        certified(claim, tally.correct, tally.wrong, tally.rounds, ALPHA, tally.directions)
    )
    assert expected > 0.1
    assert float(claim.parameter_at(point.fpr, point.tpr)) == pytest.approx(expected, rel=1e-12)


def test_the_lower_profile_is_valid_where_the_mechanism_is_tight():
    """20,000 audits of (1, 0)-randomised response: delta_L exceeds the true profile anywhere in at
    most 5 %, failing by chance at 1e-7.
    """
    audits, rounds = 20_000, 5_000
    right = np.e / (1 + np.e)
    correct = np.random.default_rng(1).binomial(rounds, right, audits)
    grid = np.linspace(0.0, 1.2, 25)
    truth = PureDP(1.0).delta(grid)
    counts, times = np.unique(correct, return_counts=True)
    tallies = [Tally(int(c), rounds - int(c), rounds) for c in counts]
    too_high = [
        bool(np.any(lower_profile(certified_point(tally, ALPHA), grid) > truth + 1e-12))
        for tally in tallies
    ]
    false = times[np.array(too_high)].sum()
    assert 0.02 < false / audits <= ALPHA + 5.2 * np.sqrt(ALPHA * (1 - ALPHA) / audits)


def error_of_looks(
    p: float, null: float, prior: tuple[float, float], alpha: float, rounds: int, loss: float = 0.0
) -> float:
    """Return the exact probability that the evidence against `null` is ever at least 1/alpha, over
    all rounds; `loss` adds zeros.
    """
    law, error = np.array([1.0]), 0.0  # law of the number of ones among streams without an alarm
    for n in range(1, rounds + 1):
        ones = np.arange(n + 1)
        law = np.append(law * (1 - p * (1 - loss)), 0.0) + np.append(0.0, law * p * (1 - loss))
        alarm = log_evidence(ones, n - ones, null, prior) >= math.log(1 / alpha)
        error += float(law[alarm].sum())
        law[alarm] = 0.0
    return error


@pytest.mark.parametrize(
    "prior", [(0, 0), (70, 20), (20, 70), (9_000, 1_000)], ids=["none", "near", "wrong side", "far"]
)
@pytest.mark.parametrize("null", [0.5, 0.731, 0.95])
def test_looking_after_every_round_errs_with_at_most_alpha(null, prior):
    """The error is an exact sum over all paths of 300 rounds; some priors come close to alpha, so
    the bound is not idle.
    """
    assert 0 < error_of_looks(null, null, prior, 0.05, 300) <= 0.05


def test_adaptive_epochs_err_with_at_most_alpha():
    """The error is an exact sum over two epochs, the second with a prior that depends
    on the first.
    """
    claim, alpha, sizes = parse_claim("pure:1"), 0.3, (12, 16)
    theta = allowed(claim, 1.0, 1.0, 2)
    level, error, law = -math.log(alpha), 0.0, {(0, 0): 1.0}
    for epoch, size in enumerate(sizes):
        starts = {state: law[state] for state in law}
        law = {}
        for (before, _), mass in starts.items():
            prior = Prior(4, 1, 5) if not epoch else Prior(before, sizes[0] - before, sizes[0])
            earlier = (
                [Part(Tally(before, sizes[0] - before, sizes[0]), prior=Prior(4, 1, 5))]
                if epoch
                else []
            )
            inside = np.array([mass])
            for n in range(1, size + 1):
                inside = np.append(inside * (1 - theta), 0.0) + np.append(0.0, inside * theta)
                parts = [[*earlier, Part(Tally(c, n - c, n), prior=prior)] for c in range(n + 1)]
                alarm = np.array([log_e_value(claim, each, 1.0, 0.0) >= level for each in parts])
                error += float(inside[alarm].sum())
                inside[alarm] = 0.0
            for right, left in enumerate(inside):
                law[(right, before)] = law.get((right, before), 0.0) + float(left)
    assert 0.02 < error <= alpha
