"""Audits with a time budget for less than 1,000 runs: gross violations are found, and sound mechanisms are not accused."""

import numpy as np
import pytest

from dpwitness import Verdict, audit
from dpwitness.auditors.black_box import timing
from dpwitness.auditors.running import chunks
from dpwitness.mechanisms import Records


class Clock:
    """Clock that only mechanisms advance, so that no test depends on the speed of the machine."""

    now = 0.0


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(Clock, "now", 0.0)
    monkeypatch.setattr(timing, "read_clock", lambda name: lambda: Clock.now)
    monkeypatch.setattr(chunks, "perf_counter", lambda: Clock.now)


def slow(function):
    """Return a mechanism of which a run takes 0.3 s."""

    def mechanism(dataset, size, rng):
        Clock.now += 0.3 * size
        return function(dataset, size, rng)

    return mechanism


def noisy_sum(dataset, size, rng):
    return np.nansum(dataset) + rng.laplace(0.0, 1.0, size)


def refuses_missing(dataset, size, rng):
    if np.isnan(dataset).any():
        raise ValueError("missing")
    return noisy_sum(dataset, size, rng)


@pytest.mark.parametrize(("seconds", "function"), [(150, refuses_missing), (45, lambda d, size, rng: np.full(size, np.nansum(d)))])
def test_an_exception_or_the_lack_of_noise_is_a_violation_in_few_runs(seconds, function):
    """A right audit misses with probability below 1e-6: all of some 40 guesses are right."""
    found = audit(slow(function), claim="pure:1", domain=Records(3, missing=True, relation="add-remove"), seconds=seconds, seed=1)
    assert found.verdict is Verdict.VIOLATED and found.trials < 1000 and found.bit_level is None
    assert any("so few runs show gross violations only" in note for note in found.notes)


def test_a_sound_mechanism_is_not_accused_in_few_runs():
    """False-failure probability at most 0.01 for all seeds; here the seed is fixed."""
    found = audit(slow(noisy_sum), claim="pure:1", domain=Records(3, relation="add-remove"), seconds=45, seed=2)
    assert found.verdict is Verdict.NOT_REFUTED and 100 <= found.requested < 160 and found.trials <= 1.3 * found.requested
