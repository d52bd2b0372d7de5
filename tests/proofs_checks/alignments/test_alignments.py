"""Tests of proofs of loop programs: right programs are proved, wrong ones never are, and the
checker refuses false certificates.
"""

import ast
import importlib.util
import inspect
import textwrap
import time
from pathlib import Path

import pytest

from dpwitness import Verdict
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.proofs_checks import prove
from dpwitness.proofs_checks.alignments.checker import (
    DIRECTIONS,
    Obligations,
    Shift,
    failed_obligation,
)
from dpwitness.proofs_checks.alignments.reader import read
from dpwitness.proofs_checks.alignments.search import candidates, inductive

pytest.importorskip("z3")

HEADER = (
    "from dpwitness.proofs_checks.alignments.program import provable\nPOSITIVE = 'epsilon > 0'\n"
    "LIMITED = 'epsilon > 0 and limit >= 1'\n"
)


def load(file):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAMS = load(Path(__file__).with_name("programs.py")).PROGRAMS


@pytest.fixture
def written(tmp_path):
    """Return a function that imports the first function of a text."""

    def make(text):
        file = tmp_path / f"text_{len(list(tmp_path.iterdir()))}.py"
        file.write_text(HEADER + textwrap.dedent(text))
        return getattr(load(file), ast.parse(file.read_text()).body[-1].name)

    return make


def changed(name, *changes):
    """Return the text of a right program with some parts replaced."""
    text = inspect.getsource(PROGRAMS[name])
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


