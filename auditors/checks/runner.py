"""Checks of user-written mechanisms: named functions, chosen by what an object offers, like
scikit-learn's estimator checks.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from concurrent.futures import Executor
from typing import Any, ClassVar

from dpwitness.auditors.audit.conclude import guess_of
from dpwitness.auditors.audit.options import (
    format_duration,
    of_clock,
    price,
    require_attributes,
    require_enough_trials,
    require_seconds,
)
from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.checks import run_checks
from dpwitness.auditors.checks.check import (
    Check,
    CheckFailed,
    SideChannel,
    Skip,
    Subject,
    Tag,
    budgets,
)
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.witnesses.kinds import (
    CardTable,
    Fact,
    Facts,
    Kind,
    Recomputed,
    raise_damaged,
    require_field,
    run_facts,
)
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.descriptions import describe_target
from dpwitness.auditors.workers.rounds import Phase
from dpwitness.core.claims import PureDP, promised
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import MechanismFailed, name_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    did_you_mean,
    error_text,
    require_callable,
    require_integer,
    require_run_options,
    require_that,
    require_type,
    short_repr,
)
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import MissingLibrary, TargetError

__all__ = [
    "CHECKS",
    "CheckFailed",
    "CheckFinding",
    "CheckReport",
    "Skip",
    "Tag",
    "check_mechanism",
    "parametrize_with_checks",
]

CHECKS = {name: found for name, found in vars(run_checks).items() if isinstance(found, Check)}
STATUSES = ("passed", "failed", "note", "skipped", "expected failure")
TRIALS = 400_000


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CheckFinding:
    """Result of one check: status ``passed``, ``failed``, ``note``, ``skipped`` or ``expected
    failure``, and the reason.

    A note is a difference outside of the outputs, such as the number of draws. `violation` is
    true if the claim is refuted.
    """

    check: str
    status: str
    reason: str = ""
    result: AuditResult | None = None
    violation: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class CheckReport(Result):
    """All findings on one mechanism.

    The verdict is VIOLATED if a check refuted the claim, SUSPECT if a check refuted a guessed
    claim, ERROR if another check failed, and INCONCLUSIVE if none failed and the audit of the claim
    has no verdict, as its pairs may not exercise the mechanism.
    """

    kind: ClassVar[str] = "checks"

    findings: tuple[CheckFinding, ...]

    @property
    def failed(self) -> tuple[CheckFinding, ...]:
        return _failed(self.findings)

    @property
    def evidence(self) -> str:
        """``statistical``: the checks run the mechanism."""
        return "statistical"

    def headline(self) -> str:
        count = {status: sum(f.status == status for f in self.findings) for status in STATUSES}
        summary = ", ".join(f"{number} {status}" for status, number in count.items() if number)
        first = f"; {self.failed[0].check}: {self.failed[0].reason}" if self.failed else ""
        return f"{self.name}: {summary}{first}"

    def to_json(self) -> Json:
        return {
            "kind": self.kind,
            "name": self.name,
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "target": self.target,
            "findings": [
                {"check": f.check, "status": f.status, "reason": f.reason} for f in self.findings
            ],
        }


def _failed(findings: Iterable[CheckFinding]) -> tuple[CheckFinding, ...]:
    return tuple(finding for finding in findings if finding.status == "failed")


def _verdict(findings: Sequence[CheckFinding], mechanism: Any) -> Verdict:
    """Return the verdict that findings on a mechanism give."""
    failed = _failed(findings)
    if not failed:
        undecided = any(f.status == "skipped" and f.result is not None for f in findings)
        return Verdict.INCONCLUSIVE if undecided else Verdict.NOT_REFUTED
    suspects = (f.result is not None and f.result.verdict is Verdict.SUSPECT for f in failed)
    is_violated = any(f.violation for f in failed)
    if guess_of(mechanism) and (is_violated or any(suspects)):
        return Verdict.SUSPECT
    return Verdict.VIOLATED if is_violated else Verdict.ERROR


def check_mechanism(
    mechanism: Any,
    *,
    pair: Pair | list[Pair] | None = None,
    seed: int = 0,
    trials: int | None = None,
    seconds: float | None = None,
    clock: str = "wall",
    expected_failures: Mapping[str, str] | None = None,
    checks: Collection[str] | None = None,
    side_channels: bool | None = None,
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
        Pairs of datasets to run. Default: pairs from the catalog of ``mechanism.domain``.
    seed : int
        Root seed.
    trials : int, optional
        Number of runs of the mechanism in all checks together. Each check has a share; the audit of
        the claim gets about half. A check with too small a share is skipped with this reason. Below
        2,000, some hundred more runs are made. Default: twice the ``trials`` of a `Target`, or else
        400,000.
    seconds, clock : float, str
        Time budget of all checks, in seconds, instead of `trials`, and what it counts, as in
        `audit`.
    expected_failures : dict, optional
        Names of checks that are known to fail, with the reason. Default: the expected failures of a
        `Target`. An expected failure that passes counts as failed.
    checks : collection of str, optional
        Names of the checks to run. Default: all of `CHECKS`.
    side_channels : bool, optional
        Whether differences in the number of draws and of noise calls, which are not outputs, are
        failures. Otherwise they are notes. Default: True if `checks` is given, because the caller
        names these checks. The differences are also failures where `expected_failures` names the
        check.
    executor : concurrent.futures.Executor, optional
        As in `audit`.
    progress : callable, optional
        Called with each finding.
    announce : callable, optional
        Called once, before the first check, with a line that states the expected number of runs and
        the expected time.

    Returns
    -------
    CheckReport
        Verdict and one finding per check.

    Raises
    ------
    InvalidArgument
        If there is no pair to run, a name is not the name of a check, or another argument is
        invalid.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> check_mechanism(Laplace(1.0, arithmetic="grid"), trials=20_000).failed
    ()
    """
    require_callable("progress", progress, "check_mechanism", arguments=1, optional=True)
    subject = _make_subject(mechanism, pair, seed, trials, executor)
    require_type(
        "expected_failures",
        expected_failures,
        Mapping,
        "be a dict of names and reasons",
        "check_mechanism",
        optional=True,
    )
    expected = _require_check_names(
        "expected_failures",
        _expected_failures(mechanism) if expected_failures is None else expected_failures,
    )
    names = _require_check_names("checks", CHECKS if checks is None else checks)
    require_seconds(seconds, trials, clock, executor, "check_mechanism")
    require_callable("announce", announce, "check_mechanism", arguments=1, optional=True)
    require_type(
        "side_channels", side_channels, bool, "be True or False", "check_mechanism", optional=True
    )
    asked_for = (checks is not None) if side_channels is None else side_channels
    if seconds is not None or announce is not None:
        subject = _with_time_budget(subject, seconds, clock, announce)
    asked = trials is not None or seconds is not None
    runs = budgets(
        {name: CHECKS[name] for name in names} if asked else CHECKS,
        subject.trials,
        subject if asked else None,
    )
    findings = []
    for name in filter(names.__contains__, CHECKS):
        share = dataclasses.replace(subject, runs=runs[name])
        findings.append(_run_check(name, CHECKS[name], share, expected, asked_for))
        if progress is not None:
            progress(findings[-1])
    return CheckReport(
        name=subject.name,
        verdict=_verdict(findings, mechanism),
        findings=tuple(findings),
        target=None if mechanism is None else describe_target(mechanism),
        subject=mechanism,
    )


