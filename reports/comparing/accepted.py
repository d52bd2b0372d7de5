"""Findings that were looked at and accepted for a time: they stay in every report with their reason, and do not fail a run.

A file in TOML, an entry for each::

    [[accepted]]
    name = "laplace-0.9"              # or target = "mine.py:noisy_sum", or both
    claim = "pure:1"
    relation = "replace-one"          # optional: any
    rule = "VALUE"                    # optional: any
    reason = "noise is too small by a tenth; the new release draws more"
    expires = 2027-01-31              # the last day on which it is accepted
    bound = 1.05                      # optional: the certified bound, beyond whose error it is accepted no more
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.auditors.results.witness_reading import relation_rule
from dpwitness.mechanisms.terms.notions import parse_claim
from dpwitness.mechanisms.terms.reading import Json, listing, number, one_of, printable, read_bytes, record, refuse, text
from dpwitness.mechanisms.terms.validation import InvalidArgument
from dpwitness.reports.comparing.intervals import BITS, VALUE, intervals
from dpwitness.reports.words.facts import claim_of
from dpwitness.reports.words.fingerprint import RULES, rules_of
from dpwitness.reports.words.wording import figure

_MOST = 2**20  # bytes of a file


def _day(value: Any, path: str) -> datetime.date:
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        refuse(path, "be a date such as 2027-01-31", str(value) if isinstance(value, datetime.datetime) else value)
    return value


def _reason(value: Any, path: str) -> str:
    if not str(text(2000)(value, path)).strip():
        refuse(path, "be a non-empty text", value)
    return str(value)


_REQUIRED = {"claim": text(2000, empty=False), "reason": _reason, "expires": _day}
_OPTIONAL = {
    "name": text(2000, empty=False),
    "target": text(2000, empty=False),
    "relation": relation_rule,
    "rule": one_of(*RULES),
    "bound": number(),
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """One entry: what is accepted, why, and until when."""

    claim: str
    reason: str
    expires: datetime.date
    name: str | None = None
    target: str | None = None
    relation: str | None = None
    rule: str | None = None
    bound: float | None = None

    def matches(self, result: Json, rule: str) -> bool:
        """Whether it speaks of this violation."""
        return (
            self.name in (None, result.get("name"))
            and self.target in (None, _target(result))
            and self.relation in (None, result.get("relation"))
            and self.rule in (None, rule)
            and _same_claim(self.claim, result)
        )

    def objection(self, result: Json, rule: str, today: datetime.date) -> str:
        """Why it is not accepted any more; empty if it is."""
        if today > self.expires:
            return f"was accepted until {self.expires} and counts again: {self.reason}"
        found = intervals(result).get(BITS if rule == "BITS" else VALUE)
        own = self.bound is not None and (rule != "BITS" or self.rule == "BITS")  # without a rule, a bound is that of values
        if self.bound is not None and own and found is not None and found.has_grown(self.bound):
            return f"was accepted at {found.symbol} > {figure(self.bound)} and has grown beyond its error to {found}: {self.reason}"
        return ""

    def __str__(self) -> str:
        what = {"name": self.name, "target": self.target, "claim": self.claim, "relation": self.relation, "rule": self.rule}
        return ", ".join(f"{key} {value}" for key, value in what.items() if value is not None)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a file of accepted findings makes of a run.

    Attributes
    ----------
    results : tuple of dict
        The results, those with accepted violations with ``"accepted"``; what is accepted no more stands in their notes.
    stale : tuple of Accepted
        Entries that no violation of this run matches.
    """

    results: tuple[Json, ...]
    stale: tuple[Accepted, ...] = ()


def read_accepted(path: str | Path) -> tuple[Accepted, ...]:
    """The entries of a file.

    Raises
    ------
    InvalidArgument
        If it is no TOML, or has a field that is not known, is missing, or is not what it must be: one line that names file and field.
    """
    name = printable(Path(path).name)
    try:
        found = tomllib.loads(read_bytes(path, most=_MOST).decode("utf-8"))
    except InvalidArgument as error:
        raise InvalidArgument(f"{name} {error}") from None
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML
        raise InvalidArgument(f"{name} must be TOML: {error}") from None
    try:
        return tuple(_entry(entry, f"accepted[{i}]") for i, entry in enumerate(_entries(found)))
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from None


def _entries(found: Json) -> list[Any]:
    _known(found, ("accepted",), "")
    entries: list[Any] = listing(lambda value, _: value)(found.get("accepted", []), "accepted")
    return entries


def _entry(entry: Any, path: str) -> Accepted:
    if isinstance(entry, Mapping):
        _known(entry, (*_OPTIONAL, *_REQUIRED), f"{path}.")
    fields = record(_OPTIONAL, **_REQUIRED)(entry, path)
    if "name" not in fields and "target" not in fields:
        raise InvalidArgument(f"{path} must have a name or a target")
    return Accepted(**fields)


def _known(found: Mapping[str, Any], names: Sequence[str], at: str) -> None:
    for name in found:
        if name not in names:
            raise InvalidArgument(f"{at}{name} is no field that is known, those are {', '.join(names)}")


def judge(results: Sequence[Json], entries: Sequence[Accepted], today: datetime.date | None = None) -> Judgement:
    """Hold the violations of a run against what was accepted."""
    today = today or datetime.date.today()
    used: set[int] = set()
    told = []
    for result in results:
        rules: dict[str, Accepted] = {}
        notes = []
        for rule in rules_of(result):
            fitting = [i for i, entry in enumerate(entries) if entry.matches(result, rule)]
            used.update(fitting)
            objections = {i: entries[i].objection(result, rule, today) for i in fitting}
            held = next((i for i, objection in objections.items() if not objection), None)
            if held is not None:
                rules[rule] = entries[held]
            else:
                notes += [f"{rule} {objection}" for objection in objections.values()]
        data = dict(result) | ({"notes": [*(result.get("notes") or []), *notes]} if notes else {})
        if rules:
            reasons = "; ".join(dict.fromkeys(entry.reason for entry in rules.values()))
            expires = min(entry.expires for entry in rules.values()).isoformat()
            data["accepted"] = {"reason": reasons, "expires": expires, "rules": list(rules)}
        told.append(data)
    return Judgement(tuple(told), tuple(entry for i, entry in enumerate(entries) if i not in used))


def open_rules(result: Json, *, bits: bool = False) -> list[str]:
    """The rules that a result breaks and that are not accepted; low bits count if `bits`."""
    accepted = (result.get("accepted") or {}).get("rules", [])
    return [rule for rule in rules_of(result) if rule not in accepted and (bits or rule != "BITS")]


def _target(result: Json) -> str | None:
    """MODULE:NAME or FILE.py:NAME, as on the command line."""
    target = result.get("target")
    if not isinstance(target, Mapping):
        return None
    kwargs = target.get("kwargs")
    if isinstance(kwargs, Mapping) and "file" in kwargs and "name" in kwargs:  # in an interpreter of its own
        return f"{kwargs['file']}:{kwargs['name']}"
    return str(target.get("target"))


def _same_claim(claim: str, result: Json) -> bool:
    """As text, or as the numbers that both stand for."""
    if claim == result.get("claim"):
        return True
    try:
        return parse_claim(claim) == claim_of(result)
    except InvalidArgument:
        return False
