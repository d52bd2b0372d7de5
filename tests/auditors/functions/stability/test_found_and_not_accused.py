"""Transformations with a known truth: each broken one is found, no right one is accused."""

from __future__ import annotations

import collections
import contextlib
import datetime
import itertools
import json
import math
import statistics
from dataclasses import replace

import numpy as np
import pytest

from dpwitness import Verdict, audit_stability, replay
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.auditors.witnesses.witness_reader import load_json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.stability import Atom, FrameOf, ScalarOf, VectorOf

F64 = VectorOf(Atom("f64"))
NAN = VectorOf(Atom("f64", nan=True))
I32 = VectorOf(Atom("i32"))
I64 = VectorOf(Atom("i64"))
NULL = VectorOf(Atom("f64", bounds=(0.0, 10.0), nullable=True))
UNIT = VectorOf(Atom("f64", bounds=(0.0, 1.0)))
TEXT = VectorOf(Atom("str"))
MOMENTS = VectorOf(Atom("datetime"))
KEYED = FrameOf({"key": Atom("i32", bounds=(0, 50)), "x": Atom("i32", bounds=(0, 100))})
SIX = VectorOf(Atom("f64", bounds=(0.0, 6.0)), 6)


def same(d):
    return d


def double(d):
    return 2 * d


def clamp(v, low, high):
    return min(max(v, low), high)


def clamp_of_nan(rows):  # min and max keep NaN
    return math.fsum(clamp(v, 0.0, 1.0) for v in rows)


def clamp_with_nan_repaired(rows):
    return sum(round(clamp(v, 0.0, 1.0) * 8) for v in rows if v == v)


def wrapped_cast(rows):  # to 8 bits, which wraps around: not monotone, and the sum moves by 255
    return sum((v + 128) % 256 - 128 for v in rows)


def saturating_cast(rows):
    return sum(clamp(v, -128, 127) for v in rows)


def impute_by_mean(rows):  # a null takes the mean of the others
    known = [v for v in rows if v is not None]
    mean = sum(known) / len(known) if known else 0.0
    return [mean if v is None else v for v in rows]


def impute_by_constant(rows):
    return [5.0 if v is None else v for v in rows]


# at most three rows a key, but the total is said to move by one key at most
def truncated_counts(rows):
    counts = collections.Counter(rows)
    return {key: min(n, 3) for key, n in counts.items()}


def group_counts(frame):
    return dict(collections.Counter(frame["key"]))


def group_sums(frame):
    found = collections.Counter()
    for key, x in zip(frame["key"], frame["x"], strict=True):
        found[key] += x
    return dict(found)


def median(rows):
    return statistics.median(rows) if rows else 0.5


def quantile_score(rows):  # rank error of the candidate 0.5
    return abs(sum(v < 0.5 for v in rows) - sum(v > 0.5 for v in rows))


def resize_by_repeating(rows):  # to ten rows, by repeating what there is
    return [rows[i % len(rows)] for i in range(10)] if rows else [0.0] * 10


def resize_by_padding(rows):
    return sorted(rows)[:10] + [0.0] * max(0, 10 - len(rows))


def split_at_mean(rows):
    mean = sum(rows) / len(rows) if rows else 0.0
    return [v for v in rows if v <= mean]


def split_at_constant(rows):
    return [v for v in rows if v <= 0.25]


def parsed_or_dropped_with_previous(rows):  # a malformed date takes the previous one
    found, last = [], "1970-01-01"
    for text in rows:
        with contextlib.suppress(ValueError):
            last = datetime.date.fromisoformat(text).isoformat()
        found.append(last)
    return found


def parsed_or_null(rows):
    found = []
    for text in rows:
        try:
            found.append(datetime.date.fromisoformat(text))
        except ValueError:
            found.append(None)
    return found


def one_hot_of_seen(rows):  # the columns are the categories in the data
    seen = sorted(set(rows))
    return [[int(text == each) for each in seen] for text in rows]


def one_hot_of_known(rows):
    return [[int(text == each) for each in ("a", "b")] for text in rows]


def histogram_without_unknown(rows):
    return [sum(text == each for text in rows) for each in ("a", "b", "c")]


def mean_of_any_size(rows):
    return sum(clamp(v, 0.0, 1.0) for v in rows) / max(len(rows), 1)


