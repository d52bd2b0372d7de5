"""The proved route: enclosures against closed forms, and verdicts that a wrong constant turns.

The proved route of sparse vector, ridge, simplex sampling and follow the leader.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from flint import arb, ctx

from dpwitness import mechanisms as m
from dpwitness.auditors.density.density_check import BadOracle
from dpwitness.auditors.density.proved.bounds import proved_bounds
from dpwitness.auditors.density.proved.space import cells_of
from dpwitness.core.balls.ball import PRECISION, span

WIDTH = 1.0 + 3e-6


def on_cells(mechanism, pair, epsilon):
    """delta(epsilon) by bisection of the outputs, whatever closed form would apply."""
    with ctx.workprec(PRECISION):
        return cells_of(mechanism, pair.d1, pair.d0, 20.0).hockey_stick(epsilon)


@pytest.mark.parametrize(("epsilon", "shift"), [(0.3, 0.8), (1.7, 0.25), (0.05, 1.0)])
def test_cells_enclose_the_closed_form_of_laplace_noise(epsilon, shift):
    laplace = m.Laplace(epsilon)
    pair = m.Pair(np.array([0.125]), np.array([0.125 + shift * 0.875]), "replace-one")
    size = epsilon * 0.875 * shift
    for e in (0.0, 0.4 * size, 0.99 * size):
        low, high = on_cells(laplace, pair, e)
        with ctx.workprec(300):
            exact = -(
                (arb(e) - abs(arb(0.125 + shift * 0.875) - arb(0.125)) / arb(1.0 / epsilon)) / 2
            ).expm1()
        assert arb(low) <= exact and exact <= arb(high) and high <= low * WIDTH


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.2, 1e-3), (3.0, 1e-8)])
def test_cells_enclose_balle_and_wang(epsilon, delta):
    gaussian = m.Gaussian(epsilon, delta, noise_multiplier=0.9)
    pair = gaussian.worst_pair()
    low, high = on_cells(gaussian, pair, epsilon)
    with ctx.workprec(300):
        mu, root = 1 / arb(gaussian.sigma), arb(2).sqrt()
        exact = ((epsilon / mu - mu / 2) / root).erfc() / 2 - arb(epsilon).exp() * (
            (epsilon / mu + mu / 2) / root
        ).erfc() / 2
    assert arb(low) <= exact and exact <= arb(high) and high <= low * WIDTH
    closed = proved_bounds(gaussian, pair, m.parse_claim(f"approx:{epsilon},{delta}"))
    assert closed.lowers[0].value <= gaussian.truth.parameter * (1 + 1e-9) and closed.uppers[
        0
    ].value >= gaussian.truth.parameter * (1 - 1e-9)
    assert (
        epsilon
        < closed.lowers[0].value
        <= closed.uppers[0].value
        <= closed.lowers[0].value * (1 + 1e-6)
    )


@pytest.mark.slow_cases("PrefixSums-")
@pytest.mark.parametrize(
    "mechanism",
    [
        m.Laplace(0.7),
        m.Laplace(0.7, arithmetic="grid"),
        m.Laplace(0.7, 3.0, arithmetic="discrete"),
        m.Geometric(0.4),
        m.TruncatedGeometric(0.4, 5, 1, 3),
        m.RandomizedResponse(1.1, 5),
        m.ExponentialMechanism(0.8, 4),
        m.PermuteAndFlip(0.8, 7),
        m.NoisyMax(0.8, 4),
        m.NoisyMax(0.8, 3, release="value"),
        m.OneTimeRappor(0.9),
        m.Rappor(0.9),
        m.LaplaceVector(0.6, 4),
        m.PrefixSums(0.6, 3),
    ],
    ids=lambda each: (
        f"{type(each).__name__}-{getattr(each, 'arithmetic', getattr(each, 'release', ''))}"
    ),
)
def test_the_supremum_of_the_loss_is_the_truth_to_1e_6(mechanism):
    found = proved_bounds(
        mechanism, mechanism.worst_pair(), m.parse_claim(f"pure:{mechanism.epsilon}")
    )
    truth = mechanism.truth.parameter
    assert (
        found.lowers[0].value <= truth * (1 + 1e-12)
        and truth * (1 - 1e-12) <= found.uppers[0].value
    )
    assert found.uppers[0].value <= found.lowers[0].value * (1 + 1e-6)


def test_the_profile_at_zero_is_the_total_variation():
    found = proved_bounds(
        m.RandomizedResponse(1.0, 3),
        m.RandomizedResponse(1.0, 3).worst_pair(),
        m.parse_claim("approx:0.5,0.1"),
    )
    exact = (math.e - 1) / (math.e + 2)
    assert (
        found.delta_lower[0] <= exact <= found.delta_upper[0] <= found.delta_lower[0] * (1 + 1e-12)
    )


@pytest.mark.parametrize("order", [1.5, 3.0, 40.0])
def test_renyi_divergences(order):
    gaussian = m.Gaussian(1.0, 1e-5)
    found = proved_bounds(gaussian, gaussian.worst_pair(), m.parse_claim(f"rdp:{order},1"))
    exact = order / (2 * gaussian.sigma**2)
    assert (
        found.lowers[0].value <= exact * (1 + 1e-14)
        and exact * (1 - 1e-14) <= found.uppers[0].value
    )
    coin = m.RandomizedResponse(0.9)
    found = proved_bounds(coin, coin.worst_pair(), m.parse_claim(f"rdp:{order},1"))
    with ctx.workprec(300):
        e = arb(0.9).exp()
        p, q = e / (1 + e), 1 / (1 + e)
        exact = (
            (arb(order) * p.log() + (1 - arb(order)) * q.log()).exp()
            + (arb(order) * q.log() + (1 - arb(order)) * p.log()).exp()
        ).log()
        exact = exact / (arb(order) - 1)
    assert arb(found.lowers[0].value) <= exact and exact <= arb(found.uppers[0].value)
    assert found.uppers[0].value <= found.lowers[0].value * (1 + 1e-6)


def test_gdp_of_gaussian_noise_is_shift_over_sigma():
    gaussian = m.Gaussian(1.0, 1e-5, sensitivity=2.0)
    found = proved_bounds(gaussian, gaussian.worst_pair(), m.parse_claim("gdp:1"))
    assert (
        found.lowers[0].value
        <= 2.0 / gaussian.sigma
        <= found.uppers[0].value
        <= found.lowers[0].value * (1 + 1e-15)
    )
    assert (
        proved_bounds(m.Laplace(1.0), m.Laplace(1.0).worst_pair(), m.parse_claim("gdp:1")) is None
    )


def test_random_boxes_hold_the_float_log_density_at_their_points():
    """Seeded: 400 boxes of five laws, each with a point inside."""
    rng = np.random.default_rng(5)
    for mechanism in (m.Laplace(0.8), m.Gaussian(0.7, 1e-4), m.NoisyMax(1.2, 3, release="value")):
        data = mechanism.worst_pair().d1
        for _ in range(80):
            low = float(rng.normal(0, 4))
            high = low + float(rng.exponential(0.3))
            y = float(rng.uniform(low, high))
            with ctx.workprec(PRECISION):
                a, b = span(mechanism.log_density_ball([[(low, high)]], data)[0])
                mass = mechanism.mass_ball([[(low, high)]], data)[0]
                inside = (
                    arb(a).exp() * (high - low) * (1 - 1e-9),
                    arb(b).exp() * (high - low) * (1 + 1e-9),
                )
            assert a - 1e-9 <= mechanism.log_density(np.array([[y]]), data)[0] <= b + 1e-9
            assert inside[0] <= mass and mass <= inside[1]


def test_sampled_outputs_fall_into_the_claimed_masses():
    """Seeded. 20,000 outputs in four boxes each of four laws: six standard deviations,
    false-failure probability below 1e-7.
    """
    rng = np.random.default_rng(8)
    for mechanism in (
        m.Laplace(0.8, arithmetic="grid"),
        m.TruncatedGeometric(0.4, 5, 1, 4),
        m.NoisyMax(1.2, 3, release="value"),
        m.Gaussian(1.0, 1e-3),
    ):
        data = mechanism.worst_pair().d0
        rows = mechanism.sample(data, 20_000, rng)[:, 0]
        cuts = [-math.inf, *np.unique(np.quantile(rows, [0.2, 0.5, 0.9])).tolist(), math.inf]
        for low, high in itertools.pairwise(cuts):
            with ctx.workprec(PRECISION):
                mass = float(mechanism.mass_ball([[(low, high)]], data)[0])
            share = np.mean((rows > low) & (rows <= high))
            assert abs(share - mass) <= 6 * math.sqrt(mass * (1 - mass) / 20_000) + 1e-12


@dataclass(frozen=True)
class Wrong(m.Laplace):
    """Laplace noise whose balls are those of another scale."""

    factor: float = 1.0

    @property
    def scale(self):
        return self.factor * self.sensitivity / self.epsilon


def test_a_wrong_constant_turns_the_verdict():
    for arithmetic in ("float", "grid"):
        for factor, kept in ((1.0, True), (0.999, False), (1.001, True)):
            it = Wrong(1.0, arithmetic=arithmetic, factor=factor)
            found = proved_bounds(it, it.worst_pair(), m.parse_claim("pure:1"))
            assert (found.uppers[0].value <= 1 + 1e-9) is kept
            assert (found.lowers[0].value > 1 + 1e-9) is not kept


@dataclass(frozen=True)
class Contradicts(m.Laplace):
    """Its balls are not those of its log-density."""

    def _line_law(self, dataset):
        return m.Laplace(1.1 * self.epsilon)._line_law(dataset)

    shift_ball = None

    def __getattribute__(self, name):
        if name == "shift_ball":
            raise AttributeError(name)
        return object.__getattribute__(self, name)


def test_balls_that_leave_out_the_float_log_density_are_refused():
    it = Contradicts(1.0)
    with pytest.raises(BadOracle, match="outside of its own ball"):
        proved_bounds(it, it.worst_pair(), m.parse_claim("pure:1"))


def test_masses_that_do_not_add_to_one_are_refused():
    class Half(m.RandomizedResponse):
        def log_density(self, outputs, dataset):
            return m.RandomizedResponse.log_density(self, outputs, dataset) - 1

        def log_density_ball(self, boxes, dataset):
            return [log - 1 for log in m.RandomizedResponse.log_density_ball(self, boxes, dataset)]

    with pytest.raises(BadOracle, match="add to"):
        proved_bounds(Half(1.0), Half(1.0).worst_pair(), m.parse_claim("pure:1"))


def test_what_a_support_leaves_out_may_have_any_loss():
    class Cut(m.Geometric):
        """A finite list of outcomes, with no word on the rest."""

        def __getattribute__(self, name):
            if name in ("mass_ball", "loss_ball", "tail_ball"):
                raise AttributeError(name)
            return object.__getattribute__(self, name)

        def support(self, dataset):
            return np.arange(-8.0, 9.0)[:, None]

    it = Cut(0.5)
    assert proved_bounds(it, it.worst_pair(), m.parse_claim("pure:0.5")).uppers[0].value == math.inf
    found = proved_bounds(it, it.worst_pair(), m.parse_claim("approx:0.5,0.1"))
    assert found.delta_upper[-1] >= 0.01  # the mass beyond -8 and 8


def ends_of(mechanism, claim=None, pair=None):
    return proved_bounds(
        mechanism,
        pair or mechanism.worst_pair(),
        m.parse_claim(claim) if claim else mechanism.claim,
    )


@pytest.mark.parametrize("variant", [1, 2, 4, 5, 6])
@pytest.mark.parametrize(("length", "threshold"), [(2, 0.0), (5, 0.3)])
def test_patterns_of_the_sparse_vector(variant, length, threshold):
    """Masses add to 1 in balls, equal the quadrature to 1e-9, and the supremum is the truth to
    1e-6.
    """
    rng = np.random.default_rng(variant)
    mechanism = m.SparseVector(float(rng.uniform(0.3, 2)), length, threshold, variant=variant)
    answers = rng.uniform(0, 1, length)
    rows = mechanism.support(answers)
    with ctx.workprec(PRECISION):
        logs = mechanism.log_density_ball([[(x, x) for x in row] for row in rows.tolist()], answers)
        total = sum((log.exp() for log in logs), arb(0))
        assert total.contains(1) and total.rad() < 1e-30
        masses = np.array([float(log.exp()) for log in logs])
    assert np.allclose(masses, np.exp(mechanism.log_density(rows, answers)), rtol=1e-9, atol=1e-300)
    found, truth = ends_of(mechanism), mechanism.truth.parameter
    assert (
        found.lowers[0].value <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= found.uppers[0].value
    )
    assert found.uppers[0].value == found.lowers[0].value == math.inf or found.uppers[
        0
    ].value <= found.lowers[0].value * (1 + 1e-6)


def test_the_broken_sparse_vector_exceeds_four():
    assert ends_of(m.BrokenSparseVector(1.0)).lowers[0].value > 4.03
    assert ends_of(m.AboveThreshold(0.7, 6)).uppers[0].value <= 0.7


def test_query_noise_at_which_rates_cancel():
    """b = s: exponents of the integrand vanish, which no division may see."""
    mechanism = m.SparseVector(1.0, 4, variant=6)
    assert mechanism.noise.threshold == mechanism.noise.query
    pair = m.Pair(np.array([0.5, 0.5, 0.1, 0.9]), np.array([0.25, 1.0, 0.6, 0.9]), "linf")
    found = ends_of(mechanism, pair=pair)
    rows = mechanism.support(pair.d0)
    loss = mechanism.log_density(rows, pair.d1) - mechanism.log_density(rows, pair.d0)
    assert found.lowers[0].value == pytest.approx(np.abs(loss).max(), rel=1e-9)


def test_ridge_as_printed_has_no_epsilon_and_repaired_keeps_its_bound():
    """W12. In the plane the records lie on one axis."""
    for p in (1, 2):
        printed = m.PrivateRidge(1.0, 0.1, 1.0, 1.0, p, 2)
        assert ends_of(printed).lowers[0].value > 1e9
    repaired = m.PrivateRidge(1.0, 0.1, 1.0, 1.0, 1, 2, form="repaired")
    found = ends_of(repaired)
    assert 0 < found.lowers[0].value <= found.uppers[0].value <= repaired.truth.parameter
    assert found.uppers[0].value <= found.lowers[0].value * (1 + 1e-6)
    grid = np.concatenate([np.linspace(-1, 1, 20_001)[:, None], [[1.0], [-1.0]]])
    pair = repaired.worst_pair()
    loss = np.abs(repaired.log_density(grid, pair.d1) - repaired.log_density(grid, pair.d0)).max()
    assert loss <= found.uppers[0].value * (1 + 1e-9) and loss == pytest.approx(
        found.uppers[0].value, rel=1e-4
    )


@pytest.mark.parametrize(
    "loss",
    [m.Loss("linear"), m.Loss("logistic"), m.Loss("squared"), m.Loss("huber")],
    ids=lambda loss: loss.name,
)
def test_the_simplex_minimiser_satisfies_its_equation(loss):
    """At the middle of the balls theta and theta proportional to exp(-sum x l'(x.theta) / lambda)
    agree to 1e-12; balls are that thin.
    """
    rng = np.random.default_rng(4)
    data = m.LabelledVectors(
        rng.uniform(-1, 1, (5, 3)), rng.choice([-1.0, 1.0], 5), rng.integers(1, 5, 5)
    )
    mechanism = m.SimplexSampling(1.0, 6.0, loss, dimension=3, records=data.n, draws=4)
    with ctx.workprec(PRECISION):
        ends = [span(log) for log in mechanism._log_theta_ball(data)]
    theta = np.exp([low / 2 + high / 2 for low, high in ends])
    assert max(high - low for low, high in ends) < 1e-11 and abs(theta.sum() - 1) < 1e-11
    gradient = data.x.T @ (data.weights * loss.derivative(data.x @ theta, data.y))
    again = np.exp(-gradient / 6.0)
    assert np.allclose(theta, again / again.sum(), rtol=1e-11)


def test_the_rare_coordinate_of_the_simplex_is_the_truth():
    mechanism = m.SimplexSampling(1.0, 40.0, m.Loss("linear"), dimension=3, records=2, draws=6)
    found = ends_of(mechanism, pair=mechanism.worst_pair(1e-9))
    assert found.uppers[0].value <= mechanism.truth.parameter * (1 + 1e-9)
    assert found.uppers[0].value <= found.lowers[0].value * (1 + 1e-9)


@pytest.mark.parametrize(("actions", "horizon"), [(2, 6), (3, 5)])
def test_composed_draws_equal_the_sum_over_all_rows(actions, horizon):
    mechanism = m.PrivateFTRL(1.0, 1e-3, 1.0, actions, horizon)
    pair = mechanism.worst_pair(-1.0)
    found = ends_of(mechanism, "approx:0.2,0.01", pair)
    rows = mechanism.support(pair.d0)
    p, q = (np.exp(mechanism.log_density(rows, d)) for d in (pair.d1, pair.d0))
    for k in (0, 5, 10):
        exact = max(
            np.maximum(a - math.exp(found.epsilons[k]) * b, 0).sum() for a, b in ((p, q), (q, p))
        )
        assert (
            found.delta_lower[k] * (1 - 1e-9) - 1e-15
            <= exact
            <= found.delta_upper[k] * (1 + 1e-9) + 1e-15
        )
    assert found.uppers[0].epsilon <= found.lowers[0].epsilon * (1 + 1e-6)


def test_a_wrong_regularisation_turns_the_verdict():
    """Follow the leader at T = 60 needs epsilon 0.74 of its 1; with 1/2 of lambda in the balls it
    would need more.
    """
    mechanism = m.PrivateFTRL(1.0, 1e-5, 1.0, 2, 60)
    assert ends_of(mechanism).uppers[0].value <= 1.0
    object.__setattr__(mechanism, "epsilon", 2.0)  # lambda is proportional to 1 / epsilon
    assert ends_of(mechanism, "approx:1,1e-5").lowers[0].value > 1.0
