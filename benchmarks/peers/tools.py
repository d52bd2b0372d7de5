"""The compared tools, read from ``tools.toml``, and their environments."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpwitness.benchmarks.installation import Environment, install
from dpwitness.core.values.validation import InvalidArgument

FILE = Path(__file__).with_name("tools.toml")
OWN = "dpwitness_audit"  # driver of this project's audit, which runs in the present interpreter
SETTINGS = ("best", "default")


@dataclass(frozen=True, slots=True)
class Tool:
    """Auditing tool: one table of ``tools.toml``."""

    name: str  # module of its driver
    title: str
    home: str
    licence: str
    reads: str  # claims and outputs that the tool can express
    default: str  # its default settings
    best: str  # the best settings that we found
    requirements: tuple[str, ...] = ()  # what pip installs
    # folder of the package in a clone of its repository; empty if pip installs the tool
    checkout: str = ""

    def interpreter(self, checkouts: Mapping[str, Path]) -> str:
        """Return the interpreter that has the tool; make its environment first if it is missing.

        Raises
        ------
        InvalidArgument
            If the tool needs a clone of its repository that was not given, or pip fails. The
            message says what to do.
        """
        if self.name == OWN:
            return sys.executable
        if self.checkout and self.name not in checkouts:
            raise InvalidArgument(
                f"{self.title} is not in the registry: clone {self.home}, and give "
                f"--checkout {self.name}=FOLDER"
            )
        environment = Environment(f"peers-{self.name}", (*self.requirements, *_shared()))
        install(environment)
        return str(environment.interpreter)

    def path(self, checkouts: Mapping[str, Path]) -> list[str]:
        """Return the folders that the tool's interpreter searches for its package."""
        return [str(checkouts[self.name] / self.checkout)] if self.checkout else []


def tools() -> dict[str, Tool]:
    """Return all tools by name, this project's first."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))["tools"]
    return {
        name: Tool(name, **table | {"requirements": tuple(table.get("requirements", ()))})
        for name, table in tables.items()
    }


def omitted() -> dict[str, str]:
    """Return the tools that are not compared, each with the reason."""
    return dict(tomllib.loads(FILE.read_text(encoding="utf-8"))["omitted"])


def _shared() -> tuple[str, ...]:
    return tuple(tomllib.loads(FILE.read_text(encoding="utf-8"))["mechanisms"])
