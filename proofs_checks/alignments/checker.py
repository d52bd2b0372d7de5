"""Checker of randomness alignments: proof obligations that z3 must prove unsatisfiable when
negated.

Theorem. Let M(D) be the output of a program on the answers D, whose length n is public. Suppose
that the obligations of `Obligations` hold for an alignment and invariants. Then P(M(D) in S) <=
exp(budget) P(M(D') in S) for all neighbors D, D' and every measurable S.

Proof. (1) Noise. Give every noise call of the text one random number per iteration, n iterations in
all, drawn in advance. The numbers are independent, with the law of the call, and a run reads each
number at most once, in a fixed order. Hence the output keeps its law, also if two runs read
different numbers. Let x be the vector of all numbers, and p its density.

(2) Augmented output. Let M* release, for every iteration (and before and after the loop), which
    `append` statements ran and with which
values, and the returned values. M is a function of M*, so that the claim for M* suffices. Let s(D,
x) be the discrete part of M*: the appends that ran in each iteration, and the first returned
variable with type int ("output"). It has countably many values.

(3) Alignment. Fix D, D' and s, and let A_s = {x : s(D, x) = s}. Define f_s(x) = y by y_k = x_k +
    h_k, where the shift h_k is a function
of D, D', s and x_1, ..., x_(k-1) only: `Shift` reads the variables of both runs before call k
(those of the run on D' are functions of y_1, ..., y_(k-1)), the appends of the iteration, and
"output". h_k is 0 unless both runs make call k, which earlier numbers decide. Hence f_s is
injective with a triangular Jacobian of unit diagonal: f_s preserves volume.

(4) Obligations. By induction over the iterations with the invariants, every x in A_s satisfies:
    M*(D', f_s(x)) = M*(D, x); h_k >= 0 for
exponential noise, so that y_k is in the support; and the sum of |h_k| / scale_k is at most the
budget. For Laplace and exponential densities this sum bounds log p(x) - log p(f_s(x)).

(5) Sum. Let B_s = A_s and {x : M*(D, x) in S}. By (3) and (4), P(M*(D) in S), the sum over s of the
    integrals of p over B_s, is at
most exp(budget) times the sum over s of the integrals of p over f_s(B_s). By (4), f_s(B_s) is a
subset of {y : M*(D', y) in S, s(D', y) = s}. These sets are disjoint for different s, so that the
last sum is at most P(M*(D') in S). The obligations quantify over all D, D' of the relation in both
orders, all n, and all parameters that the promise allows.  QED

The method is that of LightDP (Zhang and Kifer 2017) and CheckDP (Wang et al. 2020). In place of
shadow executions, shifts may depend on the output, as in the coupling proofs of Albarghouthi and
Hsu (2018).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpwitness.proofs_checks.alignments.program import (
    BREAK,
    SIZE,
    Append,
    Assign,
    Branch,
    Break,
    Formulas,
    LoopProgram,
    NoiseCall,
    Statement,
    names_in,
    value,
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class RunSegment:
    """One segment of both runs: the next state, facts about the drawn noise, and the conditions
    that the alignment must satisfy.
    """

    state: State
    facts: list[Any] = field(default_factory=list)
    required: list[Any] = field(default_factory=list)


Draw = Callable[[NoiseCall, dict[str, Any], Any], Any]
Emit = Callable[[Append, Any, Any], None]


def execute(
    block: tuple[Statement, ...],
    names: dict[str, Any],
    guard: Any,
    terms: Any,
    draw: Draw,
    emit: Emit,
) -> None:
    """Run statements in one of the two runs where `guard` holds; `names` is changed."""
    for statement in block:
        active = terms.both(guard, terms.negate(names[BREAK]))
        if terms.impossible(active):
            return
        match statement:
            case Assign(name, expression):
                new = value(expression, names, terms)
                names[name] = terms.choose(active, new, names[name]) if name in names else new
            case NoiseCall():
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
    program : LoopProgram
    alignment : Alignment
    terms : Numbers or Formulas
    fresh : callable
        Return the noise of the left run for a noise call.
    """

    def __init__(
        self,
        program: LoopProgram,
        alignment: Alignment,
        terms: Any,
        fresh: Callable[[NoiseCall], Any],
    ) -> None:
        self.program, self.alignment, self.terms, self.fresh = program, alignment, terms, fresh
        self.weights = {
            name: (group.name, weight)
            for group in program.groups
            for name, weight in group.weights.items()
        }

    def step(self, segment: int, state: State) -> RunSegment:
        """Run a segment (for the loop: one iteration) in both runs: the left run first, then the
        right run with the moved noise.

        A ``break`` ends all later iterations, and has no effect on the segment after the loop.
        """
        terms = self.terms
        # for each side, the guards and values of the appends that ran
        appended: tuple[dict[int, Any], dict[int, Any]] = {}, {}
        calls: dict[str, tuple[dict[str, Any], Any, Any]] = {}
        found = RunSegment(State(dict(state.left), dict(state.right), dict(state.proof)))

        def draw_left(noise: NoiseCall, names: dict[str, Any], guard: Any) -> Any:
            drawn = self.fresh(noise)
            calls[noise.name] = names, guard, drawn
            if noise.law == "exponential":
                found.facts.append(drawn >= 0)
            return drawn

        def draw_right(noise: NoiseCall, names: dict[str, Any], guard: Any) -> Any:
            if noise.name not in calls:
                return self.fresh(noise)
            left, left_guard, drawn = calls[noise.name]
            move = self.alignment.get(noise.name, Shift())
            places: dict[int | None, Any] = {
                None: terms.number(True),
                0: state.proof["index"] == state.proof["output"],
                **{site: appended_there for site, (appended_there, _) in appended[0].items()},
            }
            condition = terms.both(left_guard, guard, places.get(move.when, terms.number(False)))
            distance = terms.number(float(move.constant))
            if move.base is not None:
                distance = distance + value(move.base, left, terms) - value(move.base, names, terms)
            shift = terms.choose(condition, distance, terms.number(0.0))
            if noise.law == "exponential":
                found.required.append(shift >= 0)
            group, weight = self.weights[noise.name]
            cost = weight * terms.choose(shift >= 0, shift, -shift)
            found.state.proof[group] = found.state.proof[group] + cost
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


