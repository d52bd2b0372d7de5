"""Provable programs: the decorator that declares what is to be proved, statements, and expressions
with their types and their values as numbers or as terms of z3.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from dpwitness.core.values.validation import require_one_of
from dpwitness.proofs_checks.alignments.source import shown

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
class NoiseCall:
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


Statement = Assign | NoiseCall | Append | Branch | Break


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
class LoopProgram:
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

    @cached_property
    def statements(self) -> list[Statement]:
        """All statements, also those inside branches."""
        return [statement for block in self.segments for statement in walk(block)]

    @cached_property
    def expressions(self) -> list[ast.expr]:
        """Assigned, appended and tested expressions in their order, and the returned numbers."""
        read = [s for s in self.statements if isinstance(s, Assign | Append | Branch)]
        return [*(s.test if isinstance(s, Branch) else s.value for s in read), *self.returns]

    @property
    def output(self) -> str:
        """Name of the first integer variable that is returned; empty if there is none."""
        return next(
            (
                name
                for name in (item.id for item in self.returns if isinstance(item, ast.Name))
                if self.types[name] == "int"
            ),
            "",
        )

    @cached_property
    def noises(self) -> list[tuple[int, NoiseCall]]:
        """Noise calls with the numbers of their segments."""
        return [
            (k, noise)
            for k, block in enumerate(self.segments)
            for noise in walk(block)
            if isinstance(noise, NoiseCall)
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
            groups.append(
                CostGroup(
                    f"cost.part{len(groups) + 1}",
                    segment,
                    Monomial(unit, powers),
                    {name: int(rate / unit) for name, rate in rates.items()},
                )
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


_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_OPERATIONS = {**_ARITHMETIC, ast.Div: operator.truediv}  # a scale is also divided by parameters
_COMPARISON: dict[type, Callable[[Any, Any], Any]] = {
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt},
    **{ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne},
}


class Untyped(Exception):
    """An expression outside the subset; the text is the reason."""


_KINDS = {bool: "bool", int: "int", float: "real"}


def type_of(node: ast.expr, types: Mapping[str, str]) -> str:
    """Return ``int``, ``real`` or ``bool``. Raises Untyped for an expression outside the subset."""
    kinds = [
        type_of(part, types)
        for part in ast.iter_child_nodes(node)
        if isinstance(part, ast.expr) and getattr(part, "id", "") != "abs"
    ]
    are_numbers, are_truths = {*kinds} <= {"int", "real"}, {*kinds} == {"bool"}
    match node:
        case ast.Constant(value=bool() | int() | float() as literal) if abs(literal) < math.inf:
            return _KINDS[type(literal)]
        case ast.Name(id=name) if types.get(name) in _KINDS.values():
            return types[name]
        case ast.UnaryOp(op=ast.Not()) | ast.BoolOp() if are_truths:
            return "bool"
        case ast.UnaryOp(op=ast.USub()) | ast.Call(func=ast.Name(id="abs"), keywords=[]) if (
            are_numbers and len(kinds) == 1
        ):
            return kinds[0]
        case ast.BinOp(op=op, right=right) if are_numbers:
            return _type_of_operation(kinds, op, right)
        case ast.Compare(ops=ops) if are_numbers or (
            are_truths and {*map(type, ops)} <= {ast.Eq, ast.NotEq}
        ):
            return "bool"
        case ast.IfExp() if kinds[0] == "bool" and kinds[1] == kinds[2]:
            return kinds[1]
    raise Untyped(
        f"`{shown(node)}` is outside the provable subset, in which a truth value is not a number"
    )


def _type_of_operation(kinds: list[str], op: ast.operator, right: ast.expr) -> str:
    """Return ``int`` or ``real`` for an operation on two numbers."""
    are_integers = {*kinds} == {"int"}
    divisor = isinstance(right, ast.Constant) and right.value
    if isinstance(op, ast.Div) and divisor:
        return "real"
    # of a remainder, the reader requires that the divisor is a positive parameter
    remainder = isinstance(op, ast.Mod) and are_integers
    if type(op) in _ARITHMETIC or (remainder and (isinstance(right, ast.Name) or divisor)):
        return "int" if are_integers else "real"
    raise Untyped(
        "an operator must be +, -, *, / by a number, or % of integers by a parameter or a number"
    )


class Numbers:
    """Values of expressions as Python numbers."""

    @staticmethod
    def number(value: float) -> Any:
        """Return a number unchanged."""
        return value

    @staticmethod
    def constant(value: float, kind: str) -> Any:
        """Return the value of a parameter, a query or noise unchanged."""
        return value

    @staticmethod
    def choose(test: Any, first: Any, second: Any) -> Any:
        """Return `first` if `test` holds, else `second`."""
        return first if test else second

    @staticmethod
    def both(*tests: Any) -> Any:
        """Return the conjunction."""
        return all(tests)

    @staticmethod
    def either(*tests: Any) -> Any:
        """Return the disjunction."""
        return any(tests)

    negate = staticmethod(operator.not_)
    quotient = staticmethod(operator.truediv)
    remainder = staticmethod(operator.mod)
    # whether a condition is known to be false, so that its block can be left out
    impossible = staticmethod(operator.not_)


class Formulas:
    """Values of expressions as terms of z3. A remainder is an unknown function of its two operands,
    which includes the true remainder.
    """

    def __init__(self) -> None:
        # not at the top: a module that declares provable programs needs no engine
        from dpwitness.proofs_checks.engine.ledger import need

        self.z3 = need("z3", "z3-solver")
        integer = self.z3.IntSort()
        self.remainder = self.z3.Function("remainder", integer, integer, integer)
        self.choose, self.both, self.either, self.negate = (
            self.z3.If,
            self.z3.And,
            self.z3.Or,
            self.z3.Not,
        )

    def number(self, value: Any) -> Any:
        """Return a Python number or truth value as a z3 constant."""
        if isinstance(value, bool):
            return self.z3.BoolVal(value)
        if isinstance(value, int):
            return self.z3.IntVal(value)
        exact = value if isinstance(value, Fraction) else Fraction(repr(value))
        return self.z3.RealVal(f"{exact.numerator}/{exact.denominator}")

    def quotient(self, value: Any, divisor: float) -> Any:
        """Return the quotient by a number."""
        return value * self.number(1 / Fraction(repr(divisor)))

    def symbol(self, name: str, kind: str) -> Any:
        """Return an unknown constant of a type."""
        return {"int": self.z3.Int, "real": self.z3.Real, "bool": self.z3.Bool}[kind](name)

    def impossible(self, test: Any) -> bool:
        """Return False: every block of a formula is evaluated."""
        return test is False


def value(node: ast.expr, names: Mapping[str, Any], terms: Any) -> Any:
    """Return the value of an expression. ``left.x`` reads the name ``left.x``. Raise Untyped for an
    expression outside the subset.
    """
    match node:
        case ast.Constant(value=literal):
            return terms.number(literal)
        case ast.Name(id=name):
            return names[name]
        case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
            return names[f"{owner}.{attribute}"]
        case ast.UnaryOp(op=op, operand=inner):
            found = value(inner, names, terms)
            return terms.negate(found) if isinstance(op, ast.Not) else -found
        case ast.Call(func=ast.Name(id="len")):
            return names[SIZE]
        case ast.Call(args=[inner]):
            found = value(inner, names, terms)
            return terms.choose(found >= 0, found, -found)
        case ast.BoolOp(op=op, values=parts):
            found = [value(part, names, terms) for part in parts]
            return terms.both(*found) if isinstance(op, ast.And) else terms.either(*found)
        case ast.IfExp(test=test, body=body, orelse=other):
            return terms.choose(
                value(test, names, terms), value(body, names, terms), value(other, names, terms)
            )
        case ast.Compare(left=left, ops=ops, comparators=others):
            parts = [value(part, names, terms) for part in (left, *others)]
            return terms.both(
                *map(lambda op, a, b: _COMPARISON[type(op)](a, b), ops, parts, parts[1:])
            )
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=divisor)):
            return terms.quotient(value(left, names, terms), divisor)
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            return terms.remainder(value(left, names, terms), value(right, names, terms))
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATIONS[type(op)](value(left, names, terms), value(right, names, terms))
    raise Untyped(f"`{shown(node)}` has no value")
