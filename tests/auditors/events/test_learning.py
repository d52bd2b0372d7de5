"""What learning an event makes of its training outputs: counts instead of rows, both tails of a
symmetric law, priors learned before.
"""

import numpy as np
import pytest

from dpwitness.auditors.events.learning import learn
from dpwitness.auditors.events.outputs import encode
from dpwitness.mechanisms import PureDP


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
