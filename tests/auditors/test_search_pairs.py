"""The pair that betrays most is found from the domain, n and the mechanism alone."""

import math

import numpy as np
import pytest

from dpwitness.auditors.pairs.exploration import simplify_pair
from dpwitness.auditors.pairs.search import search
from dpwitness.auditors.privacy_loss.search import worst_output
from dpwitness.benchmarks.white_box import searched
from dpwitness.mechanisms import (
    Answers,
    ApproxDP,
    ConvergenceError,
    ConvexObjectivePerturbation,
    Costs,
    Counts,
    InvalidArgument,
    LabelledBall,
    LabelledVectors,
    Laplace,
    LogisticObjectivePerturbation,
    Loss,
    Pair,
    PrivateFTRL,
    PrivateRidge,
    PureDP,
    Records,
    Rows,
    SimplexSampling,
    zoo,
)
from dpwitness.mechanisms.papers.convex import QuadraticPenalty

SHORT = {"evaluations": 800, "seconds": 20.0}


def best(mechanism, **options):
    found = search(mechanism, mechanism.domain, mechanism.claim, **{**SHORT, **options})
    return found[0]


def test_what_was_found_can_be_evaluated_again():
    """CM-06 at d = 1: the value is that of the pair. The figures themselves are rows of `dpwitness bench white-box`."""
    mechanism, pair, value = searched("CM08 Algorithm 2, d=1, n=1")
    assert worst_output(mechanism, pair).loss == pytest.approx(value, abs=1e-6)


def test_crowds_of_common_records_are_found_and_kept_simple():
    """CM-06 at d = 2: ten million records, of which few differ."""
    _, pair, _ = searched("CM08 Algorithm 2, d=2, n free")
    assert pair.d0.n == 10**7 and len(pair.d0) <= 5


@pytest.mark.benchmark
def test_objective_perturbation_in_two_dimensions_at_length():
    mechanism = LogisticObjectivePerturbation(0.1, 0.1 / 10**7, dimension=2, records=10**7)
    _, value = best(mechanism, evaluations=20_000, seconds=60.0)
    assert 1.326 <= value <= mechanism.truth.parameter + 1e-9


def test_printed_noise_has_no_epsilon():
    """W1, and the point is the minimiser: the search ends there."""
    mechanism, pair, value = searched("CM08 Algorithm 1, printed noise, d=2")
    assert value == math.inf and worst_output(mechanism, pair).kind == "singularity"


def test_jacobian_of_the_general_theorem():
    """CM-07 (b): log(1 + kappa a/Lam) at a = 10, for a loss against none."""
    loss = Loss("log-cosh", width=0.1)
    mechanism = ConvexObjectivePerturbation(1.0, 1.0, loss, QuadraticPenalty(1.0), noise="laplace_radius_scale", dimension=1)
    _, value = best(mechanism)
    assert value >= 2.398 - 1e-3


def test_ridge_tail():
    """MN-03 (a)."""
    assert best(PrivateRidge(1.0, 0.1, 1.0, 1.0, 1, 3))[1] == math.inf


def test_rare_coordinate_of_the_simplex():
    """JT-10: 4 L R/lambda per draw is approached as common records make one coordinate rare."""
    mechanism = SimplexSampling(1.0, 4.0, Loss("linear"), dimension=2, records=100, draws=1)
    _, value = best(mechanism)
    assert 0.95 <= value <= 1 + 1e-9


def test_leader_of_linear_costs():
    """JT-15: every round after the first moves by 2R/lambda in the log-odds; held at a baseline by as much again."""
    mechanism = PrivateFTRL(1.0, 1e-5, 1.0, 2, 6)
    _, value = best(mechanism)
    symmetric = 5 * 2 / mechanism.regularization
    assert symmetric * (1 - 1e-9) <= value <= 2 * symmetric


