"""A budget in seconds: fixed once by what runs cost, told beforehand, the same counts again by its number of runs; costs that grow."""

import numpy as np
import pytest

from dpwitness import InvalidArgument, Pair, Verdict, audit
from dpwitness.auditors.black_box import timing
from dpwitness.auditors.black_box.timing import Costs, RunCost, format_duration
from dpwitness.auditors.running import chunks

PAIR = Pair(np.array([0.0]), np.array([1.0]))
HASTE = {"claim": "pure:1", "pair": PAIR, "bits": False, "stop": "never"}


class Clock:
    """Clock of the measured costs that only mechanisms advance, so that no test depends on the speed of the machine."""

    now = 0.0


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(Clock, "now", 0.0)
    for module in (timing, chunks):
        monkeypatch.setattr(module, "perf_counter", lambda: Clock.now)


def slow(dataset, size, rng):
    """Half a millisecond a run."""
    Clock.now += 5e-4 * size
    return dataset[0] + rng.laplace(0.0, 2.0, size)


def test_a_budget_in_seconds_is_kept_told_and_repeated_by_its_runs():
    """2.5 s at half a millisecond are 5,000 runs, less those of the measurement and the time to learn an event."""
    told = []
    result = audit(slow, seconds=2.5, announce=told.append, seed=1, **HASTE)
    assert 3000 <= result.requested <= 4800
    assert len(told) == 1 and f"slow: {result.requested:,} runs at " in told[0] and told[0].endswith("expected")
    assert f"trials={result.requested} gives the same counts" in result.notes[0]
    again = audit(slow, trials=result.requested, seed=1, **HASTE)
    assert again.tally == result.tally and again.trials == result.trials
    assert again.notes == result.notes[1:]


def test_runs_and_time_are_told_for_a_number_of_runs_too_and_change_no_count():
    told = []
    silent, loud = (audit(slow, trials=1500, seed=1, announce=heard, **HASTE) for heard in (None, told.append))
    assert told[0].startswith("slow: 1,500 runs at ") and (silent.tally, silent.notes) == (loud.tally, loud.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0.3}, "seconds=0.3 is too short: 1,000 runs at"),
        ({"seconds": 1.0, "trials": 2000}, "trials and seconds exclude each other, got trials=2000 and seconds=1.0"),
        ({"seconds": -1.0}, "seconds must be positive and finite, got -1.0"),
        ({"seconds": 1e9}, "seconds must be at most 1e6"),
        ({"announce": 3}, "announce must be callable"),
    ],
)
def test_a_budget_that_is_none_is_refused(options, message):
    with pytest.raises(InvalidArgument, match=message):
        audit(slow, **HASTE, **options)


def test_a_time_comes_to_as_many_runs_as_fit_with_what_is_learned():
    price = RunCost(run=1e-3, ranking=0.02, learning=0.2, rows=1000, runs=100, seconds=0.5)
    for seconds, pairs in [(5.0, 1), (60.0, 1), (60.0, 40)]:
        trials = price.trials(seconds, pairs)
        assert 0.97 * (seconds - 0.5) < price.time(trials, pairs) <= seconds - 0.5
    assert price.trials(0.4, 1) == 0


class Hoarder:
    """Every run costs more than the one before it: the library remembers each."""

    def __init__(self, step):
        self.calls, self.step = 0, step

    def __call__(self, dataset, size, rng):
        self.calls += size
        Clock.now += size * (2e-5 + self.step * self.calls)
        return dataset[0] + rng.laplace(0.0, 2.0, size)


def test_a_cost_that_grows_is_told():
    result = audit(Hoarder(2e-8), trials=8000, **HASTE)
    assert result.verdict is Verdict.NOT_REFUTED
    assert any(note.startswith("the cost of a run grew from ") and note.endswith("keeps state") for note in result.notes)


def test_costs_that_do_not_grow_are_not_told():
    """Noise, a slow start, a pause in the middle, chunks of two sizes."""
    rng = np.random.default_rng(1)
    costs = Costs()
    for number in range(200):
        costs.add((0, 128, False), 128, 0.01 * (1 + rng.exponential()) * (5 if number < 10 or 90 < number < 110 else 1))
        costs.add((0, 2048 if number > 100 else 16, False), 2048 if number > 100 else 16, 0.1 if number > 100 else 0.001)
    assert costs.growth() == ""
    for number in range(40):
        costs.add((1, 128, False), 128, 0.01 * (1 + number))
    assert "grew from " in costs.growth()


def test_times_for_a_person():
    assert [format_duration(s) for s in (2e-8, 0.0123, 65.0, 3600.0, 90_000.0)] == ["20 ns", "12.3 ms", "65 s", "1 h 0 min", "25 h 0 min"]
