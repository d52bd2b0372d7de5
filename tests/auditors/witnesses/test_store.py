"""The store: a stopped audit ends with the counts of an undisturbed one; what is no store is
refused.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from stored_audits import PAIR, SMALL, SOURCE, noisy, stopping

from dpwitness import InvalidArgument, Verdict, audit
from dpwitness.auditors.witnesses.store import open_store, read_store

LIBRARY = 1.0


def drifting(dataset, size, rng):
    """Noise whose scale changes in large batches only: no probe sees the change."""
    return dataset[0] + rng.laplace(0.0, LIBRARY if size > 50 else 1.0, size)


def test_nothing_is_run_twice(plain, tmp_path):
    """Runs of both starts together are those of one, but for the probe, and for what
    was under way.
    """
    runs = []

    def counted(dataset, size, rng):
        runs.append(size)
        return noisy(dataset, size, rng)

    audit(counted, **SMALL)
    once = sum(runs)
    runs.clear()
    audit(counted, **SMALL, store=tmp_path / "run.db", progress=stopping(12_000))
    first = sum(runs)
    runs.clear()
    audit(counted, **SMALL, store=tmp_path / "run.db")
    assert 0 < first < once and sum(runs) < 0.75 * once and first + sum(runs) < 1.3 * once
    runs.clear()
    audit(counted, **SMALL, store=tmp_path / "run.db")
    assert sum(runs) < 0.1 * once  # the first rounds of each stage, which must give what they gave


def test_a_store_counts_the_runs_of_an_audit_once(tmp_path):
    """A finished audit that is run again, also without its extension, has no more runs."""
    file, small = tmp_path / "run.db", SMALL | {"trials": 3_000}
    for extend_to, runs in ((None, 3_000), (None, 3_000), (6_000, 6_000), (None, 6_000)):
        audit(noisy, **small, store=file, extend_to=extend_to)
        with read_store(file) as store:
            (entry,) = store.entries()
        assert (entry.done, entry.planned) == (runs, runs)


def killed(file, folder, after):
    """Start the command, and end it by SIGKILL after a time; None: let it end."""
    command = [
        sys.executable,
        "-m",
        "dpwitness",
        "audit",
        "mine.py:noisy",
        "--claim",
        "pure:1",
        "--d0",
        "[0]",
        "--d1",
        "[1]",
    ]
    command += ["--trials", "100000", "--in-process", "--store", str(file), "--json"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if after is not None:
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_with_the_counts_of_an_undisturbed_run(tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE)
    code, out, _ = killed(tmp_path / "whole.db", tmp_path, None)
    assert code in (0, 1)
    rng = random.Random(7)
    for _ in range(3):
        killed(tmp_path / "run.db", tmp_path, rng.uniform(1.0, 3.0))
    again, found, _ = killed(tmp_path / "run.db", tmp_path, None)
    whole, pieces = json.loads(out), json.loads(found)
    times = ("seconds", "cpu_seconds")
    assert again == code and {k: v for k, v in pieces.items() if k not in times} == {
        k: v for k, v in whole.items() if k not in times
    }


def test_a_second_coordinator_says_so_and_leaves(tmp_path):
    file = tmp_path / "run.db"
    with (
        open_store(file),
        pytest.raises(
            InvalidArgument,
            match=rf"store must be free, got .*run.db: process {os.getpid()} on .* is at work "
            r"on it",
        ),
    ):
        audit(noisy, **SMALL, store=file)
    assert audit(noisy, **SMALL, store=file).verdict is Verdict.NOT_REFUTED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "noisy has other content: seed: 3 there, 4 here"),
        ({"trials": 30_000}, "other content: trials: 20000 there, 30000 here"),
        ({"claim": "pure:2"}, "claim: pure:1 there, pure:2 here"),
        ({"confidence": 0.9}, "confidence: 0.99 there, 0.9 here"),
        ({"pair": PAIR.swapped()}, "pair: "),
        ({"mechanism": lambda d, n, rng: noisy(d, n, rng), "name": "noisy"}, "target: "),
    ],
)
def test_another_audit_of_the_name_is_refused_with_what_differs(tmp_path, change, message):
    audit(noisy, **SMALL, store=tmp_path / "run.db")
    asked = {"mechanism": noisy, **SMALL, **change}
    with pytest.raises(
        InvalidArgument, match=f"store must hold this audit or none of its name, got .*{message}"
    ):
        audit(**asked, store=tmp_path / "run.db")


@pytest.mark.slow_cases("finished")
@pytest.mark.parametrize("stop", [stopping(9_000), None], ids=["stopped", "finished"])
def test_a_library_that_has_changed_below_the_target_is_seen(tmp_path, monkeypatch, stop):
    audit(drifting, **SMALL, store=tmp_path / "run.db", progress=stop)
    monkeypatch.setitem(globals(), "LIBRARY", 1.1)
    with pytest.raises(
        InvalidArgument,
        match=r"store was made by another version of this mechanism: the first \d+ rounds .*store "
        r"gc",
    ):
        audit(drifting, **SMALL, store=tmp_path / "run.db")
