"""The domains of data frames with typed columns, and of event streams. Neighbors differ in a row,
in all rows of a user, or in some columns.

Pairs are built from pairs of `Rows`, whose numbers encode the values: a category by its index, a
date by its day, a missing or infinite value by an additional flag column. Where users or groups of
k records count as one, the changed row is repeated, unchanged or with each category."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.datasets.relations import ParsedRelation, parse_relation
from dpwitness.core.domains.base import (
    DIGITS,
    MAX_ENTRIES,
    Domain,
    PairSampler,
    SearchSpace,
    changed_row_index,
    chosen,
    shorter,
    sized,
    without,
)
from dpwitness.core.domains.columns import FORMS, Column, built, column, column_lists
from dpwitness.core.domains.records import Rows
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import (
    InvalidArgument,
    require,
    require_integer,
    require_rules,
    require_type,
    short_repr,
)

_Row = tuple[float | None, ...]  # None where missing
_USUAL_SIZE, _LARGEST_SIZE = 8, 200  # numbers of rows where none is declared


@dataclass(frozen=True, slots=True)
class Table(Domain):
    """Frames of up to `size` rows: pandas, polars, arrow, a dict of columns, or records, a list of
    dicts (`frame`).

    Parameters
    ----------
    columns : dict
        Contents of each column by name: (low, high) for floats, integers or dates, a list of texts
        or booleans for categories, or a dict with the keys low, high, categories, missing and
        infinite.
    size : int, optional
        Largest number of rows; the exact number under ``replace-one`` without ``unit=``,
        ``attribute`` and ``label``. By default, pairs have 8 rows, and an audit searches other
        numbers up to 200.
    user : str, optional
        Column that identifies the user of a row. Missing values are not allowed there. Without
        `relation`, neighbors then differ in all rows of one user (``add-remove:unit=USER``).
    relation : str
        ``replace-one`` or ``add-remove``, both with ``unit=`` the user's column or with ``k=``;
        ``attribute:columns=``, ``label:columns=`` or ``event``.
    per_user : int
        Largest number of rows of one user.
    frame : {"pandas", "polars", "arrow", "dict", "records"}
        Type of the dataset.
    time : str, optional
        Column that numbers the rows, in increasing order.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range, a column is malformed, or the relation does not fit the
        columns.
    """

    columns: Mapping[str, Any]
    size: int | None = None
    user: str | None = None
    relation: str = ""
    per_user: int = 4
    frame: str = "pandas"
    time: str | None = None
    held: tuple[Column, ...] = field(init=False, repr=False, compare=False, default=())
    rows: Rows = field(init=False, repr=False, compare=False, default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        owner = type(self).__name__
        require(self).one_of("frame", FORMS)
        if self.size is not None:
            require(self).integer("size", most=MAX_ENTRIES)
        require_integer("per_user", self.per_user, owner)
        for name in ("user", "time"):
            require_type(
                name, getattr(self, name), str, "be the name of a column", owner, optional=True
            )
        apart = self.time is None or self.time not in {*self.columns, self.user}
        require_rules(
            owner,
            (
                isinstance(self.columns, Mapping) and self.columns,
                "columns must be a dict from column names to their contents",
                self.columns,
            ),
            (apart, "time must name a column that is neither in columns nor the user's", self.time),
        )
        given = [column(name, held, owner) for name, held in self.columns.items()]
        number = [
            Column(name, "integer", 0.0, float(self.largest + self.per_user))
            for name in (self.user, self.time)
            if name is not None and name not in self.columns
        ]
        object.__setattr__(self, "held", (*number, *given))
        usual = f"add-remove:unit={self.user}" if self.user else "replace-one"
        object.__setattr__(self, "relation", self.relation or usual)
        parsed = self._parse_relation(owner)
        object.__setattr__(self, "relation", str(parsed))
        object.__setattr__(self, "rows", self._encoded_rows(owner, parsed))

    def _encoded_rows(self, owner: str, parsed: ParsedRelation) -> Rows:
        """Return the domain of the rows as numbers. Raise InvalidArgument unless the size leaves
        room for the rows that may differ.
        """
        whole = [i for i, spec in enumerate(self.data_columns) if spec.kind != "float"]
        flags = [len(self.data_columns) + i for i in range(len(self._special_columns))]
        names = [i for i, spec in enumerate(self.data_columns) if spec.kind == "category"]
        copies = self.styles[0][0]
        enough = self.largest >= copies
        rule = f"size must be at least the {copies} rows that may differ"
        require_rules(owner, (enough, rule, self.largest))
        most = self._max_rows(owner, parsed, copies)
        features = [(spec.low, spec.high) for spec in self.data_columns]
        features += [(0.0, float(len(self.data_columns[i].special))) for i in self._special_columns]
        kind = "add-remove" if parsed.name in ("add-remove", "event") else "replace-one"
        try:
            return Rows(
                most - copies + 1,
                tuple(features),
                (),
                kind,
                integer=(*whole, *flags),
                categories=(*names, *flags),
            )
        except InvalidArgument as error:
            raise InvalidArgument(str(error).replace("Rows: ", f"{owner}: ", 1)) from None

    def _max_rows(self, owner: str, parsed: ParsedRelation, copies: int) -> int:
        """Return the number of rows of the largest datasets of a catalog, given the number of users
        that the user column can name.
        """
        size = self.records
        if self.user is None:
            return size
        users = next(spec for spec in self.held if spec.name == self.user)
        changed = copies if parsed.unit else self.per_user
        most = min(size, (users.count - 1) * self.per_user + changed)
        fixed = not parsed.unit and parsed.name in ("replace-one", "attribute", "label")
        many = f"size must be at most {most}, for {users.count} users of {self.per_user} rows each"
        require_rules(
            owner,
            (not users.missing, f"column {self.user} names users: missing must be False", True),
            (most == size or not fixed, f"{many}; raise per_user or name more users", size),
        )
        return most

    def _parse_relation(self, owner: str) -> ParsedRelation:
        """Return the parsed relation, and normalize its spelling; raise InvalidArgument unless the
        relation fits the columns.
        """
        parsed = parse_relation(self.relation, owner)
        names = [spec.name for spec in self.held]
        changeable = [spec for spec in self.held if spec.name in parsed.columns]
        known = ("replace-one", "add-remove", "attribute", "label", "event")
        changes = any(spec.low < spec.high or spec.special for spec in changeable)
        require_rules(
            owner,
            (parsed.name in known, f"relation must be one of {', '.join(known)}", self.relation),
            (
                parsed.unit in ("", self.user),
                f"the unit of the relation must be the user's column, {self.user}",
                parsed.unit,
            ),
            (
                set(parsed.columns) <= set(names) - {self.user, self.time},
                f"columns of the relation must be among {', '.join(self.columns)}",
                "+".join(parsed.columns),
            ),
            (
                parsed.name != "label" or parsed.columns,
                "relation label must name its column, label:columns=NAME",
                self.relation,
            ),
            (
                not changeable or (changes and len(changeable) < len(names)),
                "the columns of the relation must allow several values, and not be all columns",
                self.relation,
            ),
        )
        return parsed

    @property
    def largest(self) -> int:
        """Return the largest number of rows."""
        return self.size or _LARGEST_SIZE

    @property
    def fixes_size(self) -> bool:
        """Return whether all datasets have the same number of rows."""
        whole = not self._parsed.unit and self._parsed.name in ("replace-one", "attribute", "label")
        return self.size is not None and whole

    @property
    def data_columns(self) -> list[Column]:
        """Return the columns of a record: all but the user and the time."""
        return [spec for spec in self.held if spec.name not in (self.user, self.time)]

    @property
    def _special_columns(self) -> list[int]:
        """Return the indices of the data columns that allow missing or infinite values."""
        return [i for i, spec in enumerate(self.data_columns) if spec.special]

    @property
    def _parsed(self) -> ParsedRelation:
        return parse_relation(self.relation)

    def contains(self, dataset: Any) -> bool:
        return self.membership_problem(dataset) == ""

    def membership_problem(self, dataset: Any) -> str:
        """Return why a dataset does not belong to the domain; an empty text if it does."""
        found = column_lists(dataset, self.frame)
        if problem := self._other_columns(found):
            return problem
        assert not isinstance(found, str)
        wrong = (
            f"column {spec.name} holds {short_repr(value)}, which the domain does not allow"
            for spec in self.held
            for value in found.get(spec.name, ())
            if spec.number(value) is None
        )
        if problem := next(wrong, ""):
            return problem
        index = dataset.index if self.frame == "pandas" else None
        if index is not None and (index.name is not None or index.dtype.kind not in "iu"):
            return (
                "its index holds values other than row numbers, which are not a column of the "
                "domain: call reset_index()"
            )
        count = len(next(iter(found.values()), ()))
        if not sized(count, self.largest, "replace-one" if self.fixes_size else "add-remove"):
            return f"it has {count} rows, expected {self.largest}"
        for user, rows in Counter(found.get(self.user, ())).most_common(1):
            if rows > self.per_user:
                return (
                    f"{self.user} {short_repr(user)} has {rows} rows, at most "
                    f"per_user={self.per_user} are allowed"
                )
        times = found.get(self.time, [])
        if any(later <= earlier for earlier, later in itertools.pairwise(times)):
            return f"column {self.time} must number the rows in increasing order"
        return ""

    def other_columns(self, dataset: Any) -> str:
        return self._other_columns(column_lists(dataset, self.frame))

    def _other_columns(self, found: dict[Any, list[Any]] | str) -> str:
        if isinstance(found, str):
            return found
        names = [spec.name for spec in self.held]
        if set(found) == set(names) or (not found and self.frame == "records"):
            return ""
        return (
            f"it has the columns {', '.join(map(str, found)) or 'none'}; the domain names "
            f"{', '.join(names)}"
        )

    def catalogue(self) -> Iterable[Pair | None]:
        """Yield the fixed pairs of `Rows` as frames: in every style for the first three pairs, in
        one style in turn for the others.
        """
        for turn, pair in enumerate(self.rows.catalogue()):
            yield from (
                self.framed(pair, style)
                for style in (range(len(self.styles)) if turn < 3 else [turn])
            )

    @property
    def styles(self) -> list[tuple[int, tuple[str, ...], str]]:
        """Return how one changed row of `Rows` may become several rows: the number of copies, the
        kinds of columns in which the copies differ one by one (labels only, or whatever can be
        counted), and a remark on both. The first style has the most copies.
        """
        unit, most = self._parsed.unit, self.per_user if self._parsed.unit else self._parsed.k
        counts = dict.fromkeys([most, max(most // 2, 1), 1]) if unit else [most]
        kinds = {spec.kind for spec in self.data_columns if spec.low < spec.high and most > 1}
        styles = chosen(
            *((True, (copies, (), "")) for copies in counts),
            ("category" in kinds, (most, ("category",), ", each category")),
            (
                kinds & {"integer", "date"},
                (most, ("category", "integer", "date"), ", each with other values"),
            ),
        )
        owner = " of one user" if unit else ""
        return [
            (copies, spread, (f", {copies} rows{owner}" if copies > 1 else "") + remark)
            for copies, spread, remark in styles
        ]

    def framed(self, pair: Pair | None, style: int) -> Pair | None:
        """Return a pair of `Rows` converted to frames in the given style; None without a pair, and
        if the result does not belong to the domain.
        """
        if pair is None:
            return None
        first, second, remark = self.frames(pair.d0, pair.d1, style)
        return self.pair(first, second, pair.why + remark)

    def frames(self, d0: Any, d1: Any, style: int) -> tuple[Any, Any, str]:
        """Return two tables of encoded rows as frames in the given style, which need not belong to
        the domain, and a remark on rows that the style repeats.
        """
        parsed, styles = self._parsed, self.styles
        copies, spread, remark = styles[style % len(styles)]
        shorter, longer = sorted(
            (np.asarray(d0, dtype=float), np.asarray(d1, dtype=float)), key=len
        )
        at = changed_row_index(longer, shorter)
        crowd, after = np.delete(longer, at, axis=0), self._repeated_row(longer[at], copies, spread)
        before = (
            after[:0]
            if len(shorter) < len(longer)
            else self._repeated_row(shorter[at], copies, spread)
        )
        # in every other round of styles the changed row has no missing or infinite value
        if style // len(styles) % 2 == 0:
            after[:, len(self.data_columns) :] = before[:, len(self.data_columns) :] = 0.0
        if parsed.name in ("attribute", "label"):
            changeable = [spec.name in parsed.columns for spec in self.data_columns]
            changeable += [changeable[i] for i in self._special_columns]
            after[:, np.logical_not(changeable)] = before[:, np.logical_not(changeable)]
        users = self._assigned_users(len(crowd), parsed, many=style % 2 == 0)
        sides = []
        for rows in (before, after):
            own = len(crowd) + 1 + np.arange(len(rows))
            changed_users = np.zeros_like(own) if parsed.unit else own
            # the numbers of the rows behind the changed ones are the same on both sides
            times = np.r_[: at + len(rows), at + len(after) : len(after) + len(crowd)]
            table = np.concatenate([crowd[:at], rows, crowd[at:]])
            sides.append(self._dataset(table, np.r_[users[:at], changed_users, users[at:]], times))
        return sides[0], sides[1], remark

    def _assigned_users(self, crowd: int, parsed: ParsedRelation, many: bool) -> Any:
        """Return the users of the other rows, as many as possible or few, counted from 1; 0 is the
        changed user.
        """
        others = np.arange(1, crowd + 1)
        if not parsed.unit:
            return others
        known = next(spec for spec in self.held if spec.name == self.user).count - 1
        if many:
            return 1 + (others - 1) % max(known, 1)
        return 1 + others % max(min(known, max(2, -(-crowd // self.per_user))), 1)

    def _repeated_row(self, row: FloatArray, copies: int, spread: tuple[str, ...]) -> FloatArray:
        """Return `copies` copies of a row, each with the next value in the columns of the kinds in
        `spread`.
        """
        rows = np.tile(row, (copies, 1))
        for i, spec in enumerate(self.data_columns):
            if spec.kind in spread:
                steps = row[i] - spec.low + np.arange(copies)
                rows[:, i] = spec.low + steps % (spec.high - spec.low + 1)
        return rows

    def _dataset(self, matrix: FloatArray, owners: FloatArray, times: FloatArray) -> Any:
        """Return the frame with these encoded data columns, users and times."""
        columns: dict[str | None, Any] = {self.time: times}
        specials = iter(matrix[:, len(self.data_columns) :].T)
        for i, spec in enumerate(self.data_columns):
            codes = next(specials) if spec.special else np.zeros(len(matrix))
            columns[spec.name] = [
                spec.special[int(code) - 1] if code > 0 else number
                for number, code in zip(matrix[:, i], codes, strict=True)
            ]
        users = [spec for spec in self.held if spec.name == self.user]
        columns |= {spec.name: spec.low + owners % spec.count for spec in users}
        return self._frame_of(list(zip(*(columns[spec.name] for spec in self.held), strict=True)))

    def draws(self, rng: Generator) -> PairSampler[Table]:
        return _FrameSampler(self, rng)

    def shape(self, rng: Generator, turn: int) -> SearchSpace:
        inner = self.rows.shape(rng, turn)
        return SearchSpace(inner.size, lambda z: self.framed(inner.decode(z), turn))

    def simplifications(self, pair: Pair) -> Iterator[Pair | None]:
        """Yield pairs without common rows where the number of rows may change, many at once first,
        with common rows set to zero, or with fewer digits.
        """
        sides = [self._rows_as_numbers(side) for side in (pair.d0, pair.d1)]
        both = Counter(sides[0]) & Counter(sides[1])

        def candidates() -> Iterator[list[list[_Row]]]:
            for some in (both, *_parts(list(both.elements()))):
                yield [without(rows, some, tuple) for rows in sides]
            yield [
                [self._shortened_row(row, 0) if row in both else row for row in rows]
                for rows in sides
            ]
            for digits in DIGITS:
                yield [[self._shortened_row(row, digits) for row in rows] for rows in sides]

        for first, second in candidates():
            if [first, second] != sides:
                yield self.pair(self._frame_of(first), self._frame_of(second), pair.why)

    def _rows_as_numbers(self, dataset: Any) -> list[_Row]:
        """Return the rows of a dataset of the domain as tuples of numbers, None where missing."""
        found = column_lists(dataset, self.frame)
        assert not isinstance(found, str)
        columns = [[spec.number(value) for value in found.get(spec.name, ())] for spec in self.held]
        return [
            tuple(None if number is None or math.isnan(number) else number for number in row)
            for row in zip(*columns, strict=True)
        ]

    def _frame_of(self, rows: list[_Row]) -> Any:
        """Return the frame of rows given as tuples of numbers; the inverse of
        `_rows_as_numbers`.
        """
        values = [
            [None if (number := row[i]) is None else spec.value(number) for row in rows]
            for i, spec in enumerate(self.held)
        ]
        return built(self.frame, self.held, values, type(self).__name__)

    def _shortened_row(self, row: _Row, digits: int) -> _Row:
        """Return a row whose data numbers have fewer digits, or are zero for digits=0, within their
        bounds.
        """
        data_columns = self.data_columns
        return tuple(
            float(shorter(np.array(number), digits, spec.low, spec.high))
            if number is not None and spec in data_columns
            else number
            for spec, number in zip(self.held, row, strict=True)
        )

    @property
    def records(self) -> int:
        """Return the number of rows of the datasets of a catalog."""
        return self.size or max(_USUAL_SIZE, self.styles[0][0])

    @property
    def random_pairs(self) -> int:
        return self.rows.random_pairs

    @property
    def unordered(self) -> bool:
        return self.rows.unordered


def _parts(rows: list[_Row]) -> Iterator[Counter[_Row]]:
    """Yield halves of the rows, quarters, and so on, down to each different row."""
    size = len(rows) // 2
    while size > 1:
        yield from (Counter(rows[at : at + size]) for at in range(0, len(rows), size))
        size //= 2
    if len(rows) > 1:
        yield from (Counter([row]) for row in dict.fromkeys(rows))


class _FrameSampler(PairSampler[Table]):
    """Random pairs of frames, converted from random pairs of `Rows`."""

    def __init__(self, domain: Table, rng: Generator) -> None:
        super().__init__(domain, rng)
        self._inner, self._turn = domain.rows.draws(rng), itertools.count()

    def random_pair(self, turn: int, corners: bool) -> Pair | None:
        pair = self._inner.random_pair(turn, corners)
        return None if pair is None else self.domain.framed(pair, next(self._turn))


@dataclass(frozen=True, slots=True)
class Events(Table):
    """Streams of up to `size` events, in order: a list of dicts with `columns`, the number of the
    event under `time`, and a `user`.

    Under ``event`` one event is added or removed, and the others keep their order and time. Under
    ``add-remove:unit=USER`` all events of one user are added or removed.

    Parameters
    ----------
    columns, size, user, relation, per_user, frame
        Parameters of `Table`. The default relation without a user is ``event``.
    time : str
        Key of the number of an event, in increasing order.

    Raises
    ------
    InvalidArgument
        As for `Table`.
    """

    frame: str = "records"
    time: str | None = "time"

    def __post_init__(self) -> None:
        if not self.relation and self.user is None:
            object.__setattr__(self, "relation", "event")
        Table.__post_init__(self)
