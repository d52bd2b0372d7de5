"""Checks for other people's mechanisms: named functions, chosen by what an object offers, as scikit-learn's estimator checks are."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from concurrent.futures import Executor
from typing import Any

from dpwitness.auditors.black_box.timing import price, require_enough, require_seconds, told_in_time
from dpwitness.auditors.checks import on_runs, on_traces, special_data
from dpwitness.auditors.checks.kit import Check, CheckFailed, Skip, Subject, Tag, budgets
from dpwitness.auditors.pairs.catalogue import pairs_for
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.verdicts import Result, Verdict
from dpwitness.auditors.running.engine import Inline, MechanismFailed, Phase, Stage
from dpwitness.auditors.targets.naming import describe_target
from dpwitness.mechanisms.foreign.described import require_attributes
from dpwitness.mechanisms.foreign.slots import MissingLibrary, TargetError
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.terms.notions import PureDP
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import name_of
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_callable, require_integer, require_runner, require_type, shown

__all__ = ["CHECKS", "CheckFailed", "CheckFinding", "CheckReport", "Skip", "Tag", "check_mechanism", "parametrize_with_checks"]

# every check of these modules, by its name
CHECKS = {name: found for module in (on_runs, on_traces, special_data) for name, found in vars(module).items() if isinstance(found, Check)}
TRIALS = 400_000


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CheckFinding:
    """What one check found: ``passed``, ``failed``, ``skipped`` or ``expected failure``, and why. `violation`: the claim is refuted."""

    check: str
    status: str
    reason: str = ""
    result: AuditResult | None = None
    violation: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class CheckReport(Result):
    """All findings on one mechanism. The verdict is VIOLATED if a check refuted the claim, ERROR if another failed."""

    name: str
    findings: tuple[CheckFinding, ...]
    mechanism: Any = None

    @property
    def failed(self) -> tuple[CheckFinding, ...]:
        return tuple(finding for finding in self.findings if finding.status == "failed")

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        if not self.failed:
            return Verdict.NOT_REFUTED
        return Verdict.VIOLATED if any(finding.violation for finding in self.failed) else Verdict.ERROR

    @property
    def evidence(self) -> str:
        """``statistical``: checks run the mechanism."""
        return "statistical"

    def headline(self) -> str:
        count = {status: sum(f.status == status for f in self.findings) for status in ("passed", "failed", "skipped", "expected failure")}
        told = ", ".join(f"{number} {status}" for status, number in count.items() if number)
        first = f"; {self.failed[0].check}: {self.failed[0].reason}" if self.failed else ""
        return f"{self.name}: {told}{first}"

    def to_json(self) -> Json:
        return {
            "kind": "checks",
            "name": self.name,
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "target": describe_target(self.mechanism) if self.mechanism is not None else None,
            "findings": [{"check": f.check, "status": f.status, "reason": f.reason} for f in self.findings],
        }


def check_mechanism(
    mechanism: Any,
    *,
    pair: Pair | list[Pair] | None = None,
    seed: int = 0,
    trials: int | None = None,
    seconds: float | None = None,
    expected_failures: Mapping[str, str] | None = None,
    checks: Collection[str] | None = None,
    executor: Executor | None = None,
    progress: Callable[[CheckFinding], None] | None = None,
    announce: Callable[[str], None] | None = None,
) -> CheckReport:
    """Run every check that applies to a mechanism.

    Parameters
    ----------
    mechanism : Mechanism or callable
        As in `audit`.
    pair : Pair or list of Pair, optional
        Where to try it; the catalogue's pairs for ``mechanism.domain`` if left out.
    seed : int
        Root seed.
    trials : int, optional
        Runs of the mechanism in all: each check has its share, about half goes to the audit of the claim, and a check whose share is too
        small is skipped with that reason (of fewer than 2,000 some hundred more are made). Left out: twice what a `Target` says for one
        audit, or else 400,000.
    seconds : float, optional
        Instead of `trials`, about how long all checks may take, as in `audit`.
    expected_failures : dict, optional
        Names of checks that are known to fail, with the reason; what a `Target` says if left out. One that passes counts as failed.
    checks : collection of str, optional
        Only these; all of `CHECKS` if left out.
    executor : concurrent.futures.Executor, optional
        As in `audit`.
    progress : callable, optional
        Called with each finding.
    announce : callable, optional
        Called once, before the first check, with a line that says how many runs and how much time are expected.

    Raises
    ------
    InvalidArgument
        If there is no pair to try, or a name is that of no check.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> check_mechanism(Laplace(1.0, arithmetic="grid"), trials=20_000).failed
    ()
    """
    require_callable("progress", progress, "check_mechanism", arguments=1, optional=True)
    subject = _subject(mechanism, pair, seed, trials, executor)
    require_type("expected_failures", expected_failures, Mapping, "be a dict of names and reasons", "check_mechanism", optional=True)
    expected = _known("expected_failures", _expectations(mechanism) if expected_failures is None else expected_failures)
    names = _known("checks", CHECKS if checks is None else checks)
    require_seconds(seconds, trials, "check_mechanism")
    require_callable("announce", announce, "check_mechanism", arguments=1, optional=True)
    if seconds is not None or announce is not None:
        subject = _timed(subject, seconds, announce)
    asked = trials is not None or seconds is not None
    runs = budgets({name: CHECKS[name] for name in names} if asked else CHECKS, subject.trials, subject if asked else None)
    findings = []
    for name, check in CHECKS.items():
        if name in names:
            findings.append(_find(name, check, dataclasses.replace(subject, runs=runs[name]), expected))
            if progress is not None:
                progress(findings[-1])
    return CheckReport(subject.name, tuple(findings), mechanism)


def _subject(mechanism: Any, pair: Pair | list[Pair] | None, seed: int, trials: int | None, executor: Executor | None = None) -> Subject:
    require_runner(executor, None, None, "check_mechanism")
    require_attributes(mechanism)
    seed = require_integer("seed", seed, "check_mechanism", least=0)
    trials = None if trials is None else require_integer("trials", trials, "check_mechanism", most=10**12)
    given: Any = [pair] if isinstance(pair, Pair) else [] if pair is None else pair
    if not isinstance(given, list | tuple) or not all(isinstance(each, Pair) for each in given):
        raise InvalidArgument(f"check_mechanism: pair must be a Pair or a list of Pairs, got {shown(pair)}")
    pairs = list(given)
    if not pairs:
        domain = getattr(mechanism, "domain", None)
        if domain is None:
            raise InvalidArgument("pair must be given for a mechanism without a domain, got None")
        pairs = pairs_for(domain)
    own = mechanism.trials if isinstance(mechanism, Target) else None
    return Subject(mechanism, name_of(mechanism), pairs, seed, trials or (2 * own if own else TRIALS), executor)


def _timed(subject: Subject, seconds: float | None, announce: Callable[[str], None] | None) -> Subject:
    """The subject with the runs that fit into a time; says what is expected."""
    batch = (subject.mechanism.batch if isinstance(subject.mechanism, Target) else None) or 2**30

    def stage(size: int) -> Stage:
        return Stage(subject.run, subject.pairs[0], subject.seed, (8, 0, Phase.TIMING), size, min(size, batch), 600.0)

    executor, trials, pairs = subject.executor or Inline(), subject.trials, 2 * len(subject.pairs)  # half the checks are audits too
    try:
        found = price(stage, getattr(subject.mechanism, "claim", None) or PureDP(1.0), executor, seconds)
    finally:
        if subject.executor is None:
            executor.shutdown(wait=False)
    if seconds is not None:
        trials = found.trials(seconds, pairs)
        require_enough(found, trials, seconds, "check_mechanism")
    if announce is not None:
        expected = told_in_time(found.time(trials, pairs))
        announce(f"{subject.name}: {trials:,} runs at {told_in_time(found.run)} each, about {expected} expected")
    return dataclasses.replace(subject, trials=trials)


def _expectations(mechanism: Any) -> Mapping[str, str]:
    return mechanism.expected_failures if isinstance(mechanism, Target) else {}


def _known(argument: str, names: Any) -> Any:
    if not isinstance(names, list | tuple | Set | Mapping):
        raise InvalidArgument(f"{argument} must hold names of checks, got {shown(names)}")
    for name in names:
        if not isinstance(name, str) or name not in CHECKS:
            raise InvalidArgument(f"{argument} must name checks ({', '.join(CHECKS)}), got {shown(name)}")
    return names


def _find(name: str, check: Check, subject: Subject, expected: Mapping[str, str]) -> CheckFinding:
    try:
        check(dataclasses.replace(subject, pairs=copy.deepcopy(subject.pairs)))  # what one check spoils is no other's concern
    except Skip as reason:
        return CheckFinding(name, "skipped", str(reason))
    except (CheckFailed, MechanismFailed, ValueError) as error:
        result, violation = getattr(error, "result", None), getattr(error, "violation", False)
        if name in expected:
            return CheckFinding(name, "expected failure", expected[name], result)
        return CheckFinding(name, "failed", str(error), result, violation)
    if name in expected:
        return CheckFinding(name, "failed", f"it passes, though a failure was expected: {expected[name]}")
    return CheckFinding(name, "passed")


def parametrize_with_checks(
    mechanisms: Iterable[Any],
    *,
    seed: int = 0,
    trials: int | None = None,
    expected_failures: Callable[[Any], Mapping[str, str]] | None = None,
) -> Any:
    """Decorate a test ``def test_x(mechanism, check)`` so that it becomes one item for each mechanism and check.

    The test calls ``check(mechanism)``, which raises if the mechanism fails. Checks that do not apply are skipped, as are all checks of a
    `Target` whose library is not installed; one that cannot be used for another reason fails them all. Expected failures, which
    `expected_failures` (or a target file) gives for each mechanism, are marked as strict xfail.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> @parametrize_with_checks([Laplace(1.0, arithmetic="grid")])
    ... def test_my_mechanisms(mechanism, check):
    ...     check(mechanism)
    """
    import pytest

    def bound(check: Check, subjects: dict[int, Subject]) -> Callable[[Any], None]:
        def run(mechanism: Any) -> None:
            if id(mechanism) not in subjects:
                subjects[id(mechanism)] = _subject(mechanism, None, seed, trials)
            subject = subjects[id(mechanism)]
            runs = budgets(CHECKS, subject.trials, subject if trials is not None else None)[check.__name__]
            try:
                check(dataclasses.replace(subject, pairs=copy.deepcopy(subject.pairs), runs=runs))
            except Skip as reason:
                pytest.skip(str(reason))

        return run

    items = []
    subjects: dict[int, Subject] = {}
    for mechanism in mechanisms:
        label, missing = name_of(mechanism), []
        try:
            expected = _known("expected_failures", expected_failures(mechanism) if expected_failures else _expectations(mechanism))
        except MissingLibrary as error:
            expected, missing = {}, [pytest.mark.skip(reason=str(error))]
        except TargetError:  # whoever runs the check sees it
            expected = {}
        for name, check in CHECKS.items():
            marks = [pytest.mark.xfail(reason=expected[name], strict=True)] if name in expected else missing
            items.append(pytest.param(mechanism, bound(check, subjects), id=f"{label}-{name}", marks=marks))
    return pytest.mark.parametrize(("mechanism", "check"), items)
