"""Schemas of the kinds of witnesses: fields, types and limits."""

from __future__ import annotations

from typing import Any

from dpwitness.core.datasets.relations import parse_relation
from dpwitness.core.values.json_reader import (
    Rule,
    anything,
    boolean,
    integer,
    items,
    listing,
    nullable,
    number,
    one_of,
    record,
    text,
)
from dpwitness.core.values.validation import InvalidArgument

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


def _norm(value: Any, path: str) -> Any:
    """Check a norm: a function, or one of 1, 2 and inf."""
    return (
        _function(value, path) if isinstance(value, dict) else one_of("1", "2", "inf")(value, path)
    )


def _setting(value: Any, path: str) -> Any:
    """Check a setting: a number, or a list of two."""
    return (
        listing(number(), 2, 2)(value, path) if isinstance(value, list) else number()(value, path)
    )


def _values(value: Any, path: str) -> Any:
    """Check a parameter: a number, or a list of numbers."""
    return (
        listing(number(), 1, 100)(value, path) if isinstance(value, list) else number()(value, path)
    )


def _interval(value: Any, path: str) -> Any:
    """Check a list of two numbers, which may be infinite."""
    return listing(_extended, 2, 2)(value, path)


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
        norm=_norm,
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
        at=items(_values),
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
        settings=items(_setting),
        headline=text(20_000),
        method=text(2000),
        reached=nullable(_interval),
        at=items(anything),
        numbers=items(anything),
    ),
}
