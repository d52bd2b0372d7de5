"""Ledger of claims: one declaration per claim. Each call of `check` computes the verdict again.

A decorator adds a function to the ledger as the check of a claim. `certificate` takes the excess of
a claim as a function of balls and proves its sign over the whole domain. `claim` takes any other
check: a function of numbers that returns its evidence.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from flint import ctx

from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core import InvalidArgument
from dpwitness.core.values.validation import (
    did_you_mean,
    require_integer,
    require_one_of,
    require_positive,
)
from dpwitness.proofs_checks.engine.enclosures import (
    Box,
    Contradiction,
    Enclosure,
    SignMap,
    branch_and_bound,
)
from dpwitness.proofs_checks.engine.finding import (
    ClaimFinding,
    ClaimVerdict,
    Declaration,
    Evidence,
    scope_of,
    shares,
)

Settings: TypeAlias = Mapping[str, float | tuple[float, float]]
Excess: TypeAlias = Callable[..., Enclosure]
F = TypeVar("F", bound=Callable[..., Any])

KINDS = ("certificate", "counterexample", "experiment")
TIGHT = 1e-6  # a claim is tight if a relative excess above -TIGHT is proved to be attained
CELLS = 4_000
# precision of the balls; fixed, so that the numbers do not depend on the caller's setting
_BITS = 53
# relative tolerance between the proved ratio and the ratio that an entry states
STATED_TOLERANCE = 1e-6
# undecided share of the box at which the search stops after it finds a counterexample
UNDECIDED_SHARE = 0.02
_LEDGER: dict[str, Declaration] = {}
# verdicts of an audit; NOT_REFUTED for the other verdicts of a claim
_AUDIT_VERDICTS = {
    ClaimVerdict.HOLDS: Verdict.CERTIFIED,
    ClaimVerdict.HOLDS_TIGHT: Verdict.CERTIFIED,
    ClaimVerdict.FAILS: Verdict.VIOLATED,
    ClaimVerdict.INCONCLUSIVE: Verdict.INCONCLUSIVE,
}


class OutOfTime(Exception):
    """Error: a check reached its time limit. The claim is then INCONCLUSIVE."""


class MissingPackage(ImportError):
    """Error: a check needs an optional package that is not installed."""


def need(module: str, package: str) -> Any:
    """Import and return an optional module. Raises MissingPackage with the install command if the
    import fails.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingPackage(
            f"this check needs {package}: pip install 'dpwitness[proofs]'"
        ) from None


class _OptionalModule:
    """Module of an optional package, imported when one of its names is read."""

    def __init__(self, module: str, package: str) -> None:
        self._names = module, package

    def __getattr__(self, name: str) -> Any:
        return getattr(need(*self._names), name)


z3: Any = _OptionalModule("z3", "z3-solver")
sympy: Any = _OptionalModule("sympy", "sympy")


@dataclass(frozen=True, slots=True)
class Effort:
    """Budget of a check."""

    quick: bool  # whether to use fewer runs, points or cells
    seconds: float  # time limit from the start of the check
    seed: int  # root of all randomness
    start: float  # monotonic time at which the check started

    def of(self, full: int, quick: int) -> int:
        """Return `quick` if the budget is quick, otherwise `full`: the number of runs, points or
        cells to use.
        """
        return quick if self.quick else full

    def seconds_left(self) -> float:
        """Return the seconds left until the time limit; negative after the limit."""
        return self.seconds - (time.monotonic() - self.start)

    def spend(self) -> None:
        """Raise OutOfTime if the time limit is over. Long checks call this method regularly."""
        if self.seconds_left() <= 0:
            raise OutOfTime(f"time limit of {self.seconds:g} s")


