"""Capabilities: statistics that a user suggests, stores that are extended, plans, executors, slow and
failing runs, every kind of event, and the replay of every kind of witness.
"""

import array
import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import os
import time

import numpy as np
import pandas as pd
import pytest

import dpwitness as dpw
from dpwitness import InvalidArgument, Pair, domains, executors
from dpwitness import mechanisms as m
from dpwitness.auditors import FailureBound, MeanBound, Scaling

PAIR = Pair(np.array([0.0]), np.array([1.0]))
_HIDDEN = {"scale": 0.4}


def noisy(dataset, size, rng):
    """Claims epsilon = 1 and has 2."""
    return np.sum(dataset) + rng.laplace(0.0, 0.5, size)


def audit(mechanism=noisy, claim="pure:1", trials=4_000, **options):
    defaults = {"pair": PAIR, "seed": 1, "bits": False, "trace": False, "causes": False}
    return dpw.audit(mechanism, claim=claim, trials=trials, **(defaults | options))


# -- outputs of more types, each of which may hold one bit


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


Named = collections.namedtuple("Named", "a b")
Other = collections.namedtuple("Other", "a c")
NOON = datetime.datetime(2020, 1, 1, 12)
OUTPUTS = {
    "fraction": (fractions.Fraction(1, 3), fractions.Fraction(10**40 + 1, 3 * 10**40)),
    "zero at the end": (decimal.Decimal("1.5"), decimal.Decimal("1.50")),
    "long double": (np.longdouble(1), np.longdouble(1) + np.finfo(np.longdouble).eps),
    "long doubles": (np.ones(2, np.longdouble), np.ones(2, np.longdouble) * (1 + np.finfo(np.longdouble).eps)),
    "microsecond": (NOON, NOON.replace(microsecond=1)),
    "time zone": (NOON, NOON.replace(tzinfo=datetime.UTC)),
    "fold": (NOON, NOON.replace(fold=1)),
    "day": (NOON.date(), datetime.date(2020, 1, 2)),
    "time of day": (datetime.time(1), datetime.time(1, 0, 1)),
    "span": (datetime.timedelta(1), datetime.timedelta(1, 0, 1)),
    "unit of a time": (np.datetime64("2020-01-01", "D"), np.datetime64("2020-01-01", "s")),
    "no time": (np.datetime64("NaT"), np.datetime64("2020-01-01")),
    "span of numpy": (np.timedelta64(1, "s"), np.timedelta64(1, "m")),
    "enum": (Color.RED, Color.BLUE),
    "field": (Point(1.0), Point(1.0, 2.0)),
    "slot": (Slots(1, 2), Slots(1, 3)),
    "name of a field": (Named(1, 2), Other(1, 2)),
    "set": ({1, 2}, {1, 3}),
    "frozenset": (frozenset({1}), {1}),
    "array": (array.array("i", [1]), array.array("l", [1])),
    "deque": (collections.deque([1]), collections.deque([2])),
    "structured": (np.array([(1, 2.0)], "i4,f8"), np.array([(1, 2.5)], "i4,f8")),
    "imaginary part": (np.array([1 + 0j]), np.array([1 + 1j])),
    "float32": (np.float32(0.1), np.float32(0.1) + np.float32(1e-8)),
    "missing": (pd.Series([1.0, None]), pd.Series([1.0, 2.0])),
    "kind of missing": (pd.Series([None, "a"], dtype=object), pd.Series([np.nan, "a"], dtype=object)),
    "order of categories": (
        pd.Series(pd.Categorical(["a"], ["a", "b"])), pd.Series(pd.Categorical(["a"], ["b", "a"])),
    ),
    "levels": (pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)])),
               pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([(1, 3)]))),
    "columns of a frame in another order": (pd.DataFrame({"a": [1], "b": [1]}), pd.DataFrame({"b": [1], "a": [1]})),
    "range": (range(3), range(4)),
    "None": (None, 0),
    "long text": ("a" * 100, "a" * 99 + "b"),
    "number in a text": ("about 12 rows", "about 13 rows"),
    "NaN": (float("nan"), 0.0),
    "infinity": (float("inf"), float("-inf")),
    "large integer": (10**400, 10**400 + 1),
    "nested list": ([[1], [2, 3]], [[1, 2], [3]]),
}  # fmt: skip


@pytest.mark.slow_cases("levels", "columns of a frame in another order", "order of categories")
@pytest.mark.parametrize("name", OUTPUTS)
def test_every_part_of_an_output_is_audited(name):
    zero, one = OUTPUTS[name]

    def flips(dataset, size, rng):
        return [one if rng.random() < 0.5 else zero for _ in range(size)]

    published = dpw.audit_outputs([zero] * 1_000, [one] * 1_000, claim="pure:1")
    assert published.verdict.value == "VIOLATED"
    assert audit(flips, trials=1_000).verdict.value != "VIOLATED"


