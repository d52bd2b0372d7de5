"""Suites of audits whose verdicts are compared with the known truth about each mechanism. A new
suite is an entry of `SUITES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import dpwitness as dpw
from dpwitness import proofs_checks, reports
from dpwitness.auditors import AuditResult, CertifyResult, Verdict
from dpwitness.auditors.audit.audit import Progress, audit
from dpwitness.auditors.search.catalogue import audited_pairs
from dpwitness.auditors.witnesses.store import Store
from dpwitness.clone import from_clone, is_clone
from dpwitness.core import Claim, InvalidArgument, Pair
from dpwitness.core.protocols import Truth
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import did_you_mean
from dpwitness.core.values.wording import figure, format_times
from dpwitness.executors.pools import pool
from dpwitness.mechanisms.textbook.zoo import paper_zoo, zoo
from dpwitness.mechanisms.wrappers.programs.target import Target

__all__ = [
    "SUITES",
    "Case",
    "CaseOutcome",
    "Suite",
    "compare",
    "run_all",
    "run_case",
    "suite",
    "suite_of",
]


@dataclass(frozen=True, slots=True)
class Case:
    """One audit of a suite.

    Parameters
    ----------
    name : str
        Name in reports and for ``-k``.
    mechanism : Mechanism
    claim : Claim, optional
        The mechanism's claim by default.
    pairs : tuple of Pair, optional
        Candidate pairs; pairs of the mechanism's domain by default.
    truth : Truth, optional
        Reference for the verdict; None if unknown.
    settled : bool
        Whether the budget suffices for a verdict. If False, a missed violation does not count as
        wrong.
    bits : bool
        Whether to audit low-order bits, and to compare the result with ``truth.bits_safe``.
    trials : int, optional
        Number of runs; the suite's by default.
    white_box : bool
        Whether to enclose the exact privacy loss of the audited pair too, if the mechanism has a
        density.
    stop : {"gross", "violation", "never"}
        Stopping rule of the audit.
    """

    name: str
    mechanism: Any
    claim: Claim | None = None
    pairs: tuple[Pair, ...] | None = None
    truth: Truth | None = None
    settled: bool = True
    bits: bool = True
    trials: int | None = None
    white_box: bool = False
    stop: str = "gross"

    def where(self) -> tuple[Pair, ...] | None:
        """Return the candidate pairs; subclasses create them on demand."""
        return self.pairs

    def missing(self) -> str:
        """Return the requirement that is not installed; empty if the case can run."""
        return ""

    def details(self, result: AuditResult) -> Json:
        """Return additional JSON fields of the report."""
        return {}


@dataclass(frozen=True, slots=True)
class Suite:
    """Named list of cases, with defaults of their audits.

    Attributes
    ----------
    name, text : str
        Name and one-line description.
    cases : callable
        Function that builds the cases.
    trials, confidence, seed
        Default options of the audits.
    page : callable, optional
        Function of the results, the missing requirements and the report's folder, which writes the
        suite's extra pages.
    """

    name: str
    text: str
    cases: Callable[[], list[Case]]
    trials: int
    confidence: float = 0.999
    seed: int = 20_240_229
    page: Callable[[list[Json], dict[str, str], Path], None] | None = None


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Result of a case, and its comparison with the truth.

    Attributes
    ----------
    case : Case
        The audited case.
    result : AuditResult
        Result of the audit.
    json : dict
        Result as JSON for the report, with the comparison.
    right : bool, optional
        Whether the verdict agrees with the truth; None without a truth or a verdict.
    why : str
        Reason for a wrong verdict.
    """

    case: Case
    result: AuditResult
    json: Json
    right: bool | None  # None: nothing to compare with, or no verdict
    why: str = ""

    @property
    def unfinished(self) -> bool:
        """Whether the audit has no verdict."""
        return not self.result.verdict.decided

    def line(self, width: int) -> str:
        """Return one line for the terminal: name, verdict, certified and claimed parameter, float
        rounding, right or wrong.
        """
        result, exact, bits = self.result, "", ""
        mark = self.why if self.right is None else "right" if self.right else f"WRONG: {self.why}"
        if self.unfinished:
            mark = result.notes[0] if result.notes else ""
        if "enclosure" in self.json:
            found, ends = self.json["enclosure"], ("parameter_lower", "parameter_upper")
            texts = [figure(found.get(end), 4).replace("infinity", "inf") for end in ends]
            interval = f"in [{', '.join(texts)}]" if ends[0] in found else "no density"
            exact = f" {interval:<20}"
        if result.bit_level:
            bits = f"float rounding {reports.float_rounding(result.bit_level.verdict.value)}"
        return (
            f"{self.case.name:<{width}}  {reports.verdict(result.verdict.value):<12}  "
            f"{result.claim.symbol} > {result.parameter_lower:<8.4g} claim "
            f"{result.claim!s:<20}{exact} {bits:<30}  "
            f"{format_times(result.seconds, result.cpu_seconds):<20}  {mark}"
        ).rstrip()