# ranges of the change q' - q
DIRECTIONS = {"all": ((-1, 1),), "one": ((-1, 1),), "monotone": ((0, 1), (-1, 0))}


class Obligations:
    """The obligations of one alignment, for one direction of the change.

    The names of all unknowns but the parameters have a dot or a space, so that no two unknowns
    coincide.

    Parameters
    ----------
    program : LoopProgram
    direction : (int, int)
        Range of q' - q.
    alignment : Alignment

    Raises
    ------
    ValueError
        If a shift reads a variable that may be unassigned before its noise call, which the theorem
        excludes.
    """

    def __init__(
        self, program: LoopProgram, direction: tuple[int, int], alignment: Alignment
    ) -> None:
        self.program, self.terms = program, Formulas()
        self.symbol = self.terms.symbol
        for _, noise in program.noises:
            base = alignment[noise.name].base if noise.name in alignment else None
            if base is not None and not names_in(base) <= noise.defined:
                raise ValueError(f"the shift of {noise.name} reads later variables")
        self.public = {name: self.symbol(name, program.types[name]) for name in program.parameters}
        self.given = [value(program.where, self.public, self.terms), self.public[SIZE] >= 0]
        coupling = Coupling(
            program, alignment, self.terms, lambda noise: self.symbol(f"noise {noise.name}", "real")
        )
        names = {**self.public, BREAK: self.terms.number(False)}
        proof = {
            "index": self.terms.number(0),
            "output": self.symbol("proof.output", "int"),
            "changed": self.terms.number(False),
            **{group.name: self.terms.number(0.0) for group in program.groups},
        }
        self.start = coupling.step(0, State(names, dict(names), proof))
        self.start.state.proof["index"] = self.terms.number(0)
        # the head of the loop: unknowns replace all that the loop changes
        types = {**program.types, BREAK: "bool"}
        left, right = (
            names | {name: self.symbol(f"{side}.{name}", types[name]) for name in program.carried}
            for side, names in (("left", self.start.state.left), ("right", self.start.state.right))
        )
        proof = {**self.start.state.proof, "index": self.symbol("proof.index", "int")}
        if program.neighbors == "one":
            proof["changed"] = self.symbol("proof.changed", "bool")
        proof |= {
            group.name: self.symbol(group.name, "real")
            for group in program.groups
            if group.segment == LOOP
        }
        self.head = State(left, right, proof)
        self.head_facts = [*self.given, *self.start.facts, proof["index"] >= 0]
        # an iteration: the answers of the query on both sides
        first, second = self.symbol("left query", "real"), self.symbol("right query", "real")
        low, high = direction
        change = second - first
        self.step_facts = [proof["index"] < self.public[SIZE], low <= change, change <= high]
        inside = State(dict(left), dict(right), dict(proof))
        if program.neighbors == "one":
            unchanged = self.terms.negate(proof["changed"])
            self.step_facts.append(self.terms.either(unchanged, first == second))
            inside.proof["changed"] = self.terms.either(proof["changed"], first != second)
        for side, answer in ((inside.left, first), (inside.right, second)):
            side.update({program.query: answer, program.index: proof["index"]})
        self.next = coupling.step(LOOP, inside)
        self.next.state.proof["index"] = self.head.proof["index"] + 1
        self.end = coupling.step(2, State(self.head.left, self.head.right, {**self.head.proof}))

    def hold(self, invariants: Sequence[ast.expr], state: State) -> list[Any]:
        """Return the invariants in a state, as terms."""
        names = state.names()
        return [value(each, names, self.terms) for each in invariants]

    def all(self, invariants: Sequence[ast.expr]) -> Iterator[tuple[str, list[Any], list[Any]]]:
        """Yield each obligation: its name, facts, and goals, each of which must follow from the
        facts.
        """
        head = [*self.head_facts, *self.hold(invariants, self.head)]
        yield (
            "scales and divisors are positive",
            self.given,
            [self.public[name] > 0 for name in sorted(self.program.positive)],
        )
        yield "outputs before the loop agree", [*self.given, *self.start.facts], self.start.required
        if self.program.query:
            yield (
                "invariants hold before the loop",
                [*self.given, *self.start.facts],
                self.hold(invariants, self.start.state),
            )
            step = [*head, *self.step_facts, *self.next.facts]
            yield "outputs of an iteration agree", step, self.next.required
            yield (
                "invariants are kept by an iteration",
                step,
                self.hold(invariants, self.next.state),
            )
        end = self.end.state
        final = [*head, *self.end.facts, end.proof["index"] == self.public[SIZE]]
        if self.program.output:
            final.append(end.proof["output"] == end.left[self.program.output])
        returned = [
            value(item, end.left, self.terms) == value(item, end.right, self.terms)
            for item in self.program.returns
        ]
        yield "outputs after the loop agree", final, [*self.end.required, *returned]
        # the cost as a polynomial: reciprocals of parameters are unknowns with their equation
        inverse = {name: self.symbol(f"1 / {name}", "real") for name in self.program.positive}
        defined = [inverse[name] * self.public[name] == 1 for name in inverse]
        total = self.terms.number(0.0)
        for group in self.program.groups:
            cost = self.terms.number(group.rate.coefficient) * self.end.state.proof[group.name]
            for name, power in group.rate.powers:
                for _ in range(abs(power)):
                    cost = cost * (self.public[name] if power > 0 else inverse[name])
            total = total + cost
        yield (
            "the cost is within the budget",
            [*final, *defined, *(term > 0 for term in inverse.values())],
            [total <= value(self.program.budget, self.public, self.terms)],
        )


def solver_of(terms: Formulas, facts: Sequence[Any]) -> Any:
    """Return a z3 solver with facts, a time limit and a fixed seed."""
    solver = terms.z3.Solver()
    solver.set("timeout", 10_000)
    solver.set("random_seed", 1)
    solver.add(*facts)
    return solver


def failed_obligation(
    program: LoopProgram,
    direction: tuple[int, int],
    alignment: Alignment,
    invariants: Sequence[str],
) -> str:
    """Return the name of the first obligation that z3 does not prove; empty if the alignment is
    proved.

    Everything is built again from the program, the alignment and the texts of the invariants: no
    result of the search is used.
    """
    found = Obligations(program, direction, alignment)
    parsed = [ast.parse(text, mode="eval").body for text in invariants]
    for name, facts, goals in found.all(parsed):
        if goals:
            solver = solver_of(found.terms, facts)
            solver.add(found.terms.negate(found.terms.both(*goals)))
            if solver.check() != found.terms.z3.unsat:
                return name
    return ""
