"""Provable programs: their statements, and the decorator that declares what is to be proved."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from dpwitness.core.values.validation import require_one_of

Function = TypeVar("Function", bound=Callable[..., Any])

NEIGHBORS = ("all", "one", "monotone")
SIZE = "len(queries)"  # the public number of queries, as a parameter
BREAK = "break_"  # whether the loop was left, as a variable


@dataclass(frozen=True, slots=True)
class Monomial:
    """Product of a positive number and integer powers of parameters."""

    coefficient: Fraction
    powers: tuple[tuple[str, int], ...] = ()

    def times(self, other: Monomial, sign: int = 1) -> Monomial:
        """Return the product with `other`, or the quotient for sign = -1."""
        powers = dict(self.powers)
        for name, power in other.powers:
            powers[name] = powers.get(name, 0) + sign * power
        return Monomial(
            self.coefficient * other.coefficient**sign,
            tuple(sorted((n, p) for n, p in powers.items() if p)),
        )

    def at(self, names: Mapping[str, Any]) -> Fraction:
        """Return the exact value for parameters, each as it is printed."""
        result = self.coefficient
        for name, power in self.powers:
            result *= Fraction(repr(names[name])) ** power
        return result


@dataclass(frozen=True, slots=True)
class Assign:
    """Assignment of an expression to a variable."""

    name: str
    value: ast.expr


@dataclass(frozen=True, slots=True)
class Noise:
    """One noise call. `defined` are the variables that have values before the call."""

    name: str
    law: str
    scale: Monomial
    line: int
    defined: frozenset[str]


@dataclass(frozen=True, slots=True)
class Append:
    """``x.append(value)``, with a number of its place in the text, and the list."""

    site: int
    target: str
    value: ast.expr


@dataclass(frozen=True, slots=True)
class Branch:
    """An ``if`` statement."""

    test: ast.expr
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Break:
    """A ``break`` statement."""


Statement = Assign | Noise | Append | Branch | Break


@dataclass(frozen=True, slots=True)
class CostGroup:
    """Noise calls of one segment whose rates (1 / scale) are multiples of `rate`. The variable
    `name` adds up weights times moves.
    """

    name: str
    segment: int
    rate: Monomial
    weights: dict[str, int]


@dataclass(frozen=True)
class Program:
    """A program that was read: statements before, in and after the loop, and the promise that is to
    be proved.
    """

    name: str
    budget: ast.expr
    where: ast.expr
    neighbors: str
    defaults: dict[str, Any]
    positive: frozenset[str]  # parameters that divide, or are factors of a scale
    types: dict[str, str]  # of parameters and variables
    before: tuple[Statement, ...]
    query: str
    index: str
    body: tuple[Statement, ...]
    after: tuple[Statement, ...]
    returned: tuple[ast.expr, ...]  # lists are names
    is_tuple: bool  # whether a tuple is returned, or the only item itself
    carried: tuple[str, ...]  # variables that the loop changes and that have values before it

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the public parameters, with the number of queries."""
        return (*self.defaults, SIZE)

    @cached_property
    def returns(self) -> tuple[ast.expr, ...]:
        """Returned numbers: the appended values of lists are outputs of their own."""
        return tuple(
            item
            for item in self.returned
            if not (isinstance(item, ast.Name) and self.types[item.id] == "list")
        )

    @property
    def segments(self) -> tuple[tuple[Statement, ...], ...]:
        """Statements before, in and after the loop."""
        return self.before, self.body, self.after

    @property
    def output(self) -> str:
        """Name of the first integer variable that is returned; empty if there is none."""
        names = (item.id for item in self.returns if isinstance(item, ast.Name))
        return next((name for name in names if self.types[name] == "int"), "")

    @cached_property
    def noises(self) -> list[tuple[int, Noise]]:
        """Noise calls with the numbers of their segments."""
        return [
            (k, noise)
            for k, block in enumerate(self.segments)
            for noise in walk(block)
            if isinstance(noise, Noise)
        ]

    @cached_property
    def groups(self) -> list[CostGroup]:
        """Groups of noise calls whose weighted costs are bounded together."""
        found: dict[tuple[Any, ...], dict[str, Fraction]] = {}
        for segment, noise in self.noises:
            rate = Monomial(Fraction(1)).times(noise.scale, -1)
            found.setdefault((segment, rate.powers), {})[noise.name] = rate.coefficient
        groups: list[CostGroup] = []
        for (segment, powers), rates in found.items():
            unit = Fraction(
                math.gcd(*(r.numerator for r in rates.values())),
                math.lcm(*(r.denominator for r in rates.values())),
            )
            weights = {name: int(rate / unit) for name, rate in rates.items()}
            groups.append(
                CostGroup(f"cost.part{len(groups) + 1}", segment, Monomial(unit, powers), weights)
            )
        return groups


def provable(*, cost: str, where: str, neighbors: str = "all") -> Callable[[Function], Function]:
    """Declare the privacy promise of a loop program, which `prove` tries to prove from its text.

    The function itself is unchanged: it runs as an ordinary mechanism of single runs.

    Parameters
    ----------
    cost : str
        Promised epsilon, as an expression in the parameters, such as ``"epsilon"``.
    where : str
        Condition on the parameters under which the promise is made, such as ``"epsilon > 0 and
        limit >= 1"``.
    neighbors : {"all", "one", "monotone"}
        Each query answer changes by at most 1 (all), one answer changes by at most 1 (one), or no
        answer falls and each rises by at most 1, or the reverse (monotone).

    Returns
    -------
    decorator

    Raises
    ------
    InvalidArgument
        If `neighbors` is not one of the three.
    """
    require_one_of("neighbors", neighbors, NEIGHBORS)

    def decorate(function: Function) -> Function:
        function.promise = (cost, where, neighbors)  # type: ignore[attr-defined]
        return function

    return decorate


def names_in(node: ast.expr) -> set[str]:
    """Return the names that an expression reads."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def walk(block: tuple[Statement, ...]) -> Iterator[Statement]:
    """Yield all statements of a block, also those inside branches."""
    for statement in block:
        yield statement
        if isinstance(statement, Branch):
            yield from walk(statement.then)
            yield from walk(statement.other)
