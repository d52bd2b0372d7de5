"""Attacks on proofs of loop programs: programs that publish their data by a trick, and functions
changed after their definition.
"""

from __future__ import annotations

import builtins
import functools
import linecache
import random
import types
from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from dpwitness import InvalidArgument, Verdict
from dpwitness.benchmarks.adversarial.attack import Attack, seed_of
from dpwitness.benchmarks.adversarial.programs import (
    HEADER,
    Writer,
    changed_program_differs,
    formulas_differ,
    function_of,
    program_differs,
)
from dpwitness.proofs_checks.alignments.floating_point import zero_problem
from dpwitness.proofs_checks.alignments.prove import difference, prove
from dpwitness.proofs_checks.alignments.reader import read

# Before the function; before the loop; loop; in the loop; when the query is published. A wrong
# reading of the text never publishes.
BIG = "1" + "0" * 400
TRICKS: dict[str, tuple[str, str, str, str, str]] = {
    "star": ("", "X = 0", "*X, Q in enumerate(queries)", "", "X != 0"),
    "star of the query": ("", "X = 0", "X, *Q in enumerate(queries)", "", "X != 0"),
    "index from 1": ("", "", "X, Q in enumerate(queries, 1)", "", "X == len(queries)"),
    "place of a list": ("", "X = 0", "kept[0], Q in enumerate(queries)", "", "X != 0"),
    "walrus": ("", "X = 0", "Q in queries", "Y = (X := 1)", "X != 0"),
    "walrus in a condition": (
        "",
        "X = 0",
        "Q in queries",
        "Y = 1.0 if (X := 1) > 0 else 0.0",
        "X != 0",
    ),
    "walrus in an annotation": ("", "X = 0", "Q in queries", "Y: (X := 1) = 0.0", "X != 0"),
    "inner loop": ("", "X = 0", "Q in queries", "for X in [1]: pass", "X != 0"),
    "else of the loop": (
        "",
        "X = 0",
        "Q in queries",
        "for Y in queries: pass\nelse: X = 1",
        "X != 0",
    ),
    "import": ("", "X = 0", "Q in queries", "import sys as X", "X != 0"),
    "inner function": ("", "X = 0", "Q in queries", "def X(): pass", "X != 0"),
    "inner class": ("", "X = 0", "Q in queries", "class X: pass", "X != 0"),
    "closure": ("", "X = 0", "Q in queries", "def Y():\n    nonlocal X\n    X = 1\nY()", "X != 0"),
    "match": ("", "X = 0", "Q in queries", "match 1:\n    case X: pass", "X != 0"),
    "tuple": ("", "X = 0", "Q in queries", "X, Y = 1, 2", "X != 0"),
    "chain": ("", "X = 0", "Q in queries", "Y = X = 1", "X != 0"),
    "exec": ("", "X = 0", "Q in queries", "exec('X = 1')", "X != 0"),
    "with": ("", "X = 0", "Q in queries", "with open('/dev/null') as X: pass", "X != 0"),
    "global": ("X = 0", "", "Q in queries", "", "X == 0"),
    "own abs": ("abs = lambda x: -1.0", "", "Q in queries", "", "abs(Q) < 0"),
    "own len": ("len = lambda x: -1", "", "Q in queries", "", "len(queries) < 0"),
    "own enumerate": (
        "def enumerate(x): return ((-1, q) for q in x)",
        "",
        "X, Q in enumerate(queries)",
        "",
        "X < 0",
    ),
    "abs of a parameter": ("", "", "Q in queries", "abs = lambda x: -1.0", "abs(Q) < 0"),
    "alias": ("", "X = kept", "Q in queries", "X.append(1.0)", "len(kept) > 0"),
    "division": ("", "", "Q in queries", "X = 7 // 2 - 3.5", "X != 0"),
    "remainder": ("", "", "Q in queries", "X = -7 % 3", "X == 2"),
    "rounding of a sum": ("", "", "Q in queries", "", "Q + 1e17 - 1e17 != Q"),
    "rounding of literals": ("", "", "Q in queries", "", "0.1 + 0.2 > 0.3"),
    "rounding of variables": ("", "X = 0.1\n    Y = 0.2", "Q in queries", "", "X + Y > 0.3"),
    "rounding of a quotient": ("", "X = 1.0\n    Y = X / 49", "Q in queries", "", "Y * 49 < X"),
    "sign of zero": ("", "", "Q in queries", "kept.append(0.0 * Q)", "Q != Q"),
    "a number beyond floating point": ("", "X = 1e308", "Q in queries", "", "X * 10 == X * 100"),
}
# Statements that raise an exception, so that the exception publishes whether the query is positive.
RAISED = {
    "append with a keyword": "out.append(0.0, x=1)",
    "append of two": "out.append(0.0, 1.0)",
    "loc given twice": "X = rng.laplace(0.0, loc=0.0, scale=1 / epsilon)",
    "read before the first value": "X = abs(rng.laplace(scale=1 / epsilon) - X)",
    "read of a deleted name": "del epsilon",
    "large literal": f"X = 1.0 + {BIG}",
    "large product": f"X = 1.0 * ({BIG[:300]} * {BIG[:300]})",
    "large literal and a variable": f"X = Q + {BIG}",
    "large scale": f"X = rng.laplace(scale={BIG})",
    "growing integer": "n = n * n * n * n * n\nX = n * 1.0",
    "growing integer of others": "m = n + n * n\nn = m + m * m\nn = n * m\nX = n / 2",
    "growing noise center": "n = n * n * n * n * n\nX = rng.laplace(n, 1 / epsilon)",
    "assertion": "assert Q < 0",
    "division by zero": "X = 1 / 0",
    "division by a difference": "X = 1 / (limit - 2)",
    "remainder of zero": "X = n % (limit - 2)",
    "size of the noise": "X = rng.laplace(scale=1 / epsilon, size=-1)",
    "call of nothing": "limit()",
}
_PROMISE = '@provable(cost="epsilon", where="epsilon > 0 and limit >= 2", neighbors="one")\n'
_SIGNATURE = (
    "def f(queries, rng, epsilon: float = 1.0, limit: int = 2):\n    out = []\n    kept = []\n"
)
_LITTLE_NOISE = (
    "1e-200 * 1e-200 * 1e200 * 1e200 / epsilon",
    "1e200 * (1e-200 / 1e200 / epsilon) * 1e200",
    "1 / (1e200 * 1e200 * epsilon) * 1e200 * 1e200",
    "1e-150 * limit * 1e-150 * 1e-150 * 1e150 * 1e150 * 1e150 / epsilon",
)


