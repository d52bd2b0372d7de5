"""Result of a metamorphic audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dpwitness.auditors.functions.metamorphic.outputs import Raised
from dpwitness.auditors.witnesses.function_result import FunctionResult
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, short_repr


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class MetamorphicResult(FunctionResult):
    """Result of one relation of a metamorphic audit.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED if the relation is broken, NOT_REFUTED if it held in all cases, ERROR if no case
        could be run.
    relation : str
        Name of the relation, which is the name of its function in `dpwitness.metamorphic`.
    statement : str
        The relation in words.
    finding : str
        Description of the broken case; empty if the relation held.
    case : tuple or None
        Inputs at which the relation is broken.
    outputs : tuple
        Outputs at these inputs.
    error : float
        Probability of a false VIOLATED; 0 for a comparison without randomness.
    tried : int
        Number of cases that were run.
    output_metric : str or None
        Metric in which outputs are compared, if it is not equality.
    name, seed, notes, seconds, function
        As in other results.
    """

    kind: ClassVar[str] = "metamorphic"

    relation: str
    statement: str
    finding: str
    case: tuple[Any, ...] | None
    outputs: tuple[Any, ...]
    error: float
    tried: int
    output_metric: str | None = None

    @property
    def evidence(self) -> str:
        """Return ``proved`` for an exact violation, ``statistical`` if it has an error probability,
        ``numerical`` otherwise.
        """
        if self.verdict is not Verdict.VIOLATED:
            return "numerical"
        return "proved" if self.error == 0 else "statistical"

    def _witness_fields(self) -> Json | None:
        if self.verdict is not Verdict.VIOLATED or self.case is None:
            return None
        try:
            case = [to_jsonable(item) for item in self.case]
        except InvalidArgument:
            return None
        more = {"output_metric": self.output_metric} if self.output_metric else {}
        return more | {
            "relation": self.relation,
            "case": case,
            "finding": self.finding,
            "error": self.error,
        }

    def _advice(self) -> str:
        return "no change is needed on this evidence, which is not a proof"

    def _statement(self) -> str:
        return self.statement

    def _summary(self) -> str:
        if self.verdict is not Verdict.VIOLATED:
            return f"{self.statement}, in {self.tried} cases"
        sure = "exact" if self.error == 0 else f"false with probability at most {self.error:.3g}"
        return f"{self.statement}: {self.finding} ({sure})"

    def _fields(self) -> Json:
        return {
            "metamorphic_relation": self.relation,
            "finding": self.finding,
            "case": None if self.case is None else [_written(item) for item in self.case],
            "outputs": [_written(item) for item in self.outputs],
            "error": self.error,
            "tried": self.tried,
        }


def _written(value: Any) -> Any:
    """Return a value in JSON types; a text if it has no exact form."""
    if isinstance(value, Raised):
        return {"raised": value.text}
    try:
        return strict(to_jsonable(value))
    except InvalidArgument:
        return short_repr(value)
