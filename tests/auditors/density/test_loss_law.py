"""The law of the privacy loss against closed forms, dp-accounting's own calibrations, other routes
and Monte Carlo.

The limit against the measured figures of the method, exhaustive search over thresholds, and
simulated audits.
"""

import dataclasses
import math

import numpy as np
import pytest
from densities import Bent, Normal
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom, cauchy

from dpwitness import mechanisms as m
from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.density.composition import merged, split
from dpwitness.auditors.density.limit import limit, limit_of_law
from dpwitness.auditors.density.routes import composed, enclosed_law, loss_law
from dpwitness.auditors.events.event import (
    best_expected_renyi_bound,
    best_renyi_rule,
    renyi_lower_bound,
)
from dpwitness.auditors.statistics.certificate import certified
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.benchmarks.density_cases import Law
from dpwitness.mechanisms import (
    GDP,
    Gaussian,
    Laplace,
    LaplaceVector,
    Pair,
    RandomizedResponse,
    SoftmaxDraw,
    zoo,
)

EPSILONS = np.array([0.0, 0.3, 0.7, 0.999, 1.5, 4.0])


CAUCHY = Law(lambda d, n, rng: d + rng.standard_cauchy(n), lambda y, d: cauchy.logpdf(y[:, 0] - d))
# on [x, x + 1]: jumps, and outputs that one dataset alone can give
UNIFORM = Law(
    lambda d, n, rng: d + rng.random(n),
    lambda y, d: np.where((y[:, 0] >= d) & (y[:, 0] <= d + 1), 0.0, -np.inf),
)
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


def test_heavy_tails():
    """Cauchy shifted by 1: the hockey stick by scipy's quadrature; the loss is bounded by ln of the
    largest density ratio.
    """
    found = enclosed_law(CAUCHY, ZERO_ONE)
    for epsilon in (0.2, 0.5, 0.9):
        gain = lambda y, e=epsilon: max(0.0, cauchy.pdf(y - 1) - math.exp(e) * cauchy.pdf(y))  # noqa: E731
        truth = quad(gain, -1, 60, limit=2000, points=[0, 1, 2, 5])[0]
        assert float(found.lower.hockey_stick(epsilon)) == pytest.approx(truth, abs=1e-6)
        assert float(found.upper.hockey_stick(epsilon)) == pytest.approx(truth, abs=1e-6)
    # d/dy of (1 + y^2) / (1 + (y - 1)^2) vanishes at the golden ratio
    golden = (1 + math.sqrt(5)) / 2
    assert found.lower.supremum == pytest.approx(
        math.log((1 + golden**2) / (1 + (golden - 1) ** 2)), rel=1e-6
    )


def test_jumps_and_one_sided_outputs():
    found = enclosed_law(UNIFORM, Pair(np.array([0.0]), np.array([0.3]), "replace-one"))
    for law in (found.lower, found.upper, found.lower.swapped()):
        assert law.hockey_stick([0.0, 1.0, 50.0]) == pytest.approx(0.3, abs=1e-9)
        assert law.epsilon(0.29) == np.inf
        assert law.epsilon(0.31) == 0.0


@pytest.mark.slow_cases("0.01")
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
def test_two_dimensions_against_the_product(delta):
    """Cubature of the joint density against composition of its factors."""
    vector = LaplaceVector(1.0, 2)
    by_parts, whole = (
        enclosed_law(vector, vector.spread_pair()),
        enclosed_law(Bent(vector), vector.spread_pair()),
    )
    assert "2 dimensions" in whole.route
    assert ends(whole, delta)[0] <= ends(by_parts, delta)[1]
    assert ends(whole, delta)[1] >= ends(by_parts, delta)[0]
    assert ends(whole, delta) == (
        pytest.approx(ends(by_parts, delta)[0], abs=2e-5),
        pytest.approx(ends(by_parts, delta)[0], abs=2e-5),
    )


@pytest.mark.parametrize(
    ("dimension", "delta", "width"), [(2, 1e-2, 5e-3), (2, 1e-4, 5e-3), (3, 1e-2, 0.1)]
)
def test_several_dimensions_against_the_normal_law(dimension, delta, width):
    shift = np.full(2, 0.5) if dimension == 2 else np.array([1.0, 0.0, 0.0])
    truth = gaussian_epsilon(float(np.linalg.norm(shift)), delta)
    low, high = ends(enclosed_law(Normal(), Pair(np.zeros(dimension), shift, "l1")), delta)
    assert low <= truth <= high and high - low < width * truth


