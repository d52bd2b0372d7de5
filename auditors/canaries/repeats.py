"""Runs that are not independent: one run given several times, or one set of coins used for several trainings.

The pooled audit needs new coins for each run. Each test below asks how probable the likeness of two runs is under independent coins, for
any training and any score, and refuses at 1e-9 after a correction for the number of pairs.

- *Copies.* Sort the canaries of a run by score. In a copy, also a rescaled, permuted or slightly perturbed one, included canaries have the
  same ranks. Let H be the number of ranks at which two runs differ, and T the number of neighboring ranks in one run with different coins.
  With independent coins and inclusion probabilities p1 and p2 at a rank, the expectations satisfy
  H = p1 (1 - p2) + p2 (1 - p1) = (p1 - p2)^2 + p1 (1 - p1) + p2 (1 - p2) >= (T1 + T2) / 2, for probabilities that vary slowly with the
  rank. A separating score has a small T, and nothing is refused.
- *Parts.* The same at the scores that two runs hold once each, where these are most of one run.
- *Equal tables.* For each score, as many canaries are included and left out. A table of few different scores may repeat by chance, so each
  score counts only the bits of that coincidence.
- *Equal sizes.* Two runs of m canaries include equally many with probability at most sqrt(2 / (pi m)).
- *Names.* Where canaries have names, coins of the same canary in two runs agree like fair coins.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import binom

from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument

_OWNER = "audit_canaries"
_BITS = 30.0  # 2^-30 is below 1e-9
_NATS = _BITS * math.log(2)
_SMALLEST = 60  # canaries of a run, or shared names, from which on a pair alone can be refused
_LAGS = range(1, 9)  # distances of ranks in T: the smallest count, as equal scores may make neighbors alternate
_SAFE = 0.7  # factor on T: probabilities may vary from rank to rank
_NEAR = 0.25  # H / T of runs that are copies at most
_PART = 0.75  # of the scores of a run, in another one; half of them are where scores show the coin and nothing else
_DIGITS = 9  # of standardized scores in a table
_ADVICE = "pass each training once, and draw new coins for each"
Run = tuple[FloatArray, np.ndarray]  # standardized scores, coins


def require_independent(runs: Sequence[Run], ids: Sequence[Sequence[Hashable] | None], given: Sequence[FloatArray]) -> None:
    """Raise InvalidArgument where runs repeat one another or share their coins beyond chance.

    Parameters
    ----------
    runs : sequence of (scores, coins)
        Standardized scores and coins of each run.
    ids : sequence
        Names of the canaries of each run, in the same order; None where there are none.
    given : sequence of arrays
        Scores of each run as they were given, in the same order.
    """
    if len(runs) < 2:
        return
    _require_other_names(runs, ids)
    tables = [_table(*run) for run in runs]
    first = _coincidence(tables)
    if first is not None:
        told = f"{_times(tables)}; the first two are runs {first[0]} and {first[1]}"
        raise InvalidArgument(f"{_OWNER}: runs must be independent, the same scores with the same coins are given {told}: {_ADVICE}")
    _require_other_ranks(runs, range(len(runs)), len(runs) ** 2)
    _require_other_parts(runs, given)
    sizes = [((coins.size, int(coins.sum())), 0.5 * math.log2(math.pi * coins.size / 2)) for _, coins in runs]
    if _coincidence(sizes) is not None:
        (size, included), times = Counter(key for key, _ in sizes).most_common(1)[0]
        told = f"{times} of {len(runs)} runs include exactly {included} of {size} canaries"
        raise InvalidArgument(
            f"{_OWNER}: runs must have new fair coins each, {told}, as one set of coins or a fixed number does: {_ADVICE}"
        )


def _times(tables: list[tuple[Hashable, float]]) -> str:
    most = Counter(key for key, _ in tables).most_common(1)[0][1]
    return f"{most} times among {len(tables)} runs"


def _coincidence(keyed: Sequence[tuple[Hashable, float]]) -> tuple[int, int] | None:
    """The first two runs with one key, if so many equal keys are improbable; None otherwise.

    A run has the key of an earlier one with probability at most 2^-bits. The union bound is over all partitions of the runs into as many
    classes.
    """
    seen: dict[Hashable, int] = {}
    evidence, first = 0.0, None
    for k, (key, bits) in enumerate(keyed):
        if key in seen:
            evidence += bits
            first = first or (seen[key], k)
        else:
            seen[key] = k
    runs, classes = len(keyed), len(seen)
    repeated = runs - classes
    if not repeated:
        return None
    by_class = runs * math.log2(classes) - math.lgamma(classes + 1) / math.log(2)
    by_repeat = repeated * math.log2(math.e * runs**2 / repeated)
    return first if evidence - min(by_class, by_repeat) - math.log2(runs) > _BITS else None


def _table(scores: FloatArray, coins: np.ndarray) -> tuple[Hashable, float]:
    """Scores with the numbers of canaries on both sides, and the bits that its coincidence with an independent run is worth at least."""
    values, where, sizes = np.unique(np.round(scores, _DIGITS), return_inverse=True, return_counts=True)
    inside = np.bincount(where, weights=coins, minlength=sizes.size)
    single = inside[sizes == 1] > 0
    share = inside / sizes
    with np.errstate(divide="ignore"):
        several = 0.5 * np.log2(2 * math.pi * sizes * share * (1 - share))[sizes > 1]
    bits = math.log2(math.e) * np.count_nonzero(single[1:] != single[:-1]) + float(np.maximum(several, 0.0).sum())
    return (values.tobytes(), inside.tobytes()), bits


def _require_other_parts(runs: Sequence[Run], given: Sequence[FloatArray]) -> None:
    """Compare the coins of two runs at the scores that both hold once, if these are most of the scores of one of them."""
    ends = np.cumsum([0, *(scores.size for scores in given)])
    codes = np.unique(np.concatenate(given), return_inverse=True)[1].ravel()
    once = [np.unique(codes[a:b], return_index=True, return_counts=True) for a, b in itertools.pairwise(ends)]
    held = [(values[times == 1], coins[places[times == 1]]) for (values, places, times), (_, coins) in zip(once, runs, strict=True)]
    sizes = np.array([values.size for values, _ in held])
    places = np.concatenate([values for values, _ in held])
    present = csr_array((np.ones(places.size), places, np.cumsum([0, *sizes])), shape=(len(runs), int(ends[-1])))
    shared = (present @ present.T).tocoo()
    for i, j, count in zip(*shared.coords, shared.data, strict=True):
        if i < j and count >= max(_SMALLEST, _PART * min(sizes[i], sizes[j])):
            both, first, second = np.intersect1d(held[i][0], held[j][0], assume_unique=True, return_indices=True)
            sides = [(both, held[i][1][first]), (both, held[j][1][second])]
            _require_other_ranks(sides, (int(i), int(j)), len(runs) ** 2)


def _require_other_ranks(runs: Sequence[Run], numbers: Sequence[int], pairs: int) -> None:
    """Compare the coins by rank of the score, for all pairs of runs of one size; also with the second run in reverse."""
    rng = np.random.default_rng(0)  # equal scores are ordered at random
    for size in {coins.size for _, coins in runs if coins.size >= _SMALLEST}:
        group = [k for k, (_, coins) in enumerate(runs) if coins.size == size]
        ranked = np.stack([np.where(coins[np.lexsort((rng.random(size), scores))], 1, -1) for scores, coins in (runs[k] for k in group)])
        ranked = ranked.astype(np.float32)
        mixed = np.array([_mixed(row) for row in ranked])
        for i in range(1, len(group)):
            expected = 0.5 * (mixed[:i] + mixed[i])
            for row in (ranked[i], ranked[i, ::-1]):
                differ = np.maximum(0.5 * (size - ranked[:i] @ row), 0.0)
                improbable = _tail(differ, _SAFE * expected) > _NATS + math.log(pairs)
                copies = np.flatnonzero(improbable & (differ <= _NEAR * expected))
                if copies.size:
                    j = int(copies[0])
                    which = f"runs {numbers[group[j]]} and {numbers[group[i]]}"
                    told = f"{which} order included and left-out canaries alike: {differ[j]:.0f} of {size} ranks differ"
                    raise InvalidArgument(
                        f"{_OWNER}: runs must be independent, {told}, where independent coins differ at about {expected[j]:.0f}: {_ADVICE}"
                    )


def _mixed(signs: FloatArray) -> float:
    """Number of ranks whose coin differs from that of a rank nearby."""
    size = signs.size
    return min(float(np.count_nonzero(signs[lag:] != signs[:-lag])) * size / (size - lag) for lag in _LAGS)


def _tail(found: FloatArray, mean: FloatArray) -> FloatArray:
    """Minus the logarithm of Chernoff's bound on a sum of coins with at least this mean that is at most `found`; 0 above the mean."""
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = mean - found + np.where(found > 0, found * np.log(found / mean), 0.0)
    return np.where(found < mean, bound, 0.0)


