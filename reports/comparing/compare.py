"""Two reports held against each other: verdicts that changed, numbers that moved beyond their error, rows that came and went."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpwitness.auditors.results.verdicts import Result, Verdict, strict
from dpwitness.mechanisms.terms.reading import Json, printable
from dpwitness.mechanisms.terms.validation import InvalidArgument
from dpwitness.reports.audit.document import checked_document, read_document
from dpwitness.reports.comparing.intervals import Interval, intervals
from dpwitness.reports.words.fingerprint import fingerprint, rules_of
from dpwitness.reports.words.wording import verdict

SCHEMA = 1
CRITERION = (
    "A number has moved if the intervals of the two runs are disjoint. The interval of an audit by runs is what its event shows: exact "
    "binomial limits of its counts, so wide that two events that show the same come out as moved with probability at most 1 - confidence "
    "(utilities, whose limits hold one by one: at most four times that). Where the runs learned different events, it is what they found "
    "that moved. What was measured on another pair of datasets, or in other low bits, is higher or lower elsewhere: it has not moved."
)
CHANGES = ("new violation", "no verdict", "rose", "verdict changed", "fell", "higher elsewhere", "lower elsewhere", "came", "went", "same")
_OPEN = (Verdict.ERROR.value, Verdict.INCONCLUSIVE.value)


@dataclass(frozen=True, slots=True)
class Move:
    """One number in both runs. `change`: ``rose``, ``fell``, ``higher elsewhere``, ``lower elsewhere`` or ``same``."""

    what: str
    old: Interval
    new: Interval
    change: str
    remark: str = ""  # where the events differ

    def to_json(self) -> Json:
        ends = {
            side: {"shown": it.shown, "low": it.low, "high": it.high, "parameter": it.symbol}
            for side, it in (("old", self.old), ("new", self.new))
        }
        found: Json = strict({"what": self.what, **ends, "change": self.change, "remark": self.remark})
        return found


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that the new run breaks and the old one did not."""

    rule: str
    fingerprint: str
    accepted: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One audit in both reports, or in one of them. Verdicts are None where it is missing; low bits stand apart."""

    name: str
    kind: str | None
    claim: str | None
    relation: str | None
    test: str | None
    old: str | None
    new: str | None
    old_bits: str | None
    new_bits: str | None
    violations: tuple[Violation, ...]
    moves: tuple[Move, ...]
    accepted: Json | None

    @property
    def changes(self) -> tuple[str, ...]:
        """What changed, worst first."""
        found = set(self._changes()) - {"same"}
        return tuple(change for change in CHANGES if change in found) or ("same",)

    @property
    def without(self) -> bool:
        """Whether it has no verdict that it had before, or is new and has none; what a trace found may be accepted."""
        return self.new in _OPEN and self.old not in _OPEN and "TRACE" not in (self.accepted or {"rules": []})["rules"]

    def _changes(self) -> Iterator[str]:
        if any(not violation.accepted for violation in self.violations):
            yield "new violation"
        if self.without:
            yield "no verdict"
        if self.old is None or self.new is None:
            yield "came" if self.old is None else "went"
        elif (self.old, self.old_bits) != (self.new, self.new_bits):
            yield "verdict changed"
        yield from (move.change for move in self.moves)

    def to_json(self) -> Json:
        return {
            **{key: getattr(self, key) for key in ("name", "kind", "claim", "relation", "test")},
            "changes": list(self.changes),
            "old": {"verdict": self.old, "bit_level": self.old_bits} if self.old else None,
            "new": {"verdict": self.new, "bit_level": self.new_bits} if self.new else None,
            "new_violations": [asdict(violation) for violation in self.violations],
            "moves": [move.to_json() for move in self.moves],
            "accepted": self.accepted,
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(Result):
    """What changed between two reports.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED where the new report holds a violation that is neither in the old one nor accepted, INCONCLUSIVE where a row has no verdict
        that had one, or is new and has none, NOT_REFUTED otherwise.
    rows : tuple of Row
        All rows of both reports, worst first.
    old, new : str
        How the reports are called.
    """

    name: str
    verdict: Verdict
    rows: tuple[Row, ...]
    old: str
    new: str

    @property
    def evidence(self) -> str:
        """``statistical``: intervals at a stated error."""
        return "statistical"

    def headline(self) -> str:
        found = self.counts
        told = [f"{number} {word}" for word, number in found.items() if number]
        word = verdict(self.verdict.value) if self.verdict is not Verdict.NOT_REFUTED else "NO NEW VIOLATION"
        return f"{word}: {', '.join(told) if told else 'no audits'}"

    @property
    def counts(self) -> dict[str, int]:
        """How many rows changed in which way, by the worst of each."""
        found = Counter(row.changes[0] for row in self.rows)
        return {change: found[change] for change in CHANGES}

    def to_json(self) -> Json:
        return {
            "schema_version": SCHEMA,
            "kind": "comparison",
            "name": self.name,
            "verdict": self.verdict.value,
            "headline": self.headline(),
            "evidence": self.evidence,
            "criterion": CRITERION,
            "old": self.old,
            "new": self.new,
            "counts": self.counts,
            "rows": [row.to_json() for row in self.rows],
        }


def compare(old: str | Path | Mapping[str, Any], new: str | Path | Mapping[str, Any]) -> Comparison:
    """Hold a report against an earlier one.

    Parameters
    ----------
    old, new : path or dict
        ``audit.json`` of two reports, or what stands in them. Rows are matched by name, claim, relation, kind, and test where there is one;
        of several rows that agree in all of these, the first belongs to the first, and so on.

    Returns
    -------
    Comparison

    Raises
    ------
    InvalidArgument
        If one is no report of dpwitness, or of a newer one.
    """
    (before, called), (after, name) = _document(old, "old"), _document(new, "new")
    pairs = _matched(before["results"], after["results"])
    rows = sorted((_row(*pair) for pair in pairs), key=lambda row: CHANGES.index(row.changes[0]))  # stable: then as in the new report
    changes = {row.changes[0] for row in rows}
    found = Verdict.VIOLATED if "new violation" in changes else Verdict.INCONCLUSIVE if "no verdict" in changes else Verdict.NOT_REFUTED
    return Comparison(f"{called} -> {name}", found, tuple(rows), called, name)


def _document(given: str | Path | Mapping[str, Any], side: str) -> tuple[Json, str]:
    if isinstance(given, Mapping):
        return checked_document(strict(given), f"compare: {side}"), side
    if not isinstance(given, str | Path):
        raise InvalidArgument(f"compare: {side} must be a path or a document, got {type(given).__name__}")
    return read_document(given), printable(str(given))


def _matched(before: Sequence[Json], after: Sequence[Json]) -> Iterator[tuple[Json | None, Json | None]]:
    """Rows of the new report with theirs of the old one, then those of the old one that are left.

    An audit that failed may not have come to a pair: a row without a relation also takes one that has it.
    """
    partners: dict[int, Json] = {}
    left = list(before)
    for of in (_key, lambda result: _key(result | {"relation": None})):
        waiting: defaultdict[Any, list[Json]] = defaultdict(list)
        for result in left:
            waiting[of(result)].append(result)
        for place, result in enumerate(after):
            found = waiting[of(result)] if place not in partners else []
            loose = None in (result.get("relation"), found[0].get("relation")) if found else False
            if found and (loose or _key(found[0]) == _key(result)):
                partners[place] = found.pop(0)
        taken = {id(result) for result in partners.values()}
        left = [result for result in left if id(result) not in taken]
    yield from ((partners.get(place), result) for place, result in enumerate(after))
    yield from ((result, None) for result in left)


def _key(result: Json) -> tuple[Any, ...]:
    return tuple(result.get(key) for key in ("name", "claim", "relation", "kind", "test"))


def _row(old: Json | None, new: Json | None) -> Row:
    known = new if new is not None else old or {}
    accepted = known.get("accepted")
    before, now = (set(rules_of(result)) - {"TRACE"} if result else set() for result in (old, new))  # a trace alone refutes nothing
    violations = tuple(
        Violation(rule, fingerprint(known, rule), accepted is not None and rule in accepted["rules"]) for rule in sorted(now - before)
    )
    return Row(
        name=str(known["name"]),
        **{key: known.get(key) for key in ("kind", "claim", "relation", "test")},
        old=old["verdict"] if old else None,
        new=new["verdict"] if new else None,
        old_bits=_bits(old),
        new_bits=_bits(new),
        violations=violations,
        moves=tuple(_moves(old, new)) if old and new else (),
        accepted=accepted,
    )


def _bits(result: Json | None) -> str | None:
    return ((result or {}).get("bit_level") or {}).get("verdict")


def _moves(old: Json, new: Json) -> Iterator[Move]:
    before, now = intervals(old), intervals(new)
    for what, its in now.items():
        if what not in before:
            continue
        was = before[what]
        change, elsewhere = ("rose", "higher") if its.above(was) else ("fell", "lower") if was.above(its) else ("same", "")
        if change != "same" and its.elsewhere(was):
            change = f"{elsewhere} elsewhere"
        yield Move(what, was, its, change, "another event" if change != "same" and was.event != its.event else "")
