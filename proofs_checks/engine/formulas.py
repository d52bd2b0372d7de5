"""Printed formulas and statements of claims, read and evaluated: what an entry prints must be what its check computes.

A formula is ``left <= right`` or ``left = right``, then definitions, ``, name = expression``; a statement may define names too.
Symbols that are not parameters of the claim are free: the excess may not depend on them, so they may have any value.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flint import arb, ctx

from dpwitness.proofs_checks.engine.declaration import Declaration
from dpwitness.proofs_checks.engine.readings import GIVEN

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*|\.\d+)|([A-Za-z_]\w*'?\*?)|([-+*/^()|,]))")
_NAME = re.compile(r"[A-Za-z_]\w*'?\*?")
BITS, _POINTS = 200, 8
NEAR, _LOOSE = 1e-6, 3e-3  # relative: to a check that encloses one number, and to the ends of one that encloses a range
DEFINED = re.compile(r"(?:^|[,:] |[Ww]ith |At |=> )([A-Za-z_]\w*) = ([^=<>:]+?)(?=, |:| makes | the | is | for | in |$)")

Value = Any  # an arb, or the tree of a definition until it is used


class Unreadable(ValueError):
    """A formula that is written in other words than these."""


def _sigmoid(x: Value) -> Value:
    return 1 / (1 + (-x).exp())


def _normal(x: Value) -> Value:
    return (-x / arb(2).sqrt()).erfc() / 2


FUNCTIONS: Mapping[str, Callable[[Value], Value]] = {
    "log": lambda x: x.log(),
    "exp": lambda x: x.exp(),
    "sqrt": lambda x: x.sqrt(),
    "sigmoid": _sigmoid,
    "Phi": _normal,
    "Q": lambda x: _normal(-x),
    "max": lambda x: x,  # over the box, of which each point is looked at
}


@dataclass(frozen=True, slots=True)
class _Tree:
    """One node: a number, a symbol, a function of one argument, or an operator."""

    kind: str
    parts: tuple[Any, ...]


def _tokens(text: str) -> list[tuple[str, str]]:
    found, place = [], 0
    text = (
        re.sub(r"\bn lambda\b|\blambda n\b(?!\^)", "n_lambda", text.strip().replace("|_2", "|"))
        .replace("log(p)", "log_p")
        .replace("log p", "log_p")
        .replace(" x epsilon", " * epsilon")
    )
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise Unreadable(text[place:])
        number, name, sign = match.groups()
        found.append(("number", number) if number else ("name", name) if name else ("sign", sign))
        place = match.end()
    return found


class _Parser:
    """Recursive descent; a product needs no sign, a bar opens or closes an absolute value."""

    def __init__(self, text: str) -> None:
        self._left, self._bars = _tokens(text), 0

    def whole(self) -> _Tree:
        found = self._sum()
        if self._left:
            raise Unreadable(str(self._left))
        return found

    def _next(self, *signs: str) -> str:
        return self._left.pop(0)[1] if self._left and self._left[0] in [("sign", sign) for sign in signs] else ""

    def _sum(self) -> _Tree:
        found = _Tree("-", (_number("0"), self._product())) if self._next("-") else self._product()
        while sign := self._next("+", "-"):
            found = _Tree(sign, (found, self._product()))
        return found

    def _product(self) -> _Tree:
        found = self._power()
        while self._left and (self._left[0][0] != "sign" or self._left[0][1] in "*/(" or (self._left[0][1] == "|" and not self._bars)):
            sign = self._next("*", "/") or "*"
            found = _Tree(sign, (found, self._power()))
        return found

    def _power(self) -> _Tree:
        found = self._atom()
        if self._next("^"):
            negative = self._next("-")
            power = self._atom()
            found = _Tree("^", (found, _Tree("-", (_number("0"), power)) if negative else power))
        return found

    def _atom(self) -> _Tree:
        if not self._left:
            raise Unreadable("an end")
        kind, text = self._left.pop(0)
        if kind == "number":
            return _number(text)
        if kind == "name":
            if text.startswith("max_") and len(text) == 5:
                return _Tree("max", (text[4], self._sum()))
            if text in FUNCTIONS:
                squared = self._atom() if self._next("^") else None
                found = _Tree("call", (text, self._atom()))
                return found if squared is None else _Tree("^", (found, squared))
            return _Tree("name", (text,))
        if text == "(":
            outer, self._bars = self._bars, 0
            found = self._sum()
            self._bars = outer
            if not self._next(")"):
                raise Unreadable("a bracket")
            return found
        if text == "|":
            self._bars += 1
            found = self._sum()
            self._bars -= 1
            if not self._next("|"):
                raise Unreadable("a bar")
            return _Tree("abs", (found,))
        raise Unreadable(text)


def _number(text: str) -> _Tree:
    return _Tree("number", (text,))


def parse(text: str) -> _Tree:
    """Return the tree of an expression. Raises Unreadable."""
    return _Parser(text).whole()


def evaluate(tree: _Tree, values: dict[str, Value]) -> Value:
    """Return the value of an expression as a ball; a symbol without a value gets one, between 0.1 and 0.9, by its name."""
    kind, parts = tree.kind, tree.parts
    if kind == "number":
        return arb(parts[0])
    if kind == "name":
        if parts[0] not in values:
            if len(parts[0].rstrip("'*")) > 3 and parts[0].rstrip("'*") not in _GREEK:
                raise Unreadable(parts[0])
            known = {"e": arb(1).exp(), "pi": arb.pi()}
            if parts[0] == "n_lambda":
                known["n_lambda"] = evaluate(_Tree("*", (_Tree("name", ("n",)), _Tree("name", ("lambda",)))), values)
            values[parts[0]] = known[parts[0]] if parts[0] in known else arb(random.Random(parts[0]).uniform(0.1, 0.9))
        if isinstance(values[parts[0]], _Tree):
            values[parts[0]] = evaluate(values[parts[0]], values)
        return values[parts[0]]
    if kind == "call":
        return FUNCTIONS[parts[0]](evaluate(parts[1], values))
    if kind == "abs":
        return abs(evaluate(parts[0], values))
    if kind == "max":
        return _largest(lambda x: evaluate(parts[1], {**values, parts[0]: x}))
    left, right = (evaluate(part, values) for part in parts)
    if kind == "^":
        return left**right
    return {"+": left + right, "-": left - right, "*": left * right}[kind] if kind != "/" else left / right


_GREEK = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "epsilon_0",
    "epsilon_g",
    "lambda",
    "n_lambda",
    "kappa",
    "sigma",
    "theta",
    "zeta",
    "Lambda",
    "log_p",
)


def _largest(function: Callable[[Value], Value]) -> Value:
    """The largest value on (0, 1), by a grid and golden sections."""
    best = max(range(1, 100), key=lambda i: float(function(arb(i) / 100)))
    low, high = (best - 1) / 100, (best + 1) / 100
    for _ in range(60):
        one, two = high - 0.618 * (high - low), low + 0.618 * (high - low)
        low, high = (one, high) if function(arb(one)) < function(arb(two)) else (low, two)
    return function(arb((low + high) / 2))


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that was read: both sides, the relation, and the names that it defines."""

    left: _Tree
    relation: str
    right: _Tree
    defined: Mapping[str, _Tree]

    def excess(self, values: Mapping[str, Value]) -> Value:
        """Left over right, less 1."""
        found = {**self.defined, **values}
        return evaluate(self.left, found) / evaluate(self.right, found) - 1