def run_case(
    case: Case,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    clock: str = "wall",
    confidence: float | None = None,
    seed: int | None = None,
    defaults: Suite | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    store: Store | None = None,
) -> CaseOutcome:
    """Audit one case and compare its verdict with the truth.

    Parameters
    ----------
    case : Case
        Mechanism, pairs and known truth.
    trials, seconds, clock, confidence, seed, executor, progress, store
        Options of `audit`. Missing options come from the case, then from `defaults`.
    defaults : Suite, optional
        Suite with the default options. Default: two million runs.

    Returns
    -------
    CaseOutcome
        Result as JSON, with the comparison to the truth.

    Raises
    ------
    InvalidArgument
        If an option is invalid.
    """
    usual = defaults or Suite("", "", list, 2_000_000)
    result = audit(
        case.mechanism,
        claim=case.claim,
        pair=case.where(),
        trials=None if seconds is not None else trials or case.trials or usual.trials,
        seconds=seconds,
        clock=clock,
        confidence=usual.confidence if confidence is None else confidence,
        seed=usual.seed if seed is None else seed,
        executor=executor,
        name=case.name,
        bits=case.bits,
        stop=case.stop,
        progress=progress,
        store=store,
    )
    enclosed = None
    # without a density the loss of the audited pair cannot be enclosed
    if case.white_box and result.pair is not None and hasattr(case.mechanism, "log_density"):
        options: dict[str, Any] = {"trials": 40_000, "seed": result.seed, "name": case.name}
        enclosed = dpw.certify(case.mechanism, result.pair, result.claim, **options)  # loads FLINT
    right, why = compare(case, result, enclosed)
    data = reports.result_json(result) | case.details(result) | {"right": right, "expected": ""}
    if case.white_box:
        data["enclosure"] = {"none": "unknown: the mechanism has no density in closed form"}
    if enclosed is not None:
        keys = ("verdict", "parameter", "parameter_lower", "parameter_upper", "route", "upper_end")
        is_error, found = enclosed.verdict is Verdict.ERROR, enclosed.to_json()
        fields = {key: found.get(key) for key in keys}
        data["enclosure"] = {"none": enclosed.headline()} if is_error else fields
    if case.truth is not None:
        truth = f"truth: {case.truth.parameter:.6g}, {case.truth.source}"
        word = {None: "not settled", True: "right", False: "WRONG"}[right]
        data["notes"] = [*data["notes"], f"verdict {word}{f' ({why})' if why else ''}; {truth}"]
        word = "violated" if case.truth.breaks(result.claim) else "kept"
        data["expected"] = f"{word}: {result.claim.symbol} = {figure(case.truth.parameter)}"
    return CaseOutcome(case, result, data, right, why)


def compare(
    case: Case, result: AuditResult, enclosed: CertifyResult | None = None
) -> tuple[bool | None, str]:
    """Return whether the verdicts agree with the truth and the enclosure, and a reason if not.

    Parameters
    ----------
    case : Case
        Case with the known truth.
    result : AuditResult
        Result of the audit of the case.
    enclosed : CertifyResult, optional
        Result of the white-box audit of the same pair.

    Returns
    -------
    bool or None, str
        Whether the verdicts are right, None if nothing can be compared; and the reason, empty if
        they are right.
    """
    truth, symbol = case.truth, result.claim.symbol
    if not result.verdict.decided:
        return None, ""
    least, most, refuted = -math.inf, math.inf, False
    if enclosed is not None:
        if enclosed.verdict is Verdict.ERROR:
            return False, enclosed.headline()
        least, most = enclosed.parameter_lower, enclosed.parameter_upper
        refuted = enclosed.verdict is Verdict.VIOLATED
    if result.parameter_lower > most:
        return False, f"{symbol} is at most {most:.4g} on this pair"
    if truth is None:
        return None, ""
    promise = f"keeps {symbol} = {truth.parameter:.4g}"
    kept, found = not truth.breaks(result.claim), result.verdict is Verdict.VIOLATED
    missed = not kept and not found
    leaks = result.bit_level is not None and result.bit_level.verdict is Verdict.VIOLATED
    comparisons: tuple[tuple[bool, bool | None, str], ...] = (
        (
            least > truth.parameter * (1 + 1e-6),
            False,
            f"it {promise}, but {symbol} is at least {least:.6g} on this pair",
        ),
        (kept and found, False, f"it {promise}"),
        (missed and refuted, True, ""),
        (
            missed and not case.settled,
            None,
            f"it only {promise}, which a run of this size does not show",
        ),
        (missed, False, f"it only {promise}, the violation was missed"),
        (case.bits and leaks and kept and truth.bits_safe is True, False, "its low bits are safe"),
        (
            case.bits and not leaks and truth.bits_safe is False,
            False,
            "its low bits leak, which was missed",
        ),
    )
    return next(((right, why) for applies, right, why in comparisons if applies), (True, ""))


