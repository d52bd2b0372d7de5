"""Noise that runs share, in a call or in a process, accuses no mechanism, on every path on which
counts become a certificate.
"""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from dpwitness import Pair, Verdict, audit, audit_outputs, replay
from dpwitness.auditors.audit.watch import WatchedTarget, watch
from dpwitness.auditors.statistics.anytime import log_dependence
from dpwitness.auditors.witnesses.store import open_store

sys.path.insert(0, str(Path(__file__).parent))
import kept_noise

PAIR = Pair(np.array([0.0]), np.array([1.0]))
SMALL = {"claim": "pure:1", "pair": PAIR, "bits": False, "trace": False}


def shared(dataset, size, rng):
    return rng.laplace(0.0, 5.0) + rng.laplace(0.0, 1.0, size)


def test_a_watch_does_not_accuse_noise_that_the_runs_of_a_call_share(tmp_path):
    for number in range(2):
        with open_store(tmp_path / f"{number}.db") as store:
            for _ in range(2):
                (state,) = watch(
                    [WatchedTarget(shared, "shared", "pure:1", PAIR)], store, trials=1500
                )
                assert state.result.verdict is not Verdict.VIOLATED


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("kind", ["cached_answer", "cached_offset", "cached_coin", "Attribute"])
def test_noise_that_a_process_keeps_is_an_error(kind, sequential):
    """A verdict without a violation is right too: the kept numbers may be alike on both
    datasets.
    """
    found = getattr(kept_noise, kind)
    settings = {"trials": 2000, "seed": 3} | ({"sequential": True} if sequential else {})
    for _ in range(2):
        mechanism = found() if isinstance(found, type) else found
        result = audit(mechanism, **SMALL, **settings)
        assert result.verdict in (Verdict.ERROR, Verdict.NOT_REFUTED, Verdict.INCONCLUSIVE), (
            result.headline()
        )
        kept_noise._noise.cache_clear()
        kept_noise._coins.clear()


def test_noise_that_a_closure_keeps_is_an_error():
    memo = {b"other": 0.0}

    def mechanism(dataset, size, rng):
        if dataset.tobytes() not in memo:
            memo[dataset.tobytes()] = 7.0 * np.random.default_rng().normal()
        return memo[dataset.tobytes()] + 0.1 * rng.laplace(size=size)

    mechanism.seeded = False
    result = audit(mechanism, **SMALL, trials=2000)
    assert result.verdict is Verdict.ERROR and "not independent" in result.notes[0]
    assert set(memo) == {b"other", PAIR.d0.tobytes(), PAIR.d1.tobytes()}  # restored


def test_a_replay_compares_with_fresh_processes():
    witness = audit(kept_noise.no_noise, **SMALL, trials=2000).witness
    numbers = iter(np.linspace(-1.0, 1.0, 2))
    kept = {}

    def mechanism(dataset, size, rng):
        kept.setdefault(dataset.tobytes(), None)
        if kept[dataset.tobytes()] is None:
            kept[dataset.tobytes()] = (
                float(dataset[0])
                if len(kept) < 3 and next(numbers, None) is not None
                else float(rng.integers(2))
            )
        return np.full(size, kept[dataset.tobytes()])

    assert replay(witness, mechanism=mechanism).verdict is not Verdict.VIOLATED
    assert replay(witness, mechanism=kept_noise.no_noise).verdict is Verdict.VIOLATED


def test_given_outputs_in_blocks_are_an_error():
    """The noise of a block changes the sign only, so that neighboring ranks are not correlated; the
    event is the magnitude.
    """
    rng = np.random.default_rng(1)
    sides = [
        np.repeat(rng.exponential(size=300) ** 2, 10) * rng.choice([-1, 1], 3000) + shift
        for shift in (0.0, 0.3)
    ]
    result = audit_outputs(*sides, "pure:0.1")
    assert result.verdict is Verdict.ERROR and "not independent" in result.notes[0]


def test_evidence_of_dependence_is_valid_for_small_groups():
    """E e <= 1 under independence: the mean of 800 is below 1.3 but for rare large values; 600 of
    600 against coins is overwhelming.
    """
    rng = np.random.default_rng(0)
    logs = []
    for _ in range(800):
        sizes, share = rng.integers(1, 9, (2, rng.integers(2, 30))), rng.uniform(0.01, 0.99, (2, 1))
        counts = rng.binomial(sizes, share)
        logs.append(
            log_dependence(
                *(np.column_stack([counts[side], sizes[side] - counts[side]]) for side in (0, 1))
            )
        )
    assert np.mean(np.exp(logs)) < 1.3 and max(logs) < math.log(800) + 5
    assert log_dependence([[600, 0], *([[4, 0], [0, 4]] * 3)]) > math.log(1e10)
    assert log_dependence([[600, 0], *([[4, 0]] * 8)]) < 0


def test_a_sequential_audit_does_not_accuse_noise_that_the_runs_of_a_call_share():
    """All three audits were VIOLATED. Each may be so with probability .01."""
    verdicts = [
        audit(shared, **SMALL, trials=20_000, seed=seed, sequential=True).verdict
        for seed in (1, 3, 4)
    ]
    assert Verdict.VIOLATED not in verdicts and Verdict.ERROR in verdicts
