"""Benchmark of the claims' checks: the share of mutants of the proofs that change a claim's
outcome.

`score.markdown` formats the result as a section of the page on trust.
"""

from __future__ import annotations

from dpwitness.benchmarks.mutation.score import LEAST, campaign, score
from dpwitness.benchmarks.table import Row, Table


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
        f"{count} {rule}" for rule, count in sorted(totals.excused.items())
    )
    return Table("mutation", rows, (counts, rules, *listed))