def test_mixed_outputs():
    """An index and a value: the index alone is enumerated, the value integrated. The truth is that
    of the zoo.
    """
    mechanism = zoo()["noisy-max-both"]
    found = enclosed_law(mechanism, mechanism.worst_pair())
    assert "1 dimension" in found.route
    assert max(found.lower.supremum, found.lower.swapped().supremum) == pytest.approx(
        mechanism.truth.parameter, rel=1e-9
    )


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


def test_thousand_gaussians_are_one_gaussian():
    mechanism = Gaussian(1.0, 1e-5, noise_multiplier=10.0)
    pair = mechanism.worst_pair()
    found = composed([(mechanism, pair.d0, pair.d1)] * 1000)
    truth = gaussian_epsilon(math.sqrt(1000) / mechanism.sigma, 1e-5)
    low, high = ends(found, 1e-5)
    assert low <= truth <= high
    assert high - low < 1e-3 * truth
    assert found.lower.renyi(3.0) == pytest.approx(1.5 * 1000 / mechanism.sigma**2, rel=1e-3)


@pytest.mark.parametrize(("times", "epsilon"), [(20, 0.05), (1000, 0.1)])
def test_laplace_composed_against_dp_accounting(times, epsilon):
    """dp-accounting's own Laplace distributions, its pessimistic end above our lower and its
    optimistic end below our upper one.
    """
    mechanism = Laplace(epsilon)
    pair = mechanism.worst_pair()
    low, high = ends(composed([(mechanism, pair.d0, pair.d1)] * times), 1e-5)
    theirs = [
        pld.from_laplace_mechanism(
            1 / epsilon,
            value_discretization_interval=1e-4 if times < 100 else 1e-3,
            pessimistic_estimate=above,
        )
        .self_compose(times)
        .get_epsilon_for_delta(1e-5)
        for above in (False, True)
    ]
    assert low <= theirs[1]
    assert high >= theirs[0]
    assert high - low < 1e-4 * high


def test_twenty_dimensional_vectors_against_monte_carlo():
    """delta(0.3) of the spread shift by 2e5 runs within 5.5 standard errors: false failure 4e-8.
    And the width promised: 1 % of epsilon.
    """
    mechanism = LaplaceVector(1.0)
    pair = mechanism.spread_pair()
    found = enclosed_law(mechanism, pair)
    low, high = ends(found, 1e-5)
    assert 0 < high - low < 1e-2 * high
    rows = mechanism.sample(pair.d1, 200_000, np.random.default_rng(3))
    loss = mechanism.log_density(rows, pair.d1) - mechanism.log_density(rows, pair.d0)
    values = np.maximum(0.0, -np.expm1(0.3 - loss))
    assert float(found.lower.hockey_stick(0.3)) == pytest.approx(
        values.mean(), abs=5.5 * values.std() / math.sqrt(200_000)
    )


@pytest.mark.slow
def test_thousand_different_factors():
    """Off-grid atoms, each factor another law: the width promised, and the mean of the loss, which
    adds up.
    """
    rng, draw = np.random.default_rng(0), SoftmaxDraw(5)
    factors = [(draw, w := rng.normal(size=5), w + 0.05 * rng.normal(size=5)) for _ in range(1000)]
    found = composed(factors)
    low, high = ends(found, 1e-5)
    assert 0 < high - low < 1e-2 * high
    means = sum(float(loss_law(draw, Pair(a, b, "linf")).mean()) for _, a, b in factors)
    assert found.lower.mean() == pytest.approx(means, rel=1e-3)
    assert found.lower.mean() <= means + 1e-9
    assert found.upper.mean() >= means - 1e-9


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


def test_swapping_twice_and_the_two_hockey_sticks():
    """H_e(P||Q) and H_-e(Q||P) determine each other: H_-e(Q||P) = 1 - e^-e (1 - H_e(P||Q))."""
    mechanism = zoo()["truncated-geometric"]
    law = loss_law(mechanism, mechanism.worst_pair())
    e = np.linspace(-0.9, 0.9, 7)
    assert law.swapped().hockey_stick(-e) == pytest.approx(
        1 - np.exp(-e) * (1 - law.hockey_stick(e)), abs=1e-12
    )
    assert law.swapped().swapped().hockey_stick(e) == pytest.approx(law.hockey_stick(e))


