"""Runs of a mechanism in fresh states: in new processes that have run nothing before, or with
everything forgotten that runs have kept.

Noise that is kept between calls, such as a memoized answer, looks like a constant within one
process. A fresh process draws the noise again. A new interpreter imports the mechanism once and is
forked for each state, so that a state costs milliseconds. It runs nothing itself, and is a worker
of the pool (`worker_process`): the next mechanism uses it again while the modules of the user are
the same. A class or function of the main script is defined by the statements of the script that it
needs; the rest of the script does not run. A mechanism that cannot be pickled runs in this process,
after its memos are emptied: caches of functions, and containers that runs fill again after they are
emptied.
"""

from __future__ import annotations

import ast
import builtins
import functools
import os
import pickle
import select
import sys
import sysconfig
import time
import types
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from numpy.random import SFC64, Generator

from dpwitness.auditors.events.outputs import WrongShape, concatenate
from dpwitness.auditors.workers.descriptions import globals_and_cells, imports_of
from dpwitness.auditors.workers.rounds import Sides, Stage, stream, task_lock
from dpwitness.core.protocols import ForeignMechanism
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.worker_process import (
    Launch,
    Process,
    WorkerDied,
    WorkerTimeout,
    borrowed_worker,
)

_MOST_CONTAINERS = 32  # containers that are tried
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))

_PLAIN = (str, bytes, int, float, complex, type(None))  # types that hold no other objects

_Container = dict[Any, Any] | list[Any] | set[Any]


@dataclass(frozen=True, slots=True)
class Memos:
    """Caches of functions, and keys of containers that runs fill again."""

    caches: list[Any]
    # the keys of a dict that are emptied; None for everything
    containers: list[tuple[_Container, list[Any] | None]]

    @contextmanager
    def emptied(self) -> Iterator[None]:
        """Empty the memos, and restore the containers at the end."""
        saved = [each.copy() for each, _ in self.containers]
        for cache in self.caches:
            cache.cache_clear()
        for each, keys in self.containers:
            if keys is None:
                each.clear()
            elif isinstance(each, dict):
                for key in keys:
                    each.pop(key, None)
        try:
            yield
        finally:
            for (each, _), content in zip(self.containers, saved, strict=True):
                each.clear()
                if isinstance(each, list):
                    each.extend(content)
                else:
                    each.update(content)


def memos_of(run: Callable[..., Any], datasets: Sequence[Any], seed: int, seconds: float) -> Memos:
    """Return the memos that a mechanism can reach; not all if this takes longer than `seconds`.

    A dict, list or set is a memo if runs work without its content and fill it again. Of the
    attributes of an object, single ones may be memos.
    """
    reached = list(_reachable(run))
    caches = [
        each
        for each in reached
        if callable(getattr(each, "cache_clear", None)) and hasattr(each, "cache_info")
    ]
    filled = [each for each in reached if isinstance(each, dict | list | set) and each]
    until, memos = time.perf_counter() + seconds, list[tuple[_Container, list[Any] | None]]()

    def is_memo(container: _Container, keys: list[Any] | None) -> bool:
        in_time = time.perf_counter() < until
        return in_time and _is_memo(container, keys, run, datasets, seed)

    for each in filled[:_MOST_CONTAINERS]:
        keys = list(each)[:_MOST_CONTAINERS] if isinstance(each, dict) else []
        if is_memo(each, None):
            memos.append((each, None))
        elif kept := [key for key in keys if is_memo(each, [key])]:
            memos.append((each, kept))
    return Memos(caches, memos)


def _reachable(run: Callable[..., Any]) -> Iterator[Any]:
    """Yield the objects that a mechanism can reach, at most 5,000."""
    seen, waiting = dict[int, Any](), list[Any]([run])
    while waiting and len(seen) < 5_000:
        found = waiting.pop()
        if id(found) not in seen and not isinstance(found, _PLAIN):
            seen[id(found)] = found  # kept, so that no other object gets its id
            yield found
            with suppress(Exception):  # objects may raise anything
                waiting += _parts(found)


def _is_memo(
    container: _Container,
    keys: list[Any] | None,
    run: Callable[..., Any],
    datasets: Sequence[Any],
    seed: int,
) -> bool:
    """Return whether runs work and put something in again after a container, or these keys, are
    emptied. The content is restored.
    """
    try:
        with Memos([], [(container, keys)]).emptied():
            for side, dataset in enumerate(datasets):
                run(dataset, 1, Generator(SFC64([seed, side])))
            return len(container) > 0 if keys is None else all(key in container for key in keys)
    except Exception:  # the content is needed
        return False


