"""Search by coupled runs: pairs on which the output of a mechanism moves further than on the pairs
of the catalog.

Two **coupled** runs have the same randomness, one on each dataset. Additive noise cancels in the
difference of their outputs, so two runs show what an audit needs thousands for: how far a pair
moves the output, in units of the noise. The search scores thousands of pairs in this way. It draws
them from the values that the code itself suggests (its constants, numbers of rows among them), from
boundaries of types and of the calendar, and from rows that repeat; most later pairs are random
changes of the best, and of those on which the user's own code takes a branch for the first time.

A score only ranks: it takes one or a few seeds, and no test counts its runs. A pair that moves the
output no further than the catalog does is not suggested.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from time import monotonic, process_time
from types import FrameType
from typing import Any

import numpy as np

from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.search.drafts import Draft, Drafts
from dpwitness.auditors.search.maximize import shrunk
from dpwitness.auditors.workers.fresh_processes import is_own
from dpwitness.auditors.workers.rounds import Stage, current_lock, run_side, stream, task_lock
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import Domain
from dpwitness.core.domains.records import Tabular
from dpwitness.core.protocols import FloatArray, ForeignMechanism
from dpwitness.mechanisms.wrappers.recording import global_generators

FEWEST_PAIRS = 50  # a search of fewer pairs would find nothing
MOST_PAIRS = 4000
_SUGGESTED = 3
_PARENTS = 12  # drafts of a kind that are kept, to be changed into later drafts
_MORE_SEEDS = 4  # seeds that confirm a score
_SPREAD_RUNS = 24  # runs on a dataset that give the spread of each number
_FEWEST_RUNS = 6  # of these, those with the most frequent structure
_ALIGNED = 8  # pairs of the catalog on which the difference is compared under two seeds
# what is hardly chance in so many runs: a log-ratio of the frequencies of a structure, the part of
# a log-ratio of spreads that may be, and the standard errors of a shift that may be
_RARER, _CHANCE_RATIO, _CHANCE_ERRORS = 1.5, 0.6, 2.0

NUMBER, STRUCTURE, EXACT = range(3)  # kinds of differences: see `CoupledRuns.difference`


def upper_median(ordered: Sequence[float]) -> float:
    """Return the upper median of numbers in order."""
    return ordered[len(ordered) // 2]


class _Branches:
    """Steps from line to line that runs take in a user's own code, outside of libraries."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int, int]] = set()
        self.taken: set[tuple[str, int, int]] = set()  # in the last block
        self._own: dict[str | None, bool] = {}  # by name of a module

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Collect the steps of the block, unless a debugger or another tool watches this thread."""
        self.taken = set()
        if sys.gettrace() is not None:
            yield
            return
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(None)

    def new(self) -> bool:
        """Return whether the last block took steps that none before it took, and remember them."""
        found = not self.taken <= self.seen
        self.seen |= self.taken
        return found

    def _entered(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        module = frame.f_globals.get("__name__")
        own = self._own.get(module)
        if own is None:
            own = self._own[module] = is_own(module)
        if not own:  # most calls
            return None
        file, last, taken = frame.f_code.co_filename, frame.f_lineno, self.taken

        def step(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
            nonlocal last
            line = frame.f_lineno
            taken.add((file, last, line))
            last = line
            return step

        return step


class CoupledRuns:
    """Coupled runs of a mechanism, and the spread of each number of its outputs.

    Coupled outputs are *aligned* if all seeds move them alike. Otherwise the noise depends on the
    data, in its size or in its number of draws, and does not cancel: a difference of two runs would
    rank this noise. Then the means and the spreads of several runs are compared.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage, self.runs, self.branches = stage, 0, _Branches()
        self.counts_left = 0  # pairs whose structures are counted
        self.aligned = True
        self._moved = self._misaligned = 0  # pairs that were checked
        # the worker of a target seeds the global generators itself
        self.seeding = not isinstance(getattr(stage.run, "__self__", None), ForeignMechanism)
        self._spreads: dict[float, FloatArray] = {}

    def output(self, dataset: Any, seed: int, size: int = 1) -> Outputs:
        """Return the outputs of `size` runs on a dataset with the randomness of number `seed`."""
        rng = stream(self.stage.seed, *self.stage.key, seed)
        if self.seeding:
            global_generators.seed(global_generators.words_of(rng))
        self.runs += size
        return run_side(self.stage.run, dataset, size, rng)

    def duration(self, dataset: Any, now: Callable[[], float] = monotonic) -> float:
        """Return the shorter duration of two runs: the first may load libraries."""
        times = [now()]
        for _ in range(2):
            self.output(dataset, 0)
            times.append(now())
        return min(times[1] - times[0], times[2] - times[1])

    def repeats(self, dataset: Any) -> bool:
        """Return whether runs with the same randomness agree."""
        first, again = (self.output(dataset, 0, 4) for _ in range(2))
        return first.codes.tolist() == again.codes.tolist() and np.array_equal(
            first.values, again.values, equal_nan=True
        )

    def difference(self, d0: Any, d1: Any, seed: int) -> tuple[int, float]:
        """Return the kind and the size of the difference of coupled outputs.

        Kinds are numbers that move, by their Euclidean length in units of their spread; another
        structure; and numbers that move although they have no noise.
        """
        if not self.aligned:
            return self._of_several(d0, d1, seed)
        with self.branches.watched():
            one = self.output(d1, seed)
        zero = self.output(d0, seed)
        moved = _change(one, zero)
        if moved is None:
            return STRUCTURE, 1.0
        if not moved.any():
            return NUMBER, 0.0
        code, moved = float(one.codes[0]), np.abs(moved)
        spread = self._spreads.get(code)
        if spread is None or len(spread) != len(moved):
            spread = self._measured(d0, code, len(moved))
        if ((moved > 0) & (spread == 0)).any():
            for dataset in (d1, d0):
                spread = np.maximum(spread, self._measured(dataset, code, len(moved)))
        self._spreads[code] = spread
        if ((moved > 0) & (spread == 0)).any():
            return EXACT, 1.0
        return NUMBER, _length(moved, spread)

    def _of_several(self, d0: Any, d1: Any, seed: int) -> tuple[int, float]:
        """Return the kind and the size of the difference of several runs on each dataset: of the
        frequencies of structures if one is far rarer on a dataset, otherwise of the means and of
        the spreads of each number, beyond chance.
        """
        with self.branches.watched():
            one = self.output(d1, seed, _SPREAD_RUNS)
        zero = self.output(d0, seed, _SPREAD_RUNS)
        rarer = _log_ratio(one.codes, zero.codes)
        codes, counts = np.unique(zero.codes, return_counts=True)
        common = codes[counts.argmax()]
        sides = [side.values[side.codes == common] for side in (one, zero)]
        if rarer > _RARER or min(map(len, sides)) < _FEWEST_RUNS:
            return STRUCTURE, rarer
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            spreads = np.array([_spread(side) for side in sides])
            shift = np.abs(sides[0].mean(axis=0) - sides[1].mean(axis=0))
            if ((shift > 0) & (spreads == 0).all(axis=0)).any():
                return EXACT, 1.0
            error = np.sqrt(sum(side.var(axis=0) / len(side) for side in sides))
            least = np.where(spreads.min(axis=0) > 0, spreads.min(axis=0), spreads.max(axis=0))
            ratio = np.abs(np.log(spreads[0] / spreads[1]))
            wider = np.where(np.isfinite(ratio), np.maximum(ratio - _CHANCE_RATIO, 0.0), 0.0)
            beyond = np.maximum(shift - _CHANCE_ERRORS * error, 0.0)
        return NUMBER, _length(beyond, least) + _length(wider, np.ones_like(wider))

    def check_alignment(self, d0: Any, d1: Any, seed: int) -> None:
        """Compare the difference under this seed with that under another one. Outputs are not
        aligned if the two disagree on a fifth of the pairs that move the output.
        """
        moves = [
            _change(self.output(d1, each), self.output(d0, each))
            for each in (seed, seed + _MORE_SEEDS)
        ]
        first, again = (np.zeros(0) if moved is None else moved for moved in moves)
        if first.shape != again.shape or not (first.any() or again.any()):
            return
        with np.errstate(invalid="ignore"):
            apart = np.nan_to_num(np.abs(first - again), posinf=0.0).max()
            most = np.nan_to_num(np.abs(first), posinf=0.0).max()
        self._moved += 1
        self._misaligned += bool(apart > 0.01 * most)
        self.aligned = self._misaligned < max(3, 0.2 * self._moved)

    def scored(self, d0: Any, d1: Any, seed: int) -> tuple[int, float]:
        """Return the kind and the size of a difference. The size of a difference in structure takes
        many runs, and is 0 once these are spent.
        """
        kind, size = self.difference(d0, d1, seed)
        if kind == STRUCTURE and self.aligned:
            self.counts_left -= 1
            size = self.structures(d0, d1, seed, _SPREAD_RUNS) if self.counts_left >= 0 else 0.0
        return kind, size

    def structures(self, d0: Any, d1: Any, seed: int, size: int) -> float:
        """Return the largest log-ratio of the frequencies of a structure in `size` outputs on each
        dataset.
        """
        return _log_ratio(*(self.output(dataset, seed, size).codes for dataset in (d1, d0)))

    def sizes(self, pair: Pair, kind: int) -> list[float]:
        """Return the differences of a kind over some seeds in order; of structures, the size in
        more runs.
        """
        if kind == STRUCTURE:
            return [self.structures(pair.d0, pair.d1, 3, 2 * _SPREAD_RUNS)]
        found = [self.difference(pair.d0, pair.d1, 3 + k) for k in range(_MORE_SEEDS)]
        return sorted(size if k == kind else 0.0 for k, size in found)

    def typical(self, pair: Pair, kind: int) -> float:
        """Return the upper median of the differences of a kind over some seeds."""
        return upper_median(self.sizes(pair, kind))

    def _measured(self, dataset: Any, code: float, width: int) -> FloatArray:
        """Return the mean absolute deviation of each number over some runs on a dataset."""
        found = self.output(dataset, 1, _SPREAD_RUNS)
        rows = found.values[found.codes == code][:, :width]
        if len(rows) < 3 or rows.shape[1] < width:
            return np.zeros(width)
        return _spread(rows)


