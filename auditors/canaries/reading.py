"""Scores of canaries as they are given: checked, and put side by side with their coins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.auditors.canaries.mistakes import one_row, require_fresh, require_not_coins, require_scores
from dpwitness.auditors.canaries.repeats import require_independent
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument, shown

LEAST = 10  # canaries of a run
_CHANCE = 1e-6  # of a fair coin, below which it is taken for none
_OWNER = "audit_canaries"
_HUGE = 1e300  # beyond which differences may overflow
_TIED = 0.1  # share of scores that occur more than once, from which on it is said


@dataclass(frozen=True, slots=True, eq=False)
class Canaries:
    """All canaries of all runs: scores, each run in its own units, coins, and what there is to be said of them."""

    scores: FloatArray
    coins: np.ndarray
    runs: int
    notes: tuple[str, ...]


def read(scores_in: Any, scores_out: Any, ids_in: Any = None, ids_out: Any = None, groups: Any = None) -> Canaries:
    """Scores of one run, or lists of the scores of several, as `audit_canaries` takes them. Raises InvalidArgument."""
    for name, side in (("scores_in", scores_in), ("scores_out", scores_out)):
        if not isinstance(side, list | tuple) and getattr(side, "ndim", 1) > 1:  # a table is neither one run nor a list of runs
            one_row(name, side)
    many = _many(scores_in)
    if many != _many(scores_out):
        raise InvalidArgument(f"{_OWNER}: scores_in and scores_out must both be of one run, or both lists of runs")
    ins, outs = (list(side) if many else [side] for side in (scores_in, scores_out))
    if len(ins) != len(outs) or not ins:
        raise InvalidArgument(f"{_OWNER}: scores_out must have as many runs as scores_in, {len(ins)}, got {len(outs)}")
    named = [(list(side) if many else [side]) if side is not None else [None] * len(ins) for side in (ids_in, ids_out)]
    grouped = (groups if many else [groups]) if groups is not None else [None] * len(ins)
    if any(len(each) != len(ins) for each in (*named, grouped)):
        raise InvalidArgument(f"{_OWNER}: ids_in, ids_out and groups must have as many runs as scores_in, {len(ins)}")
    told = [f" of run {i}" if many else "" for i in range(len(ins))]
    try:
        read_runs = [_run(*each) for each in zip(ins, outs, *named, grouped, told, strict=True)]
    except _TooFew as error:
        hint = "; the lists look transposed: pass one list for each run, not one for each canary" if len(ins) > LEAST else ""
        raise InvalidArgument(f"{error}{hint}") from None
    require_not_coins(*(np.concatenate([np.asarray(each, dtype=float) for each in side]) for side in (ins, outs)))
    names = [None if a is None else [*np.asarray(a).tolist(), *np.asarray(b).tolist()] for a, b in zip(*named, strict=True)]
    given = [np.concatenate([np.asarray(side, dtype=float) for side in sides]) for sides in zip(ins, outs, strict=True)]
    require_independent([(run.scores, run.coins) for run in read_runs], names, given)
    scores = np.concatenate([run.scores for run in read_runs])
    coins = np.concatenate([run.coins for run in read_runs])
    if scores.min() == scores.max():
        raise InvalidArgument(f"{_OWNER}: scores must differ, those of each run are all equal")
    return Canaries(scores, coins, len(ins), tuple(dict.fromkeys(note for run in read_runs for note in run.notes)))


class _TooFew(InvalidArgument):
    """A run with fewer than `LEAST` canaries."""


def _many(scores: Any) -> bool:
    """Whether these are lists of runs; zero-dimensional arrays and tensors are single scores."""
    runs = isinstance(scores, list | tuple) and bool(scores)
    return runs and all(isinstance(run, list | tuple | range) or getattr(run, "ndim", 0) > 0 for run in scores)


def _run(scores_in: Any, scores_out: Any, ids_in: Any, ids_out: Any, groups: Any, which: str) -> Canaries:
    sides = []
    for name, side in (("scores_in", scores_in), ("scores_out", scores_out)):
        found = one_row(name + which, side)
        if found.size == 0 and not which:  # of many small runs, coins leave a side of some empty
            raise InvalidArgument(f"{_OWNER}: {name}{which} must be one row of at least one score, got shape {found.shape}")
        sides.append(found)
    size_in, size_out = (side.size for side in sides)
    size = size_in + size_out
    if size < LEAST:
        raise _TooFew(f"{_OWNER}: scores_in and scores_out{which} must hold at least {LEAST} canaries together, got {size}")
    require_scores(scores_in, scores_out, sides, which)
    _require_fair(size_in, size, which)
    scores = np.concatenate(sides)
    if not which and scores.min() == scores.max():  # a small run among others may be constant by chance
        raise InvalidArgument(f"{_OWNER}: scores must differ, all {size} are {scores[0]:g}")
    require_fresh(sides, which)
    _require_once(ids_in, ids_out, (size_in, size_out), which)
    coins = np.arange(size) < size_in
    notes = [*_ties(scores), *_groups(groups, coins, which)]
    if size_in == size_out and size >= 1000:
        notes.append("as many canaries were included as left out: taken for chance; an inclusion that is fixed to half is no fair coin")
    return Canaries(_standard(scores), coins, 1, tuple(notes))


def _standard(scores: FloatArray) -> FloatArray:
    """In units of the middle half around the median, so that runs can stand side by side."""
    if np.abs(scores).max() > _HUGE:
        scores = scores * 2.0**-60
    low, middle, high = np.quantile(scores, [0.25, 0.5, 0.75])
    unit = (high - low) or float(np.std(scores)) or float(np.ptp(scores)) or 1.0
    return np.asarray((scores - middle) / unit)


def _require_fair(included: int, size: int, which: str) -> None:
    from scipy.stats import binomtest

    if binomtest(included, size, 0.5).pvalue < _CHANCE:
        raise InvalidArgument(
            f"{_OWNER}: scores_in{which} must be near half of the canaries, each included by a fair coin, got {included} of {size}. "
            "Pass scores[included] and scores[~included], and draw one coin for each canary"
        )


def _require_once(ids_in: Any, ids_out: Any, sizes: tuple[int, int], which: str) -> None:
    if ids_in is None and ids_out is None:
        return
    if ids_in is None or ids_out is None:
        raise InvalidArgument(f"{_OWNER}: ids_in and ids_out{which} must be given both or not at all")
    seen: set[Any] = set()
    for name, ids, size in (("ids_in", ids_in, sizes[0]), ("ids_out", ids_out, sizes[1])):
        listed = np.asarray(ids).tolist()
        if not isinstance(listed, list) or len(listed) != size:
            got = len(listed) if isinstance(listed, list) else 1
            raise InvalidArgument(f"{_OWNER}: {name}{which} must be as many as scores, {size}, got {got}")
        for each in listed:
            if isinstance(each, list | dict | set):
                raise InvalidArgument(f"{_OWNER}: {name}{which} must be one name a canary, got {shown(each)}")
            if each in seen:
                raise InvalidArgument(f"{_OWNER}: {name}{which} must name each canary once, on one side, got {shown(each)} again")
            seen.add(each)


def _ties(scores: FloatArray) -> list[str]:
    _, times = np.unique(scores, return_counts=True)
    tied = int(times[times > 1].sum())
    if tied <= _TIED * scores.size:
        return []
    return [
        f"{tied} of {scores.size} scores occur more than once: equal ones are ordered at random; were they one canary entered several "
        "times, their coins would not be independent"
    ]


def _groups(groups: Any, coins: np.ndarray, which: str) -> list[str]:
    """Groups, of the included first: what shares one must still have coins of its own."""
    if groups is None:
        return []
    labels = np.asarray(groups)
    if labels.shape != coins.shape:
        raise InvalidArgument(f"{_OWNER}: groups{which} must name one of each canary, scores_in first, {coins.size}, got {labels.shape}")
    _, where, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    several = sizes > 1
    if not several.any():
        return []
    inside = np.bincount(where, weights=coins)
    split = np.count_nonzero((inside[several] > 0) & (inside[several] < sizes[several]))
    if split == 0 and 2.0 ** -float((sizes[several] - 1).sum()) < _CHANCE:
        raise InvalidArgument(
            f"{_OWNER}: groups{which} must not share a coin: each of {int(several.sum())} groups is wholly included or wholly left out"
        )
    return [
        f"{int(sizes[several].sum())} canaries share {int(several.sum())} groups of up to {int(sizes.max())}, such as a batch: the bound "
        "holds as long as each has a coin of its own, but canaries that disturb each other show less"
    ]
