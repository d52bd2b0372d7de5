"""What learning an event makes of its training outputs: counts instead of rows, both tails of a
symmetric law, priors learned before.
"""

import numpy as np
import pytest

from dpwitness.auditors.events.learning import expected_certificate, learn
from dpwitness.auditors.events.outputs import encode
from dpwitness.mechanisms import NoisyMax, PureDP


def drawn(mechanism, number, seed=0):
    pair, rng = mechanism.worst_pair(), np.random.default_rng(seed)
    return [
        encode(mechanism.sample(dataset, number, rng), number) for dataset in (pair.d1, pair.d0)
    ]


def test_few_outputs_rank_a_loss_in_the_middle_of_their_range_above_noise():
    """240 outputs of a pair with a loss of 3 between two quantiles rank the pair above each of six
    pairs without loss.
    """

    def side(share, rng, size=120):
        return encode(
            np.where(
                rng.random(size) < share, rng.uniform(0.5, 0.6, size), rng.laplace(0.0, 3.0, size)
            ),
            size,
        )

    for seed in range(3):
        rng = np.random.default_rng(seed)
        pairs = [
            (side(0.2, rng), side(0.01, rng)),
            *((side(0.03, rng), side(0.03, rng)) for _ in range(6)),
        ]
        found = [
            expected_certificate(*sides, PureDP(1.0), alpha=0.01, rounds=25_000) for sides in pairs
        ]
        assert np.argmax(found) == 0


@pytest.mark.parametrize(
    "form", [set, list, lambda names: dict.fromkeys(names, 1.0)], ids=["set", "list", "dict"]
)
def test_names_of_one_side_rank_a_pair_by_what_more_runs_certify(form):
    """A name of one side, one in 70 of 800 outputs, ranks its pair above a usual name with a loss
    of 0.53, and that above noise.
    """

    def side(shares, rng, size=800):
        kept = rng.random((size, 9)) < np.array(shares)
        return encode([form([f"user {k}" for k in np.flatnonzero(row)]) for row in kept], size)

    usual = [0.5] * 8
    for seed in range(2):
        rng = np.random.default_rng(seed)
        shares = [
            ([*usual, 1 / 70], [*usual, 0.0]),
            ([0.37, *usual[1:], 0.0], [0.63, *usual[1:], 0.0]),
            ([*usual, 0.01], [*usual, 0.01]),
        ]
        pairs = [(side(one, rng), side(zero, rng)) for one, zero in shares]
        found = [
            expected_certificate(*sides, PureDP(0.6), alpha=0.01, rounds=40_000) for sides in pairs
        ]
        assert found[0] > found[1] > found[2]


def test_a_rare_output_is_not_given_up_for_noise():
    """The only informative output is one in 400: 22 and 8 times are expected. With a sixth of the
    draws, 2 of these 24 events miss it.
    """
    noisy_max = NoisyMax(1.0)
    found = [
        learn(*drawn(noisy_max, 6_000, seed), noisy_max.claim, alpha=0.05, rounds=14_000).event
        for seed in range(24)
    ]
    assert sum(0.0 in np.ravel(event.rows[:, 1:]) for event in found) >= 23


@pytest.mark.parametrize("number", [8, 25])
def test_outputs_that_do_not_repeat_are_no_event(number):
    """Exact outputs of a vector of noisy numbers guess nothing of new outputs; the learned event
    guesses most of them right.
    """
    rng = np.random.default_rng(number)
    sides, new = (
        [encode(side + rng.laplace(0.0, 0.05, (size, 6)), size) for side in (1.0, 0.0)]
        for size in (number, 1_000)
    )
    found = learn(*sides, PureDP(1.0), alpha=0.01, rounds=4 * number)
    right = [found.event.count(outputs)[place] for place, outputs in enumerate(new)]
    assert found.method != "atoms" and min(right) > 900


def test_thresholds_are_those_of_new_outputs_where_many_columns_fit_few_outputs():
    """The scores of the outputs to which a score of 200 columns was fitted are more extreme than
    those of new outputs.
    """
    rng = np.random.default_rng(0)
    shift = np.where(np.arange(200) == 37, 3.0, 0.0)
    sides, new = (
        [encode(shift * side + rng.laplace(0.0, 0.3, (size, 200)), size) for side in (1, 0)]
        for size in (30, 2_000)
    )
    event = learn(*sides, PureDP(1.0), alpha=0.01, rounds=140).event
    (right1, wrong1), (wrong0, right0) = (event.count(outputs) for outputs in new)
    assert right1 + right0 > 2_000 and wrong1 + wrong0 < 40
