"""Relations that a target file declares in TARGETS, of functions that run in worker processes of
the file's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpwitness.auditors.functions.metamorphic.audit import RELATIONS, audit_metamorphic
from dpwitness.auditors.functions.stability.inputs.spaces import InputSpace, space_of
from dpwitness.auditors.witnesses.verdicts import Result
from dpwitness.core.domains import Domain
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.declared import Declared, declarations
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import build_domain

# keys that name functions
_SUBJECTS = tuple(dict.fromkeys(relation.subject for relation in RELATIONS.values()))
_OPTIONS = (
    "unordered",
    "row_wise",
    "output_metric",
    "input_metric",
    "d_in",
    "epsilon",
    "delta",
    "runs",
    "only",
)


@dataclass(frozen=True, eq=False)
class DeclaredRelations(Declared):
    """Functions of TARGETS in a target file, with the relations that they must satisfy: the
    arguments of `audit_metamorphic` by name.
    """

    KIND = "metamorphic"
    KEYS = (*_SUBJECTS, "map", "input", "domain", *_OPTIONS, "guessed", "notes")
    FUNCTIONS = (*_SUBJECTS, "map")

    def subject(self, key: str) -> Any:
        """Return the function that a key names: a mechanism, mechanisms by epsilon, or a function
        whose exceptions are raised here.
        """
        name, made = str(self.declaration[key]), self.target
        if key == "mechanism":
            return Target(made.file, name, made.python, {}, made.time_limit, made.memory_limit)
        if key == "at_epsilon":
            at = lambda epsilon: Target(  # noqa: E731
                made.file,
                name,
                made.python,
                {"epsilon": epsilon},
                made.time_limit,
                made.memory_limit,
            )
            return _Subject(made, at)
        return _Subject(made, lambda *arguments: self._call(name, *arguments))

    def _call(self, name: str, *arguments: Any) -> Any:
        (found,) = self.calls.call(name, [arguments])
        if isinstance(found, Exception):
            raise found
        return found

    @property
    def domain(self) -> Domain | InputSpace | None:
        """Declared input space, or declared domain of mechanisms; by default the domain of the
        mechanism that is named.
        """
        if "input" in self.declaration:
            return space_of(self.declaration["input"], f"{self.target.name}: input")
        if "domain" in self.declaration:
            return build_domain(self.declaration["domain"], self.target.name)
        return None if self.mechanism is None else self.mechanism.domain

    @property
    def mechanism(self) -> Target | None:
        """Mechanism that is named by `mechanism` or `at_epsilon`; None without one."""
        name = self.declaration.get("mechanism") or self.declaration.get("at_epsilon")
        return None if name is None else replace(self.target, name=name)


@dataclass(frozen=True, eq=False)
class _Subject:
    """Function that a declaration names; witnesses record its target."""

    target: Target
    function: Callable[..., Any]

    @property
    def __name__(self) -> str:
        return self.target.name

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def audit_declared(found: DeclaredRelations, *, seed: int = 0) -> tuple[Result, ...]:
    """Check the relations that a target file declares.

    Parameters
    ----------
    found : DeclaredRelations
        The declaration, as `DeclaredRelations.of` reads it.
    seed : int
        Seed of random runs and orders.

    Returns
    -------
    tuple of Result
        One result for each relation that applies.

    Raises
    ------
    InvalidArgument
        If no relation applies, or the declaration is invalid.
    """
    declared = found.declaration
    options = {key: declared[key] for key in _OPTIONS if key in declared}
    subjects = {key: found.subject(key) for key in _SUBJECTS if key in declared}
    stability_map = found.subject("map") if "map" in declared else None
    return audit_metamorphic(
        **subjects,
        **options,
        stability_map=stability_map,
        domain=found.domain,
        seed=seed,
        name=found.target.name,
    )


def declared_subject(mechanism: Any, relation: str) -> Any:
    """Return the function of a witness of this relation; if the witness names an entry of TARGETS,
    the function in that entry.
    """
    if not isinstance(mechanism, Target) or relation not in RELATIONS:
        return mechanism
    known = declarations(
        mechanism.file, mechanism.python, mechanism.time_limit, mechanism.memory_limit
    )
    if mechanism.name not in known:
        return mechanism
    found, key = DeclaredRelations(mechanism, known[mechanism.name]), RELATIONS[relation].subject
    if key not in found.declaration:
        raise InvalidArgument(
            f"replay: {mechanism.name} must declare {key!r} in TARGETS, as it did when the "
            "witness was written"
        )
    return found.subject(key)
