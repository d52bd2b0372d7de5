"""Claims as people have them: read, converted, resolved on pairs, and bad ones refused
in one line.
"""

import json
import math
import sys

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpwitness import mechanisms as m
from dpwitness.core.claims import exact_claim
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms import Pair, parse_claim

HALF = 1 / (1 + math.e)
TEXTS = [
    "pure:1", "approx:1,1e-05", "zcdp:0.5", "rdp:2,0.3", "rdp:2=0.3,4=0.7,8=1.6", "gdp:1", "dpsgd:0.01,1,1000", "dpsgd:0.01,1,1000,1e-05",
    "metric:1", "metric:0.5,2.5", "metric:0.5,l2", "percoordinate:0.5,1,2", "group:3,pure:0.5", "group:2,rdp:4=0.3,8=0.6",
]  # fmt: skip


@pytest.mark.slow_cases("zcdp:0.5")
@pytest.mark.parametrize("text", TEXTS)
def test_a_claim_is_read_back_from_its_text_its_spelling_and_its_numbers(text):
    claim = parse_claim(text)
    assert str(claim) == text and str(parse_claim(claim.spelled)) == text
    assert exact_claim(text, list(claim.numbers)) == claim == parse_claim(claim.spelled)


def test_digits_that_the_text_rounds_come_back_from_the_numbers():
    claim = m.RenyiCurve((2.0, 4.0), (0.3000000049, 0.7))
    assert str(claim) == "rdp:2=0.3,4=0.7" and exact_claim(
        str(claim), claim.numbers
    ) == claim != parse_claim(str(claim))
    with pytest.raises(InvalidArgument, match="must agree with claim_numbers"):
        exact_claim("rdp:2=0.3,4=0.7", [2.0, 0.4, 4.0, 0.7])


