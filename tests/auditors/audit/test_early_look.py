"""The look during the training: its event, its rounds, its share of the error, and what it must not
change.
"""

import numpy as np

from dpwitness import Pair, audit
from dpwitness.auditors.audit.options import EARLY_LOOK_ROUNDS, LOOK_ALPHA_SHARE, LOOK_SHARES

PAIR = Pair(np.zeros(1), np.ones(1))


def noisy(dataset, size, rng):
    return dataset[0] + rng.laplace(size=size)


class Shown:
    """Progress callback that collects the bounds and when they come."""

    def __init__(self):
        self.done, self.bounds = 0, []

    def __call__(self, done, planned):
        self.done = done

    def interim_bound(self, symbol, bound):
        self.bounds.append((self.done, bound))


def shown(trials=120_000):
    progress = Shown()
    result = audit(
        noisy, claim="pure:1", pair=PAIR, trials=trials, seed=1, progress=progress, bits=False
    )
    return progress.bounds, result


def test_the_looks_spend_no_more_than_the_error():
    """Of a Renyi claim, the looks spend half."""
    assert sum(LOOK_SHARES.values()) + LOOK_ALPHA_SHARE <= 1.0


def test_a_bound_is_shown_before_the_event_is_learned():
    """The other bounds and the result are those of an audit that nobody watches."""
    bounds, result = shown()
    unwatched = audit(noisy, claim="pure:1", pair=PAIR, trials=120_000, seed=1, bits=False)
    assert [bound for _, bound in bounds[1:]] == [bound for _, bound in result.looks]
    assert sum(EARLY_LOOK_ROUNDS) <= bounds[0][0] < 0.25 * 120_000 and 0.5 < bounds[0][1] < 1.0
    assert (result.epsilon_lower, result.tally, result.looks) == (
        unwatched.epsilon_lower,
        unwatched.tally,
        unwatched.looks,
    )
