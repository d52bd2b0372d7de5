"""Conclusion of an audit: the result of the findings, also of an audit that failed or was
interrupted. A violation is reported if the kernel, `proofs_checks/kernel/checker.py`, accepts its
counts.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, wait
from dataclasses import dataclass, replace
from typing import TypeVar

from dpwitness.auditors.audit.after_test import Counted, require_independent
from dpwitness.auditors.audit.options import EARLY_ALPHA, AuditOptions
from dpwitness.auditors.audit.result import REFUTED, AuditResult, BitLevel, PairScore
from dpwitness.auditors.audit.sampler import Sampler
from dpwitness.auditors.audit.test import EventTest
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.outputs import UNAUDITED_PREFIX
from dpwitness.auditors.events.posterior import detectable
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.statistics.anytime import equivalent_level
from dpwitness.auditors.statistics.certificate import Part, Tally, error_of_counts, partial_bound
from dpwitness.auditors.statistics.combination import shares_spent
from dpwitness.auditors.traces.evidence import TraceEvidence
from dpwitness.auditors.witnesses.counts import Basis, Cause
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.workers.engine import explained
from dpwitness.auditors.workers.fitness import Unfit
from dpwitness.auditors.workers.pair_exercise import exercised
from dpwitness.core.claims import ApproxDP, Claim, exact_text, resolved
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import ForeignMechanism, MechanismFailed
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json

_Found = TypeVar("_Found", BitLevel, Cause)
_FORKS = "the mechanism forks"  # first words of a note that explains why no output changes


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings of the stages of an audit so far."""

    options: AuditOptions
    pairs: tuple[PairScore, ...] = ()
    bit_level: BitLevel | None = None
    test: EventTest | None = None
    extensions: int = 0  # number of extensions that have begun
    trace: TraceEvidence | None = None
    # None until the test has ended and causes are separated
    causes: tuple[Cause, ...] | None = None

    @property
    def refuted(self) -> bool:
        """Whether the counts of the test refute the claim."""
        return self.test is not None and self.test.lower > self.options.claim.parameter

    def on(self, pair: Pair, sampler: Sampler) -> Findings:
        """Return the findings with the claim on this pair, which is the tested pair."""
        claim, remarks = resolved(self.options.claim, pair)
        if claim is self.options.claim and not remarks:
            return self
        level = self.bit_level
        if (
            level is not None
            and level.pair is not None
            and self.options.claim.on(level.pair) != claim
        ):
            sampler.note(
                "low bits were examined on another pair, where they certify epsilon > "
                f"{level.epsilon_lower:.4g}"
            )
            level = None
        sampler.note(*remarks)
        return replace(self, options=replace(self.options, claim=claim), bit_level=level)

    def to_json(self, pairs: Sequence[Pair]) -> Json:
        """Return the findings of a finished audit on these pairs, for its extensions."""
        place = {id(pair): number for number, pair in enumerate(pairs)}
        level, test = self.bit_level, self.test
        return {
            "best": test.index if test else 0,
            "extensions": self.extensions,
            "probe": self.options.probe,
            "pairs": [
                [place[id(score.pair)], to_jsonable(score.expected), score.confirmed]
                for score in self.pairs
            ],
            "tested": [test.to_json(place[id(test.pair)])] if test else [],
            "trace": self.trace and self.trace.to_json(),
            "causes": self.causes and [cause.to_json() for cause in self.causes],
            "bits": level
            and {
                "verdict": level.verdict.value,
                "lower": to_jsonable(level.epsilon_lower),
                "pair": None if level.pair is None else place[id(level.pair)],
                "event": level.event and level.event.to_json(),
                "tally": level.tally and list(dataclasses.astuple(level.tally)),
                "alpha": level.alpha,
                "lost": level.lost,
            },
        }

    @classmethod
    def from_json(cls, data: Json, options: AuditOptions, pairs: Sequence[Pair]) -> Findings:
        """Return the findings that `to_json` wrote."""
        bits = data["bits"]
        return cls(
            options=replace(options, probe=data["probe"]),
            pairs=tuple(
                PairScore(pairs[at], from_jsonable(expected), confirmed)
                for at, expected, confirmed in data["pairs"]
            ),
            bit_level=None
            if bits is None
            else BitLevel(
                Verdict(bits["verdict"]),
                from_jsonable(bits["lower"]),
                None if bits["pair"] is None else pairs[bits["pair"]],
                None if bits["event"] is None else read_event(bits["event"]),
                None if bits["tally"] is None else Tally(*bits["tally"]),
                bits["alpha"],
                bits["lost"],
            ),
            test=next(
                (EventTest.from_json(each, pairs, data["best"]) for each in data["tested"]), None
            ),
            extensions=data["extensions"],
            trace=data["trace"] and TraceEvidence.from_json(data["trace"]),
            causes=tuple(map(Cause.from_json, data["causes"] or ())),
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """How the stages of an audit ended; the default is an audit that ran to its end.

    `reason` is why the counts are not those of a whole audit, or are withdrawn; `failed` whether
    the verdict is ERROR for this reason. An audit that is `stopped` without a reason is a valid
    audit: its test may stop at any moment, or had ended.
    """

    reason: str = ""
    failed: bool = False
    stopped: bool = False


_COMPLETE = Ending()


def conclude(sampler: Sampler, options: AuditOptions, stages: Iterator[Findings]) -> AuditResult:
    """Run the stages of an audit and return its result; if they are interrupted or fail, return
    what was found. A violation is compared with fresh runs.
    """
    ending = _COMPLETE
    try:
        findings, ending = _run_stages(sampler, Findings(options), stages)
        if not ending.reason:
            findings, ending = _compare_with_fresh_runs(sampler, findings, ending)
    finally:
        sampler.close()
        if ending != _COMPLETE and isinstance(options.mechanism, ForeignMechanism):
            options.mechanism.close()  # stop busy workers
            wait(sampler.pace.under_way, timeout=5.0)  # running tasks end with their target
            options.mechanism.close()  # stop workers that a running task has started since
        if sampler.ledger is not None:
            sampler.ledger.flush()
    result = checked_by_kernel(build_result(sampler, findings, ending))
    timed = replace(result, seconds=sampler.elapsed, cpu_seconds=sampler.elapsed_cpu)
    return _stored(sampler, timed, findings.extensions)


def _run_stages(
    sampler: Sampler, found: Findings, stages: Iterator[Findings]
) -> tuple[Findings, Ending]:
    """Return the last findings of the stages, and how the stages ended."""
    ending = _COMPLETE
    try:
        for findings in stages:
            found = findings
    except KeyboardInterrupt:
        ending = _interrupted(sampler, found)
    except Unfit as error:
        return _withdrawn(found), Ending(str(error), failed=True)
    # `submit` raises BrokenExecutor, if a worker died between two chunks
    except (MechanismFailed, BrokenExecutor) as error:
        ending = Ending(explained(error) or str(error), failed=True)
    if ending != _COMPLETE and found.causes is not None:  # the test had ended
        sampler.note(f"the causes of the violation were not separated: {ending.reason}")
        ending = Ending(stopped=True)
    return _with_last_look(found, sampler.done), ending


def _with_last_look(found: Findings, done: int) -> Findings:
    """Return the findings with a look at a sequential test that was stopped within an epoch."""
    test, options = found.test, found.options
    if test is None or not test.sequential or (test.basis and test.basis.parts == test.parts):
        return found
    return replace(found, test=test.look(options.claim, options.alpha, options.alpha, done))


def _interrupted(sampler: Sampler, found: Findings) -> Ending:
    """Return the ending of an audit that the user interrupted."""
    if found.test is None:
        return Ending("interrupted before the test began: no event has been tried yet")
    if found.causes is not None:
        return Ending("interrupted")
    if not found.test.sequential:
        return Ending(
            f"interrupted after {sampler.done} of {sampler.planned} runs; the bound is from "
            "the last completed interim look"
        )
    sampler.note(f"stopped by the user after {sampler.done} runs, which a sequential audit allows")
    return Ending(stopped=True)


def _compare_with_fresh_runs(
    sampler: Sampler, findings: Findings, ending: Ending
) -> tuple[Findings, Ending]:
    """Compare the violations with fresh runs. If the comparison fails or leaves a doubt, return the
    findings without counts, and the reason.
    """
    try:
        doubt = require_independent(sampler, _violations(findings))
    except KeyboardInterrupt:
        doubt = "interrupted before the violation was compared with fresh runs"
    except Unfit as error:
        return _withdrawn(findings), Ending(str(error), failed=True)
    except (MechanismFailed, BrokenExecutor) as error:
        sampler.note(f"the violation was not compared with fresh runs: {explained(error) or error}")
        doubt = ""
    return (_withdrawn(findings), Ending(doubt)) if doubt else (findings, ending)


def _violations(findings: Findings) -> list[Counted]:
    """Return the events whose counts violate the claim."""
    test, level = findings.test, findings.bit_level
    found = list[Counted]()
    if test is not None and findings.refuted:
        cells = test.basis.cells if test.basis else ()
        lost = test.parts[-1].lost
        found.append(Counted(test.pair, test.index, test.event, test.tally, lost, cells))
        found += [
            Counted(test.pair, test.index, each.event, each.tally, each.lost)
            for each in findings.causes or ()
            if each.verdict is Verdict.VIOLATED and each.event and each.tally
        ]
    if level is not None and level.verdict is Verdict.VIOLATED:
        assert level.pair is not None and level.event is not None and level.tally is not None
        found.append(Counted(level.pair, 0, level.event, level.tally, level.lost))
    return found


def _withdrawn(findings: Findings) -> Findings:
    """Return the findings without counts, which certify nothing if runs are not independent."""
    return replace(findings, test=None, bit_level=None, causes=None)


def _stored(sampler: Sampler, result: AuditResult, extensions: int) -> AuditResult:
    """Store the result of an audit with this number of extensions, if the audit has a store, and
    return the result with notes on the store.
    """
    if (ledger := sampler.ledger) is None:
        return result
    # the store may hold a later extension
    if len(ledger.values("end ")) <= extensions + 1:
        ledger.finish(result, sampler.done, sampler.planned)
    elif ledger.entry.verdict not in (None, result.verdict.value):
        later = (
            f"{ledger.store.path} holds an extension that is {ledger.entry.verdict}: --extend "
            f"{ledger.entry.planned} shows it"
        )
        result = replace(result, notes=(later, *result.notes))
    if not ledger.trouble:
        return result
    unwritten = (
        f"{ledger.store.path} could not be written to the end ({ledger.trouble}): a continued "
        "audit repeats the runs that are not stored"
    )
    return replace(result, notes=(*result.notes, unwritten), unstored=ledger.trouble)


def build_result(sampler: Sampler, findings: Findings, ending: Ending = _COMPLETE) -> AuditResult:
    """Return the result of the findings: the verdict on the values, and the numbers of the test."""
    options, test, trace = findings.options, findings.test, findings.trace
    guess = guess_of(options.mechanism)
    moved, idle = _exercised(sampler, findings, ending)
    verdict, notes = judge(sampler, findings, ending, moved, idle)
    result = AuditResult(
        name=options.name,
        claim=options.claim,
        verdict=verdict,
        confidence=options.confidence,
        seed=options.seed,
        trials=sampler.done,
        requested=sampler.planned,
        exercised=moved,
        bit_level=findings.bit_level and _suspected(findings.bit_level, guess),
        causes=tuple(_suspected(each, guess) for each in findings.causes or ()),
        pairs=findings.pairs,
        trace=trace.refuted_by_counts() if trace is not None and findings.refuted else trace,
        notes=tuple(notes),
        target=options.target,
        scores=options.scores,
        subject=options.mechanism,
        guessed=guess,
    )
    return result if test is None else _with_test(result, test, options.alpha, findings.extensions)


def _with_test(result: AuditResult, test: EventTest, alpha: float, extensions: int) -> AuditResult:
    """Return the result with the event, the counts and the bounds of a test; `alpha` is the error
    of the audit without its extensions.
    """
    claim = result.claim
    share = shares_spent(extensions)  # part of alpha that the plan and all extensions have spent
    level = equivalent_level(test.alpha) if test.sequential else test.alpha * (1 - EARLY_ALPHA)
    guessed = test.tally.rounds > 0
    return replace(
        result,
        epsilon_lower=test.epsilon,
        parameter_lower=test.lower,
        p_value=min(1.0, test.p_value * share),
        confidence=1 - share * alpha if share > 1 else result.confidence,
        detectable=detectable(claim, test.law, test.planned, level) if guessed else math.inf,
        pair=test.pair,
        event=test.event,
        tally=test.tally,
        stages=test.parts if len(test.parts) > 1 else (),
        alpha=0.0 if test.sequential else level / (2 if claim.bounds_renyi else 1),
        basis=test.basis,
        method=test.method,
        looks=test.looks,
        picture=test.picture,
    )


def _exercised(sampler: Sampler, findings: Findings, ending: Ending) -> tuple[bool | None, str]:
    """Return whether the pair exercises the mechanism, or None if this is unknown; and a note if it
    may not.
    """
    test, bits = findings.test, findings.bit_level
    if test is None:
        return None, ""
    if findings.refuted or (bits is not None and bits.epsilon_lower > 0):
        return True, ""
    if ending.reason:
        return None, ""
    pairs = max(1, len(findings.pairs))
    return exercised(findings.options.claim, test.parts, sampler.seen, pairs)


def judge(
    sampler: Sampler, findings: Findings, ending: Ending, moved: bool | None, idle: str
) -> tuple[Verdict, list[str]]:
    """Return the verdict on the values, and the notes of the result: its reasons come first.

    `moved` is whether the pair exercises the mechanism, and `idle` the note on a pair that may not.
    """
    test, claim = findings.test, findings.options.claim
    cut_short = Verdict.ERROR if ending.failed else Verdict.INCONCLUSIVE
    reasons = [ending.reason] if ending.reason else []
    if test is None:
        return cut_short, [*reasons, *sampler.notes]
    notes = sorted(sampler.notes, key=lambda note: not note.startswith(UNAUDITED_PREFIX))
    if not findings.refuted:
        return _judge_without_violation(findings, ending, moved, idle, notes)
    if reasons:
        shown = f"a violation had been certified by then: {claim.symbol} > {test.lower:.4g}"
        return cut_short, [*reasons, shown, *notes]
    if guess := guess_of(findings.options.mechanism):
        return Verdict.SUSPECT, [f"not confirmed: {guess}", *notes]
    return Verdict.VIOLATED, notes


def _judge_without_violation(
    findings: Findings, ending: Ending, moved: bool | None, idle: str, notes: list[str]
) -> tuple[Verdict, list[str]]:
    """Return what `judge` returns if the counts do not refute the claim: NOT_REFUTED, unless there
    is a reason to doubt that the audit would have found a violation.
    """
    trace, reasons = findings.trace, [ending.reason] if ending.reason else []
    if trace is not None and trace.contradicts and not ending.failed:
        reasons = [trace.headline(findings.options.claim), *reasons]
    unaudited = [note for note in notes if note.startswith(UNAUDITED_PREFIX)]
    if moved is False:
        notes = sorted([idle, *notes], key=lambda note: not note.startswith(_FORKS))
    elif idle:
        notes = [*notes, idle]
    if not reasons and not unaudited and moved is not False:
        return Verdict.NOT_REFUTED, notes
    return Verdict.ERROR if ending.failed else Verdict.INCONCLUSIVE, [*reasons, *notes]


def guess_of(mechanism: object) -> str:
    """Return the parts of a target's claim that a scan guessed (attribute `guessed`); empty for
    other mechanisms.
    """
    found = (
        getattr(mechanism, "guessed", "")
        if isinstance(mechanism, ForeignMechanism) or callable(mechanism)
        else ""
    )
    return found if isinstance(found, str) else ""


def _suspected(found: _Found, guess: str) -> _Found:
    """Return the bit level or cause; the verdict on a violation of a guessed claim is SUSPECT."""
    suspect = guess and found.verdict is Verdict.VIOLATED
    return replace(found, verdict=Verdict.SUSPECT) if suspect else found


_REFUSALS = ("counts", "bound")  # first words of the kernel's reasons to refuse


def checked_by_kernel(result: AuditResult) -> AuditResult:
    """Return the result, with the verdict ERROR at each level whose violation the kernel refuses.

    A notion that the kernel does not know keeps its verdict, with a note. A bound that exceeds the
    claim by less than the margin of the kernel's rounding becomes NOT_REFUTED.
    """
    result, level = _checked_value(result), result.bit_level
    if level is not None and level.verdict in REFUTED and level.tally is not None:
        counts = level.basis(result.confidence)
        why = kernel_problem(result.claim, "bit", level.epsilon_lower, result.confidence, counts)
        if why.startswith(_REFUSALS):
            level = replace(level, verdict=Verdict.ERROR)
            result = replace(result, bit_level=level, notes=(*result.notes, f"low bits: {why}"))
    return replace(result, causes=tuple(_checked_cause(cause, result) for cause in result.causes))


def _checked_value(result: AuditResult) -> AuditResult:
    """Return the result with the verdict on the values that the kernel confirms."""
    claim, basis, bound = result.claim, result.basis, result.parameter_lower
    if result.verdict not in REFUTED or basis is None:
        return result
    event = result.event if basis.cells else None
    problem = kernel_problem(claim, "value", bound, result.confidence, basis, event)
    if not problem:
        return result
    if problem.startswith("the kernel"):
        return replace(result, notes=(*result.notes, problem))
    # the rounding of the kernel may decide
    if problem.startswith("counts: they do not refute") and bound <= claim.parameter * (1 + 1e-6):
        epsilon = result.epsilon_lower
        why = (
            f"the bound {bound:.12g} exceeds the claim by less than the rounding of the "
            "kernel: the claim is not refuted"
        )
        return replace(
            result,
            verdict=Verdict.NOT_REFUTED,
            parameter_lower=claim.parameter,
            epsilon_lower=min(epsilon, claim.parameter) if claim.bounds_epsilon else epsilon,
            notes=(why, *result.notes),
        )
    why = (
        f"the program certifies {claim.symbol} > {bound:.9g} against {claim.symbol} <= "
        f"{claim.parameter:.9g}, but the kernel refuses its counts: {problem}; please report this"
    )
    return replace(result, verdict=Verdict.ERROR, notes=(why, *result.notes))


def _checked_cause(cause: Cause, result: AuditResult) -> Cause:
    """Return the cause, with the verdict ERROR if the kernel refuses its counts. The kernel does
    not check the discount of the bound.
    """
    if cause.verdict not in REFUTED or cause.tally is None:
        return cause
    alpha = error_of_counts(cause.alpha, cause.within)
    bound = partial_bound(result.claim, cause.tally, alpha, cause.lost)
    counts = Basis(alpha, (Part(cause.tally, lost=cause.lost),))
    problem = kernel_problem(result.claim, "value", bound, result.confidence, counts)
    refused = problem.startswith(_REFUSALS)
    return replace(cause, verdict=Verdict.ERROR, words=problem) if refused else cause


def kernel_problem(
    claim: Claim,
    level: str,
    bound: float,
    confidence: float,
    basis: Basis,
    event: Event | None = None,
) -> str:
    """Return why the kernel does not accept the counts of a refuted claim, or an empty text."""
    if any(part.prior is not None for part in basis.parts):
        return "the kernel does not know sequential tests: the verdict rests on the program alone"
    # only an audit that refutes its claim loads the kernel
    from dpwitness.proofs_checks.kernel import checker

    # the accountant's epsilon at a delta
    if isinstance(claim, ApproxDP) and claim.kind not in checker.FORMS:
        claim = ApproxDP(claim.epsilon, claim.delta_budget)
    try:
        known = checker.decode_claim(exact_text(claim), list(claim.numbers))
        plain = {
            "bound": strict(bound),
            "confidence": confidence,
            "counts": basis.counts(),
            "event": event and event.to_json(),
        }
        checker.check_counts(known, level, *checker.read(json.dumps(plain)).values())
    except checker.NotChecked as missing:
        return f"the kernel does not check this: {missing}; the verdict rests on the program alone"
    except checker.Refused as refusal:
        # the rounding of several stages adds up
        if str(refusal).startswith("bound") and len(basis.parts) > 1:
            return (
                "the kernel refutes the claim, but not every digit of the bound from "
                f"{len(basis.parts)} stages"
            )
        return str(refusal)
    return ""
