"""Results of audits of a claim, and construction of witnesses: JSON documents with all that is
needed to test a violation again, and a hash of their content.

Each kind of result adds its own fields.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpwitness.auditors.witnesses.verdicts import Result, Verdict, environment
from dpwitness.auditors.witnesses.witness_reader import SCHEMA, seal
from dpwitness.auditors.workers.loading import describe_target, source_of
from dpwitness.core.claims import Claim, exact_text
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.json_reader import Json


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ClaimResult(Result):
    """Result of an audit of a privacy claim: the fields of all kinds."""

    name: str
    claim: Claim
    verdict: Verdict
    confidence: float
    seed: int
    notes: tuple[str, ...] = ()
    target: Json | None = None  # location of the mechanism
    seconds: float = 0.0


def build_witness(result: ClaimResult, level: str, pair: Pair, bound: float, more: Json) -> Json:
    """Return the witness of a violated claim; `more` holds the fields of the level."""
    mechanism = getattr(result, "mechanism", None)
    source = source_of(mechanism, result.target) if mechanism is not None else None
    own = getattr(mechanism, "claim", None)
    optional_fields = ({"source": source} if source else {}) | (
        {"own_claim": own.on(pair) == result.claim} if isinstance(own, Claim) else {}
    )
    found = {
        "schema_version": SCHEMA,
        "name": result.name,
        "level": level,
        "target": result.target,
        "claim": exact_text(result.claim),
        "claim_numbers": list(result.claim.numbers),
        "pair": pair.to_json(),
        "bound": bound if math.isfinite(bound) else "inf",
        "confidence": result.confidence,
        "seed": result.seed,
        "versions": environment(),
    }
    return seal(found | optional_fields | more)


def function_witness(name: str, function: Callable[..., Any], seed: int, more: Json) -> Json:
    """Return the witness of a violated bound on a function; `more` holds the fields of the kind."""
    target = named(function)
    found = {
        "schema_version": SCHEMA,
        "name": name,
        "target": target,
        "seed": seed,
        "versions": environment(),
    }
    source = source_of(function, target)
    return seal(found | more | ({"source": source} if source else {}))


def named(function: Callable[..., Any] | None) -> Json | None:
    """Return the importable target of a function; None for a method, a lambda or a
    nested function.
    """
    return None if function is None or inspect.ismethod(function) else describe_target(function)
