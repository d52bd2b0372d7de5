"""Benchmark of the kernel: mutants of the checker that its tests detect, forged witnesses refused,
and published witnesses accepted.

In a mutant, whole numbers grow by one or double, comparisons are flipped, or include or exclude
their border, sums and differences, products and quotients, min and max, and and or are exchanged,
conditions are negated.
"""

from __future__ import annotations

import ast
import json
import math
import random
import signal
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from types import FrameType, ModuleType

import dpwitness
from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.witnesses.seals import seal
from dpwitness.benchmarks.code_changes import Change, Rules, changes
from dpwitness.benchmarks.kernel.answers import answer, questions
from dpwitness.benchmarks.kernel.cases import audit
from dpwitness.benchmarks.table import Row, Table, root_seed, seed_note
from dpwitness.core.claims import exact_text, parse_claim
from dpwitness.core.values.json_reader import Json
from dpwitness.proofs_checks.kernel import checker

PATH = Path(checker.__file__)
SECONDS = 12  # limit of CPU time for all answers of a mutant, four times what the checker needs
TREE = ast.parse(PATH.read_text(encoding="utf-8"))
RULES = Rules(
    constants=lambda value: (
        [value + 1, 2 * value][: 2 if value else 1] if type(value) is int else []
    ),
    operators={
        ast.Lt: (ast.LtE, ast.GtE),
        ast.LtE: (ast.Lt, ast.Gt),
        ast.Gt: (ast.GtE, ast.LtE),
        ast.GtE: (ast.Gt, ast.Lt),
        ast.Eq: (ast.NotEq,),
        ast.NotEq: (ast.Eq,),
        ast.In: (ast.NotIn,),
        ast.NotIn: (ast.In,),
        ast.Add: (ast.Sub,),
        ast.Sub: (ast.Add,),
        ast.Mult: (ast.FloorDiv,),
        ast.FloorDiv: (ast.Mult,),
        ast.LShift: (ast.RShift,),
        ast.RShift: (ast.LShift,),
        ast.And: (ast.Or,),
        ast.Or: (ast.And,),
    },
    names={"min": "max", "max": "min", "floor": "ceil", "ceil": "floor"},
    condition=lambda test: ast.UnaryOp(ast.Not(), test),
)


def mutants() -> list[Change]:
    """Return every change of the checker."""
    return [change for node in ast.walk(TREE) for change in changes(node, RULES)]


def description(mutant: Change) -> str:
    """Return the line of the checker that a mutant changes, and the change."""
    line: int = getattr(mutant.node, "lineno", 0)
    text = PATH.read_text(encoding="utf-8").splitlines()[line - 1].strip()
    return f"line {line}: {mutant.text} in {text}"


def right_answers() -> list[str]:
    """Return the answers of the checker itself."""
    return [answer(question) for question in questions(checker)]


