"""Weights that features share, the priors of groups, and the choice of thresholds with
few outputs.
"""

import numpy as np
import pytest

from dpwitness.auditors.events import learning
from dpwitness.auditors.events.learning import learn
from dpwitness.auditors.events.outputs import TrainingSet, encode
from dpwitness.auditors.events.posterior import CertificateGoal
from dpwitness.auditors.events.scorers import fit_model
from dpwitness.benchmarks.families.members import FAMILIES, members
from dpwitness.mechanisms import PureDP


def fitted(one, zero, rng):
    """Return the scorer that is fitted to outputs of both sides."""
    return fit_model(
        TrainingSet.build(encode(np.concatenate([one, zero]), len(one) + len(zero)), len(one), rng)
    )


def test_many_weak_bits_share_one_weight():
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 2, 50)

    def draw(side, size):
        return np.where(
            rng.random((size, 50)) < 0.54, bits if side else 1 - bits, 1 - bits if side else bits
        )

    model = fitted(draw(1, 3000), draw(0, 3000), rng)
    test = np.concatenate([draw(1, 2000), draw(0, 2000)])
    assert (
        np.corrcoef(model.score(encode(test, 4000).matrix()), (test == bits).sum(axis=1))[0, 1]
        > 0.97
    )


@pytest.mark.parametrize("shift", [0.0, 0.2])
def test_columns_share_a_curve(shift):
    """A change of scale in four columns, or a shift of eight heavy-tailed columns: the exact loss
    is a sum of one function.
    """
    rng = np.random.default_rng(3)
    if shift:
        steps = np.repeat([shift, -shift], 4)
        one, zero, test = (
            rng.standard_t(2, (3000, 8)) + steps,
            rng.standard_t(2, (3000, 8)),
            rng.standard_t(2, (4000, 8)),
        )
        loss = 1.5 * (np.log1p(test**2 / 2) - np.log1p((test - steps) ** 2 / 2)).sum(axis=1)
    else:
        one, zero, test = (
            1.12 * rng.laplace(size=(3000, 4)),
            rng.laplace(size=(3000, 4)),
            rng.laplace(size=(4000, 4)),
        )
        loss = np.abs(test).sum(axis=1)
    assert np.corrcoef(fitted(one, zero, rng).score(encode(test, 4000).matrix()), loss)[0, 1] > 0.95


def test_few_outputs_in_an_order_borrow_strength():
    """Eleven outputs, whose log-odds rise by 0.1 each: guesses on one side only are never the other
    side's outputs.
    """
    rng = np.random.default_rng(4)
    steps = np.arange(11)
    one = rng.choice(steps, 4000, p=np.exp(0.05 * (steps - 5)) / np.exp(0.05 * (steps - 5)).sum())
    zero = 10 - rng.choice(
        steps, 4000, p=np.exp(0.05 * (steps - 5)) / np.exp(0.05 * (steps - 5)).sum()
    )
    columns = [np.column_stack([x, 10 - x]) for x in (one, zero)]
    event = learn(*(encode(x, 4000) for x in columns), PureDP(1.0), alpha=0.05, rounds=10_000).event
    guesses = event.guess(encode(np.column_stack([steps, 10 - steps]), 11))
    assert np.all(np.diff(guesses) >= 0) and guesses.any()


def test_outputs_that_occur_once_are_not_expected_again(monkeypatch):
    """An event of outputs that occur once certifies nothing, and is expected to: each half measures
    events of the other half.
    """
    # the last candidate, which guesses on each output by its own counts
    monkeypatch.setattr(learning, "_beats", lambda *_: True)
    rng = np.random.default_rng(5)
    rising = rng.integers(0, 2, 30)

    def draw(side, size):
        bits = rng.random((size, 30)) < np.where(rising == side, 0.65, 0.35)
        return encode((bits & (rng.random((size, 1)) < 0.22)).astype(np.int64), size)

    learned = learn(draw(1, 800), draw(0, 800), PureDP(1.0), alpha=0.05, rounds=10_000)
    guesses = np.array([learned.event.guess(draw(1, 5000)), -learned.event.guess(draw(0, 5000))])
    right, wrong = np.mean(guesses > 0, keepdims=True), np.mean(guesses < 0, keepdims=True)
    assert learned.method == "atoms"
    assert (
        learned.expected
        < CertificateGoal(PureDP(1.0), 0.05, 10_000).value(
            right[0], wrong[0], learned.event.directions
        )[0]
        + 0.5
    )


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_losses_of_families_are_exact(family):
    """E_Q[exp(L)] = E_P[exp(-L)] = 1, where the law's masses add to 1 on both sides."""
    for _, _, law in members(family, 1, 5):
        assert law.p.sum() == pytest.approx(1, abs=0.02) and law.q.sum() == pytest.approx(
            1, abs=0.02
        )
