"""Claims: each notion has the curve of its definition, its conversions, and a text that is read back."""

import json
import math

import numpy as np
import pytest
from scipy.stats import norm

import dpwitness as dpw
from dpwitness import GDP, RDP, ZCDP, ApproxDP, InvalidArgument, Pair, PureDP, claims, parse_claim

PLAIN = {"bits": False, "trace": False, "causes": False}
RATES = np.array([1e-6, 1e-3, 0.02, 0.1, 0.3, 0.5, 0.8, 0.99])
EPSILONS = np.array([0.0, 0.3, 1.0, 2.5])
HALF = 1 / (1 + math.e)
RESPONSE = claims.TradeoffCurve([0, HALF, 1], [1, HALF, 0])  # randomized response, epsilon = 1


def gaussian_delta(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


CURVES = {  # claim: true-positive rate, and delta at epsilon, by hand
    "pure:1": (
        lambda q: np.minimum(math.e * q, 1 - (1 - q) / math.e),
        lambda e: np.maximum(0, (math.e - np.exp(e)) / (math.e + 1)),
    ),
    "approx:1,0.01": (
        lambda q: np.minimum(1, np.minimum(math.e * q + 0.01, 1 - (0.99 - q) / math.e)),
        lambda e: np.maximum(0.01, 0.01 + 0.99 * (math.e - np.exp(e)) / (math.e + 1)),
    ),
    "gdp:1.5": (lambda q: norm.sf(norm.isf(q) - 1.5), lambda e: gaussian_delta(1.5, e)),
}


@pytest.mark.parametrize("text", CURVES)
def test_a_claim_has_the_curve_of_its_definition(text):
    claim, (rate, delta) = parse_claim(text), CURVES[text]
    assert claim.tradeoff(RATES) == pytest.approx(rate(RATES), rel=1e-9)
    assert claim.delta(EPSILONS) == pytest.approx(delta(EPSILONS), rel=1e-6, abs=1e-12)


TEXTS = [
    "pure:1", "approx:1,0.01", "gdp:1.5", "zcdp:0.5", "rdp:2,1", "rdp:2=1,4=2.5", "group:2,pure:0.5",
    "group:3,gdp:0.5", "group:2,zcdp:0.1", "group:2,approx:0.5,1e-06", "dpsgd:0.25,1,1,0.001",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_test_on_the_curve_proves_the_parameter(text):
    """Each point of the curve is reached at the claim's own parameter and above it at no other."""
    claim = parse_claim(text).on(Pair(np.array([0.0]), np.array([1.0])))
    rates = np.array([0.1] if "zcdp" in text else [0.02, 0.1, 0.3])
    reached = claim.tradeoff(rates)
    assert claim.parameter_at(rates, reached) == pytest.approx(claim.parameter, rel=1e-3)
    assert np.all(claim.parameter_at(rates, reached - 0.01) < claim.parameter)
    wider = claim.with_parameter(1.5 * claim.parameter)
    assert np.all(wider.tradeoff(rates) > reached)


@pytest.mark.parametrize("text", TEXTS)
def test_a_claim_is_read_back_from_its_text(text):
    claim = parse_claim(text)
    assert parse_claim(str(claim)) == claim and str(claim) == text
    assert claim.numbers and claim.symbol


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("approx:1", r"did you mean approx:1,1e-5, .* or pure:1\?"),
        ("pure:1,1e-5", r"did you mean approx:1,1e-5\?"),
        ("eps:1,1e-5", r"did you mean approx:1,1e-5\?"),
        ("zdcp:1", r"did you mean zcdp:1\?"),
        ("approx:1,2,3", r"got 'approx:1,2,3'$"),
        ("zdcp:-1", r"got 'zdcp:-1'$"),
    ],
)
def test_a_text_that_resembles_a_claim_gets_a_hint(text, hint):
    with pytest.raises(InvalidArgument, match=hint):
        parse_claim(text)


