"""What a check of a claim ends with: a verdict of the claim, the evidence for it, and a witness where it fails."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpwitness.auditors.results.ends import EVIDENCE
from dpwitness.auditors.results.verdicts import Result, Verdict, environment, strict
from dpwitness.auditors.results.witness_reading import seal
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_one_of
from dpwitness.proofs_checks.engine.declaration import Declaration
from dpwitness.proofs_checks.engine.enclosures import Box, Enclosure, SignMap
from dpwitness.proofs_checks.engine.scope import POINT


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
    ClaimVerdict.INCONCLUSIVE: Verdict.INCONCLUSIVE,
}


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What a check has shown.

    Attributes
    ----------
    verdict : ClaimVerdict
    text : str
        What was shown, with its numbers, in a sentence; the verdict's word is put before it.
    method : str
        How, such as ``interval branch and bound`` or ``z3``.
    reached : Enclosure or None
        Of the decisive number relative to what was promised, value / promise - 1: above zero where the claim fails.
    numbers : mapping
        Further numbers by name: the smallest constant that works, the n from which on a claim says something, slopes.
    at : mapping
        The parameters of a counterexample, or those at which a number was reached.
    result : Result or None
        The audit that it stands on; its witness is the claim's witness.
    signs : SignMap or None
        Of a branch and bound over a box.
    grade : {"proved", "statistical", "numerical", "assumed"}
        What the verdict rests on. Only a proof lets a claim hold.
    scope : {"whole domain", "box", "point"}
        How far it reaches (see `scope_of`, which the ledger asks).
    """

    verdict: ClaimVerdict
    text: str
    method: str
    reached: Enclosure | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    at: Mapping[str, Any] = field(default_factory=dict)
    result: Result | None = None
    signs: SignMap | None = None
    grade: str = "numerical"
    scope: str = POINT

    def __post_init__(self) -> None:
        require_one_of("grade", self.grade, EVIDENCE, "Evidence")
        if self.verdict in (ClaimVerdict.HOLDS, ClaimVerdict.HOLDS_TIGHT) and self.grade != "proved":
            raise InvalidArgument(f"Evidence: grade must be 'proved' where a claim holds, got {self.grade!r}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClaimFinding(Result):
    """A claim, the parameters at which it was checked, and the evidence.

    Attributes
    ----------
    claim_verdict : ClaimVerdict
        The claim's verdict; `verdict` is its translation into an audit's words.
    box : Box
        Ranges of the parameters that were checked: for a certificate all of the claim's domain, otherwise a point of it.
    witness : dict or None
        For ``dpwitness replay``, where the claim fails.
    """

    name: str
    declaration: Declaration
    verdict: Verdict
    claim_verdict: ClaimVerdict
    box: Box
    evidence: Evidence  # type: ignore[assignment]  # the whole of it; its word is `grade`
    seconds: float = 0.0

    def headline(self) -> str:
        word = {ClaimVerdict.HOLDS_TIGHT: "HOLDS, tight", ClaimVerdict.NOT_REFUTED: "NOT REFUTED"}.get(self.claim_verdict)
        return f"{word or self.claim_verdict.value}: {self.evidence.text}"

    @property
    def grade(self) -> str:
        """What the verdict rests on: proved, statistical, numerical or assumed."""
        return self.evidence.grade

    @property
    def scope(self) -> str:
        """How far it reaches: whole domain, box or point."""
        return self.evidence.scope

    @property
    def witness(self) -> Json | None:
        if self.claim_verdict is not ClaimVerdict.FAILS:
            return None
        found: Json | None = getattr(self.evidence.result, "witness", None)
        if found is not None and found.get("target"):
            return seal({**found, "ledger": self.name})
        at = self.evidence.at or {name: list(bounds) for name, bounds in self.box.items()}
        settings = {name: at[name] for name in self.declaration.domain if name in at}
        return seal(strict({"schema_version": 1, "kind": "claim", "name": self.name, "settings": settings, **self._shown()}))

    def _shown(self) -> Json:
        reached, result = self.evidence.reached, self.evidence.result
        return {
            "headline": self.headline(),
            "method": self.evidence.method,
            "reached": None if reached is None else [reached.lower, reached.upper],
            "at": dict(self.evidence.at),
            "numbers": dict(self.evidence.numbers),
            "audit": None if result is None else result.to_json(),
        }

    def to_json(self) -> Json:
        signs = self.evidence.signs
        shares = None if signs is None else {"positive": signs.positive, "negative": signs.negative, "undecided": signs.undecided}
        found = {
            "schema_version": 1,
            **self.declaration.to_json(),
            "name": self.name,
            "verdict": self.claim_verdict.value,
            "box": {name: list(bounds) for name, bounds in self.box.items()},
            **self._shown(),
            "evidence": self.grade,
            "scope": self.scope,
            "shares": shares,
            "cells": None if signs is None else signs.cells,
            "environment": environment(),
            "seconds": round(self.seconds, 3),
        }
        return strict(found)  # type: ignore[no-any-return]


def as_audit(verdict: ClaimVerdict) -> Verdict:
    """A claim's verdict in an audit's words."""
    return _AS_AUDIT.get(verdict, Verdict.NOT_REFUTED)
