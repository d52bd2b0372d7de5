"""Suites: many audits under one name, their verdicts held against what is known of each mechanism."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.auditors.black_box.audit import Progress, audit
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.certify_result import CertifyResult
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.storing.store import Store
from dpwitness.auditors.white_box.certify import certify
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.powers import offers
from dpwitness.mechanisms.terms.protocol import Truth, WhiteBox
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.audit.document import result_json
from dpwitness.reports.words.wording import figure

_WHITE_BOX_TRIALS = 40_000


@dataclass(frozen=True, slots=True)
class Case:
    """One audit of a suite.

    Parameters
    ----------
    name : str
        Under which it is reported and picked by ``-k``.
    mechanism : Mechanism
    claim : Claim, optional
        The mechanism's own if left out.
    pairs : tuple of Pair, optional
        Where to look; pairs of the mechanism's domain if left out.
    truth : Truth, optional
        What the verdict is compared with; None where nothing is known.
    settled : bool
        Whether the budget settles the verdict: where it does not, a violation that is missed is not wrong.
    bits : bool
        Whether to look at low bits, and to compare what is found there with ``truth.bits_safe``.
    trials : int, optional
        The suite's if left out.
    white_box : bool
        Whether to put the exact privacy loss of the audited pair next to the bound, where the mechanism has a density.
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
        """The pairs, made when they are needed."""
        return self.pairs

    def missing(self) -> str:
        """What has to be installed before the case can be run; empty if nothing."""
        return ""

    def details(self, result: AuditResult) -> Json:
        """What the report's JSON holds beside the result."""
        return {}


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of cases and its defaults.

    `page`, if there is one, is told what came out and what could not be run, and writes pages of the suite's own into a report's folder.
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
    """What a case came to."""

    case: Case
    result: AuditResult
    json: Json
    right: bool | None  # None: nothing to compare with, or no verdict
    why: str = ""

    @property
    def wrong(self) -> bool:
        """Whether the verdict contradicts what is known."""
        return self.right is False

    @property
    def unfinished(self) -> bool:
        """Whether there is no verdict."""
        return self.result.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE)

    @property
    def interrupted(self) -> bool:
        """Whether the suite is to stop here."""
        return self.result.verdict is Verdict.INCONCLUSIVE and self.result.exercised is not False

    def line(self, width: int) -> str:
        """One line for the terminal: name, verdict, certified and claimed, low bits, right or wrong."""
        result = self.result
        mark = self.why if self.right is None else "right" if self.right else f"WRONG: {self.why}"
        if self.unfinished:
            mark = result.notes[0] if result.notes else ""
        exact = f" {_shown(self.json['enclosure']):<20}" if "enclosure" in self.json else ""
        number = f"{result.claim.symbol} > {result.parameter_lower:<8.4g} claim {result.claim!s:<20}{exact}"
        bits = f"bits {result.bit_level.verdict.value.replace('_', ' ').lower()}" if result.bit_level else ""
        verdict = result.verdict.value.replace("_", " ")
        return f"{self.case.name:<{width}}  {verdict:<12}  {number} {bits:<16}  {result.seconds:5.1f} s  {mark}".rstrip()


def run_case(
    case: Case,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    confidence: float | None = None,
    seed: int | None = None,
    defaults: Suite | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    store: Store | None = None,
) -> Outcome:
    """Audit one case and compare. What is not given comes from the case, then from the suite `defaults`."""
    it = defaults or Suite("", "", list, 2_000_000)
    result = audit(
        case.mechanism,
        claim=case.claim,
        pair=case.where(),
        trials=None if seconds is not None else trials or case.trials or it.trials,
        seconds=seconds,
        confidence=it.confidence if confidence is None else confidence,
        seed=it.seed if seed is None else seed,
        executor=executor,
        name=case.name,
        bits=case.bits,
        stop=case.stop,
        progress=progress,
        store=store,
    )
    enclosed = _enclosed(case, result)
    right, why = compare(case, result, enclosed)
    data = result_json(result) | case.details(result)
    if case.white_box:
        data["enclosure"] = _enclosure(enclosed)
    if case.truth is not None:
        expected = f"truth: {case.truth.parameter:.6g}, {case.truth.source}"
        word = "not settled" if right is None else "right" if right else "WRONG"
        note = f"verdict {word}{f' ({why})' if why else ''}; {expected}"
        data["notes"] = [*data["notes"], note]
    data["right"] = right
    data["expected"] = _expected(case, result)
    return Outcome(case, result, data, right, why)


def _expected(case: Case, result: AuditResult) -> str:
    """What the truth asks for, in a word and a number; empty where it is not known."""
    if case.truth is None:
        return ""
    word = "violated" if case.truth.breaks(result.claim) else "kept"
    return f"{word}: {result.claim.symbol} = {figure(case.truth.parameter)}"


def _enclosed(case: Case, result: AuditResult) -> CertifyResult | None:
    """The exact privacy loss of the pair that was audited; None without a density, or where none is asked for."""
    if not case.white_box or result.pair is None or not offers(case.mechanism, WhiteBox):
        return None
    return certify(case.mechanism, result.pair, result.claim, trials=_WHITE_BOX_TRIALS, seed=result.seed, name=case.name)


def _enclosure(found: CertifyResult | None) -> Json:
    """What a report shows of it."""
    if found is None:
        return {"none": "not known: the mechanism has no density in closed form"}
    if found.verdict is Verdict.ERROR:
        return {"none": found.headline()}
    told = found.to_json()
    return {key: told[key] for key in ("verdict", "parameter", "parameter_lower", "parameter_upper", "route", "upper_end")}


def _shown(enclosure: Json) -> str:
    ends = [figure(enclosure.get(f"parameter_{end}"), 4).replace("infinity", "inf") for end in ("lower", "upper")]
    return f"in [{', '.join(ends)}]" if "parameter_lower" in enclosure else "no density"


def compare(case: Case, result: AuditResult, enclosed: CertifyResult | None = None) -> tuple[bool | None, str]:
    """Whether the verdicts are those that the truth asks for, and agree with the enclosure; what is wrong if not."""
    truth = case.truth
    if result.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE):
        return None, ""
    symbol, shown = result.claim.symbol, False
    if enclosed is not None:
        if enclosed.verdict is Verdict.ERROR:
            return False, enclosed.headline()
        if result.parameter_lower > enclosed.parameter_upper:
            return False, f"{symbol} is at most {enclosed.parameter_upper:.4g} on this pair"
        shown = enclosed.verdict is Verdict.VIOLATED
    if truth is None:
        return None, ""
    kept = f"keeps {symbol} = {truth.parameter:.4g}"
    if enclosed is not None and enclosed.parameter_lower > truth.parameter * (1 + 1e-6):
        return False, f"it {kept}, but {symbol} is at least {enclosed.parameter_lower:.6g} on this pair"
    broken, found = truth.breaks(result.claim), result.verdict is Verdict.VIOLATED
    if found != broken:
        if broken and (shown or not case.settled):
            return (True, "") if shown else (None, f"it only {kept}, which a run of this size does not show")
        return False, f"it {kept}" if found else f"it only {kept}, the violation was missed"
    if case.bits:
        leaks = result.bit_level is not None and result.bit_level.verdict is Verdict.VIOLATED
        if leaks and truth.bits_safe is True and not broken:
            return False, "its low bits are safe"
        if not leaks and truth.bits_safe is False:
            return False, "its low bits leak, which was missed"
    return True, ""
