"""Request of an audit: validated options, which the first steps of the audit complete; shares of
its runs for probes, low bits, pilot, training and test, and of its error probability for interim
looks; and the cost of a run, measured before an audit with a time budget.
"""

from __future__ import annotations

import inspect
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpwitness.auditors.events.learning import expected_certificate, learn
from dpwitness.auditors.events.outputs import Outputs, Score
from dpwitness.auditors.workers.descriptions import describe_target
from dpwitness.auditors.workers.engine import CLOCKS, collect, has_cpu_clock, is_remote, read_clock
from dpwitness.auditors.workers.rounds import Sides, Stage
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.protocols import FloatArray, MechanismFailed, name_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_one_of,
    require_positive,
    require_probability,
    require_run_options,
    require_type,
    short_repr,
)
from dpwitness.mechanisms.wrappers.programs.inside.target_runs import UnusableTarget, attributes_of
from dpwitness.mechanisms.wrappers.single_runs import PerRun

PROBE = 64  # rounds in a probe's chunk; a probe runs about four chunks
PILOT_SHARE = 0.2
SCREEN_SHARE = 0.25  # share of the runs for the first looks at more pairs than the pilot tries
# minimum number of runs per pair of an audit that looks for more than gross violations
MIN_RUNS_PER_PAIR = 1000
SHORT_PAIRS = 3  # number of pairs that audits with few runs try
TRAIN_VALUES = 2**23  # maximum number of values stored for training
LOOKS = (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
# share of alpha for all looks but the last together: early looks detect gross violations only
EARLY_ALPHA = 0.05
# share of alpha for each look before the last, and for one look before the test: at the end of the
# first event's test if the budget is small, otherwise during the training
LOOK_ALPHA_SHARE = EARLY_ALPHA / len(LOOKS)
LOOK_SHARES = {look: LOOK_ALPHA_SHARE if look < 1 else 1 - EARLY_ALPHA for look in LOOKS}
# rounds that train the event of the look during the training, and rounds that test it
EARLY_LOOK_ROUNDS = (2**12, 2**13)
TRAIN_ROUNDS = 2**18  # maximum number of rounds that train an event
# budget up to which the first test also trains a better event; above it, only if the event is rare
MAX_STAGED_BUDGET = 100_000
MIN_FIRST_TEST_ROUNDS = 500  # minimum number of rounds in such a first test
# number of guesses in the training outputs below which more outputs improve the choice of an event
RARE_GUESSES = 400.0


def tried_pairs(planned: int) -> int:
    """Return the maximum number of pairs that get a probe and pilots; each other pair gets a few
    runs only.
    """
    # each of more pairs gets 2000 runs, of which its probe and pilots take about 500
    return max(min(SHORT_PAIRS, planned // MIN_RUNS_PER_PAIR), planned // 2000)


def probe_chunk(planned: int, pairs: int) -> int:
    """Return the number of rounds in a probe's chunk; about four such chunks are run on
    each pair.
    """
    if planned < MIN_RUNS_PER_PAIR:
        return 8 if planned >= 256 else 4  # only a time budget allows for so few runs
    # smaller chunks where the probes would take more than 5 % of the runs
    return max(16, min(PROBE, int(0.05 / 4 * planned / pairs)))


def bit_rounds(budget: int, pairs: int) -> int:
    """Return the number of rounds of the low-bit audit, which runs only if outputs have
    low bits.
    """
    # leaks in the low bits are large: more rounds would only slow the audit
    return min(int(0.1 * budget), 2**16 * min(pairs, 4))


def training_rounds(budget: int, width: int, *, easy: bool = False) -> int:
    """Return the number of rounds, out of the budget, that train an event. `easy` reduces the
    number for the first of two events, if few outputs suffice to order the outputs by privacy loss.
    """
    share = (
        0.2
        if easy
        # falls with the fourth root of a large budget: more data improve tests more than events
        else 0.3 * min(1.0, 20_000 / max(budget, 1)) ** 0.25
    )
    return int(min(share * budget, TRAIN_ROUNDS, TRAIN_VALUES // width))


def is_staged(budget: int, width: int) -> bool:
    """Return whether an audit with this budget tests two events, unless its claim bounds a Renyi
    divergence.
    """
    return budget <= MAX_STAGED_BUDGET and training_rounds(budget, width) >= MIN_FIRST_TEST_ROUNDS


def chunk_size(rounds: int, width: int) -> int:
    """Return the number of rounds in a chunk, a power of two.

    Chunks are small enough that a slow mechanism soon finishes some, and that the outputs of a
    chunk take a few megabytes. The number does not depend on the speed of the mechanism, which
    determines only the number of chunks per task (`Pace`).
    """
    # about 512 chunks in a stage
    wanted = 2 ** int(math.log2(max(rounds / 512, 128)))
    return int(min(wanted, 2**19, max(256, 2 ** int(math.log2(2**21 / max(width, 1))))))


Progress = Callable[[int, int], None]

# violation that a sequential audit looks for by default, as a multiple of the claim's parameter
FIND = 1.1


@dataclass(frozen=True, slots=True, eq=False)
class AuditOptions:
    """Options of an audit, see `audit`. Stages replace options that they determine: `trials`,
    `scores`, `probe`, `width`, `claim`.
    """

    name: str
    claim: Claim
    mechanism: Any
    trials: int
    confidence: float
    seed: int
    executor: Executor | None
    time_limit: float
    progress: Progress | None
    target: Json | None
    stop: str = "never"
    bits: bool = False  # whether low bits are audited
    # of a sequential audit: the smallest violation that it looks for, as a multiple of the claim
    find: float | None = None
    seconds: float | None = None
    clock: str = "wall"  # of `engine.CLOCKS`: what `seconds` counts
    announce: Callable[[str], None] | None = None
    searched: Domain | None = None  # domain from which the pairs were taken
    scores: tuple[Score, ...] = ()  # usable scores
    probe: int = PROBE  # rounds in the chunk of each probe
    width: int = 1  # number of columns of the outputs
    # of the numbers of the tested pair from D0 to D1 under the same noise, as a traced run shows
    shift: FloatArray | None = None
    trace: bool = False  # whether traced runs order the pairs and explain the verdict
    # whether a violation is followed by separate tests of exceptions, repeated values and other
    # outputs
    causes: bool = False

    @property
    def alpha(self) -> float:
        """Error probability of each of the two verdicts."""
        return 1 - self.confidence

    @property
    def seeded(self) -> bool:
        """Whether the mechanism takes its randomness from a seed."""
        return bool(getattr(self.mechanism, "seeded", True))

    @property
    def score_columns(self) -> int:
        """Number of score columns, which come before the outputs' own columns."""
        return sum(len(score.keys) for score in self.scores)


def require_attributes(mechanism: Any) -> None:
    """Raise InvalidArgument if an attribute of a function, or of a mechanism of single runs, is
    invalid.

    Targets in worker processes are checked there by the same rules. Classes are not checked,
    because they may use these names for parameters.
    """
    if inspect.isfunction(mechanism) or isinstance(mechanism, PerRun):
        try:
            attributes_of(mechanism)
        except UnusableTarget as error:
            raise InvalidArgument(
                f"{getattr(mechanism, '__name__', 'mechanism')}: {error}"
            ) from None


def validated_options(
    mechanism: Any,
    claim: Claim,
    trials: int,
    confidence: float,
    seed: int,
    executor: Executor | None,
    name: str | None,
    time_limit: float = 300.0,
    progress: Progress | None = None,
    target: Json | None = None,
    **settings: Any,
) -> AuditOptions:
    """Return the options of an audit, with `settings` that are valid already. Raise InvalidArgument
    if another argument is invalid.
    """
    if not callable(getattr(mechanism, "sample", mechanism)) or isinstance(mechanism, type):
        raise InvalidArgument(
            "mechanism must be callable or have a method sample(dataset, size, rng), got "
            f"{short_repr(mechanism)}"
        )
    require_attributes(mechanism)
    trials = require_integer("trials", trials, "audit", least=LEAST, most=MOST_TRIALS)
    require_probability("confidence", confidence, "audit")
    seed = require_integer("seed", seed, "audit", least=0)
    if require_positive("time_limit", time_limit, "audit") > 1e9:
        raise InvalidArgument(f"audit: time_limit must be at most 1e9 seconds, got {time_limit!r}")
    require_run_options(executor, progress, name, "audit")
    require_type("target", target, dict, "be a dict", "audit", optional=True)
    return AuditOptions(
        name or name_of(mechanism),
        claim,
        mechanism,
        trials,
        confidence,
        seed,
        executor,
        float(time_limit),
        progress,
        target or describe_target(mechanism),
        **settings,
    )


def require_find(find: float | None, sequential: bool, extend_to: int | None) -> float | None:
    """Return the smallest violation that a sequential audit looks for; None for a fixed plan. Raise
    InvalidArgument if it is invalid.
    """
    if not sequential:
        if find is not None:
            raise InvalidArgument(
                f"audit: find={short_repr(find)} is for sequential audits: add "
                "sequential=True, or leave it out"
            )
        return None
    if extend_to is not None:
        raise InvalidArgument(
            f"audit: extend_to={extend_to} is for audits with a fixed plan: call a "
            "sequential audit again with its store"
        )
    if require_positive("find", FIND if find is None else find, "audit") <= 1:
        raise InvalidArgument(
            f"audit: find must be above 1, a multiple of the claim's parameter, got {find!r}"
        )
    return FIND if find is None else float(find)


LEAST = 1000  # minimum number of runs that may be requested for an audit
MOST_TRIALS = 10**12
# minimum number of runs of an audit with a time budget: these certify gross violations only, such
# as exceptions
FEWEST = 100
_MAX_BATCH = 2**14  # maximum number of rounds in a timed batch
_CHEAP_RUN = 2e-5  # seconds per run below which counting costs as much as running
# wall time of a batch, as a multiple of its minimum duration, after which a batch without CPU time
# is not repeated
_IDLE_FACTOR = 20
# maximum number of pairs on which runs are timed, to see whether some are much slower
_COMPARED = 8
# batches of a pair whose outputs are ranked, and of one that gets a few runs
_RANKING_BATCHES, _LOOK_BATCHES = 12, 6
# numbers in an output beyond which learning is timed even if runs are slow; numbers that are timed;
# and how many times as long learning takes as ranking
_WIDE, _TIMED_VALUES, _LEARNING_PER_RANKING = 64, 2**19, 5.0
_FITTED_ROWS = 30_000  # outputs beyond which learning takes hardly longer


@dataclass(frozen=True, slots=True)
class RunCost:
    """Measured cost of an audit's parts, in seconds: each batch of runs costs its start, and its
    runs.
    """

    run: float
    ranking: float  # of a pair, from `rows` outputs
    learning: float  # of an event, from `rows` outputs
    rows: int
    runs: int  # number of runs of the timing itself
    seconds: float  # duration of the timing itself
    start: float = 0.0  # of a batch on both datasets, such as objects that it builds once
    width: int = 1  # numbers in an output, which determine the size of a batch

    def on(self, seconds: float, runs: int, batches: int) -> RunCost:
        """Return the cost on a pair on which `runs` runs in some batches took `seconds`; the same
        cost if the time is too short to measure, or if counting costs as much as running.
        """
        ratio = 1.0
        expected = self.run * runs + self.start * batches
        if seconds >= max(0.1, _CHEAP_RUN * runs) and expected > 0:
            ratio = seconds / expected
        return replace(self, run=ratio * self.run, start=ratio * self.start, seconds=0.0)

    def time(self, trials: int, pairs: int) -> float:
        """Return the expected duration of an audit in seconds: runs, ranking of the pairs, and
        learning of the tested event.
        """
        pilot = (
            (pairs + min(pairs, 5)) * self.ranking * self._relative_cost(0.1 * trials / pairs)
            if pairs > 1
            else 0.0
        )
        return (
            trials * self.run
            + trials / chunk_size(trials, self.width) * self.start
            + pilot
            # learning of the tested event takes four times as long as the timed learning
            + self.learning * 4 * self._relative_cost(0.3 * trials)
        )

    def rankable(self, seconds: float) -> int:
        """Return the number of pairs whose outputs are ranked in a quarter of a time budget; no
        event is learned on the other pairs.
        """
        each = self.ranking + _RANKING_BATCHES * self.start
        return max(self._fewest_pairs, int(0.25 * seconds / each))

    def comparable(self, seconds: float) -> int:
        """Return the number of pairs that get a few runs in an eighth of a time budget."""
        each = max(_LOOK_BATCHES * self.start, 1e-9)
        return max(self._fewest_pairs, int(0.125 * seconds / each))

    @property
    def _fewest_pairs(self) -> int:
        """Number of pairs that are compared in any case."""
        return SHORT_PAIRS if self.start < self.ranking else 1

    def _relative_cost(self, rows: float) -> float:
        """Return the cost of learning from `rows` outputs, relative to the timed learning. Beyond
        the timed outputs it grows like a root of their number, or not at all for single numbers.
        """
        most = self.rows if self.width == 1 else max(self.rows, _FITTED_ROWS)
        ratio = min(rows, most) / self.rows
        return max(ratio, 0.05) if ratio < 1 else math.sqrt(ratio)

    def trials(self, seconds: float, pairs: int) -> int:
        """Return the number of runs that fit into a time budget, rounded down to three digits."""
        found = bisect_right(
            range(10**10), seconds - self.seconds, key=lambda trials: self.time(trials, pairs)
        )
        return found - found % int(10 ** max(0, len(str(found)) - 3))


def planned_seconds(seconds: float) -> float:
    """Return the part of a time budget that is planned; checks after the test take the rest, of
    which the start of new processes takes about a second.

    Examples
    --------
    >>> [round(planned_seconds(seconds), 2) for seconds in (1, 10, 100)]
    [0.8, 9.0, 92.0]
    """
    return seconds - max(0.08 * seconds, min(1.0, 0.2 * seconds))


def price(
    stage: Callable[[int], Stage],
    claim: Claim,
    executor: Executor,
    seconds: float | None,
    clock: str = "wall",
) -> RunCost:
    """Time batches of growing size until one takes long enough to be measured, for a budget of
    `seconds` if there is one.

    `stage` returns a stage of the given number of rounds in one chunk, with separate streams: timed
    rounds are not counted. All durations are those of `clock`.
    """
    now, workers = read_clock(clock), getattr(executor, "_max_workers", 1)
    start = now()
    sides, run_seconds, batch_start, runs = _time_batches(stage, executor, workers, seconds, clock)
    ranking = learning = 0.0
    width = sides[0].values.shape[1]
    # for an estimate, events of one number cost nothing
    if run_seconds < _CHEAP_RUN and (seconds is not None or width > 1):
        if seconds is None:  # an estimate is enough
            sides = [side.take(np.arange(min(len(side), 2**12))) for side in sides]
        # loads libraries
        learn(
            sides[0].take(np.arange(1)),
            sides[1].take(np.arange(1)),
            claim,
            alpha=0.01,
            rounds=10**6,
        )
        started = now()
        event = learn(sides[0], sides[1], claim, alpha=0.01, rounds=10**6).event
        learning, started = now() - started, now()
        expected_certificate(sides[0], sides[1], claim, alpha=0.01, rounds=10**6)
        ranking, started = now() - started, now()
        for side in sides:
            event.tabulate(side)
        run_seconds += (now() - started) / (
            sum(map(len, sides)) * (1 if clock == "cpu" else workers)
        )
    elif seconds is not None and width > _WIDE:
        few = np.arange(max(_TIMED_VALUES // width, 8))
        sides = [side.take(few[: len(side)]) for side in sides]
        started = now()
        expected_certificate(sides[0], sides[1], claim, alpha=0.01, rounds=10**6)
        ranking = now() - started
        learning = _LEARNING_PER_RANKING * ranking
    return RunCost(
        run_seconds,
        ranking or 0.02,
        learning or 0.1,
        max(sum(map(len, sides)), 1),
        runs,
        now() - start,
        batch_start,
        width,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _TimedBatch:
    """Batch of `size` runs of each dataset on each worker, timed on a clock and in wall time."""

    size: int
    sides: Sides  # outputs of the first worker; None for a batch that raised
    duration: float
    waited: float
    is_largest: bool

    @property
    def outputs(self) -> list[Outputs]:
        """Outputs of both datasets; fewer if a batch raised."""
        return [side for side in self.sides if side is not None]


def _growing_batches(
    stage: Callable[[int], Stage], executor: Executor, workers: int, clock: str
) -> Iterator[_TimedBatch]:
    """Yield timed batches, each four times as large as the one before. After a batch has raised,
    runs are made one at a time.
    """
    now, waited = read_clock(clock), read_clock("wall")
    size, single, most = 1, False, stage(_MAX_BATCH).chunk
    while True:
        batch = replace(stage(size), single=single, rounds=size * workers)
        started, since = now(), waited()
        futures = [executor.submit(batch.sample, index) for index in range(workers)]
        try:
            results = [collect(future, batch) for future in futures]
        finally:  # workers must not be closed while a worker is about to start
            wait(futures, timeout=batch.time_limit)
        timed = _TimedBatch(size, results[0], now() - started, waited() - since, size >= most)
        yield timed
        if len(timed.outputs) < 2:
            single = True
        else:
            size = min(4 * size, most)


def _time_batches(
    stage: Callable[[int], Stage],
    executor: Executor,
    workers: int,
    seconds: float | None,
    clock: str,
) -> tuple[list[Outputs], float, float, int]:
    """Return the outputs of the last timed batch of each dataset, the seconds of a run and of the
    start of a batch, and the number of runs of all batches.
    """
    least = 0.05 if seconds is None else min(max(0.02 * seconds, 0.02), 0.5)
    # for all batches, if further ones measure the fixed cost of a batch
    extra = 3.0 if seconds is None else 0.3 * seconds
    # The first call may load libraries and compile code, so that its duration is used only if it is
    # too slow to time again.
    most_first = 10.0 if seconds is None else seconds
    runs, before, spent, timed = 0, 0.0, 0.0, list[_TimedBatch]()
    for batch in _growing_batches(stage, executor, workers, clock):
        duration, runs = batch.duration, runs + batch.size * workers
        # four times the runs in less than three times the time: the fixed cost of a batch
        # dominates, such as starting a program. Batches of an audit have at least 128 rounds.
        can_grow = batch.size < 128 and not batch.is_largest
        spent += duration
        fixed_cost_dominates = can_grow and duration < 3 * before and spent + 2 * duration < extra
        # a mechanism that waits costs no CPU time
        idle = batch.waited > _IDLE_FACTOR * least and duration <= least
        long_enough = (duration > least or batch.is_largest) and not fixed_cost_dominates
        done = duration > most_first if batch.size == 1 else idle or long_enough
        if done and len(batch.outputs) == 2:
            break
        before = duration
        timed.append(batch)
    # the start of a batch is what small batches take beyond their runs; the first one warms up
    each = duration / batch.size
    starts = [_precise(other, batch) - other.size * each for other in timed[1:]]
    start = min(max(0.0, min(starts, default=0.0)), 0.9 * duration)
    start = start if start > 0.2 * duration else 0.0  # a small one may be chance
    return batch.outputs, (duration - start) / (batch.size * workers), start / workers, runs


def _precise(small: _TimedBatch, large: _TimedBatch) -> float:
    """Return the duration of a small batch; by the wall clock if CPU time, which may be counted in
    hundredths of a second, is too coarse.
    """
    busy = large.duration / max(large.waited, 1e-9)
    return small.duration if small.duration > 0.05 else min(busy * small.waited, 0.05)


def slowdown(
    stage: Callable[[int], Stage],
    pairs: Sequence[Pair],
    executor: Executor,
    seconds: float,
    clock: str,
) -> tuple[float, float]:
    """Return how many times as long a run takes on some pairs as on the first, in the mean and at
    most; (1, 1) if as long, or unknown.

    Runs on the first pair may be cheap because they raise at once, and a budget priced by them
    would last for hours.
    """
    limit = 0.03 * seconds / _COMPARED
    # CPU time is counted in hundredths of a second
    if len(pairs) < 2 or limit < 0.02:
        return 1.0, 1.0
    costs = [
        _cost_on(pairs[place], stage, executor, limit, clock)
        for place in np.linspace(0, len(pairs) - 1, min(_COMPARED, len(pairs))).astype(int)
    ]
    known = [cost for cost in costs if cost > 0]
    # costs of two pairs up to a factor of two count as equal
    if not known or max(known) <= 2.0 * costs[0]:
        return 1.0, 1.0
    first = max(costs[0], 1e-9)
    return float(np.mean(known)) / first, max(known) / first


def _cost_on(
    pair: Pair, stage: Callable[[int], Stage], executor: Executor, limit: float, clock: str
) -> float:
    """Return the duration of a run on a pair, from a batch that takes at least `limit` seconds; 0
    if the mechanism fails.
    """
    try:
        for batch in _growing_batches(
            lambda size: replace(stage(size), pair=pair), executor, 1, clock
        ):
            slow = batch.duration >= limit or batch.waited > _IDLE_FACTOR * limit
            if (slow or batch.is_largest) and len(batch.outputs) == 2:
                return batch.duration / batch.size
    except MechanismFailed:
        pass
    return 0.0


def require_seconds(
    seconds: float | None, trials: int | None, clock: str, executor: Executor | None, owner: str
) -> None:
    """Raise InvalidArgument unless `seconds` is None, or a valid time budget without `trials` on a
    clock that this process can read.
    """
    require_one_of("clock", clock, CLOCKS, owner)
    if seconds is None:
        if clock != "wall":
            raise InvalidArgument(
                f"{owner}: clock={clock!r} is the clock of a time budget: give seconds too"
            )
        return
    if clock == "cpu" and executor is not None and is_remote(executor):
        raise InvalidArgument(
            f"{owner}: clock='cpu' counts workers that this process starts, not those of "
            "this executor: use clock='wall'"
        )
    if clock == "cpu" and not has_cpu_clock():
        raise InvalidArgument(
            f"{owner}: clock='cpu' needs /proc, which this system lacks: use clock='wall'"
        )
    if trials is not None:
        raise InvalidArgument(
            f"{owner}: trials and seconds exclude each other, got "
            f"trials={short_repr(trials)} and seconds={short_repr(seconds)}"
        )
    if require_positive("seconds", seconds, owner) > 1e6:
        raise InvalidArgument(f"{owner}: seconds must be at most 1e6, got {seconds!r}")


def require_enough_trials(
    found: RunCost,
    trials: int,
    pairs: int,
    seconds: float,
    clock: str,
    owner: str,
    least: int = LEAST,
    shown: Sequence[str] = (),
) -> None:
    """Raise InvalidArgument if `trials`, the runs that fit into `seconds`, are fewer
    than `least`. The message lists what the runs so far have shown.
    """
    if trials < least:
        enough, each = 1.5 * (found.seconds + found.time(least, pairs)), format_duration(found.run)
        findings = f"; a few runs show: {'; '.join(shown)}" if shown else ""
        raise InvalidArgument(
            f"{owner}: seconds={seconds:g}{of_clock(clock)} is too short: {least:,} runs at {each} "
            "each and the choice of an event take about "
            f"{format_duration(enough)}; give seconds={math.ceil(enough)} or more{findings}"
        )


def of_clock(clock: str) -> str:
    """Return the words that follow a duration on this clock; empty for wall time."""
    return " of CPU time" if clock == "cpu" else ""


def format_duration(seconds: float) -> str:
    """Return a duration as text with a unit.

    Examples
    --------
    >>> format_duration(0.00012), format_duration(7.25), format_duration(4000)
    ('120 us', '7.2 s', '1 h 7 min')
    """
    for unit, size in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * size:
            return f"{seconds / size:.3g} {unit}"
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 99.5 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