def published(rng: random.Random) -> tuple[str, str]:
    """Return the name and text of a random program that publishes its queries."""
    before, start, loop, inside = "", "n = 2", "Q in queries", ""
    scale, condition, name = "1 / epsilon", "Q != Q", rng.choice([*TRICKS, *RAISED, *_LITTLE_NOISE])
    if name in TRICKS:
        before, start, loop, inside, condition = TRICKS[name]
    elif name in RAISED:
        inside = "if Q > 0:\n    " + RAISED[name].replace("\n", "\n    ")
        start = rng.choice(("n = 2", "n = limit", "n = 3 + limit"))
    else:
        scale = name
    inside = (inside + "\n" if inside else "") + f"noise = rng.laplace(scale={scale})"
    lines = [HEADER + before, _PROMISE + _SIGNATURE + f"    {start or 'pass'}", f"    for {loop}:"]
    lines += [f"        {line}" for line in inside.splitlines()]
    lines += [
        f"        if {condition}:",
        "            out.append(Q + 0.0)",
        "        else:",
        "            out.append(Q + noise)",
        "    return out, kept",
        "",
    ]
    names = dict(
        zip(
            "XYQ",
            rng.sample(
                [
                    "best",
                    "total",
                    "query",
                    "last",
                    "index",
                    "output",
                    "changed",
                    "left",
                    "x",
                    "y",
                    "q",
                ],
                3,
            ),
            strict=True,
        )
    )
    text = "\n".join(lines)
    for letter, new in names.items():
        text = text.replace(letter, new)
    return name, text


def publisher_is_certified(rng: Generator) -> str:
    """Ask for a proof of a random program that publishes its queries, or an exception that tells of
    them.
    """
    name, text = published(random.Random(seed_of(rng)))
    try:
        verdict = prove(function_of(text), trials=0, seconds=2.0, seed=seed_of(rng)).verdict
    except (InvalidArgument, SyntaxError):
        return ""
    return f"CERTIFIED: {name}\n{text}" if verdict is Verdict.CERTIFIED else ""


def _with_code(**changes: Any) -> Callable[[Any, Any], Any]:
    def change(function: Any, other: Any) -> None:
        code, given = (
            function.__code__,
            {name: each(function, other) for name, each in changes.items()},
        )
        function.__code__ = code.replace(**given)

    return change


def _copied(names: dict[str, Any], function: Any) -> Any:
    """Return the function with other global names."""
    found = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    found.promise = function.promise  # type: ignore[attr-defined]
    return found


