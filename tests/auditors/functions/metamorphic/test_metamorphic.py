"""Metamorphic relations on functions and mechanisms that keep them, and on ones that break them."""

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpwitness import InvalidArgument, replay
from dpwitness.auditors.functions.metamorphic.random_relations import _log_chance
from dpwitness.auditors.functions.metamorphic.relations import concatenated
from dpwitness.domains import Records
from dpwitness.metamorphic import audit_metamorphic, errors_ignore_one_record, order_is_ignored

DOMAIN = Records(4)


def only(*arguments, **options):
    (found,) = audit_metamorphic(*arguments, **options)
    return found


def first_row(rows):
    return float(rows[0])


def centered(rows):
    return rows - np.mean(rows)


def fails_on_large_rows(dataset, size, rng):
    if np.max(dataset) >= 1:
        raise OverflowError(f"row {np.argmax(dataset)} is too large")
    return rng.laplace(size=size)


def laplace(epsilon):
    return lambda dataset, size, rng: np.sum(dataset) + rng.laplace(0, 1 / epsilon, size)


def capped(epsilon):
    """Laplace noise whose scale grows with epsilon, and does not vanish at 0."""
    return lambda dataset, size, rng: np.sum(dataset) + rng.laplace(0, max(epsilon, 0.1), size)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"function": lambda rows: len(rows), "unordered": True}, "NOT_REFUTED"),
        ({"function": first_row, "unordered": True}, "VIOLATED"),
        ({"function": lambda rows: np.clip(rows, 0, 0.5), "row_wise": True}, "NOT_REFUTED"),
        ({"function": centered, "row_wise": True}, "VIOLATED"),
        ({"function": lambda rows: len(rows), "stability_map": lambda d: 0}, "NOT_REFUTED"),
        ({"function": lambda rows: float(np.max(rows)), "stability_map": lambda d: 0}, "VIOLATED"),
        ({"noise": lambda epsilon: 1 / epsilon}, "NOT_REFUTED"),
        ({"noise": lambda epsilon: 1 / epsilon if epsilon < 1 else epsilon}, "VIOLATED"),
        ({"parallel": max}, "NOT_REFUTED"),
        ({"parallel": lambda epsilons: sum(epsilons) / len(epsilons)}, "VIOLATED"),
        ({"mechanism": laplace(1.0)}, "NOT_REFUTED"),
        ({"mechanism": fails_on_large_rows}, "VIOLATED"),
    ],
)
def test_relations(options, verdict):
    found = only(**options, domain=DOMAIN)
    assert found.verdict.value == verdict, found.headline()
    assert json.loads(json.dumps(found.to_json()))["verdict"] == verdict


def test_epsilon_zero_and_doubled_epsilon():
    """Errors 1e-4 per relation; the wrong mechanism violates both with probability near 1."""
    zero, doubled = audit_metamorphic(at_epsilon=laplace, domain=DOMAIN)
    assert (zero.verdict.value, doubled.verdict.value) == ("NOT_REFUTED", "NOT_REFUTED")
    assert "epsilon 0 is refused" in zero.notes[0]
    zero, doubled = audit_metamorphic(at_epsilon=capped, domain=DOMAIN)
    assert (zero.verdict.value, doubled.verdict.value) == ("VIOLATED", "VIOLATED")
    assert doubled.evidence == "statistical" and 0 < doubled.error <= 1e-4


def test_sequential_composition_is_compared_with_the_optimal_one():
    assert (
        only(
            sequential=lambda epsilons, deltas, delta: (
                math.inf if delta < sum(deltas) else sum(epsilons)
            )
        ).verdict.value
        == "NOT_REFUTED"
    )
    assert (
        only(sequential=lambda epsilons, deltas, delta: max(epsilons)).verdict.value == "VIOLATED"
    )


def test_rounding_of_sums_is_a_note():
    found = only(lambda rows: float(np.sum(rows)), unordered=True, datasets=[[0.1, 0.2, 0.3]])
    assert found.verdict.value == "NOT_REFUTED"
    assert "differ by rounding" in found.notes[0]


@pytest.mark.parametrize(
    ("raising", "quiet", "epsilon"), [(4, 30, 0.0), (4, 100, 1.0), (4, 500, 3.0)]
)
def test_the_chance_of_exceptions_on_one_side_only_is_an_upper_bound(raising, quiet, epsilon):
    chances = [
        p**raising * (1 - q) ** quiet
        for p in np.linspace(0, 1, 2001)
        for q in [p * math.exp(-epsilon)]
    ]
    assert max(chances) == pytest.approx(math.exp(_log_chance(quiet, epsilon)), rel=0.01)


