"""Audits of the entries of a target file within a time budget: deterministic ones first, then
traces, then statistics. A violation of a guessed claim is a suspicion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.functions.declared_targets import DECLARED, DeclaredRelations
from dpwitness.auditors.functions.metamorphic.audit import check_relation
from dpwitness.auditors.functions.metamorphic.relations import outcome
from dpwitness.auditors.scanning.trials import limits
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.traces.trace import trace
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.clocks import read_clock
from dpwitness.core.claims import ApproxDP
from dpwitness.core.domains import Domain
from dpwitness.core.domains.records import Records
from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.target import Target


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class GuessedResult(Result):
    """Violation of a guessed claim about an accountant or a transformation.

    Attributes
    ----------
    name : str
        Name of the audited function.
    guess : str
        What a scan has guessed.
    finding : Result
        The violation, if the guess is right.
    verdict : Verdict
        SUSPECT.
    """

    kind: ClassVar[str] = "guessed"

    guess: str
    finding: Result

    def _claim_text(self) -> str:
        return self.finding._claim_text()

    @property
    def evidence(self) -> str:
        """Return the evidence of the finding."""
        return self.finding.evidence

    def headline(self) -> str:
        """Return the finding in one line, as a suspicion."""
        return f"SUSPECT: {self.finding.headline().removeprefix('VIOLATED: ')}, if {self.guess}"

    def _fields(self) -> Json:
        return {"guessed": self.guess, "finding": self.finding.to_json()}


def with_guess(result: Result, guess: object) -> Result:
    """Return the result, or a suspicion in place of a violation if something about the claim is
    guessed.
    """
    if result.verdict is Verdict.VIOLATED and isinstance(guess, str) and guess:
        return GuessedResult(
            name=result.name,
            verdict=Verdict.SUSPECT,
            notes=(f"not confirmed: {guess}", *result.notes),
            target=result.target,
            seconds=result.seconds,
            guess=guess,
            finding=result,
        )
    return result


# of one audit, whose learning takes a second or two however fast the mechanism is
_LEAST_SECONDS, _MOST_SECONDS = 5.0, 64.0
# of both audits of a target together, and error probability of the brief one
_CONFIDENCE, _BRIEF_ERROR = 0.99, 0.002
# kind of a declared target -> its audit
_KINDS = {"transformation": "stability", "accountant": "accounting", "metamorphic": "relations"}
# runs of a relation: timed, on each dataset, and number of datasets
_TIMED, _LEAST_RUNS, _MOST_RUNS, _SAMPLES = 8, 1000, 8000, 16
_WORST_FIRST = (
    Verdict.VIOLATED,
    Verdict.SUSPECT,
    Verdict.INCONCLUSIVE,
    Verdict.ERROR,
    Verdict.NOT_REFUTED,
)


@dataclass(frozen=True, slots=True)
class Audited:
    """Outcome of one entry of a target file.

    Attributes
    ----------
    name : str
        Name of the entry.
    how : tuple of str
        Audits that were made: ``stability``, ``accounting``, ``relations``, ``trace``, ``black
        box``.
    results : tuple of Result
        Results for the report, the decisive one first.
    why : str
        Why there is no result.
    findings : tuple of str
        Findings of the trace, confirmed or not.
    """

    name: str
    how: tuple[str, ...] = ()
    results: tuple[Result, ...] = ()
    why: str = ""
    findings: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict of the decisive result; None without one."""
        return self.results[0].verdict if self.results else None

    @property
    def verdict_name(self) -> str:
        """Return the name of the verdict; empty without one."""
        return self.results[0].verdict.value if self.results else ""


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Inputs of the audits of a scan.

    Attributes
    ----------
    file : Path
        The target file.
    python : str or None
        Interpreter of the package.
    folder : Path
        The only folder that the package may write to.
    seconds, clock : float, str
        Time budget, and what it counts (of `clocks.CLOCKS`).
    memory : float
        Limit of each worker's address space in gigabytes; 0 for none.
    seed : int
        Root of all randomness.
    """

    file: Path
    python: str | None
    folder: Path
    seconds: float
    memory: float = 0.0
    seed: int = 0
    clock: str = "wall"

    def now(self) -> float:
        """Return the time on the budget's clock."""
        return read_clock(self.clock)()

    def target(self, name: str) -> Target:
        return Target(str(self.file), name, self.python, {}, 60.0, self.memory)


