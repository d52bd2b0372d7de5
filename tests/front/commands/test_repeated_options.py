"""Tests of repeated options and keys: each is an error, instead of silently using the
last value.
"""

import pytest

TWICE = {
    "an option": (
        ["audit", "x:f", "--trials", "1000", "--trials", "2000"],
        "--trials: is given twice, the second time as '2000'",
    ),
    "a claim": (
        ["canaries", "x.npz", "--claim", "pure:1", "--claim", "pure:9"],
        "--claim: is given twice",
    ),
    "a parameter": (
        ["claims", "check", "CM-04", "--set", "epsilon=1", "epsilon=2"],
        "--set must give each parameter once, got 'epsilon' twice",
    ),
    "a parameter in two options": (
        ["claims", "check", "CM-04", "--set", "a=1", "--set", "a=2"],
        "--set must give each parameter once",
    ),
    "a keyword": (["audit", "x:f", "--kwargs", '{"a": 1, "a": 2}'], "--kwargs must be JSON"),
    "a field of a domain": (
        [
            "audit",
            "dpwitness.mechanisms:Laplace",
            "--kwargs",
            '{"epsilon": 1}',
            "--domain",
            '{"kind": "answers", "kind": "rows"}',
        ],
        "--domain must be JSON",
    ),
}


@pytest.mark.parametrize("case", TWICE)
def test_an_argument_that_is_given_twice_is_an_error(case, refused):
    words, message = TWICE[case]
    assert message in refused(*words)
