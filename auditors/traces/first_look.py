"""Few traced runs before a black-box audit: pairs that look worst, an event, and the evidence that
explains the verdict.

Traced runs have seeds of their own and are never counted. What they show holds for one pair and a
few runs, on the assumption that the recorded primitives draw from the laws that they declare. So
the evidence orders pairs and supports a verdict, but certifies nothing. The noise of a replay is
that of the recording, so the difference of their outputs is the exact shift of each number. The
log-odds for this shift are one more order of the outputs, which training data may choose.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

import numpy as np

from dpwitness.auditors.traces.calls import CallTable
from dpwitness.auditors.traces.coupling import CHARGED, PairEvidence
from dpwitness.auditors.traces.evidence import Limits, TraceEvidence, TraceRequest
from dpwitness.auditors.traces.pair_analysis import (
    MAY_BE_CHANCE,
    REPEATS,
    UNFAITHFUL,
    examine,
    glance,
    is_faithful,
    outcome,
)
from dpwitness.auditors.traces.sessions import PairSession, SessionRecorder, Steps, opened
from dpwitness.auditors.workers.rounds import is_builtin_mechanism
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.recording.recorder import Stopped

_PAIRS_SHARE = 0.4  # share of these limits for the comparison of pairs
_WAITING = 4.0  # limit of the wall time, as a multiple of the limit of the CPU time
# maximum number of draws that are shifted to see whether they reach the output
_MAX_COORDINATES = 12
_T = TypeVar("_T")
_REPLAYS = 2  # recordings in which the draws must reach the output


class TooLate(Stopped):
    """The traced runs took too long, which depends on the machine."""


class _LimitedRecorder(SessionRecorder):
    """Recorder that raises Stopped beyond the limits of its runs: TooLate beyond the limit of their
    time.
    """

    def __init__(self, step: Steps, seed: int, limits: Limits) -> None:
        super().__init__(step, seed)
        self.limits, self.deadline = limits, monotonic() + _WAITING * limits.seconds

    def run_seed(self) -> int:
        if self.cpu > self.limits.seconds or monotonic() > self.deadline:
            raise TooLate
        if self.runs > self.limits.runs:
            raise Stopped("limit of traced runs")
        return super().run_seed()


def is_traceable(mechanism: Any) -> bool:
    """Return whether the mechanism's runs can be traced: Python code, other than the compiled
    kernels of this package.
    """
    if isinstance(mechanism, Target):
        return not mechanism.command
    return not is_builtin_mechanism(getattr(mechanism, "sample", mechanism))


@contextmanager
def _recorder(request: TraceRequest, limits: Limits) -> Iterator[SessionRecorder]:
    with opened(request.mechanism, [], min(request.time_limit, _WAITING * limits.seconds)) as step:
        yield _LimitedRecorder(step, request.seed, limits)


def worst_pairs(request: TraceRequest) -> tuple[list[int], bool]:
    """Return the numbers of pairs on which one traced run and its replay exceed the claim or
    diverge, and whether the time was not enough.

    The worst pair comes first; there are at most two. A pair whose runs cannot be traced
    has no score, and the others keep theirs.
    """
    scores: dict[int, float] = {}
    late = False
    runs, seconds = request.limits.runs, request.limits.seconds
    limits = Limits(int(_PAIRS_SHARE * runs), _PAIRS_SHARE * seconds)
    # an optional look must not end the audit, whose own runs report faults of the mechanism
    with suppress(Exception), _recorder(request, limits) as recorder:
        for k, pair in enumerate(request.pairs[:24]):
            try:
                scores[k] = glance(recorder, pair, request.claim)
            except (Stopped, Exception) as error:
                late |= isinstance(error, TooLate)
    order = sorted(scores, key=lambda k: -scores[k])
    return [k for k in order if scores[k] > 1 + 1e-3][:2], late


def worst_evidence(request: TraceRequest) -> tuple[TraceEvidence | None, str, FloatArray | None]:
    """Return the evidence on the pair whose loss exceeds the claim most, or else on the first pair,
    and a note if there is none.

    The last value is the shift of the output's numbers on the first pair.
    """
    found, note, shift = list[TraceEvidence](), "", None
    limits, claim = request.limits, request.claim
    try:
        with _recorder(request, limits) as recorder:
            for pair in request.pairs:
                found.append(_evidence_on(recorder, pair, claim, request.mechanism))
            shift = _output_shift(recorder, request.pairs[0], claim)
    except Stopped:
        limit = f"{limits.runs:,} runs or {limits.seconds:.2g} s"
        note = "" if found else f"no trace: its runs would take more than {limit}"
    except Exception as error:  # data of any kind: what cannot be traced can still be audited
        note = f"no trace: {type(error).__name__}: {error}"
    worst = max(
        found, key=lambda each: each.loss / each.claimed if each.exceeds else 0.0, default=None
    )
    return worst, note, shift


def _output_shift(recorder: SessionRecorder, pair: Pair, claim: Claim) -> FloatArray | None:
    """Return by how much each number of the output moves from D0 to D1 under the same noise, on
    average over recordings.

    None if outputs are not numbers, or none of them moves.
    """
    runs = PairSession.of(recorder, pair, claim)
    recordings = [runs.record_both(brief=True) for _ in range(_REPLAYS)]
    outputs = [side for both in recordings for side in both]
    shapes = {np.shape(side["numbers"]) for side in outputs}
    if any(side["raised"] or side["texts"] for side in outputs) or len(shapes) > 1:
        return None
    numbers = np.array([[side["numbers"] for side in both] for both in recordings], dtype=float)
    with np.errstate(invalid="ignore"):  # infinite outputs have no difference
        shift = np.mean(numbers[:, 0] - numbers[:, 1], axis=0)
    shift *= 1.0 if runs.first is pair.d1 else -1.0
    return shift if np.isfinite(shift).all() and shift.any() else None


def _evidence_on(
    recorder: SessionRecorder, pair: Pair, claim: Claim, mechanism: Any
) -> TraceEvidence:
    before = recorder.runs
    evidence = examine(recorder, pair, claim, (), seeded=bool(getattr(mechanism, "seeded", True)))
    expected = getattr(mechanism, "expected_findings", None) or {}
    runs = PairSession.of(recorder, pair, claim)
    exceeds = (
        "LOSS" not in expected
        and any(f.kind == "LOSS" for f in evidence.findings)
        and _noise_reaches_output(runs, evidence)
    )
    # the output may hide a part of the loss
    by_loss = [f for f in evidence.findings if f.kind == "LOSS" or f.message.startswith(CHARGED)]
    findings = tuple(
        f for f in evidence.findings if f.kind not in expected and (exceeds or f not in by_loss)
    )
    loss = evidence.loss if evidence.priced or exceeds else math.nan
    doubt = evidence.doubt
    if not doubt and not findings and loss <= runs.claim.parameter * (1 + 1e-3):
        try:
            doubt = _partial_doubt(runs, evidence)
        except Stopped:
            doubt = "too few traced runs were allowed to see whether all noise is recorded"
    return TraceEvidence(
        pair=pair.why,
        claimed=runs.claim.parameter,
        loss=loss,
        exceeds=exceeds,
        findings=findings,
        calls=evidence.calls.summary(),
        runs=recorder.runs - before,
        doubt=doubt,
    )


def _partial_doubt(runs: PairSession, evidence: PairEvidence) -> str:
    """Return why a part of the output, or a part of the noise, is not accounted for; empty if all
    parts are.

    A part of the output that never changes may have noise that is not recorded. Noise that is drawn
    without the data, and changes nothing in these runs, may decide about a rare output. Draws
    without a law of noise, such as seeds, have no price.
    """
    if evidence.suspicions:
        return f"{MAY_BE_CHANCE}: {evidence.suspicions[0].message}"
    recorded = runs.record()
    constant = _parts(recorded)
    for _ in range(REPEATS):
        if not constant:
            break
        other = runs.record()
        changed = not constant <= _parts(other)
        if changed and not (is_faithful(runs, recorded) and is_faithful(runs, other)):
            return UNFAITHFUL
        constant &= _parts(other)
    if constant:
        kind, place, value = min(constant)
        return (
            f"{kind} {place} of the output is {value} in {REPEATS} runs, so that no recorded "
            "noise accounts for it"
        )
    calls = CallTable.of(runs.replay_own(recorded)["table"])
    for call in calls.kinds():
        if call.law in ("uniform", "noise") or (call.law == "choice" and call.source):
            return (
                f"the output may depend on the draws of {call.name}, whose privacy loss is not "
                "computed"
            )
    free = [call for call in calls if call.free and call.drawn is not None]
    for call, j in _chosen([(each, j) for each in free for j in range(each.size)]):
        by = np.where(np.arange(call.size) == j, np.max(call.noise_scales(), initial=1.0), 0.0)
        moved = runs.replay_own(recorded, [(call.index, by)], brief=True)
        if outcome(moved) == outcome(recorded):
            return (
                f"a draw of {call.name} at {call.where} does not change the output, but "
                "may decide about one that is rare"
            )
    return ""


def _chosen(places: Sequence[_T]) -> list[_T]:
    """Return at most `_MAX_COORDINATES` of some places, evenly spread."""
    chosen = np.unique(np.linspace(0, len(places) - 1, _MAX_COORDINATES).astype(int))
    return [places[k] for k in chosen] if places else []


def _parts(run: Json) -> set[tuple[str, int, str]]:
    """Return the numbers and the texts of an output, each with its kind and place."""
    numbers = {
        ("number", k, f"{value:.17g}")
        for k, value in enumerate(np.asarray(run["numbers"], dtype=float).tolist())
    }
    return numbers | {("text", k, repr(value)) for k, value in enumerate(run["texts"])}


def _noise_reaches_output(runs: PairSession, evidence: PairEvidence) -> bool:
    """Return whether the output determines the noise of all calls with a loss: shifts of their
    draws move the output independently.

    Otherwise the output may hide a part of the loss, as the largest of several noisy numbers does.
    """
    coordinates = []  # index of a call, size and index of a number of its draw, step of the noise
    for call in evidence.calls:
        if not evidence.calls.losses[call.index].pure() > 0:
            continue
        size = call.size if call.drawn is None else len(call.drawn)
        whole = call.drawn is not None and (call.drawn == np.round(call.drawn)).all()
        scales = np.maximum(call.noise_scales(), 1.0 if whole else 0.0)
        steps = np.broadcast_to(scales, size).tolist()
        # the numbers whose noise has to move, or whose input moves
        moving = np.flatnonzero(call.moves) if len(call.moves) == size else np.arange(size)
        coordinates += [(call.index, size, j, steps[j]) for j in moving]
    for _ in range(_REPLAYS if coordinates else 0):
        recorded = runs.record()
        base = np.asarray(recorded["numbers"], dtype=float)
        if len(base) < len(coordinates) or recorded["raised"]:
            return False
        columns = []
        for index, size, j, step in _chosen(coordinates):
            by = np.where(np.arange(size) == j, step, 0.0)
            found = runs.replay_own(recorded, [(index, by)], brief=True)
            numbers = np.asarray(found["numbers"], dtype=float)
            if found["raised"] or numbers.shape != base.shape:
                return False
            columns.append((numbers - base) / step)
        if not np.isfinite(columns).all():
            return False
        if np.linalg.matrix_rank(np.array(columns)) < len(columns):
            return False
    return bool(coordinates)
