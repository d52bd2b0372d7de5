"""Row of numbers that represents one output, under construction."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dpwitness.auditors.events.arrays import Floats


@dataclasses.dataclass(frozen=True, slots=True)
class Texts:
    """Columns of a row that hold hashes of texts, and the columns with hashes of the texts without
    their numbers.

    The columns hold the hashes of `count` texts, starting at `first`, `stride` columns apart.
    `rest` is the first column with a hash of a text without its numbers. Events use each column
    separately, or all columns together if `pooled`, as for the keys of a dict.
    """

    kind: str
    first: int
    rest: int
    count: int = 1
    stride: int = 2
    pooled: bool = False


@dataclasses.dataclass(slots=True)
class Leaves:
    """Numbers, texts and opaque types found so far in one output."""

    numbers: list[float] = dataclasses.field(default_factory=list)
    extras: int = 0
    # extra columns that are not NaN
    filled: dict[int, float] = dataclasses.field(default_factory=dict)
    loose: list[float] = dataclasses.field(default_factory=list)
    # `rest`, and a negative `first`, are relative to the extra columns
    texts: list[Texts] = dataclasses.field(default_factory=list)
    opaque: set[str] = dataclasses.field(default_factory=set)  # types of objects that have no parts
    # printable text of each hash
    printable: dict[float, str] = dataclasses.field(default_factory=dict)
    table: bool = False  # whether the leaves are cells of a table, whose rows may come in any order
    under_way: list[int] = dataclasses.field(default_factory=list)

    def extra(self, *values: float) -> None:
        """Append extra columns."""
        for value in values:
            if value == value:
                self.filled[self.extras] = value
            self.extras += 1

    def block(self, width: int, values: Floats | None) -> None:
        """Append a block of `width` extra columns; None for NaN in all of them."""
        if values is not None:
            at = np.flatnonzero(~np.isnan(values))
            self.filled.update(zip((at + self.extras).tolist(), values[at].tolist(), strict=True))
        self.extras += width

    def hashed(self, kind: str, codes: list[float]) -> None:
        """Append extra columns of hashes, as pooled texts of this kind."""
        if codes:
            self.texts.append(Texts(kind, -self.extras - 1, self.extras, len(codes), 1, True))
            self.extra(*codes)

    def row(self) -> list[float]:
        """Return all columns of the row. Extra columns after the last non-NaN one are dropped,
        unless loose columns follow.
        """
        if not self.filled and not self.loose:
            return self.numbers
        extra = [math.nan] * (self.extras if self.loose else max(self.filled) + 1)
        for place, value in self.filled.items():
            extra[place] = value
        return self.numbers + extra + self.loose

    def placed(self) -> tuple[Texts, ...]:
        """Return the text columns with their positions in the finished row."""
        main = len(self.numbers)
        return tuple(
            dataclasses.replace(
                each,
                first=main - each.first - 1 if each.first < 0 else each.first,
                rest=main + each.rest,
            )
            for each in self.texts
        )
