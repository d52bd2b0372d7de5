"""Ledger entry of a claim, and the result of its check: the verdict, the evidence for the verdict,
and a witness if the claim fails.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpwitness.auditors.density.result import EVIDENCE
from dpwitness.auditors.witnesses.kinds import Kind
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.seals import seal
from dpwitness.auditors.witnesses.verdicts import environment, strict
from dpwitness.auditors.witnesses.witness_reader import EXTENDED, either
from dpwitness.core import InvalidArgument
from dpwitness.core.values.json_reader import Json, anything, items, listing, nullable, number, text
from dpwitness.core.values.validation import require_one_of
from dpwitness.proofs_checks.engine.enclosures import Box, Enclosure, SignMap

WHOLE, BOX, POINT = "whole domain", "box", "point"
_SCOPE_PHRASES = {
    "whole domain": "over their whole domain",
    "box": "over a part of a box",
    "point": "at one point",
}
_GRADE_PHRASES = {
    "proved": "by a proof", "statistical": "at a stated statistical error", "numerical": "by numerics", "assumed": (  # noqa: E501
        "under an assumption"
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Declaration:
    """Ledger entry: a claim of a paper, and the function that checks the claim.

    Attributes
    ----------
    id : str
        Id in the ledger. A repair or a variant has the id of the original claim and a suffix.
    source, statement, formula : str
        Place in the paper, the claim in words, and the claim as a formula.
    domain : Box
        Parameter ranges for which the paper makes the claim.
    kind : {"certificate", "counterexample", "experiment"}
        Result that the check can give: a proof, a case that refutes the claim, or measurements.
        The finding's `scope` says for which parameters the result is valid.
    function : callable
        For a certificate over a box, ``function(**balls) -> Enclosure`` with one ball per
        parameter. The enclosure contains the relative excess, value / promise - 1, of the worst
        case; the claim holds if and only if the excess is <= 0. Otherwise ``function(effort,
        **parameters) -> Evidence``; the default parameters are the point that is checked.
    boxed : bool
        Whether `function` encloses the relative excess over a box.
    repairs : str or None
        Id of the claim that this claim repairs.
    depends : tuple of str
        Ids of the claims that the proof uses.
    reach : float or None
        Stated ratio value / promise that the check proves, largest over the domain or at the
        check's point; 1 if the bound is tight. A check that computes another ratio does not prove
        this entry.
    """

    id: str
    source: str
    statement: str
    formula: str
    domain: Box
    kind: str
    function: Callable[..., Any]
    boxed: bool = False
    repairs: str | None = None
    depends: tuple[str, ...] = ()
    reach: float | None = None

    @property
    def proof(self) -> str:
        """Return the docstring of the check: the proof's reduction to finitely many parameters, or
        the experiment that is run. Each paragraph is one line.
        """
        paragraphs = inspect.cleandoc(self.function.__doc__ or "").split("\n\n")
        return "\n\n".join(" ".join(each.split()) for each in paragraphs)

    def to_json(self) -> Json:
        return {
            "id": self.id,
            "source": self.source,
            "statement": self.statement,
            "formula": self.formula,
            "kind": self.kind,
            "domain": {name: list(bounds) for name, bounds in self.domain.items()},
            "repairs": self.repairs,
            "depends": list(self.depends),
            "reach": self.reach,
            "proof": self.proof,
        }


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
        raise TypeError(
            "a verdict has no truth value: compare it, as in `claim_verdict is "
            f"ClaimVerdict.{self.name}`"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Evidence that a check gives for its verdict.

    Attributes
    ----------
    verdict : ClaimVerdict
        Verdict that the evidence supports.
    text : str
        Sentence with the numbers of the evidence. The headline prints the verdict before this
        sentence.
    method : str
        Method of the check, such as ``interval branch and bound`` or ``z3``.
    enclosure : Enclosure or None
        Enclosure of the relative excess, value / promise - 1, of the decisive number; above zero if
        the claim fails.
    numbers : mapping
        Further numbers by name: the smallest constant that works, the smallest n at which the bound
        is not vacuous, slopes.
    at : mapping
        Parameters of the counterexample, or of the example that attains a number.
    result : Result or None
        Audit on which the evidence is based. The audit's witness is the claim's witness.
    signs : SignMap or None
        Result of branch and bound over a box.
    grade : {"proved", "statistical", "numerical", "assumed"}
        Kind of evidence. A claim holds only if the grade is "proved".
    scope : {"whole domain", "box", "point"}
        Parameters for which the evidence is valid. The ledger computes the scope of a finding with
        `scope_of`.

    Raises
    ------
    InvalidArgument
        If the grade is unknown, or if the verdict is HOLDS or HOLDS_TIGHT and the grade is not
        "proved".
    """

    verdict: ClaimVerdict
    text: str
    method: str
    enclosure: Enclosure | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    at: Mapping[str, Any] = field(default_factory=dict)
    result: Result | None = None
    signs: SignMap | None = None
    grade: str = "numerical"
    scope: str = POINT

    def __post_init__(self) -> None:
        require_one_of("grade", self.grade, EVIDENCE, "Evidence")
        if (
            self.verdict in (ClaimVerdict.HOLDS, ClaimVerdict.HOLDS_TIGHT)
            and self.grade != "proved"
        ):
            raise InvalidArgument(
                f"Evidence: grade must be 'proved' where a claim holds, got {self.grade!r}"
            )


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ClaimFinding(Result):
    """Result of a claim's check: the claim, the parameters that were checked, and the evidence.

    Attributes
    ----------
    name : str
        Id of the claim.
    declaration : Declaration
        Ledger entry of the claim.
    verdict : Verdict
        Verdict of an audit that corresponds to `claim_verdict`.
    claim_verdict : ClaimVerdict
        Verdict of the claim.
    box : Box
        Parameter ranges that were checked: the claim's domain or a part of the domain for a
        certificate, one point otherwise.
    evidence : Evidence
        Evidence for the verdict.
    seconds : float
        Run time of the check, in seconds.
    witness : dict or None
        Witness for ``dpwitness replay`` if the claim fails.
    """

    kind: ClassVar[str] = "claim"

    declaration: Declaration
    claim_verdict: ClaimVerdict
    box: Box
    evidence: Evidence  # type: ignore[assignment]  # the base class has a string here, which is `grade` of a claim

    def headline(self) -> str:
        verdict_text = {
            ClaimVerdict.HOLDS_TIGHT: "HOLDS, tight",
            ClaimVerdict.NOT_REFUTED: "NOT REFUTED",
        }.get(self.claim_verdict)
        return f"{verdict_text or self.claim_verdict.value}: {self.evidence.text}"

    @property
    def grade(self) -> str:
        """Return the kind of the evidence: "proved", "statistical", "numerical" or "assumed"."""
        return self.evidence.grade

    @property
    def scope(self) -> str:
        """Return the scope of the evidence: "whole domain", "box" or "point"."""
        return self.evidence.scope

    @property
    def witness(self) -> Json | None:
        """Witness for ``dpwitness replay`` if the claim fails: that of its audit, if an audit shows
        it on an importable mechanism; otherwise the parameters at which it fails.
        """
        if self.claim_verdict is not ClaimVerdict.FAILS:
            return None
        found: Json | None = getattr(self.evidence.result, "witness", None)
        if found is not None and found.get("target"):
            return seal({**found, "ledger": self.name})
        recorded: Json | None = Result.witness.__get__(self)
        return recorded

    def _witness_fields(self) -> Json | None:
        at = self.evidence.at or {name: list(bounds) for name, bounds in self.box.items()}
        settings = {name: at[name] for name in self.declaration.domain if name in at}
        found: Json = strict({"settings": settings, **self._evidence_json()})
        return found

    def _evidence_json(self) -> Json:
        enclosure, result = self.evidence.enclosure, self.evidence.result
        return {
            "headline": self.headline(),
            "method": self.evidence.method,
            "reached": None if enclosure is None else [enclosure.lower, enclosure.upper],
            "at": dict(self.evidence.at),
            "numbers": dict(self.evidence.numbers),
            "audit": None if result is None else result.to_json(),
        }

    def to_json(self) -> Json:
        signs = self.evidence.signs
        shares = (
            None
            if signs is None
            else {
                "positive": signs.positive,
                "negative": signs.negative,
                "undecided": signs.undecided,
            }
        )
        return strict(  # type: ignore[no-any-return]
            {
                "schema_version": 1,
                **self.declaration.to_json(),
                "name": self.name,
                "verdict": self.claim_verdict.value,
                "box": {name: list(bounds) for name, bounds in self.box.items()},
                **self._evidence_json(),
                "evidence": self.grade,
                "scope": self.scope,
                "shares": shares,
                "cells": None if signs is None else signs.cells,
                "environment": environment(),
                "seconds": round(self.seconds, 3),
            }
        )


