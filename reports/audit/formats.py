"""Report formats by name, from the names of their files. Listing the names imports no format, so
that the command line starts fast.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from dpwitness.reports import formats

if TYPE_CHECKING:
    from dpwitness.core.values.json_reader import Json
    from dpwitness.reports.phrasing.facts import Entry
    from dpwitness.reports.plots.album import Album

DEFAULT_FORMATS = ("md", "html", "sarif")  # default formats, written in addition to the JSON


class Format(Protocol):
    """A module ``reports/formats/NAME_format.py``; a hyphen in the name of a format is an
    underscore there.
    """

    SUFFIX: str

    def write(self, document: Json, entries: Sequence[Entry], file: Path, album: Album) -> None:
        """Write the document into `file`, and pictures into the same folder."""


def format_names() -> list[str]:
    """Return the names of all report formats."""
    names = sorted(found.name for found in pkgutil.iter_modules(formats.__path__))
    return [
        name.removesuffix("_format").replace("_", "-") for name in names if name.endswith("_format")
    ]


def format_named(name: str) -> Format:
    """Return the module of a report format."""
    return cast(
        Format, importlib.import_module(f"{formats.__name__}.{name.replace('-', '_')}_format")
    )
