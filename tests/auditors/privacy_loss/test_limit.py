"""The limit against the measured figures of the method, exhaustive search over thresholds, and
simulated audits.
"""

import dataclasses

import numpy as np
import pytest

from dpwitness import mechanisms as m
from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.density.limit import limit, limit_of_law
from dpwitness.auditors.density.routes import loss_law
from dpwitness.auditors.events.divergence import (
    best_expected_renyi_bound,
    best_renyi_rule,
    renyi_lower_bound,
)
from dpwitness.auditors.statistics.certificate import certified

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
