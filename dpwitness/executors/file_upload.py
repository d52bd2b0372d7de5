"""Selection of the files that are sent to a cluster automatically."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpwitness.auditors.targets.source_search import defining_module, module_files, standard
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.foreign.environments import adapter_file
from dpwitness.mechanisms.foreign.program import command_files
from dpwitness.mechanisms.foreign.target import Target


def defining_files(found: Sequence[Any]) -> list[str]:
    """Return the files that define the given objects, for objects in a single-file module that is not installed.

    Examples
    --------
    >>> from dpwitness.mechanisms import Laplace
    >>> objects = [Target("examples/mine.py", "f"), Target("diffprivlib", "laplace"), Laplace(1.0), len]
    >>> defining_files(objects)[0].endswith("examples/mine.py")
    True
    >>> defining_files([Laplace(1.0), len])
    []
    """
    programs = [file for each in found if isinstance(each, Target) and each.command for file in command_files(each.command, each.cwd or "")]
    others = [each for each in found if each is not None and not (isinstance(each, Target) and each.command)]
    return [*programs, *(file for each in others if (file := _file(each)) is not None)]


def _file(found: Any) -> str | None:
    """Return the file of an object, or None for installed modules, packages and the standard library."""
    module = defining_module(found)
    if isinstance(found, Target):
        if found.file.endswith(".py"):
            return found.file
        module = "builtins" if found.python or adapter_file(found.file) else found.file
    if standard(module) or "." in module:
        return None
    try:
        (file,) = module_files(module, Path.cwd())
    except (InvalidArgument, ValueError):
        return None
    return None if "site-packages" in file.parts or file.suffix != ".py" else str(file)
