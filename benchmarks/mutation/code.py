"""Benchmark of the contract suite: the share of random mutants of the auditors' code that
`tests/contract` detects.

A mutant changes one node: a number is halved or doubled, a comparison or a sign is flipped, a `not`
is removed, or a condition is made true. The code is installed into a folder of its own for each
worker, where one file at a time is changed. A first run of the suite without mutants records which
functions each test calls in its own process; a mutant runs only the tests that call its function,
the short ones first. A mutant is detected if a test fails, or does not end in two minutes.
Survivors are listed; `REASONS` has those that change nothing that a user sees.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from queue import SimpleQueue

import dpwitness
from dpwitness.benchmarks.table import Row, Table, root_seed

ROOT = Path(dpwitness.__file__).resolve().parent.parent
ROOMS = (
    "auditors/statistics", "auditors/events", "auditors/audit", "auditors/workers", "auditors/witnesses",  # noqa: E501
    "core/datasets", "core/claims",
)  # fmt: skip
LEAST, MUTANTS = 0.75, 120
# text of the line and change -> why a user sees no difference
REASONS: dict[str, str] = {
    "isinstance(rows, np.ndarray) and rows.dtype == np.float64 and rows.shape == blocks.shape: "
    "== -> !=": "rounds are not counted in compiled code: speed only",
    "levels = np.geomspace(1e-30, 1.0, 200): 1e-30 -> 2e-30": (
        "another grid of levels: a p-value is rounded up to the next one"
    ),
    "if seconds < 0.1 or self.run < _CHEAP_RUN: 0.1 -> 0.05": (
        "the shortest time that prices runs: a plan by time is not reproducible"
    ),
    "row[j] = min(best, k + 1): 1 -> 2": "distances above k are only compared with k",
    "_GRID_CELLS = 4096: 4096 -> 8192": "the grid decides the speed only",
    "return bracket(rejected, 0.0, float(x.mean()), _BISECTIONS)[0] if rejected(0.0) else 0.0: "
    "rejected(0.0) -> True": "the bracket ends at 0 where nothing is rejected",
    'losses["valid_0"]["binary_logloss"][booster.best_iteration - 1]: - -> +': (
        "a later round decides only where the trees are as good as none"
    ),
    "if kept is not None and kept.content == content:: == -> !=": (
        "a kept interpreter saves a second; another answers the same"
    ),
    "return train_renyi_rule(goal.claim, events, np.array(counts), goal.rounds, goal.alpha / 2): "
    "2 -> 1": "training at another error certifies less, within the tolerance of golden runs",
    "_optimal_bet(y, q / q.sum(), rounds / 2, alpha / 2),: / -> *": (
        "a bet for another number of rounds certifies less, within the tolerance of golden runs"
    ),
    "_optimal_bet(x, first, rounds / 2, alpha / 2),: 2 -> 4": (
        "a bet for another number of rounds certifies less, within the tolerance of golden runs"
    ),
    "if rank < 1:: 1 -> 2": "a median is taken of at least 200 errors, whose rank is larger",
    "inner = steps[len(steps) // 100 : len(steps) - len(steps) // 100]: - -> +": (
        "other places of thresholds among which training chooses, within the tolerance of golden "
        "runs"
    ),
    "for position in np.argsort(-inner)[:2] + len(steps) // 100:: 2 -> 1": (
        "other places of thresholds among which training chooses, within the tolerance of golden "
        "runs"
    ),
    "if options.seconds is None:: options.seconds is None -> True": (
        "a longer comparison of causes after a sequential audit that is limited by time"
    ),
    "high += margin * float(np.sqrt(max(float(b @ y**2) - high**2, 0.0) / (rounds / 2))): / -> *": (
        "an expected bound chooses among rules: another rule certifies less, within the tolerance "
        "of golden runs"
    ),
    "for found in runner.counts(stage, [test.event], rounds if learning else PICTURE_ROUNDS):: "
    "learning -> True": "outputs that nobody reads are kept: memory only",
    "if lowest_from > above_from:: lowest_from > above_from -> True": (
        "a line that is nowhere the lowest changes no curve"
    ),
    "x / np.maximum(x + zeros, 1.0),: + -> -": "another upper end of the same bisection",
    "return max(0.5 * signal**2 + 10 * signal, 0.5 * mu**2 + 10 * mu): + -> -": (
        "the extent of a grid, in which the tails have no mass"
    ),
    "rows = np.flatnonzero(training)[:: -(-int(training.sum()) * x.shape[1] // 2**21)]: 2 -> 4": (
        "how many rows of a large table a tree is trained on: speed, and power within the "
        "tolerance of golden runs"
    ),
    "return a, np.minimum(b, 1 - a): - -> +": (
        "rates are at most 1 - alpha already, up to rounding"
    ),
    "low -= margin * float(np.sqrt(max(float(a @ x**2) - low**2, 0.0) / (rounds / 2))): / -> *": (
        "an expected bound chooses among rules: another rule certifies less, within the tolerance "
        "of golden runs"
    ),
    "left = max(options.seconds - runner.spent, _EXTRA_SHARE * options.seconds): * -> /": (
        "a longer comparison of causes after a sequential audit that is limited by time"
    ),
    "nearest, residual = math.inf if value > 0 else -math.inf, text_hash(str(hash(value))): "
    "- -> ": ("the digits of a huge integer, in columns of their own, have its sign too"),
    "np.asarray(before[0], dtype=float) + 0.5,: 0.5 -> 0.25": (
        "another prior of a bet: as valid, and within the tolerance of golden runs"
    ),
    "inner, outer = (-high, -low) if self.sign > 0 else (low, high): self.sign > 0 -> True": (
        "a worse ball is not chosen: another event is nearly as good"
    ),
    '"tested": [test.to_json(place[id(test.pair)])] if test else [],: test -> True': (
        "an audit that ends has tested an event"
    ),
    "claim, discovery = call.findings.options.claim, min(options.alpha * targets, 0.5): "
    "0.5 -> 0.25": "it matters from 25 targets at confidence .99, as a slower discovery",
}
_FLIPPED = {
    "<": ">=",
    ">": "<=",
    "<=": ">",
    ">=": "<",
    "==": "!=",
    "!=": "==",
    "in": "not in",
    "not in": "in",
    "is": "is not",
    "is not": "is",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.Gt: ">", ast.LtE: "<=", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in", ast.NotIn: (  # noqa: E501
        "not in"
    ),
    ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip
_SIGNS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
}


@dataclass(frozen=True, slots=True)
class CodeMutant:
    """Replacement of the characters from `start` to `end` of a file by `new`."""

    path: str  # relative to the repository
    line: int
    start: int
    end: int
    old: str
    new: str
    text: str  # of the line
    function: (
        int  # first line of the function, with its decorators; 0 if it runs at import, or compiled
    )

    def describe(self) -> str:
        return f"{self.path}:{self.line}: {self.old} -> {self.new} in {self.text.strip()[:100]}"

    @property
    def reason(self) -> str:
        return REASONS.get(f"{self.text.strip()}: {self.old} -> {self.new}", "")


def mutants() -> list[CodeMutant]:
    """Return every mutant of the rooms, in the order of files and nodes."""
    paths = sorted(path for room in ROOMS for path in (ROOT / room).glob("*.py"))
    return [mutant for path in paths for mutant in _mutants_of(path)]


def _mutants_of(path: Path) -> Iterator[CodeMutant]:
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    starts = [sum(map(len, lines[:k])) for k in range(len(lines))]

    def position(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    tree = ast.parse(source)
    skipped = {
        id(child) for node in ast.walk(tree) for part in _not_run(node) for child in ast.walk(part)
    }
    functions = _functions(tree)
    for node in ast.walk(tree):
        if id(node) in skipped or not isinstance(node, ast.expr):
            continue
        for first, last, old, new in _changes(node):
            start, end = position(*first), position(*last)
            at = source.find(old, start, end)
            if at >= 0:
                yield CodeMutant(
                    str(path.relative_to(ROOT)),
                    first[0],
                    at,
                    at + len(old),
                    old,
                    new,
                    lines[first[0] - 1],
                    functions.get(id(node), 0),
                )
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(
            node.test, ast.Constant
        ):
            start, end = position(*_begin(node.test)), position(*_end(node.test))
            yield CodeMutant(
                str(path.relative_to(ROOT)),
                node.test.lineno,
                start,
                end,
                source[start:end],
                "True",
                lines[node.test.lineno - 1],
                functions.get(id(node), 0),
            )


def _functions(tree: ast.AST) -> dict[int, int]:
    """Return the first line of the function that has each node, as its code object states it. Nodes
    of compiled functions are left out: a call of these is not seen.
    """
    found: dict[int, int] = {}
    for node in ast.walk(tree):  # inner functions come after outer ones
        if isinstance(node, ast.FunctionDef):
            compiled = any("jit" in ast.unparse(each) for each in node.decorator_list)
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            for part in (child for each in node.body for child in ast.walk(each)):
                found[id(part)] = 0 if compiled else first
    return found


def _not_run(node: ast.AST) -> Iterator[ast.AST]:
    """Yield parts that no call runs: annotations, decorators, and texts."""
    if isinstance(node, ast.FunctionDef):
        yield from node.decorator_list
        yield from (
            part.annotation
            for part in ast.walk(node.args)
            if isinstance(part, ast.arg) and part.annotation
        )
        yield from [node.returns] if node.returns else []
    if isinstance(node, ast.AnnAssign):
        yield node.annotation
    if isinstance(node, ast.ClassDef):
        yield from node.decorator_list
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
        yield node


_Place = tuple[int, int]


def _begin(node: ast.expr) -> _Place:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> _Place:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _changes(node: ast.expr) -> Iterator[tuple[_Place, _Place, str, str]]:
    """Yield where to look for a text, the text, and its replacement."""
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and node.value
    ):
        for factor in (0.5, 2):
            value = node.value * factor
            new = int(value) if isinstance(node.value, int) and value == int(value) else value
            yield _begin(node), _end(node), ast.unparse(node), repr(new)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        sign = _COMPARISONS[type(node.ops[0])]
        yield _end(node.left), _begin(node.comparators[0]), sign, _FLIPPED[sign]
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        sign, other = _SIGNS[type(node.op)]
        yield _end(node.left), _begin(node.right), sign, other
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _begin(node), _begin(node.operand), "not ", ""
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and not isinstance(node.operand, ast.Constant)
    ):
        yield _begin(node), _begin(node.operand), "-", ""


def sample(count: int, seed: int) -> list[CodeMutant]:
    """Return `count` random mutants: a kind of change first, then one of its mutants, so that
    numbers do not dominate.
    """
    rng, kinds = random.Random(seed), dict[str, list[CodeMutant]]()
    for mutant in mutants():
        is_number = mutant.old[0].isdigit()
        kinds.setdefault(
            "number"
            if is_number
            else "condition"
            if mutant.new == "True"
            else "sign"
            if mutant.old in "+-*/"
            else "logic",
            [],
        ).append(mutant)
    chosen: dict[CodeMutant, None] = {}
    while len(chosen) < count:
        chosen[rng.choice(kinds[rng.choice(sorted(kinds))])] = None
    return list(chosen)


def measure(seed: int | None = None, *, count: int = MUTANTS, workers: int | None = None) -> Table:
    """Run the contract suite on random mutants, in an hour on two cores, and return the share that
    it detects.
    """
    seed = root_seed(seed)
    chosen = sample(count, seed)
    with tempfile.TemporaryDirectory() as name:
        copies: SimpleQueue[Path] = SimpleQueue()
        number = workers or os.cpu_count() or 1
        _install(Path(name, "0"))
        tests = _recorded(Path(name, "0"))
        for k in range(number):
            if k:
                shutil.copytree(Path(name, "0"), Path(name, str(k)), symlinks=True)
            copies.put(Path(name, str(k)))
        with ThreadPoolExecutor(number) as pool:
            detected = list(pool.map(_is_detected, repeat(copies), chosen, repeat(tests)))
    alive = [
        mutant
        for mutant, found in zip(chosen, detected, strict=True)
        if not found and not mutant.reason
    ]
    excused = [
        mutant
        for mutant, found in zip(chosen, detected, strict=True)
        if not found and mutant.reason
    ]
    rows = (
        Row(
            "mutants of the auditors that the contract suite detects",
            LEAST,
            sum(detected) / max(1, count - len(excused)),
            "share",
        ),
    )
    notes = (
        f"seed {seed}: {count} mutants, {sum(detected)} detected, {len(excused)} excused",
        *(mutant.describe() for mutant in alive),
    )
    return Table("mutation-code", rows, notes)


def _install(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(folder / "packages"),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    for part in ("tests/contract", "docs/examples", "docs/reference"):
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, folder / part, ignore=unwanted)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    (folder / "conftest.py").write_text(_RECORDER)


_RECORDER = '''
"""Record which functions of the package each test calls, and how long it takes."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parent / "packages" / "dpwitness")
TESTS = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    if "RECORD" not in os.environ:
        signal.alarm(120)  # ends the process
        yield
        signal.alarm(0)
        return
    called, start = set(), time.perf_counter()

    def profile(frame, event, argument):
        if event == "call":
            called.add(frame.f_code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    yield
    sys.setprofile(None)
    threading.setprofile(None)
    functions = sorted(
        (code.co_filename[len(ROOT) + 1 :], code.co_firstlineno)
        for code in called
        if code.co_filename.startswith(ROOT)
    )
    TESTS[item.nodeid] = (time.perf_counter() - start, functions)


def pytest_sessionfinish(session):
    if "RECORD" in os.environ:
        Path(os.environ["RECORD"]).write_text(json.dumps(TESTS))
'''


@dataclass(frozen=True, slots=True)
class _Test:
    name: str
    seconds: float
    functions: frozenset[tuple[str, int]]
    files: frozenset[str]


def _recorded(folder: Path) -> list[_Test]:
    """Run the whole suite without a mutant, and return its tests, the short ones first."""
    path = folder / "calls.json"
    _pytest(folder, ["tests/contract"], {"RECORD": str(path)}, check=True)
    content = json.loads(path.read_text(encoding="utf-8"))
    tests = [
        _Test(
            name,
            seconds,
            frozenset((file, line) for file, line in called),
            frozenset(file for file, _ in called),
        )
        for name, (seconds, called) in content.items()
    ]
    return sorted(tests, key=lambda test: test.seconds)


def _pytest(
    folder: Path, tests: list[str], variables: dict[str, str], *, check: bool = False
) -> bool:
    """Return whether a test fails, or does not end in time."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "packages"),
        "OPENBLAS_NUM_THREADS": "1",
        **variables,
    }
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    ran = subprocess.run(command, check=False, env=environment, cwd=folder, capture_output=True)
    if check and ran.returncode:
        print(ran.stdout.decode(), file=sys.stderr)
        raise AssertionError("the contract suite fails without a mutant: see above")
    return ran.returncode != 0


def _tests_of(mutant: CodeMutant, tests: list[_Test]) -> list[_Test]:
    """Return the tests that call the function of a mutant. Calls that are compiled, made at import
    or in another process are not seen: their tests are those that use the file, or a file that
    imports it.
    """
    calling = [test for test in tests if (mutant.path, mutant.function) in test.functions]
    if calling:
        return calling
    files = {mutant.path} | _importers(mutant.path)
    return [test for test in tests if files & test.files]


@functools.cache
def _importers(path: str) -> set[str]:
    """Return the files of the auditors that import a file."""
    module = "dpwitness." + path.removesuffix(".py").replace("/", ".")
    return {
        str(file.relative_to(ROOT))
        for file in (ROOT / "auditors").rglob("*.py")
        if f"from {module} import" in file.read_text(encoding="utf-8")
    }


def _is_detected(copies: SimpleQueue[Path], mutant: CodeMutant, tests: list[_Test]) -> bool:
    chosen = _tests_of(mutant, tests)
    folder = copies.get()
    path = folder / "packages" / "dpwitness" / mutant.path
    original = path.read_text(encoding="utf-8")
    changed = original[: mutant.start] + mutant.new + original[mutant.end :]
    variables: dict[str, str] = {}
    if "jit" in original:  # compiled callers in other files hold a copy of a compiled function
        variables["NUMBA_CACHE_DIR"] = str(folder / f"compiled-{mutant.line}-{mutant.start}")
    try:
        path.write_text(changed, encoding="utf-8")
        found = bool(chosen) and _pytest(folder, [test.name for test in chosen], variables)
        word = "detected" if found else "alive   "
        line = f"{word} ({len(chosen)} tests) {mutant.describe()}"
        print(line, file=sys.stderr, flush=True)
        return found
    finally:
        path.write_text(original, encoding="utf-8")
        copies.put(folder)
        if variables:
            shutil.rmtree(variables["NUMBA_CACHE_DIR"], ignore_errors=True)
