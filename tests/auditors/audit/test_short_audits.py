"""Audits with a time budget for less than 1,000 runs: gross violations are found, and sound
mechanisms are not accused.
"""

import numpy as np
import pytest

from dpwitness import InvalidArgument, Pair, Verdict, audit
from dpwitness.auditors.audit import options
from dpwitness.auditors.search import coupled, few_runs
from dpwitness.auditors.workers import chunks, engine
from dpwitness.mechanisms import Records, Rows


class Clock:
    """Clock that only mechanisms advance, so that no test depends on the speed of the machine."""

    now = 0.0


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(Clock, "now", 0.0)
    for module in (options, engine):
        monkeypatch.setattr(module, "read_clock", lambda name: lambda: Clock.now)
    monkeypatch.setattr(chunks, "perf_counter", lambda: Clock.now)
    for module in (few_runs, coupled):
        monkeypatch.setattr(module, "monotonic", lambda: Clock.now)


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


@pytest.mark.parametrize(
    ("seconds", "function"),
    [(150, refuses_missing), (45, lambda d, size, rng: np.full(size, np.nansum(d)))],
)
def test_an_exception_or_the_lack_of_noise_is_a_violation_in_few_runs(seconds, function):
    """A right audit misses with probability below 1e-6: all of some 40 guesses are right."""
    found = audit(
        slow(function),
        claim="pure:1",
        domain=Records(3, missing=True, relation="add-remove"),
        seconds=seconds,
        seed=1,
        causes=False,
    )
    assert found.verdict is Verdict.VIOLATED and found.trials < 1000 and found.bit_level is None
    assert any("so few runs show gross violations only" in note for note in found.notes)


def test_a_sound_mechanism_is_not_accused_in_few_runs():
    """False-failure probability at most 0.01 for all seeds; here the seed is fixed."""
    found = audit(
        slow(noisy_sum),
        claim="pure:1",
        domain=Records(3, relation="add-remove"),
        seconds=55,
        seed=2,
    )
    assert (
        found.verdict is Verdict.NOT_REFUTED
        and 100 <= found.requested < 160
        and found.trials <= 1.3 * found.requested
    )


def rows_of_a_synthesizer(scale):
    """Return a mechanism whose output is a table of 8 rows around four noisy means; the noise is
    right for a scale of 1.
    """

    def synthesize(dataset, size, rng):
        means = np.nanmean(dataset) + rng.laplace(0.0, scale * 4 / 3, (size, 4))
        return list(means[:, None, :] + rng.normal(0.0, 1e-3, (size, 8, 4)))

    return synthesize


def one_of_many_numbers(scale):
    """Return a mechanism that returns 200 numbers, of which one depends on the data."""

    def numbers(dataset, size, rng):
        noise = rng.laplace(0.0, 1.0, (size, 200))
        noise[:, 37] = np.nansum(dataset) + scale * noise[:, 37]
        return noise

    return numbers


@pytest.mark.parametrize("function", [rows_of_a_synthesizer(1 / 150), one_of_many_numbers(1 / 30)])
def test_outputs_that_never_repeat_are_told_apart_by_thresholds_in_few_runs(function):
    """The noise is 150 or 30 times too small; exact outputs, which do not occur again, would be no
    event.
    """
    pair = Pair(np.zeros(3), np.array([1.0, 0.0, 0.0]))
    found = audit(
        slow(function), claim="pure:1", pair=pair, seconds=37, seed=1, trace=False, causes=False
    )
    assert found.verdict is Verdict.VIOLATED and found.requested < 125


@pytest.mark.parametrize("function", [rows_of_a_synthesizer(1.0), one_of_many_numbers(1.0)])
def test_sound_mechanisms_with_outputs_that_never_repeat_are_not_accused_in_few_runs(function):
    """False-failure probability at most 0.01 for all seeds; here the seed is fixed."""
    pair = Pair(np.zeros(3), np.array([1.0, 0.0, 0.0]))
    found = audit(
        slow(function), claim="pure:1", pair=pair, seconds=37, seed=2, trace=False, causes=False
    )
    assert found.verdict is Verdict.NOT_REFUTED


def mean_of_records(dataset, size, rng):
    if len(dataset) == 0:
        raise ZeroDivisionError("no records")
    return dataset.mean() + rng.laplace(0.0, 1.0, size)


def shared_noise(dataset, size, rng):
    return dataset.sum(axis=0) + rng.laplace(0.0, 2.0, (size, 1))


FEW_RUNS = {
    "an exception": (
        mean_of_records,
        "but raises ZeroDivisionError on D0 .one record against none",
    ),
    "no noise": (lambda d, size, rng: np.full(size, np.sum(d)), "two seeds give equal outputs"),
    "shared noise": (shared_noise, "numbers 0 and 1 of the output have the same noise"),
    "nothing": (noisy_sum, "or more$"),
}


@pytest.mark.parametrize("name", FEW_RUNS)
def test_a_refusal_lists_what_a_few_runs_show(name):
    function, shown = FEW_RUNS[name]
    domain = Rows(3, ((0.0, 1.0),) * 2, relation="add-remove")
    domain = domain if name == "shared noise" else Records(3, relation="add-remove")
    with pytest.raises(InvalidArgument, match=f"seconds=20 is too short.*{shown}"):
        audit(slow(function), claim="pure:1", domain=domain, seconds=20, trace=False)
    assert Clock.now < 20


def test_few_runs_choose_the_pair_of_a_slow_audit():
    domain = Rows(3, ((0.0, 1.0),) * 2, relation="add-remove")
    found = audit(
        slow(shared_noise), claim="pure:1", domain=domain, seconds=60, seed=1, causes=False
    )
    assert found.verdict is Verdict.VIOLATED and found.trials < 200
