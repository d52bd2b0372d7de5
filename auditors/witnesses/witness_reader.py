"""Reader of witness files: their schema, limits on sizes, and consistency checks.

The schema has the fields of all witnesses and those that the kind declares (`kinds.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.auditors.events.event import Binned, Event, renyi_lower_bound
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.witnesses.kinds import kind_named, witness_kinds
from dpwitness.auditors.witnesses.parquet_files import has_frame_files, read_frame_files
from dpwitness.auditors.witnesses.recompute import Basis
from dpwitness.auditors.witnesses.verdicts import SCHEMA
from dpwitness.core.claims import Claim, exact_claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.datasets.relations import parse_relation
from dpwitness.core.values.class_registry import Resolver
from dpwitness.core.values.json_codec import from_jsonable
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
    read_json,
    record,
    refuse,
    require_json_limits,
    short_json,
    text,
)
from dpwitness.core.values.validation import InvalidArgument


@dataclasses.dataclass(frozen=True, slots=True)
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
        """Return a note on what is replayed."""
        return (
            f"replay of a witness at the {self.level} level that certified {self.claim.symbol} > "
            f"{self.bound:.4g}"
        )


def fingerprint(witness: Json) -> str:
    """Return the SHA-256 of all fields but the hash, as JSON with sorted names and
    without spaces.
    """
    content = {key: value for key, value in witness.items() if key != "sha256"}
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    ).hexdigest()


def seal(witness: Json) -> Json:
    """Return the witness with the hash of its content, which reveals later edits.

    Raises InvalidArgument for content that the reader would refuse.
    """
    require_json_limits(witness)
    return {**witness, "sha256": fingerprint(witness)}


def load_json(source: str | Path | Json) -> tuple[Json, str]:
    """Return the content of a witness file, with its fields checked, and the file's name.

    Raises InvalidArgument if the content is not a witness of a known kind.
    """
    if isinstance(source, dict):
        data, name = source, "witness"
        try:
            require_json_limits(data)
        except InvalidArgument as error:
            raise InvalidArgument(f"replay: witness {error}") from None
    else:
        name = Path(source).name
        try:
            data = read_json(source, "replay")
        except InvalidArgument as error:
            if " must be readable: " in str(error):
                why = str(error).partition(" must be readable: ")[2]
                raise InvalidArgument(
                    f"replay: witness file must be readable, got {short_json(str(source))}: {why}"
                ) from None
            raise
    if not isinstance(data, dict) or "schema_version" not in data:
        raise InvalidArgument(f"replay: {name} is not a witness: it has no schema_version")
    with naming_file(name):
        schema = data["schema_version"]
        if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
            raise InvalidArgument(
                f"schema_version must be a whole number, at least 1, got {type(schema).__name__}"
            )
    if schema > SCHEMA:
        raise InvalidArgument(
            f"replay: {name} was written by schema {schema}, this version reads up to "
            f"{SCHEMA}; upgrade dpwitness"
        )
    if not isinstance(source, dict) and has_frame_files(data):
        # the recorded hash covers the hashes of the Parquet files
        notes = check_seal(data, name)
        with naming_file(name):
            data = read_frame_files(data, Path(source).parent)
        data = data if notes else seal(data)
    with naming_file(name):
        kind = kind_named(data.get("kind"))
        if kind is None or kind.witness is None:
            known = ", ".join(witness_kinds())
            if "kind" not in data:
                raise InvalidArgument(f"kind, one of {known}, is missing")
            refuse("kind", f"be one of {known}", data["kind"])
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


def check_seal(data: Json, name: str) -> tuple[str, ...]:
    """Return a note if the witness has no hash.

    Raises InvalidArgument if the hash is not the hash of the content.
    """
    if "sha256" not in data:
        return ("the witness has no hash of its content, so edits cannot be detected",)
    if data["sha256"] != fingerprint(data):
        raise InvalidArgument(
            f"replay: {name}: sha256 is not that of the content: the witness was edited or "
            "damaged; remove this field to read the witness without the check"
        )
    return ()


def read_pair(fields: Json, classes: Resolver | None = None) -> Pair:
    """Return the pair of a witness, after checking that its datasets are neighbors."""
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
    raw, claim, level = found.raw, found.claim, found.level
    if basis is None:
        if claim.bounds_epsilon and not math.isclose(
            float(raw["event"]["above"]), found.bound, rel_tol=1e-9
        ):
            refuse("event.above", f"be the bound, {found.bound:.9g}", raw["event"]["above"])
    else:
        counts, parts = raw["counts"], basis.parts
        for name in ("alpha", "cells_alpha"):
            if not counts.get(name, 0) <= (1 - found.confidence) * (1 + 1e-9):
                refuse(
                    f"counts.{name}",
                    f"be at most 1 - confidence, {1 - found.confidence:.9g}",
                    counts[name],
                )
        if isinstance(found.event, Binned):
            best, alpha = _bound_of_cells(claim, found.event, counts), counts.get("cells_alpha")
        else:
            bounded_claim, alpha = (
                claim if level == "value" else claim.at_delta,
                counts.get("alpha"),
            )
            directions = parts[-1].tally.directions  # earlier stages had other events
            if found.event is not None and directions < found.event.directions:
                refuse(
                    "counts.directions",
                    f"be that of the event, {found.event.directions}",
                    directions,
                )
            best = combined_bound(bounded_claim, parts, alpha or 1 - found.confidence)
        # else an earlier version wrote it
        is_exact = alpha and (
            len(parts) == 1 or "combination" in counts or parts[0].prior is not None
        )
        if not (
            math.isclose(found.bound, best, rel_tol=1e-6)
            if is_exact
            else found.bound <= best + 1e-9 * max(1.0, best)
        ):
            refuse(
                "bound",
                f"be what the counts certify, {'' if is_exact else 'at most '}{best:.9g}",
                raw["bound"],
            )
    if (level != "bit" or claim.bounds_epsilon) and found.bound <= claim.parameter:
        refuse("bound", f"exceed the claim, {claim.symbol} = {claim.parameter:.9g}", raw["bound"])


def _bound_of_cells(claim: Claim, event: Binned, counts: Json) -> float:
    """Return the bound that the cells of a Renyi rule certify. Raise InvalidArgument unless they
    are those of the event and the claim.
    """
    cells, alpha = counts.get("cells", ()), counts.get("cells_alpha")
    if alpha is None or any(len(side) != len(event.loss) for side in cells) or not cells:
        refuse(
            "counts.cells",
            f"count the {len(event.loss)} cells of the event on each side, with cells_alpha",
            cells,
        )
    if event.order not in claim.orders_among([event.order]):
        refuse("event.rule.fields.order", "be an order of the claim", event.order)
    return renyi_lower_bound(claim, event, np.array(cells), alpha)


_RUNS = 10**12  # largest number of runs in a witness

# rules of fields of witnesses, for the schemas of kinds
CONFIDENCE = number(lambda v: 0 < v < 1, "a number in (0, 1)")
EXTENDED = number(words_allowed=("inf", "-inf", "nan"))
BOUND = number(lambda v: v > 0, 'positive, or "inf"', words_allowed=("inf",))
FUNCTION = record({"kwargs": items(anything)}, target=text(1000, empty=False))


def relation_rule(value: Any, path: str) -> str:
    """Return the spelling of a neighboring relation, as a rule of the schemas."""
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
        keys=listing(anything, 1, 256),
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
