"""Defaults of a project: the table ``[tool.dpwitness]`` of its ``pyproject.toml``."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from dpwitness.core.values.validation import InvalidArgument, did_you_mean, short_repr

_KEYS = ("claim", "confidence", "seconds", "baseline", "targets")


def project_table(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """Return the nearest project file, in a folder or above it, and its table. The files that the
    table names are relative to the project file.

    Raise InvalidArgument if the file is not valid TOML, a key is unknown, or a value is not of its
    kind.
    """
    files = (each / "pyproject.toml" for each in (folder, *folder.parents))
    file = next((each for each in files if each.is_file()), None)
    if file is None:
        return None, {}
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("dpwitness", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError) as error:
        raise InvalidArgument(f"{file} must be a TOML file: {error}") from None
    return file, {key: _checked(file, key, value) for key, value in found.items()}


def _checked(file: Path, key: str, value: Any) -> Any:
    """Return the value of a key; paths are relative to the project file."""
    if key not in _KEYS:
        raise InvalidArgument(
            f"{file}: keys of [tool.dpwitness] must be among {', '.join(_KEYS)}, got "
            f"{key!r}{did_you_mean(key, _KEYS)}"
        )
    if key == "targets":
        if not isinstance(value, list) or {type(each) for each in value} != {str}:
            raise InvalidArgument(f"{file}: {key} must be a list of texts, got {short_repr(value)}")
        return [_located(file, each) for each in value]
    if type(value) not in (str, int, float):
        raise InvalidArgument(f"{file}: {key} must be a text or a number, got {short_repr(value)}")
    return str(file.parent / str(value)) if key == "baseline" else value


def _located(file: Path, target: str) -> str:
    """Return a target with the path of its file, which is relative to the project file."""
    is_file = re.search(r"\.py(:|$)", target)
    return os.path.relpath(file.parent / target) if is_file else target
