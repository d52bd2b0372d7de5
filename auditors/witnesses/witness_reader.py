"""Reader of witness files: their schema, limits on sizes, and consistency checks; and counts, from
which the bounds of witnesses and results follow.

The schema has the fields of all witnesses and those that the kind declares (`kinds.py`).
A cause of a violation is what one part of the outputs shows by itself, with the counts of its own
test.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from dpwitness.auditors.events.event import Binned, Event, Restricted, renyi_lower_bound
from dpwitness.auditors.events.rule_reader import read_event
from dpwitness.auditors.statistics.certificate import Part, Prior, Tally, Within, partial_bound
from dpwitness.auditors.statistics.combination import combined_bound, combined_p_value
from dpwitness.auditors.witnesses.kinds import kind_named, witness_kinds
from dpwitness.auditors.witnesses.parquet_files import has_frame_files, read_frame_files
from dpwitness.auditors.witnesses.seals import check_seal, seal
from dpwitness.auditors.witnesses.verdicts import SCHEMA, Verdict, strict
from dpwitness.core.claims import Claim, exact_claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.datasets.relations import parse_relation
from dpwitness.core.values.json_codec import Resolver, from_jsonable, to_jsonable
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
    text,
)
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import figure


@dataclass(frozen=True, slots=True)
class Cause:
    """Verdict on the events of one part of the outputs (`statistics/certificate.py`).

    Attributes
    ----------
    kind : {"exceptions", "repeated values", "values"}
        Part of the outputs. Repeated values are exact values of positive probability among numbers
        that do not repeat otherwise.
    words : str
        Description of the part.
    verdict : Verdict
        VIOLATED if events on this part violate the claim. INCONCLUSIVE if there are too few outputs
        to learn an event.
    lower : float
        Certified lower bound on the claim's parameter, both of the mechanism, and of the mechanism
        given that no part before this one occurs.
    event, tally, alpha, lost : Event, Tally, float, int
        Tested event, its counts, the error of the test, and the number of wrong guesses that are
        lost rounds.
    within : tuple of int or None
        Numbers of rounds on D1 and on D0 in which no part before this one occurs; None for the
        first part.
    """

    kind: str
    words: str
    verdict: Verdict = Verdict.INCONCLUSIVE
    lower: float = 0.0
    event: Event | None = None
    tally: Tally | None = None
    alpha: float = 0.0
    lost: int = 0
    within: Within | None = None

    def judged(self, claim: Claim) -> Self:
        """Return the cause with the bound and the verdict that follow from its counts."""
        if self.tally is None:
            return self
        side = self.event.side if isinstance(self.event, Restricted) else 0
        lower = partial_bound(claim, self.tally, self.alpha, self.lost, self.within, side)
        return replace(
            self,
            lower=lower,
            verdict=Verdict.VIOLATED if lower > claim.parameter else Verdict.NOT_REFUTED,
        )

    def to_json(self) -> Json:
        return {
            "kind": self.kind,
            "words": self.words,
            "verdict": self.verdict.value,
            "parameter_lower": strict(self.lower),
            "event": self.event.to_json() if self.event else None,
            "tally": self.tally and asdict(self.tally),
            "alpha": to_jsonable(self.alpha),
            "lost": self.lost,
            "within": self.within and list(self.within),
        }

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """Return the cause that `to_json` wrote."""
        within, tally = data["within"], data["tally"]
        return cls(
            data["kind"],
            data["words"],
            Verdict(data["verdict"]),
            float(data["parameter_lower"]),
            None if data["event"] is None else read_event(data["event"]),
            None if tally is None else Tally(**tally),
            float(from_jsonable(data["alpha"])),
            data["lost"],
            None if within is None else (int(within[0]), int(within[1])),
        )


def describe_causes(result: Json) -> str:
    """Return the verdicts on the causes of a violation in one line; empty if causes were not
    separated.

    Examples
    --------
    >>> causes = [("exceptions", "raises KeyError", "VIOLATED", 4.25),
    ...     ("values", "", "NOT_REFUTED", 0.5)]
    >>> keys = ("kind", "words", "verdict", "parameter_lower")
    >>> describe_causes({"parameter": "mu", "causes": [dict(zip(keys, cause)) for cause in causes]})
    'VIOLATED by exceptions (raises KeyError), mu > 4.25; NOT REFUTED by values, mu > 0.5'
    """
    lines = []
    for cause in result.get("causes") or ():
        words = f" ({cause['words']})" if cause["words"] else ""
        bound = f", {result.get('parameter', 'epsilon')} > {figure(cause['parameter_lower'])}"
        counted = cause["verdict"] not in ("INCONCLUSIVE", "ERROR")
        verdict = cause["verdict"].replace("_", " ")
        lines.append(f"{verdict} by {cause['kind']}{words}{bound if counted else ''}")
    return "; ".join(lines)


@dataclass(frozen=True, slots=True)
class Basis:
    """Counts that certified the bounds of an audit, and the error of their test."""

    alpha: float  # error of the interim look that certified `parts`
    parts: tuple[Part, ...]  # counts of all stages at that look, the last stage last
    # counts on D1 and on D0 of a binned event (RDP, zCDP). Such an event certifies the bound on the
    # claim's parameter.
    cells: tuple[tuple[int, ...], ...] = ()
    cells_alpha: float = 0.0  # error of the test of `cells`

    def to_json(self) -> Json:
        content: Json = {"alpha": self.alpha, "stages": [part.to_json() for part in self.parts]}
        if self.cells:
            content["cells"] = [list(side) for side in self.cells]
            content["cells_alpha"] = self.cells_alpha
        return content

    def counts(self) -> Json:
        """Return the counts as a witness holds them: those of the last stage, with the earlier
        stages.
        """
        content = self.to_json()
        *earlier, last = content.pop("stages")
        del last["weight"]
        combined = {"stages": earlier, "combination": "conditional error"} if earlier else {}
        return {**last, **combined, **content}

    @classmethod
    def from_json(cls, data: Json) -> Basis:
        """Return the Basis that `to_json` wrote."""
        return cls(
            float(data.get("alpha", 0.0)),
            tuple(read_part(part, f"stages[{i}]") for i, part in enumerate(data["stages"])),
            tuple(tuple(int(count) for count in side) for side in data.get("cells", ())),
            float(data.get("cells_alpha", 0.0)),
        )

    @classmethod
    def from_counts(cls, counts: Json) -> Basis:
        """Return the Basis of the counts of a witness; the error is 0 if they do not state it.

        Raise InvalidArgument if counts do not fit each other.
        """
        basis = cls.from_json(counts | {"stages": counts.get("stages", ())})
        squares = sum(part.weight**2 for part in basis.parts)
        if squares > 1 + 1e-9:
            refuse("counts.stages", "have weights whose squares add to at most 1", squares)
        return replace(basis, parts=(*basis.parts, read_part(counts)))

    def bounds(self, claim: Claim, event: Any) -> tuple[float, float]:
        """Return the lower bounds on the claim's parameter and on epsilon."""
        lower = combined_bound(claim, self.parts, self.alpha)
        same = claim.is_pure or claim.at_delta is claim
        epsilon = lower if same else combined_bound(claim.at_delta, self.parts, self.alpha)
        if self.cells and isinstance(event, Binned):
            lower = renyi_lower_bound(claim, event, np.array(self.cells), self.cells_alpha)
        return lower, epsilon

    def p_value(self, claim: Claim, error: float) -> float:
        """Return the p-value of the claim given `parts`, if all interim looks together spend
        `error`.
        """
        return min(1.0, combined_p_value(claim, self.parts) * error / self.alpha)


def read_part(data: Json, path: str = "counts") -> Part:
    """Return the counts of a stage from their JSON; raise InvalidArgument if they do not fit each
    other.
    """
    guesses, lost, weight = (
        data["correct"] + data["wrong"],
        data.get("lost", 0),
        data.get("weight", 1),
    )
    if guesses > data["rounds"]:
        allowed = f"be at most {path}.rounds, {data['rounds']}"
        refuse(f"{path}.correct + {path}.wrong", allowed, guesses)
    if not 0 <= lost <= data["wrong"]:
        refuse(f"{path}.lost", f"be at most the wrong guesses, {data['wrong']}", lost)
    if not 0 <= weight <= 1:
        refuse(f"{path}.weight", "be in [0, 1]", weight)
    return Part(
        Tally(data["correct"], data["wrong"], data["rounds"], data["directions"]),
        float(weight),
        lost,
        Prior(*map(float, data["prior"])) if "prior" in data else None,
    )


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
        """Return a note on what is replayed."""
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
        data, name = read_json(source, "replay"), Path(source).name
    with naming_file(name):
        if not isinstance(data, dict) or "schema_version" not in data:
            raise InvalidArgument("this is not a witness: it has no schema_version")
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
