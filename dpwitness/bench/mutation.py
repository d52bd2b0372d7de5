"""How many mutants of the claims' proofs turn their claim: the whole campaign. `mutation_score.markdown` makes a section of it."""

from __future__ import annotations

from dpwitness.bench.table import Row, Table
from dpwitness.proofs_checks.engine.mutation_score import LEAST, campaign, score


def measure() -> Table:
    """All proofs: about ten minutes on one core."""
    outcomes = campaign()
    found = score(outcomes)
    rows = (
        Row("mutants of the proofs that turn their claim", LEAST, found.turned, "share"),
        Row("mutants that turn nothing, without a reason", 0, float(len(found.unexplained)), "mutants", at_most=True),
    )
    listed = tuple(f"{o.mutant.claim} {o.mutant.where}:{o.mutant.line} {o.mutant.change}" for o in found.unexplained[:40])
    counts = f"{found.counted} mutants: {found.verdict} verdict, {found.number} number, {len(found.listed)} listed with a reason"
    rules = "left out by rule: " + ", ".join(f"{count} {rule}" for rule, count in sorted(found.excused.items()))
    return Table("mutation", rows, (counts, rules, *listed))