def _make_subject(
    mechanism: Any,
    pair: Pair | list[Pair] | None,
    seed: int,
    trials: int | None,
    executor: Executor | None = None,
) -> Subject:
    """Return the validated `Subject` for the arguments of `check_mechanism`."""
    require_run_options(executor, None, None, "check_mechanism")
    require_attributes(mechanism)
    seed = require_integer("seed", seed, "check_mechanism", least=0)
    if trials is not None:
        trials = require_integer("trials", trials, "check_mechanism", most=10**12)
    pairs: Any = [pair] if isinstance(pair, Pair) else pair
    require_that(
        pairs is None
        or (isinstance(pairs, list | tuple) and all(isinstance(each, Pair) for each in pairs)),
        f"pair must be a Pair or a list of Pairs, got {short_repr(pair)}",
        "check_mechanism",
    )
    if not pairs:
        domain = getattr(mechanism, "domain", None)
        if domain is None:
            raise InvalidArgument("pair must be given for a mechanism without a domain, got None")
        pairs = pairs_for(domain)
    own = mechanism.trials if isinstance(mechanism, Target) else None
    states = getattr(mechanism, "claim", None) is not None
    stated = promised(mechanism, None, "check_mechanism") if states else None
    runs = trials or (2 * own if own else TRIALS)
    return Subject(mechanism, name_of(mechanism), stated, list(pairs), seed, runs, executor)


