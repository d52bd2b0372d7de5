"""Entry of a report: the JSON of one result, with its files in the report."""

from __future__ import annotations

from dataclasses import dataclass

from dpwitness.core.values.json_reader import Json


@dataclass(frozen=True, slots=True)
class Entry:
    """Result's JSON with its data in the report: the part of file names, the files, and the
    adjusted p-value.
    """

    result: Json
    slug: str
    witness_file: str | None = None
    plots: tuple[tuple[str, str], ...] = ()  # (alternative text, file)
    adjusted: float | None = None  # Holm-adjusted p-value

    @property
    def name(self) -> str:
        return str(self.result.get("name", self.slug))
