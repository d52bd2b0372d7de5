"""Inputs of metamorphic relations: datasets, neighboring pairs, reordered datasets and parts of
datasets.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dpwitness.auditors.functions.metamorphic.outputs import Raised, outcome, row_count, rows
from dpwitness.auditors.functions.metamorphic.relations import Cases
from dpwitness.auditors.functions.stability.inputs.neighborhoods import neighborhood
from dpwitness.auditors.functions.stability.inputs.spaces import InputSpace
from dpwitness.auditors.search.catalogue import pairs_for, require_domain
from dpwitness.auditors.workers.constants import constants_of

_PAIRS = 12  # largest number of pairs that are taken from a domain
# datasets of an input space: adversarial ones, those kept of one size, and random ones
_TRIED, _OF_ONE_SIZE, _RANDOM = 600, 8, 30
_NEAR = 4  # groups of neighbors of one dataset


@dataclass(frozen=True, slots=True)
class Inputs:
    """Datasets, pairs of neighboring datasets, and for each dataset the same rows in other orders
    and in two parts.
    """

    datasets: tuple[Any, ...]
    pairs: Cases
    orders: Cases
    parts: Cases


def inputs_of(
    domain: Any,
    datasets: Sequence[Any],
    input_metric: str,
    d_in: Any,
    seed: int,
    owner: str,
    function: Any,
) -> Inputs:
    """Return the inputs of all relations, from given datasets and from an input space or a domain
    of mechanisms.
    """
    rng = random.Random(seed)
    pairs: list[tuple[Any, ...]] = []
    if isinstance(domain, InputSpace):
        domain = domain.with_hints(constants_of(function))
        kept: dict[int, list[Any]] = {}
        for each in islice(domain.bases(), _TRIED):
            kept.setdefault(len(each), []).append(each)
        found = [each for bases in kept.values() for each in bases[:_OF_ONE_SIZE]]
        found += [domain.random_rows(rng) for _ in range(_RANDOM)]
        every = (*datasets, *map(domain.build, found))
        pairs = list(_neighbors(domain, found, input_metric, d_in))
    else:
        if domain is not None:
            require_domain(domain, owner)
            pairs = [(pair.d0, pair.d1) for pair in pairs_for(domain)[:_PAIRS]]
        every = (*datasets, *(side for pair in pairs for side in pair))
    small = sorted(every, key=row_count)
    orders = [(dataset, other) for dataset in small for other in _reordered(dataset, rng)]
    return Inputs(
        every, pairs, orders, [part for dataset in small for part in _parts(dataset, rng)]
    )


def _neighbors(
    space: InputSpace, bases: Sequence[list[Any]], input_metric: str, d_in: Any
) -> Iterator[tuple[Any, ...]]:
    near = neighborhood(space, input_metric, [d_in])
    for base in bases:
        for group in islice(near.around(base), _NEAR):
            yield from ((group.datasets[i], group.datasets[j]) for i, j, _ in group.pairs)


def _reordered(dataset: Any, rng: random.Random) -> Iterator[Any]:
    """Yield the dataset with its rows reversed, rotated and shuffled."""
    count = row_count(dataset)
    for order in (
        (range(count - 1, -1, -1), [*range(1, count), 0], rng.sample(range(count), count))
        if count > 1
        else ()
    ):
        found = outcome(rows, dataset, list(order))
        if not isinstance(found, Raised):
            yield found


def _parts(dataset: Any, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    """Yield the dataset in two parts: cut at random, after the first row, and with an empty second
    part.
    """
    count = row_count(dataset)
    for cut in dict.fromkeys((rng.randint(1, count - 1), 1, count)) if count > 1 else ():
        sides = [outcome(rows, dataset, list(part)) for part in (range(cut), range(cut, count))]
        if not any(isinstance(side, Raised) for side in sides):
            yield sides[0], sides[1]
