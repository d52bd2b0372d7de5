"""Utility claims: verdicts at known laws, and the papers' claims that hold and that fail (JT-05, JT-15, JT-19, CM-08)."""

import math

import numpy as np
import pytest

from dpwitness.auditors.result import Verdict
from dpwitness.auditors.utility import FailureBound, MeanBound, Scaling, audit_utility
from dpwitness.mechanisms import ConvergenceError, InvalidArgument, LinearCosts, PrivateFTRL
from dpwitness.mechanisms.noise import SphericalNoise

GRID = (1.0, 4.0, 16.0, 64.0)


def exponential(size, rng):
    return rng.exponential(size=size)


def test_failure_frequency_against_an_exact_binomial_limit():
    """P(Exp > ln 20) = .05; limits enclose it, and beta = .03 is refuted. Each assertion fails with probability below 1e-6."""
    result = audit_utility(exponential, FailureBound(math.log(20), 0.05), runs=50_000, confidence=1 - 1e-7)
    assert result.lower < 0.05 < result.upper and result.verdict is Verdict.NOT_REFUTED
    assert audit_utility(exponential, FailureBound(math.log(20), 0.03), runs=50_000).verdict is Verdict.VIOLATED


def test_failure_limits_are_clopper_pearson():
    """0 of 100: the upper limit solves (1 - p)^100 = alpha. 100 of 100: the lower one solves p^100 = alpha."""
    never = audit_utility(lambda size, rng: np.zeros(size), FailureBound(1.0, 0.0), runs=100, confidence=0.99)
    assert never.lower == 0.0 and never.upper == pytest.approx(1 - 0.01 ** (1 / 100), rel=1e-12)
    always = audit_utility(lambda size, rng: np.full(size, np.inf), FailureBound(1.0, 0.9), runs=100, confidence=0.99)
    assert always.upper == 1.0 and always.lower == pytest.approx(0.01 ** (1 / 100), rel=1e-12)
    assert always.verdict is Verdict.VIOLATED


def test_mean_against_its_bound():
    holds = audit_utility(exponential, MeanBound(1.1), runs=20_000)
    fails = audit_utility(exponential, MeanBound(0.9), runs=20_000)
    assert holds.verdict is Verdict.NOT_REFUTED and fails.verdict is Verdict.VIOLATED
    assert holds.lower < 1.0 < holds.upper and holds.upper - holds.lower < 0.05
    assert "mean error <= 0.9" in fails.headline()


def test_mean_verdict_rarely_errs_at_the_boundary():
    """Half-normal errors, bound at the true mean: 2000 audits at confidence .99 err 20 times on average; above 50 has probability 1e-8."""
    bound = MeanBound(math.sqrt(2 / math.pi))
    wrong = [
        audit_utility(lambda n, rng: np.abs(rng.standard_normal(n)), bound, runs=200, confidence=0.99, seed=s).verdict is Verdict.VIOLATED
        for s in range(2000)
    ]
    assert sum(wrong) <= 50


@pytest.mark.parametrize("exponent", [-2.0, -0.5, 0.0, 1.0])
def test_slopes_are_recovered(exponent):
    """An exact power with 10 % noise: the slope within .02, the constant within 5 %."""

    def error(value, size, rng):
        return 3.0 * value**exponent * rng.uniform(0.9, 1.1, size)

    result = audit_utility(error, Scaling(exponent, GRID))
    assert result.estimate == pytest.approx(exponent, abs=0.02) and result.constant == pytest.approx(3.0, rel=0.05)
    assert result.verdict is Verdict.NOT_REFUTED and len(result.points) == 4
    assert audit_utility(error, Scaling(exponent - 0.1, GRID)).verdict is Verdict.VIOLATED
    assert audit_utility(error, Scaling(exponent + 0.1, GRID)).verdict is Verdict.NOT_REFUTED


def test_scaling_spares_what_two_standard_errors_explain():
    """Heavy noise: the same 0.1 above the claim is not refuted, and the note says what would have been."""

    def error(value, size, rng):
        return value**0.1 * np.exp(3 * rng.standard_normal(size))

    result = audit_utility(error, Scaling(0.0, GRID), runs=200)
    assert result.standard_error > 0.05 and result.verdict is Verdict.NOT_REFUTED
    assert result.notes[0].startswith("refuted by slopes above")


def test_standard_error_covers_the_runs_own_spread():
    """With two degrees of freedom residuals are small by luck; the slope still lies within 5 standard errors in 300 repetitions."""

    def error(value, size, rng):
        return rng.exponential(size=size)

    found = [audit_utility(error, Scaling(0.0, GRID), seed=s) for s in range(300)]
    assert max(abs(r.estimate) / r.standard_error for r in found) < 5
    assert sum(r.verdict is Verdict.VIOLATED for r in found) <= 30