def _with_time_budget(
    subject: Subject, seconds: float | None, clock: str, announce: Callable[[str], None] | None
) -> Subject:
    """Return the subject with the number of runs that fits into `seconds`, and announce the
    expected time.
    """
    trials, pairs = subject.trials, 2 * len(subject.pairs)  # about half of the runs are of audits
    with subject.workers() as executor:
        found = price(
            lambda size: subject.stage(subject.pairs[0], (8, 0, Phase.TIMING), size, size),
            subject.stated or PureDP(1.0),
            executor,
            seconds,
            clock,
        )
    if seconds is not None:
        trials = found.trials(seconds, pairs)
        require_enough_trials(found, trials, pairs, seconds, clock, "check_mechanism")
    if announce is not None:
        announce(
            f"{subject.name}: {trials:,} runs at "
            f"{format_duration(found.run)}{of_clock(clock)} each, about "
            f"{format_duration(found.time(trials, pairs))} expected"
        )
    return dataclasses.replace(subject, trials=trials)


def _expected_failures(mechanism: Any) -> Mapping[str, str]:
    """Return the expected failures of a `Target`, or an empty dict."""
    return mechanism.expected_failures if isinstance(mechanism, Target) else {}


def _require_check_names(argument: str, names: Any) -> Any:
    """Return `names` if all are names of checks; otherwise raise InvalidArgument."""
    require_that(
        isinstance(names, list | tuple | Set | Mapping),
        f"{argument} must hold names of checks, got {short_repr(names)}",
    )
    for name in names:
        require_that(
            isinstance(name, str) and name in CHECKS,
            f"{argument} must name checks ({', '.join(CHECKS)}), got {short_repr(name)}"
            f"{did_you_mean(name, CHECKS)}",
        )
    return names


def _run_check(
    name: str, check: Check, subject: Subject, expected: Mapping[str, str], side_channels: bool
) -> CheckFinding:
    """Return the finding of one check on `subject`."""
    try:
        check(subject)
    except Skip as reason:
        return CheckFinding(name, "skipped", str(reason), reason.result)
    except (CheckFailed, MechanismFailed, ValueError) as error:
        result, violation = getattr(error, "result", None), getattr(error, "violation", False)
        if name in expected:
            return CheckFinding(name, "expected failure", expected[name], result)
        if isinstance(error, SideChannel) and not side_channels:
            return CheckFinding(name, "note", str(error))
        return CheckFinding(name, "failed", str(error), result, violation)
    except Exception as error:  # the other checks go on
        return CheckFinding(name, "failed", f"ERROR: the check stopped with {error_text(error)}")
    if name in expected:
        return CheckFinding(
            name, "failed", f"the check passes, but a failure was expected: {expected[name]}"
        )
    return CheckFinding(name, "passed")


