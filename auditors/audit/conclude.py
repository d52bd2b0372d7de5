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

import numpy as np

from dpwitness.auditors.audit.after_test import Counted, require_independent
from dpwitness.auditors.audit.options import EARLY_ALPHA, AuditOptions
from dpwitness.auditors.audit.result import REFUTED, AuditResult, BitLevel, PairScore
from dpwitness.auditors.audit.sampler import Sampler
from dpwitness.auditors.audit.test import EventTest
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
from dpwitness.core.protocols.mechanism import ForeignMechanism, MechanismFailed
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


def conclude(sampler: Sampler, options: AuditOptions, stages: Iterator[Findings]) -> AuditResult:
    """Run the stages of an audit and return its result; if they are interrupted or fail, return a
    result with the findings so far.

    A violation is compared with fresh runs. If these differ, the result states a doubt about the
    violation, or a failure if the runs certify nothing.
    """
    findings, interrupted, failure, doubt = Findings(options), False, "", ""
    try:
        try:
            for findings in stages:  # noqa: B007
                pass
        except KeyboardInterrupt:
            interrupted = True
        except Unfit as error:
            failure, findings = str(error), _withdrawn(findings)
        # `submit` raises BrokenExecutor, if a worker died between two chunks
        except (MechanismFailed, BrokenExecutor) as error:
            failure = explained(error) or str(error)
        if (interrupted or failure) and findings.causes is not None:  # the test had ended
            sampler.note(
                f"the causes of the violation were not separated: {failure or 'interrupted'}"
            )
            interrupted, failure = False, ""
        if not failure and (
            not interrupted or (findings.test is not None and findings.test.sequential)
        ):
            failure, doubt = _compare_with_fresh_runs(sampler, findings)
            findings = _withdrawn(findings) if doubt or failure else findings
    finally:
        sampler.close()
        if (interrupted or failure) and isinstance(options.mechanism, ForeignMechanism):
            options.mechanism.close()  # stop busy workers
            wait(sampler.pace.under_way, timeout=5.0)  # running tasks end with their target
            options.mechanism.close()  # stop workers that a running task has started since
        if sampler.ledger is not None:
            sampler.ledger.flush()
    result = checked_by_kernel(build_result(sampler, findings, interrupted, failure, doubt))
    timed = replace(result, seconds=sampler.elapsed, cpu_seconds=sampler.elapsed_cpu)
    return _stored(sampler, timed, findings.extensions)


def _compare_with_fresh_runs(sampler: Sampler, findings: Findings) -> tuple[str, str]:
    """Compare the violations with fresh runs. Return why the runs certify nothing, and why a
    violation is not believed; empty texts if neither is the case.
    """
    try:
        return "", require_independent(sampler, _violations(findings))
    except KeyboardInterrupt:
        return "", "interrupted before the violation was compared with fresh runs"
    except Unfit as error:
        return str(error), ""
    except (MechanismFailed, BrokenExecutor) as error:
        sampler.note(f"the violation was not compared with fresh runs: {explained(error) or error}")
        return "", ""


def _violations(findings: Findings) -> list[Counted]:
    """Return the events whose counts violate the claim."""
    found, test, level = list[Counted](), findings.test, findings.bit_level
    if test is not None and findings.refuted:
        cells = np.array(test.basis.cells) if test.basis and test.basis.cells else None
        found.append(
            Counted(test.pair, test.index, test.event, test.tally, test.parts[-1].lost, cells)
        )
        found += [
            Counted(test.pair, test.index, each.event, each.tally, each.lost)
            for each in findings.causes or ()
            if each.verdict is Verdict.VIOLATED and each.event and each.tally
        ]
    leak = level is not None and level.verdict is Verdict.VIOLATED
    if leak and level and level.pair and level.event and level.tally:
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


