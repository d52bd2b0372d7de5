"""Neighbouring pairs worth trying, from a domain declaration alone.

Shapes for vectors of answers follow StatDP (Ding et al. 2018, table 1): one above, one below, one above and the rest below, half and
half, all above. For records: extremes of the domain, one against many, halves, first and last position, one record against none.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.domains import Answers, Costs, Domain, LabelledBall, Records
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.validation import InvalidArgument

__all__ = ["pairs_for"]

FloatArray = NDArray[np.float64]


def pairs_for(domain: Domain) -> list[Pair]:
    """The catalogue's pairs for a domain, without repetitions, simplest first.

    Raises
    ------
    InvalidArgument
        If the catalogue knows no pairs for this kind of domain, or the domain has none.

    Examples
    --------
    >>> [pair.why for pair in pairs_for(Answers(1, low=0.0, high=1.0))]
    ['one answer up']
    """
    if isinstance(domain, Answers):
        found = list(_answers(domain))
    elif isinstance(domain, Records):
        found = list(_records(domain))
    elif isinstance(domain, LabelledBall | Costs):
        from dpwitness.auditors.catalogue_labelled import cost_pairs, labelled_pairs

        found = labelled_pairs(domain) if isinstance(domain, LabelledBall) else cost_pairs(domain)
    else:
        raise InvalidArgument(f"domain must be one that the catalogue knows, got {type(domain).__name__}; give pairs instead")
    seen: set[frozenset[str]] = set()
    pairs = []
    for pair in found:
        key = frozenset(repr(d) for d in (pair.d0, pair.d1))
        if len(key) == 2 and key not in seen:
            seen.add(key)
            pairs.append(pair)
    if not pairs:
        raise InvalidArgument(f"domain must have neighbours, {domain} has none")
    return pairs


def _answers(domain: Answers) -> Iterator[Pair]:
    n = domain.length
    one, rest, half = np.eye(n)[0], 1.0 - np.eye(n)[0], (np.arange(n) < n // 2).astype(float)
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
    order = {"l1": 1, "l2": 2, "linf": np.inf}[domain.relation]
    level = float(np.clip(0.0, domain.low, domain.high - 1))
    heights = {
        "": np.full(n, level),
        ", at the bottom": np.full(n, domain.low),
        ", the first far above": np.where(np.arange(n) == 0, domain.high - 1, domain.low),
        ", the first far below": np.where(np.arange(n) == 0, domain.low, domain.high - 1),
        ", one half far above": np.where(half > 0, domain.high - 1, domain.low),
    }
    for place, height in heights.items():
        for why, move in moves.items():
            size = float(np.linalg.norm(move, order))
            if size == 0:
                continue
            step = move / size
            d0 = height + np.maximum(-step, 0.0)
            yield Pair(d0, d0 + step, domain.relation, why + place)


def _records(domain: Records) -> Iterator[Pair]:
    n, low, high = domain.size, domain.low, domain.high
    middle = low + (high - low) / 2
    middle = np.floor(middle) if domain.integer else middle
    half = np.arange(n) < (n + 1) // 2
    bases = {
        "all records low": np.full(n, low),
        "all records high": np.full(n, high),
        "half of the records high": np.where(half, low, high),
        "all records in the middle": np.full(n, middle),
        "all distinct": np.round(np.linspace(low, high, n)) if domain.integer else np.linspace(low, high, n),
    }
    values = [low, high, middle, *([low + 1] if domain.integer else [])]
    for place in [0, n - 1]:
        for why, base in bases.items():
            for value in values:
                changed = base.copy()
                changed[place] = value
                at = "first" if place == 0 else "last"
                if domain.relation == "add-remove":
                    yield Pair(np.delete(changed, place), changed, domain.relation, f"{why}, {at} record {value:g} added")
                else:
                    yield Pair(base, changed, domain.relation, f"{why}, {at} becomes {value:g}")
    if domain.relation == "add-remove" and n > 1:
        yield Pair(np.empty(0), np.array([high]), domain.relation, "one record against none")
