"""Claims as people have them: read, converted, resolved on pairs, and bad ones refused
in one line.
"""

import json

import pytest

from dpwitness import mechanisms as m
from dpwitness.core.claims import exact_claim
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms import parse_claim

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


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("fdp:", "claim must have the form fdp:FILE"),
        ("fdp:none.csv", "must be readable"),
        ("fdp:0=1,0.5=0.6,1=0", "beta must be at most 1 - alpha, got beta = 0.6 at alpha = 0.5"),
        ("fdp:0=1,0.2=0.3,0.5=0.4,1=0", "beta must not rise, got beta = 0.4 at alpha = 0.5"),
        ("fdp:0=1,0.5=-0.1,1=0", r"beta must lie in \[0, 1\], got beta = -0.1"),
        ("fdp:0=1,0.5=nan,1=0", r"beta must lie in \[0, 1\], got beta = nan"),
        ("fdp:0.1=0.8,1=0", "alpha must go from 0 to 1, got beta = 0.8 at alpha = 0.1"),
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
        ("rdp:2=0.3,2=0.4", "orders must be greater than 1 and increase"),
        ("rdp:1=0.3,2=0.4", "orders must be greater than 1 and increase"),
        ("rdp:2=0.3,4", "claim must have the form rdp:"),
        ("rdp:2=0.3,4=-1", "epsilons must be positive and finite, got -1.0"),
        ("metric:0", "epsilon must be positive and finite, got 0.0"),
        ("metric:1,l3", "distance must be one of 'l1', 'l2', 'linf', got 'l3'"),
        ("metric:1,-2", "distance must be positive and finite, got -2.0"),
        ("percoordinate:1,0", "epsilon must be positive and finite, got 0.0"),
        ("percoordinate:1e308,1e308", "sum of epsilons must be positive and finite, got inf"),
        ("percoordinate:", "claim must have the form percoordinate:"),
        ("group:0,pure:1", "size must be a whole number, between 1 and 1000000, got 0.0"),
        ("group:2,metric:1", "claim must be about single records, such as pure:1, got 'metric:1'"),
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