# wrong programs: a right one, and changes of its text
BAD = {
    "bad_noisy_max_value": ("noisy_max", ("return winner", "return best")),
    "bad_noisy_max_half_noise": ("noisy_max", ("2 / epsilon", "1 / epsilon")),
    "bad_gap_sparse_vector": ("gap_sparse_vector", ("noisy - noisy_threshold)", "noisy)")),
    "bad_adaptive_sparse_vector": (
        "adaptive_sparse_vector",
        ("append(q + top - noisy_threshold)", "append(q + top)"),
    ),
    # without noise on the queries, and without a limit
    "bad_sparse_vector_1": (
        "sparse_vector",
        (" + rng.laplace(scale=4 * limit / epsilon)", ""),
        ("count < limit", "0 < limit"),
    ),
    # without a limit; the noise of the queries does not scale with it
    "bad_sparse_vector_2": (
        "sparse_vector",
        ("4 * limit / epsilon", "2 / epsilon"),
        ("count < limit", "0 < limit"),
    ),
    # the noise of the queries does not scale with the limit (Lee and Clifton 2014)
    "bad_sparse_vector_3": (
        "sparse_vector",
        ("4 * limit / epsilon", "4 / (3 * epsilon)"),
        ("2 / epsilon", "4 / epsilon"),
        ("limit: int = 1", "limit: int = 3"),
    ),
    # the noisy query is released, with the noise of its comparison (Lyu et al. 2017, Algorithm 3)
    "bad_sparse_vector_4": (
        "gap_sparse_vector",
        ("noisy - noisy_threshold)", "noisy)"),
        ("4 * limit", "2 * limit"),
    ),
    "bad_partial_sum": ("partial_sum", ("1 / epsilon", "1 / (2 * epsilon)")),
    # noise is added to each output, not to the running sum
    "bad_prefix_sum": (
        "prefix_sum",
        ("total + q + rng.laplace(scale=1 / epsilon)", "total + q"),
        ("append(total)", "append(total + rng.laplace(scale=1 / epsilon))"),
    ),
    # the sum of a block has no noise
    "bad_smart_sum": (
        "smart_sum",
        ("following = total + q + rng.laplace(scale=1 / epsilon)", "following = total + q"),
    ),
    # all counts may change, the noise is that for one
    "bad_histogram": ("histogram", (', neighbors="one"', "")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_right_program_is_proved(name):
    found = prove(PROGRAMS[name], trials=0)
    assert (
        found.verdict is Verdict.CERTIFIED
        and found.evidence == "proved"
        and "any number of queries" in found.headline()
    )


@pytest.mark.slow_cases("bad_adaptive_sparse_vector")
@pytest.mark.parametrize("name", BAD)
def test_a_wrong_program_is_not_proved(name, written):
    found = prove(written(changed(*BAD[name])), trials=0, seconds=20)
    assert found.verdict is Verdict.INCONCLUSIVE and found.proofs == ()


WRONG_CHANGES = [
    *(
        ("noisy_max", *change)
        for change in [("2 / epsilon", "1 / epsilon"), ("return winner", "return winner, best")]
    ),
    *(
        ("noisy_max", *change)
        for change in [
            ('cost="epsilon"', 'cost="epsilon / 2"'),
            ("noisy = q + rng", "noisy = 2 * q + rng"),
        ]
    ),
    *(
        ("noisy_max_exponential", *change)
        for change in [
            ("2 / epsilon", "1 / epsilon"),
            ("q + rng", "q - rng"),
            ("= noisy\n", "= q\n"),
        ]
    ),
    *(
        ("noisy_max_monotone", *change)
        for change in [("1 / epsilon", "1 / (2 * epsilon)"), (', neighbors="monotone"', "")]
    ),
    ("noisy_max_monotone", "return winner", "return best"),
    *(
        ("sparse_vector", *change)
        for change in [
            ("4 * limit", "2 * limit"),
            ("+ rng.laplace(scale=2 / epsilon)", ""),
            ("4 * limit", "4"),
        ]
    ),
    *(
        ("sparse_vector", *change)
        for change in [
            ("append(True)", "append(q)"),
            ("count < limit", "count <= limit"),
            ("count += 1", "pass"),
        ]
    ),
    *(
        ("sparse_vector_break", *c)
        for c in [
            ("count >= limit", "count > limit"),
            ("4 * limit", "3 * limit"),
            ("append(i)", "append(q)"),
        ]
    ),
    (
        "sparse_vector_break",
        "    return out",
        "    total = noisy_threshold\n    out.append(total)\n    return out",
    ),
    *(
        ("sparse_vector_monotone", *c)
        for c in [
            ("2 * limit", "limit"),
            (', neighbors="monotone"', ""),
            ("append(True)", "append(q + noise)"),
        ]
    ),
    *(
        ("gap_sparse_vector", *c)
        for c in [
            ("- noisy_threshold)", "+ noisy_threshold)"),
            ("4 * limit", "2 * limit"),
            ("append(0.0)", "append(q)"),
        ]
    ),
    *(
        ("num_sparse_vector", *c)
        for c in [
            ("6 * limit", "3 * limit"),
            ("3 * limit", "limit"),
            ("q + rng.laplace(scale=3", "q + 0 * rng.laplace(scale=3"),
        ]
    ),
    *(
        ("partial_sum", *c)
        for c in [
            ("total += q", "total += 2 * q"),
            (', neighbors="one"', ""),
            ("1 / epsilon", "1 / (3 * epsilon)"),
        ]
    ),
    *(
        ("prefix_sum", *c)
        for c in [
            ("1 / epsilon", "1 / (2 * epsilon)"),
            ("append(total)", "append(total + q)"),
            (', neighbors="one"', ""),
        ]
    ),
    *(
        ("smart_sum", *c)
        for c in [
            ('"2 * epsilon"', '"epsilon"'),
            ("        total = 0.0\n", "        pass\n"),
            (', neighbors="one"', ""),
        ]
    ),
    *(
        ("histogram", *c)
        for c in [
            ("1 / epsilon", "1 / (2 * epsilon)"),
            ("q + rng", "2 * q + rng"),
            ("laplace(scale=1", "exponential(scale=1"),
        ]
    ),
    *(
        ("adaptive_sparse_vector", *c)
        for c in [
            ("8 * limit", "4 * limit"),
            ("spent += 2", "spent += 1"),
            ("<= 2 * limit - 2", "<= 2 * limit"),
        ]
    ),
]


@pytest.mark.slow_cases(
    "adaptive_sparse_vector-8 * limit-4 * limit",
    "adaptive_sparse_vector-<= 2 * limit - 2-<= 2 * limit",
    "adaptive_sparse_vector-spent += 2-spent += 1",
    "num_sparse_vector-3 * limit-limit",
    "num_sparse_vector-6 * limit-3 * limit",
    "num_sparse_vector-q + rng.laplace(scale=3-q + 0 * rng.laplace(scale=3",
    "sparse_vector_monotone-2 * limit-limit",
    "sparse_vector_monotone-append(True)-append(q + noise)",
)
@pytest.mark.parametrize(("name", "old", "new"), WRONG_CHANGES)
def test_a_wrong_change_of_a_right_program_is_not_proved(name, old, new, written):
    text = written(changed(name, (old, new)))
    assert prove(text, trials=0, seconds=10).verdict is Verdict.INCONCLUSIVE


TRAPS = {
    "output after break": """
        @provable(cost="epsilon", where=POSITIVE, neighbors="one")
        def f(queries, rng, epsilon: float = 1.0):
            out = []
            last = 0.0
            for q in queries:
                last = q
                break
            out.append(last)
            return out
        """,
    "names of the proof": """
        @provable(cost="epsilon", where="epsilon > 0 and index >= 1 and output >= 1")
        def f(queries, rng, epsilon: float = 1.0, index: int = 1, output: int = 1):
            query = 0.0
            changed = False
            for i, q in enumerate(queries):
                if i == index:
                    query = q
                    changed = True
            return query
        """,
    "number of outputs": """
        @provable(cost="epsilon", where=POSITIVE)
        def f(queries, rng, epsilon: float = 1.0):
            out = []
            for q in queries:
                if q > 0:
                    out.append(rng.laplace(scale=1 / epsilon))
            return out
        """,
    "scale that may be negative": """
        @provable(cost="epsilon", where="epsilon > 0", neighbors="one")
        def f(queries, rng, epsilon: float = 1.0, limit: int = 1):
            out = []
            for q in queries:
                out.append(q + rng.laplace(scale=limit / epsilon))
            return out
        """,
    "one noise for all": """
        @provable(cost="epsilon", where=POSITIVE, neighbors="one")
        def f(queries, rng, epsilon: float = 1.0):
            out = []
            noise = rng.laplace(scale=1 / epsilon)
            for q in queries:
                out.append(q + noise)
            return out
        """,
    "count without noise": """
        @provable(cost="epsilon", where=POSITIVE, neighbors="one")
        def f(queries, rng, epsilon: float = 1.0):
            count = 0
            for q in queries:
                if q > 0:
                    count += 1
            return count
        """,
}


@pytest.mark.parametrize("text", TRAPS.values(), ids=TRAPS)
def test_a_trap_is_not_proved(text, written):
    assert prove(written(text), trials=0).verdict is Verdict.INCONCLUSIVE


RAW = """
    @provable(cost="epsilon", where=POSITIVE, neighbors="one")
    def f(queries, rng, epsilon: float = 1.0):
        last = 0.0
        for q in queries:
            last = q
        return last
    """
LITTLE_NOISE = """
    @provable(cost="epsilon / 2", where=POSITIVE, neighbors="one")
    def f(queries, rng, epsilon: float = 1.0):
        total = 0.0
        for q in queries:
            total = total + q
        return total + rng.laplace(scale=1 / epsilon)
    """


# invariants that would prove a wrong program if the checker confused states or names
CHECKED_ALONE = {
    "output after break": (
        TRAPS["output after break"],
        ["left.break_ == right.break_", "left.break_ or left.last == right.last"],
    ),
    "variable named query": (
        """
        @provable(cost="epsilon", where=POSITIVE)
        def f(queries, rng, epsilon: float = 1.0):
            out = []
            query = 0.0
            for q in queries:
                out.append(q)
                query = 0.0
            return out
        """,
        ["left.query == right.query"],
    ),
    "parameters named as parts of the proof": (
        """
        @provable(cost="epsilon", where=POSITIVE, neighbors="one")
        def f(queries, rng, epsilon: float = 1.0, index: int = 1, output: int = 1):
            out = []
            last = 0
            for i, q in enumerate(queries):
                last = i
                if i != index:
                    out.append(q)
            if last != output:
                out.append(last)
            return last
        """,
        ["left.last == right.last"],
    ),
}


@pytest.mark.parametrize(("text", "invariants"), CHECKED_ALONE.values(), ids=CHECKED_ALONE)
def test_the_checker_alone_refuses_a_trap(text, invariants, written):
    program = read(written(text))
    assert failed_obligation(program, DIRECTIONS[program.neighbors][0], {}, invariants).startswith(
        "outputs"
    )


def test_the_checker_alone_refuses_a_raw_value_and_a_cost_above_the_budget(written):
    assert failed_obligation(read(written(RAW)), (-1, 1), {}, []) == "outputs after the loop agree"
    shift = {"noise_1": Shift(0, ast.parse("total", mode="eval").body)}
    invariants = ["changed or left.total == right.total", "abs(left.total - right.total) <= 1"]
    assert (
        failed_obligation(read(written(LITTLE_NOISE)), (-1, 1), shift, invariants)
        == "the cost is within the budget"
    )
    enough = read(written(LITTLE_NOISE.replace("epsilon / 2", "epsilon")))
    assert failed_obligation(enough, (-1, 1), shift, invariants) == ""
    all_may_change = read(
        written(LITTLE_NOISE.replace("epsilon / 2", "epsilon").replace(', neighbors="one"', ""))
    )
    assert (
        failed_obligation(all_may_change, (-1, 1), shift, invariants[1:])
        == "invariants are kept by an iteration"
    )


SMALL = [name for name in BAD if not any(word in name for word in ("gap", "adapt", *"234"))]


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_checker_alone_proves_no_wrong_program(name, written, monkeypatch):
    """No trial run refutes an alignment: every member of the template meets the checker."""
    monkeypatch.setattr("dpwitness.proofs_checks.alignments.prove.trial_runs", lambda *_: [])
    assert prove(written(changed(*BAD[name])), trials=0, seconds=300).proofs == ()


def test_the_checker_refuses_false_certificates():
    program, direction = read(PROGRAMS["sparse_vector"]), DIRECTIONS["all"][0]
    base = ast.parse("q - noisy_threshold", mode="eval").body
    right = {"noise_1": Shift(1), "noise_2": Shift(0, base, 1)}
    found = Obligations(program, direction, right)
    invariants = inductive(found, candidates(program), time.monotonic() + 60)
    assert failed_obligation(program, direction, right, invariants) == ""
    assert (
        failed_obligation(program, direction, right, [*invariants, "left.count <= 0"])
        == "invariants are kept by an iteration"
    )
    assert (
        failed_obligation(program, direction, right, [*invariants, "left.count >= 1"])
        == "invariants hold before the loop"
    )
    assert failed_obligation(program, direction, right, []) != ""
    assert (
        failed_obligation(program, direction, {**right, "noise_1": Shift(0)}, invariants)
        == "outputs of an iteration agree"
    )
    later = {**right, "noise_1": Shift(1, ast.parse("count", mode="eval").body)}
    with pytest.raises(ValueError, match="later variables"):
        failed_obligation(program, direction, later, invariants)


OUTSIDE = {
    "x = q ** 2": "the syntax Pow",
    "x = later": "may have no value",
    "x = 0": "types real and int",
    "x = float(q)": "outside the provable subset",
    "x = q + rng.laplace(scale=q)": "must be a product or quotient of parameters",
    "x = rng.normal()": "rng.laplace",
    "epsilon = 2.0": "cannot be assigned",
    "x = q / epsilon": "operator",
    "while q > 0: pass": "outside the provable subset",
    "x += (q > 0)": "truth value",
}


@pytest.mark.parametrize("line", OUTSIDE)
def test_other_text_is_rejected_with_its_line(line, written):
    text = f"""
        @provable(cost="epsilon", where=POSITIVE)
        def f(queries, rng, epsilon: float = 1.0):
            x = 0.0
            for q in queries:
                {line}
                later = q
            return x + rng.laplace(scale=1 / epsilon)
        """
    with pytest.raises(InvalidArgument, match=rf"f, line 9: .*{OUTSIDE[line]}"):
        prove(written(text))


def test_a_function_without_a_promise_or_with_false_defaults_is_rejected(written):
    with pytest.raises(InvalidArgument, match="decorator provable"):
        prove(load)
    with pytest.raises(InvalidArgument, match="do not satisfy"):
        prove(
            written(
                '@provable(cost="epsilon", where="epsilon > 0 and epsilon < 0")\ndef '
                "f(queries, rng, epsilon: float = 1.0):\n    return 1\n"
            )
        )
