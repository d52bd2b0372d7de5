"""Tests of the reader of loop programs: a program that publishes its data has no proof, and Python
runs what the reader reads.
"""

import builtins
import functools
import linecache
import types

import numpy as np
import pytest

from dpwitness import Verdict
from dpwitness.benchmarks.adversarial.programs import (
    Writer,
    changed_program_differs,
    disagreement,
    formulas_differ,
    program_differs,
)
from dpwitness.benchmarks.adversarial.publishers import (
    changed_function_differs,
    publisher_is_certified,
)
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.proofs_checks import provable, prove

pytest.importorskip("z3")

HISTOGRAM = """
@provable(cost="epsilon", where="epsilon > 0 and limit >= 2", neighbors="one")
def f(queries, rng, epsilon: float = 1.0, limit: int = 2):
    out = []
    START
    for LOOP:
        noise = rng.laplace(scale=SCALE)
        if TEST:
            BODY
        else:
            out.append(q + noise)
    return out
"""
PARTS = {
    "START": "n = 2",
    "LOOP": "q in queries",
    "SCALE": "1 / epsilon",
    "TEST": "q != q",
    "BODY": "out.append(q + 0.0)",
}
BIG = "1" + "0" * 400


def defined(text, names=None):
    """Return the function `f` of a text, which `inspect` finds without a file."""
    file = f"<text {len(linecache.cache)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {"provable": provable, **(names or {})}
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    return scope["f"]


def histogram(**parts):
    text = HISTOGRAM
    for name, part in {**PARTS, **parts}.items():
        text = text.replace(name, part)
    return text


def raising(line):
    """Return a program that raises an exception where a query is positive, by a statement that the
    reader once read otherwise.
    """
    return histogram(START="n = 2\n    m = 0.0").replace(
        "        noise =", f"        if q > 0:\n            {line}\n        noise ="
    )


