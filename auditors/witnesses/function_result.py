"""Base class of results about functions: sensitivity, utility, stability, accountants and
metamorphic relations.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpwitness.auditors.witnesses.verdicts import Result, Verdict, document
from dpwitness.auditors.witnesses.witness import function_witness, named
from dpwitness.core.values.json_reader import Json


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
        return document(self, self.kind, self._statement(), {"seed": self.seed, **self._fields()})

    def _advice(self) -> str:
        """Return advice for a finding that is not a violation; an empty text without one."""
        return ""

    @abstractmethod
    def _statement(self) -> str:
        """Return the audited claim in words."""

    @abstractmethod
    def _summary(self) -> str:
        """Return what was found, without the verdict; not used for an ERROR."""

    @abstractmethod
    def _fields(self) -> Json:
        """Return the measured values as plain JSON types."""

    @abstractmethod
    def _witness_fields(self) -> Json | None:
        """Return what a witness records in addition to the function; None without a finding."""
