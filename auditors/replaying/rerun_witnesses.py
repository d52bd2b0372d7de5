"""Replay of witnesses whose inputs are run again: stability, accountants, and metamorphic relations."""

from __future__ import annotations

from typing import Any

from dpwitness.auditors.accounting.declared_targets import replay_figure
from dpwitness.auditors.accounting.result import AccountantResult
from dpwitness.auditors.metamorphic.audit import replay_relation
from dpwitness.auditors.metamorphic.declared_targets import declared_subject
from dpwitness.auditors.metamorphic.result import MetamorphicResult
from dpwitness.auditors.stability.replay import replay_pair
from dpwitness.auditors.stability.result import StabilityResult
from dpwitness.auditors.targets.trust import Trust
from dpwitness.mechanisms.core.json_reader import Json

RERUN = ("stability", "accountant", "metamorphic")  # kinds of witnesses
RerunResult = StabilityResult | AccountantResult | MetamorphicResult


def rerun(raw: Json, mechanism: Any, trust: Trust, seed: int, name: str) -> tuple[RerunResult, str]:
    """Run the inputs of a witness again, and return the result and a note on what was run."""
    if raw["kind"] == "accountant":
        return replay_figure(raw, mechanism, name), "replay of an accountant witness: the figure was computed again"
    if raw["kind"] == "metamorphic":
        found = replay_relation(raw, declared_subject(mechanism, raw["relation"]), seed, name, trust.resolve_class)
        return found, "replay of a metamorphic witness: the recorded case was run again"
    return replay_pair(raw, mechanism, trust, name), "replay of a stability witness: both inputs were run again"
