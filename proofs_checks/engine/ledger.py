"""The ledger: one declaration a claim, whose verdict is computed each time it is asked for.

A claim enters by a decorated function. `certificate` takes the excess of a claim as a function of balls, and settles its sign over
the whole domain; `claim` takes any other check: a function of numbers that returns its evidence.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from flint import ctx

from dpwitness.mechanisms.terms.validation import InvalidArgument, require_integer, require_one_of, require_positive
from dpwitness.proofs_checks.engine.declaration import Declaration
from dpwitness.proofs_checks.engine.enclosures import Box, Contradiction, Enclosure, SignMap, branch_and_bound
from dpwitness.proofs_checks.engine.finding import ClaimFinding, ClaimVerdict, Evidence, as_audit
from dpwitness.proofs_checks.engine.scope import scope_of, shares

Settings: TypeAlias = Mapping[str, float | tuple[float, float]]
Excess: TypeAlias = Callable[..., Enclosure]
F = TypeVar("F", bound=Callable[..., Any])

KINDS = ("certificate", "counterexample", "experiment")
TIGHT = 1e-6  # a claim holds tightly where a relative excess above -TIGHT is proved to be reached
CELLS = 4_000
_BITS = 53  # of balls, whatever the caller has set: the same numbers always
STATED = 1e-6  # relative: how near a proved number must be to the one that an entry states
ENOUGH = 0.02  # share of the box left undecided around the border of a claim that fails
_LEDGER: dict[str, Declaration] = {}


class OutOfTime(Exception):
    """Raised by a check whose time is over; the claim is INCONCLUSIVE, with the enclosure reached so far."""

    def __init__(self, reached: Enclosure | None = None) -> None:
        super().__init__("time limit")
        self.reached = reached


class MissingPackage(ImportError):
    """A check needs an optional package that is not installed."""


def need(module: str, package: str) -> Any:
    """Import an optional module, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingPackage(f"this check needs {package}: pip install 'dpwitness[proofs]'") from None


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a check may spend.

    Attributes
    ----------
    quick : bool
        Whether to be content with fewer runs, points or cells.
    seconds : float
        Time limit from the start of the check.
    seed : int
        Root of all randomness.
    start : float
        Monotonic time at which the check began.
    """

    quick: bool
    seconds: float
    seed: int
    start: float

    def of(self, full: int, quick: int) -> int:
        """A number of runs, points or cells."""
        return quick if self.quick else full

    def left(self) -> float:
        """Seconds left."""
        return self.seconds - (time.monotonic() - self.start)

    def spend(self, reached: Enclosure | None = None) -> None:
        """Called now and then by a long check: ends it when its time is over."""
        if self.left() <= 0:
            raise OutOfTime(reached)


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
    """Enter the decorated function ``f(effort, **parameters) -> Evidence`` into the ledger as the check of claim `id`.

    Each parameter has a default, inside `domain`, where the claim is checked unless something else is asked for.
    """

    def enter(function: F) -> F:
        if id in _LEDGER and _place(_LEDGER[id].function) != _place(function):  # a file may be loaded twice, by two names
            raise InvalidArgument(f"claim: {id} is declared twice")
        if id in _LEDGER and not function.__module__.startswith("dpwitness."):  # the copy, whose names others do not know
            return function
        require_one_of("kind", kind, KINDS, "claim")
        box = Box() if domain is None else domain
        declared = Declaration(id, source, statement, formula, box, kind, function, boxed, repairs, depends, reach)
        if not boxed and set(_defaults(declared)) != set(box):
            raise InvalidArgument(
                f"claim {id}: domain must name the function's parameters, got {list(box)} and {list(_defaults(declared))}"
            )
        _LEDGER[id] = declared
        return function

    return enter


def certificate(
    id: str,
    *,
    source: str,
    statement: str,
    formula: str,
    domain: Box,
    repairs: str | None = None,
    depends: tuple[str, ...] = (),
    reach: float | None = None,
) -> Callable[[Excess], Excess]:
    """Enter the decorated excess into the ledger: its sign is settled over the whole `domain` by branch and bound."""
    return claim(
        id,
        kind="certificate",
        source=source,
        statement=statement,
        formula=formula,
        domain=domain,
        repairs=repairs,
        depends=depends,
        reach=reach,
        boxed=True,
    )


def _place(function: Callable[..., Any]) -> tuple[str, int]:
    """Where a function is written."""
    code = inspect.unwrap(function).__code__
    return code.co_filename, code.co_firstlineno


def declarations() -> dict[str, Declaration]:
    """Every claim of the ledger, by id, in order."""
    claims = importlib.import_module("dpwitness.proofs_checks.claims")
    for module in pkgutil.iter_modules(claims.__path__):
        if module.name.endswith("_claims"):
            importlib.import_module(f"{claims.__name__}.{module.name}")
    return dict(sorted(_LEDGER.items()))


def declaration(id: str) -> Declaration:
    """One claim of the ledger; an unknown id is an error that offers the nearest."""
    known = declarations()
    if id not in known:
        near = difflib.get_close_matches(str(id), known, n=3, cutoff=0.4)
        raise InvalidArgument(f"check: no claim {id!r}; nearest: {', '.join(near) or ', '.join(known)}")
    return known[id]


def check(id: str, *, seconds: float = 60.0, quick: bool = False, seed: int = 0, **settings: float | tuple[float, float]) -> ClaimFinding:
    """Check one claim, over its whole domain or at the parameters that `settings` names.

    Parameters
    ----------
    id : str
        A claim of the ledger.
    seconds : float
        Time limit. A check that runs out of it is INCONCLUSIVE, with the enclosure reached so far.
    quick : bool
        Fewer runs, points or cells.
    seed : int
        Root of all randomness.
    **settings : float or (float, float)
        A value for a parameter of the claim, inside its domain; for a certificate over a box, a range will do.

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
    """Check a declaration, in the ledger or not."""
    require_positive("seconds", seconds, f"check {declared.id}")
    require_integer("seed", seed, f"check {declared.id}", least=0)
    box = _restricted(declared, settings or {})
    effort = Effort(quick, seconds, seed, time.monotonic())
    try:
        with ctx.workprec(_BITS):
            if declared.boxed:
                whole = dict(box) == dict(declared.domain)
                evidence = _over_the_box(declared.function, box, seconds, cells, "domain" if whole else "ranges asked for")
            else:
                evidence = declared.function(effort, **{name: low for name, (low, _) in box.items()})
    except OutOfTime as out:
        where = "" if out.reached is None else f"; reached [{out.reached.lower:.6g}, {out.reached.upper:.6g}]"
        evidence = Evidence(ClaimVerdict.INCONCLUSIVE, f"time limit of {seconds:g} s{where}", "none", out.reached)
    except Contradiction as apart:
        evidence = Evidence(ClaimVerdict.INCONCLUSIVE, f"two forms of one number differ: {apart}", "none")
    except MissingPackage as missing:
        evidence = Evidence(ClaimVerdict.INCONCLUSIVE, str(missing), "none")
    if declared is _LEDGER.get(declared.id) and dict(box) == dict(_restricted(declared, {})):
        evidence = _as_stated(evidence, declared.reach)
    evidence = replace(evidence, scope=scope_of(declared.domain, box, declared.boxed, evidence.signs, evidence.scope))
    took = time.monotonic() - effort.start
    return ClaimFinding(declared.id, declared, as_audit(evidence.verdict), evidence.verdict, box, evidence, took)