@pytest.mark.parametrize("name", ["randomized-response", "noisy-max", "truncated-geometric", "rappor"])
def test_correct_specimens_are_never_above_their_claim(name):
    specimen = zoo()[name]
    _, value = best(specimen)
    assert value <= specimen.truth.parameter * (1 + 1e-9)
    assert value >= 0.95 * specimen.truth.parameter


WRONG = ["prefix-sums-uncalibrated", "histogram-one-count", "noisy-max-value"]
SLOW = [pytest.param(name, marks=pytest.mark.benchmark) for name in ("svt3", "broken-svt")]


@pytest.mark.parametrize("name", [*WRONG, *SLOW])
def test_wrong_specimens_are_found_out(name):
    """All of the violation, not only some."""
    specimen = zoo()[name]
    _, value = best(specimen, evaluations={"svt3": 1500, "broken-svt": 1500}.get(name, 600), seconds=60.0)
    assert value == pytest.approx(specimen.truth.parameter, rel=1e-6)


def test_score_of_ones_own():
    """A black-box score sees pairs only: the largest sum of differences of five answers."""
    found = search(None, Answers(5), PureDP(1.0), score=lambda p: float(np.sum(p.d1 - p.d0)), **SHORT)
    assert found[0][1] == pytest.approx(5.0)
    assert found == sorted(found, key=lambda row: -row[1])


def test_approximate_claims_are_ranked_by_samples():
    """The shift of 1 is the worst; the estimate at delta = 1e-3 is near the exact epsilon of that Gaussian."""
    specimen = zoo()["gaussian"]
    found = search(specimen, specimen.domain, ApproxDP(1.0, 1e-3), **SHORT)
    assert abs(float(found[0][0].d0[0] - found[0][0].d1[0])) == pytest.approx(1.0)
    assert 0.4 < found[0][1] < 0.8


def test_the_same_seed_finds_the_same():
    mechanism = LogisticObjectivePerturbation(0.1, 0.1, dimension=1)
    first, second = (search(mechanism, mechanism.domain, mechanism.claim, evaluations=400, seconds=300.0, seed=5) for _ in range(2))
    assert [value for _, value in first] == [value for _, value in second]


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        (
            "anything",
            "domain must be one of Answers, Costs, Counts, Events, Graph, LabelledBall, Records, Rows, Table, Texts or a Relation",
        ),
        (None, "Table, Texts or a Relation, got None"),
        (Records, "Table, Texts or a Relation, got <class"),
    ],
)
def test_what_is_no_domain_is_refused(domain, message):
    with pytest.raises(InvalidArgument, match=message):
        search(Laplace(1.0), domain, PureDP(1.0))


def test_rows_and_counts_are_searched():
    """A product of two features at the corner; the largest step in the square root of a count, from zero."""
    found = search(
        None, Rows(3, ((0.0, 1.0), (0.0, 2.0))), PureDP(1.0), score=lambda p: float(np.ptp([*p.d0.prod(axis=1), *p.d1.prod(axis=1)]))
    )
    assert found[0][1] == pytest.approx(2.0)
    found = search(None, Counts(2, 0, 1000), PureDP(1.0), score=lambda p: float(np.abs(np.sqrt(p.d0) - np.sqrt(p.d1)).sum()), **SHORT)
    assert found[0][1] == pytest.approx(1.0)


def test_black_boxes_are_ranked_by_what_a_pilot_certifies():
    """Noise that shrinks where the sum is large: the worst pair moves a record among others that stand at the top."""

    def run(dataset, size, rng):
        total = float(np.sum(dataset))
        return total + rng.laplace(0.0, 1.0 if total < 2.5 else 0.4, size)

    (pair, value), *others = search(run, Records(3), PureDP(1.0), **SHORT)
    assert min(pair.d0.sum(), pair.d1.sum()) < 2.5 < max(pair.d0.sum(), pair.d1.sum())
    assert value > 1.3 and all(value >= other for _, other in others)
    with pytest.raises(InvalidArgument, match="mechanism must have log_density, or be callable"):
        search(object(), Records(1), PureDP(1.0))
    with pytest.raises(InvalidArgument, match="mechanism returned 3 outputs for size = 1000"):
        search(lambda d, n, rng: [0.0] * 3, Records(1), PureDP(1.0))