def first_five(rows):
    return sum(clamp(v, -10, 10) for v in rows[:5])


def smallest_five_count(rows):
    return min(len(rows), 5)


def row_numbers(rows):
    return list(enumerate(rows))


def running_maximum(rows):
    found = []
    for v in rows:
        found.append(max(v, found[-1]) if found else v)
    return found


def negated_overflow(rows):  # abs in 32 bits: the smallest integer stays negative
    return sum(clamp(abs(v) if v != -(2**31) else v, -100, 100) for v in rows)


def squares(rows):
    return sum(min(v * v, 100) for v in rows)


def year_span(rows):
    return max((m.year for m in rows), default=0) - min((m.year for m in rows), default=0)


def years_after_1970(rows):
    return sum(m.year >= 1970 for m in rows)


def wrapped_microseconds(rows):  # nanoseconds since 1970 in 64 bits
    epoch = datetime.datetime(1970, 1, 1)
    nanoseconds = [(m - epoch) // datetime.timedelta(microseconds=1) * 1000 for m in rows]
    return (
        sum(
            1
            for n, m in zip(nanoseconds, rows, strict=True)
            if ((n + 2**63) % 2**64 - 2**63 > 0) != (m > epoch)
        )
        * 3
    )


def scaled(x):
    return 3 * x


def integer_division(x):
    return x // 2


def sorted_pairs(rows):  # differences of neighbors in order
    ordered = sorted(rows)
    return [b - a for a, b in itertools.pairwise(ordered)]


def variance(rows):
    mean = sum(rows) / 6
    return sum((v - mean) ** 2 for v in rows)


def hashed(rows):
    return sum(hash(v) % 2 for v in rows)


def dropped_duplicates(rows):
    return list(dict.fromkeys(rows))


def dropped_all_duplicates(rows):  # values that occur once: adding one row removes another
    counts = collections.Counter(rows)
    return [v for v in rows if counts[v] == 1]


def joined_with_itself(frame):
    counts = collections.Counter(frame["key"])
    return [key for key in frame["key"] for _ in range(counts[key])]


def kept_ten_a_key(frame):  # the first two rows a key
    seen, found = collections.Counter(), []
    for row in zip(frame["key"], frame["x"], strict=True):
        seen[row[0]] += 1
        if seen[row[0]] <= 2:
            found.append(row)
    return found


def special_case(rows):  # a constant in the code
    return len(rows) + (2 if 314159 in rows else 0)


def large_list(rows):  # changes from 100 rows on
    return len(rows) * (2 if len(rows) > 100 else 1)


BROKEN = {
    "clamp keeps NaN": (clamp_of_nan, same, NAN, "symmetric", "absolute"),
    "cast wraps around": (wrapped_cast, lambda d: 127 * d, I32, "symmetric", "absolute"),
    "impute by mean": (impute_by_mean, same, NULL, "symmetric", "symmetric"),
    "truncated counts under change-one": (truncated_counts, same, I32, "change-one", "l1"),
    "group sums scaled as counts": (group_sums, same, KEYED, "symmetric", "l1"),
    "median scaled by size": (median, lambda d: d / 10, UNIT, "symmetric", "absolute"),
    "resize repeats": (resize_by_repeating, double, UNIT, "symmetric", "symmetric"),
    "split at mean": (split_at_mean, same, UNIT, "symmetric", "symmetric"),
    "dates take the previous": (
        parsed_or_dropped_with_previous,
        same,
        TEXT,
        "symmetric",
        "symmetric",
    ),
    "one-hot of the seen": (one_hot_of_seen, same, TEXT, "symmetric", "symmetric"),
    "mean of any size": (mean_of_any_size, lambda d: d / 100, UNIT, "symmetric", "absolute"),
    "first five of a multiset": (first_five, lambda d: 10 * d, I32, "symmetric", "absolute"),
    "row numbers": (row_numbers, same, I32, "insert-delete", "symmetric"),
    "running maximum": (running_maximum, same, I32, "insert-delete", "symmetric"),
    "abs overflows": (negated_overflow, lambda d: 100 * d, I32, "change-one", "absolute"),
    "year span": (year_span, lambda d: 100 * d, MOMENTS, "symmetric", "absolute"),
    "nanoseconds overflow": (wrapped_microseconds, double, MOMENTS, "symmetric", "absolute"),
    "scaled without the factor": (
        scaled,
        double,
        ScalarOf(Atom("f64", bounds=(-1e6, 1e6))),
        "absolute",
        "absolute",
    ),
    "variance": (variance, lambda d: 12 * d, SIX, "change-one", "absolute"),
    "values that occur once": (dropped_all_duplicates, same, I32, "change-one", "symmetric"),
    "join with itself": (joined_with_itself, double, KEYED, "symmetric", "symmetric"),
    "a constant in the code": (special_case, same, I32, "symmetric", "absolute"),
    "from 100 rows on": (large_list, same, I32, "symmetric", "absolute"),
    "kept rows a key of a user": (kept_ten_a_key, double, KEYED, "user:x", "symmetric"),
}

RIGHT = {
    "clamp drops NaN": (clamp_with_nan_repaired, lambda d: 8 * d, NAN, "symmetric", "absolute"),
    "cast saturates": (saturating_cast, lambda d: 128 * d, I64, "symmetric", "absolute"),
    "impute by constant": (impute_by_constant, same, NULL, "symmetric", "symmetric"),
    "truncated counts": (truncated_counts, same, I32, "symmetric", "l1"),
    "truncated counts, replaced rows": (truncated_counts, double, I32, "change-one", "l1"),
    "group counts": (group_counts, same, KEYED, "symmetric", "l1"),
    "group sums": (group_sums, lambda d: 100 * d, KEYED, "symmetric", "l1"),
    "median in its range": (median, lambda d: 1, UNIT, "symmetric", "absolute"),
    "quantile score": (quantile_score, same, UNIT, "symmetric", "absolute"),
    "resize pads": (resize_by_padding, double, UNIT, "symmetric", "symmetric"),
    "split at constant": (split_at_constant, same, UNIT, "insert-delete", "insert-delete"),
    "dates or null": (parsed_or_null, same, TEXT, "symmetric", "symmetric"),
    "one-hot of the known": (one_hot_of_known, same, TEXT, "symmetric", "symmetric"),
    "histogram": (histogram_without_unknown, same, TEXT, "symmetric", "l1"),
    "mean in its range": (mean_of_any_size, lambda d: 1, UNIT, "symmetric", "absolute"),
    "first five of a list": (first_five, lambda d: 20 * d, I32, "insert-delete", "absolute"),
    "size up to five": (smallest_five_count, same, F64, "symmetric", "absolute"),
    "row numbers, replaced rows": (row_numbers, same, I32, "hamming", "hamming"),
    "squares": (squares, lambda d: 100 * d, I32, "symmetric", "absolute"),
    "after 1970": (years_after_1970, same, MOMENTS, "symmetric", "absolute"),
    "scaled": (
        scaled,
        lambda d: 3 * d,
        ScalarOf(Atom("f64", bounds=(-1e6, 1e6))),
        "absolute",
        "absolute",
    ),
    "halved integer": (
        integer_division,
        lambda d: (d + 1) // 2,
        ScalarOf(Atom("i64")),
        "absolute",
        "absolute",
    ),
    "differences in order": (sorted_pairs, lambda d: 3 * d, I32, "symmetric", "symmetric"),
    "variance, wider": (variance, lambda d: 36 * d, SIX, "change-one", "absolute"),
    "hashed": (hashed, same, TEXT, "symmetric", "absolute"),
    "values that occur once, added rows": (
        dropped_all_duplicates,
        same,
        I32,
        "symmetric",
        "symmetric",
    ),
    "dropped duplicates": (dropped_duplicates, same, I32, "symmetric", "symmetric"),
    "kept rows a key": (kept_ten_a_key, lambda d: 3 * d, KEYED, "insert-delete", "symmetric"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_transformation_is_found_and_its_witness_replays(name):
    function, stability_map, *rest = BROKEN[name]
    found = audit_stability(function, stability_map, *rest, seconds=60)
    assert found.verdict is Verdict.VIOLATED and found.finding == "exceeds" and found.ratio > 1
    witness = json.loads(json.dumps(found.witness, allow_nan=False))
    again = replay(witness, mechanism=function)
    assert (again.verdict, again.ratio, again.measured) == (
        Verdict.VIOLATED,
        found.ratio,
        found.measured,
    )
    assert recompute_bounds(json.loads(json.dumps(found.to_json(), allow_nan=False))).determined


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_transformation_is_not_accused(name):
    assert audit_stability(*RIGHT[name], seconds=0.1).verdict is not Verdict.VIOLATED


def test_a_repaired_transformation_does_not_confirm_the_witness():
    function, stability_map, *rest = BROKEN["impute by mean"]
    witness = audit_stability(function, stability_map, *rest).witness
    assert replay(witness, mechanism=RIGHT["impute by constant"][0]).verdict is Verdict.NOT_REFUTED


def edited(witness, **changes):
    return {key: value for key, value in {**witness, **changes}.items() if key != "sha256"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"inputs": [[1.0], [1.0, 2.0, 3.0]]}, "at most d_in = 1 apart"),
        ({"inputs": [[1.0], [1.0, 11.0]]}, r"inputs\[1\] must belong to the recorded space"),
        ({"d_in": "0"}, "at most d_in = 0 apart"),
        ({"d_in": "x"}, "a number must be a text"),
        ({"space": {"type": "cube"}}, 'type "vector", "scalar" or "frame"'),
        ({"finding": "smells"}, "finding must be one of"),
        ({"input_metric": "l7"}, "input_metric must be one of"),
        ({"map": {"target": "os:system"}}, "standard library"),
    ],
)
def test_an_edited_witness_is_refused(changes, problem):
    function, stability_map, *rest = BROKEN["impute by mean"]
    witness = audit_stability(function, stability_map, *rest).witness
    with pytest.raises(InvalidArgument, match=problem):
        replay(edited(witness, **changes), mechanism=function)


