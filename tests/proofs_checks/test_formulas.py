"""Printed formulas have the value that their checks compute, and statements fit their formulas: a changed text is noticed.

Entries whose texts cannot be compared yet are listed in `uncovered_texts.json`, a list that may only get shorter.
"""

import dataclasses
import json
from pathlib import Path

import pytest
from flint import arb

from dpwitness.proofs_checks import declarations
from dpwitness.proofs_checks.engine.formulas import (
    Unreadable,
    covered,
    evaluate,
    formula_problem,
    parse,
    read,
    statement_problem,
    text_mutants,
)

UNCOVERED = json.loads((Path(__file__).parent / "uncovered_texts.json").read_text())
PROBLEMS = {"formula": formula_problem, "statement": statement_problem}


@pytest.fixture(scope="module")
def known():
    return declarations()


@pytest.mark.parametrize("field", PROBLEMS)
def test_every_text_is_compared_or_listed(field, known):
    left = [id for id, declared in known.items() if not covered(declared, PROBLEMS[field])]
    assert left == UNCOVERED[field]


@pytest.mark.parametrize("field", PROBLEMS)
def test_a_changed_text_is_noticed(field, known):
    """Each number doubled and halved; relations, operators, epsilon and delta exchanged, one at a time. 95 % at least are noticed."""
    texts = [(known[id], text) for id in known if id not in UNCOVERED[field] for text in text_mutants(getattr(known[id], field))]
    missed = [(it.id, text) for it, text in texts if covered(dataclasses.replace(it, **{field: text}), PROBLEMS[field])]
    assert len(texts) >= {"formula": 450, "statement": 40}[field]
    assert len(missed) <= 0.05 * len(texts), missed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 x^2 / 4", 4.5),
        ("(1 - x) (2 + x) - |1 - x| 2", -14.0),
        ("-x + 2^-1", -2.5),
        ("sqrt(x + 1) log(1)", 0.0),
        ("2 Phi(0) + Q(0)", 1.5),
        ("max_s 4 s (1 - s) x", 3.0),
        ("e^0 sigmoid(0) + exp(0)", 1.5),
    ],
)
def test_expressions(text, value):
    assert float(evaluate(parse(text), {"x": arb(3)})) == pytest.approx(value)


@pytest.mark.parametrize("text", ["2 +", "(1", "|1", "1)", "P[x]", ""])
def test_what_is_not_an_expression(text):
    with pytest.raises(Unreadable):
        parse(text)


def test_a_problem_names_the_difference(known):
    wrong = dataclasses.replace(known["JT-11"], formula="(L R / lambda) (2 + sqrt(1 + x)) <= (L R / lambda) (4 + 2 x)")
    assert "the formula exceeds by" in formula_problem(wrong)
    wrong = dataclasses.replace(known["JK-02-repair"], statement="Replacing one record moves the minimiser by at most L R / (lambda n)")
    assert "the statement's bound is 0.25 times the formula's" in statement_problem(wrong)
    wrong = dataclasses.replace(known["JT-16-repair"], statement="The game is (delta, epsilon)-DP for every T, p and choice of costs")
    assert "is not what the formula bounds" in statement_problem(wrong)
    with pytest.raises(Unreadable):
        read(known["CM-09"])
