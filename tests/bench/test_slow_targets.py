"""Parts of the benchmark of slow targets, with a stub for the audits."""

from dataclasses import dataclass

import pytest

from dpwitness import Verdict
from dpwitness.benchmarks.performance import slow_targets
from dpwitness.core.values.validation import InvalidArgument


@dataclass
class Found:
    verdict: Verdict
    parameter_lower: float = 1.5
    trials: int = 5000
    cpu_seconds: float = 58.04


def test_parts_name_the_targets_with_a_wrong_verdict(monkeypatch):
    monkeypatch.setattr(slow_targets, "audit_one", lambda target: Found(Verdict.VIOLATED))
    table = slow_targets.measure(["faulty", "sound:stump"])
    assert [(row.required, row.measured) for row in table.rows] == [(10, 10), (1, 0)]
    assert table.notes[1:] == ("wrong verdict: noisy_stump",)
    assert len(table.details) == 11 and table.details[0]["cpu_seconds"] == 58.0


def test_an_unknown_part_is_named():
    with pytest.raises(
        InvalidArgument, match=r"--part must be one of faulty, sound, trace, got 'slow'"
    ):
        slow_targets.measure(["slow"])
