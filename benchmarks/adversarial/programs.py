"""Attacks on the reader of loop programs: random programs, and random changes of them, run as they
are read or are refused.
"""

from __future__ import annotations

import itertools
import linecache
import random
from fractions import Fraction
from typing import Any

from numpy.random import Generator

from dpwitness import InvalidArgument
from dpwitness.benchmarks.adversarial.attack import seed_of
from dpwitness.proofs_checks.alignments.program import Formulas, Numbers
from dpwitness.proofs_checks.alignments.prove import Exact, difference, run
from dpwitness.proofs_checks.alignments.reader import read

HEADER = "from dpwitness.proofs_checks import provable\n"
PROMISE = (
    '@provable(cost="epsilon", where="epsilon > 0 and threshold > 0 and limit >= 1 and block >= '
    '1", neighbors="one")\n'
)
SIGNATURE = (
    "def f(queries, rng, epsilon: float = 1.0, threshold: float = 0.5, limit: int = 2, block: "
    "int = 3):\n"
)
_numbers = itertools.count()


def function_of(text: str, name: str = "f") -> Any:
    """Return a function of a source text, which `inspect` finds without a file."""
    file = f"<program {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, file, "exec", dont_inherit=True), names)
    return names[name]


class Writer:
    """Writes random programs, nearly all of them in the provable subset."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        # of names that have values
        self.kinds = {"epsilon": "real", "threshold": "real", "limit": "int", "block": "int"}
        self.used: dict[str, str] = {}  # kinds of all variables
        self.lists: list[str] = []
        self.fixed = set(self.kinds)

    def text(self) -> str:
        """Return the text of a function."""
        before = [
            f"    {name} = []" for name in self.rng.sample(["out", "kept"], self.rng.randrange(3))
        ]
        self.lists = [line.split()[0] for line in before]
        before += [
            line for _ in range(self.rng.randrange(5)) for line in self.statement(1, loop=False)
        ]
        loop: list[str] = []
        if self.rng.random() < 0.85:
            start = dict(self.kinds)
            indexed = self.rng.random() < 0.5
            loop = [f"    for {'i, q in enumerate(queries)' if indexed else 'q in queries'}:"]
            self.kinds |= {"q": "real", **({"i": "int"} if indexed else {})}
            self.fixed |= {"q", "i"}
            loop += [
                line for _ in range(self.rng.randint(1, 5)) for line in self.statement(2, loop=True)
            ]
            self.kinds = start
        after = [
            line for _ in range(self.rng.randrange(3)) for line in self.statement(1, loop=False)
        ]
        items = [
            *self.lists,
            *(self.expression(self.kind(), 2) for _ in range(self.rng.randrange(3))),
        ] or [self.expression("real", 2)]
        returned = (
            items[0] if len(items) == 1 and self.rng.random() < 0.8 else ", ".join(items) + ","
        )
        return "\n".join(
            [
                HEADER + PROMISE + SIGNATURE.rstrip(),
                *before,
                *loop,
                *after,
                f"    return {returned}",
                "",
            ]
        )

    def kind(self) -> str:
        return self.rng.choice(("real", "real", "real", "int", "bool"))

    def statement(self, depth: int, *, loop: bool) -> list[str]:
        """Return the lines of a random statement."""
        indent, pick = "    " * depth, self.rng.random()
        if pick < 0.2 and depth < 5:
            return self.branch(depth, loop=loop)
        if pick < 0.35 and self.lists:
            return [
                f"{indent}{self.rng.choice(self.lists)}.append({self.expression(self.kind(), 3)})"
            ]
        if pick < 0.4:
            return [f"{indent}{'break' if loop and depth > 2 else 'pass'}"]
        known = [name for name in self.kinds if name not in self.fixed]
        if pick < 0.55 and (numbers := [name for name in known if self.kinds[name] != "bool"]):
            name = self.rng.choice(numbers)
            operator = self.rng.choice(
                ("+=", "-=", "*=") if self.kinds[name] == "real" else ("+=", "-=")
            )
            return [f"{indent}{name} {operator} {self.expression(self.kinds[name], 2)}"]
        name = (
            self.rng.choice(known)
            if known and self.rng.random() < 0.5
            else self.rng.choice("abcdxyz")
        )
        kind = self.used.setdefault(name, self.kind())
        value = self.expression(kind if self.rng.random() < 0.98 else self.kind(), 3)
        self.kinds[name] = kind
        note = self.rng.choice(["", "", "", f": {'float' if kind == 'real' else kind}"])
        return [f"{indent}{name}{note} = {value}"]

    def branch(self, depth: int, *, loop: bool) -> list[str]:
        """Return an ``if`` statement; only what all parts assign has a value after it."""
        indent, start, ends = "    " * depth, dict(self.kinds), []
        lines = []
        tests = ["if", *["elif"] * (self.rng.random() < 0.2)]
        for word in tests:
            lines.append(f"{indent}{word} {self.expression('bool', 3)}:")
            lines += [
                line
                for _ in range(self.rng.randint(1, 2))
                for line in self.statement(depth + 1, loop=loop)
            ]
            ends.append(self.kinds)
            self.kinds = dict(start)
        if self.rng.random() < 0.5:
            lines += [f"{indent}else:", *self.statement(depth + 1, loop=loop)]
        ends.append(self.kinds)
        self.kinds = {
            name: kind for name, kind in ends[0].items() if all(name in end for end in ends)
        }
        return lines

    def expression(self, kind: str, depth: int) -> str:
        """Return a random expression of a kind."""
        names = [name for name, known in self.kinds.items() if known == kind]
        if self.rng.random() < 0.01:
            names = [*self.used, "q", "i"]  # perhaps without a value
        leaf = depth <= 0 or self.rng.random() < 0.25
        if kind == "bool":
            return self.truth(names, depth - 1, leaf=leaf)
        if leaf:
            literals = (
                ("0.0", "1.0", "0.5", "2.0", "0.1", "0.3")
                if kind == "real"
                else ("0", "1", "2", "3", "len(queries)")
            )
            return self.rng.choice([*names, self.rng.choice(literals)])
        first, second = self.expression(kind, depth - 1), self.expression(kind, depth - 1)
        forms = [
            f"{first} + {second}",
            f"({first} - {second})",
            f"({first}) * ({second})",
            f"-({first})",
            f"abs({first})",
        ]
        forms.append(f"({first} if {self.expression('bool', depth - 1)} else {second})")
        if kind == "int":
            return self.rng.choice(
                [
                    *forms,
                    f"({first}) % "
                    f"{self.rng.choice(('limit', 'block', 'len(queries)', '3', '(1 + 1)'))}",
                ]
            )
        mixed = f"({first}) * ({self.expression('int', 1)})"
        forms += [mixed, f"({first}) / {self.rng.choice(('2', '3', '0.1', '(1 + 2)'))}"]
        return self.rng.choice([*forms, *[self.noise(depth - 1)] * 3])

    def truth(self, names: list[str], depth: int, *, leaf: bool) -> str:
        """Return a random condition."""
        kinds = [self.rng.choice(("real", "real", "int")) for _ in range(3)]
        parts = [self.expression(kind, depth) for kind in kinds]
        compared = [self.rng.choice(("<", "<=", ">", ">=", "==", "!=")) for _ in range(2)]
        forms = [*names, f"{parts[0]} {compared[0]} {parts[1]}"]
        if leaf:
            return self.rng.choice([*forms, "True", "1 < 2 < 3"])
        first, second = self.expression("bool", depth), self.expression("bool", depth)
        forms += [
            f"({first} and {second})",
            f"({first} or {second})",
            f"not ({first})",
            f"({first}) == ({second})",
        ]
        return self.rng.choice(
            [*forms, f"({parts[0]} {compared[0]} {parts[1]} {compared[1]} {parts[2]})"]
        )

    def noise(self, depth: int) -> str:
        """Return a random noise call."""
        scale = self.rng.choice(
            (
                "1 / epsilon",
                "2 * limit / epsilon",
                "threshold",
                "0.5",
                "epsilon * 2 / (3 * block)",
                "1",
            )
        )
        center = self.expression(self.rng.choice(("real", "real", "int")), depth)
        calls = (
            f"laplace(scale={scale})",
            f"laplace({center}, {scale})",
            f"laplace(loc={center}, scale={scale})",
        )
        return "rng." + self.rng.choice(
            (*calls, f"exponential({scale})", f"exponential(scale={scale})")
        )


# Syntax outside the subset, and tricks with the syntax inside. V is a variable, E an expression and
# B a condition of the program.
STATEMENTS = r"""
V = yield 1|V = yield|global V|nonlocal V|del V|del V, queries|import abs|import math as V|from math import fabs as abs|assert B
raise ValueError|return E|continue|while B: V = 1|with rng as V: pass|try: V = E\nexcept: pass|def V(): return E
def abs(x): return x|class V: pass|V = lambda: E|abs = lambda x: x|V, x = E, E|[V, x] = E, E|V = x = E|*V, = queries|(V) = E
V[0] = E|V.real = E|V: float|V: int = E|V: (yield) = E|V: (x := 5) = E|V: list[float] = []|out[0] = E|out = []|out = kept
kept = out = []|out += [E]|out.append(E, E)|out.append(E, x=E)|out.append(*[E])|out.append(**{})|out.extend([E])|out.pop()
out.append(queries)|out.append(out)|(out).append(E)|out.append((x := E))|V = out|V = out[0]|V = len(out)|queries = [E]
queries.append(E)|rng = E|rng.laplace = abs|epsilon = E|epsilon += 1.0|limit -= 1|V //= 2|V **= 2|V %= 2|V %= -2|V <<= 1|V @= V
V /= 2|V /= 0|V /= limit|V &= True|V = E, E|V = (E,)|V = {E}|V = {1: E}|for z in queries: V = z|for z in range(3): V = z
for V in queries: pass|async def g(): pass|match E:\n    case x: V = x|V = E;V = E|pass;pass|...|"text"|1|V|V = sum(queries)
V = max(E, E)|V = min(queries)|V = range(3)|V = print(E)|V = abs|V = rng|V = rng.laplace|V = None|V = ...|V = f"{E}"|V = 'x'
V = b"x"|V = 1j|V = int(E)|V = float(E)|V = bool(E)|V = round(E)|V = E if B else None|V = sorted(queries)|V = queries[0]
V = queries[-1]|V = queries[1:]|V = [q for q in queries]|V = sum(q for q in queries)|V = (V := E)|V = eval("1")|V = __builtins__
V = globals()|V = f(queries, rng)|V = f.__defaults__|V = rng.normal(E)|V = E.real|V = x is V|V = rng.laplace(E)
V = rng.laplace(1.0, loc=E, scale=1)|V = rng.laplace(E, 1, 2)|V = rng.laplace(E, scale=1, size=None)|V = rng.laplace(*[E, 1])
V = rng.laplace(**{})|V = rng.laplace(scale=-1)|V = rng.laplace(scale=E)|V = rng.laplace(E, 1e-200 * 1e-200)|V = rng.laplace(E, 0)
V = abs(rng.laplace(scale=1) - V)|V = abs(rng.laplace(scale=1)) + V|V = abs(E, E)|V = abs(x=E)|V = abs(*[E])|V = len(out)
V = len((queries))|V = len(queries, queries)|V = E in queries|V = not E|V = E and E|V = ~E|V = +E|V = E // 2|V = E % 2|V = E ** 2
V = E % 2.0|V = E % 0|V = E / 0|V = E / True|V = True + 1|V = -True|V = B + B|V = 1 / 3|V = 1 % 3|V = 7 % -3|V = 1e400
V = 1e308 * 10|V = 10 ** 400
"""
HEADS = {  # replacements of a part of the text
    "for q in queries": (
        "for q in queries[:]|for q, in zip(queries)|for q in enumerate(queries)|for q in "
        "reversed(queries)|for *q, in [queries]|for q in [*queries]|for epsilon in queries|for abs "
        "in queries|async for q in queries"
    ),
    "for i, q": (
        "for *i, q|for i, *q|for (i, q)|for [i, q]|for (i,), q|for i[0], q|for i.real, q|for "
        "rng.i, q|for q, i|for q, q|"
        "for *x, q|for i, (q)|for i, epsilon|for a, q|for limit, q"
    ),
    "enumerate(queries)": (
        "enumerate(queries, 1)|enumerate(queries, start=1)|zip(queries, "
        "queries)|enumerate(enumerate(queries))|"
        "enumerate(*[queries])|queries"
    ),
    "    return ": (
        "    else:\n        pass\n    return |    else:\n        x = 1.0\n    return |    yield |  "
        "  return *|    return lambda: |    return not |    return await "
    ),
    "def f": ("async def f|def g|f = 1\ndef f"),
    "(queries, rng,": ("(queries, rng, /,|(queries, rng, *,|(queries, rng, *rest,|(rng, queries,"),
    "int = 3)": (
        "int = 3, **rest)|int = 3) -> (yes := 1)|int = True)|int = 3.0)|float = 3)|complex = "
        "3)|int)|int = 0)|int = 3, x: float = 1.0)|int = 3, abs: float = 1.0)|int = 3, *, x: float "
        "= 0.5)"
    ),
    "= 0.5": ("= -0.5"),
    "@provable": (
        "abs = lambda x: 1\n@provable|enumerate = zip\n@provable|len = abs\n@provable|from "
        "math import fabs as abs\n@provable|"
        "@lambda f: f\n@provable|from functools import cache\n@cache\n@provable"
    ),
    "from dpwitness": "from __future__ import annotations\nfrom dpwitness",
    '"epsilon"': (
        '"epsilon # x"|"epsilon + rng.laplace(scale=1)"|"(x := epsilon)"|"lambda: '
        'epsilon"|"queries"|"epsilon / 0"'
    ),
    "epsilon > 0": (
        "epsilon|epsilon > 0 and limit % block >= 0|0 < epsilon < 9|[epsilon > 0]|epsilon > "
        "0 if 1 else 0"
    ),
}


def program_differs(rng: Generator) -> str:
    """Write a random program, read it, and run it by Python and by the program that was read."""
    text = Writer(seed_of(rng)).text()
    return disagreement(text, seed_of(rng))[1]


def changed_program_differs(rng: Generator) -> str:
    """Change a random program at a random place, mostly to one outside the subset. It is refused,
    or both agree.
    """
    return disagreement(changed(random.Random(seed_of(rng))), seed_of(rng))[1]


def disagreement(text: str, seed: int) -> tuple[bool, str]:
    """Return whether the reader accepts a text, and where Python and the program that was read
    differ.
    """
    try:
        function = function_of(text)
    except Exception:  # Python itself refuses the text
        return False, ""
    try:
        program = read(function)
    except InvalidArgument:
        return False, ""
    try:
        found = difference(function, program, seed, Numbers, 6)
    finally:
        linecache.cache.pop(function.__code__.co_filename, None)
    return True, f"{found}\n{text}" if found else ""


def changed(rng: random.Random) -> str:
    """Return a random program with one or two random changes."""
    text = Writer(rng.getrandbits(40)).text()
    for _ in range(rng.choice((1, 1, 2))):
        part = rng.choice([part for part in HEADS if part in text])
        if rng.random() < 0.3:
            text = text.replace(part, rng.choice(HEADS[part].split("|")), 1)
        else:
            statement = rng.choice(STATEMENTS.strip().replace("\n", "|").split("|"))
            text = inserted(text, statement.replace("\\n", "\n"), rng)
    return text


def inserted(text: str, statement: str, rng: random.Random) -> str:
    """Return the text with a statement at a random place of the body, alone or below a
    condition.
    """
    lines = text.splitlines()
    first = (
        next(
            (k for k, line in enumerate(lines) if line.startswith(("def f", "async def f"))),
            len(lines) - 3,
        )
        + 1
    )
    at = rng.randint(min(first, len(lines) - 1), len(lines) - 1)
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    names = sorted(
        {
            part
            for part in text.replace("(", " ").replace(")", " ").split()
            if part in {*"abcdxyz", "q", "i"}
        }
    ) or ["x"]
    conditions = ["q > 0", "epsilon > 1", "True", "limit > 1", f"{rng.choice(names)} > 0"]
    filled = statement
    for letter, choices in (
        ("V", names),
        ("E", [*names, "1.0", "epsilon", "2"]),
        ("B", conditions),
    ):
        filled = "".join(rng.choice(choices) if part == letter else part for part in _words(filled))
    if rng.random() < 0.3:
        filled = f"if {rng.choice(conditions)}:\n    " + filled.replace("\n", "\n    ")
    return "\n".join(
        [*lines[:at], *(indent + line for line in filled.split("\n")), *lines[at:], ""]
    )


def _words(text: str) -> list[str]:
    return [
        "".join(group)
        for _, group in itertools.groupby(text, lambda letter: letter.isalnum() or letter == "_")
    ]


class _Concrete(Formulas):
    """Terms of z3 without unknowns: each value is a literal."""

    def __init__(self) -> None:
        super().__init__()
        z3 = self.z3
        self.remainder = lambda value, divisor: value % divisor
        self.choose = lambda test, first, second: z3.simplify(z3.If(test, first, second))
        self.both = lambda *tests: z3.simplify(z3.And(*tests))
        self.negate = lambda test: z3.simplify(z3.Not(test))

    def constant(self, value: float, kind: str) -> Any:
        """Return the value of a parameter, a query or noise unchanged."""
        return (
            self.z3.RealVal(str(Fraction(repr(value)))) if kind == "real" else self.z3.IntVal(value)
        )

    def impossible(self, test: Any) -> bool:
        """Return whether a condition is false."""
        return bool(self.z3.is_false(test))

    def plain(self, term: Any) -> Any:
        """Return an output as plain Python values."""
        if isinstance(term, list | tuple):
            return [self.plain(part) for part in term]
        literal = self.z3.simplify(term)
        return self.z3.is_true(literal) if self.z3.is_bool(literal) else Fraction(str(literal))


def formulas_differ(rng: Generator) -> str:
    """Run a random program on fractions and on terms of z3, which the checker uses."""
    text = Writer(seed_of(rng)).text()
    try:
        program = read(function_of(text))
    except InvalidArgument:
        return ""
    terms, size = _Concrete(), int(rng.integers(1, 4))
    queries, noise = (
        rng.normal(0, 2, size).round(2).tolist(),
        rng.normal(0, 2, (size + 2) * len(program.noises)).round(2).tolist(),
    )
    expected = plain(run(program, program.defaults, queries, iter(noise), Exact)[0])
    found = terms.plain(run(program, program.defaults, queries, iter(noise), terms)[0])
    return "" if found == expected else f"z3 has {found}, fractions have {expected}\n{text}"


def plain(output: Any) -> Any:
    """Return an output with lists for tuples."""
    return [plain(part) for part in output] if isinstance(output, list | tuple) else output
