"""The law of the privacy loss against closed forms, dp-accounting's own calibrations, other routes
and Monte Carlo.

The limit against the measured figures of the method, exhaustive search over thresholds, and
simulated audits.
"""

import math

import numpy as np
import pytest
from densities import Bent
from scipy.optimize import brentq
from scipy.stats import binom

from dpwitness import mechanisms as m
from dpwitness.auditors.density.composition import merged, split
from dpwitness.auditors.density.limit import limit, limit_of_law
from dpwitness.auditors.density.routes import composed, enclosed_law, loss_law
from dpwitness.auditors.events.event import best_expected_renyi_bound
from dpwitness.auditors.statistics.certificate import certified
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.mechanisms import GDP, Gaussian, Laplace, Pair, RandomizedResponse

EPSILONS = np.array([0.0, 0.3, 0.7, 0.999, 1.5, 4.0])


# on [x, x + 1]: jumps, and outputs that one dataset alone can give
ZERO_ONE = Pair(np.array([0.0]), np.array([1.0]), "replace-one")


def laplace_profile(epsilon, shift):
    """H_epsilon of Laplace(1) shifted by `shift`: 1 - e^((epsilon - shift)/2) below the shift, 0
    above.
    """
    return np.maximum(0.0, -np.expm1((epsilon - shift) / 2))


def gaussian_epsilon(mu, delta):
    return brentq(lambda e: float(GDP(mu).delta(e)) - delta, 0, 2000, xtol=1e-12)


def ends(found, delta):
    return found.lower.epsilon(delta), found.upper.epsilon(delta)


@pytest.mark.parametrize("stripped", [False, True])
@pytest.mark.parametrize("shift", [0.1, 1.0, 3.0])
def test_laplace_against_its_closed_form(shift, stripped):
    """With the kinks known and, stripped of its breakpoints, with the kinks to be found."""
    mechanism = Laplace(shift)
    found = enclosed_law(Bent(mechanism) if stripped else mechanism, mechanism.worst_pair())
    truth = laplace_profile(EPSILONS, shift)
    assert found.lower.hockey_stick(EPSILONS) == pytest.approx(truth, abs=3e-8 * shift)
    assert np.all(found.lower.hockey_stick(EPSILONS) <= truth + 1e-14)
    assert np.all(found.upper.hockey_stick(EPSILONS) >= truth - 1e-14)
    assert found.upper.hockey_stick(EPSILONS) == pytest.approx(truth, abs=3e-8 * shift)
    assert found.lower.supremum == pytest.approx(shift, rel=1e-9)
    assert found.lower.mean() == pytest.approx(shift + math.exp(-shift) - 1, rel=1e-6)