@pytest.mark.parametrize(
    ("one", "other", "holds"),
    [
        ("pure:1", "approx:1,1e-9", True),
        ("approx:1,1e-9", "pure:1", False),
        ("pure:1", "pure:1.01", True),
        ("pure:1", "gdp:1", False),
        ("gdp:1", "pure:1", False),
        ("rdp:2=1,4=2", "rdp:2,1", True),
        ("rdp:2,1", "rdp:2=1,4=2", False),
        ("gdp:1", "approx:1,0.1269", False),
        ("gdp:1", "approx:1,0.12694", True),
    ],
)
def test_a_claim_implies_what_is_weaker(one, other, holds):
    one, other = parse_claim(one), parse_claim(other)
    assert one.implies(other) is holds and (one <= other) is holds
    assert (one < other) is (holds and not other.implies(one))


def test_an_epsilon_at_delta():
    assert GDP(1.0).epsilon_at(gaussian_delta(1.0, 2.0)) == pytest.approx(2.0, abs=1e-3)
    assert PureDP(1.0).epsilon_at(1e-9) == pytest.approx(1.0, abs=1e-6)


GROUPS = {
    "pure:0.5": (3, "pure:1.5"),
    "gdp:0.5": (3, "gdp:1.5"),
    "zcdp:0.1": (3, "zcdp:0.9"),
    "rdp:4,0.1": (2, "rdp:2,0.3"),
    "rdp:8,0.1": (3, "rdp:2,0.9"),
    "rdp:4=0.1,8=0.2": (2, "rdp:2=0.3,4=0.6"),
    "approx:1,1e-06": (2, "approx:2,3.71828e-06"),
    "approx:1,0.01": (1, "approx:1,0.01"),
}


@pytest.mark.parametrize("text", GROUPS)
def test_a_group_has_its_conversion(text):
    size, expected = GROUPS[text]
    assert str(parse_claim(text).group(size)) == expected
    assert str(claims.GroupDP(size, parse_claim(text)).on(None)) == expected


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2", 10**7])
def test_a_group_has_a_size(size):
    with pytest.raises(InvalidArgument, match="group"):
        PureDP(1.0).group(size)
    with pytest.raises(InvalidArgument):
        parse_claim("rdp:2,1").group(2)


FAR = Pair(np.array([0.0, 0.0]), np.array([3.0, 4.0]), relation="stated")


@pytest.mark.parametrize(
    ("claim", "on"),
    [
        (claims.MetricDP(0.5), "pure:3.5"),
        (claims.MetricDP(0.5, "l2"), "pure:2.5"),
        (claims.MetricDP(0.5, "linf"), "pure:2"),
        (claims.MetricDP(0.5, 3.0), "pure:1.5"),
        (claims.CoordinateDP((0.5, 1.0)), "pure:1.5"),
        (parse_claim("metric:0.5,l2"), "pure:2.5"),
        (parse_claim("percoordinate:0.5,0.25"), "pure:0.75"),
        (parse_claim("group:2,gdp:0.5"), "gdp:1"),
    ],
    ids=str,
)
def test_a_claim_of_a_pair(claim, on):
    assert str(claim.on(FAR)) == on
    assert parse_claim(str(claim)) == claim


def test_a_claim_of_a_pair_is_audited_as_what_it_is_there():
    def vector(dataset, size, rng):
        return np.sum(dataset) + rng.laplace(0.0, 1.0, size)

    pair = Pair(np.array([0.0, 0.0]), np.array([0.0, 2.0]), relation="stated")
    for text, verdict in (
        ("metric:1", "NOT_REFUTED"), ("metric:0.5", "VIOLATED"),
        ("percoordinate:0.1,2", "NOT_REFUTED"), ("percoordinate:2,0.5", "VIOLATED"),
    ):  # fmt: skip
        found = dpw.audit(vector, claim=text, pair=pair, trials=6_000, seed=1, **PLAIN)
        assert found.verdict.value == verdict, text
        assert (
            found.witness is None
            or dpw.replay(found.witness, mechanism=vector, trials=4_000, seed=2).verdict.value
            == "VIOLATED"
        )


# -- curves from files

