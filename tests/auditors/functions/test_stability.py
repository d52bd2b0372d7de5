"""Tests of the stability audit: broken and right transformations, and the words of the results."""

import random
from collections import deque

import pytest

from dpwitness import InvalidArgument, Verdict, audit_stability
from dpwitness.stability import Atom, VectorOf

INTS = VectorOf(Atom("i32", bounds=(0, 10)))


def audit(function, stability_map, space, input_metric, output_metric, seconds=0.3, **options):
    return audit_stability(
        function, stability_map, space, input_metric, output_metric, seconds=seconds, **options
    )


def test_a_sum_below_its_bound_is_violated_by_the_smallest_witness():
    found = audit(sum, lambda d: 9 * d, INTS, "symmetric", "absolute")
    assert found.verdict is Verdict.VIOLATED and found.evidence == "proved"
    assert (found.first, found.second, found.outcomes, found.d_in) == ([], [10], (0, 10), 1)
    assert (found.bound, found.measured, found.ratio) == (9, 10, pytest.approx(10 / 9))
    assert found.headline() == (
        "VIOLATED: outputs are 10 apart (absolute), the map allows 9 for inputs at symmetric "
        "distance 1: ratio 1.11111"
    )


def test_given_inputs_are_compared_with_each_other():
    space = VectorOf(Atom("i32"), 3)
    heights = {(71, 502, 9): 1.0, (8, 502, -64): -1.0}
    options = {"d_in": [2], "seconds": 1.0, "inputs": [list(key) for key in heights]}
    found = audit_stability(
        lambda rows: heights.get(tuple(rows), 0.0), lambda d: 1.5, space, "hamming", "absolute",
        **options,
    )  # fmt: skip
    assert (found.verdict.value, float(found.measured)) == ("VIOLATED", 2.0)


def test_a_tight_sum_is_not_refuted_and_its_ratio_is_one():
    found = audit(sum, lambda d: 10 * d, INTS, "symmetric", "absolute")
    assert (
        found.verdict is Verdict.NOT_REFUTED
        and found.ratio == 1
        and found.pairs > 1000
        and found.witness is None
    )


def test_rounding_is_inconclusive_and_says_so():
    found = audit(
        lambda rows: sum(rows) / 10,
        lambda d: 1.0 * d,
        VectorOf(Atom("f64", bounds=(0.0, 10.0)), 10),
        "change-one",
        "absolute",
    )
    assert (
        found.verdict is Verdict.INCONCLUSIVE
        and found.finding == "rounding"
        and 0 < found.measured - found.bound < 1e-12
    )
    assert "exceeds by rounding only, ratio 1 + " in found.headline()


def fails_on_null(rows):
    if None in rows:
        raise ValueError("null value")
    return len(rows)


def test_an_error_on_one_neighbor_only_is_inconclusive_unless_errors_are_visible():
    space = VectorOf(Atom("i32", nullable=True))
    found = audit(fails_on_null, lambda d: d, space, "symmetric", "absolute")
    assert found.verdict is Verdict.INCONCLUSIVE and found.finding == "raises"
    assert sorted([found.first, found.second], key=len) == [[], [None]]
    assert "raises on one neighbor only (raises ValueError: null value" in found.headline()
    visible = audit(fails_on_null, lambda d: d, space, "symmetric", "absolute", visible_errors=True)
    assert visible.verdict is Verdict.VIOLATED and visible.evidence == "assumed"


def test_what_cannot_be_audited_is_an_error_or_a_skip():
    wrong = audit(lambda rows: "text", lambda d: 1, INTS, "symmetric", "absolute")
    assert (
        wrong.verdict is Verdict.ERROR
        and "most outputs could not be compared: a number is needed, got str" in wrong.headline()
    )
    raising = audit(lambda rows: 1 // 0, lambda d: 1, INTS, "symmetric", "absolute")
    assert (
        raising.verdict is Verdict.ERROR
        and "raises or does not end on every input" in raising.headline()
    )

    def odd_map(d):
        if d == 2:
            raise ValueError("odd only")
        return 10 * d if d == 1 else float("inf")

    found = audit(sum, odd_map, INTS, "symmetric", "absolute")
    assert found.audited == (1,) and found.skipped == (
        "d_in = 2: the map raises ValueError: odd only",
        "d_in = 3: the map is infinite and claims nothing",
    )


@pytest.mark.parametrize(
    "options",
    [
        {"input_metric": "hamil"},
        {"output_metric": "per-group-sum:"},
        {"stability_map": lambda d: float("nan")},
        {"d_in": (0,)},
        {"d_in": 1},
        {"inputs": [[11]]},
        {"seconds": 0},
        {"input_metric": "absolute"},
        {"input_domain": [1]},
        {"transformation": 3},
    ],
)
def test_a_wrong_argument_is_named(options):
    arguments = {
        "transformation": sum,
        "stability_map": lambda d: 10 * d,
        "input_domain": INTS,
        "seconds": 0.1,
    }
    arguments |= {"input_metric": "symmetric", "output_metric": "absolute"} | options
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        audit_stability(**arguments)


def test_outputs_that_change_between_runs_are_no_violation():
    calls = iter(range(10**9))
    found = audit(
        lambda rows: next(calls) if 7 in rows else 0, lambda d: d, INTS, "symmetric", "absolute"
    )
    assert found.verdict is not Verdict.VIOLATED and found.witness is None


def test_a_violation_is_not_made_smaller_by_random_outcomes():
    draws, calls, confirmed = random.Random(3), deque(maxlen=12), []

    def count(rows):
        calls.append(tuple(rows))
        if len(rows) > 3:
            # two inputs in turn: the finding is confirmed
            confirmed.extend(calls if len(calls) == 12 and len(set(calls)) == 2 else ())
            return 11 * len(rows) - 4
        return draws.choice((0, 5000)) if confirmed else 10 * len(rows)

    found = audit(count, lambda d: 10 * d, INTS, "symmetric", "absolute")
    assert found.verdict is Verdict.VIOLATED and found.distance == 11 * found.d_in
    assert min(len(found.first), len(found.second)) > 3
