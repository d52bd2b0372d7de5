"""Tests of random arguments of the Python API: each call gives a result, or a one-line
InvalidArgument.

The message names the argument, the rule and the value.
"""

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.benchmarks.hostile.inputs import calls, fault
from dpwitness.mechanisms import InvalidArgument, Laplace, Pair, Records

PAIR = Pair(np.array([0.0]), np.array([1.0]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore")
def test_junk_ends_in_one_line(seed):
    """300 random calls per seed give no fault; `calls(seed, count)` generates more."""
    faults = [found for found in map(fault, calls(seed, 300)) if found]
    assert not faults, "\n".join(faults)


@pytest.mark.slow_cases("<lambda>-PureDP: epsilon must be positive and finite, got '1'")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dpw.parse_claim(1), "parse_claim: claim must be a text like 'pure:1', got 1"),
        (
            lambda: dpw.results.limit(Laplace(1.0), "pair", "pure:1", 1000, 0.9),
            "limit: pair must be a Pair, got 'pair'",
        ),
        (
            lambda: dpw.results.limit(Laplace(1.0), PAIR, 3, 1000, 0.9),
            "limit: claim must be a privacy notion or a text like 'pure:1', got 3",
        ),
        (
            lambda: dpw.domains.search(Laplace(1.0), Records(1), "pure"),
            "claim must have the form pure:EPSILON, got 'pure'",
        ),
        (
            lambda: dpw.domains.search(Laplace(1.0), Records(1), "pure:1", seed="x"),
            "search: seed must be a whole number, at least 0, got 'x'",
        ),
        (
            lambda: dpw.audit(Laplace(1.0), pair=PAIR, executor=4),
            "executor must be a concurrent.futures.Executor, got 4",
        ),
        (
            lambda: dpw.audit(Laplace(1.0), pair=PAIR, progress=len),
            "progress must be callable with 2 arguments",
        ),
        (lambda: dpw.audit(Laplace(1.0), pair=PAIR, name=3), "audit: name must be a text, got 3"),
        (
            lambda: dpw.audit(Laplace(1.0), pair=PAIR, trials=10**5000),
            "audit: trials must be a whole number, between 1000 and",
        ),
        (
            lambda: dpw.check_mechanism(Laplace(1.0), checks="all"),
            "checks must hold names of checks, got 'all'",
        ),
        (
            lambda: dpw.audit_sensitivity(3, 1.0, Records(1)),
            "audit_sensitivity: function must be callable, got 3",
        ),
        (
            lambda: dpw.audit_outputs(3, [1.0], "pure:1"),
            "audit_outputs: outputs0 must be an array or a list with one output per run",
        ),
        (
            lambda: dpw.replay(3),
            "replay: witness must be a path or the content of a witness file, got 3",
        ),
        (lambda: dpw.PureDP("1"), "PureDP: epsilon must be positive and finite, got '1'"),
        (lambda: dpw.PureDP(10**400), "PureDP: epsilon must be positive and finite, got 1000"),
        (
            lambda: Records(10**30),
            "Records: size must be a whole number, between 1 and 1000000, got 1000",
        ),
        (lambda: Records(3, "0"), "Records: low must be a finite number, got '0'"),
    ],
)
def test_the_sentence_names_argument_rule_and_value(call, message):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert message in str(caught.value)


def test_errors_are_one_printable_line_whatever_they_show():
    error = InvalidArgument("value must be plain, got " + "\x1b[31m\n" * 500)
    assert str(error).isprintable() and len(str(error)) <= 1000
    assert dpw.Verdict.ERROR.value == "ERROR"