def parametrize_with_checks(
    mechanisms: Iterable[Any],
    *,
    seed: int = 0,
    trials: int | None = None,
    expected_failures: Callable[[Any], Mapping[str, str]] | None = None,
) -> Any:
    """Return a decorator that turns a test ``def test_x(mechanism, check)`` into one item for each
    mechanism and check.

    The test calls ``check(mechanism)``, which raises if the mechanism fails. Checks that do not
    apply are skipped. So are checks that find a difference outside of the outputs, with a note.
    If the library of a `Target` is not installed, all of its checks are skipped. If a `Target`
    cannot be used for another reason, all of its checks fail. Expected failures are marked as
    strict xfail.

    Parameters
    ----------
    mechanisms : iterable
        Mechanisms, targets or callables to check.
    seed : int
        Root seed.
    trials : int, optional
        As in `check_mechanism`.
    expected_failures : callable, optional
        Function from a mechanism to a dict of names of checks and reasons. Default: the expected
        failures of a target file.

    Returns
    -------
    pytest.MarkDecorator
        ``pytest.mark.parametrize`` over the arguments ``mechanism`` and ``check``.

    Raises
    ------
    InvalidArgument
        If `expected_failures` names an unknown check. The items raise InvalidArgument for a
        mechanism without a domain.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> @parametrize_with_checks([Laplace(1.0, arithmetic="grid")])
    ... def test_my_mechanisms(mechanism, check):
    ...     check(mechanism)
    """
    import pytest

    def bound(
        check: Check, subjects: dict[int, Subject], expects_failure: bool
    ) -> Callable[[Any], None]:
        def run(mechanism: Any) -> None:
            if id(mechanism) not in subjects:
                subjects[id(mechanism)] = _make_subject(mechanism, None, seed, trials)
            subject = subjects[id(mechanism)]
            runs = budgets(CHECKS, subject.trials, subject if trials is not None else None)[
                check.__name__
            ]
            try:
                check(dataclasses.replace(subject, runs=runs))
            except Skip as reason:
                pytest.skip(str(reason))
            except SideChannel as difference:
                if expects_failure:
                    raise
                pytest.skip(f"note: {difference}")

        return run

    items = []
    subjects: dict[int, Subject] = {}
    for mechanism in mechanisms:
        label, missing = name_of(mechanism), []
        try:
            expected = _require_check_names(
                "expected_failures",
                expected_failures(mechanism)
                if expected_failures
                else _expected_failures(mechanism),
            )
        except MissingLibrary as error:
            expected, missing = {}, [pytest.mark.skip(reason=str(error))]
        except TargetError:  # the error appears when the check runs
            expected = {}
        for name, check in CHECKS.items():
            marks = (
                [pytest.mark.xfail(reason=expected[name], strict=True)]
                if name in expected
                else missing
            )
            items.append(
                pytest.param(
                    mechanism,
                    bound(check, subjects, name in expected),
                    id=f"{label}-{name}",
                    marks=marks,
                )
            )
    return pytest.mark.parametrize(("mechanism", "check"), items)


def _facts(result: Json) -> Facts:
    found = Counter(str(finding.get("status")) for finding in result.get("findings") or [])
    return [
        Fact("claim", result.get("claim") or "", code=True),
        Fact("checks", ", ".join(f"{n} {status}" for status, n in found.items())),
        *run_facts(result),
    ]


def _table(result: Json) -> CardTable | None:
    """Return the checks, one row per check."""
    header = ("check", "status", "reason")
    rows = [[str(each[key]) for key in header] for each in result.get("findings") or []]
    return (header, rows, (0,)) if rows else None


def _failures(result: Json) -> list[tuple[str, str]]:
    return [
        (f"{finding.get('check')}: {finding.get('reason')}", "")
        for finding in result.get("findings") or []
        if finding.get("status") == "failed"
    ]


def _recompute(result: Json) -> Recomputed:
    """Check that the verdict is NOT_REFUTED if and only if no check failed."""
    require_field(result, "evidence", "statistical", result.get("evidence", "statistical"))
    failed = _failures(result)
    right = "VIOLATED or ERROR, as a check failed" if failed else "NOT_REFUTED, as no check failed"
    if bool(failed) == (result["verdict"] == "NOT_REFUTED") and "findings" in result:
        raise_damaged(result, "verdict", right, result["verdict"])
    return Recomputed()


KIND = Kind(
    name="checks",
    facts=_facts,
    table=_table,
    advice={Verdict.VIOLATED.value: "look at the failed checks, each with its reason."},
    rule="CHECK",
    suspicion="CHECK",
    findings=_failures,
    recompute=_recompute,
)
