"""Transformations that a target file declares in TARGETS, which run in worker processes of the
file's interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpwitness.auditors.functions.stability.audit import audit_stability
from dpwitness.auditors.functions.stability.inputs.spaces import InputSpace, space_of
from dpwitness.auditors.functions.stability.result import StabilityResult
from dpwitness.mechanisms.wrappers.programs.declared import Declared, note_on_library

_MOST_ABORTS = 25  # process aborts after which a search ends: each costs a new process


@dataclass(frozen=True, eq=False)
class DeclaredTransformation(Declared):
    """Transformation of TARGETS in a target file, with its stability map, input space and metrics.

    Calls raise what the function raises; `apply_all` returns exceptions as outcomes.
    """

    KIND = "transformation"
    NEEDED = ("map", "input", "input_metric", "output_metric")
    KEYS = ("apply", *NEEDED, "d_in", "inputs", "notes")
    FUNCTIONS = ("apply", "map")

    def __call__(self, dataset: Any) -> Any:
        (found,) = self.apply_all([dataset])
        if isinstance(found, Exception):
            raise found
        return found

    @property
    def space(self) -> InputSpace:
        """Declared input space."""
        return space_of(self.declaration["input"], f"{self.target.name}: input")

    @property
    def spent(self) -> bool:
        """Whether the function has ended too many processes to be run further."""
        return self.calls.aborts >= _MOST_ABORTS

    def apply_all(self, datasets: Sequence[Any]) -> list[Any]:
        """Return the outputs and exceptions of the function on datasets."""
        return self.calls.call(
            self.declaration.get("apply", self.target.name), [(dataset,) for dataset in datasets]
        )

    def stability_map(self, d_in: Any) -> Any:
        """Return the value of the declared map. Raises what the function raises."""
        (found,) = self.calls.call(self.declaration["map"], [(d_in,)])
        if isinstance(found, Exception):
            raise found
        return found


declared_transformation = DeclaredTransformation.of


def audit_declared(
    found: DeclaredTransformation,
    *,
    seconds: float = 10.0,
    seed: int | None = None,
    visible_errors: bool = False,
) -> StabilityResult:
    """Audit a declared transformation, as `audit_stability` does."""
    declared = found.declaration
    result = audit_stability(
        found,
        found.stability_map,
        found.space,
        declared["input_metric"],
        declared["output_metric"],
        d_in=declared.get("d_in") or (1, 2, 3),
        seconds=seconds,
        inputs=declared.get("inputs"),
        seed=seed,
        name=found.target.name,
        visible_errors=visible_errors,
    )
    note = note_on_library(found.target)
    return replace(result, notes=(*result.notes, note)) if note else result