def audit_entries(
    plan: AuditPlan,
    names: Sequence[str],
    declared: Mapping[str, Json],
    progress: Callable[[str], None] | None = None,
) -> Iterator[Audited]:
    """Yield the outcome of each entry as soon as it is known.

    Parameters
    ----------
    plan : AuditPlan
        File, interpreter, budget.
    names : sequence of str
        Targets with a claim.
    declared : mapping of str to dict
        Transformations, accountants and relations that the file declares.
    progress : callable, optional
        Called with a line on what is done.
    """
    announce = progress or (lambda line: None)
    deadline = plan.now() + plan.seconds
    with limits(plan.folder):
        exact = [
            name
            for name, declaration in declared.items()
            if declaration.get("kind") != "metamorphic"
        ]
        for name in exact:
            announce(f"{name}: {declared[name].get('kind')}")
            # half of the time for all entries together
            yield _audit_declared(plan, name, declared[name], 0.5 * plan.seconds / len(exact))
        for name in names:
            announce(f"{name}: exceptions on neighboring datasets")
            yield from _audit_errors(plan, name, 0.05 * plan.seconds / len(names))
        yield from _audit_relations(
            plan, {name: each for name, each in declared.items() if name not in exact}, announce
        )
        traced = {}
        # share of the remaining time for traces
        trace_deadline = plan.now() + 0.2 * max(deadline - plan.now(), 0.0)
        for name in names:
            if plan.now() < trace_deadline:
                announce(f"{name}: trace")
                traced[name] = _trace(plan, name)
        yield from _audit_statistically(plan, names, traced, deadline, announce)


def _audit_declared(plan: AuditPlan, name: str, declaration: Json, seconds: float) -> Audited:
    """Return the outcome of a transformation or an accountant, which `auditors.stability` and
    `auditors.accounting` audit.
    """
    kind, target = str(declaration.get("kind")), plan.target(name)
    if kind not in DECLARED:
        return Audited(name, why=f"its kind {kind!r} is unknown")
    try:
        (result,) = (
            DECLARED[kind].of(target).audit(seconds=max(min(10.0, seconds), 0.5), seed=plan.seed)
        )
    except (InvalidArgument, MechanismFailed) as error:
        return Audited(name, why=_line(error))
    return Audited(name, (_KINDS[kind],), (with_guess(result, declaration.get("guessed")),))


def _audit_errors(plan: AuditPlan, name: str, seconds: float) -> Iterator[Audited]:
    """Yield the outcome of a comparison of exceptions on neighboring datasets, on as many pairs as
    the time allows, if they differ.
    """
    target = plan.target(name)
    try:
        claim, domain = target.claim, target.domain
        if not isinstance(claim, ApproxDP) or domain is None:
            return
        cases, begin = [(pair.d0, pair.d1) for pair in pairs_for(domain)[:12]], plan.now()
        outcome(target.sample, cases[0][0], 1, np.random.default_rng(plan.seed))
        fitting = int(seconds / max(plan.now() - begin, 1e-9) / 2)
        options: Json = {"epsilon": claim.epsilon, "delta": claim.delta_budget, "seed": plan.seed}
        result = (
            check_relation("errors_ignore_one_record", target, cases[:fitting], options, name)
            if fitting
            else None
        )
    except (InvalidArgument, MechanismFailed):
        return  # the audits of the claim say why
    if result is not None and result.verdict is Verdict.VIOLATED:
        guess = "an analyst sees whether a run raises" + (
            f", and {target.guessed}" if target.guessed else ""
        )
        yield Audited(name, ("relations",), (with_guess(result, guess),))