def read(declared: Declaration) -> Formula:
    """Return the formula of an entry, with the names that its statement defines. Raises Unreadable."""
    text = declared.formula
    for phrase, value in GIVEN.get(declared.id, {}).items():
        if _NAME.fullmatch(phrase):
            continue
        if phrase not in text:
            raise Unreadable(f"{phrase} is missing")
        text = text.replace(phrase, f"({value})" if value else "")
    if found := re.fullmatch(r"(\w+ = .+) => (.+)", text):
        text = f"{found[2]}, {found[1]}"
    head, *definitions = re.split(r", (?=[A-Za-z_]\w* = )", text)
    parts = re.split(r" (<=|=) ", head)
    if len(parts) != 3:
        raise Unreadable(declared.formula)
    if any(definition.count(" = ") > 1 for definition in definitions):
        raise Unreadable(declared.formula)
    return Formula(parse(parts[0]), parts[1], parse(parts[2]), symbols(declared))


def symbols(declared: Declaration) -> dict[str, _Tree]:
    """Return the names that an entry defines, in its readings, its statement or its formula, with their expressions."""
    found: dict[str, _Tree | None] = {}
    printed = re.split(r", (?=[A-Za-z_]\w* = )", declared.formula)[1:]
    if start := re.match(r"(\w+ = .+) => ", declared.formula):
        printed.append(start[1])
    definitions = [definition.split(" = ")[:2] for definition in printed]
    for name, text in [*DEFINED.findall(declared.statement), *definitions]:
        found[name.replace("n lambda", "n_lambda")] = attempt(text)
    found |= {name: attempt(text) for name, text in GIVEN.get(declared.id, {}).items()}
    return {name: tree for name, tree in found.items() if tree is not None}