def test_unconverged_pairs_are_skipped():
    """A score that fails on half of the pairs still has its maximum found on the others."""

    def score(pair):
        if pair.d0[0] < pair.d1[0]:
            raise ConvergenceError("no")
        return float(pair.d0[0] - pair.d1[0])

    assert search(None, Records(1), PureDP(1.0), score=score, **SHORT)[0][1] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "domain",
    [
        LabelledBall(1, 1),
        LabelledBall(3, 10**6, (-10, 0, 10), 2.0),
        LabelledBall(3, 50, (-1, 1), 2.0, norm="linf"),
        LabelledBall(2, 7, (-1, 1), relation="add-remove"),
        Answers(4, relation="l2"),
        Answers(4, 0.0, 1.0, relation="l1"),
        Records(30, -1.0, 1.0),
        Records(5, 0.0, 9.0, integer=True, relation="add-remove"),
        Costs(8, 3, 2.0),
        Counts(5, 0, 2**60),
        Counts(3, -4, 4, relation="linf"),
        Rows(9, ((0.0, 1.0), (-5.0, 5.0)), (0, 1, 2)),
        Rows(12, ((0.0, 1.0),), (0, 1), every_label=True),
        Rows(4, ((2.0, 3.0),), relation="add-remove"),
    ],
)
def test_every_layout_decodes_to_pairs_of_the_domain(domain):
    """Random points, all layouts: nearly every one is a pair, and the pair lies in the domain."""
    rng = np.random.default_rng(0)
    pairs = 0
    for turn in range(6):
        shape = domain.shape(rng, turn)
        for _ in range(50):
            pair = shape.decode(3 * rng.standard_normal(shape.size))
            if pair is None:
                continue
            pairs += 1
            assert domain.holds(pair)
    assert pairs > 200


@pytest.mark.parametrize("domain", [LabelledBall(2, 1), LabelledBall(1, 100), LabelledBall(4, 10**9, (-3, 0, 3), norm="linf")])
def test_labelled_catalogue_stays_in_its_domain(domain):
    for pair in domain.catalogue():
        assert pair.d0.n == pair.d1.n == domain.size
        order = 2 if domain.norm == "l2" else np.inf
        assert max(np.linalg.norm(d.x, order, axis=1).max() for d in (pair.d0, pair.d1)) <= domain.radius
        assert set(np.concatenate([pair.d0.y, pair.d1.y])) <= set(map(float, domain.labels))


def test_cost_catalogue_replaces_one_cost():
    pairs = list(Costs(5, 3, 2.0).catalogue())
    assert all(np.sum(np.any(p.d0.x != p.d1.x, axis=1)) == 1 for p in pairs)
    assert max(np.abs(p.d0.x).max() for p in pairs) == 2.0


def test_witness_is_made_simple():
    """Common records that do nothing go, digits that do nothing too."""
    rows = [[0.987654321, 0.123], [0.3, 0.3], [0.0, 0.0]]
    d0, d1 = (LabelledVectors([[first, 0.123], *rows[1:]], [1, 1, 1], [1, 37, 62]) for first in (0.987654321, -0.3))
    pair = simplify_pair(LabelledBall(2, 100), Pair(d0, d1), lambda p: float(np.abs(p.d0.x).max()), 0.85, seconds=10.0)
    assert pair.d0 == LabelledVectors([[0.9, 0.0], [0.0, 0.0]], [1, 1], [1, 99]) or np.abs(pair.d0.x).max() in (0.9, 1.0)
    assert len(pair.d0.merged()) == 2
