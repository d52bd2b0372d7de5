"""The ledger: one declaration a claim, whose verdict is computed each time it is asked for."""

from __future__ import annotations

import difflib
import enum
import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dpwitness.auditors.result import Result, Verdict, environment
from dpwitness.mechanisms.validation import InvalidArgument, require_one_of, require_positive

from .enclosures import Box, Enclosure, branch_and_bound

__all__ = ["ClaimFinding", "ClaimVerdict", "Declaration", "check", "claim", "declarations", "settle"]

Settings: TypeAlias = Mapping[str, float | tuple[float, float]]

KINDS = ("certificate",)
TIGHT = 1e-6  # a claim holds tightly where a relative excess above -TIGHT is proved to be reached
CELLS = 4_000
ENOUGH = 0.02  # share of the box left undecided around the border of a claim that fails
_MODULES = ("logistic_claims",)
_LEDGER: dict[str, Declaration] = {}


class ClaimVerdict(enum.Enum):
    """Outcome of a claim's check."""

    HOLDS = "HOLDS"
    HOLDS_TIGHT = "HOLDS_TIGHT"
    FAILS = "FAILS"
    UNDERSPECIFIED = "UNDERSPECIFIED"
    VACUOUS = "VACUOUS"
    NOT_REFUTED = "NOT_REFUTED"
    INCONCLUSIVE = "INCONCLUSIVE"

    def __bool__(self) -> bool:
        raise TypeError(f"a verdict is no truth value: compare it, as in `claim_verdict is ClaimVerdict.{self.name}`")


_AS_AUDIT = {
    ClaimVerdict.HOLDS: Verdict.CERTIFIED,
    ClaimVerdict.HOLDS_TIGHT: Verdict.CERTIFIED,
    ClaimVerdict.FAILS: Verdict.VIOLATED,
    ClaimVerdict.NOT_REFUTED: Verdict.NOT_REFUTED,
}


@dataclass(frozen=True, slots=True)
class Declaration:
    """A claim as the paper states it, and the function whose sign settles it.

    Attributes
    ----------
    id : str
        As in the ledger of claims; a repair carries the id of what it repairs.
    source, statement : str
        Where it is printed, and what it says.
    domain : Box
        The parameters for which it is claimed.
    excess : callable
        One ball per parameter -> Enclosure of the relative excess, value / promise - 1, in the worst case: the claim holds iff it is <= 0.
    kind : str
        How it is checked.
    """

    id: str
    source: str
    statement: str
    domain: Box
    excess: Callable[..., Enclosure]
    kind: str = "certificate"

    @property
    def proof(self) -> str:
        """The reduction to finitely many parameters, as written beside the check."""
        return self.excess.__doc__ or ""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "source": self.source,
            "statement": self.statement,
            "kind": self.kind,
            "domain": {name: list(bounds) for name, bounds in self.domain.items()},
        }


@dataclass(frozen=True, slots=True, eq=False)
class ClaimFinding(Result):
    """What a check has proved.

    Attributes
    ----------
    claim_verdict : ClaimVerdict
        The claim's verdict; `verdict` is its translation into an audit's words.
    enclosure : Enclosure
        Of the largest relative excess over the box that was checked.
    counterexample : Box or None
        A cell on all of which the claim is proved to fail.
    counterexample_value : Enclosure or None
        Relative excess on that cell; `at` is the inner variable (a score, a position) that reaches it.
    positive, negative, undecided : float
        Shares of the box where the claim is proved false, proved true, and neither.
    """

    name: str
    declaration: Declaration
    verdict: Verdict
    claim_verdict: ClaimVerdict
    box: Box
    enclosure: Enclosure
    positive: float
    negative: float
    undecided: float
    counterexample: Box | None
    counterexample_value: Enclosure | None
    cells: int
    seconds: float
    finished: bool

    def headline(self) -> str:
        value = self.counterexample_value
        if self.claim_verdict is ClaimVerdict.FAILS and value is not None:
            where = ", ".join(f"{name} = {low + (high - low) / 2:.4g}" for name, (low, high) in (self.counterexample or {}).items())
            return f"FAILS: {100 * value.lower:.4g} % over the promise at {where}; proved on {100 * self.positive:.3g} % of the domain"
        if self.claim_verdict is ClaimVerdict.HOLDS_TIGHT:
            return f"HOLDS, tight: proved on the whole domain, and {1 + self.enclosure.lower:.6g} of the promise is reached"
        if self.claim_verdict is ClaimVerdict.HOLDS:
            return f"HOLDS: proved on the whole domain in {self.cells} cells"
        why = "cells spent" if self.finished else "time limit"
        reached = f"largest excess in [{self.enclosure.lower:.4g}, {self.enclosure.upper:.4g}]"
        return f"{self.claim_verdict.value}: {why}; {100 * self.undecided:.3g} % of the domain undecided, {reached}"

    def to_json(self) -> dict[str, Any]:
        value = self.counterexample_value
        return {
            "schema_version": 1,
            **self.declaration.to_json(),
            "name": self.name,
            "kind": self.declaration.kind,
            "verdict": self.claim_verdict.value,
            "headline": self.headline(),
            "box": _ranges(self.box),
            "enclosure": [str(self.enclosure.lower), str(self.enclosure.upper)],
            "shares": {"positive": self.positive, "negative": self.negative, "undecided": self.undecided},
            "counterexample": _ranges(self.counterexample),
            "counterexample_excess": None if value is None else {"lower": value.lower, "upper": str(value.upper), "at": value.at},
            "cells": self.cells,
            "finished": self.finished,
            "environment": environment(),
            "seconds": round(self.seconds, 3),
        }