def attempt(text: str) -> _Tree | None:
    """Return the tree of an expression, or None for other text."""
    try:
        return parse(text)
    except Unreadable:
        return None


def formula_problem(declared: Declaration) -> str:
    """Why the printed formula is not what the check computes; an empty text where it is. Raises Unreadable where that cannot be said.

    An equation must hold at random points. An inequality must have, at random points of the box, the excess that the check encloses.
    """
    with ctx.workprec(BITS):
        formula = read(declared)
        if not declared.boxed and formula.relation != "=":
            raise Unreadable("its check takes no points")
        rng, seen = random.Random(declared.id), 0
        for _ in range(4 * _POINTS):
            point = {name: _drawn(low, high, rng) for name, (low, high) in declared.domain.items()}
            found = float(formula.excess({name: arb(x) for name, x in point.items()}))
            if formula.relation == "=":
                if not abs(found) <= NEAR:
                    return f"the sides differ by {found:.3g}"
                seen += 1
                continue
            with ctx.workprec(53):
                ends = declared.function(**{name: arb(x) for name, x in point.items()})
            if abs(ends.upper) > 1e12:
                continue
            seen += 1
            tight = ends.upper - ends.lower <= NEAR * (1 + abs(ends.upper)) or ends.lower <= -1
            near = (NEAR if tight else _LOOSE) * abs(1 + ends.upper) + 1e-13  # of the ratio; balls of 53 bits round
            if not min(abs(found - end) for end in (ends.lower, ends.upper)) <= near or (
                ends.lower == -1 and abs(found - ends.upper) > near
            ):
                return f"at {point} the formula exceeds by {found:.9g}, the check says [{ends.lower:.9g}, {ends.upper:.9g}]"
            if seen == _POINTS:
                break
        if not seen:
            raise Unreadable("no point has a value")
        return ""


def _drawn(low: float, high: float, rng: random.Random) -> float:
    share = 0.1 + 0.8 * rng.random()
    return float(low * (high / low) ** share) if low > 0 else low + (high - low) * share ** rng.choice((2, 8, 24))


_SWAPS = {
    "at most": "at least", "at least": "at most", "<=": ">=", ">=": "<=", "epsilon": "delta", "delta": "epsilon", "lambda": "sigma",
    "+": "-", " - ": " + ", "/": " ", "^": " ", "log": "exp", "exp": "log", "sqrt": "log",
}  # fmt: skip
_CHANGED = re.compile(r"\d+\.\d+|\d+|" + "|".join(rf"\b{word}(?![a-z])" if word.isalpha() else re.escape(word) for word in _SWAPS))


def text_mutants(text: str) -> Iterator[str]:
    """Each change of one number, relation, operator or quantity in a printed text."""
    for match in _CHANGED.finditer(text):
        word = match[0]
        changed = [_SWAPS[word]] if word in _SWAPS else [f"{float(word) * factor:g}" for factor in (2, 0.5) if float(word)]
        for new in changed:
            yield text[: match.start()] + new + text[match.end() :]


def covered(declared: Declaration, problem: Callable[[Declaration], str]) -> bool:
    """Whether a text could be read and fits."""
    try:
        return problem(declared) == ""
    except (Unreadable, ArithmeticError, ValueError):
        return False
