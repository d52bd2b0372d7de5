"""Neighboring relations: their names, their options, and their parsing.

A relation is written as its name and, if it has any, its options: ``add-remove``,
``add-remove:unit=user``, ``replace-one:k=3``, ``attribute:columns=age+city``. Every relation is
symmetric: (d0, d1) are neighbors exactly when (d1, d0) are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpwitness.core.values.validation import InvalidArgument, short_repr

RELATIONS = {
    "replace-one": "one record is replaced; the number of records is public",
    "add-remove": "one record is added or removed",
    "substitution": "one whole linear cost is replaced",
    "l1": "a vector of answers moves by at most 1 in L1 norm",
    "l2": "a vector of answers moves by at most 1 in L2 norm",
    "linf": "each of several answers moves by at most 1",
    "event": "one event of a stream is added, removed or replaced; the order of the others stays",
    "label": "the label of one record changes, its features do not",
    "attribute": "one record changes, in the named columns only",
    "edge": "one edge of a graph is added or removed",
    "replace-edge": "one edge of a graph is moved; the number of edges is public",
    "node": "one node of a graph is added or removed, with all its edges",
    "replace-node": (
        "one node of a graph has its edges and attributes replaced; the nodes are public"
    ),
    "stated": "any two datasets, stated by the user to be neighbors and not checked",
}
NORMS = ("l1", "l2", "linf")
OWN = "own"  # prefix of user-defined relations: own:NAME
GRAPHS = ("edge", "replace-edge", "node", "replace-node")
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "replace-one": ("unit", "k"),
    "add-remove": ("unit", "k"),
    "event": ("k",),
    "label": ("columns", "k"),
    "attribute": ("columns", "k"),
    **dict.fromkeys(GRAPHS, ("k",)),
}


@dataclass(frozen=True, slots=True)
class ParsedRelation:
    """Parsed relation: its name and its options."""

    name: str  # a key of `RELATIONS`, or ``own`` for a user-defined relation
    # the column, key or position whose value identifies the owner of a record: all records of one
    # unit count as one. ``key`` for the entries of a dictionary. Empty: each record is its own
    # unit.
    unit: str = ""
    k: int = 1  # largest number of records, units, events, nodes or edges that may differ
    columns: tuple[str, ...] = ()  # columns in which a record may change

    def __str__(self) -> str:
        options = {
            "unit": self.unit,
            "columns": "+".join(self.columns),
            "k": "" if self.k == 1 else str(self.k),
        }
        if self.name == OWN:
            return f"{OWN}:{self.unit}"
        options_text = ",".join(f"{key}={value}" for key, value in options.items() if value)
        return f"{self.name}:{options_text}" if options_text else self.name

    @property
    def checked(self) -> bool:
        """Whether a pair under this relation is checked from the two datasets alone."""
        return self.name not in ("stated", OWN)


def excess(count: int, k: int, what: str, names: str = "") -> str:
    """Return "" if `count` is at most `k`, else the reason: ``"COUNT WHAT, at most K may"``, with
    the places of the records.
    """
    return "" if count <= k else f"{count} {what}, at most {k} may{names}"


def parse_relation(text: object, owner: str = "Pair") -> ParsedRelation:
    """Return the relation of a text such as ``add-remove:unit=user,k=2``.

    Raises
    ------
    InvalidArgument
        If the relation is unknown, or does not have an option; the message lists the known ones.

    Examples
    --------
    >>> parse_relation("add-remove:unit=user,k=2")
    ParsedRelation(name='add-remove', unit='user', k=2, columns=())
    """
    name, _, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
    if name == OWN and rest:
        return ParsedRelation(OWN, rest)
    if name not in RELATIONS:
        raise InvalidArgument(
            f"{owner}: relation must be one of {', '.join(RELATIONS)}, got {short_repr(text)}"
        )
    known = OPTIONS.get(name, ())
    found: dict[str, str] = {}
    for part in rest.split(",") if rest else ():
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in known or key in found or not value:
            rule = (
                f"takes {' and '.join(f'{option}=...' for option in known)}, each once"
                if known
                else "takes no options"
            )
            raise InvalidArgument(f"{owner}: relation {name} {rule}, got {short_repr(part)}")
        found[key] = value
    k = found.get("k", "1")
    if not (k.isascii() and k.isdecimal()) or not 1 <= int(k[:10]) <= 10**6:
        raise InvalidArgument(
            f"{owner}: k of relation {name} must be a whole number, at least 1, got {short_repr(k)}"
        )
    columns = tuple(found["columns"].split("+")) if "columns" in found else ()
    if name == "attribute" and not columns:
        raise InvalidArgument(
            f"{owner}: relation attribute must name columns, as attribute:columns=NAME+NAME, "
            f"got {short_repr(text)}"
        )
    return ParsedRelation(name, found.get("unit", ""), int(k), columns)


def composed(relation: str, unit: str | None, k: int) -> str:
    """Return the text of a relation after adding a unit and a number k that were given as separate
    arguments.
    """
    found = parse_relation(relation)
    if unit is not None and (not unit or set(unit) & set(",=+")):
        raise InvalidArgument(
            "Pair: unit must be the name of a column, without commas, = and +, got "
            f"{short_repr(unit)}"
        )
    more = ([f"unit={unit}"] if unit is not None else []) + ([f"k={k}"] if k != 1 else [])
    options_text = ",".join([*filter(None, [str(found).partition(":")[2]]), *more])
    return str(parse_relation(f"{found.name}:{options_text}" if options_text else found.name))


def describe_relation(relation: str) -> str:
    """Return the meaning of a relation as a sentence; "" for an unknown relation.

    Examples
    --------
    >>> describe_relation("add-remove:unit=user,k=2")
    'one record is added or removed; all records with one "user" count as one, and 2 may differ'
    """
    try:
        found = parse_relation(relation)
    except InvalidArgument:
        return ""
    if found.name == OWN:
        return "a user-defined relation, checked by the user's function when the pair was created"
    more = [f'all records with one "{found.unit}" count as one'] if found.unit else []
    more += [f"columns {', '.join(found.columns)}"] if found.columns else []
    if found.k > 1:
        more.append(f"and {found.k} may differ")
    return RELATIONS[found.name] + (f"; {', '.join(more)}" if more else "")
