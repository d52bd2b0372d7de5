"""Printed texts of claims: a formula has the value that its check computes, a statement fits its
formula, a changed text is noticed.

Two layers. Where a text can be read, its meaning is compared with the check, the audit or the
formula; the others are listed in `uncovered_texts.json`, a list that may only get shorter. Every
text is also bound to its check by `claim-texts.json`.
"""

import dataclasses
import json
from pathlib import Path

import pytest
from flint import arb
from printed_formulas import (
    Unreadable,
    audit_problem,
    covered,
    evaluate,
    formula_problem,
    parse,
    read,
    text_mutants,
)
from printed_statements import statement_problem

from dpwitness.benchmarks.proofs.review.__main__ import main as accept_reviewed
from dpwitness.benchmarks.proofs.review.reviewed_texts import (
    accept,
    differences,
    digest,
    read_reviewed,
)
from dpwitness.proofs_checks import declarations

PUBLISHED = Path(__file__).parents[3] / "reports" / "published"
UNCOVERED = json.loads((Path(__file__).parent / "uncovered_texts.json").read_text())
AUDITS = {
    it["id"]: it
    for it in json.loads((PUBLISHED / "papers.json").read_text(encoding="utf-8"))["claims"]
    if it["audit"]
}


def formula_or_audit_problem(declared):
    """The value of a check over a box, or of an equation; otherwise the claim of the published
    audit.
    """
    try:
        return formula_problem(declared)
    except Unreadable:
        found = AUDITS.get(declared.id)
        if found is None:
            raise
        return audit_problem(declared, found["audit"]["claim"], found["at"])


PROBLEMS = {"formula": formula_or_audit_problem, "statement": statement_problem}


@pytest.fixture(scope="module")
def known():
    return declarations()


@pytest.fixture(scope="module")
def reviewed():
    return read_reviewed(PUBLISHED / "claim-texts.json")


@pytest.mark.parametrize("field", PROBLEMS)
def test_every_text_is_compared_or_listed(field, known):
    left = [id for id, declared in known.items() if not covered(declared, PROBLEMS[field])]
    assert left == UNCOVERED[field]


@pytest.mark.slow_cases("statement")
@pytest.mark.parametrize("field", PROBLEMS)
def test_a_changed_text_is_noticed(field, known):
    """Each number doubled and halved; relations, operators and quantities exchanged, one at a time.
    98 % at least are noticed.
    """
    texts = [
        (known[id], text)
        for id in known
        if id not in UNCOVERED[field]
        for text in text_mutants(getattr(known[id], field))
    ]
    missed = [
        (it.id, text)
        for it, text in texts
        if covered(dataclasses.replace(it, **{field: text}), PROBLEMS[field])
    ]
    assert len(texts) >= {"formula": 750, "statement": 1350}[field]
    assert len(missed) <= 0.02 * len(texts), missed


def test_every_text_was_reviewed_with_its_check(known, reviewed):
    assert list(reviewed) == list(known)
    assert [text for declared in known.values() for text in differences(declared, reviewed)] == []


def test_every_changed_text_differs_from_the_reviewed_one(known, reviewed):
    """All statements, also those that the first layer cannot read."""
    for it in known.values():
        old = reviewed[it.id]["statement"]
        assert it.statement == old and all(text != old for text in text_mutants(it.statement))
    it = dataclasses.replace(
        known["CM-02"], statement="Laplace noise of standard deviation 2 S / epsilon is epsilon-DP"
    )
    (text,) = differences(it, reviewed)
    assert text.startswith(
        "CM-02: the statement was 'Laplace noise of standard deviation S / epsilon is "
        "epsilon-DP' and is 'Laplace"
    )
    assert "Its check did not change" in text and "dpwitness.benchmarks.proofs.review CM-02" in text


def test_a_changed_check_asks_for_a_review(known, reviewed):
    one = known["CM-04"]
    assert (
        digest(one) != digest(dataclasses.replace(one, reach=2.0)) != digest(known["CM-05-repair"])
    )
    (text,) = differences(
        dataclasses.replace(one, function=known["CM-05-repair"].function), reviewed
    )
    assert text.startswith("CM-04: the check changed and its statement")


def test_accept_records_a_review(known, reviewed, tmp_path, capsys):
    file = tmp_path / "claim-texts.json"
    accept(file, dataclasses.replace(known["CM-02"], statement="old"), known["CM-04"])
    accept_reviewed(["CM-02", "CM-04"], file)
    out = capsys.readouterr().out
    assert (
        "CM-02: the statement was 'old' and is 'Laplace" in out and "CM-04: nothing changed" in out
    )
    assert read_reviewed(file)["CM-02"] == reviewed["CM-02"]


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
    wrong = dataclasses.replace(
        known["JT-11"], formula="(L R / lambda) (2 + sqrt(1 + x)) <= (L R / lambda) (4 + 2 x)"
    )
    assert "the formula exceeds by" in formula_problem(wrong)
    wrong = dataclasses.replace(
        known["JK-02-repair"],
        statement="Replacing one record moves the minimiser of (1) by at most L R / (lambda n)",
    )
    assert "the statement's bound is 0.25 times the formula's" in statement_problem(wrong)
    wrong = dataclasses.replace(
        known["JT-16-repair"],
        statement="The game is (delta, epsilon)-DP for every T, p and choice of costs",
    )
    assert "(delta, epsilon)-DP is not what the formula bounds" in statement_problem(wrong)
    wrong = dataclasses.replace(
        known["CM-05"], statement=known["CM-05"].statement.replace("multiple = 1", "multiple = 2")
    )
    assert "multiple = 2 is not the end of the domain" in statement_problem(wrong)
    assert "the audit tested approx:2,0.1" in audit_problem(
        known["JT-16"], "approx:2,0.1", {"epsilon": 1.0, "delta": 0.1}
    )
    with pytest.raises(Unreadable):
        read(known["CM-09"])
