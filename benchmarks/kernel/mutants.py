"""Mutants of the checker, made by program, and the test whether its answers change.

Whole numbers grow by one or double, comparisons are flipped, or include or exclude their border,
sums and differences, products and quotients, min and max, and and or are exchanged, conditions are
negated.
"""

from __future__ import annotations

import ast
import random
import signal
from pathlib import Path
from types import FrameType, ModuleType

from dpwitness.benchmarks.code_changes import Change, Rules, changes
from dpwitness.benchmarks.kernel.answers import answer, questions
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
