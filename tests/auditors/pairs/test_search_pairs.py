"""The pair that betrays most is found from the domain, n and the mechanism alone."""

import math

import numpy as np
import pytest

from dpwitness import mechanisms as m
from dpwitness.auditors.search.exploration import simplify_pair
from dpwitness.auditors.search.search import search
from dpwitness.benchmarks.white_box import searched
from dpwitness.mechanisms.papers.logistic import QuadraticPenalty

SHORT = {"evaluations": 800, "seconds": 20.0}


def best(mechanism, **options):
    found = search(mechanism, mechanism.domain, mechanism.claim, **{**SHORT, **options})
    return found[0]


@pytest.mark.slow
def test_crowds_of_common_records_are_found_and_kept_simple():
    """CM-06 at d = 2: ten million records, of which few differ."""
    _, pair, _ = searched("CM08 Algorithm 2, d=2, n free")
    assert pair.d0.n == 10**7 and len(pair.d0) <= 5


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


SCORES = {  # domain, a score of pairs, its largest value
    "differences of five answers": (m.Answers(5), lambda p: np.sum(p.d1 - p.d0), 5.0),
    "a product of two features": (
        m.Rows(3, ((0.0, 1.0), (0.0, 2.0))),
        lambda p: np.ptp([*p.d0.prod(axis=1), *p.d1.prod(axis=1)]),
        2.0,
    ),
    "square roots of counts": (
        m.Counts(2, 0, 1000),
        lambda p: np.abs(np.sqrt(p.d0) - np.sqrt(p.d1)).sum(),
        1.0,
    ),
}


@pytest.mark.parametrize("name", SCORES)
def test_the_largest_score_is_found(name):
    domain, score, largest = SCORES[name]
    found = search(None, domain, m.PureDP(1.0), score=lambda pair: float(score(pair)), **SHORT)
    assert found[0][1] == pytest.approx(largest)
    assert found == sorted(found, key=lambda row: -row[1])


def test_approximate_claims_are_ranked_by_samples():
    """The shift of 1 is the worst; the estimate at delta = 1e-3 is near the exact epsilon of that
    Gaussian.
    """
    specimen = m.zoo()["gaussian"]
    found = search(specimen, specimen.domain, m.ApproxDP(1.0, 1e-3), **SHORT)
    assert abs(float(found[0][0].d0[0] - found[0][0].d1[0])) == pytest.approx(1.0)
    assert 0.4 < found[0][1] < 0.8


@pytest.mark.slow
def test_the_same_seed_finds_the_same():
    mechanism = m.LogisticObjectivePerturbation(0.1, 0.1, dimension=1)
    first, second = (
        search(mechanism, mechanism.domain, mechanism.claim, evaluations=400, seconds=300.0, seed=5)
        for _ in range(2)
    )
    assert [value for _, value in first] == [value for _, value in second]


@pytest.mark.slow
def test_black_boxes_are_ranked_by_what_a_pilot_certifies():
    """Noise that shrinks where the sum is large: the worst pair moves a record among others that
    stand at the top.
    """

    def run(dataset, size, rng):
        total = float(np.sum(dataset))
        return total + rng.laplace(0.0, 1.0 if total < 2.5 else 0.4, size)

    (pair, value), *others = search(run, m.Records(3), m.PureDP(1.0), **SHORT)
    assert min(pair.d0.sum(), pair.d1.sum()) < 2.5 < max(pair.d0.sum(), pair.d1.sum())
    assert value > 1.3 and all(value >= other for _, other in others)
    with pytest.raises(m.InvalidArgument, match="mechanism must have log_density, or be callable"):
        search(object(), m.Records(1), m.PureDP(1.0))
    with pytest.raises(m.InvalidArgument, match="mechanism returned 3 outputs for size = 1000"):
        search(lambda d, n, rng: [0.0] * 3, m.Records(1), m.PureDP(1.0))


def test_witness_is_made_simple():
    """Common records that do nothing go, digits that do nothing too."""
    rows = [[0.987654321, 0.123], [0.3, 0.3], [0.0, 0.0]]
    d0, d1 = (
        m.LabelledVectors([[first, 0.123], *rows[1:]], [1, 1, 1], [1, 37, 62])
        for first in (0.987654321, -0.3)
    )
    pair = simplify_pair(
        m.LabelledBall(2, 100),
        m.Pair(d0, d1),
        lambda p: float(np.abs(p.d0.x).max()),
        0.85,
        seconds=10.0,
    )
    assert pair.d0 == m.LabelledVectors([[0.9, 0.0], [0.0, 0.0]], [1, 1], [1, 99]) or np.abs(
        pair.d0.x
    ).max() in (0.9, 1.0)
    assert len(pair.d0.merged()) == 2
