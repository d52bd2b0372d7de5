"""Every source of pairs stays in its domain: catalogue, search and simplifier, over
domains that Hypothesis makes up.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dpwitness.auditors.checks.run_checks import special_pairs
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.search.maximize import shrunk
from dpwitness.mechanisms import (
    Answers,
    Costs,
    Counts,
    InvalidArgument,
    LabelledBall,
    LabelledVectors,
    LinearCosts,
    Pair,
    Records,
    Rows,
)

ends = (
    st.floats(-1e308, 1e308)
    | st.integers(-20, 20).map(float)
    | st.floats(-50, 50)
    | st.sampled_from([0.5, 3.7, 0.0, 2.0**53, -1e-310])
)
sizes = st.integers(1, 12)
flags = st.booleans()
changes = st.sampled_from(["replace-one", "add-remove"])
norms = st.sampled_from(["l1", "l2", "linf"])
labels = st.lists(st.integers(-3, 3), min_size=1, max_size=4).map(tuple)
columns = st.sets(st.integers(0, 2)).map(tuple)
whole = st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-9, 9)


@st.composite
def features(draw):
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=3))
    return tuple((min(pair), max(pair)) for pair in pairs)


BOUNDS = {"low": ends, "high": ends}
KINDS = {"relation": changes, "outside": flags}
DOMAINS = {
    Answers: {"length": sizes, "relation": norms, **BOUNDS},
    Counts: {"length": sizes, "low": whole, "high": whole, "relation": norms},
    Records: {
        "size": sizes,
        "integer": flags,
        "missing": flags,
        "categories": flags,
        "infinite": flags,
        **BOUNDS,
        **KINDS,
    },
    Rows: {
        "size": sizes,
        "features": features(),
        "labels": labels | st.just(()),
        "every_label": flags,
        "integer": columns,
        "categories": columns,
        **KINDS,
    },
    LabelledBall: {
        "dimension": st.integers(1, 4),
        "size": sizes | st.integers(1, 10**15),
        "labels": labels,
        "radius": st.floats(1e-300, 1e300) | st.floats(0.1, 10),
        "relation": changes,
        "norm": st.sampled_from(["l2", "linf"]),
    },
    Costs: {
        "length": sizes,
        "dimension": st.integers(1, 4),
        "bound": st.floats(5e-324, 1e300) | st.floats(0.1, 10),
    },
}


@st.composite
def domains(draw, kind):
    options = {name: draw(values) for name, values in DOMAINS[kind].items()}
    if "low" in options and options["low"] > options["high"]:
        options["low"], options["high"] = options["high"], options["low"]
    try:
        return kind(**options)
    except InvalidArgument as error:  # empty, without neighbours, or narrower than a step
        assume(str(error) == "")


def inside(domain, dataset):
    """What the docstrings of the domains say, written once more."""
    if isinstance(domain, LabelledBall):
        order = 2 if domain.norm == "l2" else np.inf
        scale = np.abs(dataset.x).max() or 1.0
        lengths = [scale * np.linalg.norm(row / scale, order) for row in dataset.x]
        few = dataset.n == domain.size or (
            domain.relation == "add-remove" and 1 <= dataset.n < domain.size
        )
        return (
            few
            and max(lengths) <= domain.radius * (1 + 1e-15)
            and set(dataset.y) <= set(domain.labels)
        )
    if isinstance(domain, Costs):
        return (
            dataset.x.shape == (domain.length, domain.dimension)
            and np.abs(dataset.x).max() <= domain.bound
        )
    if isinstance(domain, Answers | Counts):
        kind, least, most = (
            "f" if isinstance(domain, Answers) else "i",
            dataset.min(),
            dataset.max(),
        )
        return (
            dataset.shape == (domain.length,)
            and dataset.dtype.kind == kind
            and domain.low <= least
            and most <= domain.high
        )
    if not (
        len(dataset) == domain.size
        or (domain.relation == "add-remove" and len(dataset) < domain.size)
    ):
        return False
    if isinstance(domain, Records):
        values = [v for v in dataset.tolist() if not math.isnan(v)]
        bounded = domain.outside or all(
            domain.low <= v <= domain.high or (domain.infinite and math.isinf(v)) for v in values
        )
        known = domain.missing or len(values) == len(dataset)
        return (
            bounded
            and known
            and (
                not (domain.integer or domain.categories) or all(v == math.floor(v) for v in values)
            )
        )
    table = dataset.tolist()
    k = len(domain.features)
    bounded = domain.outside or all(
        low <= v <= high
        for row in table
        for v, (low, high) in zip(row, domain.features, strict=False)
    )
    found = {row[k] for row in table} if domain.labels else set()
    bounded &= all(
        row[c] == math.floor(row[c]) for row in table for c in {*domain.integer, *domain.categories}
    )
    return (
        bounded
        and found <= set(domain.labels)
        and (not domain.every_label or found == set(domain.labels))
    )


def neighbours(domain, pair):
    """One record, or a step of at most 1."""
    d0, d1 = pair.d0, pair.d1
    if isinstance(domain, LabelledBall):
        gone, new = d0.counts() - d1.counts(), d1.counts() - d0.counts()
        return sorted([gone.total(), new.total()]) == (
            [1, 1] if domain.relation == "replace-one" else [0, 1]
        )
    if isinstance(domain, Costs):
        return np.sum(np.any(d0.x != d1.x, axis=1)) == 1
    if isinstance(domain, Answers | Counts):
        steps = [
            abs(Fraction(a) - Fraction(b)) for a, b in zip(d0.tolist(), d1.tolist(), strict=True)
        ]
        far = {"l1": sum, "l2": lambda v: math.sqrt(sum(s * s for s in v)), "linf": max}[
            domain.relation
        ](steps)
        return (
            far <= 1
            if isinstance(domain, Counts)
            else far <= 1 + 1e-15 * (len(d0) + sum(map(abs, d0.tolist())))
        )
    if domain.relation == "add-remove":
        return abs(len(d0) - len(d1)) == 1
    return sum(a.tobytes() != b.tobytes() for a, b in zip(d0, d1, strict=True)) == 1


def good(domain, pair):
    assert domain.holds(pair)
    assert (
        pair.relation == domain.relation
        and inside(domain, pair.d0)
        and inside(domain, pair.d1)
        and neighbours(domain, pair)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", DOMAINS)
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_source_of_pairs_stays_in_the_domain(kind, data):
    domain = data.draw(domains(kind))
    catalogue = pairs_for(domain)
    for pair in catalogue:
        good(domain, pair)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape = domain.shape(rng, data.draw(st.integers(0, 5)))
    found = [
        pair
        for pair in (
            *(shape.decode(2 * rng.standard_normal(shape.size)) for _ in range(8)),
            *(shape.decode(rng.choice([0.0, 1.25, -0.625], shape.size)) for _ in range(4)),
        )
        if pair is not None
    ]
    for pair in found:
        good(domain, pair)
    for pair in (catalogue[-1], *found[:2]):

        def keeps(candidate):
            good(domain, candidate)
            return rng.random() >= 0.5

        steps = iter(range(200))
        good(
            domain,
            shrunk(pair, domain.simpler, keeps, lambda steps=steps: next(steps, None) is None),
        )
    if isinstance(catalogue[0].d0, np.ndarray) and catalogue[0].d0.dtype.kind == "f":
        for pair in special_pairs(domain, catalogue[0]):
            good(domain, pair)


@pytest.mark.parametrize(
    ("domain", "right", "wrong"),
    [
        (
            Answers(2, 0.0, 4.0),
            [np.array([0.0, 4.0]), [1, 2.5]],
            [np.array([0.0, 4.1]), np.zeros(3), "ab", np.array([0.0, np.nan]), np.zeros((2, 1))],
        ),
        (
            Counts(2, 0, 2**60),
            [np.array([0, 2**60]), [0, 5]],
            [np.array([0.0, 1.0]), np.array([0, 2**60 + 1]), [True, 1], np.array([0])],
        ),
        (
            Records(2, 0.5, 3.7, integer=True),
            [np.array([1.0, 3.0]), [1, 2]],
            [np.array([0.5, 1.0]), np.array([4.0, 1.0]), np.ones(1), 1.0],
        ),
        (
            Records(2, missing=True),
            [np.array([np.nan, 1.0])],
            [np.array([2.0, 1.0]), np.array([np.inf, 0.0])],
        ),
        (Records(2, outside=True), [np.array([9.0, 1.0])], [np.array([np.nan, 1.0])]),
        (
            Records(2, infinite=True),
            [np.array([np.inf, 1.0]), np.array([-np.inf, np.inf])],
            [np.array([np.nan, 1.0]), np.array([2.0, 1.0])],
        ),
        (Records(2, relation="add-remove"), [np.ones(2), np.ones(1), np.ones(0)], [np.ones(3)]),
        (
            Rows(2, ((0, 1),), (0, 1), every_label=True),
            [np.array([[0.5, 0], [1, 1]])],
            [np.zeros((2, 2)), np.array([[2.0, 0], [1, 1]])],
        ),
        (
            Rows(2, ((0, 1),), (0, 1)),
            [np.zeros((2, 2))],
            [np.zeros((1, 2)), np.full((2, 2), 0.5), np.zeros(2), [[0, 0], [0, 0]]],
        ),
        (
            Rows(1, ((0, 1), (0.5, 3.5), (-1, 1)), integer=(1,), categories=[2]),
            [np.array([[0.5, 1, -1]]), np.array([[0, 3, 0]])],
            [np.array([[0.5, 1, 0.5]]), np.array([[0.5, 1.5, 0]]), np.array([[0.5, 0, 0]])],
        ),
        (
            Records(1, 0.5, 3.5, categories=True),
            [np.array([3.0])],
            [np.array([1.5]), np.array([0.0])],
        ),
        (
            LabelledBall(2, 3),
            [
                LabelledVectors([[0.6, 0.8], [0, 0]], [1, -1], [1, 2]),
                LabelledVectors([[math.sqrt(0.5), math.sqrt(0.5)]], [1], [3]),
            ],
            [
                LabelledVectors([[0.6, 0.9]], [1], [3]),
                LabelledVectors([[0.6, 0.8]], [0], [3]),
                LabelledVectors([[0.6, 0.8]], [1]),
                np.ones(2),
            ],
        ),
        (
            Costs(1, 2, 0.5),
            [LinearCosts([[0.5, -0.5]])],
            [LinearCosts([[0.5, -0.6]]), LinearCosts([[0.5, 0.5], [0, 0]]), np.zeros((1, 2))],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_domain_contains(domain, right, wrong):
    assert all(domain.contains(dataset) for dataset in right)
    assert not any(domain.contains(dataset) for dataset in wrong)


def test_a_domain_holds_pairs_of_its_own_relation_and_bounds():
    domain = Records(2, 1.0, 2.0)
    assert domain.holds(Pair(np.array([1.0, 1.0]), np.array([1.0, 2.0])))
    assert not domain.holds(Pair(np.array([1.0, 0.0]), np.array([1.0, 2.0])))
    assert not domain.holds(Pair(np.array([1.0]), np.array([1.0, 2.0]), "add-remove"))
    assert domain.pair(np.array([1.0, 1.0]), np.array([2.0, 2.0]), "two records") is None
    assert domain.pair(np.ones(2), np.ones(2), "the same") is None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Records(1, 0.2, 0.8, integer=True),
            r"Records: low and high must enclose a whole number, got \[0.2, 0.8\]",
        ),
        (
            lambda: Records(1, 0.2, 1.8, integer=True),
            r"Records: low and high must allow a record to change, got \[0.2, 1.8\]",
        ),
        (
            lambda: Records(1, relation="l1"),
            "Records: relation must be one of 'replace-one', 'add-remove', got 'l1'",
        ),
        (lambda: Records(3, integer="yes"), "Records: integer must be True or False, got 'yes'"),
        (lambda: Rows(3, ((1.0, 1.0),)), "Rows: domain must allow a row to change"),
        (
            lambda: Rows(2, labels=(0, 1, 2), every_label=True),
            "size must allow neighbors that each have all 3 labels, got 2",
        ),
        (
            lambda: Rows(2, labels=(0, 1), every_label=True, relation="add-remove"),
            "size must allow neighbors that each have all 2 labels, got 2",
        ),
        (lambda: Rows(2, (), (0, 1), every_label=True), "Rows: domain must allow a row to change"),
        (
            lambda: Rows(2, ((0, 1), (0.2, 0.8)), integer=[1]),
            r"column 1 must enclose a whole number, got \(0.2, 0.8\)",
        ),
        (lambda: Rows(2, ((0.5, 1.5),), integer=[0]), "Rows: domain must allow a row to change"),
        (
            lambda: Rows(2, ((0, 1),), categories=[1]),
            "Rows: categories must name columns of features, counted from 0, of 1 columns, got 1",
        ),
        (
            lambda: Rows(2, ((0, 1),), integer=(0.5,)),
            "Rows: integer must be a whole number, at least 0, got 0.5",
        ),
        (lambda: Rows(2, ((0, 1),), integer=0), "Rows: integer must be a sequence, got 0"),
        (lambda: Records(2, categories=1), "Records: categories must be True or False, got 1"),
        (
            lambda: LabelledBall(2, 1, relation="add-remove"),
            "LabelledBall: size must be at least 2 under add-remove, got 1",
        ),
        (
            lambda: Answers(1, 2.0**60, 2.0**61),
            "Answers: low and high must contain floats that differ by exactly 1",
        ),
    ],
)
def test_domains_without_neighbours_are_refused_when_built(build, message):
    with pytest.raises(InvalidArgument, match=message):
        build()