def test_no_law_without_a_density_or_in_many_dimensions():
    assert loss_law(object(), Pair(np.zeros(1), np.ones(1))) is None
    vector = LaplaceVector(1.0, 5)
    assert loss_law(Bent(vector), vector.spread_pair()) is None


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
    ("mechanism", "pair", "claim", "runs", "value", "error"),
    [
        (m.Laplace(0.1), None, m.PureDP(1.0), 10**5, 0.0925, 4e-4),
        (m.Laplace(3.0), None, m.PureDP(1.0), 10**5, 2.976, 0.012),
        (m.BrokenSparseVector(1.0), None, m.PureDP(1.0), 10**4, 2.79, 0.011),
        (m.BrokenSparseVector(1.0), None, m.PureDP(1.0), 10**6, 3.84, 0.015),
        (VECTOR, VECTOR.spread_pair(), m.PureDP(1.0), 10**5, 0.56, 6e-3),
        (VECTOR, VECTOR.spread_pair(), m.PureDP(1.0), 10**6, 0.68, 6e-3),
        (GAUSSIAN, None, GAUSSIAN.claim, 10**5, 0.723, 2e-3),
        (GAUSSIAN, None, GAUSSIAN.claim, 10**6, 0.864, 2e-3),
        (GAUSSIAN, None, GAUSSIAN.claim, 10**7, 0.946, 2e-3),
        (GAUSSIAN, None, GAUSSIAN.claim, 10**8, 0.981, 2e-3),
    ],
)
def test_measured_figures(mechanism, pair, claim, runs, value, error):
    """Oracle events, two directions; the pair of the vector spreads its shift over
    twenty answers.
    """
    assert limit(mechanism, pair or mechanism.worst_pair(), claim, 2 * runs, 0.95) == pytest.approx(
        value, abs=error
    )


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


@pytest.mark.parametrize("claim", [m.RDP(2.0, 1.0), m.ZCDP(0.5)], ids=str)
def test_half_of_the_oracle_audits_by_cells_reach_it(claim):
    """400 tests of a Gaussian shift of 1 by 40 cells: the share that certifies the limit lies in
    [.35, .65]; false failure 1e-9.
    """
    mechanism = dataclasses.replace(GAUSSIAN, noise_multiplier=1 / GAUSSIAN.sigma)
    trials, law = 20_000, loss_law(mechanism, mechanism.worst_pair())
    found = limit_of_law(law, claim, trials, 0.05)
    # mu: RDP's curve holds more than one event of it shows
    by_event = limit_of_law(law, m.GDP(1.0), trials, 0.05)
    assert 0.6 * claim.parameter < found < by_event**2 * claim.parameter
    starts = np.unique(np.searchsorted(np.cumsum(law.p + law.q) / 2, np.linspace(0, 1, 41)[:-1]))
    p, q = (np.add.reduceat(side, starts) / side.sum() for side in (law.p, law.q))
    rule, rng = best_renyi_rule(claim, p, q, trials, 0.05), np.random.default_rng(4)
    bounds = [
        renyi_lower_bound(
            claim, rule, np.array([rng.multinomial(trials // 2, side) for side in (p, q)]), 0.05
        )
        for _ in range(400)
    ]
    assert 0.35 <= np.mean(np.array(bounds) >= found) <= 0.65


def test_nothing_to_find_and_no_law():
    assert limit(m.Laplace(1e-6), LAPLACE.worst_pair(), m.PureDP(1.0), 10_000, 0.99) < 0.01
    assert limit(m.zoo()["svt3"], m.zoo()["svt3"].worst_pair(), m.PureDP(1.0), 10_000, 0.99) is None


class Unlawful:
    """A threshold that is passed always or never, with a law that cannot be computed."""

    def sample(self, dataset, size, rng):
        return np.full(size, float(sum(dataset) > 1))

    def log_density(self, outputs, dataset):
        raise OverflowError("int too large to convert to float")


def test_a_law_that_fails_does_not_cost_the_verdict():
    result = audit(Unlawful(), claim="pure:1", pair=m.Pair([1.0], [2.0]), trials=2000)
    assert result.verdict.value == "VIOLATED" and result.to_json()["limit"] is None


@pytest.mark.parametrize("worse", [10**400, [1.0, -(10**400)]])
def test_numbers_beyond_a_float_are_named(worse):
    with pytest.raises(
        m.InvalidArgument, match="Laplace: dataset must hold numbers that a float can hold"
    ):
        m.Laplace(1.0).sample(worse, 2, np.random.default_rng(1))
