"""Checks for other people's mechanisms: named functions, chosen by what an object offers, as scikit-learn's estimator checks are."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dpwitness.auditors.audit import audit
from dpwitness.auditors.catalogue import pairs_for
from dpwitness.auditors.engine import MechanismFailed, run_side, stream
from dpwitness.auditors.health import check_structure, check_training, same_outputs
from dpwitness.auditors.outputs import encode
from dpwitness.auditors.result import AuditResult, Result, Verdict
from dpwitness.mechanisms.jsonable import to_jsonable
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.protocol import name_of
from dpwitness.mechanisms.validation import InvalidArgument

__all__ = ["CHECKS", "CheckReport", "Finding", "check_mechanism", "parametrize_with_checks"]

_SIZES = (1, 2, 257)
_CI_CONFIDENCE = 1 - 1e-9


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A mechanism under check: the pairs to try it on, and one root seed."""

    mechanism: Any
    name: str
    pairs: list[Pair]
    seed: int
    trials: int

    @property
    def run(self) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self.mechanism, "sample", self.mechanism)
        return found


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What one check found: ``passed``, ``failed``, ``skipped`` or ``expected failure``, and why."""

    check: str
    status: str
    reason: str = ""
    result: AuditResult | None = None


class Skip(Exception):
    """The check does not apply to this mechanism."""


class CheckFailed(AssertionError):
    """The mechanism fails the check."""

    def __init__(self, reason: str, result: AuditResult | None = None) -> None:
        super().__init__(reason)
        self.result = result


Check = Callable[[Target], None]


def check_one_output_per_run(target: Target) -> None:
    """`size` runs give `size` outputs, for every size and on both datasets."""
    for dataset in (target.pairs[0].d0, target.pairs[0].d1):
        for size in _SIZES:
            try:
                raw = target.run(dataset, size, stream(target.seed, size))
            except Exception:
                continue  # an exception is an output; whether it leaks is for the audit to say
            encode(raw, size)


def check_same_stream_same_output(target: Target) -> None:
    """One generator state, equal outputs: all randomness comes from `rng`."""
    dataset = target.pairs[0].d1
    first, second = (run_side(target.run, dataset, 64, stream(target.seed, 1)) for _ in range(2))
    if not same_outputs(first, second):
        raise CheckFailed("two calls with equal generators differ: randomness comes from elsewhere than rng, or state is kept")


def check_rounds_are_independent(target: Target) -> None:
    """Fresh noise for each run and each call; the shape stays."""
    for pair in target.pairs[:1]:
        sides = [[run_side(target.run, d, 512, stream(target.seed, 2, i, j)) for i in range(4)] for j, d in enumerate((pair.d1, pair.d0))]
        check_structure(sides[0], "dataset 2")
        check_training(list(zip(*sides, strict=True)))


def check_dataset_is_left_alone(target: Target) -> None:
    """The dataset after a call is the dataset before it."""
    for dataset in (target.pairs[0].d0, target.pairs[0].d1):
        before = repr(to_jsonable(dataset))
        run_side(target.run, dataset, 8, stream(target.seed, 3))
        if repr(to_jsonable(dataset)) != before:
            raise CheckFailed("the dataset is changed in place")


def check_parameters_are_validated(target: Target) -> None:
    """NaN, infinity and -1 in any float parameter are refused with a message that names it."""
    if not dataclasses.is_dataclass(target.mechanism) or isinstance(target.mechanism, type):
        raise Skip("the mechanism is no dataclass")
    names = [f.name for f in dataclasses.fields(target.mechanism) if isinstance(getattr(target.mechanism, f.name), float)]
    if not names:
        raise Skip("the mechanism has no float parameter")
    for name in names:
        for value in (float("nan"), float("inf")):
            try:
                dataclasses.replace(target.mechanism, **{name: value})
            except ValueError as error:
                if name not in str(error):
                    raise CheckFailed(f"{name} = {value} is refused with a message that does not name it: {error}") from None
            else:
                raise CheckFailed(f"{name} = {value} is accepted")


def check_survives_pickling(target: Target) -> None:
    """The mechanism can travel to worker processes."""
    try:
        copy = pickle.loads(pickle.dumps(target.run))
    except Exception as error:
        raise CheckFailed(f"cannot be sent to worker processes: {error}") from None
    dataset = target.pairs[0].d0
    if not same_outputs(run_side(target.run, dataset, 16, stream(0)), run_side(copy, dataset, 16, stream(0))):
        raise CheckFailed("its pickled copy behaves differently")


def check_density_agrees_with_sampler(target: Target) -> None:
    """The log-density integrates to one against the sampler: E_P[q/p] = 1 up to parts that P never reaches."""
    density = getattr(target.mechanism, "log_density", None)
    if density is None:
        raise Skip("the mechanism offers no log_density")
    pair = target.pairs[0]
    rows = np.asarray(target.run(pair.d1, 20_000, stream(target.seed, 4)), dtype=float).reshape(20_000, -1)
    p, q = density(rows, pair.d1), density(rows, pair.d0)
    if np.isnan(p).any() or np.isnan(q).any():
        raise CheckFailed("log_density returns NaN on the mechanism's own outputs")
    if np.isneginf(p).any():
        raise CheckFailed("log_density is -inf on an output that the mechanism gave")
    ratio = np.exp(np.minimum(q - p, 50.0))
    excess = (ratio.mean() - 1) / (ratio.std() / np.sqrt(len(ratio)) + 1e-12)
    if excess > 6.5 and ratio.mean() > 1 + 1e-6:
        raise CheckFailed(f"log_density does not integrate to one: E_P[q/p] = {ratio.mean():.4g} with standard score {excess:.1f}")


def check_claim(target: Target) -> None:
    """A black-box audit finds no violation of the mechanism's own claim, at a false-alarm probability of 1e-9."""
    _audit(target, bits=False)


