"""Transformations that a target file declares in TARGETS, which run in worker processes of the file's interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpwitness.auditors.stability.audit import audit_stability
from dpwitness.auditors.stability.inputs.spaces import InputSpace, space_of
from dpwitness.auditors.stability.result import StabilityResult
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.foreign.declared import Calls, declarations, library_note, require_declaration
from dpwitness.mechanisms.foreign.target import Target

KIND = "transformation"
_NEEDED = ("map", "input", "input_metric", "output_metric")
_KEYS = ("kind", "apply", *_NEEDED, "d_in", "inputs", "notes")
_MOST_ABORTS = 25  # process aborts after which a search ends: each costs a new process


@dataclass(frozen=True, eq=False)
class DeclaredTransformation:
    """Transformation of TARGETS in a target file, with its stability map, input space and metrics.

    Calls raise what the function raises; `apply_all` returns exceptions as outcomes.
    """

    target: Target
    declaration: Json
    _calls: Calls = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_declaration(self.target, self.declaration, KIND, _NEEDED, _KEYS, ("apply", "map"))
        object.__setattr__(self, "_calls", Calls(self.target))

    def __call__(self, dataset: Any) -> Any:
        (found,) = self.apply_all([dataset])
        if isinstance(found, Exception):
            raise found
        return found

    @property
    def __name__(self) -> str:
        return self.target.name

    @property
    def space(self) -> InputSpace:
        """Declared input space."""
        return space_of(self.declaration["input"], f"{self.target.name}: input")

    @property
    def spent(self) -> bool:
        """Whether the function has ended too many processes to be run further."""
        return self._calls.aborts >= _MOST_ABORTS

    def apply_all(self, datasets: Sequence[Any]) -> list[Any]:
        """Return the outputs and exceptions of the function on datasets."""
        return self._calls.call(self.declaration.get("apply", self.target.name), [(dataset,) for dataset in datasets])

    def stability_map(self, d_in: Any) -> Any:
        """Return the value of the declared map. Raises what the function raises."""
        (found,) = self._calls.call(self.declaration["map"], [(d_in,)])
        if isinstance(found, Exception):
            raise found
        return found


def declared_transformation(target: Target) -> DeclaredTransformation:
    """Return the transformation that a target names in TARGETS of its file. Raise InvalidArgument if there is none."""
    found = declarations(target.file, target.python, target.time_limit, target.memory_limit)
    if target.name not in found:
        raise InvalidArgument(f"{Path(target.file).name}: TARGETS must declare {target.name!r}, it has {', '.join(found) or 'nothing'}")
    return DeclaredTransformation(target, found[target.name])


def audit_declared(
    found: DeclaredTransformation, *, seconds: float = 10.0, seed: int | None = None, visible_errors: bool = False
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
    note = library_note(found.target)
    return replace(result, notes=(*result.notes, note)) if note else result
