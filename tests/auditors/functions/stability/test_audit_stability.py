"""Tests of the stability audit: broken and right transformations, and the words of the results."""

import random
from collections import deque
from fractions import Fraction

import pytest

from dpwitness import InvalidArgument, Verdict, audit_stability
from dpwitness.domains import Table
from dpwitness.mechanisms import Records
from dpwitness.stability import Atom, FrameOf, ScalarOf, VectorOf

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


def test_a_tight_sum_is_not_refuted_and_its_ratio_is_one():
    found = audit(sum, lambda d: 10 * d, INTS, "symmetric", "absolute")
    assert (
        found.verdict is Verdict.NOT_REFUTED
        and found.ratio == 1
        and found.pairs > 1000
        and found.witness is None
    )


def test_an_order_that_the_metric_ignores_is_searched():
    found = audit(
        lambda rows: rows[:5], lambda d: 2 * d, INTS, "symmetric", "symmetric", seconds=1.0
    )
    assert found.verdict is Verdict.VIOLATED and len(found.first) <= 7
    assert (
        audit(
            lambda rows: rows[:5], lambda d: 2 * d, INTS, "insert-delete", "insert-delete"
        ).verdict
        is Verdict.NOT_REFUTED
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


def test_an_excess_of_a_whole_map_over_whole_outputs_is_no_rounding():
    big = 10**12
    found = audit(
        lambda rows: len(rows) * (big + 1), lambda d: big * d, INTS, "symmetric", "absolute"
    )
    assert found.verdict is Verdict.VIOLATED and found.measured - found.bound == 1


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


def test_a_violation_matters_more_than_an_error():
    space = VectorOf(Atom("i32", nullable=True))
    found = audit(
        lambda rows: fails_on_null(rows) * 3, lambda d: 2 * d, space, "symmetric", "absolute"
    )
    assert found.verdict is Verdict.VIOLATED and found.finding == "exceeds"


def test_nan_on_one_side_is_infinitely_far():
    space = VectorOf(Atom("f64", bounds=(0.0, 1.0), nan=True))
    found = audit(
        lambda rows: sum(min(max(v, 0.0), 1.0) if v == v else v for v in rows),
        lambda d: d,
        space,
        "symmetric",
        "absolute",
    )
    assert found.verdict is Verdict.VIOLATED and found.measured == float("inf")


def test_numbers_move_by_the_distance_and_not_further():
    scalars = ScalarOf(Atom("f64", bounds=(-100.0, 100.0)))
    assert (
        audit(lambda x: 2 * x, lambda d: 2 * d, scalars, "absolute", "absolute").verdict
        is Verdict.NOT_REFUTED
    )
    assert (
        audit(lambda x: 2 * x, lambda d: 1.9 * d, scalars, "absolute", "absolute").verdict
        is Verdict.VIOLATED
    )
    vectors = VectorOf(Atom("f64", bounds=(-100.0, 100.0)), 4)
    assert audit(lambda v: v, lambda d: d, vectors, "l2", "l2").verdict is Verdict.NOT_REFUTED
    assert audit(lambda v: v, lambda d: d, vectors, "linf", "l2").verdict is Verdict.VIOLATED
    assert (
        audit(lambda v: [[v[0]], []], lambda d: [d][0], vectors, "l1", "l1").verdict
        is Verdict.NOT_REFUTED
    )
    assert (
        audit(lambda v: sum(v), lambda d: 3 * d, vectors, "linf", "absolute").verdict
        is Verdict.VIOLATED
    )


def test_frames_and_users():
    frame = FrameOf({"user": Atom("i32", bounds=(0, 20)), "x": Atom("f64", bounds=(0.0, 1.0))})
    rows = audit(lambda f: len(f["x"]), lambda d: 5 * d, frame, "user:user", "absolute")
    assert rows.verdict is Verdict.VIOLATED and set(rows.first) == {"user", "x"}
    assert (
        audit(lambda f: len(set(f["user"])), lambda d: d, frame, "user:user", "absolute").verdict
        is Verdict.NOT_REFUTED
    )


def test_groups():
    space = VectorOf(Atom("category", categories=("a", "b", "c")))

    def counts(rows):
        return {key: rows.count(key) for key in set(rows)}

    assert audit(counts, lambda d: d, space, "symmetric", "l1").verdict is Verdict.NOT_REFUTED
    assert audit(counts, lambda d: d, space, "change-one", "l1").verdict is Verdict.VIOLATED
    assert (
        audit(counts, lambda d: d, space, "symmetric", "per-group:absolute").verdict
        is Verdict.NOT_REFUTED
    )
    assert (
        audit(counts, lambda d: d, space, "change-one", "per-group-count:absolute").verdict
        is Verdict.VIOLATED
    )


def test_a_domain_gives_pairs_at_measured_distances():
    assert (
        audit(sum, lambda d: d, Records(3, integer=True), "change-one", "absolute").verdict
        is Verdict.NOT_REFUTED
    )
    found = audit(
        sum, lambda d: Fraction(1, 2) * d, Records(3, integer=True), "change-one", "absolute"
    )
    assert found.verdict is Verdict.VIOLATED and found.space is None


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
        {"output_metric": "per-group:"},
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


def test_objects_without_equality_are_not_accused():
    found = audit(
        lambda rows: [object() for _ in rows[:1]], lambda d: d, INTS, "symmetric", "symmetric"
    )
    assert found.verdict is Verdict.NOT_REFUTED and found.randomized
    unhashable = audit(
        lambda rows: [bytearray(b"x") for _ in rows],
        lambda d: d / 2,
        INTS,
        "symmetric",
        "symmetric",
    )
    assert unhashable.verdict is Verdict.ERROR and "unhashable" in unhashable.headline()


def test_batches_and_exceptions_as_outcomes():
    class Batches:
        __name__ = "batches"

        def apply_all(self, datasets):
            return [ValueError("empty") if not rows else 3 * len(rows) for rows in datasets]

    found = audit(Batches(), lambda d: 2 * d, INTS, "symmetric", "absolute")
    assert found.verdict is Verdict.VIOLATED and (found.first, found.second) == ([0], [0, 0])


def test_a_finding_on_a_domain_of_mechanisms_is_shrunk():
    table = Table({"a": (0, 5)}, size=4, relation="add-remove")
    found = audit(lambda frame: 2 * len(frame), lambda d: d, table, "symmetric", "absolute")
    assert found.verdict is Verdict.VIOLATED
    assert sorted([len(found.first), len(found.second)]) == [0, 1]


def test_a_metric_that_does_not_apply_to_a_domain_is_refused():
    with pytest.raises(InvalidArgument, match="input_metric by:a:symmetric must apply"):
        audit(len, lambda d: d, Records(4), "by:a:symmetric", "absolute")


def test_a_domain_without_pairs_at_the_distance_is_an_error():
    found = audit(len, lambda d: d, Records(4), "symmetric", "absolute", d_in=[0.5])
    assert found.verdict is Verdict.ERROR and found.pairs == 0
