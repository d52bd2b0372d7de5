"""Cases of a suite, their audits, and the comparison of verdicts with the truth."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.auditors.audit.audit import Progress, audit
from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.density.certify import certify
from dpwitness.auditors.density.result import CertifyResult
from dpwitness.auditors.witnesses.store import Store
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.capabilities import has_capability
from dpwitness.core.protocols.mechanism import Truth, WhiteBox
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import figure, format_times
from dpwitness.reports.audit.document import result_json

_WHITE_BOX_TRIALS = 40_000


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
class Outcome:
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
    def wrong(self) -> bool:
        """Whether the verdict contradicts the truth."""
        return self.right is False

    @property
    def unfinished(self) -> bool:
        """Whether the audit has no verdict."""
        return self.result.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.SUSPECT)

    @property
    def interrupted(self) -> bool:
        """Whether the audit was interrupted, so that the suite must stop."""
        return self.result.verdict is Verdict.INCONCLUSIVE and self.result.exercised is not False

    def line(self, width: int) -> str:
        """Return one line for the terminal: name, verdict, certified and claimed parameter,
        low-order bits, right or wrong.
        """
        result = self.result
        mark = self.why if self.right is None else "right" if self.right else f"WRONG: {self.why}"
        if self.unfinished:
            mark = result.notes[0] if result.notes else ""
        exact = (
            f" {_format_interval(self.json['enclosure']):<20}" if "enclosure" in self.json else ""
        )
        number = (
            f"{result.claim.symbol} > {result.parameter_lower:<8.4g} claim "
            f"{result.claim!s:<20}{exact}"
        )
        bits = (
            f"bits {result.bit_level.verdict.value.replace('_', ' ').lower()}"
            if result.bit_level
            else ""
        )
        verdict = result.verdict.value.replace("_", " ")
        times = format_times(result.seconds, result.cpu_seconds)
        return (
            f"{self.case.name:<{width}}  {verdict:<12}  {number} {bits:<16}  {times:<20}  {mark}"
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
) -> Outcome:
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
    Outcome
        Result as JSON, with the comparison to the truth.

    Raises
    ------
    InvalidArgument
        If an option is invalid.
    """
    suite_defaults = defaults or Suite("", "", list, 2_000_000)
    result = audit(
        case.mechanism,
        claim=case.claim,
        pair=case.where(),
        trials=None if seconds is not None else trials or case.trials or suite_defaults.trials,
        seconds=seconds,
        clock=clock,
        confidence=suite_defaults.confidence if confidence is None else confidence,
        seed=suite_defaults.seed if seed is None else seed,
        executor=executor,
        name=case.name,
        bits=case.bits,
        stop=case.stop,
        progress=progress,
        store=store,
    )
    enclosed = None
    # without a density the loss of the audited pair cannot be enclosed
    if case.white_box and result.pair is not None and has_capability(case.mechanism, WhiteBox):
        enclosed = certify(
            case.mechanism,
            result.pair,
            result.claim,
            trials=_WHITE_BOX_TRIALS,
            seed=result.seed,
            name=case.name,
        )
    right, why = compare(case, result, enclosed)
    data = result_json(result) | case.details(result)
    if case.white_box:
        data["enclosure"] = _enclosure_json(enclosed)
    data |= {"right": right, "expected": ""}
    if case.truth is not None:
        expected = f"truth: {case.truth.parameter:.6g}, {case.truth.source}"
        word = "not settled" if right is None else "right" if right else "WRONG"
        note = f"verdict {word}{f' ({why})' if why else ''}; {expected}"
        data["notes"] = [*data["notes"], note]
        word = "violated" if case.truth.breaks(result.claim) else "kept"
        data["expected"] = f"{word}: {result.claim.symbol} = {figure(case.truth.parameter)}"
    return Outcome(case, result, data, right, why)


def _enclosure_json(found: CertifyResult | None) -> Json:
    if found is None:
        return {"none": "unknown: the mechanism has no density in closed form"}
    if found.verdict is Verdict.ERROR:
        return {"none": found.headline()}
    enclosure_data = found.to_json()
    return {
        key: enclosure_data[key]
        for key in (
            "verdict",
            "parameter",
            "parameter_lower",
            "parameter_upper",
            "route",
            "upper_end",
        )
    }


def _format_interval(enclosure: Json) -> str:
    bound_texts = [
        figure(enclosure.get(f"parameter_{end}"), 4).replace("infinity", "inf")
        for end in ("lower", "upper")
    ]
    return f"in [{', '.join(bound_texts)}]" if "parameter_lower" in enclosure else "no density"


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
    truth = case.truth
    if result.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.SUSPECT):
        return None, ""
    symbol, enclosure_violates = result.claim.symbol, False
    if enclosed is not None:
        if enclosed.verdict is Verdict.ERROR:
            return False, enclosed.headline()
        if result.parameter_lower > enclosed.parameter_upper:
            return False, f"{symbol} is at most {enclosed.parameter_upper:.4g} on this pair"
        enclosure_violates = enclosed.verdict is Verdict.VIOLATED
    if truth is None:
        return None, ""
    promise = f"keeps {symbol} = {truth.parameter:.4g}"
    if enclosed is not None and enclosed.parameter_lower > truth.parameter * (1 + 1e-6):
        return (
            False,
            f"it {promise}, but {symbol} is at least {enclosed.parameter_lower:.6g} on this pair",
        )
    claim_is_false, found = truth.breaks(result.claim), result.verdict is Verdict.VIOLATED
    if found != claim_is_false:
        if claim_is_false and (enclosure_violates or not case.settled):
            return (
                (True, "")
                if enclosure_violates
                else (None, f"it only {promise}, which a run of this size does not show")
            )
        return False, f"it {promise}" if found else f"it only {promise}, the violation was missed"
    if case.bits:
        leaks = result.bit_level is not None and result.bit_level.verdict is Verdict.VIOLATED
        if leaks and truth.bits_safe is True and not claim_is_false:
            return False, "its low bits are safe"
        if not leaks and truth.bits_safe is False:
            return False, "its low bits leak, which was missed"
    return True, ""
