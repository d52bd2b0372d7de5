"""Calls of a package's functions as its own tests make them, and what each argument does to the
output.

The program runs in the interpreter of the package (`launch`), with the standard library and NumPy
(Python 3.8 or later). The request is one line of JSON on standard input; each line of standard
output is one call. A call is kept as source, so that a target file can repeat it: numbers, texts,
arrays, frames, and objects whose construction was seen. `pytest --dp-discover` uses the module too.
Draws of noise inside a run are the subject of `mechanisms.wrappers.recording`.

Which argument holds the data is found by experiment. One record of an argument is changed while the
randomness stays the same: data move the output; a scale of noise moves it by another amount for
each seed.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import importlib
import inspect
import io
import itertools
import json
import math
import os
import random
import re
import runpy
import sys
import time
import types
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple

import numpy as np

from dpwitness.core.values import object_tree
from dpwitness.mechanisms.wrappers.recording import global_generators, recorder, values

_MOST_ENTRIES = 4000  # of an array or frame that is written as source
_SECONDS = 5.0  # of one call
_SEEDS = tuple(range(1, 13))
GENERATOR, RANDOM_STATE, RANDOM, SEED = (
    "__generator__",
    "__random_state__",
    "__random__",
    "__seed__",
)
_BRACKETS: Dict[type, str] = {
    list: "[{}]",
    tuple: "({})",
    set: "set([{}])",
    frozenset: "frozenset([{}])",
    dict: "{{{}}}",
}
_SLOW = 0.5  # CPU seconds of a run of a made-up call that no audit could repeat
LISTS = "categories|candidates|options|choices|universe|domain"  # names of lists of values
_COLUMN, _FRAME = re.compile(r"'([^'\[\]]+)'"), "pandas.DataFrame({"
_VALUES = [0.9, 0.5, 0.2, 0.1, 0.7, 0.3, 0.6, 0.4]  # of a column of such a frame
_NO_DATA = re.compile(rf"self|(self\.)?({LISTS})")
_LISTED = re.compile(rf"(self\.)?({LISTS})")
_DATUM = re.compile(r"(\w+_)?(input|data|datum|value|val|item|response|answer|bit|x|v)(_\w+)?")
_SEED_NAMES = re.compile(r"(random_)?(seed|state)|rng|prng|generator|rng_seed|random_seed")
Json = Dict[str, Any]


class Unwritable(Exception):
    """Error of a value that has no source."""


class Sources:
    """Writer of values as source, with the modules that the source needs."""

    def __init__(self) -> None:
        # id -> object, source of its construction and modules; the object stays alive
        self.made: Dict[int, Tuple[Any, str, List[str]]] = {}
        self.modules: List[str] = []

    def source(self, value: Any, depth: int = 0) -> str:
        """Return the source of a value. Raise Unwritable for a value without one."""
        if depth > 8:
            raise Unwritable("nested too deeply")
        if id(value) in self.made:
            _, text, modules = self.made[id(value)]
            self.modules += modules
            return text
        write = next((write for holds, write in _WRITERS if holds(value)), None)
        if write is None:
            raise Unwritable("an object of class " + type(value).__name__)
        return write(self, value, depth)

    def _collection(self, value: Any, depth: int) -> str:
        """Return the source of a list, tuple, set or dictionary."""
        if len(value) > _MOST_ENTRIES:
            raise Unwritable(f"{len(value)} entries")
        entries = [self.source(each, depth + 1) for each in value]
        if type(value) is dict:
            held = [self.source(each, depth + 1) for each in value.values()]
            entries = [f"{key}: {text}" for key, text in zip(entries, held)]
        is_single = type(value) is tuple and len(value) == 1
        return _BRACKETS[type(value)].format(", ".join(entries) + ("," if is_single else ""))

    def _array(self, value: Any, depth: int) -> str:
        """Return the source of an array of numbers or texts."""
        if value.dtype.kind not in "biufUS" or value.size > _MOST_ENTRIES:
            raise Unwritable(f"an array of {value.size} entries of dtype {value.dtype}")
        self.modules.append("numpy")
        usual = value.dtype in (np.dtype(float), np.dtype(int), np.dtype(bool)) and value.size
        dtype = "" if usual else f", dtype={value.dtype.str!r}"
        return f"numpy.array({self.source(value.tolist())}{dtype})"

    def _frame(self, value: Any, depth: int) -> str:
        """Return the source of a frame or series."""
        if np.prod(value.shape) > _MOST_ENTRIES:
            raise Unwritable(f"a frame of {len(value)} rows")
        library = _library(value)
        self.modules.append(library)
        columns = _listed_columns(value) if hasattr(value, "columns") else _listed(value)
        return f"{library}.{type(value).__name__}({self.source(columns, depth)})"

    def _fields(self, value: Any, depth: int) -> str:
        """Return the source of an object of a dataclass."""
        names = [field.name for field in dataclasses.fields(value) if field.init]
        fields = [f"{name}={self.source(getattr(value, name), depth + 1)}" for name in names]
        return "{}({})".format(self.name_of(type(value)), ", ".join(fields))

    def name_of(self, value: Any, _depth: int = 0) -> str:
        """Return the dotted name by which a class or function can be imported. Raise Unwritable if
        it cannot be imported, or is defined by a test.
        """
        name = object_tree.name_of(value)
        module = str(getattr(value, "__module__", None) or "numpy")
        if name is None or re.search(r"^__main__$|(^|\.)(test_|conftest)", module):
            raise Unwritable(f"a function or class that a test defines, {value.__qualname__}")
        if module == "builtins":
            return name.partition(".")[2]
        self.modules.append(module)
        return name


def _library(value: Any) -> str:
    """Return the name of the library that defines the class of a value."""
    return type(value).__module__.partition(".")[0]


# whether a value has a form, and the function that writes it
_WRITERS: Tuple[Tuple[Callable[[Any], bool], Callable[[Sources, Any, int], str]], ...] = (
    (
        lambda value: value is None or type(value) in (bool, int, str, bytes),
        lambda writer, value, _: repr(value),
    ),
    (
        lambda value: type(value) is float,
        lambda writer, value, _: repr(value) if math.isfinite(value) else f"float({str(value)!r})",
    ),
    (
        lambda value: isinstance(value, enum.Enum),
        lambda writer, value, _: f"{writer.name_of(type(value))}.{value.name}",
    ),
    (
        lambda value: isinstance(value, (np.bool_, np.number)),
        lambda writer, value, depth: writer.source(value.item(), depth),
    ),
    (lambda value: type(value) in _BRACKETS, Sources._collection),
    (lambda value: isinstance(value, np.random.Generator), lambda *_: GENERATOR),
    (
        lambda value: isinstance(value, np.random.RandomState) or value is np.random,
        lambda *_: RANDOM_STATE,
    ),
    (lambda value: isinstance(value, random.Random) or value is random, lambda *_: RANDOM),
    (lambda value: isinstance(value, np.ndarray), Sources._array),
    (
        lambda value: (
            type(value).__name__ in ("DataFrame", "Series")
            and _library(value) in ("pandas", "polars")
        ),
        Sources._frame,
    ),
    (
        lambda value: isinstance(
            value, (type, types.FunctionType, types.BuiltinFunctionType, np.ufunc)
        ),
        Sources.name_of,
    ),
    (dataclasses.is_dataclass, Sources._fields),
)


def _listed(column: Any) -> List[Any]:
    """Return a column of a frame as a list; None where a value is missing."""
    return [None if isinstance(v, float) and math.isnan(v) else v for v in column.to_list()]


def _listed_columns(frame: Any) -> Json:
    """Return the columns of a frame as lists, by name."""
    return {str(name): _listed(frame[name]) for name in frame.columns}


class CallKeeper:
    """Recorder of the calls of wanted functions. These functions are replaced by functions that
    report their calls.

    Parameters
    ----------
    wanted : dict of str to list
        Module and qualified name of each function by its dotted name; also the methods that
        initialize classes.
    keep : callable
        Called with each kept call.
    """

    def __init__(self, wanted: Dict[str, List[str]], keep: Callable[[Json], None]) -> None:
        self.wanted, self.keep, self.writer = dict(wanted), keep, Sources()
        self.seen: Dict[str, List[Any]] = {}
        self.busy = False

    def instrument(self) -> None:
        """Replace those of the functions whose module is loaded by now."""
        for path in list(self.wanted):
            module, name = self.wanted[path]
            if module in sys.modules:
                del self.wanted[path]
                with contextlib.suppress(Exception):
                    self._replace(path, plain_function(sys.modules[module], name))

    def _replace(self, path: str, function: Any) -> None:
        """Give a function another code, which reports the call and then runs the old one. All
        references to the function hold.
        """
        code = function.__code__
        original = types.FunctionType(
            code,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        original.__kwdefaults__ = function.__kwdefaults__
        signature, hook = inspect.signature(function), f"__dpwitness_{id(function)}"
        is_constructor = path.endswith(".__init__")

        def report(*args: Any, **kwargs: Any) -> Any:
            # at most 4 calls of a function are kept
            if self.busy or (len(self.seen.get(path, ())) >= 4 and not is_constructor):
                return original(*args, **kwargs)
            written = self._written(signature, args, kwargs)
            result = original(*args, **kwargs)
            if written is not None:
                self._finish(path, is_constructor, args, written, result)
            return result

        function.__globals__[hook] = report
        free = ", ".join(code.co_freevars)
        lines = [
            f"def outer({free}):",
            "    def inner(*args, **kwargs):",
            f"        ({free + chr(44) if free else 0})",
            f"        return {hook}(*args, **kwargs)",
            "    return inner",
        ]
        space: Json = {}
        exec("\n".join(lines), space)
        function.__defaults__ = function.__kwdefaults__ = None
        function.__code__ = space["outer"](*[None] * len(code.co_freevars)).__code__
        function.__signature__ = signature

    def _written(self, signature: Any, args: Any, kwargs: Any) -> Any:
        """Return the arguments of a call as source, before the function may change them."""
        self.busy = True
        try:
            bound = signature.bind(*args, **kwargs)
            found, self.writer.modules = [], []
            for name, value in bound.arguments.items():
                kind = signature.parameters[name].kind
                if kind == kind.VAR_POSITIONAL and value:
                    return None
                given = value if kind == kind.VAR_KEYWORD else {name: value}
                found += [self._argument(key, held) for key, held in given.items() if key != "cls"]
            # the same seed in every run, by default
            found += [
                [name, SEED, ""]
                for name, parameter in signature.parameters.items()
                if name not in bound.arguments
                and type(parameter.default) is int
                and _SEED_NAMES.fullmatch(name)
            ]
            return found, list(dict.fromkeys(self.writer.modules))
        except Exception:
            return None
        finally:
            self.busy = False

    def _argument(self, name: str, value: Any) -> List[Any]:
        """Return the name of an argument, its source, and the reason if it has none."""
        if _SEED_NAMES.fullmatch(name) and isinstance(value, (int, np.integer)):
            return [name, SEED, ""]
        try:
            return [name, self.writer.source(value), ""]
        except Unwritable as error:
            return [name, None, str(error)]

    def _finish(
        self, path: str, is_constructor: bool, args: Any, written: Any, result: Any
    ) -> None:
        arguments, modules = written
        if is_constructor:
            given = [f"{key}={held}" for key, held, _ in arguments[1:] if held is not None]
            # the construction of at most 5000 objects is kept
            if arguments and len(given) == len(arguments) - 1 and len(self.writer.made) < 5000:
                with contextlib.suppress(Unwritable):
                    self.writer.modules = []
                    name = self.writer.name_of(type(args[0]))
                    needed = list(dict.fromkeys([*modules, *self.writer.modules]))
                    self.writer.made[id(args[0])] = args[0], f"{name}({', '.join(given)})", needed
            return
        form = [(name, text is None, (text or "")[:12]) for name, text, _ in arguments]
        if form not in self.seen.setdefault(path, []):
            self.seen[path].append(form)
            self.keep({"function": path, "arguments": arguments, "modules": modules})


def plain_function(module: Any, name: str) -> Any:
    """Return the function of a qualified name as it was defined, below decorators. Raise TypeError
    for an object that is not a Python function, or that is compiled from its code.
    """
    found = module
    for part in name.split("."):
        found = vars(found)[part] if isinstance(found, type) else getattr(found, part)
    if hasattr(found, "py_func"):
        raise TypeError(f"{name} is compiled from its code, which must not be replaced")
    for _ in range(8):
        found = getattr(found, "__func__", None) or getattr(found, "fget", None) or found
        found = getattr(found, "__wrapped__", found)
    if not isinstance(found, types.FunctionType):
        raise TypeError(name)
    return found


# -- experiments
# ------------------------------------------------------------------------------------------


class KeptCall:
    """A kept call that can be repeated with other arguments."""

    def __init__(self, found: Json) -> None:
        self.found = found
        self.sources: Json = {}  # of each argument, and of those of the constructor
        self.constructor = ""
        for name, text, _ in found["arguments"]:
            made: Any = ast.parse(text, mode="eval").body if name == "self" and text else None
            if isinstance(made, ast.Call) and not made.args and all(k.arg for k in made.keywords):
                self.constructor = ast.get_source_segment(text, made.func) or ""
                for keyword in made.keywords:
                    part = ast.get_source_segment(text, keyword.value)
                    self.sources[f"self.{keyword.arg}"] = part
            else:
                self.sources[name] = text
        self.space: Json = {"numpy": np}
        for module in [*found["modules"], found["module"]]:
            importlib.import_module(module)
            top = module.partition(".")[0]
            self.space[top] = importlib.import_module(top)

    def run(
        self, seed: int, changed: Dict[str, Any], held: bool = True, limit: float = _SECONDS
    ) -> Any:
        """Return the numbers and texts of the output with this seed and with changed arguments,
        after `limit` seconds at most.

        The seed is also given to generators in the function's module, to generators that the call
        makes without a seed, and to the system's source of randomness. Without `held`, the
        generators of the module keep their state.
        """
        global_generators.seed([seed, 1, 2, 3])
        for value in list(vars(sys.modules[self.found["module"]]).values()) if held else ():
            if isinstance(value, np.random.Generator):
                value.bit_generator.state = type(value.bit_generator)(seed).state
            elif isinstance(value, (np.random.RandomState, random.Random)):
                value.seed(seed)
        space = {
            **self.space,
            **{GENERATOR: np.random.default_rng(seed), SEED: seed},
            **{RANDOM_STATE: np.random.RandomState(seed), RANDOM: random.Random(seed)},
        }
        default_rng: Any = np.random.default_rng

        def seeded(seed: Any = None, number: int = seed) -> Any:
            return default_rng(number if seed is None else seed)

        secret = random.Random(seed)

        def urandom(count: int) -> bytes:
            return secret.getrandbits(8 * count).to_bytes(count, "little")

        system: Any = random
        entropy = system._urandom  # from which `random.SystemRandom` and `secrets` draw
        if held:
            np.random.default_rng, system._urandom = seeded, urandom
        try:
            with recorder.stopped_after(limit), contextlib.redirect_stdout(io.StringIO()):
                numbers, texts = values.leaves(self._result(space, changed))
                return [*numbers.tolist(), *texts]
        finally:
            np.random.default_rng, system._urandom = default_rng, entropy

    def _result(self, space: Json, changed: Json) -> Any:
        """Return what the call returns; if this is nothing, or the object itself, what the object
        has learned.
        """
        values = {
            name: changed[name] if name in changed else eval(text, space)
            for name, text in self.sources.items()
        }
        own = [name for name in values if name.startswith("self.")]
        given = {name[len("self.") :]: values.pop(name) for name in own}
        owner, function = values.pop("self", None), eval(self.found["spelled"], space)
        if self.constructor:
            owner = eval(self.constructor, space)(**given)
        result = function(**values) if owner is None else function(owner, **values)
        if isinstance(result, types.GeneratorType):
            return list(itertools.islice(result, 10_000))
        is_object = hasattr(result, "__dict__") and not hasattr(result, "__array__")
        owner = result if is_object else owner
        return fitted(owner) if result is None or is_object else result

    def value(self, name: str) -> Any:
        return eval(self.sources[name], dict(self.space))

    def rank(self, name: str) -> Tuple[int, str, str, List[str]]:
        """Return the length, the role, the name and the effective changes of an argument."""
        value = self.value(name)
        role, moved = _effect(self, name, value)
        return len(value) if hasattr(value, "__len__") else 0, role, name, moved


def fitted(owner: Any) -> Json:
    """Return the numbers that an object holds after a call that returns nothing: those whose name
    ends with an underscore, or all.
    """
    known = getattr(owner, "__dict__", {})
    held = {key: value for key, value in known.items() if not callable(value)}
    return {key: v for key, v in held.items() if key.endswith("_") and key[0] != "_"} or held


def experiment(found: Json) -> Json:
    """Return the findings of experiments on a call: whether its output is random, whether it takes
    a seed, and the argument that holds the data.
    """
    call = KeptCall(found)
    # the first run may draw more than others, and take longer: it imports, compiles, fills memos
    call.run(1, {}, limit=2 * _SECONDS)
    begin = time.process_time()
    first, again = call.run(1, {}, held=False), call.run(1, {}, held=False)
    seconds = (time.process_time() - begin) / 2
    about: Json = {"seeded": first == again, "seconds": seconds}
    if found.get("alternative") and seconds > _SLOW:
        return dict(about, why=f"a faster call: a run takes {seconds:.2g} s")
    first = call.run(1, {})
    if call.run(1, {}) != first:
        return dict(about, why="its noise takes no seed")
    if all(call.run(seed, {}) == first for seed in _SEEDS[1:]):
        return dict(about, why="it returns the same output in every run")
    ranked = _ranked(call)
    if ranked:  # the longest of the arguments with several entries, else the first one
        _, role, name, moved = max(
            ranked, key=lambda each: each[0] if each[1] in ("records", "answers") else -1
        )
        form = form_of(call.value(name))
        if role == "records" and form["kind"] in ("rows", "values"):
            form, removed = _with_linked(call, name, form)
            moved = [*moved, *removed]
        return dict(about, data=name, role=role, moved=moved, form=form)
    is_noise = len(first) == 1 and isinstance(first[0], float)
    why = "no argument of its calls moves the output as data do"
    return dict(about, why=why, **({"role": "noise"} if is_noise else {}))


def _data_names(call: KeptCall) -> List[str]:
    """Return the arguments that may hold data: not generators, seeds, and lists of categories."""
    return [
        name
        for name, text in call.sources.items()
        if text and not text.startswith("__") and not _NO_DATA.fullmatch(name)
    ]


def _ranked(call: KeptCall) -> List[Tuple[int, str, str, List[str]]]:
    """Return the length, the role, the name and the effective changes of each argument that moves
    the output as data do; arguments of the constructor only if no other does.
    """
    names = _data_names(call)
    own = [name for name in names if not name.startswith("self.")]
    # of the constructor; a number configures the object
    others = [name for name in names if name not in own and _is_sized(call.value(name))]
    ranked = ([each for each in map(call.rank, group) if each[1]] for group in (own, others))
    return next(filter(None, ranked), [])


def _with_linked(call: KeptCall, name: str, form: Json) -> Tuple[Json, List[str]]:
    """Return the form of the data, and "removed" if the output moves as a record is removed, where
    another argument of numbers holds another part of the same records: the call fails unless both
    have the same length.
    """
    value = call.value(name)
    for key in _data_names(call):
        other = call.value(key)
        parts = _rows_of(value, other)
        if key == name or not parts or _runs(call, {name: value[:-1]}):
            continue
        shorter = {name: value[:-1], key: other[:-1]}
        with contextlib.suppress(Exception):
            moved = any(call.run(seed, {}) != call.run(seed, shorter) for seed in _SEEDS)
            columns = [form_of(part)["columns"] for part in parts]
            flat = [np.ndim(part) == 1 for part in (value, other)]
            linked = {"name": key, "width": len(columns[0]), "flat": flat}
            about = {"kind": "rows", "container": "ndarray", "size": len(value), "linked": linked}
            return dict(about, columns=columns[0] + columns[1]), ["removed"] * moved
    return form, []


def _rows_of(*values: Any) -> List[Any]:
    """Return lists or arrays of numbers as rows, one for each record; nothing if one of them is
    something else, or they differ in length.
    """
    listed = [np.asarray(v) for v in values if isinstance(v, (list, np.ndarray))]
    numeric = [v for v in listed if v.dtype.kind in "biuf" and v.ndim in (1, 2) and len(v)]
    is_pair = len(numeric) == len(values) and len(set(map(len, numeric))) == 1
    return [v.reshape(len(v), -1) for v in numeric] if is_pair else []


def _runs(call: KeptCall, changed: Json) -> bool:
    """Return whether a call with changed arguments ends without an error."""
    with contextlib.suppress(Exception):
        call.run(_SEEDS[0], changed)
        return True
    return False


def _is_sized(value: Any) -> bool:
    """Return whether a value has several entries, and is not a text."""
    return hasattr(value, "__len__") and not isinstance(value, str)


def completed(found: Json) -> Json:
    """Return what `experiment` learns about a call. The frames of a made-up call get the columns
    that they lack, as errors name them, six at most.
    """
    for _ in range(6):
        try:
            return experiment(found)
        except KeyError as error:
            lacking = _COLUMN.findall(f"{error}") if found.get("alternative") else []
            texts = [text for _, text, _ in found["arguments"]]
            for argument, name in itertools.product(found["arguments"], lacking):
                column = f"{name.rpartition(': ')[2]!r}: "
                if column not in argument[1]:
                    argument[1] = argument[1].replace(_FRAME, f"{_FRAME}{column}{_VALUES}, ")
            if texts == [text for _, text, _ in found["arguments"]]:
                raise
    return experiment(found)


def _effect(call: KeptCall, name: str, value: Any) -> Tuple[str, List[str]]:
    """Return what an argument is by its effect (records, answers to which noise is added, one
    person's category, or empty), and which changes moved the output.
    """
    role, effective = "", []
    for what, changed in itertools.islice(_changes(call, value), 4):
        moves = []
        with contextlib.suppress(Exception):  # the runs before one that fails count
            for seed in _SEEDS:
                moves.append((call.run(seed, {}), call.run(seed, {name: changed})))
        if all(a == b for a, b in moves):
            continue
        if role == "answers" and np.shape(changed) != np.shape(value):
            continue
        additive = all(_adds(a, b, value, changed) for a, b in moves)
        if not _is_sized(value):
            role = _role_of_value(name, value, moves, additive)
        elif additive and len(value) > 1 and _is_one_draw(value, moves[0][0]):
            return "", []  # the entries are not meant to be an array
        else:
            role = "answers" if additive and role != "records" else "records"
        effective.append(what)
    return role, effective


def _changes(call: KeptCall, value: Any) -> Iterable[Tuple[str, Any]]:
    """Return the changes of an argument: the other texts of the lists that the call gives, if it is
    one of them, else those of one record.
    """
    known = [call.value(key) for key in call.sources if _LISTED.fullmatch(key)]
    listed = [each for each in known if isinstance(value, str) and value in each]
    others = [("replaced", other) for each in listed for other in each if other != value]
    return others or _changed(value)


def _role_of_value(name: str, value: Any, moves: List[Tuple[Any, Any]], additive: bool) -> str:
    """Return what a number or text is, as `_effect` does, from the outputs before and after it is
    changed.
    """
    if isinstance(value, (bool, str)):
        return "category"
    if additive:
        return "answer"
    # one person's value, which the output encodes and so keeps its length
    is_encoded = _DATUM.fullmatch(name) and all(len(a) == len(b) > 1 for a, b in moves)
    is_category = is_encoded or not all(a != b for a, b in moves)
    return "category" if isinstance(value, int) and is_category else ""


def _is_one_draw(value: Any, output: List[Any]) -> bool:
    """Return whether an output adds one draw of noise to all entries of an argument."""
    noise = np.array(output, dtype=float) - np.ravel(np.asarray(value, dtype=float))
    return bool(np.allclose(noise, noise[0]))


def _adds(before: List[Any], after: List[Any], value: Any, changed: Any) -> bool:
    """Return whether the output moves as an argument of numbers does, entry by entry."""
    try:
        shift = np.ravel(np.asarray(changed, dtype=float) - np.asarray(value, dtype=float))
        moved = np.array(after, dtype=float) - np.array(before, dtype=float)
        return moved.shape == shift.shape and bool(np.allclose(moved, shift, rtol=1e-6, atol=1e-9))
    except (TypeError, ValueError):
        return False


def _changed(value: Any) -> Iterator[Tuple[str, Any]]:
    """Yield the value with one record changed, and what was done to it."""
    if type(value) in _OTHER_VALUES:
        yield "replaced", _OTHER_VALUES[type(value)](value)
    elif hasattr(value, "columns") and len(value) > 1:
        columns = _listed_columns(value)
        yield "replaced", type(value)({key: [*held[1:], held[-1]] for key, held in columns.items()})
        yield "removed", type(value)({key: held[:-1] for key, held in columns.items()})
    elif hasattr(value, "__len__") and not isinstance(value, (dict, set, frozenset)) and len(value):
        items = list(value)
        others = [each for each in items[1:] if _differs(each, items[0])]
        if not others and isinstance(items[0], (int, float, np.number, np.ndarray)):
            others = [items[0] + 1]
        for place in (0, len(items) - 1) if others else ():
            other = others[0] if _differs(others[0], items[place]) else items[0]
            yield "replaced", _alike([*items[:place], other, *items[place + 1 :]], value)
        if len(items) > 1:
            yield "removed", _alike(items[:-1], value)
            yield "removed", _alike(items[1:], value)


# another value of a number or text
_OTHER_VALUES: Dict[type, Callable[[Any], Any]] = {
    bool: lambda value: not value,
    int: lambda value: value + 1,
    float: lambda value: value + 1,
    str: lambda value: value + "x",
}


def _differs(one: Any, other: Any) -> bool:
    return bool(np.any(np.asarray(one) != np.asarray(other)))


def _alike(items: List[Any], value: Any) -> Any:
    """Return records in the container of `value`."""
    return (
        np.array(items, dtype=value.dtype) if isinstance(value, np.ndarray) else type(value)(items)
    )


def form_of(value: Any) -> Json:
    """Return the form of data: the container, and the range of its numbers or columns."""
    return next(form(value) for holds, form in _DATA_FORMS if holds(value))


def _is_table(value: Any) -> bool:
    """Return whether data are rows of numbers."""
    items = np.asarray(value)
    return items.ndim == 2 and items.dtype.kind in "biuf"


def _are_rows(value: Any, kinds: Any, container: Any) -> bool:
    """Return whether data are a list of rows of a kind."""
    rows = value if isinstance(value, container) else ()
    return bool(rows) and all(isinstance(row, kinds) for row in rows)


# whether a value has a form, and the form
_DATA_FORMS: Tuple[Tuple[Callable[[Any], bool], Callable[[Any], Json]], ...] = (
    (
        lambda value: hasattr(value, "columns") and not isinstance(value, np.ndarray),
        lambda value: {
            "kind": "frame",
            "library": _library(value),
            "columns": {key: _column(held) for key, held in _listed_columns(value).items()},
            "size": len(value),
        },
    ),
    (lambda value: type(value) in (int, float), lambda value: {"kind": "number", "value": value}),
    (
        lambda value: type(value) in (bool, str),
        lambda value: {"kind": type(value).__name__, "value": value},
    ),
    (
        lambda value: _are_rows(value, dict, (list, tuple)),
        lambda rows: {
            "kind": "dicts",
            "columns": {str(key): _column([row.get(key) for row in rows]) for key in rows[0]},
            "size": len(rows),
        },
    ),
    (
        _is_table,
        lambda value: {
            "kind": "rows",
            "container": type(value).__name__,
            "columns": [_column(column.tolist()) for column in np.asarray(value).T],
            "size": len(value),
        },
    ),
    (
        lambda value: _are_rows(value, tuple, list) and len(set(map(len, value))) == 1,
        lambda rows: {
            "kind": "tuples",
            "columns": {f"part{i}": _column(list(part)) for i, part in enumerate(zip(*rows))},
            "size": len(rows),
        },
    ),
    (
        lambda value: True,
        lambda value: {
            "kind": "values",
            "container": type(value).__name__,
            "of": _column(np.asarray(value).ravel().tolist()),
            "size": len(value),
        },
    ),
)


def _column(items: List[Any]) -> Json:
    """Return the kind and the range of the values of a column."""
    known = [each for each in items if each is not None]
    kinds = {next((kind for kind in (bool, int, float) if isinstance(v, kind)), str) for v in known}
    about: Json = {"missing": len(known) < len(items)}
    if kinds == {bool}:
        return {"kind": "boolean", **about}
    if not kinds or str in kinds:
        return {"kind": "text", "values": sorted({str(v) for v in known})[:12], **about}
    finite = [float(v) for v in known if math.isfinite(v)] or [0.0, 1.0]
    kind = "float" if float in kinds else "integer"
    return {"kind": kind, "low": min(finite), "high": max(finite), **about}


# -- the script
# ------------------------------------------------------------------------------------------


class Plugin:
    """Pytest plugin that lets a keeper see the functions of modules as they are imported. Tests
    whose files have most of the words `first` run first.
    """

    def __init__(
        self,
        keeper: CallKeeper,
        seconds: float,
        end: Callable[[str], Any],
        first: Iterable[str] = (),
    ) -> None:
        self.keeper, self.until, self.end = keeper, time.monotonic() + seconds, end
        self.first = set(first)

    def pytest_collection_modifyitems(self, config: Any, items: List[Any]) -> None:
        """Sort the tests by the number of words in their files, and run them in pytest's root."""
        known: Dict[str, int] = {}
        if self.first:
            os.chdir(str(config.rootpath))
        for file in {str(item.fspath) for item in items} if self.first else ():
            with open(file, encoding="utf-8", errors="replace") as text:
                known[file] = len(self.first & set(re.findall(r"\w+", text.read())))
        items.sort(key=lambda item: -known.get(str(item.fspath), 0))

    def pytest_collection_finish(self, session: Any) -> None:
        """Replace the functions of the modules that collection has imported."""
        self.keeper.instrument()

    def pytest_runtest_setup(self, item: Any) -> None:
        """Replace the functions of the modules that another test has imported, and end in time."""
        self.keeper.instrument()
        if time.monotonic() > self.until:
            self.end("the time for tests is over: raise --seconds")


def run_tests(keeper: CallKeeper, request: Json) -> str:
    """Run the tests of a request, and return a remark if they fail."""
    try:
        pytest = importlib.import_module("pytest")
    except ImportError:
        return "tests: pytest is not installed in this interpreter"
    printed = io.StringIO()
    arguments = ["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    arguments += ["--doctest-modules", *request["tests"]]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        names = {part for path in request["spelled"] for part in path.split(".")[-2:]}
        plugin = Plugin(keeper, request["seconds"], pytest.exit, names)
        code = pytest.main(arguments, plugins=[plugin])
    output = printed.getvalue()
    lines = [line for line in output.splitlines() if line.startswith(("E  ", "ERROR"))]
    last = output.strip().rpartition("\n")[2]
    return "" if code == 0 else "tests: " + "; ".join([last, *lines[:2]])[:300]


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    sink = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the tests print must not mix with the lines
    sys.path[:0] = request["paths"]
    calls: List[Json] = []

    def write(line: Json) -> None:
        sink.write(json.dumps(line) + "\n")
        sink.flush()

    keeper = CallKeeper(request["wanted"], calls.append)
    for module in request["modules"]:
        with contextlib.suppress(BaseException):
            importlib.import_module(module)
    keeper.instrument()
    remark = run_tests(keeper, request) if request["tests"] else ""
    if remark:
        write({"remark": remark})
    for script in request["scripts"]:
        with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(script, run_name="__main__")
    keeper.busy, answered, spent = True, set(), dict.fromkeys(request["spelled"], 0.0)
    share = max(2 * request["seconds"] / max(len(request["spelled"]), 1), _SECONDS)
    for found in [*calls, *request["calls"]]:
        function = found["function"]
        # a kept call of a function that is not scanned, or one that is not needed
        if function not in request["spelled"] or (
            found.get("alternative") and function in answered
        ):
            continue
        found.update(request["spelled"][function])
        begin = time.monotonic()
        try:
            found.update(completed(found))
        except recorder.Stopped:
            found["why"] = f"a call takes longer than {_SECONDS:g} s"
        except BaseException as error:
            found["why"] = f"{type(error).__name__}: {str(error)[:200]}"
        spent[function] += time.monotonic() - begin
        if found.get("data") or spent[function] > share:
            answered.add(function)  # the others need time too
        write(found)
    write({"done": True})
