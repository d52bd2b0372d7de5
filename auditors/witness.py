"""Witnesses: everything that anyone needs to see a violation again, as JSON with a hash of its content."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpwitness.auditors.combination import Part, combined
from dpwitness.auditors.divergence import Binned
from dpwitness.auditors.events import Event
from dpwitness.auditors.targets import describe_target, load_target, source_of
from dpwitness.auditors.witness_reading import SCHEMA, Witness, check_schema, load_json, read_witness, seal
from dpwitness.mechanisms.notions import ApproxDP, Claim, PureDP
from dpwitness.mechanisms.pairs import Pair

if TYPE_CHECKING:
    from dpwitness.auditors.certify_result import CertifyResult
    from dpwitness.auditors.result import AuditResult

__all__ = [
    "Witness",
    "check_schema",
    "describe_target",
    "load_json",
    "load_target",
    "make_white_box_witness",
    "make_witness",
    "read_witness",
    "seal",
]


def make_witness(result: AuditResult) -> dict[str, Any] | None:
    """The witness of a violation, at the value level or else at the bit level; None if there is none."""
    from dpwitness.auditors.result import Verdict

    value = result.verdict is Verdict.VIOLATED
    level = result.bit_level
    if value:
        pair, event, tally, bound = result.pair, result.event, result.tally, result.parameter_lower
    elif level is not None and level.verdict is Verdict.VIOLATED:
        pair, event, tally, bound = level.pair, level.event, level.tally, level.epsilon_lower
    else:
        return None
    if pair is None or event is None or tally is None:
        return None
    counts = {"correct": tally.correct, "wrong": tally.wrong, "rounds": tally.rounds, "directions": tally.directions}
    parts = (result.stages if value else ()) or (Part(tally),)
    earlier = {"stages": [part.to_json() for part in parts[:-1]], "lost": parts[-1].lost} if len(parts) > 1 else {}
    alpha = result.alpha if value else 1 - result.confidence
    claim = result.claim if value or isinstance(result.claim, ApproxDP) else PureDP(1.0)
    return seal(
        _witness(result, "value" if value else "bit", pair, bound)
        | {
            "event": event.to_json(),
            "description": str(result.description) if value else event.describe(),
            "counts": counts | earlier | ({"alpha": alpha} if _certifies(claim, event, parts, alpha, bound) else {}),
            "trials": result.requested,
        }
        | ({"scores": [score.to_json() for score in result.scores]} if result.scores else {})
    )


def _certifies(claim: Claim, event: Event, parts: Sequence[Part], alpha: float, bound: float) -> bool:
    """Whether the counts give the bound at this error: an earlier look, or a binned rule, may have given more."""
    if isinstance(event, Binned) or not 0 < alpha < 1:
        return False
    return math.isclose(combined(claim, parts, alpha), bound, rel_tol=1e-9)


def make_white_box_witness(result: CertifyResult) -> dict[str, Any] | None:
    """The witness of a violation that the law of the privacy loss shows; None if there is none.

    Its event is {L > `above`}: P(L > t) - e^t P'(L > t) exceeds delta at every t below the lower end.
    """
    from dpwitness.auditors.result import Verdict, strict

    if result.verdict is not Verdict.VIOLATED:
        return None
    worst = result.worst
    output = {"output": strict(worst.output), "ray": strict(worst.ray), "kind": worst.kind, "loss": strict(worst.loss)} if worst else None
    return seal(
        _witness(result, "white box", result.pair, result.parameter_lower)
        | {
            "event": {"kind": "loss", "above": strict(result.epsilon_lower), "output": output},
            "description": result.event,
            "route": result.route,
            "trials": result.trials,
        }
    )


def _witness(result: AuditResult | CertifyResult, level: str, pair: Pair, bound: float) -> dict[str, Any]:
    from dpwitness.auditors.result import environment

    mechanism = getattr(result, "mechanism", None)
    source = source_of(mechanism, result.target) if mechanism is not None else None
    own = getattr(mechanism, "claim", None)
    more = ({"source": source} if source else {}) | ({"own_claim": own == result.claim} if isinstance(own, Claim) else {})
    return {
        "schema_version": SCHEMA,
        "name": result.name,
        "level": level,
        "target": result.target,
        "claim": str(result.claim),
        "claim_numbers": list(result.claim.numbers),
        "pair": pair.to_json(),
        "bound": bound if math.isfinite(bound) else "inf",
        "confidence": result.confidence,
        "seed": result.seed,
        "versions": environment(),
        **more,
    }
