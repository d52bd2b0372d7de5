"""Search of loop invariants: the largest inductive set of candidates (Houdini; Flanagan and Leino
2001).

Nothing here is trusted: the checker proves the invariants again.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator, Sequence
from typing import Any

from dpwitness.proofs_checks.alignments.checker import Obligations, solver_of
from dpwitness.proofs_checks.alignments.product import LOOP
from dpwitness.proofs_checks.alignments.program import BREAK, Program

_FACTORS = (1, 2, 3, 4, 6, 8, 12)
_SHIFTS = (-2, -1, 0, 1, 2)


def candidates(program: Program) -> list[str]:
    """Return candidate invariants as texts, with the names of `State.names`."""
    by_type = {
        kind: [name for name in program.carried if program.types.get(name, "bool") == kind]
        for kind in ("int", "real", "bool")
    }
    found = [*_relations(program, by_type), *_counters(program, by_type["int"])]
    for group in program.groups:
        found += _bounds(group.name, by_type) if group.segment == LOOP else []
    if program.neighbors != "one":
        found = [text for text in found if "changed" not in text]
    if not program.output:
        found = [text for text in found if "output" not in text]
    return list(dict.fromkeys(found))


def _relations(program: Program, by_type: dict[str, list[str]]) -> Iterator[str]:
    """Yield relations of the two runs: everywhere, before the returned iteration, and after it
    while the run returns its index.
    """
    guards = ["", "index > output or "]
    if program.output in by_type["int"]:
        guards.append(f"not (index > output and left.{program.output} == output) or ")
    for guard in guards:
        for names in by_type.values():
            yield from (f"{guard}left.{name} == right.{name}" for name in names)
        for name in by_type["real"]:
            for shift in _SHIFTS:
                yield f"{guard}right.{name} <= left.{name} + {shift}"
                yield f"{guard}right.{name} >= left.{name} + {shift}"
    for start in ("changed", "index > 0"):
        yield from (
            f"{start} or left.{name} == right.{name}"
            for names in by_type.values()
            for name in names
        )


def _counters(program: Program, counters: list[str]) -> Iterator[str]:
    """Yield bounds of integer variables by 0, the index and integer parameters."""
    limits = [name for name in program.defaults if program.types[name] == "int"]
    stopped = f"left.{BREAK} or " if BREAK in program.carried else ""
    for name in counters:
        yield from (
            f"left.{name} >= 0",
            f"left.{name} <= index",
            f"index == 0 or left.{name} < index",
        )
        for limit in limits:
            for factor in (1, 2):
                for shift in _SHIFTS:
                    for guard in {"", stopped}:
                        yield f"{guard}left.{name} <= {factor} * {limit} + {shift}"


def _bounds(cost: str, by_type: dict[str, list[str]]) -> Iterator[str]:
    """Yield bounds of a cost: constants, multiples of the index and of counters, and potentials
    with a difference of the two runs.
    """
    yield from (
        f"changed or {cost} <= 0",
        f"index > output or {cost} <= 0",
        f"{cost} >= 0",
        f"{cost} <= 0",
    )
    for factor in _FACTORS:
        yield from (f"{cost} <= {factor}", f"{cost} <= {factor} * index")
        yield from (f"{cost} <= {factor} * left.{name}" for name in by_type["int"])
        for name in by_type["real"]:
            yield from (
                f"{cost} + {factor} * abs(left.{name} - right.{name}) <= {bound}"
                for bound in _FACTORS
            )


def inductive(found: Obligations, texts: Sequence[str], deadline: float) -> list[str]:
    """Return the largest inductive subset of candidate invariants; an empty list if the time is
    over.
    """
    parsed = [ast.parse(text, mode="eval").body for text in texts]
    alive = list(range(len(texts)))
    start = solver_of(found.terms, [*found.given, *found.start.facts])
    alive = _filtered(found, start, [], found.hold(parsed, found.start.state), alive, deadline)
    step = solver_of(found.terms, [*found.head_facts, *found.step_facts, *found.next.facts])
    alive = _filtered(
        found,
        step,
        found.hold(parsed, found.head),
        found.hold(parsed, found.next.state),
        alive,
        deadline,
    )
    return [texts[k] for k in alive]


def _filtered(
    found: Obligations,
    solver: Any,
    premises: list[Any],
    goals: list[Any],
    alive: list[int],
    deadline: float,
) -> list[int]:
    """Drop goals that a model refutes, together with their premises, until the other
    goals follow.
    """
    z3 = found.terms.z3
    while alive:
        if time.monotonic() > deadline:
            return []
        solver.push()
        solver.add(
            *(premises[k] for k in alive if premises), z3.Not(z3.And(*(goals[k] for k in alive)))
        )
        outcome = solver.check()
        if outcome == z3.unsat:
            return alive
        if outcome != z3.sat:
            return []
        model = solver.model()
        solver.pop()
        alive = [
            k for k in alive if not z3.is_false(model.evaluate(goals[k], model_completion=True))
        ]
    return alive
