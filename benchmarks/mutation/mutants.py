"""Mutation tests of the checks: a changed constant or inequality of a check must change its claim's
verdict or proved number.

A check is useful only if it can fail. Every numeric constant of a claim's check, and of the
functions and module constants that the check uses, is halved and doubled. Every inequality is
flipped, and min and max are exchanged. Each mutant is run. A mutant is detected (it *turns* the
claim) if the verdict changes, if the check gives no verdict, or if the proved number changes.

Constants that set the effort of a search, or its grid, are not part of a claim's content: the rules
in `EXCUSES` leave them out, and the campaign counts them.
"""

from __future__ import annotations

import ast
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from dpwitness.benchmarks.code_changes import Rules, changes, multiples, not_run
from dpwitness.benchmarks.proofs.review.reviewed_texts import Definition, is_claims_module, places
from dpwitness.proofs_checks.engine.finding import ClaimFinding, Declaration
from dpwitness.proofs_checks.engine.ledger import CELLS, settle

PACKAGE = "dpwitness.proofs_checks"
RULES = Rules(
    constants=lambda value: _multiples(value),
    operators={
        ast.Lt: (ast.Gt,),
        ast.Gt: (ast.Lt,),
        ast.LtE: (ast.GtE,),
        ast.GtE: (ast.LtE,),
        ast.Eq: (ast.NotEq,),
        ast.NotEq: (ast.Eq,),
    },
    names={"min": "max", "max": "min"},
)

