"""Audit of given outputs: two batches, without running a mechanism."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.events.detectable_violation import detectable
from dpwitness.auditors.events.learning import Learned, learn
from dpwitness.auditors.events.outputs import (
    Outputs,
    encode,
    opaque_type_notes,
    unrepeated_text_notes,
)
from dpwitness.auditors.statistics.certificate import Part, Tally, certified, p_value, split_batches
from dpwitness.auditors.witnesses.recompute import Basis
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.engine import MechanismFailed, audit_key, stream
from dpwitness.auditors.workers.environment_errors import environment_failure, is_environment_fault
from dpwitness.auditors.workers.pair_exercise import OutputComparison, exercised
from dpwitness.auditors.workers.statefulness import check_rows, check_training
from dpwitness.core.claims import Claim, promised, resolved
from dpwitness.core.values.validation import (
    InvalidArgument,
    error_text,
    require_integer,
    require_probability,
    require_type,
)


def audit_outputs(
    outputs0: Any,
    outputs1: Any,
    claim: Claim | str,
    *,
    confidence: float = 0.99,
    seed: int = 0,
    name: str = "given outputs",
) -> AuditResult:
    """Audit two batches of outputs of independent runs, one batch on each of two neighboring
    datasets.

    The event is chosen on one half of each batch, drawn by `seed`, and certified on the other half.
    There a coin is flipped for every round, as if the mechanism were run. The few rows that the
    coins do not select are not used (`split_batches`).

    Parameters
    ----------
    outputs0, outputs1 : array or list
        Outputs on D0 and on D1, one per run, of any kind, as for `audit`: at least 1,000 each. The
        longer batch is truncated.
    claim : Claim or str
        The claim to test.
    confidence : float
        The probability of a false VIOLATED is at most 1 - confidence.
    seed : int
        Seed of the halves and the coins.
    name : str
        Name of the audit in the report.

    Returns
    -------
    AuditResult
        Without a pair and without a witness, because there is nothing to run again. ERROR if nearby
        rows are correlated, or outputs are repeated. Other dependence does not show in outputs, so
        independence is an assumption.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> audit_outputs(rng.laplace(0.0, 0.5, 50_000), rng.laplace(1.0, 0.5, 50_000),
    ...     "pure:1").verdict
    <Verdict.VIOLATED: 'VIOLATED'>
    """
    started = time.perf_counter()
    claim, more = resolved(promised(None, claim, "audit_outputs"), None)
    require_probability("confidence", confidence, "audit_outputs")
    require_type("name", name, str, "be a text", "audit_outputs")
    seed, alpha = require_integer("seed", seed, "audit_outputs", least=0), 1 - confidence
    batches = [_encode_batch("outputs0", outputs0), _encode_batch("outputs1", outputs1)]
    runs = min(map(len, batches))
    result = AuditResult(
        name=name,
        claim=claim,
        verdict=Verdict.ERROR,
        confidence=confidence,
        seed=seed,
        trials=2 * runs,
        requested=2 * runs,
    )
    try:
        for raw, where in ((outputs0, "outputs0"), (outputs1, "outputs1")):
            if all(isinstance(item, Exception) for item in raw) and is_environment_fault(raw[0]):
                raise environment_failure(where, error_text(raw[0]))
        check_training([(batches[1], batches[0])])
    except MechanismFailed as error:
        return replace(result, notes=(str(error),))
    training, learned, tally = _learn_and_count(
        batches, claim, alpha, stream(seed, audit_key(name))
    )
    try:
        check_rows((batches[1], batches[0]), learned.event)
    except MechanismFailed as error:
        return replace(result, notes=(str(error),))
    counts = tally.correct, tally.wrong, tally.rounds
    lower = float(certified(claim, *counts, alpha, tally.directions))
    unaudited = [*opaque_type_notes(*batches), *unrepeated_text_notes(*training)]
    refuted, comparison = lower > claim.parameter, OutputComparison()
    comparison.add(*training)
    moved, idle = (True, "") if refuted else exercised(claim, [Part(tally)], comparison, 1)
    unrefuted = Verdict.INCONCLUSIVE if unaudited or moved is False else Verdict.NOT_REFUTED
    return replace(
        result,
        verdict=Verdict.VIOLATED if refuted else unrefuted,
        exercised=moved,
        epsilon_lower=float(certified(claim.at_delta, *counts, alpha, tally.directions)),
        parameter_lower=lower,
        p_value=float(p_value(claim, *counts, tally.directions)),
        detectable=detectable(claim, learned.law, tally.rounds, alpha),
        event=learned.event,
        tally=tally,
        alpha=alpha,
        basis=Basis(alpha, (Part(tally),)),
        method=learned.method,
        notes=(
            *unaudited,
            *([idle] if idle else []),
            *more,
            "outputs were given and no mechanism was run: neighboring datasets and "
            "independent outputs are assumed; of dependence, only "
            "that of nearby rows and repeated outputs would show",
        ),
        seconds=time.perf_counter() - started,
    )


def _learn_and_count(
    batches: Sequence[Outputs], claim: Claim, alpha: float, rng: np.random.Generator
) -> tuple[tuple[Outputs, Outputs], Learned, Tally]:
    """Return the training outputs on D1 and D0, the event learned from them, and its counts on the
    other half of each batch.
    """
    runs = min(map(len, batches))
    orders = [rng.permutation(len(batch))[:runs] for batch in batches]
    half = runs // 2
    train0, train1 = (
        batch.take(order[:half]) for batch, order in zip(batches, orders, strict=True)
    )
    rounds, ones, zeros = split_batches(runs - half, rng)
    learned = learn(train1, train0, claim, alpha=alpha, rounds=rounds)
    wrong0, right0 = learned.event.count(batches[0].take(orders[0][half : half + zeros]))
    right1, wrong1 = learned.event.count(batches[1].take(orders[1][half : half + ones]))
    return (
        (train1, train0),
        learned,
        Tally(right1 + right0, wrong1 + wrong0, rounds, learned.event.directions),
    )


def _encode_batch(name: str, raw: Any) -> Outputs:
    """Return the encoded outputs of one argument; raise InvalidArgument if there are fewer than
    1,000.
    """
    try:
        size = len(raw)
        outputs = encode(raw, size) if size else None
    except Exception as error:  # any object may be given, with any exception
        raise InvalidArgument(
            f"audit_outputs: {name} must be an array or a list with one output per run: "
            f"{error_text(error)}"
        ) from None
    if outputs is None or size < 1000:
        raise InvalidArgument(f"audit_outputs: {name} must hold at least 1000 outputs, got {size}")
    return outputs
