"""Neighbouring pairs worth trying, from a domain declaration alone: its shapes (`Domain.catalogue`), and pairs that are drawn among them.

Drawn are always the same ones: their generator's seed is `DRAWN_SEED`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from dpwitness.mechanisms.domains import KINDS, Domain
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.validation import InvalidArgument, shown

DRAWN_SEED = 11
DRAWN = 12  # pairs: each place with each change
DRAWN_CATEGORIES = 24  # of whole numbers, which may be categories
DRAWN_NUMBERS = 2  # of one record that is a number: its range says nearly all


def pairs_for(domain: Domain) -> list[Pair]:
    """The catalogue's pairs for a domain, without repetitions, what promises most first.

    Raises
    ------
    InvalidArgument
        If it is no domain, or has no pairs.

    Examples
    --------
    >>> from dpwitness.mechanisms import Answers
    >>> [pair.why for pair in pairs_for(Answers(1, low=0.0, high=1.0))]
    ['one answer up']
    """
    draw = domain.draws(np.random.default_rng(DRAWN_SEED))
    seen: set[frozenset[str]] = set()
    pairs = list(_merged(_new(map(draw.renumbered, domain.catalogue()), seen), _new(map(draw, range(_drawn(domain))), seen)))
    if not pairs:
        raise InvalidArgument(f"domain must have neighbours, {domain} has none")
    return pairs


def require_neighbours(domain: Domain, owner: str) -> None:
    """An InvalidArgument unless it is a domain; each of those has neighbours, as it was built."""
    if not isinstance(domain, Domain):
        raise InvalidArgument(f"{owner}: domain must be one of {', '.join(KINDS)} or a Relation, got {shown(domain)}")


def _new(found: Iterable[Pair | None], seen: set[frozenset[str]]) -> Iterator[Pair]:
    """Those that are pairs of the domain, and none that has been there before."""
    for pair in found:
        if pair is None:
            continue
        told = pair.to_json()
        key = frozenset(json.dumps(told[side]) for side in ("d0", "d1"))
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
    if domain.whole:
        return DRAWN_CATEGORIES
    return DRAWN_NUMBERS if domain.records == 1 else DRAWN
