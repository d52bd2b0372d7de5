"""The checker of witnesses: directed rounding against exact numbers and flint's balls, the
program's bounds, and forged witnesses.
"""

import ast
import hashlib
import json
import math
import random
from fractions import Fraction
from pathlib import Path

import pytest
from flint import arb, ctx

import dpwitness
from dpwitness.auditors.statistics.certificate import Tally
from dpwitness.auditors.statistics.combination import Part, combined_bound
from dpwitness.auditors.witnesses.seals import seal
from dpwitness.benchmarks.kernel.answers import BOUNDS, answer, bounds_of, questions
from dpwitness.core.claims import parse_claim
from dpwitness.proofs_checks.kernel import checker as k

F = Fraction
PUBLISHED = Path(dpwitness.__file__).parent.parent / "reports" / "published"
WITNESSES = sorted(PUBLISHED.glob("*/witness-*.json"))
AUDITS = [path for path in WITNESSES if '"counts"' in path.read_text(encoding="utf-8")]


def test_the_tail_is_at_least_the_exact_one_and_close():
    rng = random.Random(1)
    for _ in range(300):
        n, a, c = rng.randint(0, 40), rng.randint(1, 50), rng.randint(1, 50)
        j = rng.randint(0, n)
        exact = sum(F(math.comb(n, i) * a**i * c ** (n - i), (a + c) ** n) for i in range(j, n + 1))
        for one, stop in ((k.ONE, k.STOP), (2**30, 0), (2**30, 2**20), (1, 0)):
            found = F(k.tail(n, j, a, c, one, stop), one)
            assert found >= exact
            assert one < k.ONE or found - exact < F(1, 2**230)


@pytest.mark.parametrize("x", [0.0, 0.3, -5.0, 17.25, -70.0, 12.0, -15.5])
def test_enclosures_hold_the_values_of_ball_arithmetic(x):
    number = F(x)
    with ctx.workprec(4000):
        ball, one = arb(number.numerator) / number.denominator, arb(k.ONE)
        for (low, high), exact in (
            (k.exp(k.floor(number)), ball.exp()),
            (k.normal(k.floor(number)), (ball / arb(2).sqrt()).erfc() / 2),
            (k.log(*(abs(number) + 1).as_integer_ratio()), (abs(ball) + 1).log()),
        ):
            assert arb(low) <= exact * one <= arb(high)
            assert arb(high - low) <= one * (1 + exact) / 2**180
        assert arb(k.LN2) <= arb(2).log() * one <= arb(k.LN2 + 1)
        assert arb(k.DENSITY) <= one / (2 * arb.pi()).sqrt() <= arb(k.DENSITY + 1)


@pytest.mark.parametrize(
    "text", ["pure:0.5", "approx:0.5,0.001", "gdp:0.3", "rdp:3,0.2", "rdp:2=0.2,8=0.9", "zcdp:0.05"]
)
@pytest.mark.parametrize("stages", [1, 2])
def test_the_bound_is_the_programs(text, stages):
    claim = parse_claim(text)
    parts = [Part(Tally(420, 130, 900, 1), 0.125**0.5), Part(Tally(2900, 700, 8000, 1), lost=20)][
        -stages:
    ]
    bound = combined_bound(claim, parts, 0.03)
    found = [{**part.to_json(), "weight": part.weight} for part in parts]
    known, slack = k.decode_claim(text, list(claim.numbers)), 1e-9 if stages == 1 else 1e-6
    assert bound > claim.parameter
    assert k.refutes(known, F(bound - slack), found, F(3, 100))
    assert not k.refutes(known, F(bound + slack), found, F(3, 100))


@pytest.mark.slow
def test_answers_are_fixed():
    """Pins every rounding. `dpwitness bench kernel` measures that mutants of the checker change an
    answer.
    """
    assert bounds_of(k) == BOUNDS
    answers = [answer(question) for question in questions(k)]
    digest = hashlib.sha256("\n".join(answers).encode()).hexdigest()
    assert digest == "c2a41223f223950048a81607fe31a14c23eaf3f51f103b75ac08c49d7a6a1808"


def test_no_published_witness_is_refused_and_all_with_counts_are_accepted():
    answers = {path: k.answer(str(path)) for path in WITNESSES}
    assert len(AUDITS) > 90 and len(WITNESSES) > len(AUDITS) + 50
    assert {path for path, (_, word, _) in answers.items() if word == "ACCEPTED"} == set(AUDITS)
    assert {code for code, _, _ in answers.values()} == {0, 3}


@pytest.mark.parametrize("path", AUDITS[::12], ids=lambda path: path.stem)
def test_a_count_changed_in_the_last_digit_is_refused(path):
    content = json.loads(path.read_text(encoding="utf-8"))
    if "alpha" not in content["counts"] or "stages" in content["counts"]:
        pytest.skip("the witness of an earlier version does not state its error")
    for name, step in (("correct", 1), ("correct", -1), ("wrong", 1)):
        forged = seal(
            content | {"counts": content["counts"] | {name: content["counts"][name] + step}}
        )
        with pytest.raises(k.Refused):
            k.check(json.dumps(forged))


def test_the_file_stands_alone():
    source = Path(k.__file__).read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in (alias.name for alias in node.names)
    }
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {
        "hashlib",
        "json",
        "math",
        "os",
        "re",
        "sys",
        "collections",
        "fractions",
        "functools",
    }
    assert len(source.splitlines()) <= 1300
