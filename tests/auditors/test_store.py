"""The store: a stopped audit ends with the counts of an undisturbed one; what is no store is refused; two agree or say so."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import expit

from dpwitness import Pair, audit
from dpwitness.auditors.black_box import stages
from dpwitness.auditors.black_box.course import UnderTest
from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.events.rules import Intervals
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.running.spans import Segment, Span
from dpwitness.auditors.statistics.certificate import Tally
from dpwitness.auditors.statistics.combination import Part
from dpwitness.auditors.storing.merging import merge
from dpwitness.auditors.storing.payload import pack, unpack
from dpwitness.auditors.storing.store import open_store, read_store
from dpwitness.cli import main
from dpwitness.mechanisms.terms.notions import PureDP
from dpwitness.mechanisms.terms.validation import InvalidArgument

PAIR = Pair(np.array([0.0]), np.array([1.0]))
SMALL = {"claim": "pure:1", "pair": PAIR, "trials": 20_000, "seed": 3, "bits": False}

SOURCE = """
import numpy as np


def noisy(dataset, size, rng):
    return np.round(dataset[0] + rng.laplace(0.0, 1.0, size), 2)


noisy.claim = "pure:1"
"""


def noisy(dataset, size, rng):
    return np.round(dataset[0] + rng.laplace(0.0, 1.0, size), 2)


def unseeded(dataset, size, rng):
    return np.round(dataset[0] + np.random.default_rng().laplace(0.0, 1.0, size), 2)


unseeded.seeded = False


def told(result):
    """All that a result says, but for the time that it took."""
    data = result.to_json()
    data.pop("seconds")
    return data


@pytest.fixture(scope="module")
def plain():
    return told(audit(noisy, **SMALL))


class Stop(Exception):
    pass


def stopping(after):
    def progress(done, planned):
        if done >= after:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("runs", [300, 4_000, 9_000, 19_999])
def test_stopped_and_begun_again_it_ends_with_the_same_result(plain, tmp_path, runs):
    file = tmp_path / "run.db"
    assert audit(noisy, **SMALL, store=file, progress=stopping(runs)).verdict is Verdict.INCONCLUSIVE
    lines: list[str] = []
    assert told(audit(noisy, **SMALL, store=file, announce=lines.append)) == plain
    assert lines[0].startswith(f"{file}: noisy goes on, ") and lines[0].endswith(" of 20,000 runs are done")
    with open_store(file) as store:  # one that is open serves several
        assert told(audit(noisy, **SMALL, store=store, announce=lines.append)) == plain
    assert lines[-1] == f"{file}: noisy was run to its end before, nothing is left to run"


def test_nothing_is_run_twice(plain, tmp_path):
    """Runs of both starts together are those of one, but for the probe, and for what was under way."""
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
    assert not runs


def test_what_takes_no_seed_goes_on_with_what_was_counted(tmp_path):
    """Runs are other ones each time: a right mechanism is refuted with probability 1e-9."""
    asked = SMALL | {"confidence": 1 - 1e-9}
    file = tmp_path / "run.db"
    audit(unseeded, **asked, store=file, progress=stopping(12_000))
    with read_store(file) as store:
        before = dict(store.connection.execute("SELECT first, payload FROM spans WHERE stage & 1 = 0 AND (stage / 2097152) % 256 = 4"))
    result = audit(unseeded, **asked, store=file)
    assert result.verdict is Verdict.NOT_REFUTED and told(audit(unseeded, **asked, store=file)) == told(result)
    with read_store(file) as store:
        after = dict(store.connection.execute("SELECT first, payload FROM spans WHERE stage & 1 = 0 AND (stage / 2097152) % 256 = 4"))
    assert all(after[first] == payload for first, payload in before.items() if first in after)


def killed(file, folder, after):
    """Start the command, and end it by SIGKILL after a time; None: let it end."""
    command = [sys.executable, "-m", "dpwitness", "audit", "mine.py:noisy", "--claim", "pure:1", "--d0", "[0]", "--d1", "[1]"]
    command += ["--trials", "100000", "--in-process", "--store", str(file), "--json"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if after is not None:
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
    out, err = process.communicate()
    return process.returncode, out, err


def test_killed_at_random_moments_it_ends_with_the_counts_of_an_undisturbed_run(tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE)
    code, out, _ = killed(tmp_path / "whole.db", tmp_path, None)
    assert code in (0, 1)
    rng = random.Random(7)
    for _ in range(3):
        killed(tmp_path / "run.db", tmp_path, rng.uniform(1.0, 3.0))
    again, found, _ = killed(tmp_path / "run.db", tmp_path, None)
    whole, pieces = json.loads(out), json.loads(found)
    assert again == code and {k: v for k, v in pieces.items() if k != "seconds"} == {k: v for k, v in whole.items() if k != "seconds"}


def test_a_second_coordinator_says_so_and_leaves(tmp_path):
    file = tmp_path / "run.db"
    with (
        open_store(file),
        pytest.raises(InvalidArgument, match=rf"store must be free, got .*run.db: process {os.getpid()} on .* is at work on it"),
    ):
        audit(noisy, **SMALL, store=file)
    assert audit(noisy, **SMALL, store=file).verdict is Verdict.NOT_REFUTED


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
    with pytest.raises(InvalidArgument, match=f"store must hold this audit or none of its name, got .*{message}"):
        audit(**asked, store=tmp_path / "run.db")


def test_a_library_that_has_changed_below_the_target_is_seen(tmp_path):
    scale = [1.0]

    def drifting(dataset, size, rng):
        return dataset[0] + rng.laplace(0.0, scales(), size)

    def scales():
        return globals()["LIBRARY"]

    globals()["LIBRARY"] = scale[0]
    audit(drifting, **SMALL, store=tmp_path / "run.db", progress=stopping(9_000))
    globals()["LIBRARY"] = 1.1
    with pytest.raises(InvalidArgument, match="other outputs under the same seed: the target, or a library below it, has changed"):
        audit(drifting, **SMALL, store=tmp_path / "run.db")


def _version(file):
    open_store(file).close()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 7")


def _foreign(file):
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE mine (a)")


def _truncated(file):
    audit(noisy, **SMALL, store=file)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flipped(file):
    audit(noisy, **SMALL, store=file)
    content = bytearray(file.read_bytes())
    content[4096:8192] = os.urandom(4096)
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_version, "store must be of version 1, got .* of version 7"),
        (_foreign, "store must be a store of dpwitness, got .*: a database of something else"),
        (_truncated, "store must be (whole|a sound file)"),
        (_flipped, "store must be (whole|a sound file)"),
        (lambda file: file.write_text("no database\n" * 100), "store must be a sound file that can be written, got .*not a database"),
        (lambda file: file.mkdir(), "store must be a file that can be written, got .*is a directory"),
    ],
)
def test_what_is_no_store_is_refused(tmp_path, make, message):
    make(tmp_path / "run.db")
    with pytest.raises(InvalidArgument, match=message):
        audit(noisy, **SMALL, store=tmp_path / "run.db")
    with pytest.raises(InvalidArgument):
        read_store(tmp_path / "run.db")


def test_a_full_disk_costs_no_verdict_and_no_count(plain, tmp_path):
    """The pages that a database may take stand for the disk: the audit ends as it would, says so, and begins anew where it can."""
    file = tmp_path / "run.db"
    with open_store(file) as store:
        pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {pages + 12}")
        full = audit(noisy, **SMALL, store=store)
    assert {**told(full), "notes": []} == {**plain, "notes": []}
    assert [note for note in full.notes if "could not be written to the end (database or disk is full)" in note]
    assert told(audit(noisy, **SMALL, store=file)) == plain


def test_a_disk_that_has_room_again_gets_all(plain, tmp_path, monkeypatch):
    monkeypatch.setattr("dpwitness.auditors.storing.ledger._RETRY", 0.0)
    file = tmp_path / "run.db"
    with open_store(file) as store:
        pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {pages + 12}")

        def progress(done, planned):
            if done > 15_000:
                store.connection.execute("PRAGMA max_page_count = 1000000")

        assert told(audit(noisy, **SMALL, store=store, progress=progress)) == plain
    with read_store(file) as store:
        assert store.entries()[0].verdict == "NOT_REFUTED"


# ---- two stores


def halves(tmp_path):
    """One audit begun in two stores, and stopped at different places."""
    for name, runs in (("a.db", 9_000), ("b.db", 14_000)):
        audit(noisy, **SMALL, store=tmp_path / name, progress=stopping(runs))
    return tmp_path / "a.db", tmp_path / "b.db"


def test_merged_stores_hold_each_chunk_once(plain, tmp_path):
    first, second = halves(tmp_path)
    audit(noisy, **{**SMALL, "seed": 5}, name="other", store=second)
    with open_store(first) as store, read_store(second) as other:
        found = merge(store, other)
        again = merge(store, other)
    assert found.audits == 1 and found.spans > 0 and found.equal > 0 and (again.audits, again.spans) == (0, 0)
    runs = []

    def progress(done, planned):
        runs.append(done)

    assert told(audit(noisy, **SMALL, store=first, progress=progress)) == plain


def test_stores_that_disagree_are_named(tmp_path):
    first, second = halves(tmp_path)
    with sqlite3.connect(second) as connection:
        stage, at, payload = connection.execute("SELECT stage, first, payload FROM spans ORDER BY stage, first LIMIT 1").fetchone()
        span = unpack(at, payload)
        _, part = span.parts[0]
        part.seconds, part.marks = 0.0, [*part.marks, 1]
        connection.execute("UPDATE spans SET payload = ? WHERE stage = ? AND first = ?", (pack(span), stage, at))
    before = first.read_bytes()
    with (
        open_store(first) as store,
        read_store(second) as other,
        pytest.raises(InvalidArgument, match="the mechanism is not a function of its seed"),
    ):
        merge(store, other)
    with read_store(first) as store, sqlite3.connect(":memory:") as memory:
        memory.deserialize(before)
        assert store.connection.execute("SELECT count(*) FROM spans").fetchone() == memory.execute("SELECT count(*) FROM spans").fetchone()


def test_spans_are_bytes_and_back():
    sides = (Outputs(np.array([[1.0, np.nan]]), np.array([5.0]), {5.0: "float[2]", 6.0: "'text'"}, opaque=frozenset({"X"})), None)
    parts = [(3, Segment([np.array([[1, 2], [3, 4]])], [sides], 10, 0, [2**127, 5], 0.5, True)), (4, Segment([], [], 0))]
    for parts_ in (parts, parts[1:]):
        span = Span(7, 9, parts_, True, 0.25)
        found = unpack(7, pack(span))
        assert found.agrees(span) and found.seconds == span.seconds and (found.raised, found.last) == (True, 9)
    assert unpack(7, pack(Span(7, 9, parts, True))).parts[0][1].sides[0][0].names == sides[0].names
    with pytest.raises(ValueError, match="no span begins with"):
        unpack(0, b"pickle")


# ---- extensions


def test_an_extension_tests_the_same_event_on_more_rounds(tmp_path):
    file, more = tmp_path / "run.db", {"store": tmp_path / "run.db", "extend_to": 60_000}
    with pytest.raises(InvalidArgument, match="extend_to needs an audit that has come to its end"):
        audit(noisy, **SMALL, **more)
    first = audit(noisy, **SMALL, store=file)
    audit(noisy, **SMALL, **more, progress=stopping(30_000))
    longer = audit(noisy, **SMALL, **more)
    assert longer.event.to_json() == first.event.to_json() and longer.trials == longer.requested == 60_000
    assert longer.tally.rounds == first.tally.rounds + 40_000
    assert longer.confidence == pytest.approx(0.985) and first.confidence == 0.99
    assert told(audit(noisy, **SMALL, store=file)) == told(first)
    assert audit(noisy, **SMALL, store=file, extend_to=80_000).confidence == pytest.approx(0.9825)
    assert told(audit(noisy, **SMALL, **more)) == told(longer)
    with pytest.raises(InvalidArgument, match="extend_to must be above the 80,000 runs that are planned already, got 70,000"):
        audit(noisy, **SMALL, store=file, extend_to=70_000)
    with pytest.raises(InvalidArgument, match="extend_to needs the store of the audit that is extended"):
        audit(noisy, **SMALL, extend_to=70_000)
    whole = audit(noisy, **SMALL, store=tmp_path / "whole.db")
    assert told(audit(noisy, **SMALL, store=tmp_path / "whole.db", extend_to=60_000)) == told(longer) and told(whole) == told(first)


def false_alarms(shares, families, confidence, epsilon=1.0):
    """How often one of a plan and its extensions says VIOLATED of a mechanism that just keeps its promise.

    Whoever extends does so until there is a violation. Counts are drawn from the law at the claim: of the guesses, which are right with
    probability e^epsilon / (1 + e^epsilon), every one.
    """
    rng, found = np.random.default_rng(5), 0
    claim, event = PureDP(epsilon), Intervals(0, np.array([0.5]), np.array([-1.0, 1.0]))
    for _ in range(families):
        tested = UnderTest(PAIR, 1 - confidence, 0, event, "given", parts=[Part(Tally(0, 0, 0))])
        for share in shares:
            right = int(rng.binomial(2_000, expit(epsilon)))
            tested.parts[-1] = tested.parts[-1].plus(Tally(right, 2_000 - right, 2_000), 0)
            stages._look(Looking(claim), tested, (1 - confidence) * share * (1 - stages.EARLY_ALPHA))
        found += tested.lower > claim.parameter
    return found / families


class Looking:
    """What a look needs of a course."""

    def __init__(self, claim):
        self.asked = type("Asked", (), {"claim": claim, "alpha": 0.2, "stop": "never"})()
        self.done = 0

    def looked(self, symbol, bound):
        pass


def test_extensions_err_together_with_the_stated_probability():
    """500 families of a plan and four extensions at confidence .8: at most .2 * (2 - 1/16) and 5 standard errors (false failure 3e-7)."""
    alpha = 0.2 * stages.extended_share(4)
    rate = false_alarms([1.0, *(2.0**-k for k in range(1, 5))], 500, 0.8)
    assert 0.12 < rate <= alpha + 5 * np.sqrt(alpha * (1 - alpha) / 500)
    assert false_alarms([1.0] * 5, 300, 0.8) > rate + 0.05  # what peeking at the full level each time would do


# ---- on executors


def test_threads_and_a_store_end_with_the_same(plain, tmp_path):
    with ThreadPoolExecutor(2) as executor:
        audit(noisy, **SMALL, store=tmp_path / "run.db", executor=executor, progress=stopping(9_000))
        assert told(audit(noisy, **SMALL, store=tmp_path / "run.db", executor=executor, window=3)) == plain


# ---- the command


def test_store_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    audit(noisy, **SMALL, store="a.db")
    audit(noisy, **SMALL, store="b.db", progress=stopping(9_000))
    assert main(["store", "ls", "a.db"]) == 0 and "noisy  NOT_REFUTED  20,000 of 20,000 runs" in capsys.readouterr().out
    assert main(["store", "show", "b.db", "noisy"]) == 0
    shown = capsys.readouterr().out
    assert "noisy: not at its end" in shown and "  claim: pure:1\n" in shown and "rounds in" in shown
    assert main(["store", "merge", "b.db", "a.db"]) == 0 and "agree" in capsys.readouterr().out
    assert main(["store", "ls", "b.db", "--json"]) == 0 and json.loads(capsys.readouterr().out)[0]["verdict"] == "NOT_REFUTED"
    assert main(["store", "export", "a.db", "out"]) == 0
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["results"][0]["verdict"] == "NOT_REFUTED"
    capsys.readouterr()
    assert main(["store", "gc", "a.db"]) == 0 and "1 audits keep their results alone" in capsys.readouterr().out
    for arguments, message in (
        (("ls", "no.db"), "store must be an existing file, got no.db"),
        (("show", "a.db", "x"), "NAME must be an audit of a.db, got 'x'; there are: noisy"),
        (("merge", "a.db"), "store merge needs stores to merge into FILE, got none"),
        (("export", "a.db"), "store export takes one folder after FILE, got none"),
    ):
        assert main(["store", *arguments]) == 2
        assert message in capsys.readouterr().err
