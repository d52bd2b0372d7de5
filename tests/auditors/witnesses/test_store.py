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
from dataclasses import replace

import numpy as np
import pytest
from stored_audits import PAIR, SHORT, SMALL, SOURCE, noisy, stopping, without_time

from dpwitness import InvalidArgument, Verdict, audit
from dpwitness.auditors.witnesses.store import open_store, read_store
from dpwitness.cli import main

LIBRARY = 1.0


UNTRACED = SHORT | {"trace": False}  # a trace sees a violation that few runs do not show


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


def test_one_mechanism_under_two_names_is_two_audits_with_streams_of_their_own(tmp_path):
    first = audit(noisy, **SHORT, name="first", store=tmp_path / "run.db")
    second = audit(noisy, **SHORT, name="second", store=tmp_path / "run.db")
    assert (
        without_time(second) == without_time(audit(noisy, **SHORT, name="second"))
        and second.tally != first.tally
    )


@pytest.mark.slow
def test_an_extension_tests_the_same_event_on_more_rounds(tmp_path):
    file, more = tmp_path / "run.db", {"store": tmp_path / "run.db", "extend_to": 60_000}
    with pytest.raises(InvalidArgument, match="extend_to needs a finished audit, but the audit in"):
        audit(noisy, **SMALL, **more)
    first = audit(noisy, **SMALL, store=file)
    audit(noisy, **SMALL, **more, progress=stopping(30_000))
    longer = audit(noisy, **SMALL, **more)
    assert (
        longer.event.to_json() == first.event.to_json()
        and longer.trials == longer.requested == 60_000
    )
    assert [part.tally for part in longer.stages[:2]] == [
        part.tally for part in first.stages
    ] and longer.tally.rounds == 40_000
    assert sum(part.weight**2 for part in longer.stages[:2]) == pytest.approx(0.5)
    assert longer.confidence == pytest.approx(0.985) and first.confidence == 0.99
    assert without_time(audit(noisy, **SMALL, store=file)) == without_time(first)
    assert audit(noisy, **SMALL, store=file, extend_to=80_000).confidence == pytest.approx(0.9825)
    assert without_time(audit(noisy, **SMALL, **more)) == without_time(longer)
    with pytest.raises(
        InvalidArgument,
        match="extend_to must be above the 80,000 runs that are planned already, got 70,000",
    ):
        audit(noisy, **SMALL, store=file, extend_to=70_000)
    with pytest.raises(
        InvalidArgument, match="extend_to needs the store of the audit that is extended"
    ):
        audit(noisy, **SMALL, extend_to=70_000)
    whole = audit(noisy, **SMALL, store=tmp_path / "whole.db")
    assert without_time(
        audit(noisy, **SMALL, store=tmp_path / "whole.db", extend_to=60_000)
    ) == without_time(longer) and without_time(whole) == without_time(first)


def exceeded(dataset, size, rng):
    return dataset[0] + rng.laplace(0.0, 0.8, size)


@pytest.mark.slow
def test_the_violation_of_an_extension_stays_in_the_store(tmp_path):
    file = tmp_path / "run.db"
    assert audit(exceeded, **UNTRACED, store=file).verdict is Verdict.NOT_REFUTED
    for total in (30_000, 40_000):
        assert audit(exceeded, **UNTRACED, store=file, extend_to=total).verdict is Verdict.VIOLATED
    again = audit(exceeded, **UNTRACED, store=file)
    assert (
        again.verdict is Verdict.NOT_REFUTED
        and "is VIOLATED: --extend 40000 shows it" in again.notes[0]
    )
    with read_store(file) as store:
        assert [entry.verdict for entry in store.entries()] == ["VIOLATED"]


def test_store_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    audit(noisy, **SMALL, store="a.db")
    audit(noisy, **SMALL, store="b.db", progress=stopping(9_000))
    assert (
        main(["list", "stores", "a.db"]) == 0
        and "noisy  NOT_REFUTED  20,000 of 20,000 runs" in capsys.readouterr().out
    )
    assert main(["list", "stores", "b.db"]) == 0
    assert "noisy  not finished  " in capsys.readouterr().out
    assert (
        main(["list", "stores", "a.db", "--json"]) == 0
        and json.loads(capsys.readouterr().out)[0]["verdict"] == "NOT_REFUTED"
    )
    assert (
        main(["store", "gc", "a.db"]) == 0
        and "1 audits were reduced to results" in capsys.readouterr().out
    )
    assert main(["store", "gc", "b.db", "noisy"]) == 0 and main(["list", "stores", "b.db"]) == 0
    assert "0 audits" in capsys.readouterr().out.splitlines()[-1]
    for arguments, message in (
        (("list", "stores", "no.db"), "store must be an existing file, got no.db"),
        (
            ("store", "gc", "a.db", "x"),
            "NAME must be an audit of a.db, got 'x'; audits in the store: noisy",
        ),
    ):
        assert main([*arguments]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("runs", [300, 4_000, 9_000, 19_999])
def test_stopped_and_begun_again_it_ends_with_the_same_result(plain, tmp_path, runs):
    file = tmp_path / "run.db"
    assert (
        audit(noisy, **SMALL, store=file, progress=stopping(runs)).verdict is Verdict.INCONCLUSIVE
    )
    lines: list[str] = []
    assert without_time(audit(noisy, **SMALL, store=file, announce=lines.append)) == plain
    assert lines[0].startswith(f"{file}: noisy goes on, ") and lines[0].endswith(
        " of 20,000 runs are done"
    )
    with open_store(file) as store:  # one that is open serves several
        assert without_time(audit(noisy, **SMALL, store=store, announce=lines.append)) == plain
    assert lines[-1] == f"{file}: noisy is finished, there is nothing left to run"


def unseeded(dataset, size, rng):
    return dataset[0] + np.random.default_rng().laplace(0.0, 1.0, size)


unseeded.seeded = False


def counted_spans(file):
    with read_store(file) as store:
        return dict(
            store.connection.execute(
                "SELECT first, payload FROM spans WHERE stage & 1 = 0 AND (stage / 2097152) "
                "% 256 = 4"
            )
        )


def test_what_takes_no_seed_goes_on_with_what_was_counted(tmp_path):
    """Runs are other ones each time: a right mechanism is refuted with probability 1e-9."""
    asked = SMALL | {"confidence": 1 - 1e-9}
    file = tmp_path / "run.db"
    audit(unseeded, **asked, store=file, progress=stopping(12_000))
    before = counted_spans(file)
    result = audit(unseeded, **asked, store=file)
    again = audit(unseeded, **asked, store=file)
    assert result.verdict is Verdict.NOT_REFUTED and without_time(
        replace(again, notes=result.notes)
    ) == without_time(result)
    assert (
        "1,000 rounds run now fit the counts of the store (tested at error 1e-09)"
        in again.notes[-1]
    )
    after = counted_spans(file)
    assert all(after[first] == payload for first, payload in before.items() if first in after)