def _parts(found: Any) -> list[Any]:
    """Return the objects that an object holds or uses."""
    if isinstance(found, dict | list | tuple | set):
        return list(found.values() if isinstance(found, dict) else found)
    if isinstance(found, functools.partial):
        return [found.func, *found.args, *found.keywords.values()]
    if isinstance(found, types.MethodType):
        return [found.__self__, found.__func__]
    if isinstance(found, types.FunctionType):
        return _parts_of_function(found)
    if isinstance(found, type):
        return list(vars(found).values()) if is_own(found.__module__) else []
    inside = [getattr(found, "__wrapped__", None)]
    module = type(found).__module__
    if is_own(module) or module.startswith("dpwitness."):  # such as a wrapper
        slots = [
            getattr(found, name, None)
            for each in type(found).__mro__
            for name in getattr(each, "__slots__", ())
        ]
        inside += [type(found), vars(found) if hasattr(found, "__dict__") else None, *slots]
    if isinstance(found, property | staticmethod | classmethod | functools.cached_property):
        inside += [getattr(found, name, None) for name in ("fget", "__func__", "func")]
    return inside


def _parts_of_function(found: types.FunctionType) -> list[Any]:
    """Return the global objects, contents of cells, and defaults that a function uses, the
    attributes that it uses of modules of the user, and its own attributes.
    """
    names = _names(found.__code__)
    used = globals_and_cells(found, names if is_own(found.__module__) else ())
    modules = [each for each in used if isinstance(each, types.ModuleType)]
    return [
        *(each for each in used if not isinstance(each, types.ModuleType)),
        *(
            vars(module)[name]
            for module in modules
            if is_own(module.__name__)
            for name in names & vars(module).keys()
        ),
        *(found.__defaults__ or ()),
        *(found.__kwdefaults__ or {}).values(),
        vars(found),
    ]


def _names(code: types.CodeType) -> set[str]:
    """Return the global names and attributes that a function uses, with those of the functions
    inside.
    """
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def is_own(name: str | None) -> bool:
    """Return whether the module of this name is the user's: neither of the standard library nor of
    an installed package.
    """
    if name is None or name == "__main__":
        return True
    if name.partition(".")[0] in {"dpwitness", *sys.stdlib_module_names}:
        return False
    return not str(getattr(sys.modules.get(name), "__file__", None) or "").startswith(_LIBRARIES)


T = TypeVar("T")

# fresh states: noise of two values that is kept passes unnoticed in all of them with probability
# 2^-8 at most
STATES = 8
PIECE = 4  # runs between two looks at the clock
_INSIDE = "DPWITNESS_FRESH"  # environment variable of a new interpreter, which starts no others
# seconds in which a new interpreter must have started, and imported the mechanism
_START_SECONDS = 20.0


def fresh_outputs(stage: Stage, seconds: float) -> list[Sides]:
    """Return the outputs (D1, D0) of the stage's chunks, one in each fresh state; of some states
    only if they take longer than `seconds`.

    Runs are made one at a time, so that they have no call in common. States in which every run
    raises are left out: the environment may differ.
    """
    target = getattr(stage.run, "__self__", None)
    found, until = list[Sides](), time.perf_counter() + seconds
    if isinstance(target, ForeignMechanism):  # each state in a new worker of the library or program
        for index in range(stage.chunks):
            # at least two, as a library or program may be slow to start
            if index < 2 or time.perf_counter() < until:
                target.close()
                found.append(_state(stage, index, seconds / STATES))
    else:
        found = in_new_processes(
            partial(_state_without_memos, stage, seconds / stage.chunks), stage.chunks, seconds
        )
        if not found:  # in this process, with all memos of the mechanism emptied for each state
            with task_lock():
                with stage.globally_seeded(0):
                    datasets = stage.pair.d1, stage.pair.d0
                    memos = memos_of(stage.run, datasets, stage.seed, seconds)
                for index in range(stage.chunks):
                    with memos.emptied():
                        found.append(_state(stage, index, seconds / STATES))
    return [sides for sides in found if not _always_raises(sides)]


def returns_at_first(stage: Stage) -> bool:
    """Return whether the first run on D0 returns an output in each of two new processes."""
    target, first = getattr(stage.run, "__self__", None), partial(_first_run_returns, stage)
    if not isinstance(target, ForeignMechanism):
        return in_new_processes(first, 2, stage.time_limit) == [True, True]
    for index in range(2):
        target.close()
        if not first(index):
            return False
    return True


