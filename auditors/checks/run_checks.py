"""Checks for every mechanism: one output per run, randomness from the given generator, no state,
and the mechanism's claim.
"""

from __future__ import annotations

import dataclasses
import pickle

from dpwitness.auditors.checks.check import (
    CLAIM,
    CLAIM_SHARE,
    LEAST,
    CheckFailed,
    SideChannel,
    Skip,
    Subject,
    Tag,
    check,
)
from dpwitness.auditors.density.density_check import check_oracle
from dpwitness.auditors.events.outputs import encode
from dpwitness.auditors.traces.trace import trace
from dpwitness.auditors.witnesses.audit_result import AuditResult
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.engine import MechanismFailed, run_side, stream
from dpwitness.auditors.workers.statefulness import check_structure, check_training, same_outputs
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.mechanisms.wrappers.programs.target import Target

# findings about the draws, after which the two runs no longer share their noise
_CALLS = ("CALLS", "SHAPE")
_TRACE_RUNS = 40  # runs of a trace of a few pairs


@check(share=0.026)
def check_one_output_per_run(subject: Subject) -> None:
    """Check that `size` runs give `size` outputs, for several sizes and on both datasets."""
    for dataset in (subject.pairs[0].d0, subject.pairs[0].d1):
        for size in (1, 2, subject.few(520) // 2 - 3):
            try:
                raw = subject.run(dataset, size, stream(subject.seed, size))
            except MechanismFailed:
                raise
            except Exception:
                continue  # an exception is an output; the audit decides whether the exception leaks
            encode(raw, size)


@check(Tag.SEED, share=0.0066)
def check_same_stream_same_output(subject: Subject) -> None:
    """Check that equal generator states give equal outputs, also in a fresh process: all randomness
    must come from `rng`.
    """
    dataset = subject.pairs[0].d1
    size = subject.few(128) // 2
    first = subject.outputs(dataset, size, 1)
    if isinstance(subject.mechanism, Target):
        subject.mechanism.close()
    if not same_outputs(first, subject.outputs(dataset, size, 1)):
        raise CheckFailed(
            "two calls with equal generators differ: some randomness does not come from rng, "
            "or the mechanism keeps state between calls"
        )


@check(Tag.SEED, share=0.008)
def check_other_data_leave_no_trace(subject: Subject) -> None:
    """Check that outputs on one dataset do not depend on earlier runs on the other dataset."""
    for pair in subject.pairs[:2]:
        size = subject.few(146) // 5 + 4
        first = subject.outputs(pair.d1, size, 5)
        subject.outputs(pair.d0, 7, 6)
        if not same_outputs(first, subject.outputs(pair.d1, size, 5)):
            raise CheckFailed(
                "outputs on D1 change after a run on D0: the mechanism keeps state between calls"
            )


@check(share=0.03)
def check_rounds_are_independent(subject: Subject) -> None:
    """Check that each run and each call has fresh noise, and that the shape of outputs stays the
    same.
    """
    for pair in subject.pairs[:1]:
        sides = [
            [subject.outputs(d, subject.few(4096) // 8, 2, i, j) for i in range(4)]
            for j, d in enumerate((pair.d1, pair.d0))
        ]
        check_structure(sides[0], "D1")
        check_training(list(zip(*sides, strict=True)))


@check()
def check_dataset_is_left_alone(subject: Subject) -> None:
    """Check that a call does not change the dataset."""
    for dataset in (subject.pairs[0].d0, subject.pairs[0].d1):
        before = repr(to_jsonable(dataset))
        subject.outputs(dataset, 8, 3)
        if repr(to_jsonable(dataset)) != before:
            raise CheckFailed("the mechanism changes the dataset in place")


@check(Tag.PARAMETERS)
def check_parameters_are_validated(subject: Subject) -> None:
    """Check that NaN and infinity in any float parameter are refused with a message that names the
    parameter.
    """
    mechanism = subject.mechanism
    names = [
        f.name
        for f in dataclasses.fields(mechanism)
        if isinstance(getattr(mechanism, f.name), float)
    ]
    if not names:
        raise Skip("the mechanism has no float parameter")
    for name in names:
        for value in (float("nan"), float("inf")):
            try:
                dataclasses.replace(mechanism, **{name: value})
            except ValueError as error:
                if name not in str(error):
                    raise CheckFailed(
                        f"{name} = {value} is refused with a message that does not name it: {error}"
                    ) from None
            else:
                raise CheckFailed(f"{name} = {value} is accepted")


@check(Tag.TRAVELS)
def check_survives_pickling(subject: Subject) -> None:
    """Check that the mechanism can be pickled and sent to worker processes."""
    try:
        copy = pickle.loads(pickle.dumps(subject.run))
    except Exception as error:
        raise CheckFailed(
            f"the mechanism cannot be pickled for worker processes: {error}"
        ) from None
    dataset = subject.pairs[0].d0
    if not same_outputs(
        run_side(subject.run, dataset, 16, stream(0)), run_side(copy, dataset, 16, stream(0))
    ):
        raise CheckFailed("the pickled copy of the mechanism behaves differently")


@check(Tag.DENSITY, share=0.1)
def check_density_agrees_with_sampler(subject: Subject) -> None:
    """Check that the log-density is the sampler's, by bets and by the bridge identity."""
    subject.require(1000)
    check_oracle(
        subject.mechanism, subject.pairs[0], subject.few(40_000) // 2, stream(subject.seed, 4)
    )


@check(Tag.CLAIM, share=CLAIM_SHARE, group=CLAIM)
def check_claim(subject: Subject) -> None:
    """Check that a black-box audit finds no violation of the mechanism's claim, with a false-alarm
    probability of 1e-9.

    It is skipped if the outputs on both datasets of all pairs look equal: far more noise than the
    claim needs is no fault.
    """
    result = _shared_audit(subject)
    if result.verdict is Verdict.INCONCLUSIVE and result.exercised is False:
        raise Skip(f"no verdict on the claim: {result.headline()}", result)
    if result.verdict is not Verdict.NOT_REFUTED:
        raise CheckFailed(result.headline(), result)


@check(Tag.CLAIM, share=CLAIM_SHARE, group=CLAIM)
def check_low_bits(subject: Subject) -> None:
    """Check that the low bits of floating-point outputs satisfy the claim."""
    result = _shared_audit(subject)
    if result.bit_level is None:
        bit_notes = (note for note in result.notes if note.startswith("low bits"))
        raise Skip(next(bit_notes, "the outputs are not floating-point numbers"))
    if result.bit_level.verdict in (Verdict.VIOLATED, Verdict.SUSPECT):
        reason = (
            f"the low bits certify epsilon > {result.bit_level.epsilon_lower:.4g} against "
            f"{result.claim}"
        )
        raise CheckFailed(reason, result, violation=True)


@check(Tag.CLAIM, share=0.004)
def check_noise_played_back(subject: Subject) -> None:
    """Check the run on D0 with the noise of a run on D1.

    The run must move inputs at most by the declared sensitivity, and leak nothing else. Other calls
    or draws are not an output: they are a note unless they are asked for, because findings after
    them compare noise that the two runs do not share.
    """
    if isinstance(subject.mechanism, Target) and subject.mechanism.command:
        raise Skip("the noise of a program cannot be recorded")
    subject.require(_TRACE_RUNS)
    result = trace(
        subject.mechanism,
        subject.pairs[:4],
        subject.claim,
        confirm=False,
        seed=subject.seed,
        name=subject.name,
    )
    # other checks test the source of randomness
    found = [finding for finding in result.findings if finding.kind != "SOURCE"]
    if result.verdict is Verdict.ERROR:
        raise Skip(f"the mechanism cannot be traced: {result.notes[0]}")
    if found:
        calls = [finding for finding in found if finding.kind in _CALLS]
        error, first = (SideChannel, calls[0]) if calls else (CheckFailed, found[0])
        raise error(f"TRACE {first} on the pair '{result.pair.why if result.pair else ''}'")
    if not result.calls:
        raise Skip("none of the mechanism's noise comes from a known primitive")


def _shared_audit(subject: Subject) -> AuditResult:
    """Return the audit of the claim, which `check_claim` and `check_low_bits` share."""
    if "claim" not in subject.audits:
        subject.require(LEAST)
        subject.audits["claim"] = subject.audit(subject.pairs, subject.runs, bits=True)
    return subject.audits["claim"]