def _change(one: Outputs, zero: Outputs) -> FloatArray | None:
    """Return the change of the numbers of the first outputs; None if their structures differ."""
    if one.codes[0] != zero.codes[0] or one.values.shape != zero.values.shape:
        return None
    a, b = one.values[0], zero.values[0]
    with np.errstate(invalid="ignore", over="ignore"):
        moved = a - b
    moved[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    moved[np.isnan(moved)] = math.inf
    return np.asarray(moved)


def _spread(rows: FloatArray) -> FloatArray:
    """Return the mean absolute deviation of each number."""
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.mean(np.abs(rows - np.median(rows, axis=0)), axis=0)
    return np.asarray(np.nan_to_num(spread, nan=0.0, posinf=1e300))


def _length(moved: FloatArray, spread: FloatArray) -> float:
    """Return the Euclidean length of a change, in units of the spread of each number."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        size = np.linalg.norm(np.where(moved > 0, moved / spread, 0.0))
    return float(np.nan_to_num(size, nan=0.0, posinf=1e300))


def _log_ratio(ones: FloatArray, zeros: FloatArray) -> float:
    """Return the largest log-ratio of the frequencies of a structure."""
    codes = np.unique(np.concatenate([ones, zeros]))
    one, zero = ((side[:, None] == codes).sum(axis=0) + 0.5 for side in (ones, zeros))
    return float(np.abs(np.log(one / zero)).max())


@task_lock()
def coupled_pairs(
    stage: Stage,
    domain: Domain,
    constants: Sequence[Any],
    known: Sequence[Pair],
    pairs: int,
    seconds: float,
    clock: str = "wall",
) -> tuple[list[Pair], bool]:
    """Return pairs of a domain of tables or texts on which coupled outputs differ more than on
    known pairs.

    Parameters
    ----------
    stage : Stage
        The mechanism, and the root seed and key of its randomness.
    domain : Domain
        The datasets. Other domains than tables, rows, records and texts have no suggestions.
    constants : sequence
        Numbers and texts in the code of the mechanism.
    known : sequence of Pair
        The pairs of the catalog.
    pairs : int
        Number of pairs to score.
    seconds : float
        Limit of the duration.
    clock : {"wall", "cpu"}
        Clock of this limit; wall time for a mechanism in another process.

    Returns
    -------
    list of Pair
        At most three pairs, those that differ most first.
    bool
        Whether the limit of the duration ended the search.
    """
    drafted = isinstance(domain, Tabular) or hasattr(domain, "data_columns")
    if not drafted or pairs < FEWEST_PAIRS:
        return [], False
    runs = CoupledRuns(stage)
    now = process_time if clock == "cpu" and runs.seeding else monotonic
    end = now() + seconds
    # as many runs as one for each of `pairs`; for the catalog and for the search
    runs.counts_left = counts = max(pairs // _SPREAD_RUNS, 8)
    drafts = Drafts(domain, constants, stream(stage.seed, *stage.key))
    with current_lock().seeding(), global_generators.seeded([0, 0, 0, 0]):
        if runs.duration(known[0].d0, now) * 2 * FEWEST_PAIRS > seconds:
            return [], True
        if not runs.repeats(known[0].d0):
            return [], False
        for pair in known[:_ALIGNED]:
            runs.check_alignment(pair.d0, pair.d1, 2)
        least = _of_catalog(runs, known, lambda: now() > end)
        runs.counts_left = counts
        best: dict[int, list[tuple[float, Draft]]] = {}  # by kind, with the size of the difference
        branching: list[Draft] = []  # drafts that take a branch first
        for number in range(pairs):
            if now() > end:
                break
            parents = [draft for kept in best.values() for _, draft in kept] + branching
            fresh = not parents or number < pairs // 3 or number % 3 == 0
            draft = (
                drafts.draft()
                if fresh
                else drafts.changed(parents[int(drafts.rng.integers(len(parents)))])
            )
            sides, seed = drafts.sides(draft)[:2], 2 + number % _MORE_SEEDS
            if runs.aligned and number % 3 == 1:
                runs.check_alignment(*sides, seed)
                if not runs.aligned:  # what was found so far may be noise
                    best.clear()
                    least = _of_catalog(runs, known, lambda: now() > end)
            kind, size = runs.scored(*sides, seed)
            kept = best.setdefault(kind, [])
            # only a draft that leads is checked here: this takes longer than the runs
            if size > (kept[0][0] if kept else 0.0) and drafts.pair(draft) is None:
                continue
            kept.extend([(size, draft)] if size > 0 else [])
            kept.sort(key=lambda each: -each[0])
            del kept[_PARENTS:]
            branching.extend([draft] if runs.branches.new() else [])
            del branching[:-_PARENTS]
        found = [
            _simplest(runs, domain, pair, kind, 0.9 * size, lambda: now() > end + seconds / 4)
            for pair, kind, size in _suggestions(runs, drafts, best, least)
        ]
        return found, now() > end


def _of_catalog(
    runs: CoupledRuns, known: Sequence[Pair], is_late: Callable[[], bool]
) -> dict[int, float]:
    """Return the largest difference of each kind on the pairs of the catalog."""
    least = dict.fromkeys((NUMBER, STRUCTURE, EXACT), 0.0)
    for pair in known[:40]:
        if is_late():
            break
        kind, size = runs.scored(pair.d0, pair.d1, 2)
        runs.branches.new()
        if size > least[kind]:
            steady = kind != STRUCTURE and runs.aligned
            least[kind] = size if steady else max(least[kind], runs.typical(pair, kind))
    return least


def _suggestions(
    runs: CoupledRuns,
    drafts: Drafts,
    best: dict[int, list[tuple[float, Draft]]],
    least: dict[int, float],
) -> list[tuple[Pair, int, float]]:
    """Return the pairs whose differences are beyond those of the catalog with most seeds, and the
    kind and the size of the difference.
    """
    found: list[tuple[Pair, int, float]] = []
    for kind in (EXACT, STRUCTURE, NUMBER):
        if kind == EXACT and least[kind]:
            continue
        # where noise does not cancel, one seed may mislead
        tried = _SUGGESTED if runs.aligned else _PARENTS
        checked = filter(None, (drafts.pair(draft) for _, draft in best.get(kind, ())))
        sized = [(runs.sizes(pair, kind), pair) for pair in itertools.islice(checked, tried)]
        sized.sort(key=lambda each: -upper_median(each[0]))
        enough = 1.3 * max(least[kind], _RARER if kind == STRUCTURE else 0.0)
        for sizes, pair in sized[:_SUGGESTED]:
            # less is enough where it is the same with all seeds
            further = kind == NUMBER and sizes[0] > 1.05 * least[kind] and runs.aligned
            if further or upper_median(sizes) > enough:
                found.append((pair, kind, upper_median(sizes)))
    return found[:_SUGGESTED]


def _simplest(
    runs: CoupledRuns,
    domain: Domain,
    pair: Pair,
    kind: int,
    least: float,
    is_late: Callable[[], bool],
) -> Pair:
    """Return the simplest pair that is reached from `pair` in the time, and whose difference is at
    least `least`.
    """
    end = runs.runs + 400
    return shrunk(
        pair,
        domain.simpler,
        lambda simpler: runs.typical(simpler, kind) >= least,
        lambda: runs.runs >= end or is_late(),
    )
