"""Proofs that can fail: constants and inequalities of the checks, mutated by machine, turn the
verdicts.
"""

import dataclasses
import time

import pytest
from flint import arb

from dpwitness.benchmarks.mutation.mutants import installed_mutant, mutants, run
from dpwitness.benchmarks.mutation.score import LEAST, proofs, sample, score
from dpwitness.proofs_checks.engine import (
    ClaimVerdict,
    Contradiction,
    Effort,
    Enclosure,
    check,
    declarations,
    free,
    interval,
    settle,
    twice,
    unsatisfiable,
)
from dpwitness.proofs_checks.engine.ledger import _LEDGER

NAMED = ("CM-06-repair", "CM-04", "JT-10", "JT-11", "MN-02", "MN-06-price", "JT-16-repair")
QUICK = (
    "CM-01",
    "CM-02",
    "CM-05-line",
    "CM-08",
    "CM-08-repair",
    "JK-10-repair",
    "JK-11",
    "JK-11-tail",
    "JK-14",
    "JK-17",
    "JT-02",
    "JT-03",
)
MORE = (
    "JT-05-repair",
    "JT-06",
    "JT-12-repair",
    "JT-15",
    "JT-16-moderate",
    "JT-19-repair",
    "MN-03",
    "MN-05-cited",
    "ZOO-SVT",
)


HOLDS, TIGHT, FAILS, OPEN = (
    ClaimVerdict.HOLDS,
    ClaimVerdict.HOLDS_TIGHT,
    ClaimVerdict.FAILS,
    ClaimVerdict.INCONCLUSIVE,
)
FLIPPED = {
    HOLDS: (
        "CM-01",
        "CM-02",
        "CM-07-line",
        "CM-10-errors",
        "JK-06",
        "JK-13",
        "JK-18-theorem-12",
        "JT-06",
        "MN-03",
    ),
    FAILS: (
        *(
            "CM-05-line",
            "CM-08",
            "CM-08-repair",
            "JK-17",
            "JT-02",
            "JT-03",
            "JT-06-repair",
            "JT-07-attributed-linear",
            "JT-13-dominated",
        ),
        *("MN-03-repair", "MN-05-clipped"),
    ),
}


@pytest.mark.parametrize(
    ("id", "verdict"), [(id, verdict) for verdict, ids in FLIPPED.items() for id in ids]
)
def test_the_opposite_inequality_turns_the_verdict(id, verdict, mutated):
    def negated(**balls):
        value = declarations()[id].function(**balls)
        return Enclosure(-value.upper, -value.lower)

    assert mutated(id, function=negated) is verdict


def shown(outcomes):
    return [
        f"{o.mutant.claim} {o.mutant.where}:{o.mutant.line} {o.mutant.change}  {o.mutant.text}"
        for o in outcomes
    ]


@pytest.mark.slow_cases("JT-16-repair")
@pytest.mark.parametrize("id", NAMED)
def test_no_constant_of_these_can_be_halved_or_doubled(id):
    """Every mutant of the entries whose constants once could be: none without a reason turns
    nothing.
    """
    found = score(run(declarations()[id]))
    assert found.counted >= 8 and not found.unexplained, shown(found.unexplained)
    assert found.turned >= LEAST and found.verdict >= 0.9 * found.counted, shown(found.listed)


def test_a_sample_of_the_campaign():
    """A fifth of the mutants of twenty proofs, by a fixed seed."""
    found = score(sample((*QUICK, *MORE), share=0.2, seed=1))
    assert found.counted >= 30 and not found.unexplained, shown(found.unexplained)
    assert found.turned >= 0.9, shown(found.listed)


def test_a_mutant_is_planted_and_taken_away():
    """The rate of CM-02's noise, by one constant; afterwards everything is as before, also where
    the claim is held.
    """
    declared = declarations()["CM-02"]
    before = check("CM-02", epsilon=1.0).evidence.enclosure
    outcomes = run(declared)
    assert {o.kind for o in outcomes} <= {"verdict", "error"} and len(outcomes) >= 8
    assert (
        check("CM-02", epsilon=1.0).evidence.enclosure == before
        and check("CM-02").claim_verdict is ClaimVerdict.FAILS
    )
    mutant, place, changed = next(
        found for found in mutants(declared) if found[0].change == "2 -> 4"
    )
    assert "sqrt" in mutant.text
    with installed_mutant(place, changed):
        # S / b for a scale of S / (2 epsilon)
        assert check("CM-02", epsilon=1.0).evidence.enclosure.lower == pytest.approx(1.0)


def test_two_forms_of_one_number_must_meet():
    x = interval(0.5, 2.0)
    assert twice(lambda x: x * x, lambda x: x**2, x).overlaps(arb(1))
    with pytest.raises(Contradiction, match="at "):
        twice(lambda x: x * x, lambda x: x**2 * (1 + arb(1e-6)), x)
    assert float(free(3.0)) == 3.0


def test_a_promise_that_is_not_reached_is_not_proved():
    from z3 import Reals

    a, b = Reals("a b")
    effort = Effort(True, 20.0, 0, time.monotonic())
    assert unsatisfiable(effort, [a >= 0, a <= b, a > b], text="t").verdict is ClaimVerdict.HOLDS
    loose = unsatisfiable(effort, [b > 0, a <= b, a > 2 * b], text="t")
    assert loose.verdict is ClaimVerdict.INCONCLUSIVE and "not attained" in loose.text
    void = unsatisfiable(effort, [b > 0, b < 0, a > b], text="t")
    # premises that nothing satisfies prove nothing
    assert void.verdict is ClaimVerdict.INCONCLUSIVE
    assert (
        unsatisfiable(effort, [a <= b, a > b], text="t", where=[[a == b + 1]]).verdict
        is ClaimVerdict.INCONCLUSIVE
    )


def test_the_slack_that_an_entry_states_is_the_slack_that_is_proved(monkeypatch):
    declared = declarations()["JT-03"]
    assert (
        declared.reach == pytest.approx(0.40174, abs=1e-5)
        and settle(declared).claim_verdict is ClaimVerdict.HOLDS
    )
    other = dataclasses.replace(declared, reach=0.41)
    monkeypatch.setitem(_LEDGER, "JT-03", other)
    found = settle(other)
    assert found.claim_verdict is ClaimVerdict.INCONCLUSIVE and "0.41 is stated" in found.headline()
    # what is stated is of the whole domain
    assert settle(other, {"epsilon": 1.0}).claim_verdict is ClaimVerdict.HOLDS


def test_every_proof_over_a_box_states_its_slack():
    assert [it.id for it in declarations().values() if it.boxed and it.reach is None] == []
    assert len(proofs()) >= 105
