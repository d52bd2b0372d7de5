"""Suite of third-party libraries: a case for each row of the table of known results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.density.limit import limit_of_law
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.traces.trace import trace
from dpwitness.auditors.witnesses.verdicts import strict
from dpwitness.benchmarks.installation import command_of, pinned_environments
from dpwitness.benchmarks.libraries.rows import ROWS, Row
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import Truth
from dpwitness.core.values.atomic_files import write_json
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import dataset
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.reports.wording import slugs
from dpwitness.suites import Case

# budget of a trace, and of the audit that confirms its findings
_PAIRS, _TRIALS, _CONFIDENCE = 8, 40_000, 0.999


@dataclass(frozen=True, slots=True)
class TargetCase(Case):
    """Case of a row of the table; its target is started only when the case runs."""

    row: Row | None = None

    def where(self) -> tuple[Pair, ...]:
        """Return the first pairs of the declared domain."""
        assert self.row is not None
        return tuple(pairs_for(self.mechanism.domain)[: self.row.pairs])

    def missing(self) -> str:
        """Return the command that installs the environment, or "" if it is installed."""
        assert self.row is not None
        found = pinned_environments()[self.row.environment]
        return "" if found.interpreter.exists() else f"dpwitness targets setup {found.name}"

    def details(self, result: AuditResult) -> Json:
        """Return the additional JSON fields of the published page."""
        row, about = self.row, self.mechanism.describe()
        assert row is not None
        known = {
            key: about.get(key)
            for key in ("library", "version", "python", "numpy", "seeded", "doc", "cause")
        }
        known["doc"], known["cause"] = (
            known["doc"] or f"{about['library']} as a program.",
            known["cause"] or row.cause,
        )
        more = {
            "key": row.key,
            "environment": row.environment,
            "target": row.target,
            "truth": row.truth,
            "bits_safe": row.bits,
        }
        cost = {
            "cpu_seconds": round(self.mechanism.cpu_seconds, 1),
            "limit": self._detection_limit(result),
        }
        return {"third_party": strict(known | more | cost | {"gray_box": gray_box(row)})}

    def _detection_limit(self, result: AuditResult) -> float | None:
        """Return the highest bound that any event could certify on the audited pair with the same
        number of runs.
        """
        assert self.row is not None
        if self.row.law is None or result.pair is None or not result.claim.bounds_epsilon:
            return None
        exact = self.row.law(result.pair)
        return (
            None
            if exact is None
            else limit_of_law(exact, result.claim, result.trials, 1 - result.confidence)
        )


def target_of(row: Row) -> Target:
    """Return the target of a row: the adapter's function in its environment's interpreter, or a
    program.
    """
    found = pinned_environments()[row.environment]
    if found.programs:
        return Target(command=command_of(found, row.adapter, row.target))
    return Target(row.adapter, row.target, python=row.environment)


def gray_box(row: Row) -> Json | None:
    """Trace a row in a few runs.

    Return the findings, whether an audit on the same pair confirms them, and the cost; None for
    programs.
    """
    target = target_of(row)
    domain = target.domain
    assert domain is not None
    if target.command:  # the noise of a program cannot be recorded
        return None
    try:
        found = trace(
            target,
            pairs_for(domain)[: min(row.pairs, _PAIRS)],
            trials=min(row.trials, _TRIALS),
            confidence=_CONFIDENCE,
        )
    finally:
        target.close()
    return {
        "verdict": found.verdict.value,
        "findings": [{"kind": f.kind, "told": f.message, "where": f.where} for f in found.findings],
        "notes": list(found.notes),
        "runs": found.runs,
        "cpu_seconds": round(found.cpu_seconds, 3),
        "loss": found.loss,
        "pair": found.pair.why if found.pair is not None else "",
        "certified": found.parameter_lower,
        "audit_runs": found.audit.trials if found.audit is not None else 0,
    }


def cases() -> Iterator[TargetCase]:
    """Yield the cases of all rows, those with a key first."""
    for row in sorted(
        ROWS, key=lambda row: (int(row.key[1:]) if row.key else 1000, ROWS.index(row))
    ):
        truth = None if row.truth is None else Truth(row.truth, row.source, row.bits)
        stop = "never" if row.law is not None else "gross"
        target = target_of(row)
        yield TargetCase(
            row.name,
            target,
            truth=truth,
            settled=row.settled,
            trials=row.trials,
            stop=stop,
            row=row,
        )


def write_rows(results: Sequence[Json], missing: Mapping[str, str], folder: Path) -> None:
    """Write ``third-party.json``, from which ``python -m dpwitness.benchmarks.pages third-party``
    makes the published page.
    """
    write_json(folder / "third-party.json", page_content(results, missing))


def page_content(results: Sequence[Json], missing: Mapping[str, str]) -> Json:
    """Return the content of the page as JSON: settings, a row for each result, and the environments
    that are not installed.
    """
    parts = slugs(str(result["name"]) for result in results)
    files = [
        f"witness-{part}.json" if result.get("witness") else None
        for result, part in zip(results, parts, strict=True)
    ]
    rows = list(map(_row_json, results, files))
    first = results[0] if results else {}
    settings = {key: first.get(key) for key in ("seed", "confidence", "environment")}
    return {"settings": settings, "rows": rows, "missing": dict(missing), "witnesses": ""}


def _row_json(result: Mapping[str, Any], witness: str | None) -> Json:
    level = result.get("bit_level") or {}
    copied_keys = (
        *("name", "claim", "relation", "verdict", "parameter", "parameter_lower"),
        *("epsilon_lower", "trials", "right", "description"),
    )
    pair = (
        result.get("pair")
        if result.get("verdict") == "VIOLATED"
        else level.get("pair") or result.get("pair")
    )
    return {
        **{key: result.get(key) for key in copied_keys},
        **result["third_party"],
        "bit_verdict": level.get("verdict"),
        "bit_epsilon_lower": level.get("epsilon_lower"),
        "bit_description": level.get("description"),
        "pair": {"why": pair["why"], "d0": dataset(pair["d0"]), "d1": dataset(pair["d1"])}
        if pair
        else None,
        "error": (result.get("notes") or [""])[0]
        if result.get("verdict") in ("ERROR", "INCONCLUSIVE")
        else "",
        "witness": witness,
    }
