"""Reader of provable programs: a small, typed subset of Python.

A program is a function ``f(queries, rng, parameter: float = value, ...)``. Its body has assignments, ``if``, ``x = []``,
``x.append(value)``, one loop over the queries (``for q in queries`` or ``for i, q in enumerate(queries)``) with ``break``, and a final
``return``. Noise is ``rng.laplace(loc, scale)`` or ``rng.exponential(scale)``, where the scale is a product or quotient of parameters and
numbers.

The reader rejects all other text. It also rejects a read of a variable that may be unassigned, and a variable with values of two types:
their exceptions and types would be outputs that the proof does not consider.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
import textwrap
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.proofs_checks.alignments.expressions import Untyped, type_of
from dpwitness.proofs_checks.alignments.program import (
    BREAK,
    SIZE,
    Append,
    Assign,
    Branch,
    Break,
    Monomial,
    Noise,
    Program,
    Statement,
    names_in,
    walk,
)

_TYPES = {"float": "real", "int": "int"}
_RESERVED = {"queries", "rng", "abs", "len", "enumerate", BREAK}


def read(function: Any) -> Program:
    """Return the program of a function with the decorator `provable`. Raises InvalidArgument with the line that is outside the subset."""
    if not hasattr(function, "promise") or not inspect.isfunction(function) or hasattr(function, "__wrapped__"):
        raise InvalidArgument(f"prove: {getattr(function, '__name__', function)!r} is not a function with the decorator provable")
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, SyntaxError) as error:
        raise InvalidArgument(f"prove: the text of {function.__name__} cannot be read: {error}") from None
    if not isinstance(tree, ast.FunctionDef) or len(tree.decorator_list) != 1:
        raise InvalidArgument(f"prove: {function.__name__} must be a plain function whose only decorator is provable")
    if not _is_code_of(function, tree):
        raise InvalidArgument(f"prove: the text of {function.__name__} has changed since the function was imported")
    return _Reader(function, tree).program()


def _is_code_of(function: Any, tree: ast.FunctionDef) -> bool:
    """Return whether the function was compiled from this text."""
    compiled = compile(ast.Module([tree], []), "text", "exec").co_consts
    codes = [code for code in compiled if inspect.iscode(code) and code.co_name == function.__name__]

    def content(code: Any) -> tuple[Any, ...]:
        return code.co_code, code.co_names, code.co_varnames, [each for each in code.co_consts if not isinstance(each, str)]

    return len(codes) == 1 and repr(content(codes[0])) == repr(content(function.__code__))


def _is_positive(literal: Any) -> bool:
    return type(literal) in (int, float) and 0 < literal < float("inf")


@dataclass
class _Reader:
    function: Any
    tree: ast.FunctionDef
    types: dict[str, str] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    defaults: dict[str, Any] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)  # names that may not be assigned
    positive: set[str] = field(default_factory=set)  # parameters that divide
    sites: int = 0
    in_loop: bool = False
    noise_allowed: bool = False

    def line(self, node: Any) -> int:
        """Return the line of a node in its file."""
        return int(self.function.__code__.co_firstlineno + getattr(node, "lineno", 1) - 1)

    def fail(self, node: Any, rule: str) -> InvalidArgument:
        """Return the error for a rule that a node breaks."""
        return InvalidArgument(f"prove: {self.function.__name__}, line {self.line(node)}: {rule}")

    def program(self) -> Program:
        """Read the function."""
        self._parameters()
        cost, where, neighbors = self.function.promise
        promise = self._public(cost, ("int", "real")), self._public(where, ("bool",))
        self.noise_allowed = True
        body = list(self.tree.body)
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            del body[0]
        if not body or not isinstance(body[-1], ast.Return) or body[-1].value is None:
            raise self.fail(self.tree, "the last statement must return a value")
        at = next((k for k, statement in enumerate(body) if isinstance(statement, ast.For)), len(body) - 1)
        before = self.block(body[:at])
        found: tuple[Any, ...] = ((), "", "", ())
        if at < len(body) - 1:
            found = self._loop(body[at])
            at += 1
        after = self.block(body[at:-1])
        value = body[-1].value
        items = value.elts if isinstance(value, ast.Tuple) else [value]
        extra: list[Statement] = []
        returns = tuple(self.expression(item, extra)[0] for item in items if not self._is_list(item))
        block, query, index, carried = found
        return Program(
            *(self.function.__name__, *promise, neighbors, self.defaults, frozenset(self.positive), self.types),
            *(before, query, index, block, (*after, *extra), returns, carried),
        )

    def _parameters(self) -> None:
        given = self.tree.args
        names = [argument.arg for argument in [*given.args, *given.kwonlyargs]]
        if names[:2] != ["queries", "rng"] or given.vararg or given.kwarg or given.posonlyargs:
            raise self.fail(self.tree, "the first two parameters must be queries and rng")
        signature = inspect.signature(self.function).parameters
        for argument in [*given.args[2:], *given.kwonlyargs]:
            kind = _TYPES.get(getattr(argument.annotation, "id", ""))
            default = signature[argument.arg].default
            if (
                kind is None
                or argument.arg in _RESERVED
                or not isinstance(default, int if kind == "int" else int | float)
                or isinstance(default, bool)
            ):
                raise self.fail(argument, f"{argument.arg} must have the form `{argument.arg}: float = 1.0`, or int")
            self.types[argument.arg] = kind
            self.defaults[argument.arg] = default
        self.types[SIZE] = "int"
        self.defined = {*self.defaults, SIZE}
        self.fixed = {*self.defined, *_RESERVED}

    def _public(self, text: str, kinds: tuple[str, ...]) -> ast.expr:
        try:
            read, kind = self.expression(ast.parse(text, mode="eval").body, [])
        except SyntaxError:
            kind = ""
        if kind not in kinds:
            raise self.fail(self.tree, f"{text!r} must be an expression in the parameters: a cost is a number, a condition a comparison")
        return read

    def _is_list(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self.types.get(node.id) == "list" and node.id in self.defined

    def _loop(self, loop: Any) -> tuple[Any, ...]:
        source, target, index = loop.iter, loop.target, ""
        if isinstance(source, ast.Call) and self._calls(source, "enumerate") and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            first, target = target.elts
            source = source.args[0] if len(source.args) == 1 and not source.keywords else source
            index = first.id if isinstance(first, ast.Name) else ""
        if loop.orelse or not isinstance(target, ast.Name) or not (isinstance(source, ast.Name) and source.id == "queries"):
            raise self.fail(loop, "the loop must be `for q in queries` or `for i, q in enumerate(queries)`, without else")
        before = set(self.defined)
        for name, kind in ((target.id, "real"), (index, "int")):
            if name in self.types or name in self.fixed:
                raise self.fail(loop, f"{name} is used before the loop")
            if name:
                self.types[name] = kind
                self.defined.add(name)
                self.fixed.add(name)
        if target.id == index:
            raise self.fail(loop, "index and query need two names")
        self.in_loop = True
        block = self.block(loop.body)
        self.in_loop, self.defined = False, before
        changed = {statement.name for statement in walk(block) if isinstance(statement, Assign | Noise)}
        carried = tuple(sorted(changed & before)) + ((BREAK,) if any(isinstance(s, Break) for s in walk(block)) else ())
        return block, target.id, index, carried

    def block(self, body: list[ast.stmt]) -> tuple[Statement, ...]:
        """Read statements in order."""
        found: list[Statement] = []
        for node in body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assign(node.targets[0], node.value, found)
            elif isinstance(node, ast.AnnAssign) and node.value is not None and node.simple:
                self._assign(node.target, node.value, found)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
                self._assign(node.target, ast.copy_location(ast.BinOp(read, node.op, node.value), node), found)
            elif isinstance(node, ast.If):
                self._branch(node, found)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self._append(node.value, found)
            elif isinstance(node, ast.Break) and self.in_loop:
                found.append(Break())
            elif not isinstance(node, ast.Pass):
                raise self.fail(node, f"`{ast.unparse(node).splitlines()[0]}` is outside the provable subset")
        return tuple(found)

    def _assign(self, target: ast.expr, value: ast.expr, found: list[Statement]) -> None:
        if not isinstance(target, ast.Name) or target.id in self.fixed:
            raise self.fail(target, f"`{ast.unparse(target)}` cannot be assigned in the provable subset")
        name = target.id
        if isinstance(value, ast.List) and not value.elts:
            if name in self.types or self.in_loop:
                raise self.fail(target, "a list must be made once, before the loop")
            self.types[name] = "list"
            self.defined.add(name)
            return
        read, kind = self.expression(value, found, name)
        if self.types.setdefault(name, kind) != kind:
            raise self.fail(target, f"{name} has values of the types {self.types[name]} and {kind}; write 0.0 for a real number")
        if not (isinstance(read, ast.Name) and read.id == name):  # `name = rng.laplace(...)` is the noise itself
            found.append(Assign(name, read))
        self.defined.add(name)

    def _branch(self, node: ast.If, found: list[Statement]) -> None:
        test, kind = self.expression(node.test, found)
        if kind != "bool":
            raise self.fail(node, "a condition must be a comparison")
        start = set(self.defined)
        then = self.block(node.body)
        first, self.defined = self.defined, set(start)
        other = self.block(node.orelse)
        self.defined &= first
        found.append(Branch(test, then, other))

    def _append(self, call: ast.Call, found: list[Statement]) -> None:
        place = call.func
        if not (isinstance(place, ast.Attribute) and place.attr == "append" and self._is_list(place.value) and len(call.args) == 1):
            raise self.fail(call, f"`{ast.unparse(call)}` is outside the provable subset")
        value, _ = self.expression(call.args[0], found)
        self.sites += 1
        found.append(Append(self.sites, value))

    def _calls(self, call: ast.Call, name: str) -> bool:
        """Return whether a call is one of a built-in function that no global name hides."""
        found = self.function.__globals__.get(name, getattr(builtins, name))
        return isinstance(call.func, ast.Name) and call.func.id == name and found is getattr(builtins, name)

    def expression(self, node: ast.expr, found: list[Statement], name: str = "") -> tuple[ast.expr, str]:
        """Return an expression without noise calls, and its type.

        Noise calls become statements in `found`. A call that is the complete expression has the name `name`.
        """
        read = _Calls(self, found, name if isinstance(node, ast.Call) else "").visit(node)
        for unknown in names_in(read) - self.defined - {"abs"}:
            raise self.fail(node, f"{unknown} may have no value here, or is outside the provable subset")
        for part in ast.walk(read):
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod):
                self._positive(part.right)
        try:
            return read, type_of(read, self.types)
        except Untyped as error:
            raise self.fail(node, str(error)) from None

    def _positive(self, node: ast.expr) -> None:
        """Record that a divisor must be positive: a parameter, or a positive number."""
        if isinstance(node, ast.Name) and node.id in {*self.defaults, SIZE}:
            self.positive.add(node.id)
        elif not (isinstance(node, ast.Constant) and _is_positive(node.value)):
            raise self.fail(node, f"the divisor `{ast.unparse(node)}` must be a parameter or a positive number")

    def noise(self, call: ast.Call, found: list[Statement], name: str) -> ast.expr:
        """Append the statement of a noise call, and return the expression of its value."""
        law = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        order = {"laplace": ["loc", "scale"], "exponential": ["scale"]}.get(law, [])
        given = {**dict(zip(order, call.args, strict=False)), **{str(word.arg): word.value for word in call.keywords}}
        if len(call.args) > len(order) or not set(given) <= set(order) or "scale" not in given:
            raise self.fail(call, "noise must be rng.laplace(loc, scale) or rng.exponential(scale)")
        center = self.expression(given["loc"], found)[0] if "loc" in given else ast.Constant(0.0)
        plain = isinstance(center, ast.Constant) and center.value == 0
        if not (name and plain) or name in self.types:
            name = next(
                free for k in itertools.count(1) if (free := f"noise_{k}") not in {*self.types, *self.function.__code__.co_varnames}
            )
        scale = self.monomial(given["scale"])
        self.positive |= {parameter for parameter, _ in scale.powers}
        found.append(Noise(name, law, scale, self.line(call), frozenset(self.defined)))
        self.types[name] = "real"
        self.defined.add(name)
        read = ast.Name(name, ast.Load())
        return read if plain else ast.BinOp(center, ast.Add(), read)

    def monomial(self, node: ast.expr) -> Monomial:
        """Read a scale."""
        if isinstance(node, ast.Constant) and _is_positive(node.value):
            return Monomial(Fraction(repr(node.value)))
        if isinstance(node, ast.Name) and node.id in self.defaults:
            return Monomial(Fraction(1), ((node.id, 1),))
        if isinstance(node, ast.Call) and ast.unparse(node) == SIZE and self._calls(node, "len"):
            return Monomial(Fraction(1), ((SIZE, 1),))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            return self.monomial(node.left).times(self.monomial(node.right), 1 if isinstance(node.op, ast.Mult) else -1)
        raise self.fail(node, f"the scale `{ast.unparse(node)}` must be a product or quotient of parameters and positive numbers")


@dataclass
class _Calls(ast.NodeTransformer):
    """Replaces the calls of an expression: noise by a variable, and the number of queries by a parameter."""

    reader: _Reader
    found: list[Statement]
    name: str

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "rng":
            if not self.reader.noise_allowed:
                raise self.reader.fail(node, "a promise cannot draw noise")
            return self.reader.noise(node, self.found, self.name)
        if ast.unparse(node) == SIZE and self.reader._calls(node, "len"):
            return ast.copy_location(ast.Name(SIZE, ast.Load()), node)
        if not self.reader._calls(node, "abs"):
            raise self.reader.fail(node, f"`{ast.unparse(node)}` is outside the provable subset")
        node.args = [self.visit(argument) for argument in node.args]
        return node
