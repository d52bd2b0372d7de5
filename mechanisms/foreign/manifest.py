"""What a target says of itself: its promise, where it is to be tried, and what a report must tell of it."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from dpwitness.mechanisms import domains
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument, shown
from dpwitness.mechanisms.foreign.inside.introspection import Unfit, attributes_of
from dpwitness.mechanisms.foreign.program import told_by
from dpwitness.mechanisms.foreign.worker_pool import TargetError, build_domain
from dpwitness.mechanisms.objects.single_runs import PerRun
from dpwitness.mechanisms.privacy import Claim, parse_claim


class Described(ABC):
    """Read from `describe`, which asks the worker once."""

    command: Sequence[str]
    text: str

    @property
    @abstractmethod
    def __name__(self) -> str: ...

    @abstractmethod
    def describe(self) -> Json:
        """All that the target file, or the program, says."""

    @property
    def claim(self) -> Claim | None:
        """What the target file promises. Raises TargetError where the library itself reports no finite promise."""
        text = self.describe()["claim"]
        if text is None:
            return None
        numbers = [part.strip().lower() for part in str(text).partition(":")[2].split(",")]
        if any(number in ("inf", "infinity", "+inf", "nan") for number in numbers):
            raise TargetError(
                f"{self.__name__}: claim must be finite, the target reports {text!r}: it promises nothing that could be refuted"
            )
        try:
            return parse_claim(text)
        except InvalidArgument as error:
            raise TargetError(f"{self.__name__}: {error}") from None

    @property
    def domain(self) -> domains.Domain | None:
        """The declared domain, built by name."""
        found = self.describe()["domain"]
        if found is not None and "own" in found:
            raise TargetError(f"{self.__name__}: its domain is of a class of its own, {found['own']}; use it in this process: --in-process")
        return None if found is None else build_domain(found, self.__name__)

    @property
    def seeded(self) -> bool:
        """Whether the library takes a seed; where it does not, no count can be reproduced."""
        return bool(self.describe()["seeded"])

    @property
    def expected_failures(self) -> dict[str, str]:
        """Checks that are known to fail, with the reason."""
        return dict(self.describe()["expected_failures"])

    @property
    def expected_findings(self) -> dict[str, str]:
        """Kinds of findings of a trace that are known to be no fault, with the reason."""
        return dict(self.describe()["expected_findings"])

    @property
    def batch(self) -> int | None:
        """Most runs in one batch."""
        found: int | None = self.describe()["batch"]
        return found

    @property
    def trials(self) -> int | None:
        """Runs of one audit where nobody says how many."""
        found: int | None = self.describe()["trials"]
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report must say: library and version, a version that was not tested, a library that cannot be seeded."""
        found = self.describe()
        notes = []
        if self.command:
            notes.append(told_by(found, self.text))
        elif found["library"]:
            notes.append(f"{found['library']} {found['version'] or 'of unknown version'}, Python {found['python']}, NumPy {found['numpy']}")
        if found["tested"] and found["version"] and not _inside(found["version"], found["tested"]):
            notes.append(f"{found['library']} {found['version']} is outside the tested range {found['tested']}")
        notes += found["notes"]
        if not found["seeded"]:
            notes.append("not reproducible: the library takes no seed, so the same seed gives other counts")
        return tuple(notes)


def _inside(version: str, tested: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return SpecifierSet(tested).contains(version, prereleases=True)
    except InvalidSpecifier:
        raise TargetError(f"TESTED must be a range of versions such as '>=1.2,<2', got {shown(tested)}") from None
    except InvalidVersion:  # a library whose version cannot be compared
        return False


def require_attributes(mechanism: Any) -> None:
    """Raise InvalidArgument where a function, or a mechanism of single runs, has an attribute that breaks its rule.

    A target in a worker process is checked there, by the same rules, and a class may use these names for parameters.
    """
    if inspect.isfunction(mechanism) or isinstance(mechanism, PerRun):
        try:
            attributes_of(mechanism)
        except Unfit as error:
            raise InvalidArgument(f"{getattr(mechanism, '__name__', 'mechanism')}: {error}") from None
