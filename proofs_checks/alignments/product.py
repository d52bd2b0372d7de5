"""Two coupled runs of a program, on neighboring queries: the right run takes the noise of the left
run, moved by an alignment.

The same code runs on numbers and on terms of z3.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpwitness.proofs_checks.alignments.expressions import value
from dpwitness.proofs_checks.alignments.program import (
    BREAK,
    Append,
    Assign,
    Branch,
    Break,
    Noise,
    Program,
    Statement,
)


@dataclass(frozen=True, slots=True)
class Shift:
    """How far an alignment moves one noise call: by `constant`, plus the left value of `base` less
    its right value.

    `when` restricts the move to iterations that append at a place (its number), or to the iteration
    whose index is returned (0).
    """

    constant: int = 0
    base: ast.expr | None = None
    when: int | None = None

    def __str__(self) -> str:
        text = "" if self.base is None else ast.unparse(self.base)
        moved = [str(self.constant)] if self.constant or self.base is None else []
        moved += [f"({text} on D) - ({text} on D')"] if text else []
        place = {None: "", 0: " in the iteration that is returned"}.get(
            self.when, f" where the run appends at place {self.when}"
        )
        return f"{' + '.join(moved)}{place}"


LOOP = 1  # number of the loop's segment
Alignment = Mapping[str, Shift]  # by noise call; a call without an entry does not move


@dataclass
class State:
    """Variables of both runs, and those of the proof: ``index``, ``output``, ``changed`` and the
    costs.
    """

    left: dict[str, Any]
    right: dict[str, Any]
    proof: dict[str, Any]

    def names(self) -> dict[str, Any]:
        """Return all names as invariants write them; a public parameter has its own name."""
        sides = {
            f"{side}.{name}": v
            for side, names in (("left", self.left), ("right", self.right))
            for name, v in names.items()
        }
        return {**self.left, **sides, **self.proof}


@dataclass
class Outcome:
    """One segment of both runs: the next state, facts about the drawn noise, and the conditions
    that the alignment must satisfy.
    """

    state: State
    facts: list[Any] = field(default_factory=list)
    required: list[Any] = field(default_factory=list)


Draw = Callable[[Noise, dict[str, Any], Any], Any]
Emit = Callable[[Append, Any, Any], None]


def execute(
    block: tuple[Statement, ...],
    names: dict[str, Any],
    guard: Any,
    terms: Any,
    draw: Draw,
    emit: Emit,
) -> None:
    """Run statements on one side where `guard` holds; `names` is changed."""
    for statement in block:
        active = terms.both(guard, terms.negate(names[BREAK]))
        if terms.impossible(active):
            return
        match statement:
            case Assign(name, expression):
                new = value(expression, names, terms)
                names[name] = terms.choose(active, new, names[name]) if name in names else new
            case Noise():
                names[statement.name] = draw(statement, dict(names), active)
            case Append():
                emit(statement, active, value(statement.value, names, terms))
            case Branch(test, then, other):
                holds = value(test, names, terms)
                execute(then, names, terms.both(active, holds), terms, draw, emit)
                execute(other, names, terms.both(active, terms.negate(holds)), terms, draw, emit)
            case Break():
                names[BREAK] = terms.choose(active, terms.number(True), names[BREAK])


class Coupling:
    """The coupled runs of a program under an alignment.

    Parameters
    ----------
    program : Program
    alignment : Alignment
    terms : Numbers or Formulas
    fresh : callable
        Return the noise of the left run for a noise call.
    """

    def __init__(
        self, program: Program, alignment: Alignment, terms: Any, fresh: Callable[[Noise], Any]
    ) -> None:
        self.program, self.alignment, self.terms, self.fresh = program, alignment, terms, fresh
        self.weights = {
            name: (group.name, weight)
            for group in program.groups
            for name, weight in group.weights.items()
        }

    def step(self, segment: int, state: State) -> Outcome:
        """Run a segment (for the loop: one iteration) on both sides: left first, then right with
        the moved noise.

        A ``break`` ends all later iterations, and has no effect on the segment after the loop.
        """
        terms = self.terms
        # for each side, the guards and values of the appends that ran
        appended: tuple[dict[int, Any], dict[int, Any]] = {}, {}
        calls: dict[str, tuple[dict[str, Any], Any, Any]] = {}
        found = Outcome(State(dict(state.left), dict(state.right), dict(state.proof)))

        def draw_left(noise: Noise, names: dict[str, Any], guard: Any) -> Any:
            drawn = self.fresh(noise)
            calls[noise.name] = names, guard, drawn
            if noise.law == "exponential":
                found.facts.append(drawn >= 0)
            return drawn

        def draw_right(noise: Noise, names: dict[str, Any], guard: Any) -> Any:
            if noise.name not in calls:
                return self.fresh(noise)
            left, left_guard, drawn = calls[noise.name]
            moves = [left_guard, guard, *self._selected(noise, state, appended[0])]
            shift = terms.choose(
                terms.both(*moves), self._shift(noise, left, names), terms.number(0.0)
            )
            if noise.law == "exponential":
                found.required.append(shift >= 0)
            group, weight = self.weights[noise.name]
            found.state.proof[group] = found.state.proof[group] + weight * terms.choose(
                shift >= 0, shift, -shift
            )
            return drawn + shift

        def emit_to(side: int) -> Emit:
            return lambda append, guard, each: appended[side].update({append.site: (guard, each)})

        for side, names, draw in (
            (0, found.state.left, draw_left),
            (1, found.state.right, draw_right),
        ):
            if segment != LOOP:
                names[BREAK] = terms.number(False)
            execute(
                self.program.segments[segment],
                names,
                terms.number(True),
                terms,
                draw,
                emit_to(side),
            )
        for site in sorted({*appended[0], *appended[1]}):
            (left_guard, left), (right_guard, right) = (
                side.get(site, (terms.number(False), None)) for side in appended
            )
            found.required.append(left_guard == right_guard)
            if left is not None and right is not None:
                found.required.append(
                    terms.either(terms.negate(terms.both(left_guard, right_guard)), left == right)
                )
        return found

    def _shift(self, noise: Noise, left: Mapping[str, Any], right: Mapping[str, Any]) -> Any:
        shift = self.alignment.get(noise.name, Shift())
        moved = self.terms.number(float(shift.constant))
        if shift.base is not None:
            moved = (
                moved + value(shift.base, left, self.terms) - value(shift.base, right, self.terms)
            )
        return moved

    def _selected(
        self, noise: Noise, state: State, appended: Mapping[int, tuple[Any, Any]]
    ) -> list[Any]:
        when = self.alignment.get(noise.name, Shift()).when
        if when is None:
            return []
        if when == 0:
            return [state.proof["index"] == state.proof["output"]]
        return [appended[when][0] if when in appended else self.terms.number(False)]