def build_result(
    sampler: Sampler,
    findings: Findings,
    interrupted: bool = False,
    failure: str = "",
    doubt: str = "",
) -> AuditResult:
    """Return the result of the findings; `doubt` is why a violation is not believed."""
    options, test, trace = findings.options, findings.test, findings.trace
    guess = guess_of(options.mechanism)
    base = AuditResult(
        name=options.name,
        claim=options.claim,
        verdict=Verdict.ERROR if failure else Verdict.INCONCLUSIVE,
        confidence=options.confidence,
        seed=options.seed,
        trials=sampler.done,
        requested=sampler.planned,
        bit_level=findings.bit_level and _suspected(findings.bit_level, guess),
        pairs=findings.pairs,
        trace=trace.refuted_by_counts() if trace is not None and findings.refuted else trace,
        notes=tuple(sampler.notes),
        target=options.target,
        scores=options.scores,
        subject=options.mechanism,
        guessed=guess,
    )
    if test is None:
        note = failure or doubt or "interrupted before the test began: no event has been tried yet"
        return replace(base, notes=(note, *base.notes))
    # interrupted within an epoch
    if test.sequential and (test.basis is None or test.basis.parts != test.parts):
        test = test.look(options.claim, options.alpha, options.alpha, sampler.done)
    verdict, notes, moved = _judge(sampler, findings, test, interrupted, failure)
    if verdict is Verdict.VIOLATED and guess:
        verdict, notes = Verdict.SUSPECT, [f"not confirmed: {guess}", *notes]
    # part of alpha that the plan and all extensions have spent
    share = shares_spent(findings.extensions)
    level = equivalent_level(test.alpha) if test.sequential else test.alpha * (1 - EARLY_ALPHA)
    return replace(
        base,
        verdict=verdict,
        exercised=moved,
        notes=tuple(notes),
        causes=tuple(_suspected(each, guess) for each in findings.causes or ()),
        epsilon_lower=test.epsilon,
        parameter_lower=test.lower,
        p_value=min(1.0, test.p_value * share),
        confidence=1 - share * options.alpha if share > 1 else base.confidence,
        detectable=detectable(base.claim, test.law, test.planned, level)
        if test.tally.rounds
        else math.inf,
        pair=test.pair,
        event=test.event,
        tally=test.tally,
        stages=test.parts if len(test.parts) > 1 else (),
        alpha=0.0 if test.sequential else level / (2 if base.claim.bounds_renyi else 1),
        basis=test.basis,
        method=test.method,
        looks=test.looks,
        picture=test.picture,
    )


def _judge(
    sampler: Sampler, findings: Findings, test: EventTest, interrupted: bool, failure: str
) -> tuple[Verdict, list[str], bool | None]:
    """Return the verdict on the values, the notes of the result, and whether the pair exercises the
    mechanism (None if this is unknown).
    """
    claim, trace, level = findings.options.claim, findings.trace, findings.bit_level
    refuted, early = test.lower > claim.parameter, failure
    verdict = Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED
    notes = sorted(sampler.notes, key=lambda note: not note.startswith(UNAUDITED_PREFIX))
    if not refuted and notes and notes[0].startswith(UNAUDITED_PREFIX):
        verdict = Verdict.INCONCLUSIVE
    if interrupted and not failure:
        if test.sequential:
            notes.append(
                f"stopped by the user after {sampler.done} runs, which a sequential audit allows"
            )
        else:
            early = (
                f"interrupted after {sampler.done} of {sampler.planned} runs; the bound is from "
                "the last completed interim look"
            )
    moved, reason = None, ""
    if refuted or (level is not None and level.epsilon_lower > 0):
        moved = True
    elif not early:
        pairs = max(1, len(findings.pairs))
        moved, reason = exercised(claim, test.parts, sampler.seen, pairs)
    if early:
        verdict = Verdict.ERROR if failure else Verdict.INCONCLUSIVE
        shown = f"a violation had been certified by then: {claim.symbol} > {test.lower:.4g}"
        notes[:0] = [early, shown] if refuted else [early]
    if moved is False:
        verdict = Verdict.INCONCLUSIVE
        notes = sorted([reason, *notes], key=lambda note: not note.startswith(_FORKS))
    elif reason:
        notes.append(reason)
    if not refuted and not failure and trace is not None and trace.contradicts:
        verdict = Verdict.INCONCLUSIVE
        notes.insert(0, trace.headline(claim))
    return verdict, notes, moved


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


