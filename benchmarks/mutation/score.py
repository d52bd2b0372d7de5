"""Benchmark of the claims' checks: the share of mutants of the proofs that change a claim's
outcome, and the reasons for mutants that change nothing.

A mutant is detected if it changes the claim's verdict, if the check gives no verdict, or if it
changes the proved number that the page of claims prints and the tests compare. Each undetected
mutant needs a reason in `REASONS`; otherwise the campaign fails.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from dpwitness.benchmarks.mutation.mutants import EXCUSES, Mutant, Outcome, run
from dpwitness.benchmarks.table import Row, Table
from dpwitness.proofs_checks.engine.finding import Declaration
from dpwitness.proofs_checks.engine.ledger import declarations

LEAST = 0.95  # share of the mutants without an excuse that must be detected

REASONS: tuple[tuple[str, str, str, str], ...] = (
    # (function or constant, substring of the line, substring of the change, reason)
    (
        "logistic_claims.objective_excess",
        "if surplus >= 0",
        "",
        "both branches are one number; the first cuts its ball at zero",
    ),
    (
        "logistic_claims.corrected_budget_excess",
        "remaining = ",
        "",
        "stated slack: each branch holds beyond the border between them",
    ),
    (
        "interactive_claims.renyi_bound",
        "if not y < 1",
        "",
        "a guard: beyond it nothing is proved, and y stays below 1/2 here",
    ),
    (
        "interactive_claims.renyi_bound",
        "(1 - y)",
        "",
        "stated slack of the bound: y is small where it decides",
    ),
    (
        "glm_claims.wide_excess",
        "t * t >= 3",
        "3 -> 1.5",
        "a guard: t^2 is above 3 on the whole domain",
    ),
    (
        "alignment_claims.call_obligation",
        "z3.Abs(q - q_neighbour) <= 1",
        "",
        "a call flips or no call flips, however little the answers change",
    ),
    (
        "alignment_claims.call_obligation",
        "",
        "",
        "any flipped call refutes the claim; which call does not matter",
    ),
    (
        "alignment_claims.winner_obligations",
        "rival != 0",
        "",
        "the winner is not its own rival: it wins either way",
    ),
    (
        "alignment_claims.threshold_obligations",
        "first = ",
        "",
        "the threshold moves by 1 or not at all: only equality occurs",
    ),
    (
        "alignment_claims.threshold_obligations",
        "above >= 1",
        "",
        "the number of calls above cancels; the condition only excludes 0",
    ),
    (
        "alignment_claims.threshold_obligations",
        "calls + 1",
        "",
        "stated slack: k calls may be bounded by the price of more",
    ),
    (
        "alignment_claims.threshold_obligations",
        "bounded = ",
        "",
        "a sign that the other constraints imply",
    ),
    (
        "interactive_claims.each_round_is_private",
        "",
        "",
        "the alignment preserves every comparison, in both directions",
    ),
    (
        "interactive_claims.updates_are_few",
        "sigma > 0",
        "",
        "signs cancel: sigma and R enter by their squares",
    ),
    (
        "interactive_claims.answers_are_accurate",
        "sigma > 0",
        "",
        "a sign that the other constraints imply",
    ),
    ("ridge_claims.printed_averaging_loses_one_step", "b > 0", "", "B enters by its square"),
    (
        "ridge_claims.excess_risk_is_a_square",
        "t * t / 2",
        "2 -> 4",
        "stated slack: a smaller variance leaves no mean either",
    ),
    (
        "glm_claims.utility_ridge_is_enough_for_privacy",
        "n <= 1",
        "",
        "the least n is far above 1 at this point",
    ),
    ("simplex_claims.algorithm_draws", "drawn < 1", "", "m is .17 at this point, far below 1"),
    (
        "prediction_claims.the_minimiser_moves_little",
        "best = ",
        "",
        "each of the three cases attains the bound: one of them is enough",
    ),
    (
        "simplex_claims.steady_regret",
        "",
        "",
        "the second term vanishes at these costs; the first is the regret",
    ),
    (
        "logistic_objective_claims.experiments_keep_their_promise",
        "Enclosure(-1.0, -1.0)",
        "",
        "where a maximum starts",
    ),
    (
        "logistic_objective_claims.experiments_keep_their_promise",
        "truth = ",
        "",
        "the supremum is the same in every dimension above one",
    ),
    (
        "prediction_claims.draw_obligations",
        "If(value >= 0",
        "",
        "both sizes change their sign, which exchanges the datasets",
    ),
    (
        "prediction_claims.the_substitution_is_right",
        "norm = ",
        "",
        "a factor cancels: only what the ratio depends on is claimed",
    ),
    (
        "simplex_claims.regret_of_the_leader",
        "Box(v=",
        "",
        "probabilities: the largest variance lies in the middle, and wider ranges add none",
    ),
    (
        "ridge_claims.inside_theta_it_survives_opposed_records",
        "PrivateRidge(",
        "",
        "a setting of the mechanism that the pair does not use",
    ),
    (
        "ridge_claims.inside_theta_it_survives_opposed_records",
        '"output": ',
        "",
        "the output in the text of the evidence; the check computes with another variable",
    ),
    (
        "transfer_claims.responses",
        "LossLaw(",
        "",
        "one of the two laws, which the mean does not need",
    ),
)


def proofs() -> list[Declaration]:
    """Return the claims whose verdict is a proof. Audits and experiments are excluded: their
    results depend on seeds.
    """
    return [
        it for it in declarations().values() if it.kind == "certificate" or it.reach is not None
    ]


def reason(mutant: Mutant) -> str:
    """Return the reason in `REASONS` why a mutant may stay undetected; an empty text if there is
    none.
    """
    for where, text, change, why in REASONS:
        if mutant.where == where and text in mutant.text and change in mutant.change:
            return why
    return ""


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of a mutation campaign."""

    verdict: int  # mutants that changed the verdict, or gave none
    number: int  # mutants that changed only the proved number
    listed: tuple[Outcome, ...]  # undetected mutants with a reason in `REASONS`
    unexplained: tuple[Outcome, ...]  # undetected mutants without a reason
    excused: dict[str, int]  # number of mutants that each rule of `EXCUSES` leaves out

    @property
    def counted(self) -> int:
        return self.verdict + self.number + len(self.listed) + len(self.unexplained)

    @property
    def turned(self) -> float:
        """Return the share of detected mutants, among those that no rule excludes."""
        return (self.verdict + self.number) / max(1, self.counted)


