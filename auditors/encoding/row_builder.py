"""The row of numbers that an output becomes, while its leaves are collected."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dpwitness.auditors.encoding.arrays import Floats


@dataclasses.dataclass(frozen=True, slots=True)
class Texts:
    """Columns that hold hashes: of `count` texts, every `stride` columns, and of what is left of each without its numbers (`rest`).

    Each column is looked at by itself, or all together (`pooled`), as the keys of a dict are.
    """

    kind: str
    first: int
    rest: int
    count: int = 1
    stride: int = 2
    pooled: bool = False


@dataclasses.dataclass(slots=True)
class Leaves:
    """Numbers and texts of one output."""

    numbers: list[float] = dataclasses.field(default_factory=list)
    extras: int = 0
    filled: dict[int, float] = dataclasses.field(default_factory=dict)  # those of the extra columns that hold something
    loose: list[float] = dataclasses.field(default_factory=list)
    texts: list[Texts] = dataclasses.field(default_factory=list)  # `rest`, and `first` where it is negative, count from the extras
    opaque: set[str] = dataclasses.field(default_factory=set)  # types of what cannot be taken apart
    shown: dict[float, str] = dataclasses.field(default_factory=dict)  # what is behind a hash, to be printed
    table: bool = False  # whether the leaves are cells of a table, whose rows may come in any order
    under_way: list[int] = dataclasses.field(default_factory=list)

    def extra(self, *values: float) -> None:
        """Add extra columns."""
        for value in values:
            if value == value:
                self.filled[self.extras] = value
            self.extras += 1

    def block(self, width: int, values: Floats | None) -> None:
        """Add a block of extra columns."""
        if values is not None:
            at = np.flatnonzero(~np.isnan(values))
            self.filled.update(zip((at + self.extras).tolist(), values[at].tolist(), strict=True))
        self.extras += width

    def hashed(self, kind: str, codes: list[float]) -> None:
        """Add extra columns of hashes."""
        if codes:
            self.texts.append(Texts(kind, -self.extras - 1, self.extras, len(codes), 1, True))
            self.extra(*codes)

    def row(self) -> list[float]:
        """All columns; extra ones end with the last that holds something."""
        if not self.filled and not self.loose:
            return self.numbers
        extra = [math.nan] * (self.extras if self.loose else max(self.filled) + 1)
        for place, value in self.filled.items():
            extra[place] = value
        return self.numbers + extra + self.loose

    def placed(self) -> tuple[Texts, ...]:
        """Where the texts are in the row."""
        main = len(self.numbers)
        return tuple(
            dataclasses.replace(each, first=main - each.first - 1 if each.first < 0 else each.first, rest=main + each.rest)
            for each in self.texts
        )
