"""Neighbors by edits of one column's rows or of a user's rows, and the choice of the neighbors of
an input space under a metric.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from dpwitness.auditors.functions.stability.inputs.neighbors import (
    Distance,
    Group,
    Neighborhood,
    NumberMoves,
    RowEdits,
)
from dpwitness.auditors.functions.stability.inputs.spaces import (
    FrameOf,
    InputSpace,
    ScalarOf,
    VectorOf,
)
from dpwitness.core.values.validation import InvalidArgument

_ROW_METRICS = ("symmetric", "insert-delete", "change-one", "hamming", "discrete")
_NUMBER_METRICS = ("absolute", "l1", "l2", "linf")


def neighborhood(space: InputSpace, metric: str, d_in: Sequence[Distance]) -> Neighborhood:
    """Return the source of neighbors of a space under a metric. Raise InvalidArgument if the metric
    does not apply to the space.
    """
    if metric in _ROW_METRICS:
        if isinstance(space, ScalarOf) and metric != "discrete":
            raise InvalidArgument(
                "audit_stability: input_metric of a scalar must be absolute or discrete, "
                f"got {metric}"
            )
        return RowEdits(space, metric, d_in)
    if metric in _NUMBER_METRICS:
        if isinstance(space, VectorOf | ScalarOf) and isinstance(space, ScalarOf) == (
            metric == "absolute"
        ):
            return NumberMoves(space, metric, d_in)
        wanted = "a scalar" if metric == "absolute" else "a vector"
        raise InvalidArgument(
            f"audit_stability: input_metric {metric} needs {wanted} of numbers, got a "
            f"{space.to_json()['type']}"
        )
    if metric.startswith("user:"):
        return UserEdits(space, metric, d_in)
    if metric.startswith("by:"):
        return ColumnEdits(space, metric, d_in)
    raise InvalidArgument(
        f"audit_stability: input_metric {metric} has no known neighbors; use one of "
        f"{', '.join(_ROW_METRICS + _NUMBER_METRICS)}"
    )


_GROUPS = 12  # largest number of values of a column that change together
_COPIES = (1, 2, 5, 30)  # numbers of rows that a user adds


class ColumnEdits(RowEdits):
    """Neighbors by up to d_in edits of the rows with one value of a column, for several values at
    once.
    """

    def __init__(self, space: InputSpace, metric: str, d_in: Sequence[Distance]) -> None:
        _, column, inner = metric.split(":", 2)
        if (
            not isinstance(space, FrameOf)
            or column not in space.columns
            or space.size is not None
            or inner != "symmetric"
        ):
            rule = (
                "must be by:COLUMN:symmetric, on a FrameOf with this column and any number of rows"
            )
            raise InvalidArgument(f"audit_stability: input_metric {rule}, got {metric}")
        super().__init__(space, metric, d_in)
        self.at = list(space.columns).index(column)
        self.groups = [value for value in space.columns[column].values() if value == value][
            :_GROUPS
        ]

    def around(self, rows: list[Any]) -> Iterator[Group]:
        for value in self.values:
            for groups in (self.groups[:1], self.groups):
                added = [(*value[: self.at], group, *value[self.at + 1 :]) for group in groups]
                yield self._group([(0, rows), *((n, rows + added * n) for n in self.counts)])

    def _edit(self, rows: list[Any], rng: random.Random, repeated: Any) -> tuple[int, list[Any]]:
        if rng.random() < 0.1:
            rng.shuffle(rows)
            return 0, rows
        for group in rng.sample(self.groups, rng.randint(1, len(self.groups))):
            mine = [i for i, row in enumerate(rows) if row[self.at] == group]
            if mine and rng.random() < 0.5:
                del rows[rng.choice(mine)]
            else:
                row = self.space.random_row(rng)
                rows.insert(
                    rng.choice((0, len(rows))), (*row[: self.at], group, *row[self.at + 1 :])
                )
        return 1, rows


class UserEdits(RowEdits):
    """Neighbors that differ in all rows of at most d_in users."""

    def __init__(self, space: InputSpace, metric: str, d_in: Sequence[Distance]) -> None:
        column = metric.partition(":")[2]
        if not isinstance(space, FrameOf) or column not in space.columns or space.size is not None:
            raise InvalidArgument(
                f"audit_stability: input_metric {metric} needs a FrameOf with the column "
                f"{column!r} and any number of rows"
            )
        super().__init__(space, metric, d_in)
        self.at = list(space.columns).index(column)
        self.users = [user for user in space.columns[column].values() if user == user]

    def around(self, rows: list[Any]) -> Iterator[Group]:
        users = self.users[: self.counts[-1]] if self.counts else []
        for value in self.values:
            for copies in _COPIES:
                added = [self._owned(value, user) for user in users for _ in range(copies)]
                yield self._group(
                    [
                        (0, rows),
                        *((n, rows + added[: n * copies]) for n in self.counts if n <= len(users)),
                    ]
                )

    def _edit(self, rows: list[Any], rng: random.Random, repeated: Any) -> tuple[int, list[Any]]:
        owners = [row[self.at] for row in rows]
        user = rng.choice(owners) if owners and rng.random() < 0.5 else rng.choice(self.users)
        kept = [row for row in rows if row[self.at] != user]
        way = rng.random()
        if way < 0.1:
            rng.shuffle(rows)
            return 0, rows
        mine = [] if way < 0.4 else [row for row in rows if row[self.at] == user]
        added = (
            [self._owned(self.space.random_row(rng), user) for _ in range(rng.choice(_COPIES))]
            if way < 0.9
            else []
        )
        at = rng.choice((0, len(kept)))
        return 1, kept[:at] + mine * (way > 0.6) + added + kept[at:]

    def _owned(self, row: Any, user: Any) -> Any:
        return (*row[: self.at], user, *row[self.at + 1 :])
