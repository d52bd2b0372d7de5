"""Search of alignments: the template, and trial runs that refute most of its members before any
proof is tried.

A noise call moves by a constant in -2, ..., 2, plus what keeps an expression of the program that
contains the noise equal on both runs: in all iterations, or only in those that append at one place,
or only in the one whose index is returned. Nothing here is trusted.
"""

from __future__ import annotations

import ast
import itertools
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dpwitness.proofs_checks.alignments.expressions import Numbers, value
from dpwitness.proofs_checks.alignments.product import LOOP, Alignment, Coupling, Shift, State
from dpwitness.proofs_checks.alignments.program import (
    BREAK,
    SIZE,
    Append,
    Assign,
    Branch,
    Noise,
    Program,
    names_in,
    walk,
)

CONSTANTS = (0, 1, -1, 2, -2)
MOST_ALIGNMENTS = 100_000
_TRIALS = 150
_TOLERANCE = 1e-9  # of costs in floating point

Terms = list[tuple[int, ast.expr]]


def alignments(program: Program) -> list[Alignment]:
    """Return the members of the template, simple ones first."""
    options = []
    sites = [statement.site for statement in walk(program.body) if isinstance(statement, Append)]
    for segment, noise in program.noises:
        places: list[int | None] = (
            [None, *sites, *([0] if program.output else [])] if segment == LOOP else [None]
        )
        moves = [
            (c, base) for c in CONSTANTS for base in _bases(program, noise) if c or base is not None
        ]
        options.append(
            [
                (noise.name, shift)
                for shift in (
                    Shift(),
                    *(Shift(c, base, when) for c, base in moves for when in places),
                )
            ]
        )
    ranks = itertools.product(*(range(len(each)) for each in options))
    ordered = sorted(itertools.islice(ranks, MOST_ALIGNMENTS), key=sum)
    return [dict(each[k] for each, k in zip(options, chosen, strict=True)) for chosen in ordered]


def _bases(program: Program, noise: Noise) -> list[ast.expr | None]:
    """Return expressions whose difference between the runs offsets a move of the noise, in each
    expression that contains the noise.
    """
    found: dict[str, ast.expr | None] = {"": None}
    for plain, expanded in _sums(program):
        terms = plain if _signs(plain, noise) else expanded
        signs = _signs(terms, noise)
        others = [
            (sign, term)
            for sign, term in terms
            if not names_in(term) <= {*program.parameters, noise.name}
        ]
        if (
            len(signs) == 1
            and others
            and all(names_in(term) <= noise.defined for _, term in others)
        ):
            base = _sum([(sign * signs[0], term) for sign, term in others])
            found.setdefault(ast.unparse(base), base)
    return list(found.values())


def _signs(terms: Terms, noise: Noise) -> list[int]:
    """Return the signs with which a noise is a term of a sum."""
    return [sign for sign, term in terms if isinstance(term, ast.Name) and term.id == noise.name]


def _sums(program: Program) -> Iterator[tuple[Terms, Terms]]:
    """Yield the terms of each sum in the program, and those with the values of variables that are
    assigned once.
    """
    statements = [statement for block in program.segments for statement in walk(block)]
    assigned = [statement.name for statement in statements if isinstance(statement, Assign)]
    once = {
        s.name: s.value
        for s in statements
        if isinstance(s, Assign) and assigned.count(s.name) == 1 and s.name not in program.carried
    }
    expressions = [
        s.test if isinstance(s, Branch) else s.value
        for s in statements
        if isinstance(s, Branch | Assign | Append)
    ]
    for node in itertools.chain(expressions, program.returns):
        sums = [node]
        for part in ast.walk(node):
            if isinstance(part, ast.Compare):
                sums += [
                    ast.BinOp(a, ast.Sub(), b)
                    for a, b in itertools.pairwise([part.left, *part.comparators])
                ]
        yield from ((_terms(each, {}), _terms(each, once)) for each in sums)


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


