"""Accepted findings: reviewed violations that do not fail a run until a date, and stay in every
report with their reason.

The file is TOML with one entry per accepted finding::

    [[accepted]]
    name = "laplace-0.9"              # or target = "mine.py:noisy_sum", or both
    claim = "pure:1"
    relation = "replace-one"          # optional: any
    rule = "VALUE"                    # optional: any
    reason = "noise is too small by a tenth; the new release draws more"
    expires = 2027-01-31              # last day of the acceptance
    bound = 1.05                      # optional: certified bound; a significantly larger violation is not accepted
"""  # noqa: E501

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.auditors.witnesses.facts import claim_of
from dpwitness.auditors.witnesses.witness_reader import relation_rule
from dpwitness.core.claims import parse_claim
from dpwitness.core.values.json_reader import (
    Json,
    anything,
    listing,
    number,
    one_of,
    printable,
    read_bytes,
    record,
    refuse,
    text,
)
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import figure
from dpwitness.reports.comparison.intervals import BITS, VALUE, intervals
from dpwitness.reports.phrasing.summary import RULES, rules_of

_MAX_BYTES = 2**20  # bytes of a file


def _date_rule(value: Any, path: str) -> datetime.date:
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        refuse(
            path,
            "be a date such as 2027-01-31",
            str(value) if isinstance(value, datetime.datetime) else value,
        )
    return value


def _reason_rule(value: Any, path: str) -> str:
    if not str(text(2000)(value, path)).strip():
        refuse(path, "be a non-empty text", value)
    return str(value)