PUBLISHED = {
    "the index becomes a list": histogram(
        START="x = 0", LOOP="*x, q in enumerate(queries)", TEST="x != 0"
    ),
    "the index becomes a list, backwards": histogram(
        START="x = 1", LOOP="*x, q in enumerate(queries)", TEST="not x == 1"
    ),
    "the index is stored in a list": histogram(
        START="x = []", LOOP="x[0], q in enumerate(queries)"
    ),
    "noise that underflows": histogram(SCALE="1e-200 * 1e-200 * 1e200 * 1e200 / epsilon"),
    "noise that underflows in a quotient": histogram(
        SCALE="1e200 * (1e-200 / 1e200 / epsilon) * 1e200"
    ),
    "noise that overflows in a divisor": histogram(
        SCALE="1 / (1e200 * 1e200 * epsilon) * 1e200 * 1e200"
    ),
    "exception: loc is given twice": raising("m = rng.laplace(0.0, loc=0.0, scale=1 / epsilon)"),
    "exception: read before the first value": raising(
        "x = abs(rng.laplace(scale=1 / epsilon) - x)"
    ),
    "exception: read before the first value, added": raising(
        "x = abs(x + rng.laplace(scale=1 / epsilon))"
    ),
    "exception: a literal beyond floating point": raising(f"m = 1.0 + {BIG}"),
    "exception: a parameter times such a literal": raising(f"m = 1.0 + limit * {BIG}"),
    "exception: a scale beyond floating point": raising(f"m = rng.laplace(scale={BIG})"),
    "exception: an integer that grows": raising("n = n * n * n * n * n; m = n + 0.5").replace(
        "; ", "\n            "
    ),
    "exception: a quotient of an integer that grows": raising("n = n + n * n; m = n / 2").replace(
        "; ", "\n            "
    ),
    "exception: append with a keyword": raising("out.append(0.0, x=1)"),
    "a sum that rounds": histogram(TEST="q + 1e17 - 1e17 != q"),
    "a quotient that rounds": histogram(START="x = 1.0\n    y = x / 49", TEST="y * 49 < x"),
    "the sign of zero": histogram(TEST="q > -1e9", BODY="out.append(0.0 * q)"),
    "the type of a parameter": histogram(
        TEST="q > -1e9", BODY="out.append(epsilon if q > 0 else 1.0)"
    )
    .replace("epsilon: float = 1.0", "epsilon: float = 1")
    .replace("epsilon > 0 and", "epsilon == 1 and"),
    "a product beyond floating point": histogram(
        TEST="q > -1e9", BODY="out.append((q * 1e307 * 1e307) * 0.0)"
    ),
    "walrus": histogram(START="x = 0", TEST="(x := 1) > 2 or x == 1"),
    "walrus in an annotation": histogram(START="x: (y := 1) = 0"),
    "global name": histogram(START="global x\n    x = 0", TEST="x != 0"),
    "generator by an annotation": histogram(START="x: (yield) = 0"),
    "loop in the loop": histogram(START="x = 0").replace(
        "        noise", "        for x in [1]:\n            pass\n        noise"
    ),
    "else of the loop": histogram().replace(
        "    return", "    else:\n        out.append(q)\n    return"
    ),
    "own abs": "abs = lambda x: -1.0\n" + histogram(TEST="abs(q) < 0"),
    "own len": "len = lambda x: -1\n" + histogram(TEST="len(queries) < 0"),
    "own enumerate": "enumerate = lambda x: [(-1, q) for q in x]\n"
    + histogram(LOOP="i, q in enumerate(queries)", TEST="i < 0"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_program_that_publishes_its_data_is_refused(name):
    with pytest.raises(InvalidArgument, match="prove: ") as found:
        prove(defined(PUBLISHED[name]), trials=0, seconds=5)
    assert len(str(found.value)) < 2000


def other_code(function):
    function.__code__ = defined(histogram(SCALE="1 / (2 * epsilon)")).__code__
    return function


def without_noise(function):
    @functools.wraps(function)
    def run(queries, rng, epsilon=1.0, limit=2):
        return list(queries)

    del run.__wrapped__
    return run


def copied(function, names):
    found = types.FunctionType(function.__code__, names, "f", function.__defaults__)
    found.promise = function.promise
    return found


def changed(name, value):
    def change(function):
        setattr(function, name, value)
        return function

    return change


class Names(dict):
    """Global names that are looked up in another way."""

    def __missing__(self, name):
        return {"enumerate": lambda queries: [(-1, q) for q in queries]}.get(name) or getattr(
            builtins, name
        )


OTHERS = {"enumerate": lambda queries: [(-1, q) for q in queries]}
CHANGES = {
    "code of a program with less noise": other_code,
    "generator": lambda f: changed(
        "__code__", f.__code__.replace(co_flags=f.__code__.co_flags | 0x20)
    )(f),
    "constants": lambda f: changed(
        "__code__", f.__code__.replace(co_consts=(None, 0.5, *f.__code__.co_consts[2:]))
    )(f),
    "constants moved by a text": lambda f: changed(
        "__code__", f.__code__.replace(co_consts=("", *f.__code__.co_consts))
    )(f),
    "defaults": changed("__defaults__", (9.0, 2)),
    "defaults of queries": changed("__defaults__", ([], None, 1.0, 2)),
    "wrapper": without_noise,
    "globals": lambda f: copied(f, dict(OTHERS)),
    "builtins": lambda f: copied(f, {"__builtins__": {**vars(builtins), **OTHERS}}),
    "class of globals": lambda f: copied(f, Names()),
    "class of the promise": changed(
        "promise", (type("Text", (str,), {})("epsilon"), "epsilon > 0 and limit >= 2", "one")
    ),
    "neighbors": changed("promise", ("epsilon", "epsilon > 0 and limit >= 2", "none")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_function_that_was_changed_after_its_definition_is_refused(name):
    function = defined(histogram(LOOP="i, q in enumerate(queries)", TEST="i < 0"))
    if name == "code of a program with less noise":  # the text of the new code is read
        assert prove(CHANGES[name](function), trials=0, seconds=5).verdict is Verdict.INCONCLUSIVE
    else:
        with pytest.raises(InvalidArgument, match=r"prove: |neighbors"):
            prove(CHANGES[name](function), trials=0, seconds=5)


def test_replaced_built_in_functions_are_refused(monkeypatch):
    function = defined(histogram(TEST="abs(q) < 0"))
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "abs", lambda x: -1.0)
        with pytest.raises(InvalidArgument, match="abs is not the built-in function"):
            prove(function, trials=0)
    assert prove(function, trials=0).verdict is Verdict.CERTIFIED


def sample(attack, number):
    return [attack(np.random.default_rng([number, seed])) for seed in range(number)]


@pytest.mark.slow
def test_random_programs_run_as_they_are_read():
    """The benchmark `adversarial` runs 10,000 of each."""
    assert not any(sample(program_differs, 20)) and not any(sample(changed_program_differs, 20))
    assert not any(sample(changed_function_differs, 20)) and not any(
        sample(publisher_is_certified, 10)
    )
    assert not any(sample(formulas_differ, 10))
    accepted = [disagreement(Writer(seed).text(), seed)[0] for seed in range(30)]
    assert sum(accepted) > 15