def checked_by_kernel(result: AuditResult) -> AuditResult:
    """Return the result, with the verdict ERROR at each level whose violation the kernel refuses.

    A notion that the kernel does not know keeps its verdict, with a note. A bound that exceeds the
    claim by less than the margin of the kernel's rounding becomes NOT_REFUTED.
    """
    level, basis = result.bit_level, result.basis
    if result.verdict in REFUTED and basis is not None:
        if any(part.prior is not None for part in basis.parts):
            problem = (
                "the kernel does not know sequential tests: the verdict rests on the program alone"
            )
        else:
            problem = kernel_problem(
                result.claim,
                "value",
                result.parameter_lower,
                result.confidence,
                basis.counts(),
                result.event.to_json() if basis.cells and result.event is not None else None,
            )
        bound, parameter = result.parameter_lower, result.claim.parameter
        if problem.startswith("the kernel"):
            result = replace(result, notes=(*result.notes, problem))
        elif problem.startswith("counts: they do not refute") and bound <= parameter * (
            1 + 1e-6  # the rounding of the kernel may decide
        ):
            why = (
                f"the bound {bound:.12g} exceeds the claim by less than the rounding of the "
                "kernel: the claim is not refuted"
            )
            result = replace(
                result,
                verdict=Verdict.NOT_REFUTED,
                parameter_lower=parameter,
                epsilon_lower=min(result.epsilon_lower, parameter)
                if result.claim.bounds_epsilon
                else result.epsilon_lower,
                notes=(why, *result.notes),
            )
        elif problem:
            symbol = result.claim.symbol
            why = (
                f"the program certifies {symbol} > {bound:.9g} against {symbol} <= "
                f"{parameter:.9g}, but the kernel refuses its counts: {problem}; please report this"
            )
            result = replace(result, verdict=Verdict.ERROR, notes=(why, *result.notes))
    if level is not None and level.verdict in REFUTED and level.tally is not None:
        why = kernel_problem(
            result.claim,
            "bit",
            level.epsilon_lower,
            result.confidence,
            level.basis(result.confidence).counts(),
        )
        if why.startswith(("counts", "bound")):
            result = replace(
                result,
                bit_level=replace(level, verdict=Verdict.ERROR),
                notes=(*result.notes, f"low bits: {why}"),
            )
    return replace(result, causes=tuple(_checked_cause(cause, result) for cause in result.causes))


def _checked_cause(cause: Cause, result: AuditResult) -> Cause:
    """Return the cause, with the verdict ERROR if the kernel refuses its counts. The kernel does
    not check the discount of the bound.
    """
    if cause.verdict not in REFUTED or cause.tally is None:
        return cause
    alpha = error_of_counts(cause.alpha, cause.within)
    problem = kernel_problem(
        result.claim,
        "value",
        partial_bound(result.claim, cause.tally, alpha, cause.lost),
        result.confidence,
        Basis(alpha, (Part(cause.tally, lost=cause.lost),)).counts(),
    )
    return (
        replace(cause, verdict=Verdict.ERROR, words=problem)
        if problem.startswith(("counts", "bound"))
        else cause
    )


def kernel_problem(
    claim: Claim,
    level: str,
    bound: float,
    confidence: float,
    counts: Json,
    event: Json | None = None,
) -> str:
    """Return why the kernel does not accept the counts of a refuted claim, or an empty text."""
    # only an audit that refutes its claim loads the kernel
    from dpwitness.proofs_checks.kernel import checker

    # the accountant's epsilon at a delta
    if isinstance(claim, ApproxDP) and claim.kind not in checker.FORMS:
        claim = ApproxDP(claim.epsilon, claim.delta_budget)
    try:
        known = checker.decode_claim(exact_text(claim), list(claim.numbers))
        plain = checker.read(
            json.dumps(
                {"bound": strict(bound), "confidence": confidence, "counts": counts, "event": event}
            )
        )
        checker.check_counts(known, level, *plain.values())
    except checker.NotChecked as missing:
        return f"the kernel does not check this: {missing}; the verdict rests on the program alone"
    except checker.Refused as refusal:
        # the rounding of several stages adds up
        if str(refusal).startswith("bound") and "stages" in counts:
            return (
                "the kernel refutes the claim, but not every digit of the bound from "
                f"{len(counts['stages']) + 1} stages"
            )
        return str(refusal)
    return ""
