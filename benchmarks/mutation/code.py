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
from itertools import accumulate, repeat
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import dpwitness
from dpwitness.benchmarks.code_changes import Rules, changes, multiples, not_run
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
    "return bracket(rejected, 0.0, float(x.mean()), _BISECTIONS)[0] if rejected(0.0) else 0.0: "
    "rejected(0.0) -> True": "the bracket ends at 0 where nothing is rejected",
    'losses["valid_0"]["binary_logloss"][booster.best_iteration - 1]: - -> +': (
        "a later round decides only where the trees are as good as none"
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
    "nearest, residual = math.inf if value > 0 else -math.inf, text_hash(str(hash(value))): "
    "- -> ": ("the digits of a huge integer, in columns of their own, have its sign too"),
    "np.asarray(before[0], dtype=float) + 0.5,: 0.5 -> 0.25": (
        "another prior of a bet: as valid, and within the tolerance of golden runs"
    ),
    '"tested": [test.to_json(place[id(test.pair)])] if test else [],: test -> True': (
        "an audit that ends has tested an event"
    ),
}
_PAIRS = (
    (ast.Lt, ast.GtE),
    (ast.Gt, ast.LtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.Is, ast.IsNot),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
)
RULES = Rules(
    constants=multiples,
    operators={one: (other,) for pair in _PAIRS for one, other in (pair, pair[::-1])},
    unary=(ast.Not, ast.USub),
    condition=lambda test: ast.Constant(True),
)


@dataclass(frozen=True, slots=True)
class CodeMutant:
    """Replacement of the characters from `start` to `end` of a file by `new`."""

    path: str  # relative to the repository
    line: int
    start: int
    end: int
    new: str
    change: str  # such as ``< -> >=``
    text: str  # of the line
    # first line of the function, with its decorators; 0 if it runs at import, or compiled
    function: int

    def describe(self) -> str:
        return f"{self.path}:{self.line}: {self.change} in {self.text[:100]}"

    @property
    def reason(self) -> str:
        return REASONS.get(f"{self.text}: {self.change}", "")

    @property
    def kind(self) -> str:
        """Kind of the change: a number, a condition that is always true, a sign, or logic."""
        old, _, new = self.change.partition(" -> ")
        kinds = {"number": old[0].isdigit(), "condition": new == "True", "sign": old in "+-*/"}
        return next((kind for kind, is_kind in kinds.items() if is_kind), "logic")


def mutants() -> list[CodeMutant]:
    """Return every mutant of the rooms, in the order of files and nodes."""
    paths = sorted(path for room in ROOMS for path in (ROOT / room).glob("*.py"))
    return [mutant for path in paths for mutant in _mutants_of(path)]


def _mutants_of(path: Path) -> Iterator[CodeMutant]:
    source = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(source), source.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    texts = [n for n in ast.walk(tree) if isinstance(n, ast.JoinedStr | ast.Raise | ast.Assert)]
    skipped = not_run(tree) | {child for text in texts for child in ast.walk(text)}
    functions = _functions(tree)
    for node in (node for node in ast.walk(tree) if node not in skipped):
        for change in changes(node, RULES):
            old: Any = change.node
            new = ast.unparse(change.new)
            line = getattr(old, "left", old).end_lineno if hasattr(old, "left") else old.lineno
            yield CodeMutant(
                str(path.relative_to(ROOT)),
                line,
                place(old.lineno, old.col_offset),
                place(old.end_lineno, old.end_col_offset),
                new if isinstance(old, ast.Constant) else f"({new})",
                change.text,
                lines[line - 1].strip(),
                functions.get(old, 0),
            )


def _functions(tree: ast.AST) -> dict[ast.AST, int]:
    """Return the first line of the function that has each node, as its code object states it. Nodes
    of compiled functions are left out: a call of these is not seen.
    """
    found: dict[ast.AST, int] = {}
    for node in ast.walk(tree):  # inner functions come after outer ones
        if isinstance(node, ast.FunctionDef):
            compiled = any("jit" in ast.unparse(each) for each in node.decorator_list)
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            parts = (child for each in node.body for child in ast.walk(each))
            found |= dict.fromkeys(parts, 0 if compiled else first)
    return found


def sample(count: int, seed: int) -> list[CodeMutant]:
    """Return `count` random mutants: a kind of change first, then one of its mutants, so that
    numbers do not dominate.
    """
    rng, kinds = random.Random(seed), dict[str, list[CodeMutant]]()
    for mutant in mutants():
        kinds.setdefault(mutant.kind, []).append(mutant)
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
    survivors = [mutant for mutant, found in zip(chosen, detected, strict=True) if not found]
    alive = [mutant for mutant in survivors if not mutant.reason]
    excused = len(survivors) - len(alive)
    share = sum(detected) / max(1, count - excused)
    row = Row("mutants of the auditors that the contract suite detects", LEAST, share, "share")
    notes = (
        f"seed {seed}: {count} mutants, {sum(detected)} detected, {excused} excused",
        *(mutant.describe() for mutant in alive),
    )
    return Table("mutation-code", (row,), notes)


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
