"""Claims on sampling from the simplex: against minimisers, exact binomial sums and closed forms; and mutations that turn the verdicts."""

import dataclasses
import math

import numpy as np
import pytest
from flint import arb
from scipy.special import expit
from scipy.stats import binom

from dpwitness.auditors import Verdict, certify
from dpwitness.auditors.bounds.utility_claims import MeanBound
from dpwitness.mechanisms import LabelledVectors
from dpwitness.mechanisms.numerics.losses import Loss
from dpwitness.mechanisms.papers.simplex import SimplexSampling, minimise_over_simplex
from dpwitness.proofs_checks import Box, ClaimVerdict, check, declarations, enclose, supremum
from dpwitness.proofs_checks.claims import simplex_claims
from dpwitness.proofs_checks.claims.simplex_claims import square_root_of_draws
from dpwitness.proofs_checks.engine.enclosures import at_most
from dpwitness.proofs_checks.engine.ledger import settle

HOLDS, FAILS, OPEN = ClaimVerdict.HOLDS, ClaimVerdict.FAILS, ClaimVerdict.INCONCLUSIVE
SOME = ClaimVerdict.NOT_REFUTED


def test_loss_of_a_linear_draw_has_range_four():
    """theta proportional to exp(-G / lambda): no D in the cube costs more than the formula, and its corner costs exactly that."""
    rng = np.random.default_rng(0)
    a = 1.3  # 4 L R / lambda
    for _ in range(300):
        theta = rng.dirichlet([0.3, 1.0, 1.0])
        corner = np.array([1.0, -1.0, -1.0])
        worst = None
        for d in [*rng.uniform(-1, 1, (20, 3)), corner]:
            other = theta * np.exp(-d * a / 2)
            other /= other.sum()
            loss = math.log(theta[0] / other[0])
            weight = other[0]
            bound = a - math.log1p(weight * math.expm1(a))
            if d is corner:
                worst = (loss, bound)
            assert abs(loss) <= a
        assert worst[0] == pytest.approx(worst[1], rel=1e-9)


