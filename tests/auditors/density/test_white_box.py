"""Certification of pairs: routes against each other, verdicts on the zoo, coverage of the betting
limits, densities that are wrong.
"""

import json
import math

import numpy as np
import pytest
from densities import Bent, Normal
from scipy.stats import norm

from dpwitness import mechanisms as m
from dpwitness.auditors.density.certify import certify
from dpwitness.auditors.statistics.mean_limits import Stakes, lower_mean, upper_mean
from dpwitness.auditors.witnesses.verdicts import Verdict

KEPT = (Verdict.CERTIFIED, Verdict.SUPPORTED)  # which of them depends on whether a proof applies
ZERO_ONE = m.Pair(np.array([0.0]), np.array([1.0]), "replace-one")
GAUSSIAN = m.Gaussian(1.0, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("claim", [m.GDP(1.0), m.ZCDP(0.5), m.RDP(2.0, 1.0), m.RDP(10.0, 5.0)])
def test_parameters_of_the_gaussian(claim):
    """mu, mu^2 / 2, alpha mu^2 / 2 for mu = 1 (Mironov 2017, Bun and Steinke 2016, Dong et al.
    2022).
    """
    mechanism = m.Gaussian(1.0, 1e-5, noise_multiplier=1 / GAUSSIAN.sigma)
    result = certify(mechanism, ZERO_ONE, claim)
    assert result.parameter_lower <= claim.parameter * (1 + 1e-6)
    assert result.parameter_upper >= claim.parameter * (1 - 1e-6)
    assert result.parameter_lower == pytest.approx(claim.parameter, rel=2e-3)
    assert result.parameter_upper == pytest.approx(claim.parameter, rel=2e-3)
    assert result.verdict is not Verdict.VIOLATED
    assert (
        certify(mechanism, ZERO_ONE, claim.with_parameter(0.9 * claim.parameter)).verdict
        is Verdict.VIOLATED
    )
    assert certify(mechanism, ZERO_ONE, claim.with_parameter(1.1 * claim.parameter)).verdict in KEPT
    sampling = certify(mechanism, ZERO_ONE, claim, route="sampling")
    assert 0.3 * claim.parameter < sampling.parameter_lower <= claim.parameter


@pytest.mark.slow_cases(
    "above-threshold",
    "broken-svt",
    "gaussian",
    "gaussian-0.8",
    "gaussian-grid",
    "histogram",
    "histogram-one-count",
    "histogram-wrong-scale",
    "laplace",
    "laplace-vector",
    "noisy-max-both",
    "noisy-max-value",
    "prefix-sums",
    "prefix-sums-uncalibrated",
    "svt1",
    "svt2",
    "svt3",
    "svt4",
    "svt6",
)
@pytest.mark.parametrize("name", m.zoo())
def test_verdicts_on_the_zoo(name):
    mechanism = m.zoo()[name]
    result = certify(mechanism, mechanism.worst_pair(), trials=20_000)
    assert result.verdict in (
        (Verdict.VIOLATED,) if mechanism.truth.breaks(mechanism.claim) else KEPT
    )
    assert result.epsilon_lower <= mechanism.truth.parameter * (1 + 1e-9)
    assert result.epsilon_lower == pytest.approx(mechanism.truth.parameter, rel=1e-8)
    # several numbers and calls in one output: sampled, so that there is no upper end
    if name != "svt3":
        assert result.epsilon_upper == pytest.approx(mechanism.truth.parameter, rel=1e-8)
    assert (
        json.loads(json.dumps(result.to_json(), allow_nan=False))["verdict"] == result.verdict.value
    )
    assert result.headline().startswith(result.verdict.value)


@pytest.mark.slow
def test_tradeoff_curve():
    """Laplace(1): the best attack on false-positive rate q <= 1/(2e) has rate e q; the Gaussian's
    is its GDP curve.
    """
    laplace, gaussian = (
        certify(each, ZERO_ONE, m.PureDP(1.0)) for each in (m.Laplace(1.0), GAUSSIAN)
    )
    low = laplace.fpr < 0.18
    assert laplace.tpr_lower[low] == pytest.approx(math.e * laplace.fpr[low], rel=1e-6, abs=1e-12)
    assert gaussian.tpr_lower == pytest.approx(
        m.GDP(1 / GAUSSIAN.sigma).tradeoff(gaussian.fpr), abs=1e-6
    )
    for result in (laplace, gaussian):
        assert np.all(result.tpr_upper >= result.tpr_lower)
        assert np.max(result.tpr_upper - result.tpr_lower) < 1e-5


BETS = {  # draws of n numbers, their mean, their standard deviation
    "rare": (lambda rng, n: (rng.random(n) < 0.02) * 2.0, 0.04, 2 * math.sqrt(0.02 * 0.98)),
    "two values": (
        lambda rng, n: np.where(rng.random(n) < 0.3, 2.0, 0.1),
        0.67,
        1.9 * math.sqrt(0.21),
    ),
    "skewed": (lambda rng, n: 2 * rng.beta(0.2, 3.0, n), 2 * 0.2 / 3.2, 0.23),
}


@pytest.mark.slow
@pytest.mark.parametrize("law", BETS)
def test_coverage_of_the_betting_limits(law):
    """500 samples of 400: each limit errs at most .05 + 5.3 standard errors of a share of .05
    (false failure 1.2e-7 in all).
    """
    rng, (draw, mean, deviation) = np.random.default_rng(11), BETS[law]
    low, high = np.empty(500), np.empty(500)
    for i in range(500):
        stakes = Stakes.plan(draw(rng, 100), 2.0, 400, 0.05)
        x = draw(rng, 400)
        low[i], high[i] = lower_mean(x, stakes, 0.05), upper_mean(x, 2.0, stakes, 0.05)
    margin = 5.3 * math.sqrt(0.05 * 0.95 / 500)
    assert np.mean(low > mean) <= 0.05 + margin and np.mean(high < mean) <= 0.05 + margin
    # and they are no idle limits: within six standard errors of the mean, on average
    assert mean - low.mean() < 6 * deviation / 20 and high.mean() - mean < 6 * deviation / 20


TWO = m.Pair(np.zeros(2), np.full(2, 0.5), "l1")
MANY = m.Pair(np.zeros(8), np.full(8, 0.125), "l1")


@pytest.mark.slow_cases(
    "mechanism8-pair8-disagrees|integrate-auto",
    "mechanism4-pair4-disagrees|integrate-sampling",
    "mechanism3-pair3-integrate to one-auto",
)
@pytest.mark.parametrize("route", ["auto", "sampling"])
@pytest.mark.parametrize(
    ("mechanism", "pair", "word"),
    [
        (Bent(m.Laplace(1.0), lambda v, y, d: v + 0.2), ZERO_ONE, "integrate to one|bridge"),
        (Bent(m.Laplace(1.0), lambda v, y, d: v - 0.2), ZERO_ONE, "integrate to one|bridge"),
        (Bent(Normal(), lambda v, y, d: v + 0.3), TWO, "integrate to one"),
        (Bent(Normal(), lambda v, y, d: v + 0.3), MANY, "integrate to one"),
        (Bent(Normal(), lambda v, y, d: v + 0.3 * (d[0] > 0)), MANY, "disagrees|integrate"),
        (Bent(Normal(), lambda v, y, d: np.where(y[:, 0] > 2, np.nan, v)), ZERO_ONE, "NaN"),
        (
            Bent(Normal(), lambda v, y, d: np.where(y[:, 0] > 2, -np.inf, v)),
            ZERO_ONE,
            "minus infinity|integrate",
        ),
        (Bent(m.Laplace(1.0), noise=0.8), ZERO_ONE, "disagrees|integrate"),
        (
            Bent(Normal(), lambda v, y, d: norm.logpdf(y - 2 * d).sum(axis=1)),
            MANY,
            "disagrees|integrate",
        ),
        (Bent(Normal(), lambda v, y, d: np.stack([v, v], axis=1)), MANY, "shape"),
        (Bent(Normal(), lambda v, y, d: 1 / 0), MANY, "raises ZeroDivisionError"),
    ],
)
def test_wrong_densities_are_errors(mechanism, pair, word, route):
    result = certify(mechanism, pair, m.PureDP(1.0), route=route)
    assert result.verdict is Verdict.ERROR
    assert any(part in result.notes[0] for part in word.split("|"))
    json.dumps(result.to_json(), allow_nan=False)


@pytest.mark.parametrize("dimension", [1, 8])
def test_solvers_that_do_not_converge_are_errors(dimension):
    class Stuck:
        def sample(self, dataset, size, rng):
            raise m.ConvergenceError("gradient norm 3 is above 1e-10")

        log_density = sample

    result = certify(Stuck(), m.Pair(np.zeros(dimension), np.eye(1, dimension)[0]), m.PureDP(1.0))
    assert result.verdict is Verdict.ERROR and "gradient norm 3 is above 1e-10" in result.headline()


@pytest.mark.parametrize(
    ("mechanism", "options", "message"),
    [
        (lambda d, n, rng: rng.random(n), {"claim": m.PureDP(1.0)}, "must have a method sample"),
        (m.Laplace(1.0), {"trials": 10}, "trials"),
        (m.Laplace(1.0), {"route": "guess"}, "route"),
        (
            Normal(),
            {"pair": MANY, "claim": m.PureDP(1.0), "route": "law", "trials": 10_000},
            "no exact law",
        ),
    ],
)
def test_wrong_arguments_are_refused(mechanism, options, message):
    with pytest.raises(m.InvalidArgument, match=message):
        certify(mechanism, **{"pair": ZERO_ONE} | options)
