"""The look during the training: its event, its rounds, its share of the error, and what it must not
change.
"""

import numpy as np
import pytest

from dpwitness import Pair, audit, parse_claim
from dpwitness.auditors.audit import probe
from dpwitness.auditors.audit.options import EARLY_LOOK_ROUNDS, LOOK_ALPHA_SHARE, LOOK_SHARES
from dpwitness.auditors.events.outputs import encode
from dpwitness.auditors.statistics.certificate import certified
from dpwitness.auditors.workers.chunks import Segment

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


def test_an_audit_of_two_events_looks_at_the_end_of_the_first():
    bounds, result = shown(trials=20_000)
    assert [bound for _, bound in bounds] == [bound for _, bound in result.looks]


class Runner:
    """Runner that keeps the bounds."""

    def __init__(self):
        self.bounds = []

    def show_bound(self, symbol, bound):
        self.bounds.append(bound)


class Options:
    alpha, claim = 0.01, parse_claim("pure:1")


def segments(seed, size=1024, width=1):
    rng = np.random.default_rng(seed)
    while True:
        ones = rng.binomial(size, 0.5)
        yield Segment(
            sides=[
                (
                    encode(1 + rng.laplace(size=(ones, width)), ones),
                    encode(rng.laplace(size=(size - ones, width)), size - ones),
                )
            ]
        )


def test_the_rounds_that_test_did_not_train():
    """The bound is that of the counts in the first 8,192 rounds after those that trained, at the
    share of the look.
    """
    runner, rows = Runner(), segments(3)
    look = probe.EarlyLook(runner, Options)
    for _ in range(4):
        look.add(next(rows), False)
    event, right, wrong = look._event, 0, 0
    for number in range(12):
        segment = next(rows)
        look.add(segment, False)
        one, zero = (event.tabulate(side) for side in segment.sides[0])
        if number < 8:
            right, wrong = right + int(one[1] + zero[2]), wrong + int(one[2] + zero[1])
    alpha = 0.01 * LOOK_ALPHA_SHARE
    assert runner.bounds == [
        pytest.approx(
            float(certified(Options.claim, right, wrong, 8 * 1024, alpha, event.directions))
        )
    ]


def test_rounds_that_were_run_again_do_not_certify():
    runner, rows = Runner(), segments(3)
    look = probe.EarlyLook(runner, Options)
    for number in range(16):
        segment = next(rows)
        segment.single = number == 6
        look.add(segment, False)
    assert runner.bounds == []