KIND = Kind(
    name="claim",
    witness=(
        {"audit": anything, "evidence": anything, "scope": anything},
        {
            "settings": items(either(list, listing(number(), 2, 2), number())),
            "headline": text(20_000),
            "method": text(2000),
            "reached": nullable(listing(EXTENDED, 2, 2)),
            "at": items(anything),
            "numbers": items(anything),
        },
    ),
)


def scope_of(domain: Box, asked: Box, boxed: bool, signs: SignMap | None, own: str) -> str:
    """Return the scope of a finding: `WHOLE`, `BOX` or `POINT`.

    `domain` is the claim's domain, `asked` the box or point that was checked, and `own` the scope
    that the check's evidence states.
    """
    settled = signs is not None and signs.undecided == 0
    if not boxed or signs is None:
        return WHOLE if not domain and (settled or own == WHOLE) else POINT
    if all(low == high for low, high in asked.values()):
        return POINT
    return WHOLE if asked == domain and settled else BOX


def shares(signs: SignMap) -> str:
    """Describe the shares of the box on which the claim is proved to fail, proved to hold, and
    undecided.
    """
    parts = ((signs.positive, "fails on"), (signs.negative, "holds on"))
    parts_text = [f"{word} {_percent(share)}" for share, word in parts if share > 0]
    if signs.undecided > 0:
        parts_text.append(f"{_percent(signs.undecided)} undecided")
    return ", ".join(parts_text)


def _percent(share: float) -> str:
    return "all of it" if share == 1 else f"{100 * share:.3g} %"


def scope_summary(findings: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence with the number of settled claims by scope and kind of evidence."""
    settled = [
        (f["scope"], f["evidence"])
        for f in findings
        if f["verdict"] not in ("INCONCLUSIVE", "NOT_REFUTED")
    ]
    phrases: list[str] = []
    for scope, where in _SCOPE_PHRASES.items():
        for grade, how in _GRADE_PHRASES.items():
            if count := settled.count((scope, grade)):
                phrases.append(
                    f"{count} {'' if phrases else 'is settled ' if count == 1 else 'are settled '}{how} {where}"  # noqa: E501
                )
    return f"{'; '.join(phrases)}." if phrases else "None is settled."