FILES = {
    "points.csv": "alpha,beta\n0,1\n0.26894142,0.26894142\n1,0\n",
    "marked.csv": "\ufeffalpha, beta\n0,1\n0.26894142,0.26894142\n1,0\n",
    "bare.csv": "0,1\n0.26894142,0.26894142\n1,0\n",
    "lists.json": json.dumps({"alpha": [0, 0.26894142, 1], "beta": [1, 0.26894142, 0]}),
    "pairs.json": json.dumps([[0, 1], [0.26894142, 0.26894142], [1, 0]]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_curve_of_a_file_is_that_of_its_points(tmp_path, name):
    path = tmp_path / name
    path.write_text(FILES[name])
    claim = parse_claim(f"fdp:{path}")
    assert claim.tradeoff(RATES) == pytest.approx(PureDP(1.0).tradeoff(RATES), rel=1e-6)
    assert claim.parameter == 1.0
    assert claim.delta(np.array([0.0, 0.5])) == pytest.approx(
        PureDP(1.0).delta(np.array([0.0, 0.5])), rel=1e-5
    )


def test_a_curve_is_audited_and_its_witness_needs_no_file(tmp_path):
    path = tmp_path / "points.csv"
    path.write_text(FILES["points.csv"])

    def noisy(dataset, size, rng):
        return dataset[0] + rng.laplace(0.0, 0.6, size)

    pair = Pair(np.array([0.0]), np.array([1.0]))
    found = dpw.audit(noisy, claim=f"fdp:{path}", pair=pair, trials=20_000, seed=1, **PLAIN)
    assert found.verdict.value == "VIOLATED" and 1.2 < found.parameter_lower < math.exp(1 / 0.6 - 1)
    path.unlink()
    assert (
        dpw.replay(found.witness, mechanism=noisy, trials=20_000, seed=2).verdict.value
        == "VIOLATED"
    )


def test_a_curve_is_composed_for_groups():
    """Two responses with epsilon = 1 at once: the true-positive rate at p^2 is (1 - p)^2."""
    grouped = RESPONSE.group(2)
    assert float(grouped.tradeoff(HALF**2)) >= (1 - HALF) ** 2 - 1e-9
    assert RESPONSE.implies(PureDP(1.0 + 1e-9)) and not RESPONSE.implies(PureDP(0.99))


@pytest.mark.parametrize(
    ("alpha", "beta"),
    [
        ([0, 1], [1, 0.5]),
        ([0.1, 1], [0.9, 0]),
        ([0, 0.5, 1], [1, 0.7, 0]),
        ([0, 0.5, 1], [0.9, 0.95, 0]),
        ([0, 2], [1, 0]),
        ([0, math.nan, 1], [1, 0.5, 0]),
        ([0, 0.5, 1], [1, 0]),
        ([0], [1]),
    ],
)
def test_points_that_are_no_curve_are_refused(alpha, beta):
    with pytest.raises(InvalidArgument):
        claims.TradeoffCurve(alpha, beta)


def test_points_above_a_convex_curve_count_for_their_envelope():
    claim = claims.TradeoffCurve([0, 0.25, 0.5, 1], [1, 0.7, 0.2, 0])
    assert float(claim.tradeoff(0.25)) == pytest.approx(1 - 0.6) and claim.remark


# -- DP-SGD


def test_the_curve_of_dpsgd_is_that_of_its_accountant():
    """A step that takes every record is Gaussian noise of this multiplier, on two neighbors."""
    claim = parse_claim("dpsgd:1,2,4,0.001")
    assert claim.epsilon_at(1e-3) == pytest.approx(GDP(1.0).epsilon_at(1e-3), rel=0.02)
    assert parse_claim("dpsgd:0.25,1,1,0.001").parameter < ApproxDP(5.0, 1e-3).parameter
    curve = parse_claim("dpsgd:1,2,4")
    assert curve.parameter == 1.0
    assert float(curve.tradeoff(0.1)) == pytest.approx(float(GDP(1.0).tradeoff(0.1)), rel=0.02)


@pytest.mark.parametrize(
    "text", ["dpsgd:2,1,1", "dpsgd:0.1,0,1", "dpsgd:0.1,1,0", "dpsgd:0.1,1,1.5", "dpsgd:0.1,1,1,2"]
)
def test_a_training_that_cannot_be_is_refused(text):
    with pytest.raises(InvalidArgument):
        parse_claim(text)


def test_divergences_of_gaussian_noise():
    rate = 0.1
    assert ZCDP(0.5).tradeoff(rate) >= GDP(1.0).tradeoff(rate)
    assert RDP(2.0, 1.0).implies(RDP(2.0, 1.1)) and not RDP(2.0, 1.1).implies(RDP(2.0, 1.0))
