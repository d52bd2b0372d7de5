"""A budget in seconds: fixed once by what runs cost, told beforehand, the same counts again by its
number of runs; costs that grow.
"""

import re
from functools import partial

import numpy as np
import pytest

from dpwitness import InvalidArgument, Pair, Verdict, audit
from dpwitness.auditors.audit import options
from dpwitness.auditors.audit.options import cost_growth, format_duration
from dpwitness.auditors.workers import chunks, engine
from dpwitness.auditors.workers.engine import Inline, Phase, Stage
from dpwitness.commands.common import describe
from dpwitness.mechanisms import parse_claim
from dpwitness.reports.audit.document import result_json

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
    monkeypatch.setattr(
        options, "read_clock", lambda name: lambda: Clock.cpu if name == "cpu" else Clock.now
    )
    monkeypatch.setattr(chunks, "perf_counter", lambda: Clock.now)
    monkeypatch.setattr(engine, "cpu_seconds", lambda: Clock.cpu)


def slow(dataset, size, rng):
    """Half a millisecond a run."""
    Clock.now += 5e-4 * size
    return dataset[0] + rng.laplace(0.0, 2.0, size)


def test_a_budget_in_seconds_is_kept_told_and_repeated_by_its_runs():
    """2.5 s at half a millisecond are 5,000 runs, less those of the measurement and the time to
    learn an event.
    """
    told = []
    result = audit(slow, seconds=2.5, announce=told.append, seed=1, **HASTE)
    assert 3000 <= result.requested <= 4800
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
    assert quiet.requested == busy.requested >= 3000 and quiet.tally == busy.tally
    assert busy.notes[0].startswith(
        f"time budget 2.5 s of CPU time: {busy.requested:,} runs at 488 us of CPU time each"
    )
    shown = describe(busy, result_json(busy), next_step="")
    assert re.search(r"\n  time       [\d.]+ s, [\d.]+ CPU s\n", shown)
    assert busy.cpu_seconds > 0 and busy.to_json()["cpu_seconds"] == round(busy.cpu_seconds, 3)
    assert (
        audit(shared(0.5), name="m", seconds=2.5, seed=1, **HASTE).requested < 0.6 * quiet.requested
    )


def test_a_mechanism_that_waits_ends_the_measurement_of_cpu_time():
    """Without CPU time, batches would grow to 16,384 runs."""

    def waits(dataset, size, rng):
        Clock.now += 5e-3 * size
        return dataset[0] + rng.laplace(0.0, 2.0, size)

    stage = partial(Stage, waits, PAIR, 0, (0, 0, Phase.TIMING))
    executor = Inline()
    found = options.price(
        lambda size: stage(size, size, 600.0), parse_claim("pure:1"), executor, 10.0, "cpu"
    )
    executor.shutdown()
    assert found.runs <= 2000 and found.run == 0.0


def test_runs_and_time_are_told_for_a_number_of_runs_too_and_change_no_count():
    told = []
    silent, loud = (
        audit(slow, trials=1500, seed=1, announce=heard, **HASTE) for heard in (None, told.append)
    )
    assert told[0].startswith("slow: 1,500 runs at ") and (silent.tally, silent.notes) == (
        loud.tally,
        loud.notes,
    )


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
    assert any(
        note.startswith("the cost of a run grew from ") and note.endswith("keeps state")
        for note in result.notes
    )


def test_costs_that_do_not_grow_are_not_told():
    """Noise, a slow start, a pause in the middle, chunks of two sizes."""
    rng = np.random.default_rng(1)
    pauses = [5 if number < 10 or 90 < number < 110 else 1 for number in range(200)]
    steady = [(0.01 * (1 + rng.exponential()) * pause, 128) for pause in pauses]
    assert cost_growth([steady, [(0.001, 16)] * 101, [(0.1, 2048)] * 99]) == ""
    growing = [(0.01 * (1 + number), 128) for number in range(40)]
    assert "grew from " in cost_growth([steady, growing])


def test_times_for_a_person():
    assert [format_duration(s) for s in (2e-8, 0.0123, 65.0, 3600.0, 90_000.0)] == [
        "20 ns",
        "12.3 ms",
        "65 s",
        "1 h 0 min",
        "25 h 0 min",
    ]


@pytest.mark.parametrize(
    ("slow_from", "expected"), [(6.0, ((3 + 5 * 20) / 8, 20)), (100.0, (1, 1))]
)
def test_a_budget_counts_the_runs_of_slower_pairs(slow_from, expected):
    """Runs on the first pair take 1/1000 s of CPU time, or raise at once; on later ones a fiftieth
    of a second.
    """

    def mechanism(dataset, size, rng):
        if dataset[0] < 0:
            Clock.cpu += 1e-6
            raise ValueError("missing value")
        Clock.cpu += size * (2e-2 if dataset[0] > slow_from else 1e-3)
        return dataset[0] + rng.laplace(0.0, 2.0, size)

    pairs = [Pair(np.array([float(k)]), np.array([k + 0.5])) for k in range(20)]
    executor, stage = Inline(), partial(Stage, mechanism, pairs[0], 0, (0, 0, Phase.TIMING))

    def slowdown(chosen, seconds):
        return options.slowdown(
            lambda size: stage(size, size, 600.0), chosen, executor, seconds, "cpu"
        )

    assert slowdown(pairs, 40.0) == pytest.approx(expected)
    # too short to tell, and nothing to compare
    assert slowdown(pairs, 2.0) == slowdown(pairs[:1], 40.0) == (1, 1)
    raises = Pair(np.array([-1.0]), np.array([-2.0]))
    assert slowdown([raises, *pairs], 40.0)[0] >= 500
    executor.shutdown()


@pytest.mark.parametrize("slow", [0.0, 3.0])
def test_runs_are_planned_again_for_the_chosen_pair(slow):
    """Runs on one pair take twenty times as long as those on the others; the leak is on that pair,
    or on one of the fast ones.
    """

    def mechanism(dataset, size, rng):
        Clock.cpu += size * (2e-2 if np.floor(dataset[0]) == slow else 1e-3)
        return dataset[0] + rng.laplace(0.0, 0.5, size)

    pairs = [Pair(np.array([float(k)]), np.array([k + (0.9 if k == 3 else 0.1)])) for k in range(4)]
    result = audit(
        mechanism,
        claim="pure:1",
        pair=pairs,
        seconds=60.0,
        clock="cpu",
        seed=1,
        stop="never",
        name="m",
    )
    assert result.verdict is Verdict.VIOLATED and result.pair == pairs[3]
    assert 40 < result.cpu_seconds < 75, result.notes
    assert any("planned again for the chosen pair" in note for note in result.notes), result.notes


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
