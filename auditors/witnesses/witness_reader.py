"""Reader of witness files: the schema of each kind, limits on sizes, and consistency checks."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.auditors.events.divergence import Binned, renyi_lower_bound
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.witnesses.parquet_files import has_frame_files, read_frame_files
from dpwitness.auditors.witnesses.recompute import Basis
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

    name: str
    level: str
    target: Json | None
    claim: Claim
    pair: Pair
    event: Event | None  # None at the white-box level: its event is {L > t}
    rounds: int
    confidence: float
    seed: int
    bound: float
    raw: Json


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
    check_schema(data, name)
    if not isinstance(source, dict) and has_frame_files(data):
        data = _with_frames(data, name, Path(source).parent)
    try:
        SCHEMAS[_kind(data)](data, "")
        return data, name
    except InvalidArgument as error:
        raise _error_naming_file(name, error) from None


def _with_frames(data: Json, name: str, folder: Path) -> Json:
    """Return the witness with the frames from its Parquet files, sealed again.

    The recorded hash covers the hashes of the files.
    """
    notes = check_seal(data, name)
    try:
        found: Json = read_frame_files(data, folder)
    except InvalidArgument as error:
        raise InvalidArgument(f"replay: {name}: {error}") from None
    return found if notes else seal(found)


def _kind(data: Json) -> str:
    """Return the kind of a witness, which selects its schema."""
    if data.get("kind") is None and "kind" not in data:
        return "white box" if data.get("level") == "white box" else "audit"
    if data["kind"] not in (*KINDS, *OTHER_KINDS) or not isinstance(data["kind"], str):
        refuse("kind", f"be one of {', '.join((*KINDS, *OTHER_KINDS))}, or missing", data["kind"])
    return str(data["kind"])


def check_schema(data: Json, name: str) -> None:
    """Raise InvalidArgument if a later version wrote the witness."""
    found = data["schema_version"]
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise InvalidArgument(
            f"replay: {name}: schema_version must be a whole number, at least 1, got "
            f"{type(found).__name__}"
        )
    if found > SCHEMA:
        raise InvalidArgument(
            f"replay: {name} was written by schema {found}, this version reads up to "
            f"{SCHEMA}; upgrade dpwitness"
        )


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
    """Return the Witness in a document that `load_json` returned, without checking its hash."""
    if "kind" in data:
        raise InvalidArgument(f"replay: {name} is the witness of a {data['kind']}, not of an audit")
    try:
        white = data["level"] == "white box"
        claim = exact_claim(data["claim"], data["claim_numbers"])
        event = None if white else read_event(data["event"])
        basis = None if white else Basis.from_counts(data["counts"])
        certifying = sum(part.tally.rounds for part in basis.parts) if basis else data["trials"]
        found = Witness(
            data["name"],
            data["level"],
            data["target"],
            claim,
            read_pair(data["pair"], classes),
            event,
            certifying if white else max(certifying, data["counts"].get("tested", 0)),
            data["confidence"],
            data["seed"],
            float(data["bound"]),
            data,
        )
        _check_bound(found, basis)
    except InvalidArgument as error:
        raise _error_naming_file(name, error) from None
    return found


def _error_naming_file(name: str, error: InvalidArgument) -> InvalidArgument:
    """Return an InvalidArgument that names the file."""
    message = str(error).removeprefix("replay: ")
    return InvalidArgument(
        f"replay: {name}: "
        f"{message}{'; the witness is incomplete' if message.endswith('is missing') else ''}"
    )


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


SCHEMA = 1
KINDS = ("sensitivity", "utility")
OTHER_KINDS = ("stability", "accountant", "metamorphic", "trace", "canaries", "claim")
RUNS = 10**12  # largest number of runs in a witness

_confidence = number(lambda v: 0 < v < 1, "a number in (0, 1)")
_extended = number(words_allowed=("inf", "-inf", "nan"))
_positive = number(lambda v: v > 0, "positive and finite")
_bound = number(lambda v: v > 0, 'positive, or "inf"', words_allowed=("inf",))
_target = nullable(record({"kwargs": items(anything)}, target=text(1000, empty=False)))
_function = record({"kwargs": items(anything)}, target=text(1000, empty=False))


def relation_rule(value: Any, path: str) -> str:
    """Return the spelling of a neighboring relation, as a rule of the schemas."""
    try:
        return str(parse_relation(text(500, empty=False)(value, path), path))
    except InvalidArgument as error:
        raise InvalidArgument(str(error).replace(": relation", "", 1)) from None


_pair = record(d0=anything, d1=anything, relation=relation_rule, why=text())
_tallied: dict[str, Rule] = {
    "correct": integer(),
    "wrong": integer(),
    "rounds": integer(1, RUNS),
    "directions": integer(1, 2),
}
_weight = number(lambda v: 0 <= v <= 1, "a number in [0, 1]")
# of an epoch of a sequential audit
_prior = {"prior": listing(number(lambda v: v >= 0, "at least 0"), 3, 3)}
_stage = record(_prior, **_tallied, lost=integer(), weight=_weight)
_counts = record(
    {
        "alpha": _confidence,
        "stages": listing(_stage, 0, 100),
        "combination": one_of("conditional error"),
        "lost": integer(),
        "tested": integer(1, RUNS),
        "cells": listing(listing(integer(), 1, 300), 2, 2),
        "cells_alpha": _confidence,
    }
    | _prior,
    **_tallied,
)
_source = nullable(record({"line": integer(1)}, file=text(1000), sha256=text(64)))
_scores = listing(
    record(
        name=text(200, empty=False),
        target=_target,
        suggested=boolean,
        keys=listing(anything, 1, 256),
    ),
    1,
    64,
)
_more: dict[str, Rule] = {
    "ledger": text(200),
    "sha256": text(64),
    "source": _source,
    "versions": items(text(200)),
    "own_claim": boolean,
}


def _either(kind: type, rule: Rule, other: Rule) -> Rule:
    """Return a rule that checks values of `kind` by `rule`, and others by `other`."""
    return lambda value, path: (rule if isinstance(value, kind) else other)(value, path)


_NAMED: dict[str, Rule] = {"schema_version": integer(1), "name": text(2000), "target": _target}
_seed = integer(0, 2**128)
_AUDIT = _NAMED | {
    "claim": text(100_000),
    "claim_numbers": listing(number(), 1, 4000),
    "pair": _pair,
    "bound": _bound,
    "confidence": _confidence,
    "seed": _seed,
    "event": anything,
    "description": text(200_000),
    "trials": integer(1, RUNS),
}
SCHEMAS: dict[str, Rule] = {
    "audit": record(
        _more | {"scores": _scores}, **_AUDIT, level=one_of("value", "bit"), counts=_counts
    ),
    "white box": record(
        _more | {"evidence": text(400)},
        **_AUDIT | {"event": record(kind=one_of("loss"), above=_extended, output=anything)},
        level=one_of("white box"),
        route=text(2000),
    ),
    "sensitivity": record(
        _more,
        kind=one_of("sensitivity"),
        **_NAMED,
        seed=_seed,
        bound=_positive,
        norm=_either(dict, _function, one_of("1", "2", "inf")),
        pair=_pair,
        ratio=_extended,
    ),
    "utility": record(
        _more,
        kind=one_of("utility"),
        **_NAMED,
        seed=_seed,
        claim=anything,
        transform=nullable(_function),
        runs=integer(1, 10**9),
        confidence=_confidence,
        estimate=_extended,
    ),
    "stability": record(
        _more,
        kind=one_of("stability"),
        **_NAMED,
        seed=_seed,
        finding=one_of("exceeds", "law", "rounding", "raises", "aborts"),
        map=nullable(_function),
        space=nullable(items(anything)),
        input_metric=text(400, empty=False),
        output_metric=text(400, empty=False),
        d_in=text(1000, empty=False),
        bound=text(1000, empty=False),
        inputs=listing(anything, 2, 2),
        outputs=listing(items(anything), 2, 2),
        verdict=one_of("VIOLATED", "SUSPECT", "INCONCLUSIVE"),
    ),
    "accountant": record(
        _more,
        kind=one_of("accountant"),
        **_NAMED,
        seed=_seed,
        mechanism=text(100, empty=False),
        returns=text(20, empty=False),
        parameters=items(text(200)),
        at=items(_either(list, listing(number(), 1, 100), number())),
        figure=_extended,
        exact=_extended,
    ),
    "metamorphic": record(
        _more | {"output_metric": text(400)},
        kind=one_of("metamorphic"),
        **_NAMED,
        seed=_seed,
        relation=text(100, empty=False),
        case=listing(anything, 1, 2),
        finding=text(20_000),
        error=number(lambda v: 0 <= v < 1, "a number in [0, 1)"),
    ),
    "trace": record(
        _more,
        kind=one_of("trace"),
        level=one_of("trace"),
        **_NAMED,
        claim=text(100_000),
        claim_numbers=listing(number(), 1, 4000),
        pair=_pair,
        bound=_bound,
        confidence=_confidence,
        seed=_seed,
        findings=listing(
            record(kind=text(40, empty=False), told=text(20_000), where=text(2000)), 1, 1000
        ),
        runs=integer(1, 10**9),
        primitives=items(items(text(400))),
    ),
    "canaries": record(
        _more,
        kind=one_of("canaries"),
        **_NAMED,
        claim=text(200),
        claim_numbers=listing(number(), 1, 200_000),
        method=one_of("counting", "steinke", "curve"),
        fixed=boolean,
        delta=number(lambda v: 0 <= v < 1, "a number in [0, 1)"),
        counts=record(
            canaries=integer(1, 10**9),
            included=integer(),
            runs=integer(1, 10**6),
            guesses=integer(1, 10**9),
            right=integer(),
        ),
        alpha=_confidence,
        bound=_bound,
        confidence=_confidence,
        seed=_seed,
    ),
    "claim": record(
        {"sha256": text(64), "audit": anything, "evidence": anything, "scope": anything},
        kind=one_of("claim"),
        schema_version=integer(1),
        name=text(200),
        settings=items(_either(list, listing(number(), 2, 2), number())),
        headline=text(20_000),
        method=text(2000),
        reached=nullable(listing(_extended, 2, 2)),
        at=items(anything),
        numbers=items(anything),
    ),
}
