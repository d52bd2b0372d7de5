"""Reader of provable programs: a small, typed subset of Python.

A program is a function ``f(queries, rng, parameter: float = value, ...)``. Its body has
assignments, ``if``, ``x = []``, ``x.append(value)``, one loop over the queries (``for q in
queries`` or ``for i, q in enumerate(queries)``) with ``break``, and a final ``return``. Noise is
``rng.laplace(loc, scale)`` or ``rng.exponential(scale)``, where the scale is a product or quotient
of parameters and numbers.

The reader rejects all other text. It also rejects a read of a variable that may be unassigned, a
variable with values of two types, and an integer that may be too large for a floating-point number:
their exceptions and types would be outputs that the proof does not consider.
"""

from __future__ import annotations

import ast
import inspect
import itertools
from typing import Any

from dpwitness.core.values.validation import InvalidArgument, require_one_of
from dpwitness.proofs_checks.alignments.floating_point import (
    MOST,
    PUBLIC,
    is_positive,
    number_problem,
    scale_of,
)
from dpwitness.proofs_checks.alignments.program import (
    BREAK,
    NEIGHBORS,
    SIZE,
    Append,
    Assign,
    Branch,
    Break,
    LoopProgram,
    NoiseCall,
    Numbers,
    Statement,
    Untyped,
    names_in,
    type_of,
    value,
    walk,
)
from dpwitness.proofs_checks.alignments.source import (
    BUILTINS,
    check_names,
    defaults_of,
    shown,
    tree_of,
    unmodelled,
)

# of parameters by annotation, and those of their default values
_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "float": ("real", (int, float)),
    "int": ("int", (int,)),
}
_RESERVED = {"queries", "rng", *BUILTINS, BREAK}
_LAWS = {
    "laplace": inspect.signature(lambda loc=None, scale=None: None),
    "exponential": inspect.signature(lambda scale: None),
}
# number of operands that Python always evaluates, in their order
_ALWAYS_EVALUATED: dict[type, int] = {ast.Compare: 2, ast.BoolOp: 1, ast.IfExp: 1}


def read(function: Any) -> LoopProgram:
    """Return the program of a function with the decorator `provable`. Raises InvalidArgument with
    the line that is outside the subset.
    """
    try:
        tree = tree_of(function)
        reader = _Reader(function, tree)
        program = reader.program()
        check_names(function, ("queries", "rng", *reader.defaults), reader.assigned)
    except RecursionError:
        raise InvalidArgument(f"prove: {function.__name__} is nested too deeply") from None
    return program


def _draws(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="rng"))):
            return True
    return False


