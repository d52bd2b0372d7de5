"""A seeded part of the fuzz campaign, and that it sees what it looks for. All of it: `dpwitness
bench fuzz`.
"""

import os
import subprocess
import sys
import time

import pytest

from dpwitness.benchmarks.hostile.fuzz import (
    Tally,
    _count_leftovers,
    _processes_with_token,
    campaign,
)
from dpwitness.benchmarks.hostile.inputs import environments, options, signals, targets

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.slow
@pytest.mark.parametrize(
    "counts",
    [
        {"options": 60, "files": 60, "calls": 100},
        {"targets": 6},
        {"signals": 3},
        {"environments": 4},
    ],
    ids=lambda counts: "-".join(counts),
)
def test_no_input_ends_in_a_traceback_a_hang_an_orphan_or_an_exit_code_that_is_not_documented(
    counts,
):
    found = campaign(7, counts)
    assert {kind: tally.inputs for kind, tally in found.items()} == counts
    assert not [fault for tally in found.values() for fault in tally.faults]


def test_inputs_are_many_and_the_same_for_one_seed():
    for kind in (options, targets, signals, environments):
        told = [str(run) for run in kind(3, 200)]
        assert told == [str(run) for run in kind(3, 200)] != [str(run) for run in kind(4, 200)]
        assert len(set(told)) > 60


@pytest.mark.parametrize(
    ("code", "text", "left", "fault"),
    [
        (0, "fine", 0, ""),
        # of the user's own file, shown on purpose
        (1, 'Traceback (most recent call last):\n  File "/x/mine.py", line 3', 0, ""),
        (
            1,
            'Traceback (most recent call last):\n  File "/x/dpwitness/cli.py", line 3',
            0,
            "tracebacks",
        ),
        (None, "", 0, "hangs"),
        (0, "", 2, "orphans"),
        (139, "", 0, "undocumented"),
        (-9, "", 0, "undocumented"),
        (3, "dpwitness audit: stopped by an unexpected error: X", 0, "unknown"),
    ],
)
def test_faults_are_seen(code, text, left, fault):
    tally = Tally()
    tally.take("x", code, text, left)
    names = ("tracebacks", "hangs", "orphans", "undocumented", "unknown")
    assert [name for name in names if getattr(tally, name)] == ([fault] if fault else [])


def test_orphans_are_seen_and_ended():
    process = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, "DPWITNESS_FUZZ": "an-orphan"}, start_new_session=True
    )
    for _ in range(200):
        if _processes_with_token("an-orphan"):
            break
        time.sleep(0.01)
    assert _count_leftovers("an-orphan") == 1
    assert process.wait(10) == -9