SETTINGS = {
    "trials", "runs", "seed", "evaluations", "confidence", "cells", "relative", "seconds", "size", "name", "axis", "timeout",  # noqa: E501
}  # fmt: skip
# function -> excuse of what is in its arguments
CALLS = {
    **dict.fromkeys(("linspace", "geomspace", "arange", "range", "meshgrid"), "grid"),
    **dict.fromkeys(("repeat", "reshape", "zeros", "ones", "eye", "full"), "grid"),
    **{"workprec": "setting", "of": "setting", "free": "free", "case": "case"},
}
EXCUSES = {
    "setting": (
        "effort of a search: a number of runs, points or cells, a seed, a confidence, a time"
    ),
    "grid": "region of a search, or the shape of an array",
    "point": "the values at which a check is run, which its row names",
    "range": "the range of a parameter, which its row names",
    "index": "which entry of an array",
    "text": "a number in a sentence",
    "case": "a case at which a bound is attained, as the check requires in addition to the proof",
    "free": "a value that cancels, or a coordinate of a witness that may be arbitrarily large",
    "unused": "a branch that the check of this claim does not take",
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one node in a function or a module constant."""

    claim: str
    where: str  # changed function or constant, as ``module.name``
    line: int
    column: int
    change: str  # such as ``0.25 -> 0.5`` or ``<= -> >=``
    text: str  # of the line
    excuse: str = ""  # a key of `EXCUSES`


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of running a mutant.

    Kinds "verdict" (another verdict), "error" (no verdict) and "number" (another number) are
    detected. "same" is undetected, "excused" was not run.
    """

    mutant: Mutant
    kind: str
    found: str  # headline or error of the mutated check


# -- mutants
# --------------------------------------------------------------------------------------------------


def mutants(declared: Declaration) -> Iterator[tuple[Mutant, Definition, ast.AST]]:
    """Yield every mutant of a claim's check with the definition and its changed syntax tree."""
    for place in places(declared):
        lines = inspect.getsource(sys.modules[place.module]).splitlines()
        parents = {
            child: node for node in ast.walk(place.tree) for child in ast.iter_child_nodes(node)
        }
        skipped = not_run(place.tree)
        for node in ast.walk(place.tree):
            for change in changes(node, RULES) if node not in skipped else ():
                line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
                excuse, text = _excuse(node, parents, place), lines[line - 1].strip()
                yield (
                    Mutant(declared.id, place.where, line, column, change.text, text, excuse),
                    place,
                    change.applied(place.tree),
                )


def _multiples(value: Any) -> list[Any]:
    """Return a half and the double of a constant, also of a number in a text as in
    ``arb("0.526")``.
    """
    if not isinstance(value, str):
        return multiples(value)
    try:
        return list(map(str, multiples(float(value))))
    except ValueError:
        return []


def _excuse(node: ast.AST, parents: dict[ast.AST, ast.AST], place: Definition) -> str:
    if place.function is None and place.name in CONSTANTS:
        return CONSTANTS[place.name]
    if place.name in LOOKS:
        return "case"
    below = node
    while (above := parents.get(below)) is not None:
        if excuse := _excuse_inside(above, below, place):
            return excuse
        below = above
    return ""


def _excuse_inside(above: ast.AST, below: ast.AST, place: Definition) -> str:
    """Return why a node may stay as it is because of the node `above`, which has it in its part
    `below`.
    """
    match above:
        case ast.JoinedStr():
            return "text"
        case ast.Subscript() if below is above.slice:
            return "index"
        case ast.keyword(arg=str(name)) if name in SETTINGS:
            return "setting"
        case ast.arguments() if place.checked:
            return "point"
        case ast.Call() if below is not above.func:
            called = _called_name(above)
            known = CALLS.get(called, "")
            return "case" if called in CASES and _calls_attained(place) else known
    return ""


def _called_name(call: ast.Call) -> str:
    return (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )


def _calls_attained(place: Definition) -> bool:
    return any(
        isinstance(node, ast.Call) and _called_name(node) == "attained"
        for node in ast.walk(place.tree)
    )


CASES = {
    "audit_sensitivity",
    "LabelledBall",
    "KernelLearner",
    "TestDataDependentLearner",
    "GLMOutputPerturbation",
    "moved",
}
# functions that give, or search for, examples that attain a bound
LOOKS = {"corners", "both_ways", "noisy", "moved", "longest"}
CONSTANTS = {
    "PRECISION": "setting", "STEPS": "grid", "NEAR": "grid", "NEVER": "setting", "W3_OUTPUTS": "grid", "PLACES": (  # noqa: E501
        "grid"
    ),
}  # fmt: skip


# -- running them
# --------------------------------------------------------------------------------------------------


@contextmanager
def installed_mutant(place: Definition, changed: ast.AST) -> Iterator[None]:
    """Context manager that replaces a function or constant by its mutant in all modules that hold
    it, and restores the original.
    """
    if isinstance(changed, ast.FunctionDef):
        changed.decorator_list = []
    tree = ast.parse(ast.unparse(changed))
    namespace = vars(sys.modules[place.module])
    if place.function is None:
        scratch = dict(namespace)
        exec(compile(tree, "<mutant>", "exec"), scratch)
        before, after = namespace[place.name], scratch[place.name]
        holders = [
            vars(m)
            for name, m in sys.modules.items()
            if name.startswith(PACKAGE) and vars(m).get(place.name) is before
        ]
        for holder in holders:
            holder[place.name] = after
        try:
            yield
        finally:
            for holder in holders:
                holder[place.name] = before
        return
    function = place.function
    scratch = {}
    exec(compile(tree, function.__code__.co_filename, "exec"), {**namespace}, scratch)
    (new,) = scratch.values()
    original_code = function.__code__, function.__defaults__, function.__kwdefaults__
    function.__code__, function.__defaults__, function.__kwdefaults__ = (
        new.__code__,
        new.__defaults__,
        new.__kwdefaults__,
    )
    try:
        yield
    finally:
        function.__code__, function.__defaults__, function.__kwdefaults__ = original_code


def run(
    declared: Declaration,
    *,
    only: Callable[[Mutant], bool] = lambda mutant: True,
    seconds: float = 10.0,
) -> list[Outcome]:
    """Run the mutants of a claim's check and return their outcomes.

    Mutants with an excuse are not run and have the kind ``excused``. Mutants without an excuse are
    run if `only` accepts them.
    """
    reached: set[tuple[str, int]] = set()
    with _record_lines(reached):
        original = settle(declared, seconds=60.0, quick=True)
    cells, original = _fewest_cells(declared, original)
    found = []
    for mutant, place, changed_tree in mutants(declared):
        if (
            not mutant.excuse
            and place.function is not None
            and (place.module, mutant.line) not in reached
        ):
            found.append(Outcome(replace(mutant, excuse="unused"), "excused", ""))
        elif mutant.excuse:
            found.append(Outcome(mutant, "excused", ""))
        elif only(mutant):
            try:
                with installed_mutant(place, changed_tree):
                    changed = settle(declared, seconds=seconds, cells=cells, quick=True)
                found.append(Outcome(mutant, _compare(original, changed), changed.headline()[:160]))
            except Exception as error:
                found.append(Outcome(mutant, "error", f"{type(error).__name__}: {error}"[:160]))
    return found


def _fewest_cells(declared: Declaration, original: ClaimFinding) -> tuple[int, ClaimFinding]:
    """Return the smallest limit of cells, of five limits, at which the check keeps its verdict, and
    the finding with that limit.
    """
    for cells in (60, 200, 600, 2000, CELLS):
        if declared.boxed and original.evidence.signs is not None:
            found = settle(declared, seconds=60.0, quick=True, cells=cells)
            if found.claim_verdict is original.claim_verdict:
                return cells, found
    return CELLS, original


def _compare(original: ClaimFinding, changed: ClaimFinding) -> str:
    if changed.claim_verdict is not original.claim_verdict:
        return "verdict"
    if original.evidence.at.get("difference") != changed.evidence.at.get("difference"):
        return "number"  # the nonzero difference that computer algebra reports
    reported = not original.declaration.boxed and "z3" not in original.evidence.method
    if reported and original.grade == "proved" and original.evidence.text != changed.evidence.text:
        # the text of a proof at a point contains its numbers; z3's numbers are arbitrary solutions
        return "number"
    return "same" if _all_close(_numbers(original), _numbers(changed)) else "number"


def _numbers(found: ClaimFinding) -> list[float]:
    """Return the numbers that a finding proves or measures."""
    reached, signs, result = found.evidence.enclosure, found.evidence.signs, found.evidence.result
    reported = [found.evidence.numbers[name] for name in sorted(found.evidence.numbers)]
    ends = [] if reached is None else [1 + reached.lower, 1 + reached.upper]
    measured = [
        getattr(result, name, None)
        for name in ("estimate", "ratio_lower", "parameter_lower", "epsilon_lower")
    ]
    shares = [] if signs is None else [round(signs.positive, 2)]
    return [
        float(x) for x in _flatten([ends, shares, reported, measured]) if isinstance(x, int | float)
    ]


def _flatten(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flatten(item)
    else:
        yield value


def _all_close(first: list[float], second: list[float]) -> bool:
    return len(first) == len(second) and all(
        a == b
        or math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-12)
        or (math.isnan(a) and math.isnan(b))
        for a, b in zip(first, second, strict=True)
    )


@contextmanager
def _record_lines(reached: set[tuple[str, int]]) -> Iterator[None]:
    """Context manager that adds the lines of the claims' modules that run to `reached`, as (module,
    line).
    """
    files = {
        inspect.getsourcefile(m): name for name, m in sys.modules.items() if is_claims_module(name)
    }

    def enter(frame: types.FrameType, event: str, _: Any) -> Any:
        module = files.get(frame.f_code.co_filename)
        if module is None:
            return None
        reached.add((module, frame.f_lineno))

        def line(frame: types.FrameType, event: str, _: Any) -> Any:
            reached.add((module, frame.f_lineno))
            return line

        return line

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)
