"""Parallel run of a suite: each worker process audits one case at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from dataclasses import replace
from functools import cache
from typing import Any

from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.search.catalogue import audited_pairs
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.executors.pools import pool
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.reports.audit.document import result_json
from dpwitness.suites import suite_of
from dpwitness.suites.case import Case, Outcome, Suite, run_case


def run_cases_in_parallel(
    suite: Suite, cases: Sequence[Case], workers: int, **options: Any
) -> Iterator[Outcome]:
    """Audit cases in a pool of processes, expensive cases first, and yield each outcome when it is
    finished.

    Counts equal those of `run_case`, because they depend on the seed only; `options` are its
    keywords. Workers look the suite up by name. A case whose worker process dies gets the verdict
    ERROR.
    """
    with pool(workers) as executor:
        futures = {
            executor.submit(_run_in_worker, suite.name, case.name, options): case
            for case in sorted(cases, key=_cost, reverse=True)
        }
        for future in as_completed(futures):
            case = futures[future]
            try:
                yield replace(future.result(), case=case)
            except BrokenExecutor as error:
                result = AuditResult(
                    name=case.name,
                    claim=case.claim or case.mechanism.claim,
                    verdict=Verdict.ERROR,
                    confidence=suite.confidence,
                    seed=suite.seed,
                    notes=(str(error),),
                    trials=0,
                    requested=case.trials or suite.trials,
                )
                yield Outcome(case, result, result_json(result), None)


def _cost(case: Case) -> int:
    """Return the relative cost of a case: its number of pairs; targets in other interpreters count
    as the most expensive.
    """
    return (
        10**6
        if isinstance(case.mechanism, Target)
        else len(audited_pairs(case.mechanism, case.where(), None))
    )


@cache
def _cases_by_name(name: str) -> dict[str, Case]:
    return {case.name: case for case in suite_of(name).cases()}


def _run_in_worker(suite: str, name: str, options: dict[str, Any]) -> Outcome:
    """Run one case in a worker. Fields that cannot be pickled, or that the caller has already, are
    dropped from the outcome.
    """
    outcome = run_case(_cases_by_name(suite)[name], defaults=suite_of(suite), **options)
    if isinstance(outcome.case.mechanism, Target):
        outcome.case.mechanism.close()
    return replace(outcome, case=Case(name, None), result=replace(outcome.result, subject=None))