@pytest.mark.parametrize(("copies", "lam"), [(0, 1.0), (40, 1.0), (4000, 3.0)])
def test_smooth_bound_covers_exact_minimisers(copies, lam):
    """Random pairs of Huber regressions, x from 3 to 1300: no draw costs more than 2 + 2 sqrt(1 + x) in units of L R / lambda."""
    rng = np.random.default_rng(copies)
    for _ in range(60):
        x = rng.choice([-1.0, 1.0], (3, 4)) * np.array([[1.0], [rng.uniform(0.2, 1)], [1.0]])
        weights = [1, copies // 2 + 1, copies - copies // 2 + 1]
        responses = [0.0, *rng.uniform(-1, 1, 2)]
        pair = [LabelledVectors(x, np.array([end, *responses[1:]]), weights) for end in (3.0, -3.0)]  # slope -1, then +1
        first, second = (minimise_over_simplex(data, Loss("huber"), lam).log_theta for data in pair)
        assert np.abs(first - second).max() * lam <= (2 + 2 * math.sqrt(1 + (copies + 3) / lam)) * (1 + 1e-9)


@pytest.mark.parametrize(("x", "known"), [(0.5, 4.0), (2.0, 4.375), (30.0, 12.06), (100.0, 21.05)])
def test_smooth_bound_is_near_the_worst_small_change(x, known):
    """One curved direction, one rare coordinate: the linearised stationarity equation over a grid, against the bound that is proved."""
    worst = 0.0
    for share in np.linspace(0.1, 0.9, 33):
        theta = np.array([1e-6, share, 1 - share - 1e-6])
        for a in np.linspace(-1, 0.5, 31):
            row = np.array([1.0, -1.0, a])
            matrix = np.eye(3) + x * np.outer(row, row * theta)
            for change in ((-2.0, -2.0, 2.0), (-2.0, 2.0, 2.0)):
                flat, moved = np.linalg.solve(matrix, np.column_stack([np.ones(3), change])).T
                worst = max(worst, float(np.abs((theta @ moved) / (theta @ flat) * flat - moved).max()))
    assert worst == pytest.approx(known, rel=0.01)
    assert 0.79 * (2 + 2 * math.sqrt(1 + x)) < worst <= 2 + 2 * math.sqrt(1 + x)


def binomial_delta(epsilon, odds, count):
    """Hockey stick of k-fold randomised response."""
    j = np.arange(count + 1)
    gain = -np.expm1(epsilon - (2 * j - count) * odds)
    return float(np.sum(binom.pmf(j, count, expit(odds)) * np.maximum(gain, 0)))


@pytest.mark.parametrize(
    ("slope", "epsilon", "delta", "reached"), [(50, 5.0, 1e-5, 3.56e-4), (100, 1.0, 1e-5, 1.12e-2), (100, 1.0, 1e-8, 2.5e-4)]
)
def test_unit_that_is_missing(slope, epsilon, delta, reached):
    found = check("JT-12", slope=slope, epsilon=epsilon, delta=delta)
    lam = 20 * 32 * math.log(1 / delta) / epsilon
    assert found.claim_verdict is FAILS
    assert found.evidence.numbers["delta_reached"] == pytest.approx(binomial_delta(epsilon, 2 * slope / lam, 400), rel=1e-6)
    assert found.evidence.numbers["delta_reached"] == pytest.approx(reached, rel=0.01)
    first = found.evidence.numbers["least_slope"]
    assert check("JT-12", slope=first * 0.99, epsilon=epsilon, delta=delta).claim_verdict is SOME
    assert check("JT-12", slope=first * 1.01, epsilon=epsilon, delta=delta).claim_verdict is FAILS


def test_unit_put_back():
    lam = 2000 * 32 * math.log(1e5) * (1 + 1e-12)
    model = SimplexSampling(1.0, lam, Loss("linear"), 2, 1, label_bound=100.0, delta=1e-5, draws="approximate_repaired")
    assert model.count == 400
    assert certify(model, model.worst_pair(), trials=10_000).verdict in (Verdict.CERTIFIED, Verdict.SUPPORTED)


@pytest.mark.parametrize(("at", "least"), [((1.0, 1e-6, 1000.0), 5.2e8), ((1.0, 1e-3, 8.0), 6.0e6), ((10.0, 1e-3, 8.0), 6.0e5)])
def test_where_the_algorithm_draws(at, least):
    epsilon, delta, actions = at
    numbers = check("JT-13", epsilon=epsilon, delta=delta, actions=actions, records=42_000).evidence.numbers

    def m(n):
        lam = n ** (2 / 3) / (epsilon * math.log(actions)) ** (1 / 3)
        return (epsilon * lam / math.log(1 / delta)) ** 2 / (32 + 16 * n / lam) ** 2

    assert numbers["draws"] == pytest.approx(m(42_000), rel=1e-9)
    assert numbers["least_n"] == pytest.approx(least, rel=0.01)
    assert m(numbers["least_n"]) >= 1 - 1e-9 and m(numbers["least_n"] - 2) < 1
    assert check("JT-13", epsilon=epsilon, delta=delta, actions=actions, records=numbers["least_n"] + 1).claim_verdict is HOLDS


def test_cod_rna():
    numbers = check("JT-13").evidence.numbers
    assert numbers["draws"] == pytest.approx(0.166, abs=5e-4) and numbers["pure_draws"] == pytest.approx(22.5, abs=0.05)


def mutated(id, **changes):
    return settle(dataclasses.replace(declarations()[id], **changes), cells=2000).claim_verdict


def test_wrong_constants_turn_the_verdict():
    def tighter(range):
        return supremum(
            lambda w: 4 / arb(3.9) - 1 - (w.nonnegative_part() * range.expm1()).log1p().nonnegative_part() / range, over=(0.0, 1.0)
        )

    def no_unit(epsilon, delta):  # L R = 100 under the printed m
        digits = -delta.log()
        return at_most(100**2 * epsilon / (128 * digits * digits) + 100 / (32 * digits).sqrt() - 1)

    def without_logs(records, epsilon, delta, actions):
        return enclose(square_root_of_draws(records, epsilon, delta, actions) - 1)

    assert mutated("JT-10", function=tighter) is FAILS
    assert mutated("JT-12-repair", function=no_unit) is OPEN
    many = Box(records=(1e8, 1e9), epsilon=10.0, delta=1e-3, actions=2.0)
    assert mutated("JT-13-dominated", domain=many) is HOLDS
    assert mutated("JT-13-dominated", domain=many, function=without_logs) is FAILS
    assert mutated("JT-11", function=lambda x: at_most((2 + 2 * (1 + 4 * x).sqrt()) / (4 + x) - 1)) is OPEN


def test_flipped_inequality_and_domain_turn_the_verdict(flipped):
    assert mutated("JT-13-dominated", function=flipped("JT-13-dominated")) is FAILS
    assert mutated("JT-12-repair", domain=Box(epsilon=(1e-2, 100.0), delta=(1e-15, 0.9))) is OPEN
    wide = Box(records=(1.0, 1e15), epsilon=(0.1, 10.0), delta=(1e-10, 1e-3), actions=(2.0, 1e6))
    assert mutated("JT-13-dominated", domain=wide) is FAILS


def test_half_the_price_of_drawing_is_refuted(monkeypatch):
    monkeypatch.setattr(simplex_claims, "MeanBound", lambda bound, **range: MeanBound(bound / 2, **range))
    assert check("JT-14-draws").claim_verdict is FAILS
