"""Domains of third-party targets and the pairs that come from them."""

import pytest

from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.core.domains.records import Records, Rows
from dpwitness.core.domains.vectors import Answers, Counts
from dpwitness.core.values.json_codec import to_jsonable

DOMAINS = [
    Answers(1),
    Answers(3, relation="l1"),
    Counts(1, high=2**61),
    Counts(4, relation="linf"),
    Records(1),
    Records(10, outside=True),
    Records(1000, missing=True),
    Records(20, -1, 1, relation="add-remove"),
    Rows(1, labels=(0, 1)),
    Rows(10, ((100, 101),), (0, 1), every_label=True),
    Rows(6, ((0, 1), (0, 20)), relation="add-remove"),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_pairs_are_neighbours_and_all_different(domain):
    pairs = pairs_for(domain)  # a Pair that is none cannot be built
    keys = {frozenset(str(to_jsonable(d)) for d in (pair.d0, pair.d1)) for pair in pairs}
    assert len(keys) == len(pairs)
    assert {pair.relation for pair in pairs} == {domain.relation}