def is_detected(mutant: Change, right: list[str]) -> bool:
    """Return whether a mutant answers a question differently, takes too long or cannot
    be loaded.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit

    module, before = ModuleType("mutant"), signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        tree = ast.fix_missing_locations(mutant.applied(TREE))
        exec(compile(tree, "<mutant>", "exec"), vars(module))
        return any(
            answer(question) != answered
            for question, answered in zip(questions(module), right, strict=True)
        )
    except (Exception, SystemExit):
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def sample(size: int, seed: int) -> list[Change]:
    """Return a random sample of the mutants."""
    found = mutants()
    return random.Random(seed).sample(found, min(size, len(found)))


PUBLISHED = Path(dpwitness.__file__).resolve().parent.parent / "reports" / "published"
CLAIMS = ("pure:0.5", "approx:0.5,0.001", "gdp:0.3", "rdp:3,0.2")
MUTANTS, FORGERIES, ROUNDS = 320, 10_000, 400_000_000


def measure(seed: int | None = None) -> Table:
    """Return the shares of mutants detected, forged witnesses refused and published witnesses
    accepted, and the longest times.
    """
    seed = root_seed(seed)
    right, chosen = right_answers(), sample(MUTANTS, seed)
    alive = [mutant for mutant in chosen if not is_detected(mutant, right)]
    forged = list(forgeries(FORGERIES, seed))
    accepted = sum(_answer(witness) == "ACCEPTED" for witness in forged)
    paths, slowest, answers = sorted(PUBLISHED.glob("*/witness-*.json")), 0.0, Counter[str]()
    for path in paths:
        start = time.process_time()
        answers[checker.answer(str(path))[1]] += 1
        slowest = max(slowest, time.process_time() - start)
    start = time.process_time()
    assert (
        _answer(witness_of("approx:0.5,0.001", Tally(ROUNDS // 4, ROUNDS // 8, ROUNDS, 2)))
        == "ACCEPTED"
    )
    largest = time.process_time() - start
    rows = (
        Row(
            "mutants of the checker that change an answer",
            0.98,
            1 - len(alive) / len(chosen),
            "share",
        ),
        Row("forged witnesses accepted", 0, float(accepted), "witnesses", at_most=True),
        Row("published witnesses refused", 0, float(answers["REFUSED"]), "witnesses", at_most=True),
        Row("slowest published witness", 1, slowest, "s", at_most=True),
        Row("witness of 4e8 rounds", 1, largest, "s", at_most=True),
    )
    note = (
        f"of {len(paths)} published witnesses, {answers['ACCEPTED']} are accepted and "
        f"{answers['NOT CHECKED']} are not checked"
    )
    return Table(
        "kernel",
        rows,
        (
            seed_note("kernel", seed),
            note,
            *(f"undetected: {description(mutant)}" for mutant in alive),
        ),
    )


def witness_of(text: str, tally: Tally, alpha: float = 0.04) -> Json:
    """Return the witness of a claim with these counts."""
    claim = parse_claim(text)
    counts = {
        "correct": tally.correct,
        "wrong": tally.wrong,
        "rounds": tally.rounds,
        "directions": tally.directions,
        "alpha": alpha,
    }
    bound = combined_bound(claim, [Part(tally)], alpha)
    return audit(
        claim=exact_text(claim), claim_numbers=list(claim.numbers), bound=bound, counts=counts
    )


def forgeries(size: int, seed: int) -> list[Json]:
    """Return witnesses with one wrong count, off by 1 or by 1 in its second digit. The bound then
    differs by 1e-8 or more.
    """
    rng, found = random.Random(seed), list[Json]()
    while len(found) < size:
        text, guesses = rng.choice(CLAIMS), int(10 ** rng.uniform(2, 5))
        correct = int(guesses * rng.uniform(0.75, 0.99))
        tally = Tally(
            correct, guesses - correct, int(guesses * rng.uniform(2.5, 5)), rng.choice((1, 2))
        )
        right = witness_of(text, tally)
        name, step = (
            rng.choice(("correct", "wrong", "rounds", "directions", "alpha")),
            rng.choice((-1, 1)),
        )
        counts = dict(right["counts"])
        counts[name] = (
            3 - counts[name]
            if name == "directions"
            else counts[name] * (1 + 0.01 * step)
            if name == "alpha"
            else counts[name] + step
        )
        if counts["wrong"] < 0 or counts["correct"] + counts["wrong"] > counts["rounds"]:
            continue
        changed = Tally(counts["correct"], counts["wrong"], counts["rounds"], counts["directions"])
        bound = combined_bound(parse_claim(text), [Part(changed)], counts["alpha"])
        if right["bound"] > Fraction(parse_claim(text).parameter) and not math.isclose(
            bound, right["bound"], rel_tol=1e-8, abs_tol=1e-8
        ):
            found.append(seal(right | {"counts": counts}))
    return found


def _answer(witness: Json) -> str:
    """Return the answer of the checker to a witness."""
    try:
        checker.check(json.dumps(witness))
    except (checker.Refused, checker.NotChecked) as error:
        return type(error).__name__
    return "ACCEPTED"
