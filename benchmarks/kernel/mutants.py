"""Mutants of the checker, made by program, and the test whether its answers change.

Whole numbers grow by one or double, comparisons are flipped, or include or exclude their border,
sums and differences, products and quotients, min and max, and and or are exchanged, conditions are
negated.
"""

from __future__ import annotations

import ast
import random
import signal
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType

from dpwitness.benchmarks.kernel.answers import answer, questions
from dpwitness.proofs_checks.kernel import checker

PATH = Path(checker.__file__)
SECONDS = 12  # limit of CPU time for all answers of a mutant, four times what the checker needs
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
}
OTHER = {ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,)}
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
NAMES = {"min": "max", "max": "min", "floor": "ceil", "ceil": "floor"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one node of the checker."""

    line: int
    change: str
    text: str  # of the line
    node: int  # place of the node in `ast.walk`
    choice: int

    @property
    def tree(self) -> ast.Module:
        """Return the changed checker."""
        tree = ast.parse(PATH.read_text(encoding="utf-8"))
        _changed(list(ast.walk(tree))[self.node], self.choice)
        return tree


def mutants() -> Iterator[Mutant]:
    """Yield every mutant of the checker."""
    source = PATH.read_text(encoding="utf-8")
    lines = source.splitlines()
    for number, node in enumerate(ast.walk(ast.parse(source))):
        line = getattr(node, "lineno", 0)
        for choice in range(2):
            if change := _changed(deepcopy(node), choice) if line else "":
                yield Mutant(line, change, lines[line - 1].strip(), number, choice)


def _changed(node: ast.AST, choice: int) -> str:
    """Change a node in place and return what was changed; an empty text if there is no
    such change.
    """
    if isinstance(node, ast.Constant) and type(node.value) is int:
        before, node.value = node.value, (node.value + 1, 2 * node.value)[choice]
        return f"{before} -> {node.value}" if node.value != before else ""
    if isinstance(node, ast.Compare):
        others = (COMPARISONS | OTHER).get(type(node.ops[0]), ())
        if choice < len(others):
            before_op, node.ops[0] = type(node.ops[0]).__name__, others[choice]()
            return f"{before_op} -> {others[choice].__name__}"
    if choice:
        return ""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        name, node.op = type(node.op).__name__, OPERATORS[type(node.op)]()
        return f"{name} -> {type(node.op).__name__}"
    if isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
        before_name, node.id = node.id, NAMES[node.id]
        return f"{before_name} -> {node.id}"
    if isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return f"-> {type(node.op).__name__}"
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return "condition negated"
    return ""


def right_answers() -> list[str]:
    """Return the answers of the checker itself."""
    return [answer(question) for question in questions(checker)]


def is_detected(mutant: Mutant, right: list[str]) -> bool:
    """Return whether a mutant answers a question differently, takes too long or cannot
    be loaded.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit

    module, before = ModuleType("mutant"), signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        exec(compile(ast.fix_missing_locations(mutant.tree), "<mutant>", "exec"), vars(module))
        return any(
            answer(question) != answered
            for question, answered in zip(questions(module), right, strict=True)
        )
    except (Exception, SystemExit):
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def sample(size: int, seed: int) -> list[Mutant]:
    """Return a random sample of the mutants."""
    found = list(mutants())
    return random.Random(seed).sample(found, min(size, len(found)))
