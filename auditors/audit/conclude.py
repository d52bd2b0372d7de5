"""Stage 5 of an audit, the conclusion: the result of the findings, also of an audit that failed or
was interrupted; and hints on the declaration of a domain: wider bounds where no pair changes the
outputs, and categories where outputs are texts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from dpwitness.auditors.audit.kernel_check import checked_by_kernel
from dpwitness.auditors.audit.options import EARLY_ALPHA, AuditOptions
from dpwitness.auditors.audit.result import AuditResult, BitLevel, PairScore
from dpwitness.auditors.audit.runner import RoundRunner
from dpwitness.auditors.audit.test import EventTest
from dpwitness.auditors.audit.violations import Counted, require_independent
from dpwitness.auditors.events.detectable_violation import detectable
from dpwitness.auditors.events.outputs import UNAUDITED_PREFIX, Outputs
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.statistics.anytime import equivalent_level
from dpwitness.auditors.statistics.certificate import Tally
from dpwitness.auditors.statistics.combination import shares_spent
from dpwitness.auditors.traces.evidence import TraceEvidence
from dpwitness.auditors.witnesses.audit_records import AuditLedger
from dpwitness.auditors.witnesses.recompute import Cause
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.engine import MechanismFailed, explained, outputs
from dpwitness.auditors.workers.pair_exercise import difference, exercised
from dpwitness.auditors.workers.statefulness import Unfit
from dpwitness.core.claims import resolved
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.values.json_codec import from_jsonable, to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.target import Target

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

    def on(self, pair: Pair, runner: RoundRunner) -> Findings:
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
            runner.note(
                "low bits were examined on another pair, where they certify epsilon > "
                f"{level.epsilon_lower:.4g}"
            )
            level = None
        runner.note(*remarks)
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
        bits, level = data["bits"], None
        if bits is not None:
            level = BitLevel(
                Verdict(bits["verdict"]),
                from_jsonable(bits["lower"]),
                None if bits["pair"] is None else pairs[bits["pair"]],
                None if bits["event"] is None else read_event(bits["event"]),
                None if bits["tally"] is None else Tally(*bits["tally"]),
                bits["alpha"],
                bits["lost"],
            )
        scores = tuple(
            PairScore(pairs[at], from_jsonable(expected), confirmed)
            for at, expected, confirmed in data["pairs"]
        )
        tests = [EventTest.from_json(each, pairs, data["best"]) for each in data["tested"]]
        trace = TraceEvidence.from_json(data["trace"]) if data.get("trace") else None
        causes = tuple(map(Cause.from_json, data.get("causes") or ()))
        return cls(
            replace(options, probe=data["probe"]),
            scores,
            level,
            tests[0] if tests else None,
            data["extensions"],
            trace,
            causes,
        )


def conclude(runner: RoundRunner, options: AuditOptions, stages: Iterator[Findings]) -> AuditResult:
    """Run the stages of an audit and return its result; if they are interrupted or fail, return
    what was found.
    """
    findings, interrupted, failure, doubt = Findings(options), False, "", ""
    try:
        findings, interrupted, failure = _last(stages, findings)
        if (interrupted or failure) and findings.causes is not None:  # the test had ended
            runner.note(
                f"the causes of the violation were not separated: {failure or 'interrupted'}"
            )
            interrupted, failure = False, ""
        if not failure and (
            not interrupted or (findings.test is not None and findings.test.sequential)
        ):
            doubt, failure = _compare(runner, findings)
            findings = _withdrawn(findings) if doubt or failure else findings
    finally:
        runner.close()
        if (interrupted or failure) and isinstance(options.mechanism, Target):
            options.mechanism.close()  # stop busy workers
            wait(runner.pace.under_way, timeout=5.0)  # running tasks end with their target
            options.mechanism.close()  # stop workers that a running task has started since
        if runner.ledger is not None:
            runner.ledger.flush()
    result = checked_by_kernel(build_result(runner, findings, interrupted, failure, doubt))
    result = replace(result, seconds=runner.elapsed, cpu_seconds=runner.elapsed_cpu)
    return (
        result
        if runner.ledger is None
        else _store_result(runner, runner.ledger, findings.extensions, result)
    )


def _last(stages: Iterator[Findings], start: Findings) -> tuple[Findings, bool, str]:
    """Return the last findings of the stages, whether the user interrupted them, and why they
    failed; an empty text if they did not.
    """
    findings = start
    try:
        for findings in stages:  # noqa: B007
            pass
    except KeyboardInterrupt:
        return findings, True, ""
    except MechanismFailed as error:
        return _withdrawn(findings) if isinstance(error, Unfit) else findings, False, str(error)
    except BrokenExecutor as error:  # raised by `submit`, if a worker died between two chunks
        return findings, False, explained(error) or str(error)
    return findings, False, ""


def _withdrawn(findings: Findings) -> Findings:
    """Return the findings without counts, which certify nothing if runs are not independent."""
    return replace(findings, test=None, bit_level=None, causes=None)


def _compare(runner: RoundRunner, findings: Findings) -> tuple[str, str]:
    """Compare the runs of a violation with fresh ones; return why the violation is in doubt, and
    why the runs certify nothing.
    """
    try:
        return require_independent(runner, counted_violations(findings)), ""
    except KeyboardInterrupt:
        return "interrupted before the violation was compared with fresh runs", ""
    except Unfit as error:
        return "", str(error)
    except (MechanismFailed, BrokenExecutor) as error:
        runner.note(f"the violation was not compared with fresh runs: {explained(error) or error}")
        return "", ""


def counted_violations(findings: Findings) -> list[Counted]:
    """Return the events whose counts violate the claim."""
    found, test, level = list[Counted](), findings.test, findings.bit_level
    if test is not None and findings.refuted:
        lost = test.parts[-1].lost if test.parts else 0
        cells = np.array(test.basis.cells) if test.basis is not None and test.basis.cells else None
        found.append(Counted(test.pair, test.index, test.event, test.tally, lost, cells))
        causes = [each for each in findings.causes or () if each.verdict is Verdict.VIOLATED]
        found += [
            Counted(test.pair, test.index, each.event, each.tally, each.lost)
            for each in causes
            if each.event and each.tally
        ]
    if (
        level is not None
        and level.verdict is Verdict.VIOLATED
        and level.pair
        and level.event
        and level.tally
    ):
        found.append(Counted(level.pair, 0, level.event, level.tally, level.lost))
    return found


def _store_result(
    runner: RoundRunner, ledger: AuditLedger, extensions: int, result: AuditResult
) -> AuditResult:
    """Store the result, unless the store holds a later extension, and return it with notes on the
    store.
    """
    entry = ledger.entry
    if len(ledger.values("end ")) <= extensions + 1:
        ledger.finish(result, runner.done, runner.planned)
    elif entry.verdict not in (None, result.verdict.value):
        note = (
            f"{ledger.store.path} holds an extension that is {entry.verdict}: --extend "
            f"{entry.planned} shows it"
        )
        result = replace(result, notes=(note, *result.notes))
    if ledger.trouble:
        note = (
            f"{ledger.store.path} could not be written to the end ({ledger.trouble}): a "
            "continued audit repeats the runs "
            f"that are not stored"
        )
        result = replace(result, notes=(*result.notes, note), unstored=ledger.trouble)
    return result


def build_result(
    runner: RoundRunner,
    findings: Findings,
    interrupted: bool = False,
    failure: str = "",
    doubt: str = "",
) -> AuditResult:
    """Return the result of the findings; `doubt` is why a violation is not believed."""
    # durations of segments are wall time: on a busy machine they grow while the CPU time does not
    if runner.clock == "wall":
        runner.note(*filter(None, [runner.costs.growth()]))
    options, test = findings.options, findings.test
    guess = guess_of(options.mechanism)
    base = AuditResult(
        name=options.name,
        claim=options.claim,
        verdict=Verdict.ERROR,
        confidence=options.confidence,
        seed=options.seed,
        trials=runner.done,
        requested=runner.planned,
        bit_level=findings.bit_level and _suspected(findings.bit_level, guess),
        pairs=findings.pairs,
        trace=findings.trace,
        notes=tuple(runner.notes),
        target=options.target,
        scores=options.scores,
        subject=options.mechanism,
        guessed=guess,
    )
    if test is None:
        note = failure or doubt or "interrupted before the test began: no event has been tried yet"
        return replace(
            base,
            verdict=Verdict.ERROR if failure else Verdict.INCONCLUSIVE,
            notes=(note, *base.notes),
        )
    # interrupted within an epoch
    if test.sequential and (test.basis is None or test.basis.parts != test.parts):
        test = test.look(options.claim, options.alpha, options.alpha, runner.done)
    share = shares_spent(findings.extensions)
    verdict, moved, notes = _verdict(runner, findings, test, interrupted, failure)
    level = equivalent_level(test.alpha) if test.sequential else test.alpha * (1 - EARLY_ALPHA)
    if verdict is Verdict.VIOLATED and guess:
        verdict, notes = Verdict.SUSPECT, (f"not confirmed: {guess}", *notes)
    return replace(
        base,
        verdict=verdict,
        trace=findings.trace.refuted_by_counts()
        if findings.trace is not None and findings.refuted
        else findings.trace,
        epsilon_lower=test.epsilon,
        parameter_lower=test.lower,
        p_value=min(1.0, test.p_value * share),
        confidence=1 - share * options.alpha if share > 1 else options.confidence,
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
        exercised=moved,
        notes=notes,
        causes=tuple(_suspected(each, guess) for each in findings.causes or ()),
    )


def guess_of(mechanism: object) -> str:
    """Return the parts of a target's claim that a scan guessed (attribute `guessed`); empty for
    other mechanisms.
    """
    found = (
        getattr(mechanism, "guessed", "")
        if isinstance(mechanism, Target) or callable(mechanism)
        else ""
    )
    return found if isinstance(found, str) else ""


def _suspected(found: _Found, guess: str) -> _Found:
    """Return the bit level or cause; the verdict on a violation of a guessed claim is SUSPECT."""
    suspect = guess and found.verdict is Verdict.VIOLATED
    return replace(found, verdict=Verdict.SUSPECT) if suspect else found


def _verdict(
    runner: RoundRunner, findings: Findings, test: EventTest, interrupted: bool, failure: str
) -> tuple[Verdict, bool | None, tuple[str, ...]]:
    """Return the verdict, whether some pair exercises the mechanism, and the notes, of which the
    first explains the verdict.
    """
    claim, level = findings.options.claim, findings.bit_level
    refuted = test.lower > claim.parameter
    verdict = Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED
    notes = sorted(runner.notes, key=lambda note: not note.startswith(UNAUDITED_PREFIX))
    if not refuted and notes and notes[0].startswith(UNAUDITED_PREFIX):
        verdict = Verdict.INCONCLUSIVE
    moved, reason = None, ""
    if interrupted and not failure and test.sequential:
        notes.append(
            f"stopped by the user after {runner.done} runs, which a sequential audit allows"
        )
        interrupted = False
    if interrupted or failure:
        verdict = Verdict.INCONCLUSIVE if interrupted else Verdict.ERROR
        notes.insert(
            0,
            failure
            or f"interrupted after {runner.done} of {runner.planned} runs; the bound is from "
            "the last completed interim look",
        )
        if refuted:
            notes.insert(
                1, f"a violation had been certified by then: {claim.symbol} > {test.lower:.4g}"
            )
    else:
        moved, reason = exercised(claim, test.parts, runner.seen, max(1, len(findings.pairs)))
    if refuted or (level is not None and level.epsilon_lower > 0):
        moved = True
    if moved is False:
        verdict = Verdict.INCONCLUSIVE
        notes = [
            *(note for note in notes if note.startswith(_FORKS)),
            reason,
            *(note for note in notes if not note.startswith(_FORKS)),
        ]
    elif moved is None and reason:
        notes.append(reason)
    if not refuted and not failure and findings.trace is not None and findings.trace.contradicts:
        verdict = Verdict.INCONCLUSIVE
        notes.insert(0, findings.trace.headline(claim))
    return verdict, moved, tuple(notes)


_WIDER_PAIRS, _WIDER_ROUNDS, _WIDER_LEVEL = 6, 400, 1e-6


def suggest_wider_domain(runner: RoundRunner, findings: Findings, domain: Domain) -> None:
    """Add a note on wider bounds of a domain that change the outputs, if none of the pairs in the
    declared domain does.

    Pairs outside the declared domain cannot refute the claim.
    """
    parts = findings.test.parts if findings.test else ()
    if (
        exercised(findings.options.claim, parts, runner.seen, max(1, len(findings.pairs)))[0]
        is not False
    ):
        return
    runs = 0
    for wide, text in _wider_domains(domain):
        for number, pair in enumerate(pairs_for(wide)[:_WIDER_PAIRS]):
            # a phase number above those of all extensions
            stage = runner.stage(pair, 1_000_000, number, _WIDER_ROUNDS, _WIDER_ROUNDS)
            runs += _WIDER_ROUNDS
            try:
                sides = [side for found in outputs(stage, runner.executor) for side in found.sides]
            except (MechanismFailed, InvalidArgument):
                continue
            if any(
                one is not None and zero is not None and difference(one, zero) < _WIDER_LEVEL
                for one, zero in sides
            ):
                runner.note(
                    f"no pair of {_domain_text(domain)} changes the outputs; {text} do "
                    f"({runs:,} more runs): declare the domain as "
                    f"{_domain_text(wide)} if such data can occur; pairs outside of the "
                    "declared domain cannot refute the claim"
                )
                return


def suggest_categories(
    runner: RoundRunner, domain: Domain, known: Sequence[tuple[Outputs, Outputs]]
) -> None:
    """Add a note if outputs contain texts although the domain has integers: the integers may be
    labels, of which a rare one matters.
    """
    integer, categories = getattr(domain, "integer", False), getattr(domain, "categories", False)
    if not integer or categories or not any(side.texts for sides in known for side in sides):
        return
    how = '"categories": true' if integer is True else f'"categories": {list(integer)}'
    runner.note(
        "outputs contain texts, and the domain has integers: if the integers are labels "
        f"without an order, add {how} to the domain, "
        "so that pairs with rare labels are tried"
    )


def _wider_domains(domain: Domain) -> Iterator[tuple[Domain, str]]:
    """Yield versions of the domain with wider bounds, and a description of the new data."""
    given: Any = domain
    low, high = getattr(domain, "low", None), getattr(domain, "high", None)
    features = getattr(domain, "features", None)
    for factor in (10.0, 100.0, 10_000.0):
        for down in (False, True):
            if (
                isinstance(low, int | float)
                and isinstance(high, int | float)
                and dataclasses.is_dataclass(domain)
            ):
                ends = _widen_interval(low, high, factor, down)
                changes: list[dict[str, Any]] = [{"low": ends[0], "high": ends[1]}]
                changes += (
                    [changes[0] | {"integer": True}]
                    if getattr(domain, "integer", None) is False
                    else []
                )
                text = f"values down to {ends[0]:g}" if down else f"values up to {ends[1]:g}"
            elif features and dataclasses.is_dataclass(domain):
                changes = [
                    {"features": tuple(_widen_interval(*ends, factor, down) for ends in features)}
                ]
                text = f"features with bounds {factor:g} times as wide"
            else:
                return
            for change in changes:
                try:
                    wide = dataclasses.replace(given, **change)
                except (InvalidArgument, TypeError, ValueError):
                    continue
                yield wide, text + (" (whole numbers)" if change.get("integer") else "")


def _widen_interval(low: float, high: float, factor: float, down: bool) -> tuple[float, float]:
    """Return the interval with its upper (or lower, if `down`) end moved by `factor` times its
    length.
    """
    more = (high - low) * factor
    ends = (low - more if down else low, high if down else low + more)
    whole = isinstance(low, int) and isinstance(high, int)
    return (int(ends[0]), int(ends[1])) if whole else ends


def _domain_text(domain: Domain) -> str:
    """Return a text of the domain with its bounds, without other fields at their default."""
    given: Any = domain
    values = {
        field.name: (getattr(domain, field.name), field.default)
        for field in dataclasses.fields(given)
    }
    text = [
        f"{name}={value!r}"
        for name, (value, default) in values.items()
        if value != default or name in ("low", "high")
    ]
    return f"{type(domain).__name__}({', '.join(text)})"
