"""Domains of third-party targets and the pairs that come from them."""

import math

import numpy as np
import pytest

from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.core.domains.records import Records
from dpwitness.core.domains.rows import Rows
from dpwitness.core.domains.vectors import Answers, Counts
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.validation import InvalidArgument

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


def test_long_datasets_that_print_alike_are_different_pairs():
    """NumPy prints long arrays with dots: every changed record lies where the dots are, or at an
    end.
    """
    whys = [pair.why for pair in pairs_for(Records(2000))]
    assert any("last" in why for why in whys) and any("first" in why for why in whys)


def test_where_a_float_cannot_hold_a_count():
    (pair,) = [pair for pair in pairs_for(Counts(1, high=2**61)) if "floats round" in pair.why]
    assert int(pair.d1[0]) - int(pair.d0[0]) == 1
    assert float(pair.d1[0]) - float(pair.d0[0]) == 256
    assert pair.d0.dtype == np.int64


def test_missing_values_stand_against_one_value():
    first = pairs_for(Records(1000, missing=True))[0]
    assert np.isnan(first.d0).sum() == 999 and np.nanmax(first.d1) == 1
    assert any(
        np.isnan(pair.d0).sum() == 1 and not np.isnan(pair.d1).any()
        for pair in pairs_for(Records(10, missing=True))[:6]
    )


def test_one_label_turned_over_in_a_crowd():
    pairs = [p for p in pairs_for(Rows(2, labels=(0, 1))) if "label flipped, low" in p.why]
    changed = [
        sorted(d[:, 1].tolist()) for p in pairs for d in (p.d0, p.d1) if np.all(d[:, 0] == 0)
    ]
    assert [0, 0] in changed and [0, 1] in changed


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Counts(1, 0, 2**63), "high must be a 64-bit whole number"),
        (lambda: Counts(1, 5, 5), "high must exceed low"),
        (lambda: Rows(3, ((1, 0),)), "features must be intervals"),
        (lambda: Rows(3, ((0, math.nan),)), "features must be a finite number"),
        (lambda: Rows(3, ()), "must name a column"),
        (lambda: Rows(0), "size must be"),
    ],
)
def test_domains_that_are_none(make, text):
    with pytest.raises(InvalidArgument, match=text):
        make()
