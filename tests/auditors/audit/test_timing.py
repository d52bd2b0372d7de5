"""A budget in seconds: fixed once by what runs cost, told beforehand, the same counts again by its
number of runs.
"""

import re

import numpy as np
import pytest
from scipy.stats import binom

from dpwitness import InvalidArgument, Pair, Verdict, audit
from dpwitness.auditors.audit import options
from dpwitness.auditors.workers import chunks, engine
from dpwitness.commands.common import describe
from dpwitness.reports.document import result_json

PAIR = Pair(np.array([0.0]), np.array([1.0]))
HASTE = {"claim": "pure:1", "pair": PAIR, "bits": False, "stop": "never"}


class Clock:
    """Clock of the measured costs that only mechanisms advance, so that no test depends on the
    speed of the machine.
    """

    now = cpu = 0.0


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(Clock, "now", 0.0)
    monkeypatch.setattr(Clock, "cpu", 0.0)
    for module in (options, engine):
        monkeypatch.setattr(
            module, "read_clock", lambda name: lambda: Clock.cpu if name == "cpu" else Clock.now
        )
    monkeypatch.setattr(chunks, "perf_counter", lambda: Clock.now)
    monkeypatch.setattr(engine, "cpu_seconds", lambda: Clock.cpu)


def slow(dataset, size, rng):
    """Half a millisecond a run."""
    Clock.now += 5e-4 * size
    return dataset[0] + rng.laplace(0.0, 2.0, size)


def test_a_budget_in_seconds_is_kept_told_and_repeated_by_its_runs():
    """2 of 2.5 s at half a millisecond are 4,000 runs, less those of the measurement and the time to
    learn an event.
    """
    told = []
    result = audit(slow, seconds=2.5, announce=told.append, seed=1, **HASTE)
    assert 2500 <= result.requested <= 4000
    assert (
        len(told) == 1
        and f"slow: {result.requested:,} runs at " in told[0]
        and told[0].endswith("expected")
    )
    assert f"trials={result.requested} gives the same counts" in result.notes[0]
    again = audit(slow, trials=result.requested, seed=1, **HASTE)
    assert again.tally == result.tally and again.trials == result.trials
    assert again.notes == result.notes[1:]


def test_a_budget_of_cpu_time_gives_the_same_number_of_runs_on_a_busy_machine():
    """A run takes 1/2048 s of CPU time, whatever the wall time of a run is."""

    def shared(share):
        def mechanism(dataset, size, rng):
            Clock.cpu += size / 2048
            Clock.now += size / 2048 / share
            return dataset[0] + rng.laplace(0.0, 2.0, size)

        return mechanism

    quiet, busy = (
        audit(shared(share), name="m", seconds=2.5, clock="cpu", seed=1, **HASTE)
        for share in (1.0, 0.5)
    )
    assert quiet.requested == busy.requested >= 2500 and quiet.tally == busy.tally
    assert busy.notes[0].startswith(
        f"time budget 2.5 s of CPU time: {busy.requested:,} runs at 488 us of CPU time each"
    )
    shown = describe(busy, result_json(busy), False, "", "", every=True)
    assert re.search(r"\n  time       [\d.]+ s, [\d.]+ CPU s\n", shown)
    assert busy.cpu_seconds > 0 and busy.to_json()["cpu_seconds"] == round(busy.cpu_seconds, 3)
    assert (
        audit(shared(0.5), name="m", seconds=2.5, seed=1, **HASTE).requested < 0.6 * quiet.requested
    )


def slowing(noise, factor=6):
    """Return a mechanism whose runs take `factor` times as long from the test on."""
    calls = []

    def mechanism(dataset, size, rng):
        calls.append(size)
        Clock.now += 5e-4 * size * (factor if sum(calls) > 1600 else 1)
        return noise(dataset[0], size, rng)

    return mechanism


def laplace(scale):
    return lambda center, size, rng: center + rng.laplace(0.0, scale, size)


@pytest.mark.parametrize("scale", [2.0, 0.4])
def test_a_test_ends_with_the_time_and_uses_all_counts(scale):
    began = Clock.now
    result = audit(slowing(laplace(scale)), seconds=2.5, seed=1, **HASTE)
    assert Clock.now - began <= 1.1 * 2.5 + 0.4  # and one batch
    assert any(note.startswith("the time was over") for note in result.notes)
    assert result.verdict is (Verdict.VIOLATED if scale < 1 else Verdict.NOT_REFUTED)
    assert result.looks[-1][0] == result.trials < result.requested


@pytest.mark.slow
def test_a_test_that_ends_with_the_time_errs_at_most_as_stated():
    """The claim holds with equality, and one audit in five may refute it."""

    def refutes(seed):
        result = audit(slowing(laplace(1.0)), seconds=2.5, seed=seed, confidence=0.8, **HASTE)
        assert any(note.startswith("the time was over") for note in result.notes)
        return result.verdict is Verdict.VIOLATED

    audits = 200
    assert sum(map(refutes, range(audits))) <= binom.ppf(1 - 1e-6, audits, 0.2)


def test_causes_that_no_time_is_left_for_are_left_out():
    def noise(center, size, rng):
        return np.where(rng.random(size) < 0.3, 7.0, center + rng.laplace(0.0, 0.3, size))

    result = audit(slowing(noise, factor=12), seconds=2.5, seed=1, **HASTE)
    assert result.verdict is Verdict.VIOLATED and not result.causes
    assert any(note.startswith("no time was left to test the parts") for note in result.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0.05}, "seconds=0.05 is too short: 100 runs at"),
        (
            {"seconds": 1.0, "trials": 2000},
            "trials and seconds exclude each other, got trials=2000 and seconds=1.0",
        ),
        ({"seconds": -1.0}, "seconds must be positive and finite, got -1.0"),
        ({"seconds": 1e9}, "seconds must be at most 1e6"),
        ({"seconds": 1.0, "clock": "sun"}, "clock must be one of 'wall', 'cpu', got 'sun'"),
        ({"clock": "cpu"}, "clock='cpu' is the clock of a time budget: give seconds too"),
        ({"announce": 3}, "announce must be callable"),
    ],
)
def test_a_budget_that_is_none_is_refused(options, message):
    with pytest.raises(InvalidArgument, match=message):
        audit(slow, **HASTE, **options)


@pytest.mark.slow
def test_an_interrupted_audit_keeps_the_runs_that_were_planned_again(tmp_path):
    def mechanism(dataset, size, rng):
        Clock.cpu += size * (2e-2 if np.floor(dataset[0]) == 0 else 1e-3)
        return dataset[0] + rng.laplace(0.0, 0.5, size)

    def stop(done, planned):
        plans.append(planned)
        if done > 0.7 * planned and len(set(plans)) > 1:
            raise KeyboardInterrupt

    plans = []
    pairs = [Pair(np.array([float(k)]), np.array([k + (0.9 if k == 3 else 0.1)])) for k in range(4)]
    options = {
        "claim": "pure:1",
        "pair": pairs,
        "seconds": 60.0,
        "clock": "cpu",
        "stop": "never",
        "name": "m",
        "store": tmp_path / "s.db",
    }
    first = audit(mechanism, progress=stop, **options)
    again = audit(mechanism, **options)
    assert first.verdict is Verdict.INCONCLUSIVE and plans[-1] > plans[0]
    assert (
        again.requested == plans[-1]
        and again.trials > first.trials
        and again.verdict is Verdict.VIOLATED
    )
