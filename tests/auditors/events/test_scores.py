"""Scores that a mechanism suggests or a user gives: found by events, recorded by witnesses, left
out where they are none.
"""

import numpy as np
import pytest

from dpwitness import InvalidArgument, Pair, Verdict, audit

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def parity_leaks(dataset, size, rng):
    """Twenty fair bits any nineteen of which are independent; whether their sum is odd tells the
    dataset: epsilon = log 4.
    """
    bits = rng.integers(0, 2, (size, 20))
    odd = rng.random(size) < (0.2 if dataset[0] else 0.8)
    bits[:, -1] = (bits[:, :-1].sum(axis=1) + odd) % 2
    return bits


def parity(outputs):
    return outputs.sum(axis=1) % 2


class Hides:
    """A score that looks at its batch only where many outputs come together: no trial sees it."""

    def __call__(self, outputs):
        return outputs if len(outputs) <= 64 else np.full(len(outputs), outputs.mean())


def test_a_score_that_looks_at_its_batch_later_ends_in_error_and_never_in_a_verdict():
    """The mean of a batch, all of one dataset, would certify any epsilon of a mechanism that keeps
    0.5.
    """
    scores = [("hides", Hides())]
    result = audit(
        lambda d, n, rng: rng.laplace(d[0], 2.0, n),
        claim="pure:1",
        pair=PAIR,
        trials=30_000,
        scores=scores,
    )
    assert (
        result.verdict is Verdict.ERROR
        and "score hides is not a function of each output alone" in result.notes[0]
    )


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (parity, "scores must be a list"),
        ([3], "scores must be callable"),
        ([parity, parity], "scores must have different names, got parity, parity"),
        ([("x", lambda: 0)], "scores must be callable with 1 arguments"),
    ],
)
def test_scores_are_checked(scores, message):
    with pytest.raises(InvalidArgument, match=message):
        audit(parity_leaks, claim="pure:1", pair=PAIR, trials=1000, scores=scores)
