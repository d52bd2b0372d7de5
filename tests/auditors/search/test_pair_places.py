"""Places of changed records in pairs, and the search: the pair that betrays most is found from the
domain, n and the mechanism alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpwitness import mechanisms as m
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.search.maximize import shrunk
from dpwitness.auditors.search.search import search
from dpwitness.core.domains.base import PLACES, changed_row_index
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.mechanisms import Answers, Costs, Counts, LabelledBall, Pair, Records, Rows
from dpwitness.mechanisms.papers.logistic import QuadraticPenalty

DOMAINS = [
    Rows(9, ((0, 1), (-2, 2)), (0, 1)),
    Rows(9, ((0, 1),), relation="add-remove"),
    Records(9),
    Records(9, 0, 20, integer=True),
    Records(9, 0, 20, categories=True),
    Records(9, relation="add-remove"),
    LabelledBall(2, 9),
    LabelledBall(3, 10**9, (-1, 0, 1), relation="add-remove", norm="linf"),
    Costs(9, 3, 1.0),
    Answers(9, relation="l1"),
    Counts(9),
]


def table(dataset):
    """Records of a dataset, one a row, as they are stored."""
    if hasattr(dataset, "x"):
        return np.column_stack([dataset.x, *([dataset.y] if hasattr(dataset, "y") else [])])
    dataset = np.asarray(dataset, dtype=float)
    return dataset[:, None] if dataset.ndim == 1 else dataset


def place_of(pair):
    shorter, longer = sorted((table(pair.d0), table(pair.d1)), key=len)
    return changed_row_index(longer, shorter), longer


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_the_changed_record_stands_first_in_the_middle_and_last_early_on(domain):
    """Within the dozen pairs that a short audit gets to; and twice the catalogue is the same."""
    pairs = pairs_for(domain)
    seen = set()
    for pair in pairs[:12]:
        at, rows = place_of(pair)
        seen.add("first" if at == 0 else "last" if at == len(rows) - 1 else "in the middle")
    assert seen == {name for name, _ in PLACES}
    assert [to_jsonable(p.d0) for p in pairs] == [to_jsonable(p.d0) for p in pairs_for(domain)]
    assert len(pairs) <= 80


@pytest.mark.parametrize(
    "domain", [DOMAINS[0], DOMAINS[6], LabelledBall(1, 10**6, (-2, 0, 2))], ids=str
)
def test_crowds_of_mixed_labels_stand_around_each_place_early_on(domain):
    """First, middle and last, the label or the features of the changed record turned over, corners
    and interior.
    """
    mixed = set()
    for pair in pairs_for(domain)[:20]:
        at, rows = place_of(pair)
        crowd = np.delete(rows, at, axis=0)
        changed = table(pair.d0)[at] != table(pair.d1)[at]
        if len(set(crowd[:, -1])) > 1 and len(np.unique(crowd, axis=0)) > 3:
            mixed.add(("label" if changed[-1] else "features", min(at, 1) + (at == len(rows) - 1)))
    assert mixed == {(what, where) for what in ("label", "features") for where in (0, 1, 2)}


def test_pairs_of_one_record_have_one_place():
    assert all(len(p.d0) == 1 for p in pairs_for(Records(1)))
    pair = Records(2, relation="add-remove").draws(np.random.default_rng(0))(0)
    assert isinstance(pair, Pair) and {len(pair.d0), len(pair.d1)} == {1, 2}


SHORT = {"evaluations": 800, "seconds": 20.0}


def best(mechanism, **options):
    found = search(mechanism, mechanism.domain, mechanism.claim, **{**SHORT, **options})
    return found[0]


FTRL = m.PrivateFTRL(1.0, 1e-5, 1.0, 2, 6)
# every round after the first moves by 2R/lambda in the log-odds
SHIFT = 5 * 2 / FTRL.regularization
PAPERS = {  # mechanism, least and largest value
    "CM-07 (b), log(1 + kappa a/Lam) at a = 10": (
        m.ConvexObjectivePerturbation(
            1.0,
            1.0,
            m.Loss("log-cosh", width=0.1),
            QuadraticPenalty(1.0),
            noise="laplace_radius_scale",
            dimension=1,
        ),
        2.398 - 1e-3,
        math.inf,
    ),
    "MN-03 (a), the tail of ridge": (m.PrivateRidge(1.0, 0.1, 1.0, 1.0, 1, 3), math.inf, math.inf),
    "JT-10, a rare coordinate": (
        m.SimplexSampling(1.0, 4.0, m.Loss("linear"), dimension=2, records=100, draws=1),
        0.95,
        1 + 1e-9,
    ),
    "JT-15, held at a baseline by as much again": (FTRL, SHIFT * (1 - 1e-9), 2 * SHIFT),
}


@pytest.mark.slow
@pytest.mark.parametrize("claim", PAPERS)
def test_worst_pairs_of_papers_are_found(claim):
    mechanism, least, most = PAPERS[claim]
    assert least <= best(mechanism)[1] <= most


@pytest.mark.slow_cases("noisy-max", "rappor")
@pytest.mark.parametrize(
    "name", ["randomized-response", "noisy-max", "truncated-geometric", "rappor"]
)
def test_correct_specimens_are_never_above_their_claim(name):
    specimen = m.zoo()[name]
    _, value = best(specimen)
    assert value <= specimen.truth.parameter * (1 + 1e-9)
    assert value >= 0.95 * specimen.truth.parameter


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["prefix-sums-uncalibrated", "histogram-one-count", "noisy-max-value"]
)
def test_wrong_specimens_are_found_out(name):
    """All of the violation, not only some."""
    specimen = m.zoo()[name]
    _, value = best(specimen, evaluations=600, seconds=60.0)
    assert value == pytest.approx(specimen.truth.parameter, rel=1e-6)


def test_witness_is_made_simple():
    """Common records that do nothing go, digits that do nothing too."""
    rows = [[0.987654321, 0.123], [0.3, 0.3], [0.0, 0.0]]
    d0, d1 = (
        m.LabelledVectors([[first, 0.123], *rows[1:]], [1, 1, 1], [1, 37, 62])
        for first in (0.987654321, -0.3)
    )
    pair = shrunk(
        m.Pair(d0, d1),
        m.LabelledBall(2, 100).simpler,
        lambda p: float(np.abs(p.d0.x).max()) >= 0.85,
        lambda: False,
    )
    assert pair.d0 == m.LabelledVectors([[0.9, 0.0], [0.0, 0.0]], [1, 1], [1, 99]) or np.abs(
        pair.d0.x
    ).max() in (0.9, 1.0)
    assert len(pair.d0.merged()) == 2
