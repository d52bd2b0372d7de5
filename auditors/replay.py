"""Replaying a witness: the same pair and event, fresh randomness, the same question."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpwitness.auditors.audit import Progress, confirm
from dpwitness.auditors.certify_result import CertifyResult
from dpwitness.auditors.replay_measured import KINDS, replay_measured
from dpwitness.auditors.result import AuditResult, Verdict
from dpwitness.auditors.sensitivity import SensitivityResult
from dpwitness.auditors.utility import UtilityResult
from dpwitness.auditors.white_box import certify
from dpwitness.auditors.witness import check_schema, load_json, load_target, read_witness
from dpwitness.mechanisms.validation import InvalidArgument, require_integer

__all__ = ["replay"]


def replay(
    witness: str | Path | dict[str, Any],
    *,
    mechanism: Any = None,
    trials: int | None = None,
    seed: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> AuditResult | CertifyResult | SensitivityResult | UtilityResult:
    """Reach the verdict of a witness again.

    Its event is tested with fresh randomness; a white-box witness has its privacy loss enclosed again, one of a sensitivity its pair
    evaluated, one of a utility claim its error measured.

    Parameters
    ----------
    witness : path or dict
        A ``witness-*.json`` file, or what one holds.
    mechanism : Mechanism or callable, optional
        Stands in for the recorded target, for instance if that cannot be imported.
    trials : int, optional
        Runs of the mechanism; as many as certified the witness if left out.
    seed : int, optional
        Root seed; by default the recorded one plus one, so that no stream of the witness is used again.
    executor, progress
        As in `audit`.

    Returns
    -------
    AuditResult, CertifyResult, SensitivityResult or UtilityResult
        A bit-level witness is judged at the bit level: then the verdict and bounds are those of the bits.

    Raises
    ------
    InvalidArgument
        If the witness cannot be read, or its target is not there.
    """
    raw, file = load_json(witness)
    if raw.get("kind") in KINDS:
        check_schema(raw, file)
        measured = replay_measured(raw, mechanism, seed)
        return replace(measured, notes=(f"replay of a {raw['kind']} witness", *measured.notes))
    found = read_witness(witness)
    if mechanism is None:
        if found.target is None:
            raise InvalidArgument("replay: mechanism must be given, the witness names no importable target")
        mechanism = load_target(found.target["target"], found.target.get("kwargs"))
    trials = require_integer("trials", trials or max(found.rounds, 1000), "replay", least=1000)
    seed = found.seed + 1 if seed is None else require_integer("seed", seed, "replay", least=0)
    note = f"replay of a witness at the {found.level} level that certified {found.claim.symbol} > {found.bound:.4g}"
    if found.event is None:
        again = certify(
            mechanism,
            found.pair,
            found.claim,
            trials=max(trials, 10_000),
            confidence=found.confidence,
            seed=seed,
            name=found.name,
            target=found.target,
        )
        return replace(again, notes=(note, *again.notes) if again.verdict is not Verdict.ERROR else again.notes)
    result = confirm(
        mechanism,
        found.event,
        claim=found.claim,
        pair=found.pair,
        trials=trials,
        confidence=found.confidence,
        seed=seed,
        name=found.name,
        executor=executor,
        progress=progress,
        target=found.target,
    )
    return replace(result, notes=(note, *result.notes))