def test_a_result_that_contradicts_its_outputs_is_refused():
    result = audit_stability(*BROKEN["clamp keeps NaN"]).to_json()
    assert recompute_bounds(result).determined
    for changes in (
        {"measured_exact": "3"},
        {"finding": ""},
        {"verdict": "NOT_REFUTED"},
        {"finding": "rounding"},
        {"bound_exact": "inf"},
    ):
        with pytest.raises(InvalidArgument):
            recompute_bounds(result | changes)


def test_a_suspected_map_keeps_its_word_in_the_report_and_its_witness():
    function, stability_map, *rest = BROKEN["impute by mean"]
    found = replace(audit_stability(function, stability_map, *rest), verdict=Verdict.SUSPECT)
    assert (
        "read what is guessed in the first note" in found.advice
        and found.evidence == "assumed"
        and found.headline().startswith("SUSPECT: outputs are 3 apart")
        and recompute_bounds(found.to_json()).determined
    )
    assert (
        replay(json.loads(json.dumps(found.witness)), mechanism=function).verdict is Verdict.SUSPECT
    )


def test_a_witness_of_unknown_kind_names_the_known_ones():
    with pytest.raises(InvalidArgument, match="stability"):
        load_json({"schema_version": 1, "kind": "stab"})


STEPS = 4
SPACE = FrameOf(
    {f"{part}{step}": Atom("f64", bounds=(-1, 1)) for step in range(STEPS) for part in "xy"}
)


def clipped_sum(frame, bias_norm):
    """Sum of the clipped gradients of a linear layer at 0 on sequences: half of the squared error,
    summed over the steps.
    """
    records = np.array(list(frame.values()), dtype=float).T.reshape(-1, STEPS, 2)
    total = np.zeros(2)
    for x, y in zip(records[..., 0], records[..., 1], strict=True):
        gradient = np.array([-x @ y, -y.sum()])
        total += gradient / max(1.0, np.hypot(gradient[0], bias_norm(y)))
    return total.tolist()


def search(bias_norm, seconds):
    return audit_stability(
        lambda frame: clipped_sum(frame, bias_norm),
        lambda d: d * (1 + 1e-6),
        SPACE,
        "symmetric",
        "l2",
        d_in=(1,),
        seconds=seconds,
        seed=1,
    )


def test_a_norm_of_the_bias_that_ignores_the_sum_over_a_sequence_is_found():
    found = search(np.linalg.norm, 60.0)  # ends with the first refutation
    assert found.verdict is Verdict.VIOLATED and found.ratio > 1.1


def test_the_norm_of_the_sum_is_not_accused():
    assert search(lambda y: abs(y.sum()), 0.3).verdict is not Verdict.VIOLATED