def _first_run_returns(stage: Stage, index: int) -> bool:
    """Return whether a run on D0 returns an output."""
    try:
        stage.run(stage.pair.d0, 1, stream(stage.seed, *stage.key, index))
    except Exception:
        return False
    return True


def _always_raises(sides: Sides) -> bool:
    """Return whether all runs on both datasets raise."""
    structures = (name for side in sides if side is not None for name in side.structures())
    return all(name.startswith("raises ") for name in structures)


def _state(stage: Stage, index: int, seconds: float) -> Sides:
    """Return the outputs of one chunk, or of the first runs of it if they take longer than
    `seconds`.
    """
    first, count = index * (stage.chunk // PIECE), stage.chunk // PIECE
    for single in (True, False):
        pieces, until = list[Sides](), time.perf_counter() + seconds
        try:
            for place in range(first, first + count):
                pieces.append(replace(stage, chunk=PIECE, single=single).sample(place))
                if time.perf_counter() > until:
                    break
            break
        except WrongShape:  # such as a number in place of an array of one number
            if not single:
                raise
    one, zero = (
        concatenate([side for side in sides if side is not None])
        for sides in zip(*pieces, strict=True)
    )
    return one, zero


def _state_without_memos(stage: Stage, seconds: float, index: int) -> Sides:
    """Return the outputs of one chunk, after the memos of an object that was pickled with its
    content are emptied.
    """
    with memos_of(stage.run, (stage.pair.d1, stage.pair.d0), stage.seed, seconds).emptied():
        return _state(stage, index, seconds)


def in_new_processes(work: Callable[[int], T], count: int, seconds: float) -> list[T]:
    """Return ``work(0)``, ..., ``work(count - 1)``, each computed in its own fork of a new
    interpreter.

    The list is empty if `work` cannot be pickled or imported there, and shorter if it takes longer
    than several times `seconds`, raises, or processes cannot be forked.
    """
    if _INSIDE in os.environ:  # a module that audits when it is imported
        return []
    try:
        begin = pickle.dumps(sys.path) + pickle.dumps(_main_sources())
        place = pickle.dumps((dict(os.environ), os.getcwd()))
        request = place + pickle.dumps((work, count))
    except Exception:  # of any object
        return []
    files = {name: getattr(each, "__file__", None) for name, each in list(sys.modules.items())}
    modules = tuple(
        (name, file, os.stat(file).st_mtime_ns)
        for name, file in files.items()
        if file and os.path.isfile(file)
        if not file.startswith(_LIBRARIES) and not name.startswith("dpwitness")
    )
    slot, found = _Interpreter(begin, modules), list[T]()
    for fresh in (False, True):
        try:
            with borrowed_worker(slot, _START_SECONDS, fresh=fresh) as interpreter:
                answers = partial(_read_answers, interpreter, request, found)
                interpreter.within(_START_SECONDS + 4 * seconds, answers)
            break
        except (InvalidArgument, WorkerTimeout):
            break
        except WorkerDied:  # without an answer: it has ended because it waited for a long time
            if found:
                break
    return found


def _read_answers(interpreter: Process, request: bytes, found: list[Any]) -> None:
    """Send a request, and append the answers to `found` until the last one."""
    interpreter.send([request])
    while (size := int(interpreter.line(20, "an answer"))) >= 0:
        content = interpreter.fill(memoryview(bytearray(size)))
        if size:  # 0 for a run that raised
            found.append(pickle.loads(content))


@dataclass(frozen=True, slots=True)
class _Interpreter:
    """Slot of a new interpreter that answers requests of `in_new_processes` (`serve`).

    `begin` has the search path and the sources of the main script, pickled; `modules` are name,
    file and time of change of the loaded modules of the user.
    """

    begin: bytes
    modules: tuple[tuple[str, str, int], ...]
    memory: int = 0

    def launch(self) -> Launch:
        code = (
            "import sys, pickle; sys.path[:] = pickle.load(sys.stdin.buffer); "
            "from dpwitness.auditors.workers.fresh_processes import serve; serve()"
        )
        own = {_INSIDE: "1", "PYTHONWARNINGS": "ignore"}
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return [sys.executable, "-c", code], None, os.environ | own | threads

    def start(self, time_limit: float) -> Process:
        process = Process(self)
        process.within(time_limit, lambda: process.send([self.begin]))
        return process


def _main_sources() -> list[tuple[str, str]]:
    """Return file and source of the main script, or of each cell of a notebook."""
    main = sys.modules.get("__main__")
    cells = getattr(main, "In", None)
    if isinstance(cells, list) and hasattr(main, "get_ipython"):
        return [("<cell>", cell) for cell in cells if isinstance(cell, str)]
    file = getattr(main, "__file__", None)
    return [(file, Path(file).read_text(encoding="utf-8"))] if file and Path(file).is_file() else []


def serve() -> None:
    """Serve requests of `in_new_processes` on the standard input and output of this new
    interpreter, until none comes for a while.
    """
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the mechanism prints must not mix with the answers
    vars(sys.modules["__main__"]).clear()  # the names of `launch` are not those of the main script
    vars(sys.modules["__main__"])["__name__"] = "__main__"
    sources = pickle.load(requests)
    while True:
        try:
            environment, folder = pickle.load(requests)
        except EOFError:
            break
        os.environ.clear()
        os.environ.update(environment | {_INSIDE: "1"})
        os.chdir(folder)
        try:
            work, count = _Unpickler(requests, sources).load()
        except Exception:  # the mechanism cannot be imported here
            count = 0
        for index in range(count):
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    os.close(reading)
                    content = pickle.dumps(work(index))
                    with os.fdopen(writing, "wb") as pipe:
                        pipe.write(content)
                finally:
                    os._exit(0)
            os.close(writing)
            with os.fdopen(reading, "rb") as pipe:
                content = pipe.read()  # nothing if the run has raised
            os.waitpid(child, 0)
            answers.write(b"%d\n%b" % (len(content), content))
            answers.flush()
        answers.write(b"-1\n")
        answers.flush()
        # an interpreter without requests ends after a minute, and one that cannot import at once
        if not count or not select.select([requests], [], [], 60.0)[0]:
            break
    os._exit(0)


class _Unpickler(pickle.Unpickler):
    """Unpickler that defines the names of the main script when an object refers to them."""

    def __init__(self, file: Any, sources: Sequence[tuple[str, str]]) -> None:
        super().__init__(file)
        self._sources = sources

    def find_class(self, module: str, name: str) -> Any:
        main = sys.modules["__main__"]
        if module == "__main__" and not hasattr(main, name.partition(".")[0]):
            define(name.partition(".")[0], self._sources, main)
        return super().find_class(module, name)


def define(name: str, sources: Sequence[tuple[str, str]], module: types.ModuleType) -> None:
    """Run the statements of the sources that define `name`, and those that define the names which
    these need.
    """
    statements = list[ast.stmt]()
    for _, source in sources:
        with suppress(SyntaxError):  # a cell with magic commands
            statements += ast.parse(source).body
    imported = imports_of(ast.Module(statements, []))
    binds = [_bound_names(statement, imported) for statement in statements]
    needed, chosen = {name}, set[int]()
    while new := {k for k, names in enumerate(binds) if names & needed} - chosen:
        chosen |= new
        used = (node for k in new for node in ast.walk(statements[k]))
        needed |= {node.id for node in used if isinstance(node, ast.Name)} - set(dir(builtins))
    kept = [
        each
        for k, each in enumerate(statements)
        if k in chosen or (isinstance(each, ast.ImportFrom) and each.module == "__future__")
    ]
    file = sources[0][0] if sources else ""
    module.__dict__["__file__"] = file
    exec(compile(ast.Module(kept, []), file, "exec"), module.__dict__)


def _bound_names(statement: ast.stmt, imported: Set[str]) -> set[str]:
    """Return the names that a statement of a module binds or changes the content of; the modules
    whose functions it calls, such as that of an audit, do not count.
    """
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    if isinstance(statement, definitions):
        return {statement.name}
    if isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test):
        return set()
    nodes = list(ast.walk(statement))
    stored = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)]
    expressions = [node.value for node in nodes if isinstance(node, ast.Expr)]
    called = [value.func for value in expressions if isinstance(value, ast.Call)]
    defined = {node.name for node in nodes if isinstance(node, definitions)}
    assigned = {node.id for node in stored if isinstance(node, ast.Name)}
    changed = set(map(_root, (*stored, *called))) - imported - {""}
    return imports_of(statement) | defined | assigned | changed


def _root(node: ast.AST) -> str:
    """Return the name of the object of which an expression is a part, or ""."""
    if isinstance(node, ast.Attribute | ast.Subscript):
        part = node.value
        return part.id if isinstance(part, ast.Name) else _root(part)
    return ""