def test_vectors_and_words_that_spread_more():
    """Errors 1e-4 per relation; each wrong mechanism violates with probability near 1, each right
    one never beyond its error.
    """
    vectors = lambda scale: (  # noqa: E731
        lambda epsilon: lambda d, size, rng: rng.normal(0, [1.0, scale(epsilon)], (size, 2))
    )
    words = lambda lie: (  # noqa: E731
        lambda epsilon: (
            lambda d, size, rng: [("yes", "no")[int(u < lie(epsilon))] for u in rng.random(size)]
        )
    )
    for family, verdict in (
        (vectors(lambda epsilon: 1 / epsilon), "NOT_REFUTED"),
        (vectors(lambda epsilon: 1 + epsilon), "VIOLATED"),
        (words(lambda epsilon: 1 / (1 + math.exp(epsilon))), "NOT_REFUTED"),
        (words(lambda epsilon: 0.5 - 0.5 / (1 + epsilon**2)), "VIOLATED"),
    ):
        assert (
            only(
                at_epsilon=family, domain=DOMAIN, only=["more_epsilon_spreads_no_more"]
            ).verdict.value
            == verdict
        )


def test_rows_that_two_libraries_number_differently():
    frames = [
        pd.DataFrame({"x": [1, 2, 3], "y": ["a", None, "c"]}),
        pl.DataFrame({"x": [1, 2, 3], "y": ["a", None, "c"]}),
    ]
    kept = lambda f: f[f["x"] > 1] if isinstance(f, pd.DataFrame) else f.filter(pl.col("x") > 1)  # noqa: E731
    for frame in frames:
        found = audit_metamorphic(
            kept, row_wise=True, unordered=True, output_metric="symmetric", datasets=[frame]
        )
        assert [each.verdict.value for each in found] == ["NOT_REFUTED", "NOT_REFUTED"]
        assert only(
            lambda f: f["x"].cum_sum() if hasattr(f["x"], "cum_sum") else f["x"].cumsum(),
            row_wise=True,
            datasets=[frame],
        ).finding


def test_rows_that_raise_together_are_no_finding():
    def checked(rows):
        if len(rows) == 0:
            raise ValueError("empty")
        for row in rows:
            if row > 1:
                raise (ValueError if row > 2 else TypeError)("too large")
        return rows

    assert (
        only(checked, row_wise=True, datasets=[[2, 3], [0, 1, 3], [1, 1]]).verdict.value
        == "NOT_REFUTED"
    )


def test_a_function_that_is_not_deterministic_is_an_error():
    rng = np.random.default_rng(0)
    found = only(lambda rows: rng.normal(), unordered=True, domain=DOMAIN)
    assert found.verdict.value == "ERROR"


def test_the_number_of_runs_follows_from_epsilon():
    """With epsilon 1, an exception on one side only may have probability 0.731 on that side: 20
    runs would not do.
    """
    calls = []

    def sometimes(dataset, size, rng):
        calls.append(1)
        if (rng.random() < 0.731) == (np.max(dataset) >= 1):
            raise ValueError("coin")
        return np.zeros(size)

    found = errors_ignore_one_record(
        sometimes, [(np.zeros(2), np.array([1.0, 0.0]))] * 20, epsilon=1.0
    )
    assert not found.finding
    assert errors_ignore_one_record(sometimes, [(np.zeros(2), np.ones(2))], epsilon=30.0).tried == 0


@pytest.mark.parametrize(
    "options", [{"function": first_row, "unordered": True}, {"mechanism": fails_on_large_rows}]
)
def test_a_witness_replays(options, tmp_path, monkeypatch):
    found = only(**options, domain=DOMAIN)
    witness = json.loads(json.dumps(found.witness))
    again = replay(witness, mechanism=next(value for value in options.values() if callable(value)))
    assert again.verdict.value == "VIOLATED"
    kept = replay(witness, mechanism=(lambda rows: 0.0) if "function" in options else laplace(1.0))
    assert kept.verdict.value == "NOT_REFUTED"


def test_frames():
    frame = pd.DataFrame({"x": [1, 2, 3], "y": ["a", "b", "c"]})
    assert (
        order_is_ignored(
            lambda f: int(f["x"].sum()), [(frame, frame.iloc[::-1].reset_index(drop=True))]
        ).finding
        == ""
    )
    assert (
        only(lambda f: f.assign(z=f["x"] * 2), row_wise=True, datasets=[frame]).verdict.value
        == "NOT_REFUTED"
    )
    assert (
        only(lambda f: f.assign(z=f["x"].rank()), row_wise=True, datasets=[frame]).verdict.value
        == "VIOLATED"
    )
    assert len(concatenated([frame, frame])) == 6


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {}, "no relation applies"),
        ((len,), {"unordered": True}, "order_is_ignored needs datasets"),
        ((3,), {"unordered": True}, "function must be"),
    ],
)
def test_arguments_that_do_not_fit(arguments, options, message):
    with pytest.raises(InvalidArgument, match=message):
        audit_metamorphic(*arguments, **options)