@pytest.mark.parametrize("mu", [0.05, 1.0, 8.0, 40.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_gaussian_against_balle_and_wang(mu, delta):
    mechanism = Gaussian(1.0, 1e-5)
    mechanism = Gaussian(1.0, 1e-5, noise_multiplier=1 / (mu * mechanism.sigma))
    truth = gaussian_epsilon(mu, delta)
    found = enclosed_law(mechanism, ZERO_ONE)
    assert ends(found, delta)[0] <= truth * (1 + 1e-9) <= ends(found, delta)[1] * (1 + 2e-9)
    # at mu = 40 one of the two densities underflows in every cell that counts
    wide, narrow = (2e-4, 1e-7) if mu <= 8 else (1e-3, 1e-3)
    assert ends(found, delta) == (pytest.approx(truth, rel=wide), pytest.approx(truth, rel=wide))
    assert ends(found.refined([truth]), delta) == (
        pytest.approx(truth, rel=narrow),
        pytest.approx(truth, rel=narrow),
    )
    assert found.lower.mean() == pytest.approx(mu**2 / 2, rel=wide)
    assert found.lower.renyi(2.0) == pytest.approx(mu**2, rel=1e-3) or mu > 8


@pytest.mark.parametrize(("times", "epsilon"), [(10, 0.5), (1000, 0.1)])
def test_randomised_response_composed_against_the_binomial(times, epsilon):
    """The number of truths told decides: delta by an exact binomial sum (Kairouz, Oh and Viswanath
    2015).
    """
    mechanism = RandomizedResponse(epsilon)
    pair = mechanism.worst_pair()
    found = composed([(mechanism, pair.d0, pair.d1)] * times)
    truth_share = 1 / (1 + math.exp(-epsilon))
    k = np.arange(times + 1)
    p, loss = binom.pmf(k, times, truth_share), epsilon * (2 * k - times)
    for e in (0.0, 1.0, 3.0):
        delta = float(np.sum(p * np.maximum(0.0, -np.expm1(e - loss))))
        assert float(found.lower.hockey_stick(e)) == pytest.approx(delta, rel=1e-6)
        assert float(found.upper.hockey_stick(e)) == pytest.approx(delta, rel=1e-6)
        assert found.lower.hockey_stick(e) <= delta * (1 + 1e-9) + 1e-12
        assert found.upper.hockey_stick(e) >= delta * (1 - 1e-9) - 1e-12
    assert found.upper.supremum == pytest.approx(times * epsilon)


@pytest.mark.parametrize("seed", range(20))
def test_grids_bracket_every_hockey_stick(seed):
    """Random laws put on coarse grids: `split` dominates, `merged` is dominated, in either order,
    at 200 epsilons.
    """
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(30))
    order = np.argsort(p / q)
    law = LossLaw(np.log(p / q)[order], p[order], q[order])
    for step in (0.5, 0.07):
        for side in (law, law.swapped()):
            grid = np.linspace(-6, 6, 200)
            truth = side.hockey_stick(grid)
            for function, sign in ((split, 1), (merged, -1)):
                start, masses, infinite = function(side, step)
                found = (
                    LossLaw(step * (start + np.arange(len(masses))), masses, masses).hockey_stick(
                        grid
                    )
                    + infinite
                )
                assert np.all(sign * (found - truth) >= -1e-12)
                assert np.max(np.abs(found - truth)) < 0.6 * step


LAPLACE, GAUSSIAN, VECTOR = m.Laplace(1.0), m.Gaussian(1.0, 1e-5), m.LaplaceVector(1.0)


@pytest.mark.parametrize(
    ("runs", "share"),
    [(10**4, 0.968), (10**5, 0.990), (10**6, 0.9968), (10**7, 0.9990), (10**8, 0.9997)],
)
def test_laplace(runs, share):
    """In closed form: the best event is {y > 1}, P = 1/2, Q = e^-1 / 2, both directions; `runs` a
    side.
    """
    found = limit(LAPLACE, LAPLACE.worst_pair(), m.PureDP(1.0), 2 * runs, 0.95)
    assert found == pytest.approx(share, abs=6e-4)
    at_once = float(certified(m.PureDP(1.0), runs, runs * np.exp(-1.0), 2 * runs, 0.05))
    assert found >= at_once - 1e-9


@pytest.mark.parametrize(
    "name",
    [
        "randomized-response-5",
        "above-threshold",
        "truncated-geometric",
        "permute-and-flip",
        "exponential",
    ],
)
@pytest.mark.parametrize(
    "claim", [m.PureDP(1.0), m.ApproxDP(1.0, 1e-3), m.GDP(1.0), m.ZCDP(0.5), m.RDP(2.0, 1.0)]
)
def test_no_pair_of_thresholds_does_better(name, claim):
    """Every pair of thresholds of laws with few atoms, one direction and two."""
    mechanism = m.zoo()[name]
    law = loss_law(mechanism, mechanism.worst_pair())
    trials, alpha = 50_000, 0.02
    best = 0.0
    cuts = np.append(-np.inf, law.loss)
    for t1 in [*cuts, np.inf]:
        for t2 in [*-cuts, np.inf]:
            first, second = law.loss > t1, law.loss < -t2
            if np.any(first & second):
                continue
            right = trials / 2 * (law.p[first].sum() + law.q[second].sum())
            wrong = trials / 2 * (law.q[first].sum() + law.p[second].sum())
            for directions in (1, 2):
                if directions == 2 or not (first.any() and second.any()):
                    with np.errstate(invalid="ignore"):
                        best = max(
                            best, float(certified(claim, right, wrong, trials, alpha, directions))
                        )
    found = limit_of_law(law, claim, trials, alpha)
    if isinstance(claim, m.RDP | m.ZCDP):  # the binned form may do better
        best = (
            max(best, best_expected_renyi_bound(claim, law.p, law.q, trials, alpha))
            if len(law.p) <= 60
            else min(best, found)
        )
    assert found == pytest.approx(best, rel=1e-6)


def test_half_of_the_oracle_audits_reach_it():
    """4000 audits of Laplace(1) by the best event: the share that certifies at least the limit
    within [.45, .55]; false failure 3e-10.
    """
    rng, trials = np.random.default_rng(2), 100_000
    found = limit(LAPLACE, LAPLACE.worst_pair(), m.PureDP(1.0), trials, 0.95)
    guessed = rng.binomial(trials, 0.5 * (1 + np.exp(-1.0)), 4000)
    correct = rng.binomial(guessed, 1 / (1 + np.exp(-1.0)))
    reached = np.mean(certified(m.PureDP(1.0), correct, guessed - correct, trials, 0.05) >= found)
    assert 0.45 <= reached <= 0.55
