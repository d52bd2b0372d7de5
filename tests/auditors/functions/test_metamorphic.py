"""Metamorphic relations on functions that keep them, and on functions that break them."""

import json

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


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"function": lambda rows: len(rows), "unordered": True}, "NOT_REFUTED"),
        ({"function": first_row, "unordered": True}, "VIOLATED"),
        ({"function": lambda rows: np.clip(rows, 0, 0.5), "row_wise": True}, "NOT_REFUTED"),
        ({"function": centered, "row_wise": True}, "VIOLATED"),
        ({"noise": lambda epsilon: 1 / epsilon}, "NOT_REFUTED"),
        ({"noise": lambda epsilon: 1 / epsilon if epsilon < 1 else epsilon}, "VIOLATED"),
        ({"parallel": max}, "NOT_REFUTED"),
        ({"parallel": lambda epsilons: sum(epsilons) / len(epsilons)}, "VIOLATED"),
    ],
)
def test_relations(options, verdict):
    found = only(**options, domain=DOMAIN)
    assert found.verdict.value == verdict, found.headline()
    assert json.loads(json.dumps(found.to_json()))["verdict"] == verdict


def test_a_witness_replays():
    witness = json.loads(json.dumps(only(first_row, unordered=True, domain=DOMAIN).witness))
    assert replay(witness, mechanism=first_row).verdict.value == "VIOLATED"
    assert replay(witness, mechanism=lambda rows: 0.0).verdict.value == "NOT_REFUTED"


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
