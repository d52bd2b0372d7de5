"""Construction of witnesses: JSON documents with all that is needed to test a violation again, and
a hash of their content.

Each kind of result adds its own fields.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from dpwitness.auditors.events.divergence import Binned
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.statistics.certificate import Part
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.witnesses.verdicts import environment
from dpwitness.auditors.witnesses.witness_reader import seal
from dpwitness.auditors.witnesses.witness_schemas import SCHEMA
from dpwitness.auditors.workers.loading import describe_target, source_of
from dpwitness.core.claims import Claim, exact_text
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.json_reader import Json


class Violation(Protocol):
    """Attributes of a result that a witness records."""

    @property
    def name(self) -> str: ...
    @property
    def claim(self) -> Claim: ...
    @property
    def confidence(self) -> float: ...
    @property
    def seed(self) -> int: ...
    @property
    def target(self) -> Json | None: ...


def build_witness(result: Violation, level: str, pair: Pair, bound: float, more: Json) -> Json:
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


def certifies(
    claim: Claim, event: Event, parts: Sequence[Part], alpha: float, bound: float
) -> bool:
    """Return whether the counts give the bound at this error.

    False for a binned event. False also if an earlier interim look certified more.
    """
    if isinstance(event, Binned) or not 0 < alpha < 1:
        return False
    return math.isclose(combined_bound(claim, parts, alpha), bound, rel_tol=1e-9)


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