def _audit_relations(
    plan: AuditPlan, declared: Mapping[str, Json], announce: Callable[[str], None]
) -> Iterator[Audited]:
    """Yield the outcomes of declared relations, those of a mechanism under its name, until their
    share of the time is spent.
    """
    deadline = plan.now() + 0.1 * plan.seconds
    for position, (name, declaration) in enumerate(declared.items()):
        share = (deadline - plan.now()) / (len(declared) - position)
        announce(f"{name}: relations")
        audited = str(declaration.get("mechanism") or declaration.get("at_epsilon") or name)
        try:
            found, guess = (
                DeclaredRelations(plan.target(name), declaration),
                declaration.get("guessed"),
            )
            mechanism = found.mechanism
            if mechanism is not None:
                guess = guess or mechanism.guessed
                runs = (
                    {}
                    if mechanism.domain is None
                    else {"runs": _runs_within(plan, mechanism, mechanism.domain, share)}
                )
                found = replace(found, declaration=runs | declaration)
            results = [with_guess(result, guess) for result in found.audit(seed=plan.seed)]
        except (InvalidArgument, MechanismFailed) as error:
            yield Audited(audited, why=_line(error))
        else:
            yield Audited(
                audited,
                ("relations",),
                tuple(sorted(results, key=lambda result: _WORST_FIRST.index(result.verdict))),
            )


def _runs_within(plan: AuditPlan, target: Target, domain: Domain, seconds: float) -> int:
    """Return the number of runs on each of 16 datasets for which the time suffices. Raise
    InvalidArgument if they are too few.
    """
    pair, begin = pairs_for(domain)[0], plan.now()
    target.sample(pair.d0, _TIMED, np.random.default_rng(0))
    runs = int(seconds * _TIMED / max(plan.now() - begin, 1e-9) / _SAMPLES)
    if runs < _LEAST_RUNS:
        raise InvalidArgument(
            f"relations of {target.name} need {_LEAST_RUNS:,} runs on each dataset: raise --seconds"
        )
    return min(runs, _MOST_RUNS)


def _trace(plan: AuditPlan, name: str) -> tuple[str, ...]:
    """Return the findings of a trace of one target; empty if there are none, or the target cannot
    be traced.
    """
    target = plan.target(name)
    try:
        found = trace(target, pairs=2, seed=plan.seed, confirm=False, time_limit=10.0, name=name)
    except (InvalidArgument, MechanismFailed):
        return ()
    return tuple(
        f"{finding.kind}: {finding.message}"
        for finding in found.findings
        if finding.kind != "SOURCE"
    )


def _audit_statistically(
    plan: AuditPlan,
    names: Sequence[str],
    traced: Mapping[str, tuple[str, ...]],
    deadline: float,
    announce: Callable[[str], None],
) -> Iterator[Audited]:
    """Yield black-box audits: first of targets whose trace has findings, then of the others, then
    of other values if time is left.

    If the time allows, all targets have a brief audit first, so that a target without a finding
    does not delay the finding of another one.
    """
    weights = {name: 3 if traced.get(name) else 1 for name in names}
    order, confidence = sorted(names, key=lambda name: -weights[name]), _CONFIDENCE
    # share of the remaining time for brief audits of all targets before longer ones
    seconds = min(0.3 * (deadline - plan.now()) / max(len(names), 1), 10.0)
    if len(names) > 1 and seconds >= _LEAST_SECONDS:
        confidence += _BRIEF_ERROR
        for name in tuple(order):
            announce(f"{name}: black box, brief")
            found = _audit_one(plan, name, seconds, confidence=1 - _BRIEF_ERROR)
            if found.verdict in (Verdict.VIOLATED, Verdict.SUSPECT):
                yield replace(
                    found,
                    how=("trace", "black box") if name in traced else ("black box",),
                    findings=traced.get(name, ()),
                )
                order.remove(name)
            if _is_interrupted(found):
                return
    kept: list[str] = []
    for position, name in enumerate(order):
        left, share = deadline - plan.now(), sum(weights[other] for other in order[position:])
        seconds = max(0.7 * left * weights[name] / share, _LEAST_SECONDS)
        announce(f"{name}: black box, {position + 1} of {len(order)}")
        how = ("trace", "black box") if name in traced else ("black box",)
        if left < _LEAST_SECONDS and position:
            yield Audited(
                name,
                how[:-1],
                why="the time budget was spent before its audit: raise --seconds",
                findings=traced.get(name, ()),
            )
            continue
        found = _audit_one(plan, name, min(seconds, _MOST_SECONDS), confidence=confidence)
        yield replace(found, how=how if found.results else how[:-1], findings=traced.get(name, ()))
        if found.verdict is Verdict.NOT_REFUTED:
            kept.append(name)
        if _is_interrupted(found):
            return
    yield from _audit_other_values(plan, kept, deadline, announce)


