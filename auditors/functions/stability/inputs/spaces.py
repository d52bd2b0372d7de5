"""Input spaces of transformations: scalars, vectors and frames of element types, as sets of
datasets and as JSON.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpwitness.auditors.functions.stability.inputs.atoms import Atom, atom_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_type,
    short_repr,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_SIZES = (3, 5, 10, 2, 17, 33, 100, 8, 65, 130, 257)  # numbers of equal rows of the first datasets
_MAX_ROWS = 60  # largest number of rows of most random datasets


class InputSpace(ABC):
    """Set of datasets. Datasets with rows are built by `build` from the list of their rows."""

    size: int | None = None
    more_sizes: tuple[int, ...] = ()  # numbers of rows that the search tries in addition

    @abstractmethod
    def contains(self, dataset: Any) -> bool:
        """Return whether a dataset belongs to the space."""

    @abstractmethod
    def to_json(self) -> Json:
        """Return the space as JSON, the inverse of `space_of`."""

    def within(self, other: InputSpace) -> bool:
        """Return whether all datasets belong to `other` too."""
        mine, theirs = (space._atoms() for space in (self, other))
        same = (
            type(self) is type(other)
            and list(mine) == list(theirs)
            and other.size in (None, self.size)
        )
        return same and all(mine[name].within(theirs[name]) for name in mine)

    @abstractmethod
    def _atoms(self) -> Mapping[str, Atom]:
        """Return the element types by the name of their column; the name is empty
        without columns.
        """

    @abstractmethod
    def _with_atoms(self, atoms: Mapping[str, Atom]) -> InputSpace:
        """Return a space with these element types and the same size."""

    def with_hints(self, hints: list[Any]) -> InputSpace:
        """Return the same space with further values, and numbers of rows, to try."""
        found = self._with_atoms(
            {name: atom.with_hints(hints) for name, atom in self._atoms().items()}
        )
        # largest number of rows of datasets that a constant of the code suggests
        near = {
            each + more
            for each in hints
            if type(each) is int and 3 < each <= 1200
            for more in (-1, 0, 1)
        }
        object.__setattr__(found, "more_sizes", tuple(sorted(near)[:12]))
        return found

    @abstractmethod
    def rows(self, dataset: Any) -> list[Any]:
        """Return the rows of a dataset of the space."""

    @abstractmethod
    def build(self, rows: list[Any]) -> Any:
        """Return a new dataset with these rows."""

    @abstractmethod
    def values(self) -> list[Any]:
        """Return adversarial rows, the most adversarial first."""

    @abstractmethod
    def random_row(self, rng: random.Random) -> Any:
        """Return a random row."""

    @abstractmethod
    def row_strategy(self) -> SearchStrategy[Any]:
        """Return a Hypothesis strategy of rows."""

    @abstractmethod
    def simpler_rows(self, row: Any) -> Iterator[Any]:
        """Yield rows that are simpler than `row`."""

    def datasets(self) -> Iterator[Any]:
        """Yield adversarial datasets."""
        return map(self.build, self.bases())

    def allows(self, count: int) -> bool:
        """Return whether the space has datasets of `count` rows."""
        return self.size is None or count == self.size

    def bases(self) -> Iterator[list[Any]]:
        """Yield the rows of adversarial datasets: empty, single values, pairs of values, repeated
        values, and all values together.
        """
        values = self.values()
        few = values[:8]  # values that are combined with each other
        if self.size is not None:
            size = self.size
            yield from ([value] * size for value in values)
            yield [values[i % len(values)] for i in range(size)]
            if size > 1:
                yield from ([one] + [other] * (size - 1) for one in few for other in few)
                half = size // 2
                yield from ([one] * half + [other] * (size - half) for one in few for other in few)
            return
        yield []
        yield from ([value] for value in values)
        yield list(values)
        yield from ([one, other] for one in few for other in few)
        for size in (*_SIZES[:4], *self.more_sizes, *_SIZES[4:]):
            yield from ([value] * size for value in few)
            yield [values[i % len(values)] for i in range(size)]
            yield [few[i % len(few)] for i in range(size - 1)] + [values[-1]]
        yield from ([one, other, one] for one in values for other in few)

    def random_rows(self, rng: random.Random) -> list[Any]:
        """Return the rows of a random dataset; some have many equal rows."""
        if self.size is not None:
            count = self.size
        else:
            count = (
                rng.randrange(4)
                if rng.random() < 0.4
                else rng.randrange(_MAX_ROWS if rng.random() < 0.95 else 10 * _MAX_ROWS)
            )
        distinct = [self.random_row(rng) for _ in range(min(count, rng.choice((1, 2, 5, 1000))))]
        return [distinct[i] if i < len(distinct) else rng.choice(distinct) for i in range(count)]


class _OneAtomSpace(InputSpace):
    """Datasets whose rows are values of one element type."""

    atom: Atom

    @cached_property
    def _values(self) -> list[Any]:
        return self.atom.values()

    def _atoms(self) -> Mapping[str, Atom]:
        return {"": self.atom}

    def values(self) -> list[Any]:
        return list(self._values)

    def random_row(self, rng: random.Random) -> Any:
        return self.atom.draw(rng, self._values)

    def row_strategy(self) -> SearchStrategy[Any]:
        return self.atom.strategy()

    def simpler_rows(self, row: Any) -> Iterator[Any]:
        return self.atom.simpler(row)


@dataclass(frozen=True)
class VectorOf(_OneAtomSpace):
    """Lists of values of one element type.

    Parameters
    ----------
    atom : Atom
        Element type.
    size : int, optional
        Number of values. Default: any number.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    """

    atom: Atom
    size: int | None = None

    def __post_init__(self) -> None:
        require_type("atom", self.atom, Atom, "be an Atom", "VectorOf")
        _check_size(self.size, "VectorOf")

    def contains(self, dataset: Any) -> bool:
        return (
            isinstance(dataset, list)
            and self.allows(len(dataset))
            and all(map(self.atom.contains, dataset))
        )

    def to_json(self) -> Json:
        return {"type": "vector", **self.atom.to_json(), "size": self.size}

    def _with_atoms(self, atoms: Mapping[str, Atom]) -> InputSpace:
        return VectorOf(atoms[""], self.size)

    def rows(self, dataset: Any) -> list[Any]:
        return list(dataset)

    def build(self, rows: list[Any]) -> Any:
        return list(rows)


@dataclass(frozen=True)
class ScalarOf(_OneAtomSpace):
    """Single values of an element type, as the only row of a dataset.

    Parameters
    ----------
    atom : Atom
        Element type.

    Raises
    ------
    InvalidArgument
        If the argument is not an Atom.
    """

    atom: Atom
    size = 1

    def __post_init__(self) -> None:
        require_type("atom", self.atom, Atom, "be an Atom", "ScalarOf")

    def contains(self, dataset: Any) -> bool:
        return self.atom.contains(dataset)

    def to_json(self) -> Json:
        return {"type": "scalar", **self.atom.to_json()}

    def _with_atoms(self, atoms: Mapping[str, Atom]) -> InputSpace:
        return ScalarOf(atoms[""])

    def rows(self, dataset: Any) -> list[Any]:
        return [dataset]

    def build(self, rows: list[Any]) -> Any:
        return rows[0]


@dataclass(frozen=True)
class FrameOf(InputSpace):
    """Frames, as dicts of columns of one length.

    Parameters
    ----------
    columns : mapping of str to Atom
        Element type of each column.
    size : int, optional
        Number of rows. Default: any number.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.
    """

    columns: Mapping[str, Atom]
    size: int | None = None

    def __post_init__(self) -> None:
        found = self.columns
        if (
            not isinstance(found, Mapping)
            or not found
            or not all(isinstance(k, str) and isinstance(v, Atom) for k, v in found.items())
        ):
            raise InvalidArgument(
                "FrameOf: columns must be a dict of names and Atoms, at least one, got "
                f"{short_repr(found)}"
            )
        object.__setattr__(self, "columns", dict(found))
        _check_size(self.size, "FrameOf")

    @cached_property
    def _values(self) -> list[list[Any]]:
        return [atom.values() for atom in self.columns.values()]

    def contains(self, dataset: Any) -> bool:
        if not isinstance(dataset, dict) or list(dataset) != list(self.columns):
            return False
        columns = list(dataset.values())
        if (
            not all(isinstance(column, list) for column in columns)
            or len(set(map(len, columns))) > 1
            or not self.allows(len(columns[0]))
        ):
            return False
        return all(
            all(map(atom.contains, column))
            for atom, column in zip(self.columns.values(), columns, strict=True)
        )

    def to_json(self) -> Json:
        return {
            "type": "frame",
            "columns": {name: atom.to_json() for name, atom in self.columns.items()},
            "size": self.size,
        }

    def _atoms(self) -> Mapping[str, Atom]:
        return self.columns

    def _with_atoms(self, atoms: Mapping[str, Atom]) -> InputSpace:
        return FrameOf(atoms, self.size)

    def rows(self, dataset: Any) -> list[Any]:
        return list(zip(*dataset.values(), strict=True))

    def build(self, rows: list[Any]) -> Any:
        columns = zip(*rows, strict=True) if rows else [()] * len(self.columns)
        return {name: list(column) for name, column in zip(self.columns, columns, strict=True)}

    def values(self) -> list[Any]:
        columns = self._values
        found = [
            tuple(column[min(i, len(column) - 1)] for column in columns)
            for i in range(max(map(len, columns)))
        ]
        first = found[1] if len(found) > 1 else found[0]
        for at, column in enumerate(columns):
            found += [(*first[:at], value, *first[at + 1 :]) for value in column[:12]]
        return list(dict.fromkeys(found))

    def random_row(self, rng: random.Random) -> Any:
        return tuple(
            atom.draw(rng, values)
            for atom, values in zip(self.columns.values(), self._values, strict=True)
        )

    def row_strategy(self) -> SearchStrategy[Any]:
        from hypothesis import strategies as st

        return st.tuples(*(atom.strategy() for atom in self.columns.values()))

    def simpler_rows(self, row: Any) -> Iterator[Any]:
        for at, atom in enumerate(self.columns.values()):
            yield from ((*row[:at], value, *row[at + 1 :]) for value in atom.simpler(row[at]))


def _check_size(size: Any, owner: str) -> None:
    if size is not None:
        require_integer("size", size, owner, least=0, most=10**6)


def space_of(found: Any, owner: str = "input") -> InputSpace:
    """Return the input space from its JSON form.

    Parameters
    ----------
    found : dict
        ``{"type": "vector", "dtype": "f64", "bounds": [0, 10], "nullable": false, "nan": false,
        "size": null}``; for a ``scalar``, without a size; for a ``frame``, with ``"columns": {name:
        element type}``.
    owner : str
        Name of the value in messages.

    Returns
    -------
    InputSpace
        The space.

    Raises
    ------
    InvalidArgument
        If the form is invalid.
    """
    if not isinstance(found, dict) or found.get("type") not in ("vector", "scalar", "frame"):
        raise InvalidArgument(
            f'{owner} must be a dict with the type "vector", "scalar" or "frame", got '
            f"{short_repr(found)}"
        )
    fields = {key: value for key, value in found.items() if key not in ("type", "size")}
    size = found.get("size")
    if found["type"] == "scalar":
        if size is not None:
            raise InvalidArgument(f"{owner}: a scalar has no size, got {short_repr(size)}")
        return ScalarOf(atom_of(fields, owner))
    if found["type"] == "vector":
        return VectorOf(atom_of(fields, owner), size)
    if set(fields) != {"columns"} or not isinstance(fields["columns"], dict):
        raise InvalidArgument(
            f"{owner}: a frame has the keys type, columns and size, got "
            f"{', '.join(map(str, found))}"
        )
    return FrameOf(
        {name: atom_of(dict(atom), f"{owner}.{name}") for name, atom in fields["columns"].items()},
        size,
    )
