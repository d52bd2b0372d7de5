"""Search of alignments and of loop invariants. Nothing here is trusted: the checker proves what the
search proposes.

*Alignments.* Trial runs refute most members of the template before any proof is tried. A noise call
moves by a constant in -2, ..., 2, plus what keeps an expression of the program that contains the
noise equal on both runs: in all iterations, or only in those that append at one place, or only in
the one whose index is returned.

*Invariants.* The largest inductive set of candidates (Houdini; Flanagan and Leino 2001).
"""

from __future__ import annotations

import ast
import itertools
import math
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dpwitness.proofs_checks.alignments.checker import (
    LOOP,
    Alignment,
    Coupling,
    Obligations,
    Shift,
    State,
    solver_of,
)
from dpwitness.proofs_checks.alignments.program import (
    BREAK,
    SIZE,
    Append,
    Assign,
    LoopProgram,
    NoiseCall,
    Numbers,
    names_in,
    value,
    walk,
)

CONSTANTS = (0, 1, -1, 2, -2)
_TRIALS = 150
_TOLERANCE = 1e-9  # of costs in floating point

Terms = list[tuple[int, ast.expr]]


def alignments(program: LoopProgram) -> list[Alignment]:
    """Return the candidate alignments of a program, simple ones first."""
    options = []
    sites = [statement.site for statement in walk(program.body) if isinstance(statement, Append)]
    for segment, noise in program.noises:
        places: list[int | None] = [None]
        if segment == LOOP:
            places += [*sites, *([0] if program.output else [])]
        moves = itertools.product(CONSTANTS, _bases(program, noise), places)
        moving = [Shift(*move) for move in moves if move[0] or move[1] is not None]
        options.append([(noise.name, shift) for shift in (Shift(), *moving)])
    # the place of a move among those of its noise call is its rank
    members = itertools.islice(itertools.product(*map(enumerate, options)), 100_000)
    ordered = sorted(members, key=lambda chosen: sum(rank for rank, _ in chosen))
    return [dict(move for _, move in chosen) for chosen in ordered]


def _bases(program: LoopProgram, noise: NoiseCall) -> list[ast.expr | None]:
    """Return expressions whose difference between the runs offsets a move of the noise, in each
    expression that contains the noise.
    """
    found: dict[str, ast.expr | None] = {"": None}
    for plain, expanded in _sums(program):
        terms = plain if _signs(plain, noise) else expanded
        signs = _signs(terms, noise)
        others = [(s, t) for s, t in terms if not names_in(t) <= {*program.parameters, noise.name}]
        known = all(names_in(term) <= noise.defined for _, term in others)
        if len(signs) == 1 and others and known:
            base = _sum([(sign * signs[0], term) for sign, term in others])
            found.setdefault(ast.unparse(base), base)
    return list(found.values())


def _signs(terms: Terms, noise: NoiseCall) -> list[int]:
    """Return the signs with which a noise is a term of a sum."""
    return [sign for sign, term in terms if isinstance(term, ast.Name) and term.id == noise.name]


def _sums(program: LoopProgram) -> Iterator[tuple[Terms, Terms]]:
    """Yield the terms of each sum in the program, and those with the values of variables that are
    assigned once.
    """
    assigns = [s for s in program.statements if isinstance(s, Assign)]
    times = Counter(s.name for s in assigns)
    once = {s.name: s.value for s in assigns if times[s.name] == 1}
    for name in program.carried:
        once.pop(name, None)
    for node in program.expressions:
        compared = [part for part in ast.walk(node) if isinstance(part, ast.Compare)]
        differences = [
            ast.BinOp(a, ast.Sub(), b)
            for part in compared
            for a, b in itertools.pairwise([part.left, *part.comparators])
        ]
        for each in (node, *differences):
            yield _terms(each, {}), _terms(each, once)