def claim(
    id: str,
    *,
    kind: str,
    source: str,
    statement: str,
    formula: str,
    domain: Box | None = None,
    repairs: str | None = None,
    depends: tuple[str, ...] = (),
    reach: float | None = None,
    boxed: bool = False,
) -> Callable[[F], F]:
    """Decorate a function ``f(effort, **parameters) -> Evidence`` and add it to the ledger as the
    check of claim `id`.

    Parameters
    ----------
    id, kind, source, statement, formula, repairs, depends, reach, boxed
        Fields of the entry; see `Declaration`.
    domain : Box or None
        Parameter ranges. Every parameter of the function has a default inside `domain`; the claim
        is checked there unless `check` gets other values. None for a claim without parameters.

    Returns
    -------
    callable
        Decorator that returns the function unchanged.

    Raises
    ------
    InvalidArgument
        If another function is the check of `id`, `kind` is unknown, or `domain` does not name the
        function's parameters.
    """

    def enter(function: F) -> F:
        # A file may be imported twice, under two module names.
        if id in _LEDGER and _source_location(_LEDGER[id].function) != _source_location(function):
            raise InvalidArgument(f"claim: {id} is declared twice")
        # Keep the function of the installed package: other modules import its names, not those of
        # the copy.
        if id in _LEDGER and not function.__module__.startswith("dpwitness."):
            return function
        require_one_of("kind", kind, KINDS, "claim")
        box = Box() if domain is None else domain
        declared = Declaration(
            id, source, statement, formula, box, kind, function, boxed, repairs, depends, reach
        )
        if not boxed and set(_default_point(declared)) != set(box):
            raise InvalidArgument(
                f"claim {id}: domain must name the function's parameters, got {list(box)} "
                f"and {list(_default_point(declared))}"
            )
        _LEDGER[id] = declared
        return function

    return enter


def certificate(id: str, *, domain: Box, **entry: Any) -> Callable[[Excess], Excess]:
    """Decorate a function ``f(**balls) -> Enclosure`` and add it to the ledger; branch and bound
    proves its sign over `domain`.

    The other fields of the `entry` are those of `claim`.
    """
    return claim(id, kind="certificate", domain=domain, boxed=True, **entry)


def _source_location(function: Callable[..., Any]) -> tuple[str, int]:
    """Return the file and the first line of a function."""
    code = inspect.unwrap(function).__code__
    return code.co_filename, code.co_firstlineno


def declarations() -> dict[str, Declaration]:
    """Import the modules of claims and return all ledger entries by id, sorted by id."""
    claims = importlib.import_module("dpwitness.proofs_checks.claims")
    for module in pkgutil.iter_modules(claims.__path__):
        if module.name.endswith("_claims"):
            importlib.import_module(f"{claims.__name__}.{module.name}")
    return dict(sorted(_LEDGER.items()))


def declaration(id: str) -> Declaration:
    """Return the ledger entry of a claim. Raises InvalidArgument with similar ids if `id` is
    unknown.
    """
    known = declarations()
    if id not in known:
        hint = did_you_mean(id, known, similarity=0.4) or f"; the claims are {', '.join(known)}"
        raise InvalidArgument(f"check: no claim {id!r}{hint}")
    return known[id]


def check(
    id: str,
    *,
    seconds: float = 60.0,
    quick: bool = False,
    seed: int = 0,
    **settings: float | tuple[float, float],
) -> ClaimFinding:
    """Check one claim, over its whole domain or at the parameters in `settings`.

    Parameters
    ----------
    id : str
        A claim of the ledger.
    seconds : float
        Time limit. A check that reaches the limit is INCONCLUSIVE, with the enclosure computed so
        far.
    quick : bool
        Whether to use fewer runs, points or cells.
    seed : int
        Root of all randomness.
    **settings : float or (float, float)
        Values of the claim's parameters, inside its domain. A certificate over a box also takes
        ranges.

    Returns
    -------
    ClaimFinding
        Verdict, evidence, and a witness if the claim fails.

    Raises
    ------
    InvalidArgument
        For an unknown id, an unknown parameter, or a value outside the claim's domain.

    Examples
    --------
    >>> from dpwitness.proofs_checks import check
    >>> check("JT-06", epsilon=1.0).claim_verdict.value
    'FAILS'
    >>> check("CM-06-repair").claim_verdict.value
    'HOLDS_TIGHT'
    """
    return settle(declaration(id), settings, seconds=seconds, quick=quick, seed=seed)


