"""Claims on sampling from the simplex: against minimisers, exact binomial sums and closed forms;
and mutations that turn the verdicts.
"""

import math

import numpy as np
import pytest
from flint import arb
from scipy.special import expit
from scipy.stats import binom

from dpwitness.auditors import Verdict, certify
from dpwitness.auditors.functions.bounds.utility_claims import MeanBound
from dpwitness.core.numerics.losses import Loss
from dpwitness.mechanisms import LabelledVectors
from dpwitness.mechanisms.papers.simplex import SimplexSampling, minimise_over_simplex
from dpwitness.proofs_checks import Box, ClaimVerdict, check, enclose, supremum
from dpwitness.proofs_checks.claims import simplex_claims
from dpwitness.proofs_checks.claims.simplex_claims import square_root_of_draws
from dpwitness.proofs_checks.engine.enclosures import at_most

HOLDS, FAILS, OPEN = ClaimVerdict.HOLDS, ClaimVerdict.FAILS, ClaimVerdict.INCONCLUSIVE
SOME = ClaimVerdict.NOT_REFUTED


@pytest.mark.parametrize(("copies", "lam"), [(0, 1.0), (40, 1.0), (4000, 3.0)])
def test_smooth_bound_covers_exact_minimisers(copies, lam):
    """Random pairs of Huber regressions, x from 3 to 1300: no draw costs more than 2 + 2 sqrt(1 +
    x) in units of L R / lambda.
    """
    rng = np.random.default_rng(copies)
    for _ in range(60):
        x = rng.choice([-1.0, 1.0], (3, 4)) * np.array([[1.0], [rng.uniform(0.2, 1)], [1.0]])
        weights = [1, copies // 2 + 1, copies - copies // 2 + 1]
        responses = [0.0, *rng.uniform(-1, 1, 2)]
        # slope -1, then +1
        pair = [LabelledVectors(x, np.array([end, *responses[1:]]), weights) for end in (3.0, -3.0)]
        first, second = (minimise_over_simplex(data, Loss("huber"), lam).log_theta for data in pair)
        assert np.abs(first - second).max() * lam <= (2 + 2 * math.sqrt(1 + (copies + 3) / lam)) * (
            1 + 1e-9
        )


def binomial_delta(epsilon, odds, count):
    """Hockey stick of k-fold randomised response."""
    j = np.arange(count + 1)
    gain = -np.expm1(epsilon - (2 * j - count) * odds)
    return float(np.sum(binom.pmf(j, count, expit(odds)) * np.maximum(gain, 0)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slope", "epsilon", "delta", "reached"),
    [(50, 5.0, 1e-5, 3.56e-4), (100, 1.0, 1e-5, 1.12e-2), (100, 1.0, 1e-8, 2.5e-4)],
)
def test_unit_that_is_missing(slope, epsilon, delta, reached):
    found = check("JT-12", slope=slope, epsilon=epsilon, delta=delta)
    lam = 20 * 32 * math.log(1 / delta) / epsilon
    assert found.claim_verdict is FAILS
    assert found.evidence.numbers["delta_reached"] == pytest.approx(
        binomial_delta(epsilon, 2 * slope / lam, 400), rel=1e-6
    )
    assert found.evidence.numbers["delta_reached"] == pytest.approx(reached, rel=0.01)
    first = found.evidence.numbers["least_slope"]
    assert check("JT-12", slope=first * 0.99, epsilon=epsilon, delta=delta).claim_verdict is SOME
    assert check("JT-12", slope=first * 1.01, epsilon=epsilon, delta=delta).claim_verdict is FAILS


def test_unit_put_back():
    lam = 2000 * 32 * math.log(1e5) * (1 + 1e-12)
    model = SimplexSampling(
        1.0, lam, Loss("linear"), 2, 1, label_bound=100.0, delta=1e-5, draws="approximate_repaired"
    )
    assert model.count == 400
    assert certify(model, model.worst_pair(), trials=10_000).verdict in (
        Verdict.CERTIFIED,
        Verdict.SUPPORTED,
    )


@pytest.mark.parametrize(
    ("at", "least"),
    [((1.0, 1e-6, 1000.0), 5.2e8), ((1.0, 1e-3, 8.0), 6.0e6), ((10.0, 1e-3, 8.0), 6.0e5)],
)
def test_where_the_algorithm_draws(at, least):
    epsilon, delta, actions = at
    numbers = check(
        "JT-13", epsilon=epsilon, delta=delta, actions=actions, records=42_000
    ).evidence.numbers

    def m(n):
        lam = n ** (2 / 3) / (epsilon * math.log(actions)) ** (1 / 3)
        return (epsilon * lam / math.log(1 / delta)) ** 2 / (32 + 16 * n / lam) ** 2

    assert numbers["draws"] == pytest.approx(m(42_000), rel=1e-9)
    assert numbers["least_n"] == pytest.approx(least, rel=0.01)
    assert m(numbers["least_n"]) >= 1 - 1e-9 and m(numbers["least_n"] - 2) < 1
    assert (
        check(
            "JT-13", epsilon=epsilon, delta=delta, actions=actions, records=numbers["least_n"] + 1
        ).claim_verdict
        is HOLDS
    )


def test_wrong_constants_turn_the_verdict(mutated):
    def tighter(range):
        return supremum(
            lambda w: (
                4 / arb(3.9)
                - 1
                - (w.nonnegative_part() * range.expm1()).log1p().nonnegative_part() / range
            ),
            over=(0.0, 1.0),
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
    assert (
        mutated("JT-11", function=lambda x: at_most((2 + 2 * (1 + 4 * x).sqrt()) / (4 + x) - 1))
        is OPEN
    )


def test_half_the_price_of_drawing_is_refuted(monkeypatch):
    monkeypatch.setattr(
        simplex_claims, "MeanBound", lambda bound, **range: MeanBound(bound / 2, **range)
    )
    assert check("JT-14-draws").claim_verdict is FAILS
