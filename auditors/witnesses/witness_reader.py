"""Reader of witness files: their schema, limits on sizes, and consistency checks.

The schema has the fields of all witnesses and those that the kind declares (`kinds.py`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpwitness.auditors.events.event import Binned, Event
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.witnesses.counts import Basis
from dpwitness.auditors.witnesses.kinds import kind_named, witness_kinds
from dpwitness.auditors.witnesses.parquet_files import has_frame_files, read_frame_files
from dpwitness.auditors.witnesses.seals import check_seal, seal
from dpwitness.auditors.witnesses.verdicts import SCHEMA
from dpwitness.core.claims import Claim, exact_claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.datasets.relations import parse_relation
from dpwitness.core.values.json_codec import Resolver, from_jsonable
from dpwitness.core.values.json_reader import (
    Json,
    Rule,
    anything,
    boolean,
    integer,
    items,
    listing,
    nullable,
    number,
    one_of,
    printable,
    read_json,
    record,
    refuse,
    require_json_limits,
    text,
)
from dpwitness.core.values.validation import InvalidArgument


@dataclass(frozen=True, slots=True)
class Witness:
    """Witness of an audit, read from JSON."""

    level: str  # value or bit; white box without an event
    claim: Claim
    pair: Pair
    event: Event | None  # None for a white-box witness: its event is {L > t}
    rounds: int
    confidence: float
    bound: float
    raw: Json

    def describe(self) -> str:
        """Return a note with the level (values or bits) and the certified bound of the witness."""
        return (
            f"replay of a witness at the {self.level} level that certified {self.claim.symbol} > "
            f"{self.bound:.4g}"
        )


def load_json(source: str | Path | Json) -> tuple[Json, str]:
    """Return the content of a witness file, with its fields checked, and the file's name.

    Raises InvalidArgument if the content is not a witness of a known kind.
    """
    if isinstance(source, dict):
        data, name = source, "witness"
        with naming_file(name):
            require_json_limits(data)
    else:
        data, name = read_json(source, "replay"), printable(Path(source).name)
    with naming_file(name):
        if not isinstance(data, dict) or "schema_version" not in data:
            raise InvalidArgument("this is not a witness: it has no schema_version")
        if "results" in data:
            raise InvalidArgument("this is a report: name one of its files witness-*.json")
        schema = integer(1)(data["schema_version"], "schema_version")
        if schema > SCHEMA:
            raise InvalidArgument(
                f"written by schema {schema}, this version reads up to {SCHEMA}; upgrade dpwitness"
            )
        if not isinstance(source, dict) and has_frame_files(data):
            # the recorded hash covers the hashes of the Parquet files
            notes = check_seal(data, name)
            data = read_frame_files(data, Path(source).parent)
            data = data if notes else seal(data)
        kind = kind_named(data.get("kind"))
        if kind is None or kind.witness is None:
            refuse("kind", f"be one of {', '.join(witness_kinds())}", data.get("kind"))
        optional, required = kind.witness
        record(_OPTIONAL | dict(optional), **_COMMON | dict(required))(data, "")
    return data, name


@contextlib.contextmanager
def naming_file(file: str) -> Iterator[None]:
    """Add the file name to the message of an InvalidArgument raised in the context."""
    try:
        yield
    except InvalidArgument as error:
        text = str(error).removeprefix("replay: ").removeprefix(f"{file}: ")
        incomplete = "; the witness is incomplete" if text.endswith("is missing") else ""
        raise InvalidArgument(f"replay: {file}: {text}{incomplete}") from None


def read_pair(fields: Json, classes: Resolver | None = None) -> Pair:
    """Return the pair of a witness, after checking that its datasets are neighbors. Raise
    InvalidArgument if they are not.
    """
    d0, d1 = (from_jsonable(fields[key], f"pair.{key}", classes) for key in ("d0", "d1"))
    try:
        return Pair(d0, d1, fields["relation"], fields["why"])
    except InvalidArgument:
        raise
    except Exception as error:  # relations may raise anything on datasets of another kind
        raise InvalidArgument(
            f"pair must hold datasets of one kind: {type(error).__name__} {str(error)[:200]}"
        ) from None


def read_checked_witness(data: Json, name: str, classes: Resolver | None = None) -> Witness:
    """Return the Witness of a black-box or white-box audit in a document that `load_json` returned,
    without checking its hash.
    """
    with naming_file(name):
        claim = exact_claim(data["claim"], data["claim_numbers"])
        counts = data.get("counts")
        event = None if counts is None else read_event(data["event"])
        basis = None if counts is None else Basis.from_counts(counts)
        rounds = data["trials"]
        if basis is not None:
            certifying = sum(part.tally.rounds for part in basis.parts)
            rounds = max(certifying, data["counts"].get("tested", 0))
        found = Witness(
            str(data.get("level", data["kind"])),
            claim,
            read_pair(data["pair"], classes),
            event,
            rounds,
            data["confidence"],
            float(data["bound"]),
            data,
        )
        _check_bound(found, basis)
    return found


def _check_bound(found: Witness, basis: Basis | None) -> None:
    """Raise InvalidArgument unless the bound follows from the counts and exceeds the claim."""
    raw, claim = found.raw, found.claim
    if basis is not None:
        _check_counts(found, basis)
    elif claim.bounds_epsilon and not math.isclose(
        float(raw["event"]["above"]), found.bound, rel_tol=1e-9
    ):
        refuse("event.above", f"be the bound, {found.bound:.9g}", raw["event"]["above"])
    if (found.level != "bit" or claim.bounds_epsilon) and found.bound <= claim.parameter:
        refuse("bound", f"exceed the claim, {claim.symbol} = {claim.parameter:.9g}", raw["bound"])


def _check_cells(claim: Claim, event: Binned, basis: Basis) -> None:
    """Raise InvalidArgument unless the cells are those of the event, whose order is one of the
    claim.
    """
    sizes = [len(side) for side in basis.cells]
    if sizes != [len(event.loss)] * 2 or not basis.cells_alpha:
        what = f"count the {len(event.loss)} cells of the event on each side, with cells_alpha"
        refuse("counts.cells", what, sizes)
    if event.order not in claim.orders_among([event.order]):
        refuse("event.rule.fields.order", "be an order of the claim", event.order)


def _check_counts(found: Witness, basis: Basis) -> None:
    """Raise InvalidArgument unless the bound follows from the counts, and these are counts of the
    event, with an error that the confidence allows.
    """
    counts, event, spent = found.raw["counts"], found.event, 1 - found.confidence
    for name in ("alpha", "cells_alpha"):
        if not counts.get(name, 0) <= spent * (1 + 1e-9):
            refuse(f"counts.{name}", f"be at most 1 - confidence, {spent:.9g}", counts[name])
    if isinstance(event, Binned):
        _check_cells(found.claim, event, basis)
    elif event is not None and counts["directions"] < event.directions:
        refuse(
            "counts.directions", f"be that of the event, {event.directions}", counts["directions"]
        )
    stated = replace(basis, alpha=basis.alpha or spent)
    parameter, epsilon = stated.bounds(found.claim, event)
    best = parameter if found.level == "value" else epsilon
    # published witnesses of earlier versions state no error, or smaller bounds of several stages
    is_exact = (basis.alpha or basis.cells_alpha) and (
        len(basis.parts) == 1 or "combination" in counts or basis.parts[0].prior is not None
    )
    exceeds = found.bound > best + 1e-9 * max(1.0, best)
    if is_exact and not math.isclose(found.bound, best, rel_tol=1e-6):
        refuse("bound", f"be what the counts certify, {best:.9g}", found.raw["bound"])
    if not is_exact and exceeds:
        refuse("bound", f"be what the counts certify, at most {best:.9g}", found.raw["bound"])


_RUNS = 10**12  # largest number of runs in a witness

# rules of fields of witnesses, for the schemas of kinds
CONFIDENCE = number(lambda v: 0 < v < 1, "a number in (0, 1)")
EXTENDED = number(words_allowed=("inf", "-inf", "nan"))
BOUND = number(lambda v: v > 0, 'positive, or "inf"', words_allowed=("inf",))
FUNCTION = record({"kwargs": items(anything)}, target=text(1000, empty=False))


def relation_rule(value: Any, path: str) -> str:
    """Return the spelling of a neighboring relation, as a rule of the schemas. Raise
    InvalidArgument if the relation is unknown.
    """
    try:
        return str(parse_relation(text(500, empty=False)(value, path), path))
    except InvalidArgument as error:
        raise InvalidArgument(str(error).replace(": relation", "", 1)) from None


def either(kind: type, rule: Rule, other: Rule) -> Rule:
    """Return a rule that checks values of `kind` by `rule`, and others by `other`."""
    return lambda value, path: (rule if isinstance(value, kind) else other)(value, path)


PAIR = record(d0=anything, d1=anything, relation=relation_rule, why=text())
_TALLIED: dict[str, Rule] = {
    "correct": integer(),
    "wrong": integer(),
    "rounds": integer(1, _RUNS),
    "directions": integer(1, 2),
}
# of an epoch of a sequential audit
_PRIOR = {"prior": listing(number(lambda v: v >= 0, "at least 0"), 3, 3)}
_STAGE = record(
    _PRIOR, **_TALLIED, lost=integer(), weight=number(lambda v: 0 <= v <= 1, "a number in [0, 1]")
)
COUNTS = record(
    {
        "alpha": CONFIDENCE,
        "stages": listing(_STAGE, 0, 100),
        "combination": one_of("conditional error"),
        "lost": integer(),
        "tested": integer(1, _RUNS),
        "cells": listing(listing(integer(), 1, 300), 2, 2),
        "cells_alpha": CONFIDENCE,
    }
    | _PRIOR,
    **_TALLIED,
)
SCORES = listing(
    record(
        name=text(200, empty=False),
        target=nullable(FUNCTION),
        suggested=boolean,
        # texts, or numbers of columns
        keys=listing(nullable(either(str, text(200_000), integer(0, 255))), 1, 256),
    ),
    1,
    64,
)
# fields of a witness about a claim on a pair
ON_PAIR: dict[str, Rule] = {
    "claim": text(100_000),
    "claim_numbers": listing(number(), 1, 4000),
    "pair": PAIR,
    "bound": BOUND,
    "confidence": CONFIDENCE,
}
# fields of all witnesses
_COMMON: dict[str, Rule] = {
    "schema_version": integer(1),
    "kind": text(40),
    "name": text(2000),
    "target": nullable(FUNCTION),
    "seed": integer(0, 2**128),
}
_OPTIONAL: dict[str, Rule] = {
    "ledger": text(200),
    "sha256": text(64),
    "source": nullable(record({"line": integer(1)}, file=text(1000), sha256=text(64))),
    "versions": items(text(200)),
    "own_claim": boolean,
}
