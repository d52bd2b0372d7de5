"""How far a finding reaches and what it rests on: computed from what was run, counted on the page,
and never more than was shown.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dpwitness.auditors import Verdict
from dpwitness.mechanisms import InvalidArgument
from dpwitness.proofs_checks.engine import (
    Box,
    ClaimVerdict,
    Declaration,
    Enclosure,
    Evidence,
    audited,
    enclose,
    identities,
    settle,
    unsatisfiable,
)


def declared(function, boxed=True, **domain):
    return Declaration("X-01", "s", "says", "f", Box(**domain), "certificate", function, boxed)


def test_a_settled_box_is_the_whole_domain_and_a_part_of_it_is_not():
    whole = settle(declared(lambda x: enclose(x - 2), x=(0.0, 1.0)))
    assert (whole.scope, whole.grade, whole.claim_verdict) == (
        "whole domain",
        "proved",
        ClaimVerdict.HOLDS,
    )
    part = settle(declared(lambda x: enclose(x - 2), x=(0.0, 1.0)), {"x": (0.0, 0.5)})
    assert part.scope == "box" and "proved on the whole ranges asked for" in part.headline()
    assert settle(declared(lambda x: enclose(x - 2), x=(0.0, 1.0)), {"x": 0.5}).scope == "point"


def test_an_undecided_strip_makes_it_a_box_with_its_shares():
    """The sign of x - 1/3 on [0, 1] is never settled at 1/3, and is left open on most of [0, 1]
    where the ball is too wide.
    """
    sharp = settle(declared(lambda x: enclose(x - 1 / 3), x=(0.0, 1.0)))
    assert sharp.scope == "box" and sharp.claim_verdict is ClaimVerdict.FAILS
    signs = sharp.evidence.signs
    assert 0 < signs.undecided <= 0.02 and signs.positive == pytest.approx(2 / 3, abs=0.02)
    assert f"{100 * signs.undecided:.3g} % undecided" in sharp.headline()
    open_ = settle(declared(lambda x: Enclosure(enclose(x - 0.9).lower, 1.0), x=(0.0, 1.0)))
    assert (
        open_.scope == "box"
        and open_.evidence.signs.undecided > 0.8
        and "% undecided" in open_.headline()
    )
    # fails on all of it
    assert settle(declared(lambda x: enclose(x + 1), x=(0.0, 1.0))).scope == "whole domain"


def test_symbols_reach_everything_and_numbers_a_point():
    def algebra(effort):
        import sympy

        x = sympy.Symbol("x")
        return identities((x + 1) ** 2 - x**2 - 2 * x - 1, text="equal")

    def wrong(effort):
        import sympy

        return identities(sympy.Symbol("x") - 1, text="equal")

    def real(effort, k=3.0):
        from z3 import Real

        x = Real("x")
        return unsatisfiable(effort, [x > k, x < k - 1], text="none")

    assert settle(declared(algebra, False)).scope == "whole domain"
    assert settle(declared(wrong, False)).scope == "point"  # one case refutes it
    assert settle(declared(real, False, k=(1.0, 5.0))).scope == "point"  # k was a number


def test_only_a_proof_lets_a_claim_hold():
    for verdict in (ClaimVerdict.HOLDS, ClaimVerdict.HOLDS_TIGHT):
        assert Evidence(verdict, "t", "m", grade="proved").grade == "proved"
        for grade in ("statistical", "numerical", "assumed"):
            with pytest.raises(InvalidArgument, match="grade must be 'proved'"):
                Evidence(verdict, "t", "m", grade=grade)
    with pytest.raises(InvalidArgument, match="grade must be one of"):
        Evidence(ClaimVerdict.FAILS, "t", "m", grade="certain")


@pytest.mark.parametrize(
    ("verdict", "word"),
    [
        (Verdict.SUPPORTED, ClaimVerdict.NOT_REFUTED),
        (Verdict.CERTIFIED, ClaimVerdict.NOT_REFUTED),
        (Verdict.VIOLATED, ClaimVerdict.FAILS),
        (Verdict.INCONCLUSIVE, ClaimVerdict.INCONCLUSIVE),
        (Verdict.ERROR, ClaimVerdict.INCONCLUSIVE),
    ],
)
@pytest.mark.parametrize("grade", ["proved", "statistical", "numerical", "assumed"])
def test_an_audit_of_a_pair_never_makes_a_claim_hold(verdict, word, grade):
    found = audited(
        SimpleNamespace(
            verdict=verdict,
            evidence=grade,
            headline=lambda: "WORD: text",
            claim=SimpleNamespace(method="audit"),
        )
    )
    assert (found.verdict, found.grade, found.text) == (word, grade, "text")
