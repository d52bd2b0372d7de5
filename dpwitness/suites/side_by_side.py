"""Cases of a suite in worker processes: each worker audits one case at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from dataclasses import replace
from functools import cache
from typing import Any

from dpwitness.auditors.black_box.audit import pairs_of
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.executors.pools import pool
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.reports.audit.document import result_json
from dpwitness.suites.case import Case, Outcome, Suite, run_case


def run_side_by_side(suite: Suite, cases: Sequence[Case], workers: int, **options: Any) -> Iterator[Outcome]:
    """Audit cases in a pool of processes, costly ones first, and yield each outcome as it ends.

    Counts are those of `run_case`, for they depend on the seed alone. A case whose worker process dies ends in ERROR.

    Parameters
    ----------
    suite : Suite
        One of `SUITES`, by whose name the workers find the cases.
    cases : sequence of Case
    workers : int
    **options
        Of `run_case`.
    """
    with pool(workers) as executor:
        futures = {executor.submit(_run, suite.name, case.name, options): case for case in sorted(cases, key=_cost, reverse=True)}
        for future in as_completed(futures):
            case = futures[future]
            try:
                yield replace(future.result(), case=case)
            except BrokenExecutor as error:
                yield _failed(case, suite, str(error))


def _cost(case: Case) -> int:
    """Number of pairs, which decides what a case costs; targets in other interpreters first."""
    return 10**6 if isinstance(case.mechanism, Target) else len(pairs_of(case.mechanism, case.where(), None))


@cache
def _cases(name: str) -> dict[str, Case]:
    from dpwitness.suites import suite_of

    return {case.name: case for case in suite_of(name).cases()}


def _run(suite: str, name: str, options: dict[str, Any]) -> Outcome:
    """In a worker. What cannot be sent, or is known to the caller, is left out."""
    from dpwitness.suites import suite_of

    outcome = run_case(_cases(suite)[name], defaults=suite_of(suite), **options)
    if isinstance(outcome.case.mechanism, Target):
        outcome.case.mechanism.close()
    return replace(outcome, case=Case(name, None), result=replace(outcome.result, mechanism=None))


def _failed(case: Case, suite: Suite, why: str) -> Outcome:
    claim = case.claim or case.mechanism.claim
    trials = case.trials or suite.trials
    result = AuditResult(case.name, claim, Verdict.ERROR, suite.confidence, suite.seed, 0, trials, notes=(why,))
    return Outcome(case, result, result_json(result), None)
