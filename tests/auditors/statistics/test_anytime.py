"""Anytime-valid certificate: exact error of evidence that is looked at after every round, limits,
and adaptive epochs.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpwitness.auditors.statistics.anytime import (
    anytime_bound,
    anytime_p_value,
    epoch_weight,
    is_refuted,
    log_e_value,
    log_evidence,
    lower_limit,
    shown_at_most,
)
from dpwitness.auditors.statistics.certificate import Part, Prior, Tally, allowed, certified
from dpwitness.core.claims import parse_claim
from dpwitness.core.values.validation import InvalidArgument

CLAIMS = ("pure:1", "approx:1,1e-3", "gdp:1", "rdp:2,1")


def error_of_looks(
    p: float, null: float, prior: tuple[float, float], alpha: float, rounds: int, loss: float = 0.0
) -> float:
    """Return the exact probability that the evidence against `null` is ever at least 1/alpha, over
    all rounds; `loss` adds zeros.
    """
    law, error = np.array([1.0]), 0.0  # law of the number of ones among streams without an alarm
    for n in range(1, rounds + 1):
        ones = np.arange(n + 1)
        law = np.append(law * (1 - p * (1 - loss)), 0.0) + np.append(0.0, law * p * (1 - loss))
        alarm = log_evidence(ones, n - ones, null, prior) >= math.log(1 / alpha)
        error += float(law[alarm].sum())
        law[alarm] = 0.0
    return error


@pytest.mark.parametrize(
    "prior", [(0, 0), (70, 20), (20, 70), (9_000, 1_000)], ids=["none", "near", "wrong side", "far"]
)
@pytest.mark.parametrize("null", [0.5, 0.731, 0.95])
def test_looking_after_every_round_errs_with_at_most_alpha(null, prior):
    """The error is an exact sum over all paths of 300 rounds; some priors come close to alpha, so
    the bound is not idle.
    """
    assert 0 < error_of_looks(null, null, prior, 0.05, 300) <= 0.05


def test_the_error_comes_close_to_alpha():
    assert error_of_looks(0.5, 0.5, (70, 20), 0.05, 300) > 0.025


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_smaller_probability_and_lost_rounds_err_less(share):
    for prior in ((0, 0), (2, 8)):
        assert error_of_looks(share * 0.731, 0.731, prior, 0.05, 200) <= 0.05
        assert error_of_looks(0.731, 0.731, prior, 0.05, 200, loss=1 - share) <= 0.05


def test_evidence_falls_as_the_null_grows():
    for ones, zeros, prior in (
        (80, 20, (0, 0)),
        (3, 50, (30, 5)),
        (0, 0, (5, 5)),
        (10_000, 3_000, (100, 300)),
    ):
        values = log_evidence(ones, zeros, np.linspace(0.01, 0.999, 400), prior)
        assert np.all(np.diff(values[np.isfinite(values)]) <= 1e-9)
    assert log_evidence(1, 0, 0.0, (0, 0)) == math.inf
    assert log_evidence(5, 0, 1.0, (0, 0)) == -math.inf


def test_the_limit_is_where_the_evidence_crosses():
    low = lower_limit(np.array([80, 8_000, 0]), np.array([20, 2_000, 10]), (8, 2), 0.01)
    assert low[2] == 0
    assert low[0] < low[1] < 0.8
    for at, (ones, zeros) in zip(low, ((80, 20), (8_000, 2_000)), strict=False):
        assert (
            log_evidence(ones, zeros, at - 1e-9, (8, 2))
            >= math.log(100)
            > log_evidence(ones, zeros, at + 1e-9, (8, 2))
        )


@pytest.mark.parametrize("text", CLAIMS)
def test_bound_p_value_and_refutation_agree(text):
    claim = parse_claim(text)
    epochs = [
        Part(Tally(60, 40, 300), prior=Prior(30, 20, 100)),
        Part(Tally(1_900, 300, 4_000), prior=Prior(190, 40, 400)),
    ]
    bound = anytime_bound(claim, epochs, 0.05)
    assert bound > 0
    assert is_refuted(claim, epochs, bound * (1 - 1e-6), 0.05)
    assert not is_refuted(claim, epochs, bound * (1 + 1e-6), 0.05)
    at_bound = claim.with_parameter(bound * (1 - 1e-6))
    assert anytime_p_value(at_bound, epochs) == pytest.approx(0.05, rel=1e-3)
    # the batch certificate of pooled counts, which may not be looked at
    assert bound < certified(claim, 1_960, 340, 4_300, 0.05)
    assert shown_at_most(claim, epochs[-1], 0.05) > claim.parameter_at(
        2 * 300 / 4_000 / 2, 2 * 1_900 / 4_000 / 2
    )


def test_directions_and_lost_rounds_only_lower_the_bound():
    claim, prior = parse_claim("gdp:1"), Prior(90, 30, 300)
    two, one = (
        anytime_bound(claim, [Part(Tally(900, 100, 3_000, k), prior=prior)], 0.05) for k in (2, 1)
    )
    lost = anytime_bound(claim, [Part(Tally(900, 110, 3_000), 0.0, 10, prior)], 0.05)
    assert lost < two
    assert one != two


def test_early_losses_do_not_burden_later_epochs():
    bad, good = (
        Part(Tally(10, 90, 100), prior=Prior(90, 10, 100)),
        Part(Tally(9_000, 1_000, 10_000), prior=Prior(900, 100, 1_000)),
    )
    claim = parse_claim("pure:1")
    alone, after = log_e_value(claim, [good], 1.0, 0.0), log_e_value(claim, [bad, good], 1.0, 0.0)
    assert alone - after < math.log(epoch_weight(0) / epoch_weight(1)) + 0.1
    assert sum(epoch_weight(k) for k in range(200_000)) == pytest.approx(1, abs=1e-4)


def test_adaptive_epochs_err_with_at_most_alpha():
    """The error is an exact sum over two epochs, the second with a prior that depends
    on the first.
    """
    claim, alpha, sizes = parse_claim("pure:1"), 0.3, (12, 16)
    theta = allowed(claim, 1.0, 1.0, 2)
    level, error, law = -math.log(alpha), 0.0, {(0, 0): 1.0}
    for epoch, size in enumerate(sizes):
        starts = {state: law[state] for state in law}
        law = {}
        for (before, _), mass in starts.items():
            prior = Prior(4, 1, 5) if not epoch else Prior(before, sizes[0] - before, sizes[0])
            earlier = (
                [Part(Tally(before, sizes[0] - before, sizes[0]), prior=Prior(4, 1, 5))]
                if epoch
                else []
            )
            inside = np.array([mass])
            for n in range(1, size + 1):
                inside = np.append(inside * (1 - theta), 0.0) + np.append(0.0, inside * theta)
                parts = [[*earlier, Part(Tally(c, n - c, n), prior=prior)] for c in range(n + 1)]
                alarm = np.array([log_e_value(claim, each, 1.0, 0.0) >= level for each in parts])
                error += float(inside[alarm].sum())
                inside[alarm] = 0.0
            for right, left in enumerate(inside):
                law[(right, before)] = law.get((right, before), 0.0) + float(left)
    assert 0.02 < error <= alpha


def test_epochs_and_stages_of_a_plan_are_not_mixed():
    with pytest.raises(InvalidArgument, match="priors"):
        log_e_value(
            parse_claim("pure:1"),
            [Part(Tally(9, 1, 10), prior=Prior()), Part(Tally(9, 1, 10))],
            1.0,
            0.0,
        )
    with pytest.raises(InvalidArgument, match="at most size"):
        Prior(3, 3, 5)
