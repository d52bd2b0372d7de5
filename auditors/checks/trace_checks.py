"""Gray-box check: noise recorded on one dataset and replayed on the other."""

from __future__ import annotations

from dpwitness.auditors.checks.check import CheckFailed, Skip, Subject, Tag, check
from dpwitness.auditors.gray_box.trace import trace
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.foreign.target import Target

_TRACE_RUNS = 40  # runs of a trace of a few pairs


@check(Tag.CLAIM, share=0.004)
def check_noise_played_back(subject: Subject) -> None:
    """Check the run on D0 with the noise of a run on D1.

    The run must make the same calls, move inputs at most by the declared sensitivity, and leak nothing else.
    """
    if isinstance(subject.mechanism, Target) and subject.mechanism.command:
        raise Skip("the noise of a program cannot be recorded")
    subject.require(_TRACE_RUNS)
    result = trace(subject.mechanism, subject.pairs[:4], subject.claim, confirm=False, seed=subject.seed, name=subject.name)
    found = [finding for finding in result.findings if finding.kind != "SOURCE"]  # other checks test the source of randomness
    if result.verdict is Verdict.ERROR:
        raise Skip(f"the mechanism cannot be traced: {result.notes[0]}")
    if found:
        raise CheckFailed(f"TRACE {found[0]} on the pair '{result.pair.why if result.pair else ''}'")
    if not result.calls:
        raise Skip("none of the mechanism's noise comes from a known primitive")
