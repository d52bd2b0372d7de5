"""The check of the gray box: noise recorded on one dataset and played back on the other."""

from __future__ import annotations

from dpwitness.auditors.checks.kit import CheckFailed, Skip, Subject, Tag, check
from dpwitness.auditors.gray_box.trace import trace
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.foreign.target import Target

_RUNS = 40  # what a trace of a few pairs takes


@check(Tag.CLAIM, share=0.004)
def check_noise_played_back(subject: Subject) -> None:
    """With the noise of a run on D1, the run on D0 makes the same calls, moves inputs no further than declared and leaks nothing else."""
    if isinstance(subject.mechanism, Target) and subject.mechanism.command:
        raise Skip("the noise of a program cannot be recorded")
    subject.require(_RUNS)
    result = trace(subject.mechanism, subject.pairs[:4], subject.claim, confirm=False, seed=subject.seed, name=subject.name)
    found = [finding for finding in result.findings if finding.kind != "SOURCE"]  # where randomness comes from, other checks say
    if result.verdict is Verdict.ERROR:
        raise Skip(f"it cannot be traced: {result.notes[0]}")
    if found:
        raise CheckFailed(f"TRACE {found[0]} on the pair '{result.pair.why if result.pair else ''}'")
    if not result.calls:
        raise Skip("none of its noise comes from a primitive that is known")