def check_low_bits(target: Target) -> None:
    """The low bits of floating-point outputs keep the claim as well."""
    result = _audit(target, bits=True, value=False)
    if result.bit_level is None:
        raise Skip("the outputs are no floating-point numbers")
    if result.bit_level.verdict is Verdict.VIOLATED:
        raise CheckFailed(f"the low bits certify epsilon > {result.bit_level.epsilon_lower:.4g} against {result.claim}", result)


def _audit(target: Target, *, bits: bool, value: bool = True) -> AuditResult:
    if getattr(target.mechanism, "claim", None) is None:
        raise Skip("the mechanism states no claim")
    result = audit(
        target.mechanism,
        pair=target.pairs,
        trials=target.trials,
        confidence=_CI_CONFIDENCE,
        seed=target.seed,
        name=target.name,
        bits=bits,
        stop="violation",
    )
    if value and result.verdict is not Verdict.NOT_REFUTED:
        raise CheckFailed(result.headline(), result)
    return result


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        check_one_output_per_run,
        check_same_stream_same_output,
        check_rounds_are_independent,
        check_dataset_is_left_alone,
        check_parameters_are_validated,
        check_survives_pickling,
        check_density_agrees_with_sampler,
        check_claim,
        check_low_bits,
    )
}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CheckReport(Result):
    """All findings on one mechanism. The verdict is VIOLATED if the claim check failed, ERROR if another did."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.status == "failed")

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        if not self.failed:
            return Verdict.NOT_REFUTED
        claim = any(finding.check in ("check_claim", "check_low_bits") and finding.result is not None for finding in self.failed)
        return Verdict.VIOLATED if claim else Verdict.ERROR

    def headline(self) -> str:
        count = {status: sum(f.status == status for f in self.findings) for status in ("passed", "failed", "skipped", "expected failure")}
        told = ", ".join(f"{number} {status}" for status, number in count.items() if number)
        first = f"; {self.failed[0].check}: {self.failed[0].reason}" if self.failed else ""
        return f"{self.name}: {told}{first}"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "checks",
            "name": self.name,
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "findings": [{"check": f.check, "status": f.status, "reason": f.reason} for f in self.findings],
        }


def check_mechanism(
    mechanism: Any,
    *,
    pair: Pair | list[Pair] | None = None,
    seed: int = 0,
    trials: int = 200_000,
    expected_failures: Mapping[str, str] | None = None,
) -> CheckReport:
    """Run every check that applies to a mechanism.

    Parameters
    ----------
    mechanism : Mechanism or callable
        As in `audit`.
    pair : Pair or list of Pair, optional
        Where to try it; the catalogue's pairs for ``mechanism.domain`` if left out.
    seed, trials : int
        Root seed, and runs of each audit among the checks.
    expected_failures : dict, optional
        Names of checks that are known to fail, with the reason. One that passes nevertheless counts as failed.

    Raises
    ------
    InvalidArgument
        If there is no pair to try, or an expected failure names no check.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> check_mechanism(Laplace(1.0, arithmetic="grid")).failed
    ()
    """
    target = _target(mechanism, pair, seed, trials)
    expected = _expected(expected_failures)
    return CheckReport(target.name, tuple(_find(name, check, target, expected) for name, check in CHECKS.items()))


def _target(mechanism: Any, pair: Pair | list[Pair] | None, seed: int, trials: int) -> Target:
    pairs = [pair] if isinstance(pair, Pair) else list(pair or [])
    if not pairs:
        domain = getattr(mechanism, "domain", None)
        if domain is None:
            raise InvalidArgument("pair must be given for a mechanism without a domain, got None")
        pairs = pairs_for(domain)
    return Target(mechanism, name_of(mechanism), pairs, seed, trials)


def _expected(expected_failures: Mapping[str, str] | None) -> Mapping[str, str]:
    for name in expected_failures or {}:
        if name not in CHECKS:
            raise InvalidArgument(f"expected_failures must name checks ({', '.join(CHECKS)}), got {name!r}")
    return expected_failures or {}


def _find(name: str, check: Check, target: Target, expected: Mapping[str, str]) -> Finding:
    try:
        check(dataclasses.replace(target, pairs=copy.deepcopy(target.pairs)))  # what one check spoils is no other's concern
    except Skip as reason:
        return Finding(name, "skipped", str(reason))
    except (CheckFailed, MechanismFailed, ValueError) as error:
        if name in expected:
            return Finding(name, "expected failure", expected[name])
        return Finding(name, "failed", str(error), getattr(error, "result", None))
    if name in expected:
        return Finding(name, "failed", f"it passes, though a failure was expected: {expected[name]}")
    return Finding(name, "passed")


def parametrize_with_checks(
    mechanisms: Iterable[Any], *, seed: int = 0, trials: int = 200_000, expected_failures: Callable[[Any], Mapping[str, str]] | None = None
) -> Any:
    """Decorate a test ``def test_x(mechanism, check)`` so that it becomes one item for each mechanism and check.

    The test calls ``check(mechanism)``, which raises if the mechanism fails. Checks that do not apply are skipped; expected failures,
    which `expected_failures` gives for each mechanism, are marked as strict xfail.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> @parametrize_with_checks([Laplace(1.0, arithmetic="grid")])
    ... def test_my_mechanisms(mechanism, check):
    ...     check(mechanism)
    """
    import pytest

    def bound(check: Check) -> Callable[[Any], None]:
        def run(mechanism: Any) -> None:
            try:
                check(_target(mechanism, None, seed, trials))
            except Skip as reason:
                pytest.skip(str(reason))

        return run

    items = []
    for mechanism in mechanisms:
        expected = _expected(expected_failures(mechanism) if expected_failures else None)
        label = name_of(mechanism)
        for name, check in CHECKS.items():
            marks = [pytest.mark.xfail(reason=expected[name], strict=True)] if name in expected else []
            items.append(pytest.param(mechanism, bound(check), id=f"{label}-{name}", marks=marks))
    return pytest.mark.parametrize(("mechanism", "check"), items)