def file_of(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return f"fdp:{path}"


def test_a_curve_is_read_from_csv_and_json_and_stands_in_a_witness_without_its_file(tmp_path):
    rows = [[0, 1], [HALF, HALF], [1, 0]]
    csv = "\n".join(f"{a!r},{b!r}" for a, b in rows)
    found = [
        parse_claim(file_of(tmp_path, "a.csv", csv)),
        parse_claim(file_of(tmp_path, "b.csv", f"\ufeffalpha, beta\n{csv}\n")),
        parse_claim(file_of(tmp_path, "c.json", rows)),
        parse_claim(file_of(tmp_path, "d.json", {"alpha": [0, HALF, 1], "beta": [1, HALF, 0]})),
    ]
    assert len({claim.points for claim in found}) == 1 and str(found[0]) == "fdp:a.csv"
    assert exact_claim("fdp:gone.csv", found[0].numbers) == found[0]
    assert np.allclose(
        found[0].tradeoff(np.linspace(0, 1, 50)), m.PureDP(1.0).tradeoff(np.linspace(0, 1, 50))
    )


def test_the_hull_is_taken_and_said_and_the_curve_made_symmetric():
    # the second point lies above the straight line of its neighbours
    bent = m.TradeoffCurve([0, 0.2, 0.5, 1], [1, 0.75, 0.2, 0])
    assert (
        "1 of its 4 points lie above their lower convex envelope" in bent.remark
        and len(bent.points) == 3
    )
    assert "larger of the curve and its inverse" in bent.remark
    q = np.linspace(0, 1, 101)
    given = np.interp(q, [0, 0.5, 1], [0, 0.8, 1])
    assert np.all(bent.tradeoff(q) <= given + 1e-12) and np.any(bent.tradeoff(q) < given - 0.01)
    # its own mirror image
    assert np.allclose(1 - bent.tradeoff(1 - bent.tradeoff(q)), q, atol=1e-9)
    assert m.TradeoffCurve([0, HALF, 1], [1, HALF, 0]).remark == ""


def test_a_fine_curve_of_gdp_is_gdp():
    """Between 400 points the straight curve differs from Phi by less than 1e-3, and certified
    points ask for the same.
    """
    a = np.concatenate(
        [[0.0], np.geomspace(1e-7, 0.5, 200), 1 - np.geomspace(1e-7, 0.5, 200)[-2::-1], [1.0]]
    )
    curve, gdp = m.TradeoffCurve(a, ndtr(ndtri(1 - a) - 1.0)), m.GDP(1.0)
    q = np.linspace(0.001, 0.999, 300)
    assert np.abs(curve.tradeoff(q) - gdp.tradeoff(q)).max() < 1e-3
    # straight between points of a concave curve: below it
    assert np.all(curve.tradeoff(q) <= gdp.tradeoff(q) + 1e-12)
    assert np.abs(curve.parameter_at(q, gdp.tradeoff(q)) - 1).max() < 0.01
    eps = np.array([0.0, 0.5, 1.0, 2.0])
    assert np.abs(curve.delta(eps) - gdp.delta(eps)).max() < 1e-3


def test_the_factor_is_the_parameter_that_the_family_needs():
    curve = m.TradeoffCurve([0, 0.1, 0.4, 1], [0.95, 0.5, 0.15, 0])
    rng = np.random.default_rng(3)
    for factor in (1.0, 1.3, 4.0):
        q = rng.uniform(0.0, 0.9, 200)
        p = curve.with_parameter(factor).tradeoff(q)
        sharp = p < 1 - 1e-9
        assert np.allclose(curve.parameter_at(q[sharp], p[sharp]), factor, rtol=1e-9)


def test_dpsgd_is_the_curve_of_the_accountant():
    """Full batches are the Gaussian mechanism composed: sqrt(steps)/sigma - m.GDP."""
    curve, gdp = m.DPSGD(1.0, 4.0, 16), m.GDP(1.0)
    q = np.linspace(0.001, 0.999, 200)
    assert (
        np.all(curve.tradeoff(q) >= gdp.tradeoff(q) - 1e-9)
        and np.abs(curve.tradeoff(q) - gdp.tradeoff(q)).max() < 3e-3
    )
    at = parse_claim("dpsgd:1,4,16,1e-5")
    assert (
        isinstance(at, m.ApproxDP)
        and abs(float(gdp.delta(at.epsilon)) / 1e-5 - 1) < 0.01
        and "dp-accounting computes" in at.remark
    )


def test_groups_by_the_exact_conversions():
    assert m.ApproxDP(0.5, 1e-6).group(3) == m.ApproxDP(
        1.5, 1e-6 * math.expm1(1.5) / math.expm1(0.5)
    )
    assert (m.GDP(0.4).group(5), m.ZCDP(0.1).group(3), m.PureDP(1.0).group(1)) == (
        m.GDP(2.0),
        m.ZCDP(0.1 * 9),
        m.PureDP(1.0),
    )
    assert m.RDP(8.0, 0.1).group(4) == m.RDP(2.0, 0.1 * 9)  # Mironov 2017, Proposition 2 with c = 2
    q = np.linspace(0, 1, 101)
    a = np.linspace(0, 1, 101)
    fine = m.TradeoffCurve(a, ndtr(ndtri(1 - a) - 0.3))
    assert np.abs(fine.group(2).tradeoff(q) - fine.tradeoff(fine.tradeoff(q))).max() < 1e-9
    # of many corners, a curve above
    assert np.all(fine.group(9).tradeoff(q) >= fine.group(2).tradeoff(fine.tradeoff(q)) - 1e-9)
    assert np.abs(fine.group(3).tradeoff(q) - m.GDP(0.9).tradeoff(q)).max() < 0.02
    pure = m.TradeoffCurve([0, HALF, 1], [1, HALF, 0]).group(3)
    # the steps between say more than their sum of epsilons
    assert np.all(pure.tradeoff(q) <= m.PureDP(3.0).tradeoff(q) + 1e-12)
    assert (
        float(pure.tradeoff(0.01)) == pytest.approx(0.01 * math.exp(3))
        and float(pure.tradeoff(0.3)) < 0.97
    )


def test_what_is_promised_on_a_pair():
    far = Pair(np.array([0.0, 0.0]), np.array([3.0, 4.0]), relation="stated")
    assert [m.MetricDP(0.5, norm).on(far).epsilon for norm in ("l1", "l2", "linf", None, 2.0)] == [
        3.5,
        2.5,
        2.0,
        3.5,
        1.0,
    ]
    assert m.MetricDP(0.5).on(Pair([0.0, 0.0], [0.6, 0.6], relation="l2")).epsilon == pytest.approx(
        0.3 * math.sqrt(2)
    )
    budgets = m.CoordinateDP((0.5, 1.0, 2.0))
    pairs = [
        Pair([0.0, 0.0, 0.0], moved, relation="linf")
        for moved in ([1.0, 0.0, 0.0], [0.0, 0.5, 1.0])
    ]
    assert [budgets.on(pair).epsilon for pair in pairs] == [0.5, 3.0]
    assert m.GroupDP(2, m.GDP(0.5)).on(far) == m.GDP(1.0)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("fdp:", "claim must have the form fdp:FILE"),
        ("fdp:none.csv", "must be readable"),
        ("fdp:0=1,0.5=0.6,1=0", "beta must be at most 1 - alpha, got beta = 0.6 at alpha = 0.5"),
        ("fdp:0=1,0.2=0.3,0.5=0.4,1=0", "beta must not rise, got beta = 0.4 at alpha = 0.5"),
        ("fdp:0=1,0.5=-0.1,1=0", r"beta must lie in \[0, 1\], got -0.1"),
        ("fdp:0=1,0.5=nan,1=0", r"beta must lie in \[0, 1\], got nan"),
        ("fdp:0.1=0.8,1=0", "alpha must go from 0 to 1, got 0.1 to 1"),
        ("fdp:0=1,0.5=0.4,0.5=0.3,1=0", "alpha must contain each rate once"),
        ("fdp:0=0,1=0", "allows every test"),
        ("dpsgd:0.01,1", r"claim must have the form dpsgd:SAMPLING,NOISE,STEPS\[,DELTA\]"),
        ("dpsgd:2,1,10", r"sampling_probability must lie in \(0, 1\], got 2.0"),
        ("dpsgd:0.01,1,10.5", "steps must be a whole number"),
        ("dpsgd:1,0.01,1000", "cannot be refuted by runs"),
        ("dpsgd:0.01,1,1000,0", r"delta must lie in \(0, 1\)"),
        ("dpsgd:0.01,1e160,10", r"noise_multiplier must be at most 1e\+06, got 1e\+160"),
        (
            "dpsgd:0.01,1,10,0.99",
            "delta must give dpsgd:0.01,1,10 a positive and finite epsilon, got delta = 0.99 "
            "with epsilon = 0",
        ),
        ("metric:1e308,1e308", "epsilon times distance must be positive and finite, got inf"),
        ("rdp:2=0.3,2=0.4", "orders must be greater than 1 and rise"),
        ("rdp:1=0.3,2=0.4", "orders must be greater than 1 and rise"),
        ("rdp:2=0.3,4", "claim must have the form rdp:"),
        ("rdp:2=0.3,4=-1", "epsilons must be positive and finite, got -1.0"),
        ("metric:0", "epsilon must be positive and finite, got 0.0"),
        ("metric:1,l3", "distance must be one of 'l1', 'l2', 'linf', got 'l3'"),
        ("metric:1,-2", "distance must be positive and finite, got -2.0"),
        ("percoordinate:1,0", "epsilon must be positive and finite, got 0.0"),
        ("percoordinate:1e308,1e308", "sum of epsilons must be positive and finite, got inf"),
        ("percoordinate:", "claim must have the form percoordinate:"),
        ("group:0,pure:1", "size must be a whole number, between 1 and 1000000, got 0.0"),
        ("group:2,metric:1", "claim must be about single records, got 'metric:1'"),
        ("group:4,rdp:4,1", "promises nothing to groups of 4: it needs an order of at least 8"),
        ("group:9,approx:5,0.01", "promises nothing to groups of 9: delta would be"),
        ("group:2", "claim must be one of pure:EPSILON"),
    ],
)
def test_bad_claims_are_refused_in_one_line(text, rule):
    with pytest.raises(InvalidArgument, match=rule):
        parse_claim(text)