@dataclass
class Trial:
    """One pair of neighbors with parameters, and the noise of its left run, drawn once for each
    call and iteration.
    """

    parameters: dict[str, Any]
    left: list[float]
    right: list[float]
    rng: random.Random
    drawn: dict[tuple[str, int], float] = field(default_factory=dict)
    output: int | None = None

    def refutes(self, program: Program, alignment: Alignment) -> bool:
        """Return whether the alignment fails on this pair and noise."""
        if program.output and self.output is None:
            self.output = -1
            same = self._run(program, {}, self.left)
            self.output = None if same is None else same.left[program.output]
        state = self._run(program, alignment, self.right)
        if state is None or [value(r, state.left, Numbers) for r in program.returns] != [
            value(r, state.right, Numbers) for r in program.returns
        ]:
            return True
        cost = sum(
            float(group.rate.coefficient)
            * state.proof[group.name]
            * math.prod((state.left[name] ** power for name, power in group.rate.powers), start=1.0)
            for group in program.groups
        )
        return bool(cost > value(program.budget, state.left, Numbers) * (1 + _TOLERANCE))

    def _run(self, program: Program, alignment: Alignment, right: list[float]) -> State | None:
        """Return the last state of the coupled runs, or None if their outputs differ."""
        iteration = -1

        def draw(noise: Noise) -> float:
            key = noise.name, iteration
            if key not in self.drawn:
                size = abs(self.rng.gauss(0, 1)) + abs(self.rng.gauss(0, 2))
                sign = 1 if noise.law == "exponential" else self.rng.choice((-1, 1))
                self.drawn[key] = sign * round(16 * size) / 16
            return self.drawn[key]

        coupling = Coupling(program, alignment, Numbers, draw)
        side = {**self.parameters, SIZE: len(self.left), BREAK: False}
        proof = {"index": 0, "output": self.output, **{group.name: 0.0 for group in program.groups}}
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


def trials(program: Program, direction: tuple[int, int], seed: int) -> list[Trial]:
    """Return trial runs on random neighbors with random parameters that the promise allows."""
    rng, found = random.Random(seed), []
    for k in range(_TRIALS):
        size = rng.choice((1, 2, 3, 5, 8))
        parameters = random_parameters(program, rng) if k % 2 else dict(program.defaults)
        if not value(program.where, {**parameters, SIZE: size}, Numbers):
            continue
        left = [rng.choice((-1.0, -0.5, 0.0, 0.5, 1.0)) for _ in range(size)]
        change = [
            float(rng.choice((*direction, rng.choice((-0.5, 0.0, 0.5))))) for _ in range(size)
        ]
        if rng.random() < 0.5:
            change = [float(rng.choice(direction))] * size
        if program.neighbors == "one":
            place = rng.randrange(size)
            change = [step if k == place else 0.0 for k, step in enumerate(change)]
        low, high = direction
        right = [
            answer + min(max(step, low), high) for answer, step in zip(left, change, strict=True)
        ]
        found.append(Trial(parameters, left, right, random.Random(rng.random())))
    return found


def random_parameters(program: Program, rng: random.Random) -> dict[str, Any]:
    """Return random parameters; the promise may not allow them."""
    choices = {"int": (1, 2, 3), "real": (0.5, 1.0, 2.0)}
    return {
        name: rng.choice((default, *choices[program.types[name]]))
        for name, default in program.defaults.items()
    }


def survivors(
    program: Program, found: list[Trial], members: list[Alignment], deadline: float
) -> Iterator[Alignment]:
    """Yield the alignments that no trial refutes. A trial that refutes comes first for the next
    alignment.
    """
    for alignment in members:
        if time.monotonic() > deadline:
            return
        for k, trial in enumerate(found):
            if trial.refutes(program, alignment):
                found.insert(0, found.pop(k))
                break
        else:
            yield alignment
