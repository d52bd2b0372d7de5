"""Metamorphic relations on functions and mechanisms that keep them, and on ones that break them."""

import json
import math

import numpy as np
import pytest

from dpwitness import InvalidArgument, replay
from dpwitness.domains import Records
from dpwitness.metamorphic import audit_metamorphic

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
