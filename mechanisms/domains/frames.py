"""Frames of columns with a type each, and streams of events: a neighbour changes a row, all rows of a user, or some columns of a row.

Pairs are those of `Rows`, whose numbers stand for the values of columns: a category by its place, a date by its day, a missing value by a
column beside. Where users, or several records, count as one, the changed row stands there several times, alike or one for each category.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.mechanisms.domains.base import Domain, Draws, Moves, Shape
from dpwitness.mechanisms.domains.columns import FRAMES, Column, built, column, lists_of
from dpwitness.mechanisms.domains.fields import LONGEST, sized
from dpwitness.mechanisms.domains.patterns import DIGITS, changed_place, shorter
from dpwitness.mechanisms.domains.rows import Rows
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.relations import SpelledRelation, parse_relation
from dpwitness.mechanisms.terms.validation import InvalidArgument, require, require_integer, require_type, shown

_Row = tuple[float | None, ...]  # None where missing


@dataclass(frozen=True, slots=True)
class Table(Domain):
    """Frames of up to `size` rows: pandas, polars, arrow, a dict of columns, or records, a list of dicts (`frame`).

    `columns` says by name what each holds: (low, high) for floats, whole numbers or dates, a list of texts for categories, or a dict with
    the keys low, high, categories and missing. `user` names the column that says whose a row is; then neighbours differ in all rows of one
    user (``add-remove:unit=USER`` if no `relation` is given), of which there are up to `per_user`. Relations: ``replace-one``,
    ``add-remove``, both with ``unit=`` the user's column or with ``k=``, ``attribute:columns=``, ``label:columns=`` and ``event``.
    `time` names a column that numbers the rows, in increasing order. The user's column may not have missing values.
    """

    columns: Mapping[str, Any]
    size: int = 8
    user: str | None = None
    relation: str = ""
    per_user: int = 4
    frame: str = "pandas"
    time: str | None = None
    held: tuple[Column, ...] = field(init=False, repr=False, compare=False, default=())
    rows: Rows = field(init=False, repr=False, compare=False, default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        owner = type(self).__name__
        require(self).integer("size", most=LONGEST).one_of("frame", list(FRAMES))
        require_integer("per_user", self.per_user, owner)
        for name in ("user", "time"):
            require_type(name, getattr(self, name), str, "be the name of a column", owner, optional=True)
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise InvalidArgument(f"{owner}: columns must be a dict of names and what each holds, got {shown(self.columns)}")
        if self.time in self.columns or (self.user is not None and self.user == self.time):
            raise InvalidArgument(f"{owner}: time must name a column of its own, got {self.time!r}")
        given = [column(name, held, owner) for name, held in self.columns.items()]
        ends = (0.0, float(self.size + self.per_user))
        number = [Column(name, "integer", *ends) for name in (self.user, self.time) if name is not None and name not in self.columns]
        object.__setattr__(self, "held", (*number, *given))
        object.__setattr__(self, "relation", self.relation or (f"add-remove:unit={self.user}" if self.user else "replace-one"))
        asked = self._asked(owner)
        whole = [i for i, each in enumerate(self._moving) if each.kind != "float"]
        flags = [len(self._moving) + i for i in range(len(self._absent))]
        names = [i for i, each in enumerate(self._moving) if each.kind == "category"]
        copies = self._copies(asked)[0]
        if self.size < copies:
            raise InvalidArgument(f"{owner}: size must be at least the {copies} rows that may differ, got {self.size}")
        most = self._most(owner, asked, copies)
        features = [(each.low, each.high) for each in self._moving] + [(0.0, 1.0)] * len(flags)
        kind = "add-remove" if asked.name in ("add-remove", "event") else "replace-one"
        try:
            rows = Rows(most - copies + 1, tuple(features), (), kind, integer=(*whole, *flags), categories=(*names, *flags))
        except InvalidArgument as error:
            raise InvalidArgument(str(error).replace("Rows: ", f"{owner}: ", 1)) from None
        object.__setattr__(self, "rows", rows)

    def _most(self, owner: str, asked: SpelledRelation, copies: int) -> int:
        """How many rows a dataset may have, of as many users as the user's column can name."""
        if self.user is None:
            return self.size
        whose = next(each for each in self.held if each.name == self.user)
        if whose.missing:
            raise InvalidArgument(f"{owner}: column {self.user} names the user of each row, so missing must be False, got True")
        if asked.unit:
            return min(self.size, (_users(whose) - 1) * self.per_user + copies)
        most = min(self.size, _users(whose) * self.per_user)
        if most < self.size and asked.name in ("replace-one", "attribute", "label"):
            raise InvalidArgument(
                f"{owner}: size must be at most {most}, for {_users(whose)} users of {self.per_user} rows each, got {self.size}; "
                f"raise per_user or name more users"
            )
        return most

    def _asked(self, owner: str) -> SpelledRelation:
        asked = parse_relation(self.relation, owner)
        names = [each.name for each in self.held]
        if asked.name not in ("replace-one", "add-remove", "attribute", "label", "event"):
            raise InvalidArgument(f"{owner}: relation must be replace-one, add-remove, attribute, label or event, got {self.relation!r}")
        if asked.unit not in ("", self.user):
            raise InvalidArgument(f"{owner}: the unit of the relation must be the user's column, {self.user}, got {asked.unit!r}")
        if any(name not in names or name in (self.user, self.time) for name in asked.columns):
            raise InvalidArgument(
                f"{owner}: columns of the relation must be among {', '.join(self.columns)}, got {'+'.join(asked.columns)}"
            )
        if asked.name == "label" and not asked.columns:
            raise InvalidArgument(f"{owner}: relation label must name its column, label:columns=NAME, got {self.relation!r}")
        free = [each for each in self.held if each.name in asked.columns]
        if free and (len(free) == len(names) or not any(each.low < each.high or each.missing for each in free)):
            why = "each column may change, which is replace-one" if len(free) == len(names) else "these columns hold one value only"
            raise InvalidArgument(f"{owner}: domain must have neighbors, got {self.relation!r}: {why}; name other columns")
        object.__setattr__(self, "relation", str(asked))
        return asked

    @property
    def _moving(self) -> list[Column]:
        """Columns that hold what is told of a record: not whose it is, and when."""
        return [each for each in self.held if each.name not in (self.user, self.time)]

    @property
    def _absent(self) -> list[int]:
        return [i for i, each in enumerate(self._moving) if each.missing]

    def _copies(self, asked: SpelledRelation) -> list[int]:
        """How many rows the changed one stands for, by turns."""
        most = self.per_user if asked.unit else asked.k
        return list(dict.fromkeys([most, most, max(most // 2, 1), 1])) if asked.unit else [most]

    def contains(self, dataset: Any) -> bool:
        """A frame of this library with these columns, each value as allowed, and as many rows as allowed."""
        return self.why_not(dataset) == ""

    def why_not(self, dataset: Any) -> str:
        """Why a dataset is none of the domain; an empty text for one that is."""
        found = lists_of(dataset, self.frame)
        if told := self._other_columns(found):
            return told
        assert not isinstance(found, str)
        for each in self.held:
            wrong = [value for value in found.get(each.name, ()) if each.number(value) is None]
            if wrong:
                return f"column {each.name} holds {shown(wrong[0])}, which the domain does not allow"
        if self.frame == "pandas" and (dataset.index.name is not None or dataset.index.dtype.kind not in "iu"):
            return "its index holds more than row numbers, which the domain does not name: call reset_index()"
        if problem := self._crowded(found):
            return problem
        count = len(next(iter(found.values()), ()))
        asked = parse_relation(self.relation)
        fixed = not asked.unit and asked.name in ("replace-one", "attribute", "label")
        return "" if sized(count, self.size, "replace-one" if fixed else "add-remove") else f"it has {count} rows, the domain {self.size}"

    def _crowded(self, found: dict[Any, list[Any]]) -> str:
        """Whether a user has too many rows, or the rows are not numbered in order."""
        if self.user is not None and found:
            user, rows = Counter(found[self.user]).most_common(1)[0] if found[self.user] else (None, 0)
            if rows > self.per_user:
                return f"{self.user} {shown(user)} has {rows} rows, at most per_user={self.per_user} may belong to one"
        times = found.get(self.time, []) if self.time is not None else []
        if any(later <= earlier for earlier, later in itertools.pairwise(times)):
            return f"column {self.time} must number the rows in increasing order, got {shown(times)}"
        return ""

    def other_columns(self, dataset: Any) -> str:
        """Why a dataset is no frame of these columns."""
        return self._other_columns(lists_of(dataset, self.frame))

    def _other_columns(self, found: dict[Any, list[Any]] | str) -> str:
        if isinstance(found, str):
            return found
        names = [each.name for each in self.held]
        if (found or self.frame != "records") and set(found) != set(names):
            return f"it has the columns {', '.join(map(str, found)) or 'none'}; the domain names {', '.join(names)}"
        return ""

    def catalogue(self) -> Iterable[Pair | None]:
        """The shapes of `Rows`, in frames."""
        return [told for turn, pair in enumerate(self.rows.catalogue()) for told in self._turns(pair, turn)]

    def _turns(self, pair: Pair | None, turn: int) -> list[Pair | None]:
        """Of the first pairs each number of rows of a user, of the others one by turns."""
        if pair is None:
            return []
        styles = self.styles
        return [self.told(pair, style) for style in (range(styles) if turn < 3 else [turn])]

    @property
    def styles(self) -> int:
        """In how many ways a changed row stands for several."""
        copies = self._copies(parse_relation(self.relation))
        return len(copies) + (copies[0] > 1 and any(each.kind == "category" for each in self._moving))

    def told(self, pair: Pair, style: int = 0) -> Pair | None:
        """A pair of `Rows` in frames; None where it is none of the domain."""
        asked = parse_relation(self.relation)
        copies = [*self._copies(asked), self._copies(asked)[0]][style % self.styles]
        spread = style % self.styles >= len(self._copies(asked))
        shorter, longer = sorted((np.asarray(pair.d0, dtype=float), np.asarray(pair.d1, dtype=float)), key=len)
        at = changed_place(longer, shorter)
        crowd, after = np.delete(longer, at, axis=0), self._rows_of(longer[at], copies, spread)
        before = after[:0] if len(shorter) < len(longer) else self._rows_of(shorter[at], copies, spread)
        if style // self.styles % 2 == 0:  # by turns what is changed is there, whatever else is
            after[:, len(self._moving) :] = before[:, len(self._moving) :] = 0.0
        if asked.name in ("attribute", "label"):
            free = [each.name in asked.columns for each in self._moving]
            free += [free[i] for i in self._absent]
            after[:, np.logical_not(free)] = before[:, np.logical_not(free)]
        whose = self._owners(len(crowd), asked, many=style % 2 == 0)
        sides = []
        for rows in (before, after):
            mine = np.zeros(len(rows)) if asked.unit else len(crowd) + 1 + np.arange(len(rows))
            owners = np.concatenate([whose[:at], mine, whose[at:]])
            times = np.concatenate([np.arange(at), at + np.arange(len(rows)), at + len(after) + np.arange(len(crowd) - at)])
            sides.append(self._dataset(np.concatenate([crowd[:at], rows, crowd[at:]]), owners, times))
        many = f", {copies} rows{' of one user' if asked.unit else ''}{', each category' if spread else ''}" if copies > 1 else ""
        return self.pair(sides[0], sides[1], pair.why + many)

    def _owners(self, crowd: int, asked: SpelledRelation, many: bool) -> Any:
        """Users of the other rows, counted from 1; 0 is the user that changes. `many`: as many as there are, otherwise few."""
        others = np.arange(1, crowd + 1)
        if not asked.unit:
            return others
        known = _users(next(each for each in self.held if each.name == self.user)) - 1
        if many:
            return 1 + (others - 1) % max(known, 1)
        return 1 + others % max(min(known, max(2, -(-crowd // self.per_user))), 1)

    def _rows_of(self, row: FloatArray, copies: int, spread: bool) -> FloatArray:
        """A row several times; `spread`: its categories one after the other."""
        rows = np.tile(row, (copies, 1))
        for i, each in enumerate(self._moving):
            if spread and each.kind == "category":
                rows[:, i] = (row[i] + np.arange(copies)) % len(each.categories)
        return rows

    def _dataset(self, matrix: FloatArray, owners: FloatArray, times: FloatArray) -> Any:
        moving, absent = self._moving, self._absent
        held = {}
        for i, each in enumerate(moving):
            gone = matrix[:, len(moving) + absent.index(i)] > 0 if i in absent else np.zeros(len(matrix), dtype=bool)
            held[each.name] = [None if away else each.value(number) for number, away in zip(matrix[:, i], gone, strict=True)]
        for each in self.held:
            if each.name == self.user:
                first = 0.0 if each.kind == "category" else each.low
                held[each.name] = [each.value(first + int(owner) % _users(each)) for owner in owners]
            elif each.name == self.time:
                held[each.name] = [int(time) for time in times]
        return built(self.frame, self.held, [held[each.name] for each in self.held], type(self).__name__)

    def _matrix(self, dataset: Any) -> FloatArray:
        """The inverse, of a dataset of the domain, without whose and when."""
        found = lists_of(dataset, self.frame)
        assert not isinstance(found, str)
        columns = [np.array([each.number(value) for value in found.get(each.name, ())], dtype=float) for each in self._moving]
        flags = [np.isnan(columns[i]).astype(float) for i in self._absent]
        low = [np.where(np.isnan(held), each.low, held) for each, held in zip(self._moving, columns, strict=True)]
        return np.column_stack([*low, *flags])

    def rows_pair(self, pair: Pair) -> Pair | None:
        """The pair of `Rows` that a pair of frames stands for, where each row counts by itself."""
        asked = parse_relation(self.relation)
        if asked.unit or asked.k > 1 or asked.name not in ("replace-one", "add-remove"):
            return None
        return self.rows.pair(self._matrix(pair.d0), self._matrix(pair.d1), pair.why)

    def draws(self, rng: Generator) -> Draws[Table]:
        return _Drawn(self, rng)

    def shape(self, rng: Generator, turn: int) -> Shape:
        inner = self.rows.shape(rng, turn)

        def decode(z: FloatArray) -> Pair | None:
            pair = inner.decode(z)
            return None if pair is None else self.told(pair, turn)

        return Shape(inner.size, decode)

    def simpler(self, pair: Pair) -> Iterator[Pair]:
        """Without rows that both have, all of them first, where their number may change; with these at zero; with fewer digits."""
        sides = [self._numbers(side) for side in (pair.d0, pair.d1)]
        both = Counter(sides[0]) & Counter(sides[1])
        gone = [both, *(Counter([row]) for row in both if both.total() > 1)]
        ways = [[_without(rows, some) for rows in sides] for some in gone]
        ways += [[[self._short(row, 0) if row in both else row for row in rows] for rows in sides]]
        ways += [[[self._short(row, digits) for row in rows] for rows in sides] for digits in DIGITS]
        for way in ways:
            found = None if way == sides else self.pair(self._framed(way[0]), self._framed(way[1]), pair.why)
            if found is not None:
                yield found

    def _numbers(self, dataset: Any) -> list[_Row]:
        """The rows of a dataset of the domain as numbers."""
        found = lists_of(dataset, self.frame)
        assert not isinstance(found, str)
        columns = [[each.number(value) for value in found.get(each.name, ())] for each in self.held]
        return [tuple(None if number is None or math.isnan(number) else number for number in row) for row in zip(*columns, strict=True)]

    def _framed(self, rows: list[_Row]) -> Any:
        values = [[None if (number := row[i]) is None else each.value(number) for row in rows] for i, each in enumerate(self.held)]
        return built(self.frame, self.held, values, type(self).__name__)

    def _short(self, row: _Row, digits: int) -> _Row:
        """A row with zero for each number that is told of a record, or with fewer digits, inside the bounds."""
        moving = self._moving
        return tuple(
            float(shorter(np.array(number), digits, each.low, each.high)) if number is not None and each in moving else number
            for each, number in zip(self.held, row, strict=True)
        )

    @property
    def records(self) -> int:
        return self.size

    @property
    def whole(self) -> bool:
        return self.rows.whole

    @property
    def unordered(self) -> bool:
        return self.rows.unordered


def _users(column: Column) -> int:
    """How many users a column can name: its categories, or its whole numbers or days."""
    return len(column.categories) if column.kind == "category" else int(column.high - column.low) + 1


def _without(rows: list[_Row], gone: Counter[_Row]) -> list[_Row]:
    left, kept = Counter(gone), []
    for row in rows:
        if left[row]:
            left[row] -= 1
        else:
            kept.append(row)
    return kept


class _Drawn(Draws[Table]):
    def __init__(self, domain: Table, rng: Generator) -> None:
        super().__init__(domain, rng)
        self._inner, self._turn = domain.rows.draws(rng), itertools.count()

    def drawn(self, turn: int, corners: bool) -> Pair | None:
        pair = self._inner.drawn(turn, corners)
        return None if pair is None else self.domain.told(pair, next(self._turn))

    def moves(self) -> Moves | None:
        asked = parse_relation(self.domain.relation)
        return None if asked.unit or asked.k > 1 or asked.name not in ("replace-one", "add-remove") else _Moves(self.domain, self._inner)


class _Moves(Moves):
    """Steps of `Rows`, in frames."""

    def __init__(self, domain: Table, inner: Draws[Any]) -> None:
        moves = inner.moves()
        assert moves is not None
        self._domain, self._moves = domain, moves

    def step(self, pair: Pair) -> tuple[int, Pair | None]:
        inner = self._domain.rows_pair(pair)
        if inner is None:
            return 0, None
        part, found = self._moves.step(inner)
        return part, None if found is None else self._domain.told(found, self._domain.styles)

    def learn(self, part: int, before: float, after: float) -> None:
        self._moves.learn(part, before, after)


@dataclass(frozen=True, slots=True)
class Events(Table):
    """Streams of up to `size` events, in order: a list of dicts with `columns`, the number of the event under `time`, and a `user`.

    Columns as in `Table`. Neighbours by ``event``: one is added or removed, the others keep their order and their time; or by user,
    ``add-remove:unit=USER``.
    """

    frame: str = "records"
    time: str | None = "time"

    def __post_init__(self) -> None:
        if not self.relation and self.user is None:
            object.__setattr__(self, "relation", "event")
        Table.__post_init__(self)
