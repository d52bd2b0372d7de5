"""Neighbors of frames with users: all rows of a user are added, removed or changed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from dpwitness.auditors.stability.inputs.neighbors import Distance, Group, RowEdits
from dpwitness.auditors.stability.inputs.spaces import FrameOf, InputSpace
from dpwitness.mechanisms.core.validation import InvalidArgument

_COPIES = (1, 2, 5, 30)  # numbers of rows that a user adds


class UserEdits(RowEdits):
    """Neighbors by the rows of up to d_in users."""

    def __init__(self, space: InputSpace, metric: str, d_in: Sequence[Distance]) -> None:
        column = metric.partition(":")[2]
        if not isinstance(space, FrameOf) or column not in space.columns or space.size is not None:
            raise InvalidArgument(
                f"audit_stability: input_metric {metric} needs a FrameOf with the column {column!r} and any number of rows"
            )
        super().__init__(space, metric, d_in)
        self.at = list(space.columns).index(column)
        self.users = [user for user in space.columns[column].values() if user == user]

    def around(self, rows: list[Any]) -> Iterator[Group]:
        users = self.users[: self.counts[-1]] if self.counts else []
        for value in self.values:
            for copies in _COPIES:
                added = [self._owned(value, user) for user in users for _ in range(copies)]
                yield self._group([(0, rows), *((n, rows + added[: n * copies]) for n in self.counts if n <= len(users))])

    def _edit(self, rows: list[Any], rng: random.Random, repeated: Any) -> tuple[int, list[Any]]:
        owners = [row[self.at] for row in rows]
        user = rng.choice(owners) if owners and rng.random() < 0.5 else rng.choice(self.users)
        kept = [row for row in rows if row[self.at] != user]
        way = rng.random()
        if way < 0.1:
            rng.shuffle(rows)
            return 0, rows
        mine = [] if way < 0.4 else [row for row in rows if row[self.at] == user]
        added = [self._owned(self.space.random_row(rng), user) for _ in range(rng.choice(_COPIES))] if way < 0.9 else []
        at = rng.choice((0, len(kept)))
        return 1, kept[:at] + mine * (way > 0.6) + added + kept[at:]

    def _owned(self, row: Any, user: Any) -> Any:
        return (*row[: self.at], user, *row[self.at + 1 :])
