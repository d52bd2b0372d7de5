"""Evidence from the trace of one pair, as a value that each stage of the analysis extends."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpwitness.auditors.traces.calls import Calls, record_count
from dpwitness.auditors.traces.sessions import PairSession
from dpwitness.auditors.witnesses.trace_evidence import Finding
from dpwitness.core.claims import Claim

# begin of the message of a finding that rests on the composed loss
CHARGED = "the accountants were charged epsilon"
# kinds of findings that rest on runs with equal draws
_COUPLED = ("CALLS", "SCALE", "SHAPE", "PARAMETER", "OUTPUT")
FOR_ALL_NOISE = ", whatever the noise"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Calls, findings and privacy loss of one pair."""

    calls: Calls
    findings: tuple[Finding, ...] = ()
    suspicions: tuple[Finding, ...] = ()  # may be chance; become findings if an audit confirms them
    loss: float = math.nan
    priced: bool = True  # whether `loss` may be compared with the claim
    charged: float = math.nan
    notes: tuple[str, ...] = ()
    # noise laws on both sides: same, different, mixed or unknown; empty before the comparison
    laws: str = ""
    doubt: str = ""  # why the recorded calls do not account for the outputs; empty if they do

    def plain(self) -> bool:
        """Return whether all randomness comes from the draws of generators.

        Then the code may use the draws in any way that gives the right law.
        """
        return all(
            self.calls.source(i) or self.calls.law(i) == "spend" for i in range(len(self.calls))
        )

    def coupled(self) -> tuple[Finding, ...]:
        """Return findings that rest on equal draws on both sides; the laws of the outputs need not
        show them.
        """
        return tuple(
            f
            for f in self.findings
            if f.kind in _COUPLED and not (f.kind == "OUTPUT" and f.message.endswith(FOR_ALL_NOISE))
        )

    def without(self, findings: tuple[Finding, ...]) -> Evidence:
        """Return the evidence without these findings."""
        return replace(self, findings=tuple(f for f in self.findings if f not in findings))

    def with_finding(
        self, kind: str, message: str, where: str = "", *, certain: bool = True
    ) -> Evidence:
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

    def with_note(self, note: str) -> Evidence:
        """Return the evidence with a note, unless the note is known."""
        return self if note in self.notes else replace(self, notes=(*self.notes, note))

    def with_loss(self, runs: PairSession) -> Evidence:
        """Return the evidence with the composed loss and the charged epsilon, and notes on calls
        that are not counted.
        """
        losses, _ = self.calls.losses
        if self.calls.loose() and not self.calls.moved:
            losses = replace(
                losses, unknown=[*losses.unknown, "noise that is drawn separately from the data"]
            )
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

    def with_loss_findings(self, claim: Claim) -> Evidence:
        """Return the evidence with findings where the composed loss exceeds the claim, or the
        epsilon charged to the accountant.
        """
        found, reached, claimed, calls = self, self.loss, claim.parameter, self.calls
        # a shift of noise is computed from outputs, which may be rounded
        slack = 1 + (1e-3 if calls.moved else 1e-6)
        if reached > claimed * slack:
            at = f" at delta = {claim.delta_budget:g}" if claim.delta_budget else ""
            message = (
                "no finite bound" if math.isinf(reached) else f"{claim.symbol} = {reached:.6g}"
            )
            message = f"the losses of the calls compose to {message}{at}, claimed {claimed:.6g}"
            found = found.with_finding("LOSS", message, certain=self.priced)
        if claim.bounds_epsilon and self.priced and reached > self.charged * slack:
            message = f"{CHARGED} = {self.charged:.6g}, but the calls compose to {reached:.6g}"
            found = found.with_finding("ACCOUNT", message)
        for message in calls.account_faults():
            found = found.with_finding("ACCOUNT", message)
        return found