class _Reader:
    def __init__(self, function: Any, tree: ast.FunctionDef) -> None:
        self.function, self.tree = function, tree
        self.types: dict[str, str] = {}
        self.defaults: dict[str, Any] = {}
        self.defined: set[str] = set()
        self.fixed: set[str] = set()  # names that may not be assigned
        self.assigned: set[str] = set()  # variables that the text assigns
        self.positive: set[str] = set()  # parameters that divide
        self.sites, self.in_loop = 0, False

    def line(self, node: Any) -> int:
        """Return the line of a node in its file."""
        return int(self.function.__code__.co_firstlineno + getattr(node, "lineno", 1) - 1)

    def fail(self, node: Any, rule: str) -> InvalidArgument:
        """Return the error for a rule that a node breaks."""
        return InvalidArgument(f"prove: {self.function.__name__}, line {self.line(node)}: {rule}")

    def outside(self, node: ast.AST) -> InvalidArgument:
        """Return the error for a node that is outside the subset."""
        return self.fail(node, f"`{shown(node)}` is outside the provable subset")

    def program(self) -> LoopProgram:
        """Read the function."""
        self._modelled(self.tree)
        self._parameters()
        cost, condition, neighbors = self.function.promise
        require_one_of("neighbors", neighbors, NEIGHBORS)
        budget, where = self._public(cost, ("int", "real")), self._public(condition, ("bool",))
        match self.tree.body:
            case [
                ast.Expr(value=ast.Constant(value=str())),
                *body,
                ast.Return(value=ast.expr() as last),
            ] | [*body, ast.Return(value=ast.expr() as last)]:
                pass
            case _:
                raise self.fail(self.tree, "the last statement must return a value")
        at = next((k for k, node in enumerate(body) if isinstance(node, ast.For)), len(body))
        before = self.block(body[:at])
        block, query, index, carried = self._loop(body[at]) if at < len(body) else ((), "", "", ())
        after = [*self.block(body[at + 1 :])]
        items = last.elts if isinstance(last, ast.Tuple) else [last]
        returned = tuple(
            item if self._is_list(item) else self.expression(item, after)[0] for item in items
        )
        program = LoopProgram(
            name=self.function.__name__,
            budget=budget,
            where=where,
            neighbors=neighbors,
            defaults=self.defaults,
            positive=frozenset(self.positive),
            types=self.types,
            query=query,
            index=index,
            body=block,
            carried=carried,
            before=before,
            after=tuple(after),
            returned=returned,
            is_tuple=isinstance(last, ast.Tuple),
        )
        if problem := number_problem(program):
            raise self.fail(self.tree, problem)
        return program

    def _modelled(self, node: ast.AST) -> None:
        """Raise InvalidArgument unless all syntax of a node is modelled."""
        if problem := next(unmodelled(node, node), None):
            raise self.fail(*problem)

    def _parameters(self) -> None:
        positional = self.tree.args.args
        arguments = [*positional[2:], *self.tree.args.kwonlyargs]
        if [argument.arg for argument in positional[:2]] != ["queries", "rng"]:
            raise self.fail(self.tree, "the first two parameters must be queries and rng")
        values = defaults_of(self.function)
        if not {*values} <= {argument.arg for argument in arguments}:
            raise self.fail(self.tree, "queries and rng must have no default value")
        for argument in arguments:
            annotation = getattr(argument.annotation, "id", "")
            kind, accepted = _TYPES.get(annotation, ("", ()))
            default: Any = values.get(argument.arg)
            if argument.arg in _RESERVED or type(default) not in accepted:
                raise self.fail(
                    argument,
                    f"{argument.arg} must have the form `{argument.arg}: float = 1.0`, or int",
                )
            if not abs(default) < PUBLIC:
                raise self.fail(
                    argument, f"the default {default!r:.40} of {argument.arg} must be below 2**63"
                )
            self.types[argument.arg] = kind
            self.defaults[argument.arg] = default
        self.types[SIZE] = "int"
        self.defined = {*self.defaults, SIZE, "abs"}
        self.fixed = {*self.defined, *_RESERVED}

    def _public(self, text: Any, kinds: tuple[str, ...]) -> ast.expr:
        rule = (
            f"{text!r} must be an expression in the parameters: a cost is a number, a condition "
            "a comparison"
        )
        if type(text) is not str:
            raise self.fail(self.tree, rule)
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError):
            raise self.fail(self.tree, rule) from None
        self._modelled(tree)
        noises: list[Statement] = []
        read, kind = self.expression(tree, noises)
        if noises or kind not in kinds:
            raise self.fail(self.tree, rule)
        return read

    def _is_list(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Name)
            and self.types.get(node.id) == "list"
            and node.id in self.defined
        )

    def _loop(self, loop: ast.stmt) -> tuple[tuple[Statement, ...], str, str, tuple[str, ...]]:
        match loop:
            case ast.For(target=ast.Name(id=query), iter=ast.Name(id="queries"), orelse=[]):
                index = ""
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=index), ast.Name(id=query)]),
                iter=ast.Call(
                    func=ast.Name(id="enumerate"), args=[ast.Name(id="queries")], keywords=[]
                ),
                orelse=[],
            ):
                pass
            case _:
                raise self.fail(
                    loop,
                    "the loop must be `for q in queries` or `for i, q in "
                    "enumerate(queries)`, without else",
                )
        before = set(self.defined)
        kinds = {query: "real"} | ({index: "int"} if index else {})
        if query == index or {*kinds} & {*self.types, *self.fixed}:
            raise self.fail(loop, f"{' or '.join(kinds)} is used before the loop, or twice")
        self.types |= kinds
        for names in (self.defined, self.fixed, self.assigned):
            names.update(kinds)
        self.in_loop = True
        block = self.block(loop.body)
        self.in_loop, self.defined = False, before
        statements = [*walk(block)]
        changed = {s.name for s in statements if isinstance(s, Assign | NoiseCall)}
        leaves = (BREAK,) if Break() in statements else ()
        carried = (*sorted(changed & before), *leaves)
        return block, query, index, carried

    def block(self, body: list[ast.stmt]) -> tuple[Statement, ...]:
        """Read statements in order."""
        found: list[Statement] = []
        for node in body:
            match node:
                case ast.Assign(targets=[ast.Name() as target], value=given):
                    self._assign(target, given, found)
                case ast.AnnAssign(
                    target=ast.Name() as target, value=ast.expr() as given, simple=1
                ):
                    self._assign(target, given, found)
                case ast.AugAssign(target=ast.Name() as target, op=op, value=given):
                    read = ast.copy_location(ast.Name(target.id, ast.Load()), node)
                    self._assign(target, ast.copy_location(ast.BinOp(read, op, given), node), found)
                case ast.If():
                    self._branch(node, found)
                case ast.Expr(
                    value=ast.Call(
                        func=ast.Attribute(value=ast.Name() as place, attr="append"),
                        args=[item],
                        keywords=[],
                    )
                ):
                    if not self._is_list(place):
                        raise self.outside(node)
                    self.sites += 1
                    found.append(Append(self.sites, place.id, self.expression(item, found)[0]))
                case ast.Break() if self.in_loop:
                    found.append(Break())
                case ast.Pass():
                    pass
                case _:
                    raise self.outside(node)
        return tuple(found)

    def _assign(self, target: ast.Name, given: ast.expr, found: list[Statement]) -> None:
        name = target.id
        if name in self.fixed:
            raise self.fail(target, f"`{name}` cannot be assigned in the provable subset")
        self.assigned.add(name)
        if isinstance(given, ast.List):
            if name in self.types or self.in_loop:
                raise self.fail(target, "a list must be made once, before the loop")
            self.types[name] = "list"
            self.defined.add(name)
            return
        read, kind = self.expression(given, found, name)
        if self.types.setdefault(name, kind) != kind:
            raise self.fail(
                target,
                f"{name} has values of the types {self.types[name]} and {kind}; write 0.0 "
                "for a real number",
            )
        # `name = rng.laplace(...)` is the noise itself
        if not (isinstance(read, ast.Name) and read.id == name):
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

    def expression(
        self, node: ast.expr, found: list[Statement], name: str = ""
    ) -> tuple[ast.expr, str]:
        """Return an expression without noise calls, and its type.

        Noise calls become statements in `found`, in the order in which Python makes them. Noise
        that is the complete expression has the name `name` if that is new.
        """
        read = self._noise(node, found, name) if _draws(node) else self._value(node, found)
        return read, self._type(node, read)

    def _type(self, node: ast.expr, read: ast.expr) -> str:
        try:
            return type_of(read, self.types)
        except Untyped as error:
            raise self.fail(node, str(error)) from None

    def _value(self, node: Any, found: list[Statement]) -> ast.expr:
        """Return an expression whose calls are replaced: noise by a variable, and the number of
        queries by a parameter.

        Operations on literals are done at once, as Python rounds them.
        """
        match node:
            case ast.Constant(value=number):
                if type(number) is int and abs(number) > MOST:
                    raise self.fail(
                        node,
                        f"the integer `{shown(node)}` is too large for a floating-point number",
                    )
                return node
            case ast.Name(id=name):
                if name not in self.defined:
                    raise self.fail(
                        node, f"{name} may have no value here, or is outside the provable subset"
                    )
                return node
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id="queries")], keywords=[]):
                return ast.copy_location(ast.Name(SIZE, ast.Load()), node)
            case ast.Call() if _draws(node):
                return self._noise(node, found, "")
            case ast.Call(func=ast.Name(id="abs"), args=[_], keywords=[]):
                pass
            case ast.UnaryOp() | ast.BinOp() | ast.Compare() | ast.BoolOp() | ast.IfExp():
                pass
            case _:
                raise self.outside(node)
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        always = _ALWAYS_EVALUATED.get(type(node), len(parts))
        if any(_draws(each) for part in parts[always:] for each in ast.walk(part)):
            raise self.fail(
                node, f"`{shown(node)}` draws noise in some runs only; write an `if` statement"
            )

        def operand(part: Any) -> Any:
            if isinstance(part, list):
                return list(map(operand, part))
            return self._value(part, found) if isinstance(part, ast.expr) else part

        read: ast.expr = type(node)(**{k: operand(part) for k, part in ast.iter_fields(node)})
        ast.copy_location(read, node)
        self._type(node, read)
        if isinstance(read, ast.BinOp) and isinstance(read.op, ast.Mod):
            self._require_divisor(read.right)
        if names_in(read) <= {"abs"}:
            literal = ast.Constant(value(read, {}, Numbers))
            return self._value(ast.copy_location(literal, node), found)
        return read

    def _require_divisor(self, divisor: ast.expr) -> None:
        """Raise an error unless the divisor of a remainder is a positive number or a parameter,
        which the promise must then require to be positive.
        """
        if isinstance(divisor, ast.Name) and divisor.id in {*self.defaults, SIZE}:
            self.positive.add(divisor.id)
        elif not (isinstance(divisor, ast.Constant) and is_positive(divisor.value)):
            raise self.fail(
                divisor, f"the divisor `{shown(divisor)}` must be a parameter or a positive number"
            )

    def _fresh(self, stem: str, kind: str) -> ast.Name:
        """Return a new variable that is not in the text."""
        taken = {*self.types, *self.function.__code__.co_varnames}
        name = next(free for k in itertools.count(1) if (free := f"{stem}_{k}") not in taken)
        self.types[name] = kind
        self.defined.add(name)
        return ast.Name(name, ast.Load())

    def _noise(self, call: Any, found: list[Statement], name: str) -> ast.expr:
        """Append the statement of a noise call, and return the expression of its value."""
        law = call.func.attr
        try:
            given = (
                _LAWS[law]
                .bind(*call.args, **{word.arg: word.value for word in call.keywords})
                .arguments
            )
            scale_text = given["scale"]
        except (KeyError, TypeError):
            raise self.fail(
                call, "noise must be rng.laplace(loc, scale) or rng.exponential(scale)"
            ) from None
        center = self._value(given["loc"], found) if "loc" in given else ast.Constant(0.0)
        try:
            scale = scale_of(scale_text, {**self.defaults, SIZE: 1})
        except Untyped as error:
            raise self.fail(call, str(error)) from None
        self.positive |= {parameter for parameter, _ in scale.powers}
        plain = ast.unparse(center) in ("0", "0.0")
        defined = frozenset(self.defined)
        if name and plain and name not in self.types:
            self.types[name] = "real"
            self.defined.add(name)
        else:
            name = self._fresh("noise", "real").id
        found.append(NoiseCall(name, law, scale, self.line(call), defined))
        read = ast.Name(name, ast.Load())
        return ast.copy_location(read if plain else ast.BinOp(center, ast.Add(), read), call)
