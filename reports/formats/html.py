"""A report as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence

from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.words.facts import Entry


def html(document: Json, entries: Sequence[Entry], *, plots: bool = True) -> str:
    """The page."""
    raise NotImplementedError
