"""Neighboring pairs worth trying, from a domain declaration alone.

The pairs are the domain's own shapes (`Domain.catalogue`) mixed with random pairs. The random
pairs are always the same, because their generator is seeded with `RANDOM_PAIRS_SEED`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain, domain_kinds
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_positive,
    require_that,
    require_type,
    short_repr,
)

RANDOM_PAIRS_SEED = 11


def pairs_for(domain: Domain) -> list[Pair]:
    """Return the pairs of the catalog of a domain, without repetitions, most promising first.

    Parameters
    ----------
    domain : Domain
        The datasets and their neighboring relation.

    Returns
    -------
    list of Pair
        Pairs of the domain.

    Raises
    ------
    InvalidArgument
        If the domain has no neighboring pairs.

    Examples
    --------
    >>> from dpwitness.mechanisms import Answers
    >>> [pair.why for pair in pairs_for(Answers(1, low=0.0, high=1.0))]
    ['one answer up']
    """
    draw = domain.draws(np.random.default_rng(RANDOM_PAIRS_SEED))
    seen: set[frozenset[str]] = set()
    shapes = _deduplicated(map(draw.renumbered, domain.catalogue()), seen)
    pairs = list(islice(shapes, 3))
    # one random pair after every two shapes
    for pair in _deduplicated(map(draw, range(domain.random_pairs)), seen):
        pairs += [pair, *islice(shapes, 2)]
    pairs += shapes
    require_that(pairs, f"domain must have neighbors, {domain} has none")
    return pairs


def require_domain(domain: Domain, owner: str) -> None:
    """Raise InvalidArgument unless `domain` is a Domain."""
    require_type(
        "domain", domain, Domain, f"be one of {', '.join(domain_kinds())} or a Relation", owner
    )


def require_settings(
    owner: str, seed: Any, seconds: Any = 1.0, evaluations: Any = 1, name: Any = None
) -> tuple[int, int]:
    """Return the seed and the number of evaluations of a search. Raise InvalidArgument if a setting
    is invalid.
    """
    require_positive("seconds", seconds, owner)
    require_type("name", name, str, "be a text", owner, optional=True)
    evaluations = require_integer("evaluations", evaluations, owner, most=10**12)
    return require_integer("seed", seed, owner, least=0), evaluations


def _deduplicated(found: Iterable[Pair | None], seen: set[frozenset[str]]) -> Iterator[Pair]:
    """Yield the pairs that are not None, whose datasets differ, and that have not been
    seen before.
    """
    for pair in found:
        if pair is None:
            continue
        as_json = pair.to_json()
        key = frozenset(json.dumps(as_json[side]) for side in ("d0", "d1"))
        if len(key) == 2 and key not in seen:
            seen.add(key)
            yield pair


def audited_pairs(
    mechanism: Any, pair: Pair | Sequence[Pair] | None, domain: Domain | None = None
) -> list[Pair]:
    """Return the pairs to audit: the given pairs, or those of the domain. Raise InvalidArgument if
    they are invalid or missing.
    """
    domain = getattr(mechanism, "domain", None) if domain is None else domain
    if pair is not None:
        candidates = [pair] if isinstance(pair, Pair) else pair
        require_that(
            isinstance(candidates, list | tuple)
            and candidates
            and all(isinstance(p, Pair) for p in candidates),
            f"pair must be a Pair or a non-empty list of Pairs, got {short_repr(pair)}",
        )
        for side, dataset in (
            (side, getattr(p, side)) for p in candidates for side in ("d0", "d1")
        ):
            if isinstance(domain, Domain) and (wrong := domain.other_columns(dataset)):
                raise InvalidArgument(f"pair: {side.upper()} is not in the domain: {wrong}")
        return list(candidates)
    if domain is None:
        raise InvalidArgument(
            "pair must be given, or a domain to take pairs from, got neither: say which data can "
            'occur, as in --domain \'{"kind": "Records", "size": 8, "low": 0, "high": 10}\' '
            "(dpwitness list domains), or give neighboring datasets by --d0 and --d1; "
            "dpwitness scan FILE.py:NAME proposes a domain"
        )
    require_domain(domain, "audit")
    # pairs that the mechanism itself knows to be adversarial
    known: list[Pair] = getattr(mechanism, "adversarial_pairs", list)()
    own = [each for each in known if domain.holds(each)]
    return [*own, *pairs_for(domain)]


def unverified_notes(pairs: Sequence[Pair], declared: Any = None) -> list[str]:
    """Return a note for each pair of datasets that were not verified to be neighbors, or that lie
    outside of the domain that the mechanism has declared.
    """
    notes = [pair.unchecked for pair in pairs if pair.unchecked]
    if isinstance(declared, Domain):
        notes += [
            f"{side} lies outside of the domain that the mechanism declares, for which its claim "
            "is stated"
            for pair in pairs
            for side, dataset in (("D0", pair.d0), ("D1", pair.d1))
            if not declared.contains(dataset)
        ]
    return list(dict.fromkeys(notes))
