"""Accountants that a target file declares in TARGETS, which run in worker processes of the file's
interpreter, and replay of witnesses.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpwitness.auditors.functions.accounting.audit import audit_accountant, compare_at
from dpwitness.auditors.functions.accounting.result import AccountantResult
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.declared import Declared
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import loaded


@dataclass(frozen=True, eq=False)
class DeclaredAccountant(Declared):
    """Accountant declared in TARGETS of a target file, with its mechanism and the mechanism's
    parameter for each argument.
    """

    KIND = "accountant"
    NEEDED = ("mechanism", "returns", "parameters")
    KEYS = ("function", *NEEDED, "ranges", "notes")
    FUNCTIONS = ("function",)

    def __call__(self, **arguments: Any) -> Any:
        (found,) = self.call_each([arguments])
        if isinstance(found, Exception):
            raise found
        return found

    def call_each(self, arguments: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the figures and exceptions of several calls, in order."""
        names = list(arguments[0]) if arguments else []
        values = [tuple(each[name] for name in names) for each in arguments]
        return self.calls.call(self.declaration.get("function", self.target.name), values, names)


declared_accountant = DeclaredAccountant.of


def audit_declared(
    found: DeclaredAccountant, *, seconds: float = 20.0, evaluations: int = 2000, seed: int = 0
) -> AccountantResult:
    """Audit a declared accountant, as `audit_accountant` does."""
    declared = found.declaration
    # the import of the library does not count for the budget
    with loaded(found.target._slot, found.target.time_limit):
        pass
    return audit_accountant(
        found,
        declared["mechanism"],
        declared["returns"],
        declared["parameters"],
        ranges=declared.get("ranges"),
        seconds=seconds,
        evaluations=evaluations,
        seed=seed,
        name=found.target.name,
    )


def replay_figure(raw: Json, function: Any, name: str) -> AccountantResult:
    """Call the accountant of a witness at the recorded parameters again, and compare the figure
    with the exact one again.
    """
    begin = time.perf_counter()
    found = declared_accountant(function) if isinstance(function, Target) else function
    if not callable(found):
        raise InvalidArgument(f"replay: target must be a function, got {type(found).__name__}")
    at = {
        key: tuple(value) if isinstance(value, list) else value for key, value in raw["at"].items()
    }
    return compare_at(
        found, raw["mechanism"], raw["returns"], raw["parameters"], at, raw["seed"], name, begin
    )