def _wrapped(function: Any, *, hide: bool) -> Any:
    @functools.wraps(function)
    def run(queries: Any, rng: Any, **parameters: Any) -> Any:
        return queries[0] if len(queries) else function(queries, rng, **parameters)

    if hide:
        del run.__wrapped__
    return run


def _stale(function: Any, other: Any) -> None:
    """Replace the text that `inspect` finds for the function."""
    file = function.__code__.co_filename
    linecache.cache[file] = linecache.cache[other.__code__.co_filename]


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return {"abs": lambda x: -1.0, "len": lambda x: 0, "enumerate": zip}.get(name) or getattr(
            builtins, name
        )


_OTHERS = {"abs": lambda x: x + 1.0, "len": lambda x: 1, "enumerate": lambda x: ((0, q) for q in x)}
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "code": lambda f, g: setattr(f, "__code__", g.__code__),
    "code of another, first line": _with_code(co_firstlineno=lambda f, g: 1),
    "file of another": _with_code(co_filename=lambda f, g: g.__code__.co_filename),
    "constants": _with_code(
        co_consts=lambda f, g: tuple(
            c + 1 if isinstance(c, int | float) else c for c in f.__code__.co_consts
        )
    ),
    "constants moved by a text": _with_code(co_consts=lambda f, g: ("", *f.__code__.co_consts)),
    "names": _with_code(co_names=lambda f, g: tuple(reversed(f.__code__.co_names))),
    "variables": _with_code(
        co_varnames=lambda f, g: (
            *f.__code__.co_varnames[:6],
            *reversed(f.__code__.co_varnames[6:]),
        )
    ),
    "generator": _with_code(co_flags=lambda f, g: f.__code__.co_flags | 0x20),
    "instructions": _with_code(
        co_code=lambda f, g: f.__code__.co_code.replace(b"\x7a\x00", b"\x7a\x0a")
    ),
    "defaults": lambda f, g: setattr(f, "__defaults__", (2.0, 0.25, 3, 2)),
    "number of defaults": lambda f, g: setattr(f, "__defaults__", (2.0, 0.25, 3)),
    "defaults of queries": lambda f, g: setattr(f, "__defaults__", (None, None, 1.0, 0.5, 2, 3)),
    "signature": lambda f, g: setattr(f, "__signature__", None),
    "wrapped": lambda f, g: setattr(f, "__wrapped__", g),
    "wrapper": lambda f, g: _wrapped(f, hide=False),
    "hidden wrapper": lambda f, g: _wrapped(f, hide=True),
    "partial": lambda f, g: functools.partial(f, limit=2),
    "name": lambda f, g: setattr(f, "__name__", "other"),
    "text": _stale,
    "globals": lambda f, g: f.__globals__.update(_OTHERS),
    "copy with other globals": lambda f, g: _copied(dict(_OTHERS), f),
    "copy with other builtins": lambda f, g: _copied(
        {"__builtins__": {**vars(builtins), **_OTHERS}}, f
    ),
    "copy with a class of globals": lambda f, g: _copied(_Names(), f),
    "neighbors": lambda f, g: setattr(f, "promise", (*f.promise[:2], "none")),
    "promise": lambda f, g: setattr(f, "promise", ("epsilon + 0 * abs(epsilon)", *f.promise[1:])),
    "kind of the promise": lambda f, g: setattr(
        f, "promise", (type("Text", (str,), {})("epsilon"), *f.promise[1:])
    ),
}


def changed_function_differs(rng: Generator) -> str:
    """Change a function after its definition. It is refused, or the program that is read is the
    function that would run.
    """
    texts, name = [Writer(seed_of(rng)).text() for _ in range(2)], str(rng.choice(list(CHANGES)))
    function, other = (function_of(text) for text in texts)
    try:
        function = CHANGES[name](function, other) or function
        program = read(function)
    except (InvalidArgument, ValueError) as error:
        return (
            ""
            if isinstance(error, InvalidArgument) or "nfree" in str(error) or "code" in str(error)
            else f"{name}: {error}"
        )
    found = "" if zero_problem(program) else difference(function, program, seed_of(rng))
    return f"{name}: {found}\n{texts[0]}" if found else ""


ATTACKS = (
    Attack("random loop program runs otherwise than it is read", program_differs, runs=10_000),
    Attack(
        "loop program with a random change runs otherwise than it is read",
        changed_program_differs,
        runs=10_000,
    ),
    Attack("loop program has another value in z3", formulas_differ, runs=2_000),
    Attack(
        "loop function changed after its definition runs otherwise than it is read",
        changed_function_differs,
        runs=2_000,
    ),
    Attack("loop program that publishes its data is certified", publisher_is_certified, runs=400),
)