def _terms(node: ast.expr, known: dict[str, ast.expr]) -> Terms:
    """Return the terms of a sum with their signs; names in `known` are replaced by their values."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            sign = 1 if isinstance(op, ast.Add) else -1
            return [*_terms(left, known), *((sign * s, term) for s, term in _terms(right, known))]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return [(-s, term) for s, term in _terms(inner, known)]
        case ast.Name(id=name) if name in known:
            return _terms(known[name], {k: v for k, v in known.items() if k != name})
    return [(1, node)]


def _sum(terms: Terms) -> ast.expr:
    sign, first = terms[0]
    total: ast.expr = first if sign > 0 else ast.UnaryOp(ast.USub(), first)
    for sign, term in terms[1:]:
        total = ast.BinOp(total, ast.Add() if sign > 0 else ast.Sub(), term)
    return ast.parse(ast.unparse(total), mode="eval").body


@dataclass(frozen=True)
class Trial:
    """One pair of neighbors with parameters, and the noise of its left run, drawn once for each
    call and iteration.
    """

    program: LoopProgram
    parameters: dict[str, Any]
    left: list[float]
    right: list[float]
    rng: random.Random
    drawn: dict[tuple[str, int], float] = field(default_factory=dict)

    @cached_property
    def output(self) -> int | None:
        """Index that the left run returns; None if it returns none."""
        same = self._run({}, self.left, -1) if self.program.output else None
        return None if same is None else same.left[self.program.output]

    def refutes(self, alignment: Alignment) -> bool:
        """Return whether the alignment fails on this pair and noise."""
        state = self._run(alignment, self.right, self.output)
        if state is None:
            return True
        left, right = (
            [value(each, names, Numbers) for each in self.program.returns]
            for names in (state.left, state.right)
        )
        cost = sum(
            float(group.rate.coefficient)
            * state.proof[group.name]
            * math.prod((state.left[name] ** power for name, power in group.rate.powers), start=1.0)
            for group in self.program.groups
        )
        return left != right or bool(
            cost > value(self.program.budget, state.left, Numbers) * (1 + _TOLERANCE)
        )

    def _run(self, alignment: Alignment, right: list[float], output: int | None) -> State | None:
        """Return the last state of the coupled runs, or None if their outputs differ."""
        program = self.program
        iteration = -1

        def draw(noise: NoiseCall) -> float:
            key = noise.name, iteration
            if key not in self.drawn:
                size = abs(self.rng.gauss(0, 1)) + abs(self.rng.gauss(0, 2))
                sign = 1 if noise.law == "exponential" else self.rng.choice((-1, 1))
                self.drawn[key] = sign * round(16 * size) / 16
            return self.drawn[key]

        coupling = Coupling(program, alignment, Numbers, draw)
        side = {**self.parameters, SIZE: len(self.left), BREAK: False}
        proof = {"index": 0, "output": output, **{group.name: 0.0 for group in program.groups}}
        found = coupling.step(0, State(side, dict(side), proof))
        for iteration, queries in enumerate(
            zip(self.left, right, strict=True) if program.query and all(found.required) else ()
        ):
            found.state.proof["index"] = iteration
            for names, query in zip((found.state.left, found.state.right), queries, strict=True):
                names |= {program.query: query, program.index: iteration}
            found = coupling.step(LOOP, found.state)
            if not all(found.required):
                return None
        iteration = -2
        last = coupling.step(2, found.state)
        return last.state if all(found.required) and all(last.required) else None


def trial_runs(program: LoopProgram, direction: tuple[int, int], seed: int) -> list[Trial]:
    """Return trial runs on random neighbors with random parameters that the promise allows."""
    rng, found = random.Random(seed), []
    for k in range(_TRIALS):
        size = rng.choice((1, 2, 3, 5, 8))
        parameters = random_parameters(program, rng) if k % 2 else dict(program.defaults)
        if not value(program.where, {**parameters, SIZE: size}, Numbers):
            continue
        left = [rng.choice((-1.0, -0.5, 0.0, 0.5, 1.0)) for _ in range(size)]
        change = [rng.choice((*direction, rng.choice((-0.5, 0.0, 0.5)))) for _ in range(size)]
        if rng.random() < 0.5:
            change = [rng.choice(direction)] * size
        if program.neighbors == "one":
            place = rng.randrange(size)
            change = [step if k == place else 0.0 for k, step in enumerate(change)]
        found.append(
            Trial(
                program,
                parameters,
                left,
                np.add(left, np.clip(change, *direction)).tolist(),
                random.Random(rng.random()),
            )
        )
    return found


def random_parameters(program: LoopProgram, rng: random.Random) -> dict[str, Any]:
    """Return random parameters; the promise may not allow them."""
    choices = {"int": (1, 2, 3), "real": (0.5, 1.0, 2.0)}
    return {
        name: rng.choice((default, *choices[program.types[name]]))
        for name, default in program.defaults.items()
    }


def survivors(found: list[Trial], members: list[Alignment], deadline: float) -> Iterator[Alignment]:
    """Yield the alignments that no trial refutes. A trial that refutes comes first for the next
    alignment.
    """
    for alignment in members:
        if time.monotonic() > deadline:
            return
        for k, trial in enumerate(found):
            if trial.refutes(alignment):
                found.insert(0, found.pop(k))
                break
        else:
            yield alignment


_FACTORS = (1, 2, 3, 4, 6, 8, 12)
# Candidate invariants, with the names of `State.names`, filled with all values of their fields.
_TEMPLATES = (
    # relations of the two runs
    "{guard}left.{any} == right.{any}",
    "{guard}right.{real} <= left.{real} + {shift}",
    "{guard}right.{real} >= left.{real} + {shift}",
    "{changed} or left.{any} == right.{any}",
    "index > 0 or left.{any} == right.{any}",
    # bounds of counters by 0, the index and integer parameters
    "left.{int} >= 0",
    "left.{int} <= index",
    "index == 0 or left.{int} < index",
    "{stopped}left.{int} <= {multiple} * {limit} + {shift}",
    # bounds of a cost: constants, multiples of the index and of counters, and potentials with a
    # difference of the two runs
    "{changed} or {cost} <= 0",
    "index > {output} or {cost} <= 0",
    "{cost} >= 0",
    "{cost} <= 0",
    "{cost} <= {factor}",
    "{cost} <= {factor} * index",
    "{cost} <= {factor} * left.{int}",
    "{cost} + {factor} * abs(left.{real} - right.{real}) <= {bound}",
)


def candidates(program: LoopProgram) -> list[str]:
    """Return candidate invariants as texts."""
    kinds = {name: program.types.get(name, "bool") for name in program.carried}
    ints, reals = ([n for n, kind in kinds.items() if kind == each] for each in ("int", "real"))
    # relations hold everywhere, before the returned iteration, or after it while the run returns
    # its index
    guards = [""]
    if program.output:
        guards.append("index > output or ")
    if program.output in ints:
        guards.append(f"not (index > output and left.{program.output} == output) or ")
    values: dict[str, Sequence[Any]] = {
        "guard": guards,
        "changed": ["changed"] if program.neighbors == "one" else [],
        "output": ["output"] if program.output else [],
        "any": program.carried,
        "int": ints,
        "real": reals,
        "shift": (-2, -1, 0, 1, 2),
        "stopped": ["", f"left.{BREAK} or "] if BREAK in program.carried else [""],
        "multiple": (1, 2),
        "limit": [name for name in program.defaults if program.types[name] == "int"],
        "cost": [group.name for group in program.groups if group.segment == LOOP],
        "factor": _FACTORS,
        "bound": _FACTORS,
    }
    found = []
    for template in _TEMPLATES:
        fields = list(dict.fromkeys(re.findall("{(.*?)}", template)))
        for chosen in itertools.product(*(values[name] for name in fields)):
            found.append(template.format(**dict(zip(fields, chosen, strict=True))))
    return found


def inductive(found: Obligations, texts: Sequence[str], deadline: float) -> list[str]:
    """Return the largest inductive subset of candidate invariants; an empty list if the time is
    over.
    """
    parsed = [ast.parse(text, mode="eval").body for text in texts]
    starting, holding, kept = (
        found.hold(parsed, state) for state in (found.start.state, found.head, found.next.state)
    )
    alive = list(range(len(texts)))
    for premises, goals, facts in (
        ([], starting, [*found.given, *found.start.facts]),
        (holding, kept, [*found.head_facts, *found.step_facts, *found.next.facts]),
    ):
        alive = _filtered(found, solver_of(found.terms, facts), premises, goals, alive, deadline)
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
    while alive and time.monotonic() <= deadline:
        solver.push()
        solver.add(
            *(premises[k] for k in alive if premises), z3.Not(z3.And(*(goals[k] for k in alive)))
        )
        outcome = solver.check()
        if outcome == z3.unsat:
            return alive
        if outcome != z3.sat:
            break
        model = solver.model()
        solver.pop()
        alive = [
            k for k in alive if not z3.is_false(model.evaluate(goals[k], model_completion=True))
        ]
    return []