def _require_other_names(runs: Sequence[Run], ids: Sequence[Sequence[Hashable] | None]) -> None:
    """Compare the coins of canaries that have the same name in two runs."""
    named: list[tuple[int, Sequence[Hashable]]] = [(k, each) for k, each in enumerate(ids) if each is not None]
    if len(named) < 2:
        return
    masks = [(frozenset(zip(each, runs[k][1].tolist(), strict=True)), float(len(each))) for k, each in named]
    first = _coincidence(masks)
    if first is not None:
        told = f"runs {named[first[0]][0]} and {named[first[1]][0]} include exactly the same canaries, by their ids"
        raise InvalidArgument(f"{_OWNER}: runs must have new fair coins each, {told}: {_ADVICE}")
    codes: dict[Hashable, int] = {}
    places: list[Any] = [[codes.setdefault(each, len(codes)) for each in names] for _, names in named]
    ends = np.cumsum([0, *(len(each) for each in places)])
    signs = np.concatenate([np.where(runs[k][1], 1, -1) for k, _ in named])
    shape = (len(named), len(codes))
    coins = csr_array((signs, np.concatenate(places), ends), shape=shape)
    present = abs(coins)
    alpha = 2.0**-_BITS / len(named) ** 2
    for i in range(1, len(named)):
        row, known = coins[[i], :].toarray()[0], present[[i], :].toarray()[0]
        shared = np.asarray(present[:i, :] @ known)
        agree = (shared + np.asarray(coins[:i, :] @ row)) // 2
        extreme = np.maximum(agree, shared - agree)
        odd = np.flatnonzero(2 * binom.sf(extreme - 1, shared, 0.5) < alpha)
        if odd.size:
            j = int(odd[0])
            told = f"the coins of runs {named[j][0]} and {named[i][0]} agree for {agree[j]} of {shared[j]} canaries with the same id"
            raise InvalidArgument(f"{_OWNER}: runs must have new fair coins each, {told}: {_ADVICE}")
