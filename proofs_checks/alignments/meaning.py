"""Comparison of a function with the program that the reader understood: both run on the same
queries with the same noise.

The proof is about the program, with the arithmetic of real numbers; Python runs the function. Where
the two differ, there is no proof.
"""

from __future__ import annotations

import ast
import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from dpwitness.proofs_checks.alignments.expressions import Numbers, value
from dpwitness.proofs_checks.alignments.product import execute
from dpwitness.proofs_checks.alignments.program import BREAK, SIZE, Append, Noise, Program
from dpwitness.proofs_checks.alignments.ranges import MOST
from dpwitness.proofs_checks.alignments.search import random_parameters

Call = tuple[str, float]  # law and scale of a noise call
_RUNS = 30
_TOLERANCE = 1e-6  # of outputs, relative to the largest number that enters
_SCALE_TOLERANCE = 1e-9  # relative


class ForcedNoise:
    """Stand-in for a numpy generator that returns given noise and records the calls."""

    def __init__(self, noise: Iterator[float]) -> None:
        self.noise = noise
        self.calls: list[Call] = []

    def laplace(self, loc: float = 0.0, scale: float = 1.0) -> float:
        """Return `loc` plus the next noise."""
        self.calls.append(("laplace", scale))
        return float(loc) + next(self.noise)

    def exponential(self, scale: float = 1.0) -> float:
        """Return the absolute value of the next noise."""
        self.calls.append(("exponential", scale))
        return abs(next(self.noise))


class Exact(Numbers):
    """Values of expressions as integers and fractions: the arithmetic of real numbers."""

    @staticmethod
    def number(value: float) -> Any:
        """Return a literal; 0.1 is a tenth."""
        return Fraction(repr(value)) if isinstance(value, float) else value

    @staticmethod
    def constant(value: float, kind: str) -> Any:
        """Return a parameter, a query or noise."""
        return Fraction(repr(value)) if kind == "real" else value

    @staticmethod
    def quotient(value: Any, divisor: float) -> Any:
        """Return the quotient by a number."""
        return Fraction(value) / Exact.number(divisor)


def run(
    program: Program,
    parameters: Mapping[str, Any],
    queries: list[float],
    noise: Iterator[float],
    terms: Any = Numbers,
) -> tuple[Any, list[Call]]:
    """Return the output and the noise calls of a program on given noise, by the semantics of the
    proof.
    """
    public = {**parameters, SIZE: len(queries)}
    names = {name: terms.constant(each, program.types[name]) for name, each in public.items()}
    lists: defaultdict[str, list[Any]] = defaultdict(list)
    calls: list[Call] = []

    def draw(call: Noise, *_: Any) -> Any:
        calls.append((call.law, float(min(call.scale.at(public), Fraction(MOST)))))
        drawn = next(noise)
        return terms.constant(abs(drawn) if call.law == "exponential" else drawn, "real")

    def emit(statement: Append, _: Any, each: Any) -> None:
        lists[statement.target].append(each)

    def segment(number: int) -> None:
        names[BREAK] = names[BREAK] if number == 1 else terms.number(False)
        execute(program.segments[number], names, terms.number(True), terms, draw, emit)

    segment(0)
    for index, query in enumerate(queries if program.query else ()):
        names |= {
            program.query: terms.constant(query, "real"),
            program.index: terms.constant(index, "int"),
        }
        segment(1)
    segment(2)
    output = tuple(
        value(item, names, terms) if item in program.returns else lists[ast.unparse(item)]
        for item in program.returned
    )
    return (output if program.is_tuple else output[0]), calls


def difference(
    function: Any, program: Program, seed: int, terms: Any = Exact, runs: int = _RUNS
) -> str:
    """Return where a function and its program differ: in outputs, noise calls or exceptions, in
    runs with equal noise; empty if nowhere.
    """
    rng = random.Random(seed)
    for k in range(runs):
        parameters = random_parameters(program, rng) if k % 2 else dict(program.defaults)
        width, size = rng.choice((0.1, 1.0, 30.0)), rng.choice((0, 1, 2, 3, 5, 9))
        queries = [
            rng.choice(
                (round(2 * rng.gauss(0, 1)) / 2, rng.gauss(0, width), 1000 * rng.gauss(0, 1))
            )
            for _ in range(size)
        ]
        public = {**parameters, SIZE: size}
        if any(public[name] <= 0 for name in program.positive) or not value(
            program.where, public, Numbers
        ):
            continue  # no promise: the checker requires that the promise implies positive divisors
        noise = [rng.gauss(0, width) for _ in range((size + 2) * len(program.noises))]
        forced = ForcedNoise(iter(noise))
        expected, calls = run(program, parameters, queries, iter(noise), terms)
        try:
            found = function(list(queries), forced, **parameters)
        except Exception as error:  # an exception is an output that the program does not have
            found = error
        tolerance = 0.0 if terms is Numbers else _TOLERANCE * max(map(abs, (1.0, *queries, *noise)))
        case = f"on queries {queries} with {parameters}, {program.name}"
        if not _same(found, expected, tolerance):
            return (
                f"{case} returns {found!r}, and {_shown(expected)} in the arithmetic of real "
                "numbers"
            )
        if [law for law, _ in calls] != [law for law, _ in forced.calls] or not all(
            math.isclose(a, b, rel_tol=_SCALE_TOLERANCE)
            for (_, a), (_, b) in zip(calls, forced.calls, strict=True)
        ):
            return f"{case} draws {forced.calls}, and {calls} in the proof"
    return ""


def _same(found: Any, expected: Any, tolerance: float) -> bool:
    """Return whether two outputs have equal types, lengths and numbers; a real number has no
    negative zero.
    """
    if isinstance(expected, list | tuple):
        same = type(found) is type(expected) and len(found) == len(expected)
        return same and all(map(_same, found, expected, itertools.repeat(tolerance)))
    if isinstance(expected, Fraction):
        if (
            type(found) is not float
            or not math.isfinite(found)
            or (found == 0 and math.copysign(1, found) < 0)
        ):
            return False
        return bool(abs(Fraction(found) - expected) <= tolerance + _TOLERANCE * abs(expected))
    return type(found) is type(expected) and bool(
        found == expected or (found != found and expected != expected)
    )


def _shown(expected: Any) -> str:
    if isinstance(expected, list | tuple):
        return f"({', '.join(map(_shown, expected))})"
    return str(float(expected) if isinstance(expected, Fraction) else expected)