def claim(
    id: str, source: str, statement: str, domain: Box, kind: str = "certificate"
) -> Callable[[Callable[..., Enclosure]], Callable[..., Enclosure]]:
    """Enter the decorated function into the ledger as the check of claim `id`."""

    def enter(function: Callable[..., Enclosure]) -> Callable[..., Enclosure]:
        if id in _LEDGER:
            raise InvalidArgument(f"claim: {id} is declared twice")
        require_one_of("kind", kind, KINDS, "claim")
        _LEDGER[id] = Declaration(id, source, statement, domain, function, kind)
        return function

    return enter


def declarations() -> dict[str, Declaration]:
    """Every claim of the ledger, by id, in order."""
    for module in _MODULES:
        importlib.import_module(f"dpwitness.proofs_checks.{module}")
    return dict(sorted(_LEDGER.items()))


def check(id: str, *, seconds: float = 10.0, **settings: float | tuple[float, float]) -> ClaimFinding:
    """Check one claim, over its whole domain or over the part that `settings` names.

    Parameters
    ----------
    id : str
        A claim of the ledger.
    seconds : float
        Time limit. A check that runs out of it is INCONCLUSIVE, with the enclosure reached so far.
    **settings : float or (float, float)
        A value or a range for a parameter of the claim, inside its domain.

    Raises
    ------
    InvalidArgument
        For an unknown id, an unknown parameter, or a value outside the claim's domain.

    Examples
    --------
    >>> check("JT-06", epsilon=1.0).claim_verdict.value
    'FAILS'
    >>> check("CM-06-repair").claim_verdict.value
    'HOLDS_TIGHT'
    """
    known = declarations()
    if id not in known:
        near = difflib.get_close_matches(str(id), known, n=3, cutoff=0.4)
        raise InvalidArgument(f"check: no claim {id!r}; nearest: {', '.join(near) or ', '.join(known)}")
    return settle(known[id], settings, seconds=seconds)


def settle(declaration: Declaration, settings: Settings | None = None, *, seconds: float = 10.0, cells: int = CELLS) -> ClaimFinding:
    """Check a declaration, in the ledger or not."""
    require_positive("seconds", seconds, f"check {declaration.id}")
    box = _restricted(declaration, settings or {})
    start = time.monotonic()
    signs = branch_and_bound(declaration.excess, box, seconds=seconds, cells=cells, enough=ENOUGH)
    if signs.counterexample is not None:
        verdict = ClaimVerdict.FAILS
    elif signs.undecided > 0:
        verdict = ClaimVerdict.INCONCLUSIVE
    else:
        verdict = ClaimVerdict.HOLDS_TIGHT if signs.enclosure.lower >= -TIGHT else ClaimVerdict.HOLDS
    return ClaimFinding(
        name=declaration.id,
        declaration=declaration,
        verdict=_AS_AUDIT.get(verdict, Verdict.INCONCLUSIVE),
        claim_verdict=verdict,
        box=box,
        enclosure=signs.enclosure,
        positive=signs.positive,
        negative=signs.negative,
        undecided=signs.undecided,
        counterexample=signs.counterexample,
        counterexample_value=signs.counterexample_value,
        cells=signs.cells,
        seconds=time.monotonic() - start,
        finished=signs.finished,
    )


def _restricted(declaration: Declaration, settings: Settings) -> Box:
    domain = declaration.domain
    for name in settings:
        if name not in domain:
            raise InvalidArgument(f"check {declaration.id}: no parameter {name!r}; it has {', '.join(domain)}")
    asked = Box(**settings)
    for name, (low, high) in asked.items():
        least, most = domain[name]
        if low < least or high > most:
            raise InvalidArgument(f"check {declaration.id}: {name} must lie in [{least:g}, {most:g}], got {settings[name]!r}")
    return Box(**{**domain, **asked})


def _ranges(box: Box | None) -> dict[str, list[float]] | None:
    return None if box is None else {name: list(bounds) for name, bounds in box.items()}