def campaign() -> list[Outcome]:
    """Run every mutant of the proofs and return the outcomes."""
    return [outcome for declared in proofs() for outcome in run(declared)]


def sample(claims: Sequence[str], share: float, seed: int) -> list[Outcome]:
    """Run a random share of the mutants of the given claims and return the outcomes; the mutants
    that run depend on `seed`.
    """
    found = list[Outcome]()
    for id in claims:
        draws = random.Random(f"{seed} {id}").random
        found += run(declarations()[id], only=partial(_is_drawn, draws, share))
    return found


def _is_drawn(draw: Callable[[], float], share: float, _: Mutant) -> bool:
    return draw() < share


def score(outcomes: Sequence[Outcome]) -> Score:
    """Return the counts of a campaign from its outcomes."""
    kinds = Counter(o.kind for o in outcomes)
    unchanged = [o for o in outcomes if o.kind == "same"]
    return Score(
        kinds["verdict"] + kinds["error"],
        kinds["number"],
        tuple(o for o in unchanged if reason(o.mutant)),
        tuple(o for o in unchanged if not reason(o.mutant)),
        dict(Counter(o.mutant.excuse for o in outcomes if o.kind == "excused")),
    )


def measure() -> Table:
    """Mutate all proofs, in about ten minutes on one core, and return the scores."""
    outcomes = campaign()
    totals = score(outcomes)
    rows = (
        Row("mutants of the proofs that change their claim", LEAST, totals.turned, "share"),
        Row(
            "mutants that change nothing, without a reason",
            0,
            float(len(totals.unexplained)),
            "mutants",
            at_most=True,
        ),
    )
    listed = tuple(
        f"{o.mutant.claim} {o.mutant.where}:{o.mutant.line} {o.mutant.change}"
        for o in totals.unexplained[:40]
    )
    counts = (
        f"{totals.counted} mutants: {totals.verdict} verdict, {totals.number} number, "
        f"{len(totals.listed)} listed with a reason"
    )
    rules = "left out by rule: " + ", ".join(
        f"{count} ({EXCUSES[rule]})" for rule, count in sorted(totals.excused.items())
    )
    unchanged = tuple(
        {
            "claim": o.mutant.claim,
            "in": o.mutant.text[:90],
            "change": o.mutant.change,
            "reason": reason(o.mutant),
        }
        for o in (*totals.unexplained, *totals.listed)
    )
    return Table("mutation", rows, (counts, rules, *listed), unchanged)