def _zoo() -> list[Case]:
    # two million runs at this confidence barely detect its violation
    more = {"gaussian-0.8": 8_000_000}
    return [
        Case(name, mechanism, truth=mechanism.truth, trials=more.get(name))
        for name, mechanism in zoo().items()
    ]


def _papers() -> list[Case]:
    return [
        Case(
            name,
            specimen.mechanism,
            pairs=specimen.pairs,
            truth=specimen.mechanism.truth,
            settled=specimen.settled,
            bits=False,
            trials=specimen.trials,
            white_box=True,
        )
        for name, specimen in paper_zoo().items()
    ]


def _papers_page(_: list[Json], __: dict[str, str], folder: Path) -> None:
    """Check all claims of the papers, and write their page next to the audits; in a clone, which
    has the page's builder.
    """
    if is_clone():
        page = from_clone("pages.papers.claims_page", "the page of the papers")
        page.write(list(run_all(seconds=60.0, quick=False, seed=0)), folder)


def _third_party() -> Any:
    return from_clone("libraries.suite", "the suite third-party")


SUITES: dict[str, Suite] = {
    "zoo": Suite(
        "zoo",
        "correct and broken mechanisms with known true privacy; a pilot selects the pairs",
        _zoo,
        2_000_000,
    ),
    "papers": Suite(
        "papers",
        "the papers' algorithms, as printed and repaired, on their worst pairs; with exact "
        "privacy losses",
        _papers,
        200_000,
        page=_papers_page,
    ),
    "third-party": Suite(
        "third-party",
        "third-party libraries, each in its own interpreter; pairs from the declared domains",
        lambda: list(_third_party().cases()),
        200_000,
        page=lambda *rows: _third_party().write_rows(*rows),
    ),
}


def suite_of(name: str) -> Suite:
    """Return the suite with the given name.

    Parameters
    ----------
    name : {"zoo", "papers", "third-party"}
        Name of the suite.

    Returns
    -------
    Suite
        Cases, with the defaults of their audits.

    Raises
    ------
    InvalidArgument
        If there is no suite of this name; the message lists the names.
    """
    if name not in SUITES:
        raise InvalidArgument(
            f"suite must be one of {', '.join(SUITES)}, got {name!r}{did_you_mean(name, SUITES)}"
        )
    return SUITES[name]


def suite(name: str) -> list[Case]:
    """Return the cases of a suite.

    Parameters
    ----------
    name : {"zoo", "papers", "third-party"}
        Name of the suite.

    Returns
    -------
    list of Case
        One case per mechanism.

    Raises
    ------
    InvalidArgument
        If there is no suite of this name.

    Examples
    --------
    >>> from dpwitness.commands.options import matches
    >>> [case.name for case in suite("zoo") if matches("svt and not broken", case.name)]
    ['svt1', 'svt2', 'svt3', 'svt4', 'svt5', 'svt6']
    """
    return suite_of(name).cases()


def run_all(*, seconds: float, quick: bool, seed: int, workers: int = 1) -> Iterator[Json]:
    """Check every claim of the ledger in order, and yield each finding as JSON with its witness
    under ``"witness"``.

    Parameters
    ----------
    seconds : float
        Time limit of one check. A check that reaches the limit is INCONCLUSIVE.
    quick : bool
        Whether to use fewer runs and cells.
    seed : int
        Seed of audits and searches.
    workers : int
        Number of processes.

    Yields
    ------
    dict
        Finding of one claim.

    Raises
    ------
    InvalidArgument
        If the time limit or the seed is invalid.
    """
    run = partial(_check_claim, seconds=seconds, quick=quick, seed=seed)
    if workers == 1:
        yield from map(run, proofs_checks.declarations())
        return
    with pool(workers) as executor:
        yield from executor.map(run, proofs_checks.declarations())


def _check_claim(id: str, *, seconds: float, quick: bool, seed: int) -> Json:
    found = proofs_checks.check(id, seconds=seconds, quick=quick, seed=seed)
    return found.to_json() | {"witness": found.witness}


def run_cases_in_parallel(
    suite: Suite, cases: Sequence[Case], workers: int, **options: Any
) -> Iterator[CaseOutcome]:
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
                yield CaseOutcome(case, result, reports.result_json(result), None)


def _cost(case: Case) -> int:
    """Return the relative cost of a case: its number of pairs; targets in other interpreters count
    as the most expensive.
    """
    if isinstance(case.mechanism, Target):
        return 10**6
    return len(audited_pairs(case.mechanism, case.where(), None))


@cache
def _cases_by_name(name: str) -> dict[str, Case]:
    return {case.name: case for case in suite_of(name).cases()}


def _run_in_worker(suite: str, name: str, options: dict[str, Any]) -> CaseOutcome:
    """Run one case in a worker. Fields that cannot be pickled, or that the caller has already, are
    dropped from the outcome.
    """
    outcome = run_case(_cases_by_name(suite)[name], defaults=suite_of(suite), **options)
    if isinstance(outcome.case.mechanism, Target):
        outcome.case.mechanism.close()
    return replace(outcome, case=Case(name, None), result=replace(outcome.result, subject=None))
