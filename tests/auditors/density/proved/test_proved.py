"""The proved route: enclosures against closed forms, and verdicts that a wrong constant turns.

The proved route of sparse vector, ridge, simplex sampling and follow the leader.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from flint import arb, ctx

from dpwitness import mechanisms as m
from dpwitness.auditors.density.proved.bounds import proved_bounds
from dpwitness.auditors.density.proved.space import cells_of
from dpwitness.auditors.density.routes import BadOracle
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


@pytest.mark.parametrize("order", [1.5, 3.0, 40.0])
def test_renyi_divergences(order):
    gaussian, coin = m.Gaussian(1.0, 1e-5), m.RandomizedResponse(0.9)
    with ctx.workprec(300):
        e = arb(0.9).exp()
        p, q = (e / (1 + e)).log(), (1 / (1 + e)).log()
        moment = (order * p + (1 - order) * q).exp() + (order * q + (1 - order) * p).exp()
        truths = {
            gaussian: arb(order) / (2 * arb(gaussian.sigma) ** 2),
            coin: moment.log() / (arb(order) - 1),
        }
    for mechanism, exact in truths.items():
        found = proved_bounds(mechanism, mechanism.worst_pair(), m.parse_claim(f"rdp:{order},1"))
        low, high = found.lowers[0].value, found.uppers[0].value
        assert arb(low) <= exact and exact <= arb(high)
        assert high <= low * (1 + 1e-6)


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
