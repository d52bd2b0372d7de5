"""Transformations with a known truth: each broken one is found, no right one is accused."""

from __future__ import annotations

import collections
import datetime
import json
import math

import pytest

from dpwitness import Verdict, audit_stability, replay
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.stability import Atom, FrameOf, ScalarOf, VectorOf

NAN = VectorOf(Atom("f64", nan=True))
I32 = VectorOf(Atom("i32"))
I64 = VectorOf(Atom("i64"))
NULL = VectorOf(Atom("f64", bounds=(0.0, 10.0), nullable=True))
UNIT = VectorOf(Atom("f64", bounds=(0.0, 1.0)))
TEXT = VectorOf(Atom("str"))
MOMENTS = VectorOf(Atom("datetime"))
KEYED = FrameOf({"key": Atom("i32", bounds=(0, 50)), "x": Atom("i32", bounds=(0, 100))})


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


def quantile_score(rows):  # rank error of the candidate 0.5
    return abs(sum(v < 0.5 for v in rows) - sum(v > 0.5 for v in rows))


def split_at_mean(rows):
    mean = sum(rows) / len(rows) if rows else 0.0
    return [v for v in rows if v <= mean]


def split_at_constant(rows):
    return [v for v in rows if v <= 0.25]


def histogram_without_unknown(rows):
    return [sum(text == each for text in rows) for each in ("a", "b", "c")]


def mean_of_any_size(rows):
    return sum(clamp(v, 0.0, 1.0) for v in rows) / max(len(rows), 1)


def row_numbers(rows):
    return list(enumerate(rows))


def negated_overflow(rows):  # abs in 32 bits: the smallest integer stays negative
    return sum(clamp(abs(v) if v != -(2**31) else v, -100, 100) for v in rows)


def squares(rows):
    return sum(min(v * v, 100) for v in rows)


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


def dropped_duplicates(rows):
    return list(dict.fromkeys(rows))


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
    "split at mean": (split_at_mean, same, UNIT, "symmetric", "symmetric"),
    "mean of any size": (mean_of_any_size, lambda d: d / 100, UNIT, "symmetric", "absolute"),
    "row numbers": (row_numbers, same, I32, "insert-delete", "symmetric"),
    "abs overflows": (negated_overflow, lambda d: 100 * d, I32, "change-one", "absolute"),
    "nanoseconds overflow": (wrapped_microseconds, double, MOMENTS, "symmetric", "absolute"),
    "scaled without the factor": (
        scaled,
        double,
        ScalarOf(Atom("f64", bounds=(-1e6, 1e6))),
        "absolute",
        "absolute",
    ),
    "a constant in the code": (special_case, same, I32, "symmetric", "absolute"),
    "from 100 rows on": (large_list, same, I32, "symmetric", "absolute"),
}

RIGHT = {
    "clamp drops NaN": (clamp_with_nan_repaired, lambda d: 8 * d, NAN, "symmetric", "absolute"),
    "cast saturates": (saturating_cast, lambda d: 128 * d, I64, "symmetric", "absolute"),
    "impute by constant": (impute_by_constant, same, NULL, "symmetric", "symmetric"),
    "truncated counts": (truncated_counts, same, I32, "symmetric", "l1"),
    "truncated counts, replaced rows": (truncated_counts, double, I32, "change-one", "l1"),
    "group counts": (group_counts, same, KEYED, "symmetric", "l1"),
    "quantile score": (quantile_score, same, UNIT, "symmetric", "absolute"),
    "split at constant": (split_at_constant, same, UNIT, "insert-delete", "insert-delete"),
    "histogram": (histogram_without_unknown, same, TEXT, "symmetric", "l1"),
    "mean in its range": (mean_of_any_size, lambda d: 1, UNIT, "symmetric", "absolute"),
    "row numbers, replaced rows": (row_numbers, same, I32, "hamming", "hamming"),
    "squares": (squares, lambda d: 100 * d, I32, "symmetric", "absolute"),
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
    "dropped duplicates": (dropped_duplicates, same, I32, "symmetric", "symmetric"),
    "kept rows a key": (kept_ten_a_key, lambda d: 3 * d, KEYED, "insert-delete", "symmetric"),
}


@pytest.mark.slow_cases("from 100 rows on")
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
