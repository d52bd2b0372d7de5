"""Runs that are not independent: one run given several times, or one set of coins used for several
trainings.

The pooled audit needs new coins for each run. Each test below asks how probable the likeness of two
runs is under independent coins, for any training and any score, and refuses at 1e-9 after a
correction for the number of pairs.

- *Copies.* Sort the canaries of a run by score. In a copy, also a rescaled, permuted or slightly
  perturbed one, included canaries have the same ranks. Let H be the number of ranks at which two
  runs differ, and T the number of neighboring ranks in one run with different coins. With
  independent coins and inclusion probabilities p1 and p2 at a rank, the expectations satisfy H = p1
  (1 - p2) + p2 (1 - p1) = (p1 - p2)^2 + p1 (1 - p1) + p2 (1 - p2) >= (T1 + T2) / 2, for
  probabilities that vary slowly with the rank. A separating score has a small T, and nothing is
  refused.
- *Parts.* The test of copies is applied to the scores that occur once in each of two runs, if these
  are most of one run.
- *Equal tables.* For each score, as many canaries are included and left out. A table of few
  different scores may repeat by chance, so each score counts only the bits of that coincidence.
- *Equal sizes.* Two runs of m canaries include equally many with probability at most sqrt(2 / (pi
  m)).
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

from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import InvalidArgument

_OWNER = "audit_canaries"
_MIN_BITS = 30.0  # 2^-30 is below 1e-9
_MIN_SIZE = 60  # canaries of a run, or shared names, from which a pair alone can be refused
_ADVICE = "pass each training once, and draw new coins for each"
Run = tuple[FloatArray, np.ndarray]  # standardized scores, coins


def require_independent(
    runs: Sequence[Run], ids: Sequence[Sequence[Hashable] | None], given: Sequence[FloatArray]
) -> None:
    """Raise InvalidArgument if runs repeat one another or share their coins beyond chance.

    `ids` are the names of the canaries of each run, or None; `given` are the scores of each run
    before standardization.
    """
    _require_independent_ids(runs, ids)
    tables = [_table(*run) for run in runs]
    if first := _first_repeat(tables):
        times = Counter(key for key, _ in tables).most_common(1)[0][1]
        raise InvalidArgument(
            f"{_OWNER}: runs must be independent, the same scores with the same coins are given "
            f"{times} times among {len(tables)} runs; the first two are runs {first[0]} and "
            f"{first[1]}: {_ADVICE}"
        )
    _require_independent_ranks(runs, range(len(runs)), len(runs) ** 2)
    _require_independent_parts(runs, given)
    sizes = [
        ((coins.size, int(coins.sum())), 0.5 * math.log2(math.pi * coins.size / 2))
        for _, coins in runs
    ]
    if _first_repeat(sizes) is not None:
        (size, included), times = Counter(key for key, _ in sizes).most_common(1)[0]
        raise InvalidArgument(
            f"{_OWNER}: runs must have new fair coins each, {times} of {len(runs)} runs include "
            f"exactly {included} of {size} canaries, as one set of coins or a fixed number does: "
            f"{_ADVICE}"
        )


def _first_repeat(keyed: Sequence[tuple[Hashable, float]]) -> tuple[int, int] | None:
    """Return the indices of the first two runs with equal keys, if the number of equal keys is
    improbable; None otherwise.

    A run has the key of an earlier run with probability at most 2^-bits. The union bound is over
    all partitions of the runs into as many classes.
    """
    seen: dict[Hashable, int] = {}
    repeats = [
        (seen[key], k, bits) for k, (key, bits) in enumerate(keyed) if seen.setdefault(key, k) < k
    ]
    if not repeats:
        return None
    runs, classes, repeated = len(keyed), len(seen), len(repeats)
    evidence = sum(bits for _, _, bits in repeats)
    by_class = runs * math.log2(classes) - math.lgamma(classes + 1) / math.log(2)
    by_repeat = repeated * math.log2(math.e * runs**2 / repeated)
    improbable = evidence - min(by_class, by_repeat) - math.log2(runs) > _MIN_BITS
    return repeats[0][:2] if improbable else None


def _table(scores: FloatArray, coins: np.ndarray) -> tuple[Hashable, float]:
    """Return the counts of included and left-out canaries per score, and the bits of evidence in an
    equal table.

    The bits are a lower bound on minus log2 of the probability that an independent run has the same
    table.
    """
    values, where, sizes = np.unique(np.round(scores, 9), return_inverse=True, return_counts=True)
    inside = np.bincount(where, weights=coins, minlength=sizes.size)
    single = inside[sizes == 1] > 0
    share = inside / sizes
    with np.errstate(divide="ignore"):
        several = 0.5 * np.log2(2 * math.pi * sizes * share * (1 - share))[sizes > 1]
    bits = math.log2(math.e) * np.count_nonzero(single[1:] != single[:-1]) + float(
        np.maximum(several, 0.0).sum()
    )
    return (values.tobytes(), inside.tobytes()), bits


def _require_independent_parts(runs: Sequence[Run], given: Sequence[FloatArray]) -> None:
    """Compare the coins of two runs at the scores that occur once in each run, if these are most of
    one run's scores.
    """
    ends = np.cumsum([0, *(scores.size for scores in given)])
    codes = np.unique(np.concatenate(given), return_inverse=True)[1].ravel()
    levels = [
        np.unique(codes[a:b], return_index=True, return_counts=True)
        for a, b in itertools.pairwise(ends)
    ]
    singles = [
        (values[times == 1], coins[places[times == 1]])
        for (values, places, times), (_, coins) in zip(levels, runs, strict=True)
    ]
    sizes = np.array([values.size for values, _ in singles])
    places = np.concatenate([values for values, _ in singles])
    present = csr_array(
        (np.ones(places.size), places, np.cumsum([0, *sizes])), shape=(len(runs), int(ends[-1]))
    )
    shared = (present @ present.T).tocoo()
    for i, j, count in zip(*shared.coords, shared.data, strict=True):
        # runs share half of their scores if these depend on the coin only
        if i < j and count >= max(_MIN_SIZE, 0.75 * min(sizes[i], sizes[j])):
            both = np.intersect1d(singles[i][0], singles[j][0], assume_unique=True)
            sides = [
                (both, coins[np.isin(values, both)]) for values, coins in (singles[i], singles[j])
            ]
            _require_independent_ranks(sides, (int(i), int(j)), len(runs) ** 2)


def _require_independent_ranks(runs: Sequence[Run], run_numbers: Sequence[int], pairs: int) -> None:
    """Compare the coins by rank of the score, for all pairs of runs of equal size, and with the
    second run in reverse.

    `run_numbers` name the runs in messages. The threshold is corrected for `pairs` comparisons.
    """
    rng = np.random.default_rng(0)  # for a random order of equal scores
    for size in {coins.size for _, coins in runs if coins.size >= _MIN_SIZE}:
        group = [k for k, (_, coins) in enumerate(runs) if coins.size == size]
        ranked = np.stack(
            [
                np.where(coins[np.lexsort((rng.random(size), scores))], 1, -1)
                for scores, coins in (runs[k] for k in group)
            ]
        )
        ranked = ranked.astype(np.float32)
        # T: the smallest count over distances, as equal scores may make neighbors alternate
        changes = np.min(
            [
                np.count_nonzero(ranked[:, lag:] != ranked[:, :-lag], axis=1) * size / (size - lag)
                for lag in range(1, 9)
            ],
            axis=0,
        )
        for i in range(1, len(group)):
            expected = 0.5 * (changes[:i] + changes[i])
            for row in (ranked[i], ranked[i, ::-1]):
                differ = np.maximum(0.5 * (size - ranked[:i] @ row), 0.0)
                # minus the logarithm of Chernoff's bound, for a mean of 0.7 T at least:
                # probabilities may vary from rank to rank
                mean = 0.7 * expected
                with np.errstate(divide="ignore", invalid="ignore"):
                    relative = np.where(differ > 0, differ * np.log(differ / mean), 0.0)
                improbable = (differ < mean) & (
                    mean - differ + relative > _MIN_BITS * math.log(2) + math.log(pairs)
                )
                copies = np.flatnonzero(improbable & (differ <= 0.25 * expected))
                if copies.size:
                    j = int(copies[0])
                    raise InvalidArgument(
                        f"{_OWNER}: runs must be independent, runs {run_numbers[group[j]]} and "
                        f"{run_numbers[group[i]]} order included and left-out canaries alike: "
                        f"{differ[j]:.0f} of {size} ranks differ, where independent coins differ "
                        f"at about {expected[j]:.0f}: {_ADVICE}"
                    )


def _require_independent_ids(runs: Sequence[Run], ids: Sequence[Sequence[Hashable] | None]) -> None:
    """Raise InvalidArgument if the coins of canaries with the same id agree too often, or too
    rarely, between two runs.
    """
    named = [(k, names, runs[k][1]) for k, names in enumerate(ids) if names is not None]
    if len(named) < 2:
        return
    numbers = [k for k, _, _ in named]
    masks = [
        (frozenset(zip(names, coins.tolist(), strict=True)), float(len(names)))
        for _, names, coins in named
    ]
    if first := _first_repeat(masks):
        raise InvalidArgument(
            f"{_OWNER}: runs must have new fair coins each, runs {numbers[first[0]]} and "
            f"{numbers[first[1]]} include exactly the same canaries, by their ids: {_ADVICE}"
        )
    codes: dict[Hashable, int] = {}
    places: list[Any] = [
        [codes.setdefault(each, len(codes)) for each in names] for _, names, _ in named
    ]
    ends = np.cumsum([0, *map(len, places)])
    signs = np.concatenate([np.where(coins, 1, -1) for _, _, coins in named])
    coins = csr_array((signs, np.concatenate(places), ends), shape=(len(named), len(codes)))
    present = abs(coins)
    alpha = 2.0**-_MIN_BITS / len(named) ** 2
    for i in range(1, len(named)):
        row, known = coins[[i], :].toarray()[0], present[[i], :].toarray()[0]
        shared = np.asarray(present[:i, :] @ known)
        agree = (shared + np.asarray(coins[:i, :] @ row)) // 2
        conspicuous = np.flatnonzero(
            2 * binom.sf(np.maximum(agree, shared - agree) - 1, shared, 0.5) < alpha
        )
        if conspicuous.size:
            j = int(conspicuous[0])
            raise InvalidArgument(
                f"{_OWNER}: runs must have new fair coins each, the coins of runs {numbers[j]} and "
                f"{numbers[i]} agree for {agree[j]} of {shared[j]} canaries with the same id: "
                f"{_ADVICE}"
            )
