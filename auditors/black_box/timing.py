"""What a run costs: measured before an audit, so that its budget may be a time, and watched while it goes on."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import Executor, wait
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from dpwitness.auditors.events.learning import expected_certificate, learn
from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.running.engine import Stage, collect
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_positive, shown

LEAST = 1000  # runs of an audit
_MOST = 10**10  # that a time may come to
_LARGEST = 2**14  # rounds of a timed batch
_SHARE = 0.02  # of the time that was asked for, for one timed batch
_BATCH = 128  # rounds, at least, of a batch in an audit: what each batch costs by itself is told in these
_LONGER = 3.0  # seconds that another batch may take to tell it, where no time was asked for; of a time a share of
_LONGER_SHARE = 0.1
_PATIENCE = 10.0  # seconds that a run may take and be timed twice, where no time was asked for
_CHEAP = 2e-5  # seconds a run below which what is counted costs as much as what is run
_LEARNT = 4  # times as long as the quick learning that is timed is that of an event to be tested
_GREW = 1.5  # times


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds per run, all workers together; seconds to rank a pair by `rows` outputs and to learn an event; runs and seconds of the timing."""

    run: float
    ranking: float
    learning: float
    rows: int
    runs: int
    seconds: float

    def time(self, trials: int, pairs: int) -> float:
        """Return the seconds that an audit is expected to take: runs, the ranking of the pairs, and the event that is tested."""
        pilot = (pairs + min(pairs, 5)) * self.ranking * self._share(0.1 * trials / pairs) if pairs > 1 else 0.0
        return trials * self.run + pilot + self.learning * _LEARNT * self._share(0.3 * trials)

    def _share(self, rows: float) -> float:
        """What learning from so many outputs costs, of what it cost when timed."""
        return min(1.0, max(rows / self.rows, 0.05))

    def trials(self, seconds: float, pairs: int) -> int:
        """Runs that fit into a time, to three digits."""
        found = bisect_right(range(_MOST), seconds - self.seconds, key=lambda trials: self.time(trials, pairs))
        return found - found % int(10 ** max(0, len(str(found)) - 3))


def price(stage: Callable[[int], Stage], claim: Claim, executor: Executor, seconds: float | None) -> Price:
    """Time batches of growing size until one takes long enough to tell.

    Parameters
    ----------
    stage : callable
        Stage of that many rounds in a chunk, with streams of its own: what is timed is not counted, and changes no count.
    claim, executor
        Of the audit.
    seconds : float, optional
        That were asked for.
    """
    enough = 0.05 if seconds is None else min(max(_SHARE * seconds, 0.02), 0.5)
    workers = getattr(executor, "_max_workers", 1)
    began, runs, size, each, single, took = perf_counter(), 0, 1, math.inf, False, 0.0
    longer = _LONGER if seconds is None else _LONGER_SHARE * seconds
    most = stage(_LARGEST).chunk
    sides: list[Outputs] = []
    while True:
        batch = replace(stage(size), rounds=size * workers, single=single)
        started = perf_counter()
        futures = [executor.submit(batch.sample, index) for index in range(workers)]
        try:
            done = [collect(future, batch) for future in futures]
        finally:  # whoever closes the workers next must not meet one that is about to start
            wait(futures, timeout=batch.time_limit)
        before, took = took, perf_counter() - started
        runs += size * workers
        if any(side is None for side in done[0]):  # a batch raises: from here on, one run at a time
            single = True
            continue
        sides, each = list(done[0]), took / (size * workers)
        # four times the runs in less than three times the time: that is the start of a batch, as of a program that is started for each
        starting = took < 3 * before and size < min(_BATCH, most) and 4 * took < longer
        if size > 1 and (took > enough or size >= most) and not starting:  # the first call of all may load and compile
            break
        if size == 1 and took > (_PATIENCE if seconds is None else seconds):  # so slow that a second look would be missed
            break
        size = min(4 * size, most)
    ranking = learning = 0.0
    if each < _CHEAP:
        learn(sides[0].take(np.arange(1)), sides[1].take(np.arange(1)), claim, alpha=0.01, rounds=10**6)  # loads libraries
        started = perf_counter()
        event = learn(sides[0], sides[1], claim, alpha=0.01, rounds=10**6).event
        learning, started = perf_counter() - started, perf_counter()
        expected_certificate(*sides, claim, alpha=0.01, rounds=10**6)
        ranking, started = perf_counter() - started, perf_counter()
        for side in sides:
            event.tabulate(side)
        each += (perf_counter() - started) / (sum(map(len, sides)) * workers)
    return Price(each, ranking or 0.02, learning or 0.1, max(sum(map(len, sides)), 1), runs, perf_counter() - began)


def require_seconds(seconds: float | None, trials: int | None, owner: str) -> None:
    """Raise InvalidArgument unless it is a time, and no number of runs is given beside it."""
    if seconds is None:
        return
    if trials is not None:
        raise InvalidArgument(f"{owner}: trials and seconds exclude each other, got trials={shown(trials)} and seconds={shown(seconds)}")
    if require_positive("seconds", seconds, owner) > 1e6:
        raise InvalidArgument(f"{owner}: seconds must be at most 1e6, got {seconds!r}")


def require_enough(found: Price, trials: int, pairs: int, seconds: float, owner: str) -> None:
    """Raise InvalidArgument if `trials`, the runs that fit into `seconds`, are fewer than an audit needs."""
    if trials < LEAST:
        takes, each = told_in_time(1.5 * (found.seconds + found.time(LEAST, pairs))), told_in_time(found.run)
        raise InvalidArgument(
            f"{owner}: seconds={seconds:g} is too short: {LEAST:,} runs at {each} each and the choice of an event take about {takes}; "
            f"give seconds={math.ceil(1.5 * (found.seconds + found.time(LEAST, pairs)))} or more"
        )


def told_in_time(seconds: float) -> str:
    """A time for a person.

    Examples
    --------
    >>> told_in_time(0.00012), told_in_time(7.25), told_in_time(4000)
    ('120 us', '7.2 s', '1 h 7 min')
    """
    for unit, size in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * size:
            return f"{seconds / size:.3g} {unit}"
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 99.5 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@dataclass(slots=True)
class Costs:
    """Seconds a run of all segments of an audit, in order: those of one pair, and of one size of chunk, may be compared."""

    each: dict[tuple[int, int, bool], list[float]] = field(default_factory=dict)
    seconds: dict[tuple[int, int, bool], float] = field(default_factory=dict)

    def add(self, of: tuple[int, int, bool], rounds: int, seconds: float) -> None:
        """Note what a segment of so many rounds took; `of` names its pair, its chunks and whether rounds were run one at a time."""
        self.each.setdefault(of, []).append(seconds / rounds)
        self.seconds[of] = self.seconds.get(of, 0.0) + seconds

    def growth(self) -> str:
        """A note where nearly all of the last segments cost far more than nearly all of the first; empty otherwise."""
        told = ""
        for of, series in self.each.items():
            quarter = len(series) // 4
            if quarter < 2 or self.seconds[of] < 0.2:
                continue
            first, last = np.array(series[:quarter]), np.array(series[-quarter:])
            if np.quantile(last, 0.1) > _GREW * np.quantile(first, 0.9):
                cost = [told_in_time(float(np.median(part))) for part in (first, last)]
                told = f"the cost of a run grew from {cost[0]} to {cost[1]} during the audit: the mechanism, or its library, keeps state"
        return told
