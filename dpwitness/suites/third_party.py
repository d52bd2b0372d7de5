"""The suite of third-party libraries: a case for each row of what is known of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpwitness.auditors.gray_box.trace import trace
from dpwitness.auditors.loss.limit import limit_of_law
from dpwitness.auditors.pairs.catalogue import pairs_for
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.verdicts import strict
from dpwitness.mechanisms.foreign.environments import environments
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import Truth
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.third_party.rows import ROWS, Row
from dpwitness.suites.case import Case

_PAIRS, _TRIALS, _CONFIDENCE = 8, 40_000, 0.999  # of a trace, and of the audit that tries to confirm it


@dataclass(frozen=True, slots=True)
class TargetCase(Case):
    """A row as a case of the suite. Nothing is started before it is run."""

    row: Row | None = None

    def where(self) -> tuple[Pair, ...]:
        """The first pairs of the declared domain."""
        assert self.row is not None
        return tuple(pairs_for(self.mechanism.domain)[: self.row.pairs])

    def missing(self) -> str:
        """The command that makes the environment, if it has not been made."""
        assert self.row is not None
        found = environments()[self.row.environment]
        return "" if found.interpreter.exists() else f"dpwitness targets setup {found.name}"

    def details(self, result: AuditResult) -> Json:
        """What the published page says beside the verdict."""
        row, about = self.row, self.mechanism.describe()
        assert row is not None
        known = {key: about.get(key) for key in ("library", "version", "python", "numpy", "seeded", "doc", "cause")}
        known["doc"], known["cause"] = known["doc"] or f"{about['library']} as a program.", known["cause"] or row.cause
        more = {"key": row.key, "environment": row.environment, "target": row.target, "truth": row.truth, "bits_safe": row.bits}
        cost = {"cpu_seconds": round(self.mechanism.cpu_seconds, 1), "limit": self._limit(result)}
        return {"third_party": strict(known | more | cost | {"gray_box": gray_box(row)})}

    def _limit(self, result: AuditResult) -> float | None:
        """The best that any event could certify on the pair that was found, with as many runs."""
        assert self.row is not None
        if self.row.law is None or result.pair is None or not result.claim.bounds_epsilon:
            return None
        exact = self.row.law(result.pair)
        return None if exact is None else limit_of_law(exact, result.claim, result.trials, 1 - result.confidence)


def target_of(row: Row) -> Target:
    """Its adapter's function in the environment's interpreter, or its program."""
    found = environments()[row.environment]
    if found.programs:
        return Target(command=found.command(row.adapter, row.target))
    return Target(row.adapter, row.target, python=row.environment)


def gray_box(row: Row) -> Json | None:
    """The trace of a row, in a few runs: what it finds, whether an audit on that pair confirms it, and what it costs."""
    target = target_of(row)
    domain = target.domain
    assert domain is not None
    if target.command:  # a program's noise is not seen from here
        return None
    try:
        found = trace(target, pairs_for(domain)[: min(row.pairs, _PAIRS)], trials=min(row.trials, _TRIALS), confidence=_CONFIDENCE)
    finally:
        target.close()
    return {
        "verdict": found.verdict.value,
        "findings": [{"kind": f.kind, "told": f.told, "where": f.where} for f in found.findings],
        "notes": list(found.notes),
        "runs": found.runs,
        "cpu_seconds": round(found.cpu_seconds, 3),
        "loss": found.loss,
        "pair": found.pair.why if found.pair is not None else "",
        "certified": found.parameter_lower,
        "audit_runs": found.audit.trials if found.audit is not None else 0,
    }


def cases() -> Iterator[TargetCase]:
    """All rows, those with a key first."""
    for row in sorted(ROWS, key=lambda row: (int(row.key[1:]) if row.key else 1000, ROWS.index(row))):
        truth = None if row.truth is None else Truth(row.truth, row.source, row.bits)
        stop = "never" if row.law is not None else "gross"
        target = target_of(row)
        yield TargetCase(row.name, target, truth=truth, settled=row.settled, trials=row.trials, stop=stop, row=row)