_REQUIRED = {"claim": text(2000, empty=False), "reason": _reason_rule, "expires": _date_rule}
_OPTIONAL = {
    "name": text(2000, empty=False),
    "target": text(2000, empty=False),
    "relation": relation_rule,
    "rule": one_of(*RULES),
    "bound": number(),
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """Entry of a file of accepted findings: conditions on the result, reason, and expiry date."""

    claim: str
    reason: str
    expires: datetime.date
    name: str | None = None
    target: str | None = None
    relation: str | None = None
    rule: str | None = None
    bound: float | None = None

    def matches(self, result: Json, rule: str) -> bool:
        """Return whether this entry applies to a result's violation of a rule."""
        return (
            self.name in (None, result.get("name"))
            and self.target in (None, _target_name(result))
            and self.relation in (None, result.get("relation"))
            and self.rule in (None, rule)
            and _same_claim(self.claim, result)
        )

    def objection(self, result: Json, rule: str, today: datetime.date) -> str:
        """Return why this entry no longer accepts a violation: expired, or grown beyond `bound`; an
        empty text if the entry accepts it.
        """
        if today > self.expires:
            return f"was accepted until {self.expires} and counts again: {self.reason}"
        found = intervals(result).get(BITS if rule == "BITS" else VALUE)
        # in an entry without a rule, the bound is for values
        for_values = rule != "BITS" or self.rule == "BITS"
        if (
            self.bound is not None
            and for_values
            and found is not None
            and found.exceeds_bound(self.bound)
        ):
            return (
                f"was accepted at {found.symbol} > {figure(self.bound)} and has grown beyond its "
                f"error to {found}: {self.reason}"
            )
        return ""

    def __str__(self) -> str:
        conditions = {
            "name": self.name,
            "target": self.target,
            "claim": self.claim,
            "relation": self.relation,
            "rule": self.rule,
        }
        return ", ".join(f"{key} {value}" for key, value in conditions.items() if value is not None)


@dataclass(frozen=True, slots=True)
class AcceptanceResult:
    """Results of a run with a file of accepted findings applied."""

    # the results. Accepted violations are in the field ``"accepted"``; the notes name violations
    # that are no longer accepted.
    results: tuple[Json, ...]
    stale: tuple[Accepted, ...] = ()  # entries that match no violation of the run


def read_accepted(path: str | Path) -> tuple[Accepted, ...]:
    """Return the entries of a file of accepted findings.

    Raises
    ------
    InvalidArgument
        If the file is not valid TOML, or a field is unknown, missing or invalid. The message is one
        line with the file and the field.
    """
    name = printable(Path(path).name)
    try:
        found = tomllib.loads(read_bytes(path, most=_MAX_BYTES).decode("utf-8"))
    except InvalidArgument as error:
        raise InvalidArgument(f"{name} {error}") from None
    except (ValueError, RecursionError) as error:  # invalid UTF-8 or TOML
        raise InvalidArgument(f"{name} must be TOML: {error}") from None
    try:
        _require_known_fields(found, ("accepted",), "")
        entries = listing(anything)(found.get("accepted", []), "accepted")
        return tuple(_parse_entry(entry, f"accepted[{i}]") for i, entry in enumerate(entries))
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from None


def _parse_entry(entry: Any, path: str) -> Accepted:
    if isinstance(entry, Mapping):
        _require_known_fields(entry, (*_OPTIONAL, *_REQUIRED), f"{path}.")
    fields = record(_OPTIONAL, **_REQUIRED)(entry, path)
    if "name" not in fields and "target" not in fields:
        raise InvalidArgument(f"{path} must have a name or a target")
    return Accepted(**fields)


def _require_known_fields(found: Mapping[str, Any], names: Sequence[str], at: str) -> None:
    for name in found:
        if name not in names:
            raise InvalidArgument(
                f"{at}{name} is not a known field; known fields are {', '.join(names)}"
            )


def apply_accepted(
    results: Sequence[Json], entries: Sequence[Accepted], today: datetime.date | None = None
) -> AcceptanceResult:
    """Apply the entries of accepted findings to the results of a run; `today` is by default the
    current date.
    """
    today = today or datetime.date.today()
    used: set[int] = set()
    annotated = []
    for result in results:
        rules: dict[str, Accepted] = {}
        notes = []
        for rule in rules_of(result):
            matching = [i for i, entry in enumerate(entries) if entry.matches(result, rule)]
            used.update(matching)
            objections = {i: entries[i].objection(result, rule, today) for i in matching}
            accepting = next((i for i, objection in objections.items() if not objection), None)
            if accepting is not None:
                rules[rule] = entries[accepting]
            else:
                notes += [f"{rule} {objection}" for objection in objections.values()]
        data = dict(result) | ({"notes": [*(result.get("notes") or []), *notes]} if notes else {})
        if rules:
            reasons = "; ".join(dict.fromkeys(entry.reason for entry in rules.values()))
            expires = min(entry.expires for entry in rules.values()).isoformat()
            data["accepted"] = {"reason": reasons, "expires": expires, "rules": list(rules)}
        annotated.append(data)
    return AcceptanceResult(
        tuple(annotated), tuple(entry for i, entry in enumerate(entries) if i not in used)
    )


def unaccepted_rules(result: Json, *, bits: bool = False) -> list[str]:
    """Return the rules that a result breaks and that are not accepted; the rule BITS is included
    only if `bits` is true.
    """
    accepted = (result.get("accepted") or {}).get("rules", [])
    return [rule for rule in rules_of(result) if rule not in accepted and (bits or rule != "BITS")]


def _target_name(result: Json) -> str | None:
    """Return the target of a result as on the command line: MODULE:NAME or FILE.py:NAME; None if
    unknown.
    """
    target = result.get("target")
    if not isinstance(target, Mapping):
        return None
    kwargs = target.get("kwargs")
    # a target in a worker process
    if isinstance(kwargs, Mapping) and "file" in kwargs and "name" in kwargs:
        return f"{kwargs['file']}:{kwargs['name']}"
    return str(target.get("target"))


def _same_claim(claim: str, result: Json) -> bool:
    """Return whether a claim's text equals the claim of a result, as text or after parsing."""
    if claim == result.get("claim"):
        return True
    try:
        return parse_claim(claim) == claim_of(result)
    except InvalidArgument:
        return False
