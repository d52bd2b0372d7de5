"""Parser and evaluator of the claims' printed formulas; verifies that the printed formula equals
the number that the check computes.

A formula is ``left <= right`` or ``left = right``, then definitions, ``, name = expression``; a
statement may define names too. Symbols that are not parameters of the claim are free. The excess
must not depend on free symbols, so they get arbitrary values.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flint import arb, ctx
from printed_readings import GIVEN

from dpwitness.proofs_checks.engine.finding import Declaration

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*|\.\d+)|([A-Za-z_]\w*'?\*?)|([-+*/^()|,]))")
_NAME = re.compile(r"[A-Za-z_]\w*'?\*?")
BITS, _POINTS = 200, 8
# relative tolerances: for a check that encloses one number, and for the endpoints of a wide
# enclosure
NEAR, _LOOSE = 1e-6, 3e-3
DEFINED = re.compile(
    r"(?:^|[,:] |[Ww]ith |At |=> )([A-Za-z_]\w*) = ([^=<>:]+?)(?=, |:| makes | the | is | "
    r"for | in |$)"
)

_APPROX_FORMULA = re.compile(
    r"[Pp]\(.+\) <= (?:exp\(epsilon\)|e\^epsilon) [PpQ]\(.+?\) \+ delta((?:, \w+ = [\w.-]+)*)"
)
_PURE_FORMULA = re.compile(
    r"[Pp][(\[].+[)\]] <= (?:exp\(epsilon\)|e\^epsilon) [PpQ][(\[].+[)\]]"
    r"|(?:sup_w |sup over pairs and w of )?log p\(w \| D\) / p\(w \| D'\) <= epsilon"
)
_RATE_FORMULA = re.compile(
    r"[^-+]+(?: - [^-+]+)? = O\((1 / )?(n|p|log\(p\)|log p)(?:\^\(?(-?\d+)(?:/(\d+))?\)?)?\)"
)
_AUDIT_NAMES = {"n": "records"}  # symbol in a formula -> parameter name in an audit

Value = Any  # an arb, or the unevaluated expression of a definition


class Unreadable(ValueError):
    """Error: the text is not a formula or statement that this module can read."""


def _logistic(x: Value) -> Value:
    return 1 / (1 + (-x).exp())


def _normal_tail(x: Value) -> Value:
    return (-x / arb(2).sqrt()).erfc() / 2


FUNCTIONS: Mapping[str, Callable[[Value], Value]] = {
    "log": lambda x: x.log(),
    "exp": lambda x: x.exp(),
    "sqrt": lambda x: x.sqrt(),
    "sigmoid": _logistic,
    "Phi": _normal_tail,
    "Q": lambda x: _normal_tail(-x),
    "max": lambda x: x,  # the maximum over the box; the comparison is made at each point
}


@dataclass(frozen=True, slots=True)
class _Expression:
    """Node of an expression tree: a number, a symbol, a function of one argument, or an
    operator.
    """

    kind: str
    parts: tuple[Any, ...]


def _tokens(text: str) -> list[tuple[str, str]]:
    result, place = [], 0
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
        result.append(("number", number) if number else ("name", name) if name else ("sign", sign))
        place = match.end()
    return result


class _Parser:
    """Recursive-descent parser of expressions. A product needs no sign; a bar opens or closes an
    absolute value.
    """

    def __init__(self, text: str) -> None:
        self._pending, self._open_bars = _tokens(text), 0

    def whole(self) -> _Expression:
        result = self._sum()
        if self._pending:
            raise Unreadable(str(self._pending))
        return result

    def _next(self, *signs: str) -> str:
        return (
            self._pending.pop(0)[1]
            if self._pending and self._pending[0] in [("sign", sign) for sign in signs]
            else ""
        )

    def _sum(self) -> _Expression:
        result = (
            _Expression("-", (_number("0"), self._product()))
            if self._next("-")
            else self._product()
        )
        while sign := self._next("+", "-"):
            result = _Expression(sign, (result, self._product()))
        return result

    def _product(self) -> _Expression:
        result = self._power()
        while self._pending and (
            self._pending[0][0] != "sign"
            or self._pending[0][1] in "*/("
            or (self._pending[0][1] == "|" and not self._open_bars)
        ):
            sign = self._next("*", "/") or "*"
            result = _Expression(sign, (result, self._power()))
        return result

    def _power(self) -> _Expression:
        result = self._atom()
        if self._next("^"):
            negative = self._next("-")
            power = self._atom()
            result = _Expression(
                "^", (result, _Expression("-", (_number("0"), power)) if negative else power)
            )
        return result

    def _atom(self) -> _Expression:
        if not self._pending:
            raise Unreadable("an end")
        kind, text = self._pending.pop(0)
        if kind == "number":
            return _number(text)
        if kind == "name":
            if text.startswith("max_") and len(text) == 5:
                return _Expression("max", (text[4], self._sum()))
            if text in FUNCTIONS:
                squared = self._atom() if self._next("^") else None
                result = _Expression("call", (text, self._atom()))
                return result if squared is None else _Expression("^", (result, squared))
            return _Expression("name", (text,))
        if text == "(":
            outer, self._open_bars = self._open_bars, 0
            result = self._sum()
            self._open_bars = outer
            if not self._next(")"):
                raise Unreadable("a bracket")
            return result
        if text == "|":
            self._open_bars += 1
            result = self._sum()
            self._open_bars -= 1
            if not self._next("|"):
                raise Unreadable("a bar")
            return _Expression("abs", (result,))
        raise Unreadable(text)


def _number(text: str) -> _Expression:
    return _Expression("number", (text,))


def parse(text: str) -> _Expression:
    """Return the expression tree of a text. Raises Unreadable if the text is not an expression."""
    return _Parser(text).whole()


def evaluate(tree: _Expression, values: dict[str, Value]) -> Value:
    """Return the value of an expression as a ball.

    A symbol without an entry in `values` gets a value between 0.1 and 0.9 that depends only on its
    name. `values` is updated. Raises Unreadable if the symbol is a word.
    """
    kind, parts = tree.kind, tree.parts
    if kind == "number":
        return arb(parts[0])
    if kind == "name":
        if parts[0] not in values:
            if len(parts[0].rstrip("'*")) > 3 and parts[0].rstrip("'*") not in _LONG_NAMES:
                raise Unreadable(parts[0])
            known = {"e": arb(1).exp(), "pi": arb.pi()}
            if parts[0] == "n_lambda":
                known["n_lambda"] = evaluate(
                    _Expression(
                        "*", (_Expression("name", ("n",)), _Expression("name", ("lambda",)))
                    ),
                    values,
                )
            values[parts[0]] = (
                known[parts[0]]
                if parts[0] in known
                else arb(random.Random(parts[0]).uniform(0.1, 0.9))
            )
        if isinstance(values[parts[0]], _Expression):
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
    return (
        {"+": left + right, "-": left - right, "*": left * right}[kind]
        if kind != "/"
        else left / right
    )


_LONG_NAMES = (
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
    """Return the largest value of a function on (0, 1), found with a grid and golden-section
    search.
    """
    best = max(range(1, 100), key=lambda i: float(function(arb(i) / 100)))
    low, high = (best - 1) / 100, (best + 1) / 100
    for _ in range(60):
        one, two = high - 0.618 * (high - low), low + 0.618 * (high - low)
        low, high = (one, high) if function(arb(one)) < function(arb(two)) else (low, two)
    return function(arb((low + high) / 2))


@dataclass(frozen=True, slots=True)
class Formula:
    """Parsed formula: both sides, the relation, and the definitions of names."""

    left: _Expression
    relation: str
    right: _Expression
    defined: Mapping[str, _Expression]

    def excess(self, values: Mapping[str, Value]) -> Value:
        """Return left / right - 1 at the given values of the symbols."""
        result = {**self.defined, **values}
        return evaluate(self.left, result) / evaluate(self.right, result) - 1


def read(declared: Declaration) -> Formula:
    """Return the parsed formula of a ledger entry, with the names that its statement defines.
    Raises Unreadable if parsing fails.
    """
    text = declared.formula
    for phrase, value in GIVEN.get(declared.id, {}).items():
        if _NAME.fullmatch(phrase):
            continue
        if phrase not in text:
            raise Unreadable(f"{phrase} is missing")
        text = text.replace(phrase, f"({value})" if value else "")
    if result := re.fullmatch(r"(\w+ = .+) => (.+)", text):
        text = f"{result[2]}, {result[1]}"
    head, *definitions = re.split(r", (?=[A-Za-z_]\w* = )", text)
    parts = re.split(r" (<=|=) ", head)
    if len(parts) != 3:
        raise Unreadable(declared.formula)
    if any(definition.count(" = ") > 1 for definition in definitions):
        raise Unreadable(declared.formula)
    return Formula(parse(parts[0]), parts[1], parse(parts[2]), symbols(declared))


def symbols(declared: Declaration) -> dict[str, _Expression]:
    """Return the expressions of the names that an entry defines in `GIVEN`, in its statement or in
    its formula.
    """
    result: dict[str, _Expression | None] = {}
    printed = re.split(r", (?=[A-Za-z_]\w* = )", declared.formula)[1:]
    if start := re.match(r"(\w+ = .+) => ", declared.formula):
        printed.append(start[1])
    definitions = [definition.split(" = ")[:2] for definition in printed]
    for name, text in [*DEFINED.findall(declared.statement), *definitions]:
        result[name.replace("n lambda", "n_lambda")] = attempt(text)
    result |= {name: attempt(text) for name, text in GIVEN.get(declared.id, {}).items()}
    return {name: tree for name, tree in result.items() if tree is not None}


def attempt(text: str) -> _Expression | None:
    """Return the expression tree of a text, or None if the text is not an expression."""
    try:
        return parse(text)
    except Unreadable:
        return None


def formula_problem(declared: Declaration) -> str:
    """Return how the printed formula differs from the number that the check computes; an empty text
    if they agree.

    An equation must hold at random points. An inequality must have, at random points of the box,
    the excess that the check encloses.

    Raises
    ------
    Unreadable
        If the formula cannot be parsed, or the comparison is not possible.
    """
    with ctx.workprec(BITS):
        formula = read(declared)
        if not declared.boxed and formula.relation != "=":
            raise Unreadable("its check takes no points")
        rng, compared = random.Random(declared.id), 0
        for _ in range(4 * _POINTS):
            point = {
                name: _random_coordinate(low, high, rng)
                for name, (low, high) in declared.domain.items()
            }
            result = float(formula.excess({name: arb(x) for name, x in point.items()}))
            if formula.relation == "=":
                if not abs(result) <= NEAR:
                    return f"the sides differ by {result:.3g}"
                compared += 1
                continue
            with ctx.workprec(53):
                enclosure = declared.function(**{name: arb(x) for name, x in point.items()})
            if abs(enclosure.upper) > 1e12:
                continue
            compared += 1
            tight = (
                enclosure.upper - enclosure.lower <= NEAR * (1 + abs(enclosure.upper))
                or enclosure.lower <= -1
            )
            # The tolerance is relative to the ratio; 1e-13 allows for the rounding of 53-bit balls.
            near = (NEAR if tight else _LOOSE) * abs(1 + enclosure.upper) + 1e-13
            if not min(abs(result - end) for end in (enclosure.lower, enclosure.upper)) <= near or (
                enclosure.lower == -1 and abs(result - enclosure.upper) > near
            ):
                return (
                    f"at {point} the formula exceeds by {result:.9g}, the check says "
                    f"[{enclosure.lower:.9g}, {enclosure.upper:.9g}]"
                )
            if compared == _POINTS:
                break
        if not compared:
            raise Unreadable("no point has a value")
        return ""


def _random_coordinate(low: float, high: float, rng: random.Random) -> float:
    share = 0.1 + 0.8 * rng.random()
    return (
        float(low * (high / low) ** share)
        if low > 0
        else low + (high - low) * share ** rng.choice((2, 8, 24))
    )


_REPLACEMENTS = {
    "at most": "at least", "at least": "at most", "<=": ">=", ">=": "<=", "epsilon": "delta", "delta": "epsilon", "lambda": "sigma",
    "+": "-", " - ": " + ", "/": " ", "^": " ", "log": "exp", "exp": "log", "sqrt": "log",
}  # fmt: skip
_CHANGEABLE = re.compile(
    r"\d+\.\d+|\d+|"
    + "|".join(
        rf"\b{word}(?![a-z])" if word.isalpha() else re.escape(word) for word in _REPLACEMENTS
    )
)


def text_mutants(text: str) -> Iterator[str]:
    """Yield copies of a printed text in which one number, relation, operator or quantity is
    changed.
    """
    for match in _CHANGEABLE.finditer(text):
        word = match[0]
        changed = (
            [_REPLACEMENTS[word]]
            if word in _REPLACEMENTS
            else [f"{float(word) * factor:g}" for factor in (2, 0.5) if float(word)]
        )
        for new in changed:
            yield text[: match.start()] + new + text[match.end() :]


def covered(declared: Declaration, problem: Callable[[Declaration], str]) -> bool:
    """Return whether `problem` can read the text of an entry and finds no difference."""
    try:
        return problem(declared) == ""
    except (Unreadable, ArithmeticError, ValueError):
        return False


def audit_problem(declared: Declaration, audited: str, at: Mapping[str, Any]) -> str:
    """Return how the printed formula differs from the claim that the entry's audit tested; an empty
    text if they agree.

    `audited` is the audit's claim in the notation of its result (``pure:1``, ``error =
    O(n^-0.5)``), `at` its parameters. Raises Unreadable if the formula is neither a privacy promise
    nor a rate in n, p or log p.
    """
    text = declared.formula
    if found := _APPROX_FORMULA.fullmatch(text):
        for name, value in re.findall(r", (\w+) = ([\w.-]+)", found[1]):
            if at.get(_AUDIT_NAMES.get(name, name)) != float(value):
                return f"the formula has {name} = {value}, the audit ran at {dict(at)}"
        if found[1] and "epsilon" not in found[1]:
            return "the formula gives parameters, but no epsilon"
        printed = f"approx:{at['epsilon']:g},{at['delta']:g}"
    elif _PURE_FORMULA.fullmatch(text):
        printed = f"pure:{at['epsilon']:g}"
    elif found := _RATE_FORMULA.fullmatch(text):
        exponent = float(found[3] or 1) / float(found[4] or 1)
        printed = f"error = O({'log(p)' if found[2] == 'log p' else found[2]}^{-exponent if found[1] else exponent:g})"
    else:
        raise Unreadable(text)
    return (
        "" if printed == audited else f"the formula promises {printed}, the audit tested {audited}"
    )
