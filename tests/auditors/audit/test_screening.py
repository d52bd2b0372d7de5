"""Tests of the first look at many pairs, with few runs of each."""

import numpy as np
import pytest

from dpwitness import Pair, Verdict, audit
from dpwitness.auditors.audit.pair_choice import score
from dpwitness.mechanisms import Records


def slow_leak(dataset, size, rng):
    """Epsilon is 1 on all pairs but those whose last record moves to the end of its range, where it
    is 9.
    """
    return np.clip(dataset, 0, 1).sum() + 8 * (dataset[-1] >= 10) + rng.laplace(0.0, 1.0, size)


@pytest.mark.slow
def test_few_runs_rank_the_worst_of_many_pairs():
    """Only 3 of 45 pairs can be tried. The leaking pair would be missed with probability below
    1e-6: the outputs are 9 scales apart.
    """
    result = audit(slow_leak, claim="pure:1", domain=Records(10, 0.0, 10.0), trials=4480, seed=1)
    assert (
        result.verdict is Verdict.VIOLATED and result.parameter_lower > 3 and result.trials <= 4480
    )
    assert "last" in result.pair.why and len(result.pairs) == 3
    assert any(
        "3 of 45 pairs were tried" in note and "a look at all" in note for note in result.notes
    )


def test_integers_that_may_be_labels_are_pointed_out():
    def label(dataset, size, rng):
        return [
            "abc"[int(dataset[0])] if rng.random() < 0.5 else "abc"[rng.integers(3)]
            for _ in range(size)
        ]

    options = {"claim": "pure:3", "trials": 2000, "trace": False}
    plain, categories = (
        audit(label, domain=Records(1, 0, 2, integer=True, categories=each), **options)
        for each in (False, True)
    )
    notes = [
        any('add "categories": true' in note for note in result.notes)
        for result in (plain, categories)
    ]
    assert notes == [True, False]


def test_a_pair_on_which_the_mechanism_fails_is_left_out():
    from dpwitness.core.protocols.mechanism import MechanismFailed

    def fails(dataset, size, rng):
        if (dataset == 5).all():
            raise MechanismFailed("no answer on equal records")
        return slow_leak(dataset, size, rng)

    result = audit(
        fails, claim="pure:1", domain=Records(10, 0.0, 10.0), trials=3000, seed=1, trace=False
    )
    assert result.verdict is Verdict.VIOLATED
    assert any("was left out: no answer on equal records" in note for note in result.notes)


@pytest.mark.parametrize("kind", ["shift", "atom", "structure"])
def test_the_score_orders_losses(kind):
    """With 40 outputs on each dataset, a large loss beats no loss in all of 50 repetitions; an
    overlap has probability below 1e-6.
    """
    rng = np.random.default_rng(0)
    for _ in range(50):
        same, base = rng.laplace(size=(40, 3)), rng.laplace(size=(40, 3))
        other = rng.laplace(size=(40, 3))
        if kind == "shift":
            other[:, 1] += 30
        elif kind == "atom":
            other[:, 1] = 0.0
        else:
            other[:, 0] = 1e12
        spread = np.ones(3)
        assert score(other, base, spread) > score(same, base, spread)


@pytest.mark.slow_cases("60000")
@pytest.mark.parametrize("trials", [4_000, 20_000, 60_000])
def test_the_choice_of_a_pair_leaves_runs_for_the_test(trials):
    """With 57 pairs, at least a fourth of the runs test the event."""

    def shifted(dataset, size, rng):
        return rng.laplace(scale=2.0, size=size) + dataset[0]

    pairs = [Pair(np.zeros((1, 1)), np.full((1, 1), (k + 1) / 57)) for k in range(57)]
    result = audit(shifted, claim="pure:1", pair=pairs, trials=trials, seed=1, trace=False)
    assert (sum(stage.tally.rounds for stage in result.stages) or result.tally.rounds) > trials / 4
