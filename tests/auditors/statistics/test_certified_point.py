"""The certified point and profile that the plots draw: consistent with the certificate, and valid where the claim is tight."""

import numpy as np
import pytest

from dpwitness.auditors.statistics.certificate import Tally, certified
from dpwitness.auditors.statistics.certified_point import certified_point, lower_profile
from dpwitness.mechanisms import GDP, RDP, ZCDP, ApproxDP, PureDP

ALPHA = 0.05


@pytest.mark.parametrize("claim", [ApproxDP(1.0, 1e-5), ApproxDP(0.5, 1e-2), GDP(1.0), ZCDP(0.5), RDP(2.0, 0.5)], ids=str)
@pytest.mark.parametrize("tally", [Tally(7_400, 2_600, 20_000), Tally(300, 20, 10_000, directions=1)], ids=str)
def test_the_point_proves_what_the_certificate_does(claim, tally):
    point = certified_point(tally, ALPHA)
    expected = float(certified(claim, tally.correct, tally.wrong, tally.rounds, ALPHA, tally.directions))
    assert expected > 0.1
    assert float(claim.parameter_at(point.fpr, point.tpr)) == pytest.approx(expected, rel=1e-12)


def test_the_profile_meets_delta_at_the_certified_epsilon():
    tally, delta = Tally(7_400, 2_600, 20_000), 1e-2
    point = certified_point(tally, ALPHA)
    epsilon = float(certified(ApproxDP(1.0, delta), 7_400, 2_600, 20_000, ALPHA))
    assert float(lower_profile(point, epsilon)) == pytest.approx(delta, rel=1e-9)
    assert float(lower_profile(point, epsilon + 0.05)) < delta < float(lower_profile(point, epsilon - 0.05))


def test_a_pure_claim_pays_a_little_for_the_frequency():
    tally = Tally(7_400, 2_600, 20_000)
    sharp = float(certified(PureDP(1.0), 7_400, 2_600, 20_000, ALPHA))
    point = certified_point(tally, ALPHA)
    assert 0.999 * sharp < np.log(point.tpr / point.fpr) < sharp


def test_the_mirrored_event_bounds_the_profile_too():
    """An event with rates (0.3, 0.99) has odds 3.3, its complement 70: 0.7 - e^3 0.01 = 0.499, less what the limits cost."""
    point = certified_point(Tally(990_000, 300_000, 2_000_000, directions=1), ALPHA)
    epsilon = 3.0
    assert point.tpr - np.exp(epsilon) * point.fpr < 0
    assert 0.42 < float(lower_profile(point, epsilon)) < 0.7 - np.exp(epsilon) * 0.01


def test_the_lower_profile_is_valid_where_the_mechanism_is_tight():
    """20,000 audits of (1, 0)-randomised response: delta_L exceeds the true profile anywhere in at most 5 %, failing by chance at 1e-7."""
    audits, rounds = 20_000, 5_000
    right = np.e / (1 + np.e)
    correct = np.random.default_rng(1).binomial(rounds, right, audits)
    grid = np.linspace(0.0, 1.2, 25)
    truth = PureDP(1.0).delta(grid)
    counts, times = np.unique(correct, return_counts=True)
    tallies = [Tally(int(c), rounds - int(c), rounds) for c in counts]
    too_high = [bool(np.any(lower_profile(certified_point(tally, ALPHA), grid) > truth + 1e-12)) for tally in tallies]
    false = times[np.array(too_high)].sum()
    assert 0.02 < false / audits <= ALPHA + 5.2 * np.sqrt(ALPHA * (1 - ALPHA) / audits)
