"""Transformations, accountants and metamorphic relations that a target file declares in TARGETS,
which run in worker processes of the file's interpreter.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpwitness.auditors.functions.accountants import AccountantResult, audit_accountant
from dpwitness.auditors.functions.metamorphic import audit_metamorphic
from dpwitness.auditors.functions.stability import StabilityResult, audit_stability
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.domains import Domain, build_domain
from dpwitness.core.domains.spaces import InputSpace, space_of
from dpwitness.mechanisms.wrappers.programs.declared import Declared, note_on_library
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_process import borrowed_worker

# arguments of `audit_metamorphic`: functions by name, and other values
_SUBJECTS = ("function", "noise", "parallel")
_OPTIONS = ("unordered", "row_wise", "output_metric")


class DeclaredFunction(Declared):
    """Base class of declared functions that `audit` audits without a sampler."""

    def called(self, name: str, *arguments: Any) -> Any:
        """Return the value of a function of the file. An exception of the function is raised here
        too.
        """
        return _value(self.calls.call(name, [arguments]))

    @abstractmethod
    def audit(
        self, *, seconds: float, seed: int = 0, visible_errors: bool = False
    ) -> tuple[Result, ...]:
        """Run the audit of this kind of declaration with these options, and return its results."""


def _value(outcomes: Sequence[Any]) -> Any:
    """Return the only outcome of a call; raise an outcome that is an exception."""
    (found,) = outcomes
    if isinstance(found, Exception):
        raise found
    return found


def with_guess(result: Result, guess: object) -> Result:
    """Return the result, or a suspicion in place of a violation if something about the claim is
    guessed.
    """
    if result.verdict is Verdict.VIOLATED and isinstance(guess, str) and guess:
        return replace(
            result, verdict=Verdict.SUSPECT, notes=(f"not confirmed: {guess}", *result.notes)
        )
    return result


@dataclass(frozen=True, eq=False)
class DeclaredTransformation(DeclaredFunction):
    """Transformation of TARGETS in a target file, with its stability map, input space and metrics.

    An exception of the function is raised by the call; `apply_all` returns exceptions as outcomes.
    """

    KIND = "transformation"
    NEEDED = ("map", "input", "input_metric", "output_metric")
    KEYS = ("apply", *NEEDED, "d_in", "inputs", "notes")
    FUNCTIONS = ("apply", "map")

    def __call__(self, dataset: Any) -> Any:
        return _value(self.apply_all([dataset]))

    @property
    def space(self) -> InputSpace:
        """Declared input space."""
        return space_of(self.declaration["input"], f"{self.target.name}: input")

    @property
    def spent(self) -> bool:
        """Whether the function has ended too many processes to be run further."""
        # process aborts after which a search ends: each costs a new process
        return self.calls.aborts >= 25

    def apply_all(self, datasets: Sequence[Any]) -> list[Any]:
        """Return the outputs and exceptions of the function on datasets."""
        return self.calls.call(
            self.declaration.get("apply", self.target.name), [(dataset,) for dataset in datasets]
        )

    def stability_map(self, d_in: Any) -> Any:
        """Return the value of the declared map. An exception of the function is raised here too."""
        return self.called(self.declaration["map"], d_in)

    def audit(
        self, *, seconds: float, seed: int = 0, visible_errors: bool = False
    ) -> tuple[StabilityResult, ...]:
        """Audit the transformation, as `audit_stability` does."""
        declared = self.declaration
        result = audit_stability(
            self,
            self.stability_map,
            self.space,
            declared["input_metric"],
            declared["output_metric"],
            d_in=declared.get("d_in") or (1, 2, 3),
            seconds=seconds,
            inputs=declared.get("inputs"),
            seed=seed,
            name=self.target.name,
            visible_errors=visible_errors,
        )
        return (replace(result, notes=(*result.notes, *library_notes(self.target))),)


def library_notes(target: Target) -> tuple[str, ...]:
    """Return a note on the library of a target file, if the file names one."""
    return tuple(filter(None, [note_on_library(target)]))


@dataclass(frozen=True, eq=False)
class DeclaredAccountant(DeclaredFunction):
    """Accountant declared in TARGETS of a target file, with its mechanism and the mechanism's
    parameter for each argument.
    """

    KIND = "accountant"
    NEEDED = ("mechanism", "returns", "parameters")
    KEYS = ("function", *NEEDED, "ranges", "notes")
    FUNCTIONS = ("function",)

    def __call__(self, **arguments: Any) -> Any:
        return _value(self.call_each([arguments]))

    def call_each(self, arguments: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the figures and exceptions of several calls, in order."""
        names = list(arguments[0]) if arguments else []
        values = [tuple(each[name] for name in names) for each in arguments]
        return self.calls.call(self.declaration.get("function", self.target.name), values, names)

    def audit(
        self,
        *,
        seconds: float,
        seed: int = 0,
        visible_errors: bool = False,
        evaluations: int = 2000,
    ) -> tuple[AccountantResult, ...]:
        """Audit the accountant, as `audit_accountant` does."""
        declared = self.declaration
        # the import of the library does not count for the budget
        with borrowed_worker(self.target._slot, self.target.time_limit):
            pass
        result = audit_accountant(
            self,
            declared["mechanism"],
            declared["returns"],
            declared["parameters"],
            ranges=declared.get("ranges"),
            seconds=seconds,
            evaluations=evaluations,
            seed=seed,
            name=self.target.name,
        )
        return (result,)


@dataclass(frozen=True, eq=False)
class DeclaredRelations(DeclaredFunction):
    """Functions of TARGETS in a target file, with the relations that they must satisfy: the
    arguments of `audit_metamorphic` by name.
    """

    KIND = "metamorphic"
    KEYS = (*_SUBJECTS, *_OPTIONS, "input", "domain", "guessed", "notes")
    FUNCTIONS = _SUBJECTS

    def subject(self, key: str) -> Any:
        """Return the function that a key names, whose exceptions are raised here."""
        return _Subject(self, self.declaration[key])

    @property
    def domain(self) -> Domain | InputSpace | None:
        """Declared input space, or declared domain of mechanisms."""
        if "input" in self.declaration:
            return space_of(self.declaration["input"], f"{self.target.name}: input")
        if "domain" in self.declaration:
            return build_domain(self.declaration["domain"], self.target.name)
        return None

    def audit(
        self, *, seconds: float = 0.0, seed: int = 0, visible_errors: bool = False
    ) -> tuple[Result, ...]:
        """Check the relations that apply, as `audit_metamorphic` does."""
        declared = self.declaration
        return audit_metamorphic(
            **{key: self.subject(key) for key in _SUBJECTS if key in declared},
            **{key: declared[key] for key in _OPTIONS if key in declared},
            domain=self.domain,
            seed=seed,
            name=self.target.name,
        )


@dataclass(frozen=True, eq=False)
class _Subject:
    """Function that a declaration names; witnesses record the declaration's target."""

    declared: DeclaredRelations
    function: str

    @property
    def target(self) -> Target:
        return self.declared.target

    @property
    def __name__(self) -> str:
        return self.target.name

    def __call__(self, *arguments: Any) -> Any:
        return self.declared.called(self.function, *arguments)


DECLARED: Mapping[str, type[DeclaredFunction]] = {
    kind.KIND: kind for kind in (DeclaredTransformation, DeclaredAccountant, DeclaredRelations)
}
