"""Replay of trace witnesses: the pair is traced again with the recorded primitives."""

from __future__ import annotations

from typing import Any

from dpwitness.auditors.gray_box.trace import trace
from dpwitness.auditors.results.trace_result import TraceResult
from dpwitness.auditors.results.witness_reader import read_pair
from dpwitness.auditors.targets.trust import Trust
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.privacy import exact_claim
from dpwitness.mechanisms.recording.primitive_tables import given


def replay_trace(raw: Json, mechanism: Any, confidence: float, seed: int, name: str, target: Json | None, trust: Trust) -> TraceResult:
    """Trace the pair of a checked witness again under `seed`. Nothing that its primitives name is imported."""
    pair, claim = read_pair(raw["pair"], trust.resolve_class), exact_claim(raw["claim"], raw["claim_numbers"])
    primitives = given(raw["primitives"], "replay", required=False)
    return trace(mechanism, pair, claim, primitives, confidence=confidence, seed=seed, name=name, target=target, confirm=False)