def _as_stated(evidence: Evidence, reach: float | None) -> Evidence:
    """INCONCLUSIVE where the number that was proved is not the one that the entry states."""
    if reach is None or evidence.reached is None or evidence.grade != "proved":
        return evidence
    held = evidence.verdict in (ClaimVerdict.HOLDS, ClaimVerdict.HOLDS_TIGHT)
    found = 1 + (evidence.reached.upper if held else evidence.reached.lower)
    if evidence.verdict is ClaimVerdict.INCONCLUSIVE or abs(found - reach) <= STATED * abs(reach):
        return evidence
    text = f"{found:.5g} of the promise is reached, {reach:g} is stated; {evidence.text}"
    return replace(evidence, verdict=ClaimVerdict.INCONCLUSIVE, text=text)


def _over_the_box(excess: Excess, box: Box, seconds: float, cells: int, name: str) -> Evidence:
    signs = branch_and_bound(excess, box, seconds=seconds, cells=cells, enough=ENOUGH)
    verdict, text = _read(signs, name)
    at = {name: low + (high - low) / 2 for name, (low, high) in (signs.counterexample or {}).items()}
    return Evidence(verdict, text, "interval branch and bound", signs.enclosure, at=at, signs=signs, grade="proved")


def _read(signs: SignMap, name: str) -> tuple[ClaimVerdict, str]:
    """Verdict and sentence; `name` says of what the shares are."""
    value, ends = signs.counterexample_value, signs.enclosure
    if signs.counterexample is not None and value is not None:
        where = ", ".join(f"{name} = {low + (high - low) / 2:.4g}" for name, (low, high) in signs.counterexample.items())
        return ClaimVerdict.FAILS, f"{1 + value.lower:.4g} times the promise at {where}; of the {name}: {shares(signs)}"
    if signs.undecided > 0:
        why = "cells spent" if signs.finished else "time limit"
        undecided = f"of the {name}: {shares(signs)}; largest excess in [{ends.lower:.4g}, {ends.upper:.4g}]"
        return ClaimVerdict.INCONCLUSIVE, f"{why}; {undecided}"
    if ends.lower >= -TIGHT:
        return ClaimVerdict.HOLDS_TIGHT, f"proved on the whole {name}, and {1 + ends.lower:.6g} of the promise is reached"
    return ClaimVerdict.HOLDS, f"proved on the whole {name} in {signs.cells} cells; at most {1 + ends.upper:.4g} of the promise is reached"


def _defaults(declared: Declaration) -> dict[str, float]:
    """The points at which a check that is none over a box looks, unless told otherwise."""
    parameters = list(inspect.signature(declared.function).parameters.values())[1:]
    return {p.name: p.default for p in parameters}


def _restricted(declared: Declaration, settings: Settings) -> Box:
    domain = declared.domain
    for name in settings:
        if name not in domain:
            raise InvalidArgument(f"check {declared.id}: no parameter {name!r}; it has {', '.join(domain) or 'none'}")
    asked = Box(**settings)
    for name, (low, high) in asked.items():
        least, most = domain[name]
        if low < least or high > most:
            raise InvalidArgument(f"check {declared.id}: {name} must lie in [{least:g}, {most:g}], got {settings[name]!r}")
        if low < high and not declared.boxed:
            raise InvalidArgument(f"check {declared.id}: {name} must be one number, this check takes no ranges, got {settings[name]!r}")
    unsaid: Settings = domain if declared.boxed else _defaults(declared)
    return Box(**{**unsaid, **asked})
