"""Result of a metamorphic audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpwitness.auditors.metamorphic.outputs import Raised
from dpwitness.auditors.results.verdicts import Result, Verdict, environment, strict
from dpwitness.auditors.results.witness import function_witness
from dpwitness.mechanisms.core.json_codec import to_jsonable
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument, shown


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MetamorphicResult(Result):
    """Result of one relation of a metamorphic audit.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED if the relation is broken, NOT_REFUTED if it held in all cases, ERROR if no case could be run.
    relation : str
        Name of the relation, which is the name of its function in `dpwitness.metamorphic`.
    statement : str
        The relation in words.
    case : tuple or None
        Inputs at which the relation is broken.
    outputs : tuple
        Outputs at these inputs.
    error : float
        Probability of a false VIOLATED; 0 for a comparison without randomness.
    tried : int
        Number of cases that were run.
    name, seed, notes, seconds
        As in other results.
    """

    name: str
    verdict: Verdict
    relation: str
    statement: str
    finding: str
    case: tuple[Any, ...] | None
    outputs: tuple[Any, ...]
    error: float
    tried: int
    seed: int
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    function: Callable[..., Any] | None = field(default=None, repr=False)
    target: Json | None = field(default=None, repr=False)

    @property
    def evidence(self) -> str:
        """Return ``proved`` for an exact violation, ``statistical`` if it has an error probability, ``numerical`` otherwise."""
        if self.verdict is not Verdict.VIOLATED:
            return "numerical"
        return "proved" if self.error == 0 else "statistical"

    @property
    def witness(self) -> Json | None:
        """Return function, relation and inputs, which `dpwitness.replay` runs again; None unless the relation is broken."""
        if self.verdict is not Verdict.VIOLATED or self.function is None or self.case is None:
            return None
        try:
            case = [to_jsonable(item) for item in self.case]
        except InvalidArgument:
            return None
        more = {"kind": "metamorphic", "relation": self.relation, "case": case, "finding": self.finding, "error": self.error}
        return function_witness(self.name, getattr(self.function, "target", self.function), self.seed, more)

    def headline(self) -> str:
        """Return the verdict, the relation and the finding in one line."""
        if self.verdict is Verdict.ERROR:
            return f"ERROR: {self.notes[0]}"
        if self.verdict is Verdict.VIOLATED:
            sure = "exact" if self.error == 0 else f"false with probability at most {self.error:.3g}"
            return f"VIOLATED: {self.statement}: {self.finding} ({sure})"
        return f"NOT REFUTED: {self.statement}, in {self.tried} cases"

    def to_json(self) -> Json:
        return {
            "kind": "metamorphic",
            "name": self.name,
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "claim": self.statement,
            "metamorphic_relation": self.relation,
            "finding": self.finding,
            "case": None if self.case is None else [_written(item) for item in self.case],
            "outputs": [_written(item) for item in self.outputs],
            "error": self.error,
            "tried": self.tried,
            "seed": self.seed,
            "notes": list(self.notes),
            "target": self.target,
            "environment": environment(),
            "seconds": round(self.seconds, 3),
        }


def _written(value: Any) -> Any:
    """Return a value in JSON types; a text if it has no exact form."""
    if isinstance(value, Raised):
        return {"raised": value.text}
    try:
        return strict(to_jsonable(value))
    except InvalidArgument:
        return shown(value)