# -- every kind of event


def response(values, odds=4.0):
    """A mechanism that returns a number of one list or the other, by a coin with these odds."""

    def mechanism(dataset, size, rng):
        right = rng.random(size) < odds / (1 + odds)
        ones = right == (np.sum(dataset) > 0.5)
        picks = rng.integers(len(values[0]), size=size)
        return np.where(ones, np.asarray(values[1])[picks], np.asarray(values[0])[picks])

    return mechanism


def ball(dataset, size, rng):
    scale = 1.0 if dataset[0] > 0 else 1.6
    return scale * rng.normal(size=(size, 2))


def parity(dataset, size, rng):
    right = rng.random(size) < 0.9
    whole = rng.integers(-50, 50, size)
    return 2 * whole + (right == (dataset[0] > 0))


def two_columns(dataset, size, rng):
    signs = np.sign(rng.normal(size=(size, 2)))
    if dataset[0] > 0:
        signs[:, 1] = np.where(rng.random(size) < 0.9, signs[:, 0], -signs[:, 0])
    return signs * rng.exponential(size=(size, 2))


def spread(dataset, size, rng):
    return rng.laplace(0.0, 1.0 + 2 * dataset[0], size)


def low_bits(dataset, size, rng):
    return np.where(dataset[0] > 0, 0.1, 0.0) + rng.laplace(size=size)


EVENTS = {
    "threshold": noisy, "values": response(([1.0, 2.0], [3.0, 4.0])), "ball": ball, "lattice": parity,
    "interaction": two_columns, "spread": spread,
}  # fmt: skip


@pytest.mark.slow_cases("interaction", "ball", "spread")
@pytest.mark.parametrize("name", EVENTS)
def test_an_event_is_learned_replayed_and_means_the_same_after_json(name):
    mechanism = EVENTS[name]
    found = audit(mechanism, "pure:0.5", trials=20_000)
    assert found.verdict.value == "VIOLATED", found.headline()
    witness = json.loads(json.dumps(found.witness))
    again = dpw.replay(witness, mechanism=mechanism, trials=20_000, seed=2)
    assert again.verdict.value == "VIOLATED"
    assert again.parameter_lower == pytest.approx(found.parameter_lower, rel=0.35)
    rare = min(found.tally.correct, found.tally.wrong)
    assert found.tally.correct + found.tally.wrong <= found.tally.rounds and rare >= 0


@pytest.mark.slow_cases("rdp:2,0.2", "gdp:0.5", "zcdp:0.1")
@pytest.mark.parametrize("claim", ["rdp:2,0.2", "zcdp:0.1", "gdp:0.5", "approx:0.5,0.001"])
def test_a_violation_of_another_notion_is_replayed(claim):
    found = audit(claim=claim, trials=20_000)
    assert found.verdict.value == "VIOLATED"
    assert found.parameter_lower > dpw.parse_claim(claim).parameter
    again = dpw.replay(
        json.loads(json.dumps(found.witness)), mechanism=noisy, trials=20_000, seed=2
    )
    assert again.verdict.value == "VIOLATED"


# -- statistics that a user suggests


def digit_sum(outputs):
    return np.array([sum(map(int, str(each))) % 3 for each in outputs], dtype=float)


def digit_sums(outputs):
    found = digit_sum(outputs)
    return {"by three": found, "none": np.zeros_like(found)}


def hidden_in_digits(dataset, size, rng):
    """A number whose digit sum, by 3, is the answer of randomized response."""
    numbers = 3 * rng.integers(10**8, 10**9, size)
    return (numbers + (rng.random(size) < (0.9 if dataset[0] > 0 else 0.1))).tolist()


def test_a_suggested_statistic_finds_what_it_shows():
    found = audit(hidden_in_digits, trials=6_000, scores=[digit_sum])
    assert found.verdict.value == "VIOLATED"
    assert audit(hidden_in_digits, trials=6_000).verdict.value == "NOT_REFUTED"
    again = dpw.replay(found.witness, mechanism=hidden_in_digits, trials=6_000, seed=2)
    assert again.verdict.value == "VIOLATED"
    named = audit(hidden_in_digits, trials=6_000, scores=[digit_sums])
    assert "output 0 is the score digit_sums[by three]" in named.to_json()["description"]


def raises(outputs):
    raise ValueError("no")


def depends_on_others(outputs):
    return np.arange(len(outputs), dtype=float)


def nan(outputs):
    return np.full(len(outputs), np.nan)


