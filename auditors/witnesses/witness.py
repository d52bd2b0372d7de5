"""Base classes of results of audits of a claim and of results about functions, and construction of
witnesses: JSON documents with all that is needed to test a violation again, and a hash of their
content.

Each kind of result adds its own fields.
"""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpwitness.auditors.witnesses.verdicts import Result, Verdict, document, environment
from dpwitness.auditors.witnesses.witness_reader import SCHEMA, seal
from dpwitness.auditors.workers.loading import describe_target, source_of
from dpwitness.core.claims import Claim, exact_text
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.json_reader import Json


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ClaimResult(Result):
    """Result of an audit of a privacy claim: the fields of all kinds."""

    name: str
    claim: Claim
    verdict: Verdict
    confidence: float
    seed: int
    notes: tuple[str, ...] = ()
    target: Json | None = None  # location of the mechanism
    seconds: float = 0.0


def build_witness(result: ClaimResult, level: str, pair: Pair, bound: float, more: Json) -> Json:
    """Return the witness of a violated claim; `more` holds the fields of the level."""
    mechanism = getattr(result, "mechanism", None)
    source = source_of(mechanism, result.target) if mechanism is not None else None
    own = getattr(mechanism, "claim", None)
    found = {
        "schema_version": SCHEMA,
        "name": result.name,
        "level": level,
        "target": result.target,
        "claim": exact_text(result.claim),
        "claim_numbers": list(result.claim.numbers),
        "pair": pair.to_json(),
        "bound": bound if math.isfinite(bound) else "inf",
        "confidence": result.confidence,
        "seed": result.seed,
        "versions": environment(),
        **({"source": source} if source else {}),
        **({"own_claim": own.on(pair) == result.claim} if isinstance(own, Claim) else {}),
    }
    return seal(found | more)


def function_witness(name: str, function: Callable[..., Any], seed: int, more: Json) -> Json:
    """Return the witness of a violated bound on a function; `more` holds the fields of the kind."""
    target = named(function)
    found = {
        "schema_version": SCHEMA,
        "name": name,
        "target": target,
        "seed": seed,
        "versions": environment(),
    }
    source = source_of(function, target)
    return seal(found | more | ({"source": source} if source else {}))


def named(function: Callable[..., Any] | None) -> Json | None:
    """Return the importable target of a function; None for a method, a lambda or a
    nested function.
    """
    return None if function is None or inspect.ismethod(function) else describe_target(function)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class FunctionResult(Result):
    """Base of results about a function, each with a kind, a summary, and the fields of its JSON and
    of its witness.

    Attributes
    ----------
    name : str
        Name of the function in the report.
    verdict : Verdict
        Outcome of the audit.
    seed : int
        Seed of the search.
    notes : tuple of str
        Remarks for the reader. The first note of an ERROR is its cause.
    seconds : float
        Duration, in seconds.
    function : callable or None
        The function that was run.
    """

    kind: ClassVar[str]

    name: str
    verdict: Verdict
    seed: int
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    function: Callable[..., Any] | None = field(default=None, repr=False)

    @property
    def target(self) -> Json | None:
        """How to import the function again; None for a method, a lambda or a nested function."""
        return named(getattr(self.function, "target", self.function))

    @property
    def evidence(self) -> str:
        """Return ``proved`` for a violation, which is exact; otherwise ``numerical``."""
        return "proved" if self.verdict is Verdict.VIOLATED else "numerical"

    @property
    def advice(self) -> str:
        """Return what to do next, if the verdict is not VIOLATED."""
        if self.verdict is Verdict.ERROR:
            return "fix the problem in the first line, then run again"
        return (
            self._advice()
            or "no change is needed on this evidence, which is not a proof; more --seconds "
            "search further"
        )

    @property
    def witness(self) -> Json | None:
        """Return the function and its inputs, which `dpwitness.replay` runs again; None without a
        finding, or without an exact form.
        """
        more = self._witness_fields()
        if more is None or self.function is None:
            return None
        return function_witness(
            self.name,
            getattr(self.function, "target", self.function),
            self.seed,
            {"kind": self.kind, **more},
        )

    def headline(self) -> str:
        """Return the verdict and the summary in one line."""
        if self.verdict is Verdict.ERROR:
            return f"ERROR: {self.notes[0]}"
        return f"{self.verdict.value.replace('_', ' ')}: {self._summary()}"

    def to_json(self) -> Json:
        fields = self._fields()
        return document(self, self.kind, fields.pop("claim"), {"seed": self.seed, **fields})

    def _advice(self) -> str:
        """Return advice for a finding that is not a violation; an empty text without one."""
        return ""

    @abstractmethod
    def _summary(self) -> str:
        """Return what was found, without the verdict; not used for an ERROR."""

    @abstractmethod
    def _fields(self) -> Json:
        """Return the audited claim in words as `claim`, and the measured values, as plain JSON
        types.
        """

    @abstractmethod
    def _witness_fields(self) -> Json | None:
        """Return what a witness records in addition to the function; None without a finding."""
