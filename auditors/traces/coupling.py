"""Evidence from the trace of one pair, and comparison of coupled runs: whether shifts of the noise,
or equal laws of the noise, explain the differences between both sides.

Each stage of the analysis takes the evidence on a pair and returns the evidence, extended by the
findings of the stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpwitness.auditors.traces.alignment import (
    Alignment,
    NoiseLaw,
    align,
    close,
    draws_matter,
    noise_law,
)
from dpwitness.auditors.traces.calls import CallTable, Losses, record_count
from dpwitness.auditors.traces.evidence import Finding, describe_composed
from dpwitness.auditors.traces.sessions import PairSession
from dpwitness.core.claims import Claim
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_reader import Json

Run = tuple[Json, Json]  # a recording, and its replay on the other dataset
# begin of the message of a finding that rests on the composed loss
CHARGED = "the accountants were charged epsilon"
# kinds of findings that rest on runs with equal draws
_COUPLED = ("CALLS", "SCALE", "SHAPE", "PARAMETER", "OUTPUT")
FOR_ALL_NOISE = ", whatever the noise"


@dataclass(frozen=True, slots=True)
class PairEvidence:
    """Calls, findings and privacy loss of one pair."""

    calls: CallTable
    findings: tuple[Finding, ...] = ()
    suspicions: tuple[Finding, ...] = ()  # may be chance; become findings if an audit confirms them
    loss: float = math.nan
    priced: bool = True  # whether `loss` may be compared with the claim
    charged: float = math.nan
    notes: tuple[str, ...] = ()
    # noise laws on both sides: same, different, mixed or unknown; empty before the comparison
    laws: str = ""
    doubt: str = ""  # why the recorded calls do not account for the outputs; empty if they do

    def coupled(self) -> tuple[Finding, ...]:
        """Return findings that compare runs with equal draws on both datasets. The output laws of
        the datasets need not differ.
        """
        return tuple(
            f
            for f in self.findings
            if f.kind in _COUPLED and not (f.kind == "OUTPUT" and f.message.endswith(FOR_ALL_NOISE))
        )

    def without(self, findings: tuple[Finding, ...]) -> PairEvidence:
        """Return the evidence without these findings."""
        return replace(self, findings=tuple(f for f in self.findings if f not in findings))

    def with_finding(
        self, kind: str, message: str, where: str = "", *, certain: bool = True
    ) -> PairEvidence:
        """Return the evidence with a finding, or a suspicion if not `certain`, unless its kind is
        known for the same primitive.
        """
        group = self.findings if certain else self.suspicions
        if any(
            f.kind == kind and f.message.partition(":")[0] == message.partition(":")[0]
            for f in group
        ):
            return self
        group = (*group, Finding(kind, message, where))
        return replace(self, findings=group) if certain else replace(self, suspicions=group)

    def with_note(self, note: str) -> PairEvidence:
        """Return the evidence with a note, unless the note is known."""
        return self if note in self.notes else replace(self, notes=(*self.notes, note))

    def with_loss(self, runs: PairSession) -> PairEvidence:
        """Return the evidence with the composed loss and the charged epsilon, and notes on calls
        that are not counted.
        """
        losses = Losses.together(self.calls.losses)
        if self.calls.loose and not self.calls.moved:
            separate = "noise that is drawn separately from the data"
            losses = replace(losses, unknown=(*losses.unknown, separate))
        found = replace(self, loss=losses.parameter(runs.claim), charged=self.calls.charged())
        if losses.unknown:
            names = ", ".join(sorted(set(losses.unknown))[:3])
            found = found.with_note(f"the privacy loss of {names} is unknown")
        if self.calls.subsampled(record_count(runs.first)):
            note = (
                "records are drawn: the loss is that of one subsample, amplification by sampling "
                "is not counted"
            )
            found = replace(found, priced=False).with_note(note)
        return found

    def with_loss_findings(self, claim: Claim) -> PairEvidence:
        """Return the evidence with findings where the composed loss exceeds the claim, or the
        epsilon charged to the accountant.
        """
        found, reached, claimed = self, self.loss, claim.parameter
        # a shift of noise is computed from outputs, which may be rounded
        slack = 1 + (1e-3 if self.calls.moved else 1e-6)
        if reached > claimed * slack:
            composed = describe_composed(claim, reached, claimed, 6)
            message = f"the losses of the calls compose to {composed}"
            found = found.with_finding("LOSS", message, certain=self.priced)
        if claim.bounds_epsilon and self.priced and reached > self.charged * slack:
            message = f"{CHARGED} = {self.charged:.6g}, but the calls compose to {reached:.6g}"
            found = found.with_finding("ACCOUNT", message)
        for message in self.calls.account_faults():
            found = found.with_finding("ACCOUNT", message)
        return found


def aligned(runs: PairSession, evidence: PairEvidence, run: Run) -> tuple[PairEvidence, bool]:
    """Search for an alignment of a recording: shifts of its noise draws with which the other
    dataset gives the same output. Return whether an alignment was found.
    """
    recorded, replayed = run
    shifted = partial(runs.replay, recorded, brief=True)
    found = align(shifted, recorded, replayed, evidence.calls)
    if isinstance(found, str):
        return evidence.with_finding("OUTPUT", found), False
    if found is None:
        return evidence, False
    # noise that may hide a part of the loss; a seed for another generator does not
    others = [call for call in evidence.calls if call.source and not call.free]
    hidden = draws_matter(shifted, others, replayed["numbers"])
    calls = evidence.calls.shifted(found.moved)
    return replace(evidence, calls=calls, priced=_is_cheapest(runs, found) and not hidden), True


def _is_cheapest(runs: PairSession, found: Alignment) -> bool:
    """Return whether no other alignment costs less."""
    return found.only or found.normal or (runs.claim.is_pure and not found.some)


def alignment_holds(
    runs: PairSession, evidence: PairEvidence, pairs: Sequence[Run]
) -> tuple[PairEvidence, bool]:
    """Return whether another recording has an alignment of the same size, or noise has the same
    effect on both datasets.

    `evidence` is aligned by the first recording.
    """
    if any(_moves_alike(runs, evidence, run) for run in pairs[1:2]):
        return evidence, True
    calls, recordings = evidence.calls, [recorded for recorded, _ in pairs]
    evidence, equal = laws_compared(runs, replace(evidence, calls=calls.shifted({})), recordings)
    unknown = not equal and evidence.laws in ("mixed", "unknown")
    if unknown and _same_slopes(runs, calls, pairs[0][0]):
        return replace(evidence, calls=calls), True
    return evidence, equal


def _moves_alike(runs: PairSession, evidence: PairEvidence, run: Run) -> bool:
    """Return whether another recording is aligned by shifts of the same sizes as `evidence`."""
    if run[1]["differences"]:
        return False
    other, found = aligned(runs, PairEvidence(CallTable.of(run[1]["table"])), run)
    sizes = [
        np.sort(np.abs(np.concatenate([*side.calls.moved.values(), [0.0]])))
        for side in (evidence, other)
    ]
    return found and close(*sizes)


def alignment_repeats(runs: PairSession, evidence: PairEvidence) -> bool:
    """Return whether all of some new recordings are aligned like `evidence`, or all outputs differ
    by one constant.

    Two recordings may agree by chance.
    """
    pairs = [runs.record_both() for _ in range(12)]
    gaps = [np.asarray(a["numbers"], float) - np.asarray(b["numbers"], float) for a, b in pairs]
    return all(close(gap, gaps[0]) for gap in gaps) or all(
        _moves_alike(runs, evidence, run) for run in pairs
    )


def _same_slopes(runs: PairSession, calls: CallTable, recorded: Json) -> bool:
    """Return whether each number of the output moves equally on both sides if all draws move
    together.
    """
    slopes = []
    for replay in (runs.replay_own, runs.replay):
        base, one, three = (
            np.asarray(replay(recorded, by, brief=True)["numbers"])
            for by in (
                [(call.index, np.full(call.size, step)) for call in calls if call.free and step]
                for step in (0.0, 1.0, 3.0)
            )
        )
        linear = base.shape == one.shape == three.shape and close((one - base) * 3, three - base)
        if not linear:
            return False
        slopes.append(one - base)
    return close(*slopes)


def _noise_law_on(replay: Callable[..., Json], recordings: Sequence[Json]) -> NoiseLaw | str:
    """Return the law of the noise on one dataset, as in `noise_law`; two recordings must agree."""

    def law(recorded: Json) -> NoiseLaw | str:
        return noise_law(
            lambda shifts: replay(recorded, shifts, brief=shifts is not None), recorded
        )

    found, again = map(law, recordings[:2])
    if isinstance(found, str) or isinstance(again, str):
        return "mixed" if "mixed" in (found, again) else "unknown"
    return found if found.repeats(again) else "mixed"


def laws_compared(
    runs: PairSession, evidence: PairEvidence, recordings: Sequence[Json]
) -> tuple[PairEvidence, bool]:
    """Compare the laws of the noise on both datasets, if known. Return whether the laws are equal
    and the remaining shift is known.

    If the laws are equal, differences of coupled runs are not findings, and the evidence gets the
    loss of the remaining shift. If the laws differ, the differences are findings. If a law is
    unknown, the differences are suspicions, which an audit may confirm.
    """
    recordings = [*recordings, *(runs.record() for _ in range(2 - len(recordings)))]
    law = _noise_law_on(runs.replay_own, recordings)
    others = [runs.record(second=True) for _ in range(2)]
    other = _noise_law_on(partial(runs.replay, whole=True), others)
    if isinstance(law, str) or isinstance(other, str):
        return replace(evidence, laws="mixed" if "mixed" in (law, other) else "unknown"), False
    if evidence.calls.moved:
        evidence = replace(evidence, calls=law.calls)
    if not law.same_noise(other):
        scales = _describe_scales(law.deviations(), other.deviations())
        return replace(evidence, laws="different").with_finding("SCALE", scales), False
    evidence = replace(evidence.without(evidence.coupled()), laws="same")
    found = law.alignment(other)
    if found is None:
        message = "no shift of the noise explains the difference of the outputs"
        return evidence.with_finding("OUTPUT", message), False
    priced = _is_cheapest(runs, found)
    return replace(evidence, calls=law.calls.shifted(found.moved), priced=priced), True


def _describe_scales(a: FloatArray, b: FloatArray) -> str:
    """Describe the number of the output whose noise has the most different scales on both sides."""
    if a.shape != b.shape or close(a, b):
        return (
            "number 0 of the output: the distribution of its noise differs between the two datasets"
        )
    k = int(np.argmax(np.abs(a - b)))
    return (
        f"number {k} of the output: its noise has scale {a[k]:.6g} on one side and {b[k]:.6g} on "
        "the other"
    )
