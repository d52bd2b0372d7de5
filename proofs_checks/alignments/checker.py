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
from collections.abc import Iterator, Sequence
from typing import Any

from dpwitness.proofs_checks.alignments.expressions import Formulas, value
from dpwitness.proofs_checks.alignments.product import LOOP, Alignment, Coupling, State
from dpwitness.proofs_checks.alignments.program import BREAK, SIZE, Program, names_in

# ranges of the change q' - q
DIRECTIONS = {"all": ((-1, 1),), "one": ((-1, 1),), "monotone": ((0, 1), (-1, 0))}
SOLVER_MILLISECONDS = 10_000


class Obligations:
    """The obligations of one alignment, for one direction of the change.

    Parameters
    ----------
    program : Program
    direction : (int, int)
        Range of q' - q.
    alignment : Alignment
    """

    def __init__(self, program: Program, direction: tuple[int, int], alignment: Alignment) -> None:
        self.program, self.terms = program, Formulas()
        self._check_past(alignment)
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
        self.head = self._any_state(self.start.state)
        self.head_facts = [*self.given, *self.start.facts, self.head.proof["index"] >= 0]
        inside, self.step_facts = self._iteration(direction)
        self.next = coupling.step(LOOP, inside)
        self.next.state.proof["index"] = self.head.proof["index"] + 1
        self.end = coupling.step(2, State(self.head.left, self.head.right, {**self.head.proof}))

    def symbol(self, name: str, kind: str) -> Any:
        """Return an unknown of z3. All names but those of parameters have a dot or a space, so that
        no two unknowns coincide.
        """
        return self.terms.symbol(name, kind)

    def _check_past(self, alignment: Alignment) -> None:
        """Raise ValueError if a shift reads a variable that may be unassigned before its noise
        call, which the theorem excludes.
        """
        for _, noise in self.program.noises:
            base = alignment[noise.name].base if noise.name in alignment else None
            if base is not None and not names_in(base) <= noise.defined | {"abs"}:
                raise ValueError(f"the shift of {noise.name} reads later variables")

    def _any_state(self, start: State) -> State:
        """Return a state at the head of the loop, where unknowns replace all that the
        loop changes.
        """
        types = {**self.program.types, BREAK: "bool"}
        sides = [
            {
                **names,
                **{
                    name: self.symbol(f"{side}.{name}", types[name])
                    for name in self.program.carried
                },
            }
            for side, names in (("left", start.left), ("right", start.right))
        ]
        proof = {**start.proof, "index": self.symbol("proof.index", "int")}
        if self.program.neighbors == "one":
            proof["changed"] = self.symbol("proof.changed", "bool")
        proof |= {
            group.name: self.symbol(group.name, "real")
            for group in self.program.groups
            if group.segment == LOOP
        }
        return State(sides[0], sides[1], proof)

    def _iteration(self, direction: tuple[int, int]) -> tuple[State, list[Any]]:
        """Return the state in which an iteration starts, and the facts about its query."""
        left, right = self.symbol("left query", "real"), self.symbol("right query", "real")
        low, high = direction
        facts = [
            self.head.proof["index"] < self.public[SIZE],
            low <= right - left,
            right - left <= high,
        ]
        inside = State(dict(self.head.left), dict(self.head.right), dict(self.head.proof))
        if self.program.neighbors == "one":
            facts.append(
                self.terms.either(self.terms.negate(self.head.proof["changed"]), left == right)
            )
            inside.proof["changed"] = self.terms.either(self.head.proof["changed"], left != right)
        for side, query in ((inside.left, left), (inside.right, right)):
            side.update({self.program.query: query, self.program.index: self.head.proof["index"]})
        return inside, facts

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
        yield "the cost is within the budget", *self._cost(final)

    def _cost(self, facts: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return facts and goal of the cost, as polynomials: reciprocals of parameters are unknowns
        with their defining equation.
        """
        inverse = {name: self.symbol(f"1 / {name}", "real") for name in self.program.positive}
        defined = [inverse[name] * self.public[name] == 1 for name in inverse]
        total = self.terms.number(0.0)
        for group in self.program.groups:
            cost = self.terms.number(group.rate.coefficient) * self.end.state.proof[group.name]
            for name, power in group.rate.powers:
                for _ in range(abs(power)):
                    cost = cost * (self.public[name] if power > 0 else inverse[name])
            total = total + cost
        return [*facts, *defined, *(term > 0 for term in inverse.values())], [
            total <= value(self.program.budget, self.public, self.terms)
        ]


def solver_of(terms: Formulas, facts: Sequence[Any]) -> Any:
    """Return a z3 solver with facts, a time limit and a fixed seed."""
    solver = terms.z3.Solver()
    solver.set("timeout", SOLVER_MILLISECONDS)
    solver.set("random_seed", 1)
    solver.add(*facts)
    return solver


def failed_obligation(
    program: Program, direction: tuple[int, int], alignment: Alignment, invariants: Sequence[str]
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