@pytest.mark.parametrize("score", [raises, depends_on_others, nan], ids=lambda each: each.__name__)
def test_a_statistic_that_cannot_be_used_is_left_out_with_a_note(score):
    found = audit(trials=4_000, scores=[score])
    assert found.verdict.value == "VIOLATED"
    assert any(score.__name__ in note for note in found.notes), found.notes


# -- stores


def test_an_extension_tests_the_same_event_on_more_runs(tmp_path):
    path = tmp_path / "run.db"
    with pytest.raises(InvalidArgument, match="extend_to"):
        audit(name="noisy", store=path, extend_to=20_000)
    first = audit(name="noisy", store=path)
    more = audit(name="noisy", store=path, extend_to=20_000)
    assert more.requested == 20_000 and more.event.to_json() == first.event.to_json()
    assert more.parameter_lower > first.parameter_lower
    assert 0.98 < more.confidence < first.confidence
    again = audit(name="noisy", store=path, extend_to=20_000)
    assert again.parameter_lower == more.parameter_lower and again.tally == more.tally
    with pytest.raises(InvalidArgument, match="store"):
        audit(name="noisy", store=path, seed=2)


def test_an_interrupted_audit_goes_on_with_the_same_counts(tmp_path):
    def stopping(done, *_):
        if done > 6_000:
            raise KeyboardInterrupt

    options = {"trials": 20_000, "name": "noisy"}
    whole = audit(**options)
    path = tmp_path / "run.db"
    stopped = audit(**options, store=path, progress=stopping)
    resumed = audit(**options, store=path)
    assert stopped.verdict.value == "INCONCLUSIVE" and 0 < stopped.trials < 20_000
    assert resumed.tally == whole.tally and resumed.parameter_lower == whole.parameter_lower


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("visible", [True, False])
def test_a_mechanism_without_a_seed_is_stored_and_compared(tmp_path, monkeypatch, visible):
    def unseeded(dataset, size, rng):
        scale = closed if visible else _HIDDEN["scale"]
        return np.sum(dataset) + np.random.default_rng().laplace(0.0, scale, size)

    closed, unseeded.seeded = 0.4, False
    path = tmp_path / "run.db"
    first, again = (audit(unseeded, name="free", store=path) for _ in range(2))
    assert first.verdict.value == "VIOLATED" and first.tally == again.tally
    closed = 4.0 if visible else closed
    monkeypatch.setitem(_HIDDEN, "scale", 4.0)  # seen in the outputs only
    with pytest.raises(InvalidArgument, match="store" if visible else "rounds run now"):
        audit(unseeded, name="free", store=path)


def test_a_function_without_a_file_is_known_by_its_code(tmp_path):
    def made(scale):
        names = {}
        exec(f"def f(data, size, rng):\n return data.sum() + rng.laplace(0, {scale}, size)", names)
        return names["f"]

    path = tmp_path / "run.db"
    first, again = (audit(made(0.4), name="made", store=path) for _ in range(2))
    assert first.tally == again.tally
    with pytest.raises(InvalidArgument, match="source"):
        audit(made(0.7), name="made", store=path)


# -- plans


def test_a_plan_finds_what_it_promises():
    plan = dpw.plan("pure:1", find=2.0, mechanism=noisy, pair=PAIR, power=0.9)
    assert 1_000 <= plan.needed <= 20_000
    found = [audit(trials=plan.needed, seed=seed).verdict.value for seed in range(4)]
    assert found.count("VIOLATED") >= 3


@pytest.mark.slow
def test_a_plan_of_a_known_law_needs_fewer_runs_for_more():
    needed = [
        dpw.plan("pure:1", find=find, mechanism=m.Laplace(1.0), pair=PAIR).needed
        for find in (1.3, 2.0)
    ]
    assert needed[0] > needed[1] >= 1_000


# -- executors


def total(data, size, rng):
    return data["x"].sum() + rng.laplace(0.0, 0.5, size)


@pytest.mark.slow_cases("threads:2")
@pytest.mark.parametrize("where", ["threads:2", "processes:2"])
def test_an_executor_changes_no_count(where):
    frame = pd.DataFrame({"x": np.arange(2_000.0) / 2_000})
    pair = Pair(frame, frame.assign(x=[1.0, *frame["x"][1:]]))

    alone = audit(total, pair=pair)
    with executors.executor(where) as pool:
        shared = audit(total, pair=pair, executor=pool)
    assert alone.tally == shared.tally and alone.parameter_lower == shared.parameter_lower
    assert shared.verdict.value == "VIOLATED"


@pytest.mark.parametrize("text", ["threads:0", "processes:-1", "dask://", "gpu:1", "threads:x"])
def test_an_executor_that_cannot_be_is_refused(text):
    with pytest.raises(InvalidArgument, match="executor"):
        executors.executor(text)


def dies(dataset, size, rng):
    os._exit(3)