def test_bad_files_name_themselves(tmp_path):
    for name, content, rule in [
        ("a.csv", "alpha,beta\n0,1\n0.5,x\n", "must hold pairs of numbers"),
        ("b.csv", "", "got none"),
        ("c.json", "{", "c.json"),
        (
            "d.json",
            {"alpha": [0, 1], "beta": [1]},
            "must have equally many numbers in alpha and beta",
        ),
        ("g.json", {"alpha": 5, "beta": [1]}, "must hold lists of numbers"),
        ("h.json", {"alpha": "01", "beta": "10"}, "must hold lists of numbers"),
        ("i.json", {"alpha": [False, True], "beta": [1, 0]}, "must hold lists of numbers"),
        ("h.csv", "0;1\n0.3;0.4\n1;0", "between commas"),
        ("e.json", 5, "must hold pairs of numbers"),
        ("f.csv", "0,1\n0.5,0.2,7\n1,0", "must hold pairs of numbers"),
    ]:
        with pytest.raises(InvalidArgument, match=rule) as error:
            parse_claim(file_of(tmp_path, name, content))
        assert name in str(error.value)


def test_pairs_that_a_claim_says_nothing_of():
    words = Pair(["a", "b"], ["a", "c"])
    with pytest.raises(
        InvalidArgument, match="distance must be given unless the datasets are vectors"
    ):
        m.MetricDP(1.0).on(words)
    with pytest.raises(
        InvalidArgument, match="vectors of 2 numbers, one for each budget, got vectors of 3"
    ):
        m.CoordinateDP((1.0, 2.0)).on(Pair([0.0, 0.0, 0.0], [1.0, 0.0, 0.0]))
    assert m.MetricDP(1.0, 2.0).on(words) == m.PureDP(2.0)


def test_without_the_accountant_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_distribution", None)
    with pytest.raises(InvalidArgument, match="pip install dp-accounting"):
        m.DPSGD(0.013, 1.0, 10).lines()


def test_a_curve_whose_delta_stays_large_has_no_gaussian_curve():
    q = 0.95 * HALF
    curve = m.TradeoffCurve([0, q, 0.95, 1], [0.95, q, 0, 0])
    assert curve.epsilon_at(0.1) < 1 and curve.epsilon_at(1e-4) == math.inf
    with pytest.raises(InvalidArgument, match=r"implies no epsilon at delta = 0\.0001"):
        m.GDP.implied_by(curve, 1e-4)
