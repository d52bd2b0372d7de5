"""Neighbouring pairs worth trying, from a domain declaration alone.

Shapes for vectors of answers follow StatDP (Ding et al. 2018, table 1): one above, one below, one above and the rest below, half and
half, all above. For records: extremes of the domain, one against many, halves, one record against none, values that are missing or out of
range; the changed record stands last, first and in the middle by turns. For what floats do: zero, powers of two, and whole numbers that a
float rounds. Among these shapes stand pairs that are drawn (`pair_random`), always the same ones: their generator's seed is `DRAWN_SEED`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.domains import Answers, Costs, Counts, Domain, LabelledBall, Records, Rows
from dpwitness.mechanisms.jsonable import to_jsonable
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.validation import InvalidArgument, shown

__all__ = ["DRAWN_SEED", "NAMED_LABELS", "PLACES", "between", "far_outside", "inserted", "pairs_for", "ranked"]

FloatArray = NDArray[np.float64]
A = TypeVar("A")
B = TypeVar("B")

DRAWN_SEED = 11
DRAWN = 12  # pairs: each place with each change
DRAWN_CATEGORIES = 24  # of whole numbers, which may be categories
NAMED_LABELS = 4  # of those between the extremes, as many by name; the rest have their turns in pairs that are drawn
DRAWN_NUMBERS = 2  # of one record that is a number: its range says nearly all
# Places of the changed record among n others.
PLACES: Sequence[tuple[str, Callable[[int], int]]] = (
    ("first", lambda n: 0),
    ("in the middle", lambda n: (n + 1) // 2),
    ("last", lambda n: n),
)


def pairs_for(domain: Domain) -> list[Pair]:
    """The catalogue's pairs for a domain, without repetitions, what promises most first.

    Raises
    ------
    InvalidArgument
        If the catalogue knows no pairs for this kind of domain, or the domain has none.

    Examples
    --------
    >>> [pair.why for pair in pairs_for(Answers(1, low=0.0, high=1.0))]
    ['one answer up']
    """
    from dpwitness.auditors.pair_random import RandomPairs

    if isinstance(domain, Answers):
        found: Iterable[Pair | None] = _answers(domain)
    elif isinstance(domain, Records):
        found = _records(domain)
    elif isinstance(domain, Counts):
        found = _counts(domain)
    elif isinstance(domain, Rows):
        from dpwitness.auditors.catalogue_rows import row_pairs

        found = row_pairs(domain)
    elif isinstance(domain, LabelledBall | Costs):
        from dpwitness.auditors.catalogue_labelled import cost_pairs, labelled_pairs

        found = labelled_pairs(domain) if isinstance(domain, LabelledBall) else cost_pairs(domain)
    else:
        raise InvalidArgument(f"domain must be one that the catalogue knows, got {shown(domain)}; give pairs instead")
    draw = RandomPairs(domain, np.random.default_rng(DRAWN_SEED))
    seen: set[frozenset[str]] = set()
    pairs = list(_merged(_new(map(draw.renumbered, found), seen), _new(map(draw, range(_drawn(domain))), seen)))
    if not pairs:
        raise InvalidArgument(f"domain must have neighbours, {domain} has none")
    return pairs


def _new(found: Iterable[Pair | None], seen: set[frozenset[str]]) -> Iterator[Pair]:
    """Those that are pairs of the domain, and none that has been there before."""
    for pair in found:
        if pair is None:
            continue
        key = frozenset(json.dumps(to_jsonable(d)) for d in (pair.d0, pair.d1))
        if len(key) == 2 and key not in seen:
            seen.add(key)
            yield pair


def _merged(shapes: Iterator[Pair], drawn: Iterator[Pair]) -> Iterator[Pair]:
    """The first three shapes, then one that is drawn after every two shapes."""
    yield from islice(shapes, 3)
    for pair in drawn:
        yield pair
        yield from islice(shapes, 2)
    yield from shapes


def _drawn(domain: Domain) -> int:
    """How many pairs are drawn."""
    whole = isinstance(domain, Records | Rows) and bool(domain.integer)
    if whole:
        return DRAWN_CATEGORIES
    alone = domain.length if isinstance(domain, Answers | Counts) else domain.size if isinstance(domain, Records) else 2
    return DRAWN_NUMBERS if alone == 1 else DRAWN


def _answers(domain: Answers) -> Iterator[Pair | None]:
    n = domain.length
    one, half = (np.arange(n) == 0).astype(float), (np.arange(n) < n // 2).astype(float)
    last, middle = one[::-1], np.roll(one, n // 2)
    rest = 1.0 - one
    alternating = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    moves = {
        "one answer up": one,
        "all answers up": np.ones(n),
        "one up, the rest down": one - rest,
        "half up, half down": 2 * half - 1,
        "half up": half,
        "alternately up and down": alternating,
        "all but one up": rest,
    }
    alone = {"last answer up": last, "answer in the middle up": middle} if n > 1 else {}
    order = {"l1": 1, "l2": 2, "linf": np.inf}[domain.relation]
    level = float(np.clip(0.0, domain.low, domain.high - 1))
    power = 2.0 ** np.floor(np.log2(max(domain.high - 0.5, 1e-9)))
    heights = {
        "": np.full(n, level),
        ", at the bottom": np.full(n, domain.low),
        ", the first far above": np.where(np.arange(n) == 0, domain.high - 1, domain.low),
        ", the first far below": np.where(np.arange(n) == 0, domain.low, domain.high - 1),
        ", one half far above": np.where(half > 0, domain.high - 1, domain.low),
    }
    if power - 0.5 > max(level, domain.low):  # floats have other low bits on the two sides of a power of two
        heights[f", across {power:g}"] = np.full(n, power - 0.5)
    for place, height in heights.items():
        for why, move in (moves if place else moves | alone).items():
            size = float(np.linalg.norm(move, order))
            if size == 0:
                continue
            step = move / size
            d0 = np.clip(height + np.maximum(-step, 0.0), domain.low, domain.high)
            yield domain.pair(d0, np.clip(d0 + step, domain.low, domain.high), why + place)


def _counts(domain: Counts) -> Iterator[Pair | None]:
    """One count up, at zero, at both ends and where a float cannot tell two whole numbers apart."""
    n, low, high = domain.length, domain.low, domain.high
    levels = {"": min(max(0, low), high - 1), ", at the bottom": low, ", at the top": high - 1}
    power = 2 ** (max(high - 1, 1).bit_length() - 1)
    half_a_step = power >> 53
    if half_a_step:
        base_of_step = max(power, -((half_a_step - low) // (2 * half_a_step)) * 2 * half_a_step)
        if base_of_step + half_a_step + 1 <= high:
            levels[f", where floats round, above 2^{power.bit_length() - 1}"] = base_of_step + half_a_step
    one = (np.arange(n) == 0).astype(np.int64)
    for place, level in levels.items():
        base = np.full(n, level, dtype=np.int64)
        yield domain.pair(base, base + one, "one count up" + place)
        if n > 1 and domain.relation == "linf":
            yield domain.pair(base, base + 1, "all counts up" + place)
            yield domain.pair(base + one, base + (1 - one), "one up, the rest down" + place)
        if n > 1:
            yield domain.pair(base, base + one[::-1], "last count up" + place)
        if n > 2 and not place:
            yield domain.pair(base, base + np.roll(one, n // 2), "count in the middle up")


def _records(domain: Records) -> Iterator[Pair | None]:
    """Changed values among crowds of others, in the first and in the last place; what moves most comes first."""
    n, (low, high) = domain.size, domain.ends
    middle, spread = between(low, high, 0.5), between(low, high, np.linspace(0.0, 1.0, n))
    if domain.integer:
        middle, spread = np.floor(middle), np.round(spread)
    half = np.arange(n) < (n + 1) // 2
    crowds = {
        "all records low": np.full(n, low),
        "all records high": np.full(n, high),
        "half of the records high": np.where(half, low, high),
        "all records in the middle": np.full(n, middle),
        "all distinct": spread,
    }
    changes = [(low, high), (middle, high), (low, middle), *([(low, low + 1), (high - 1, high)] if domain.integer else [])]
    if low < 0 < high:
        crowds = {"all records low": crowds["all records low"], "all records zero": np.zeros(n), **crowds}
        changes.insert(1, (0.0, high))
    if domain.missing:
        crowds = {"all others missing": np.full(n, np.nan), **crowds}
        changes.insert(1, (np.nan, high))
    if domain.outside:
        below, above = far_outside(low, high)
        changes[1:1] = [(low, above), (below, above)]
    if domain.relation == "add-remove":
        added = list(dict.fromkeys([high, low, *(after for _, after in changes)]))
        changes = [(np.nan, value) for value in added]
    first, middle_place, last = PLACES
    for places in ((first, last, middle_place), (last, middle_place, first)):
        for rank in range(len(crowds) + len(changes) - 1):  # along diagonals: the first crowds with the first changes
            if rank == 2 and n > 1 and domain.relation == "add-remove":
                yield domain.pair(np.empty(0), np.array([high]), "one record against none")
            for turn, (why, crowd), (before, after) in ranked(list(crowds.items()), changes, rank):
                at, place_among = places[turn]
                place = place_among(n - 1)
                changed, base = crowd.copy(), crowd.copy()
                base[place], changed[place] = before, after
                if domain.relation == "add-remove":
                    yield domain.pair(np.delete(changed, place), changed, f"{why}, record {after:g} added {at}")
                else:
                    yield domain.pair(base, changed, f"{why}, {at} from {before:g} to {after:g}")


def inserted(crowd: FloatArray, record: FloatArray, place: Callable[[int], int]) -> FloatArray:
    """The crowd with a record in that place among its rows."""
    return np.insert(crowd, place(len(crowd)), record, axis=0)


def between(low: Any, high: Any, share: Any) -> Any:
    """low + share (high - low), inside the interval whatever rounds and however wide it is."""
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.subtract(high, low)
        found = np.where(np.isfinite(width), low + width * share, np.multiply(low, np.subtract(1.0, share)) + np.multiply(high, share))
    return np.clip(found, low, high)


def far_outside(low: Any, high: Any) -> tuple[Any, Any]:
    """Ten widths below and above an interval, as far as floats go."""
    most = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        far = 10 * np.where(np.equal(low, high), 1.0, np.subtract(high, low))
        return np.clip(low - far, -most, most), np.clip(high + far, -most, most)


def ranked(first: Sequence[A], second: Sequence[B], rank: int) -> Iterator[tuple[int, A, B]]:
    """Pairs of items whose places add up to `rank`, each with a turn 0, 1 or 2: along a diagonal, a row and a column it goes round."""
    for i in range(max(0, rank - len(second) + 1), min(len(first), rank + 1)):
        yield 0 if rank < 2 else (2 * i - rank) % 3, first[i], second[rank - i]