def settle(
    declared: Declaration,
    settings: Settings | None = None,
    *,
    seconds: float = 60.0,
    cells: int = CELLS,
    quick: bool = False,
    seed: int = 0,
) -> ClaimFinding:
    """Check a declaration, which need not be in the ledger; the arguments are those of `check`, and
    `cells` limits branch and bound.

    Raises InvalidArgument for an unknown parameter, a value outside the claim's domain, or an
    invalid budget or seed.
    """
    require_positive("seconds", seconds, f"check {declared.id}")
    require_integer("seed", seed, f"check {declared.id}", least=0)
    box = _checked_box(declared, settings or {})
    effort = Effort(quick, seconds, seed, time.monotonic())
    try:
        with ctx.workprec(_BITS):
            if declared.boxed:
                signs = branch_and_bound(
                    declared.function, box, seconds=seconds, cells=cells, enough=UNDECIDED_SHARE
                )
                evidence = _evidence_of(
                    signs, "domain" if box == declared.domain else "ranges asked for"
                )
            else:
                evidence = declared.function(
                    effort, **{name: low for name, (low, _) in box.items()}
                )
    except (OutOfTime, MissingPackage, Contradiction) as reason:
        evidence = Evidence(ClaimVerdict.INCONCLUSIVE, str(reason), "none")
    if declared is _LEDGER.get(declared.id) and box == _checked_box(declared, {}):
        evidence = _check_stated_reach(evidence, declared.reach)
    evidence = replace(
        evidence,
        scope=scope_of(declared.domain, box, declared.boxed, evidence.signs, evidence.scope),
    )
    return ClaimFinding(
        name=declared.id,
        verdict=_AUDIT_VERDICTS.get(evidence.verdict, Verdict.NOT_REFUTED),
        seconds=time.monotonic() - effort.start,
        declaration=declared,
        claim_verdict=evidence.verdict,
        box=box,
        evidence=evidence,
    )


def _check_stated_reach(evidence: Evidence, reach: float | None) -> Evidence:
    """Return the evidence, as INCONCLUSIVE if the proved ratio differs from the ratio `reach` that
    the entry states.
    """
    if reach is None or evidence.enclosure is None or evidence.grade != "proved":
        return evidence
    holds = evidence.verdict in (ClaimVerdict.HOLDS, ClaimVerdict.HOLDS_TIGHT)
    found = 1 + (evidence.enclosure.upper if holds else evidence.enclosure.lower)
    is_stated = abs(found - reach) <= STATED_TOLERANCE * abs(reach)
    if evidence.verdict is ClaimVerdict.INCONCLUSIVE or is_stated:
        return evidence
    return replace(
        evidence,
        verdict=ClaimVerdict.INCONCLUSIVE,
        text=f"{found:.5g} of the promise is reached, {reach:g} is stated; {evidence.text}",
    )


def _evidence_of(signs: SignMap, name: str) -> Evidence:
    """Return the evidence of a branch and bound; `name` is its sentence's word for the box."""
    at = {key: low + (high - low) / 2 for key, (low, high) in (signs.counterexample or {}).items()}
    value, ends = signs.counterexample_value, signs.enclosure
    if value is not None:
        where = ", ".join(f"{key} = {middle:.4g}" for key, middle in at.items())
        verdict = ClaimVerdict.FAILS
        text = f"{1 + value.lower:.4g} times the promise at {where}; of the {name}: {shares(signs)}"
    elif signs.undecided > 0:
        verdict = ClaimVerdict.INCONCLUSIVE
        text = (
            f"{'cells spent' if signs.finished else 'time limit'}; of the {name}: {shares(signs)}; "
            f"largest excess in [{ends.lower:.4g}, {ends.upper:.4g}]"
        )
    elif ends.lower >= -TIGHT:
        verdict = ClaimVerdict.HOLDS_TIGHT
        text = f"proved on the whole {name}, and {1 + ends.lower:.6g} of the promise is reached"
    else:
        verdict = ClaimVerdict.HOLDS
        text = (
            f"proved on the whole {name} in {signs.cells} cells; at most {1 + ends.upper:.4g} of "
            "the promise is reached"
        )
    return Evidence(
        verdict, text, "interval branch and bound", ends, at=at, signs=signs, grade="proved"
    )


def _default_point(declared: Declaration) -> dict[str, float]:
    """Return the default parameters of a check that is not over a box."""
    return {
        p.name: p.default
        for p in list(inspect.signature(declared.function).parameters.values())[1:]
    }


def _checked_box(declared: Declaration, settings: Settings) -> Box:
    domain = declared.domain
    for name in settings:
        if name not in domain:
            raise InvalidArgument(
                f"check {declared.id}: no parameter {name!r}; it has {', '.join(domain) or 'none'}"
            )
    requested = Box(**settings)
    for name, (low, high) in requested.items():
        least, most = domain[name]
        if low < least or high > most:
            raise InvalidArgument(
                f"check {declared.id}: {name} must lie in [{least:g}, {most:g}], got "
                f"{settings[name]!r}"
            )
        if low < high and not declared.boxed:
            raise InvalidArgument(
                f"check {declared.id}: {name} must be one number, not a range, for this "
                f"check, got {settings[name]!r}"
            )
    defaults: Settings = domain if declared.boxed else _default_point(declared)
    return Box(**{**defaults, **requested})
