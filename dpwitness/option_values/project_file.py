"""Defaults of options from the table ``[tool.dpwitness]`` of the project's ``pyproject.toml``.

An option on the command line counts more than the table, as does an option that excludes it.
"""

from __future__ import annotations

import argparse
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpwitness.core.values.validation import InvalidArgument, short_repr

KEYS = ("claim", "confidence", "seconds", "baseline", "targets")


def apply_project_defaults(parser: argparse.ArgumentParser, given: Sequence[str]) -> list[str]:
    """Set the defaults of a command's parser that the project's table has, and describe them.

    Parameters
    ----------
    parser : ArgumentParser
        The parser of the command. Keys that it does not take are left out.
    given : sequence of str
        The arguments after the command.

    Returns
    -------
    list of str
        Each new default as it would be typed.

    Raises
    ------
    InvalidArgument
        If the file is no TOML, a key is unknown, or a value is not one that the option takes.
    """
    file, table = _table()
    exclusive = [
        {option for action in group._group_actions for option in action.option_strings}
        for group in parser._mutually_exclusive_groups
    ]
    words, told = {word.partition("=")[0] for word in given}, list[str]()
    for key, value in table.items():
        option = f"--{key}"
        action = parser._option_string_actions.get(option)
        rivals = {option}.union(*(group for group in exclusive if option in group))
        if action is None or rivals & words:
            continue
        try:
            action.default = action.type(str(value)) if callable(action.type) else str(value)
        except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
            raise InvalidArgument(f"{file}: {key}: {error}") from None
        action.required = False
        told.append(f"{option} {shlex.quote(str(value))}")
    targets = table.get("targets", [])
    for action in parser._actions:
        if targets and not action.option_strings and action.nargs in ("*", "?"):
            action.default = targets if action.nargs == "*" else targets[0]
            told.append("targets")
    return told


def _table() -> tuple[Path | None, dict[str, Any]]:
    """Return the nearest project file in the working folder or above it, and its table."""
    folder = Path.cwd()
    files = (each / "pyproject.toml" for each in (folder, *folder.parents))
    file = next((each for each in files if each.is_file()), None)
    if file is None:
        return None, {}
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("dpwitness", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError) as error:
        raise InvalidArgument(f"{file} must be a TOML file: {error}") from None
    for key, value in found.items():
        if key not in KEYS:
            raise InvalidArgument(
                f"{file}: keys of [tool.dpwitness] must be among {', '.join(KEYS)}, got {key!r}"
            )
        listed = isinstance(value, list) and all(isinstance(each, str) for each in value)
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if not (listed if key == "targets" else plain):
            kind = "a list of texts" if key == "targets" else "a text or a number"
            raise InvalidArgument(f"{file}: {key} must be {kind}, got {short_repr(value)}")
    return file, dict(found)