def regret(epsilon, rule, horizon):
    """Regret over p actions when one action is better by 2R in every round (W21), with costs of R = 1."""

    def error(p, size, rng):
        mechanism = PrivateFTRL(epsilon, 0.1, 1.0, int(p), horizon, lambda_rule=rule)
        costs = np.ones((horizon, int(p)))
        costs[:, 0] = -1.0
        dataset = LinearCosts(costs)
        return mechanism.regret(mechanism.sample(dataset, size, rng), dataset)

    return error


def test_regret_in_the_number_of_actions():
    """JT-19: printed sqrt(log p); with the printed lambda it grows like log p, so the claim fails, and O(log p) does not."""
    grid = (4, 32, 256, 1024)
    claimed = audit_utility(regret(20.0, "printed", 400), Scaling(0.5, grid, "p", math.log))
    assert claimed.verdict is Verdict.VIOLATED
    assert claimed.estimate == pytest.approx(1.0, abs=0.15)
    assert audit_utility(regret(20.0, "printed", 400), Scaling(1.1, grid, "p", math.log)).verdict is Verdict.NOT_REFUTED
    assert "log(p)^0.5" in claimed.headline()


def test_noise_length_in_the_dimension():
    """JT-05: E|<b, x>| of Gamma-norm noise grows in the dimension p like sqrt(p); of Gaussian noise it does not."""

    def along(kind):
        def error(p, size, rng):
            return np.abs(SphericalNoise(kind, 1.0, int(p)).sample(size, rng)[:, 0])

        return error

    flat = Scaling(0.0, (4, 16, 64, 256), "p")
    assert audit_utility(along("gaussian"), flat, runs=2000).verdict is Verdict.NOT_REFUTED
    gamma = audit_utility(along("gamma"), flat, runs=2000)
    assert gamma.verdict is Verdict.VIOLATED and gamma.estimate == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(("dimension", "verdict"), [(2, Verdict.NOT_REFUTED), (10, Verdict.VIOLATED)])
def test_radius_of_private_noise_breaks_the_printed_lemma(dimension, verdict):
    """CM-08: |b| eps <= 4 log(1/delta) but for delta = .05 fails for Gamma noise in many dimensions: .917 at d = 10, .0175 at d = 2."""

    def radius(size, rng):
        return np.linalg.norm(SphericalNoise("gamma", 0.5, dimension).sample(size, rng), axis=1)

    result = audit_utility(radius, FailureBound(4 * math.log(20), 0.05), runs=4000)
    assert result.verdict is verdict
    assert result.estimate == pytest.approx({2: 0.0175, 10: 0.917}[dimension], abs=0.025)


def test_runs_that_do_not_converge_are_an_error():
    def error(size, rng):
        raise ConvergenceError("row 3")

    result = audit_utility(error, MeanBound(1.0))
    assert result.verdict is Verdict.ERROR and result.headline() == "ERROR: a run did not converge: row 3"
    with pytest.raises(TypeError, match="no truth value"):
        bool(result)
    assert result.to_json()["estimate"] == "nan"


def test_json_holds_the_points():
    result = audit_utility(lambda v, n, rng: v * rng.uniform(0.9, 1.1, n), Scaling(1.0, GRID), name="linear")
    found = result.to_json()
    assert found["name"] == "linear" and [p["value"] for p in found["points"]] == list(GRID)
    assert found["claim"] == "error = O(n^1)"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Scaling(1.0, (1, 2, 64)), "grid must hold at least 4 different values that span at least 64x, got 3 spanning 64x"),
        (lambda: Scaling(1.0, (1, 2, 4, 8)), "got 4 spanning 8x"),
        (lambda: Scaling(1.0, ()), "got none"),
        (lambda: Scaling(1.0, (1, 4, 16, 64), transform=math.log), "transform must be positive on the grid, got 0.0 at 1.0"),
        (lambda: Scaling(math.nan, GRID), "exponent must be a finite number, got nan"),
        (lambda: FailureBound(1.0, 1.0), "beta must lie in"),
        (lambda: MeanBound(math.inf), "bound must be a finite number, got inf"),
        (lambda: audit_utility(exponential, Scaling(1.0, GRID), runs=100), "runs must be a whole number, at least 200, got 100"),
        (lambda: audit_utility(exponential, 1.0), "claim must be a FailureBound, MeanBound or Scaling, got 1.0"),
        (lambda: audit_utility(1.0, MeanBound(1.0)), "error must be callable, got 1.0"),
        (lambda: audit_utility(lambda n, rng: np.zeros(3), MeanBound(1.0)), "must give one number a run, shape"),
        (lambda: audit_utility(lambda n, rng: np.full(n, np.nan), MeanBound(1.0)), "error must be a number, got nan in run 0"),
        (lambda: audit_utility(lambda n, rng: np.full(n, np.inf), MeanBound(1.0)), "error must be finite for a claim about its mean"),
        (lambda: audit_utility(lambda v, n, rng: np.zeros(n), Scaling(1.0, GRID)), "error must be positive and finite to be regressed"),
    ],
)
def test_bad_arguments_are_named(build, message):
    with pytest.raises(InvalidArgument, match=message):
        build()