def _is_interrupted(found: Audited) -> bool:
    return found.verdict is Verdict.INCONCLUSIVE and any(
        "interrupted" in note for note in getattr(found.results[0], "notes", ())
    )


def _audit_one(
    plan: AuditPlan,
    name: str,
    seconds: float,
    domain: Domain | None = None,
    what: str = "",
    confidence: float = _CONFIDENCE,
) -> Audited:
    """Return the outcome of a black-box audit of one target on the pairs of its domain, or of
    `domain`, which `what` describes.
    """
    target = plan.target(name)
    options: Json = {
        "domain": domain,
        "seed": plan.seed,
        "stop": "violation",
        "time_limit": 60.0,
        "confidence": confidence,
        "seconds": seconds,
        "clock": plan.clock,
        # low bits leak in nearly all floating-point noise, and do not count for the exit code
        "bits": False,
        "name": f"{name} ({what})" if what else name,
    }
    try:
        result = audit(target, **options)
    except (InvalidArgument, MechanismFailed) as error:
        return Audited(name, why=_line(error))
    return Audited(name, ("black box",), (result,))


def other_values(domain: Domain | None) -> dict[str, Domain]:
    """Return domains with values that the first audit leaves out: missing values, and values
    outside of the bounds.
    """
    if not isinstance(domain, Records) or domain.integer:
        return {}
    return {
        "records may be NaN": replace(domain, missing=True),
        "records may be outside of the bounds": replace(domain, outside=True),
    }


def _audit_other_values(
    plan: AuditPlan, names: Sequence[str], deadline: float, announce: Callable[[str], None]
) -> Iterator[Audited]:
    """Yield audits of guessed claims on values that their domain leaves out, if time is left; only
    violations are reported.
    """
    jobs = []
    for name in names:
        target = plan.target(name)
        # whether a stated claim covers other values than its domain is not for a scan to say
        if target.guessed:
            jobs += [(name, what, domain) for what, domain in other_values(target.domain).items()]
    for position, (name, what, domain) in enumerate(jobs):
        seconds = (deadline - plan.now()) / (len(jobs) - position)
        if seconds < _LEAST_SECONDS:
            return
        announce(f"{name}: {what}, {position + 1} of {len(jobs)}")
        found = _audit_one(plan, name, min(seconds, _MOST_SECONDS), domain, what)
        if found.verdict is Verdict.SUSPECT:
            result = found.results[0]
            assert isinstance(result, AuditResult)
            notes = (f"{result.notes[0]}, and that {what}", *result.notes[1:])
            yield replace(
                found,
                results=(
                    replace(result, notes=notes, guessed=f"{result.guessed}, and that {what}"),
                ),
            )


def _line(error: Any) -> str:
    return " ".join(str(error).split())[:200]
