"""Description of a target: its claim, its domain, and its notes for reports."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from dpwitness.core import domains
from dpwitness.core.claims import Claim, parse_claim
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, short_repr
from dpwitness.mechanisms.wrappers.programs.inside.introspection import Unfit, attributes_of
from dpwitness.mechanisms.wrappers.programs.program_messages import program_note
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError, build_domain
from dpwitness.mechanisms.wrappers.single_runs import PerRun


class DescribedTarget(ABC):
    """Base class of targets whose attributes are read from `describe`, which asks the
    worker once.
    """

    command: Sequence[str]
    text: str

    @property
    @abstractmethod
    def __name__(self) -> str: ...

    @abstractmethod
    def describe(self) -> Json:
        """Return all declarations of the target file or the program."""

    @property
    def claim(self) -> Claim | None:
        """Claim of the target file. Raises TargetError if the library itself reports an infinite
        claim.
        """
        text = self.describe()["claim"]
        if text is None:
            return None
        numbers = [part.strip().lower() for part in str(text).partition(":")[2].split(",")]
        if any(number in ("inf", "infinity", "+inf", "nan") for number in numbers):
            raise TargetError(
                f"{self.__name__}: claim must be finite, the target reports {text!r}, which "
                "cannot be refuted"
            )
        try:
            return parse_claim(text)
        except InvalidArgument as error:
            raise TargetError(f"{self.__name__}: {error}") from None

    @property
    def domain(self) -> domains.Domain | None:
        """Declared domain, built from its kind and arguments."""
        found = self.describe()["domain"]
        if found is not None and "own" in found:
            raise TargetError(
                f"{self.__name__}: its domain is a user-defined class, {found['own']}; use "
                "it in this process: --in-process"
            )
        return None if found is None else build_domain(found, self.__name__)

    @property
    def seeded(self) -> bool:
        """Whether the library takes a seed. Without a seed, no count can be reproduced."""
        return bool(self.describe()["seeded"])

    @property
    def expected_failures(self) -> dict[str, str]:
        """Names of the checks that are known to fail, with the reasons."""
        return dict(self.describe()["expected_failures"])

    @property
    def expected_findings(self) -> dict[str, str]:
        """Kinds of trace findings that are known not to be faults, with the reasons."""
        return dict(self.describe()["expected_findings"])

    @property
    def guessed(self) -> str:
        """Parts of claim, relation or domain that a scan guessed; empty if a person or the library
        states the claim.
        """
        return str(self.describe().get("guessed") or "")

    @property
    def batch(self) -> int | None:
        """Largest number of runs in one batch; None without a limit."""
        found: int | None = self.describe()["batch"]
        return found

    @property
    def trials(self) -> int | None:
        """Default number of runs of an audit; None if the target declares none."""
        found: int | None = self.describe()["trials"]
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for reports: library and version, a version outside the tested range, a library
        without seeds.
        """
        found = self.describe()
        notes = []
        if self.command:
            notes.append(program_note(found, self.text))
        elif found["library"]:
            notes.append(
                f"{found['library']} {found['version'] or 'of unknown version'}, Python "
                f"{found['python']}, NumPy {found['numpy']}"
            )
        if (
            found["tested"]
            and found["version"]
            and not _is_tested_version(found["version"], found["tested"])
        ):
            notes.append(
                f"{found['library']} {found['version']} is outside the tested range "
                f"{found['tested']}"
            )
        notes += found["notes"]
        if not found["seeded"]:
            notes.append(
                "not reproducible: the library takes no seed, so the same seed gives other counts"
            )
        return tuple(notes)


def _is_tested_version(version: str, tested: str) -> bool:
    """Return whether a version lies in the tested range; False if the version is not comparable."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return SpecifierSet(tested).contains(version, prereleases=True)
    except InvalidSpecifier:
        raise TargetError(
            f"TESTED must be a range of versions such as '>=1.2,<2', got {short_repr(tested)}"
        ) from None
    except InvalidVersion:  # the library's version number does not follow the standard
        return False


def require_attributes(mechanism: Any) -> None:
    """Raise InvalidArgument if an attribute of a function, or of a mechanism of single runs, is
    invalid.

    Targets in worker processes are checked there by the same rules. Classes are not checked,
    because they may use these names for parameters.
    """
    if inspect.isfunction(mechanism) or isinstance(mechanism, PerRun):
        try:
            attributes_of(mechanism)
        except Unfit as error:
            raise InvalidArgument(
                f"{getattr(mechanism, '__name__', 'mechanism')}: {error}"
            ) from None
