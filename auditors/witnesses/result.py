"""Results of audits: the fields that all kinds share, their JSON, their witness, and their card in
a notebook.

A kind of audit adds a subclass with its own fields, and a `Kind` (`kinds.py`) that says how reports
show a written result, check it, and run its witness again.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

from dpwitness.auditors.witnesses.seals import seal
from dpwitness.auditors.witnesses.verdicts import SCHEMA, Verdict, environment, strict
from dpwitness.auditors.workers.descriptions import describe_target, source_of
from dpwitness.core.claims import Claim, exact_text, parse_claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import dataset

# module with `html` and `markdown` of a result; by name, as reports know results
_CARDS = "dpwitness.reports.html_format"
_REPR_LIMIT = 400  # largest number of characters of a headline in a repr


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Result(ABC):
    """Base of all results that a report can show.

    Attributes
    ----------
    name : str
        Name of the audited mechanism or function in the report.
    verdict : Verdict
        Outcome of the audit.
    notes : tuple of str
        Remarks for the reader. The first note of an ERROR is its cause.
    seed : int
        Root seed of the audit.
    seconds : float
        Duration, in seconds.
    target : dict or None
        Where the mechanism or function can be imported again; None if it cannot.
    subject : object
        Mechanism or function that was run; None if nothing was run here.
    """

    kind: ClassVar[str]
    # verdicts whose headline is the first note
    headline_is_note: ClassVar[tuple[Verdict, ...]] = (Verdict.ERROR,)
    # whether a terminal shows all lines, and not the most important only
    all_lines: ClassVar[bool] = False

    name: str
    verdict: Verdict
    notes: tuple[str, ...] = ()
    seed: int = 0
    seconds: float = 0.0
    target: Json | None = None
    subject: Any = field(default=None, repr=False)

    @property
    def evidence(self) -> str:
        """Grade of evidence for the verdict: ``proved``, ``statistical``, ``numerical`` or
        ``assumed``.
        """
        return "numerical"

    @property
    def advice(self) -> str:
        """What to do next if nothing is violated; empty for the usual advice."""
        return ""

    @property
    def replay_advice(self) -> str:
        """What to do after a replay with this result; empty for the usual advice."""
        return ""

    @property
    def source_of(self) -> Any:
        """The object whose place in the source a report names."""
        return self.subject

    @property
    def witness(self) -> Json | None:
        """Return the JSON from which `dpwitness.replay` tests the finding again; None without a
        finding, or if its datasets have no exact form.
        """
        fields = self._witness_fields()
        if fields is None:
            return None
        subject = self.source_of
        source = None if subject is None else source_of(subject, self.target)
        return seal(
            {
                "schema_version": SCHEMA,
                "kind": self.kind,
                "name": self.name,
                "target": self.target,
                "seed": self.seed,
                "versions": environment(),
                **({"source": source} if source else {}),
                **fields,
            }
        )

    @abstractmethod
    def headline(self) -> str:
        """Return the verdict, the number and the confidence in one line."""

    def to_json(self) -> Json:
        """Return all measured values as plain JSON types."""
        return {
            "schema_version": SCHEMA,
            "kind": self.kind,
            "name": self.name,
            "claim": self._claim_text(),
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "seed": self.seed,
            **self._fields(),
            "notes": list(self.notes),
            "target": self.target,
            "environment": environment(),
            "seconds": round(self.seconds, 3),
        }

    def lines(self, data: Json, *, bits: bool = False) -> list[tuple[str, str]]:
        """Return the lines of a terminal below the headline, each a label and a text.

        `data` is the result as a report holds it, and `bits` whether a leak in low bits counts.
        """
        return [pair_line(data["pair"])] if data.get("pair") else []

    def _claim_text(self) -> str:
        """Return the audited claim: the text of a privacy claim, or a statement in words."""
        return ""

    def _fields(self) -> Json:
        """Return the measured values of the kind, as plain JSON types."""
        return {}

    def _witness_fields(self) -> Json | None:
        """Return what a witness holds in addition to the fields of all kinds; None without a
        finding.
        """
        return None

    def __repr__(self) -> str:
        line = " ".join(self.headline().split())
        return (
            f"<{type(self).__name__} {self.name!s:.60}: "
            f"{line if len(line) <= _REPR_LIMIT else line[: _REPR_LIMIT - 3] + '...'}>"
        )

    def _repr_html_(self) -> str | None:
        return self._card("notebook_html")

    def _repr_markdown_(self) -> str | None:
        return self._card("notebook_markdown")

    def _card(self, card_format: str) -> str | None:
        """Return a card for a notebook; None if it cannot be made, in which case the notebook shows
        the repr.
        """
        try:
            return str(getattr(import_module(_CARDS), card_format)(self))
        except Exception:
            return None

    def __bool__(self) -> bool:
        raise TypeError(
            "a result is not a truth value: compare its verdict, as in `result.verdict is "
            "Verdict.VIOLATED`"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ClaimResult(Result):
    """Base of results about a privacy claim, which has a confidence."""

    claim: Claim
    confidence: float

    def _claim_text(self) -> str:
        return str(self.claim)

    def _claim_fields(self, pair: Pair | None) -> Json:
        """Return the fields of a result about a claim, on a pair or without one."""
        relation = None if pair is None else pair.relation
        return {"claim_numbers": list(self.claim.numbers), "relation": relation}

    def _claim_witness(self, pair: Pair, bound: float) -> Json:
        """Return the fields of a witness about a claim on a pair; `bound` is the refuted
        parameter.
        """
        own = own_claim(self.subject)
        return {
            "claim": exact_text(self.claim),
            "claim_numbers": list(self.claim.numbers),
            "pair": pair.to_json(),
            "bound": bound if math.isfinite(bound) else "inf",
            "confidence": self.confidence,
            **({} if own is None else {"own_claim": own.on(pair) == self.claim}),
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class FunctionResult(Result):
    """Base of results about a function. A violation is exact."""

    @property
    def evidence(self) -> str:
        """``proved`` for a violation, which is exact; otherwise ``numerical``."""
        return "proved" if self.verdict is Verdict.VIOLATED else "numerical"

    @property
    def source_of(self) -> Any:
        """The function that was run; for an entry of a target file, its target."""
        return getattr(self.subject, "target", self.subject)

    @property
    def advice(self) -> str:
        """What to do next, if the verdict is not VIOLATED."""
        if self.verdict is Verdict.ERROR:
            return "fix the problem in the first line, then run again"
        if advice := self._finding_advice():
            return advice
        if self.verdict is Verdict.SUSPECT:
            return "read what is guessed in the first note; if the claim is right, state it"
        return (
            "no change is needed on this evidence, which is not a proof; more --seconds search "
            "further"
        )

    def headline(self) -> str:
        """Return the verdict and the summary in one line."""
        if self.verdict is Verdict.ERROR:
            return f"ERROR: {self.notes[0]}"
        return f"{self.verdict.value.replace('_', ' ')}: {self._summary()}"

    def _finding_advice(self) -> str:
        """Return advice for a finding that is not a violation; an empty text without one."""
        return ""

    @abstractmethod
    def _summary(self) -> str:
        """Return what was found, without the verdict; not used for an ERROR."""


def own_claim(mechanism: Any) -> Claim | None:
    """Return the claim that a mechanism states about itself, as an object or as a text; None
    without one.
    """
    found = getattr(mechanism, "claim", None)
    try:
        found = parse_claim(found) if isinstance(found, str) else found
    except InvalidArgument:
        return None
    return found if isinstance(found, Claim) else None


def named(function: Callable[..., Any] | None) -> Json | None:
    """Return the importable target of a function; None for a method, a lambda or a
    nested function.
    """
    function = getattr(function, "target", function)
    return None if function is None or inspect.ismethod(function) else describe_target(function)


def pair_line(pair: Json) -> tuple[str, str]:
    """Return the line of a terminal that shows a pair of datasets from their JSON."""
    return "pair", f"D0 = {dataset(pair['d0'])}, D1 = {dataset(pair['d1'])} ({pair['why']})"


def numbers_of(result: Any, *names: str) -> Json:
    """Return fields of a result that hold numbers, in JSON types."""
    return {name: strict(getattr(result, name)) for name in names}