def test_a_worker_that_dies_is_an_error_of_the_mechanism():
    with executors.executor("processes:2") as pool:
        found = audit(dies, trials=1_000, executor=pool)
    assert found.verdict.value == "ERROR" and "died" in found.headline()


def hangs(dataset, size, rng):
    time.sleep(30)
    return np.zeros(size)


def test_a_mechanism_that_hangs_is_an_error_after_its_time_limit():
    start = time.monotonic()
    found = audit(hangs, trials=1_000, time_limit=0.4)
    assert found.verdict.value == "ERROR" and time.monotonic() - start < 20


def sometimes(dataset, size, rng):
    if size > 1 and rng.random() < 0.01:
        raise OverflowError("too large")
    return np.sum(dataset) + rng.laplace(0.0, 0.4, size)


def test_exceptions_of_some_batches_do_not_end_an_audit():
    found = audit(sometimes, trials=8_000)
    assert found.verdict.value == "VIOLATED"


WRONG_OUTPUTS = {
    "too few": lambda d, n, rng: np.zeros(n - 1),
    "no list": lambda d, n, rng: 3.0,
    "generator": lambda d, n, rng: (0.0 for _ in range(n)),
    "other dimensions": lambda d, n, rng: np.zeros((n, int(rng.integers(1, 4)))),
}


@pytest.mark.parametrize("name", ["too few", "no list"])
def test_outputs_of_another_number_are_an_error(name):
    found = audit(WRONG_OUTPUTS[name], trials=1_000)
    assert found.verdict.value == "ERROR"


# -- replays of other witnesses


def error(size, rng):
    return np.abs(rng.laplace(size=size))


def errors(value, size, rng):
    return np.abs(rng.laplace(scale=value**1.5, size=size))


GRID = (1.0, 4.0, 16.0, 64.0)
MEASURED = {
    "mean": lambda: dpw.audit_utility(error, MeanBound(0.8), runs=20_000, seed=1),
    "failure": lambda: dpw.audit_utility(error, FailureBound(1.0, 0.2), runs=20_000, seed=1),
    "scaling": lambda: dpw.audit_utility(errors, Scaling(1.3, GRID), runs=1_000, seed=1),
    "sensitivity": lambda: dpw.audit_sensitivity(np.mean, 0.2, domains.Records(4), evaluations=200),
}
KEPT = {
    "mean": lambda: dpw.audit_utility(error, MeanBound(1.1), runs=20_000, seed=1),
    "failure": lambda: dpw.audit_utility(error, FailureBound(1.0, 0.4), runs=20_000, seed=1),
    "scaling": lambda: dpw.audit_utility(errors, Scaling(1.6, GRID), runs=1_000, seed=1),
    "sensitivity": lambda: dpw.audit_sensitivity(
        np.mean, 0.25, domains.Records(4), evaluations=200
    ),
}


@pytest.mark.parametrize("kind", MEASURED)
def test_a_measured_bound_is_refuted_where_it_is_too_small(kind):
    found, kept = MEASURED[kind](), KEPT[kind]()
    assert (found.verdict.value, kept.verdict.value) == ("VIOLATED", "NOT_REFUTED")
    assert found.to_json()["headline"] == found.headline()
    assert found.witness is not None and kept.witness is None


@pytest.mark.slow
def test_a_large_frame_of_a_witness_is_a_file_beside_it(tmp_path):
    pytest.importorskip("pyarrow")
    from dpwitness.cli import main

    frame = pd.DataFrame({"x": np.arange(6_000.0) / 6_000})
    frame["who"] = [f"row {k % 7}" for k in range(6_000)]
    frame["left"] = pd.array([None, *range(5_999)], dtype="Int64")
    frame.index = pd.Index(np.arange(6_000) + 10, name="id")
    frame.to_parquet(tmp_path / "d0.parquet")
    frame.assign(x=[1.0, *frame["x"][1:]]).to_parquet(tmp_path / "d1.parquet")
    (tmp_path / "framed.py").write_text(
        "def total(data, size, rng):\n    assert data['left'].isna().sum() == 1\n"
        "    assert data.index[0] == 10\n"
        "    return data['x'].sum() + rng.laplace(0.0, 0.3, size)\n"
    )
    with contextlib.chdir(tmp_path):
        line = "audit framed.py:total --claim pure:1 --d0 d0.parquet --d1 d1.parquet --in-process"
        assert main([*line.split(), "--trials", "3000", "--report", "out"]) == 1
        files = sorted(path.name for path in (tmp_path / "out").glob("frame-*.parquet"))
        assert len(files) == 2
        assert main(["replay", "out/witness-total.json", "--trials", "3000"]) == 1
        (tmp_path / "out" / files[0]).write_bytes(b"other")
        assert main(["replay", "out/witness-total.json", "--trials", "3000"]) == 2
