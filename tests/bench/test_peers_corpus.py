"""The comparison with other tools on bugs of libraries: recordings, their cost, the campaign and
its figures.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from dpwitness.benchmarks.peers import corpus_campaign as campaigns
from dpwitness.benchmarks.peers import corpus_page
from dpwitness.benchmarks.peers.campaign import Run
from dpwitness.benchmarks.peers.corpus_campaign import (
    BUDGETS,
    SEED,
    corpus_campaign,
    missed,
    stored,
)
from dpwitness.benchmarks.peers.drivers import __main__ as driver
from dpwitness.benchmarks.peers.drivers.recorded import Exhausted, Recorded, recorded
from dpwitness.benchmarks.peers.drivers.task import Answer
from dpwitness.benchmarks.peers.recordings import NoForm, numbers, record, recording, vectors
from dpwitness.benchmarks.peers.tools import OWN, SETTINGS, tools

BUDGET = BUDGETS[0]
TARGET = """
import numpy as np

def noisy(dataset, size, rng):
    return [None if value < 0 else [float(dataset[0]), 1.0] for value in rng.standard_normal(size)]

def raises(dataset, size, rng):
    raise ValueError("no")

noisy.claim = raises.claim = "approx:1,1e-5"
noisy.domain = {"kind": "Records", "size": 1, "low": 0, "high": 1}
"""


def entry(file, name):
    environment = SimpleNamespace(interpreter=sys.executable)
    return SimpleNamespace(
        name=f"bug-{name}",
        target=f"{file}:{name}",
        bits=False,
        before=SimpleNamespace(environment=environment),
    )


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DPWITNESS_HOME", str(tmp_path))
    return tmp_path


def test_a_recording_has_the_outputs_of_both_datasets_and_the_claim(home):
    (home / "bugs.py").write_text(TARGET)
    found = entry(home / "bugs.py", "noisy")
    record(found, {"d0": [0.0], "d1": [2.0]}, 0.001)
    subject = recorded(recording(found, 0.001))
    assert (subject["epsilon"], subject["delta"], subject["mechanism"].cost > 0) == (
        1.0,
        1e-5,
        True,
    )
    for side, value in ((0, 0.0), (1, 2.0)):
        outputs = subject["mechanism"].sample(subject["datasets"][side], 10, None)
        assert {tuple(row) for row in outputs} <= {(value, 1.0), (-1.0, -1.0)}
    with pytest.raises(NoForm, match="the library raises ValueError: no"):
        record(entry(home / "bugs.py", "raises"), {"d0": [0.0], "d1": [2.0]}, 0.001)


def test_outputs_become_numbers_or_have_no_form():
    assert (
        vectors([None, [1, None]], 2)[1, 0] == 1
        and np.isnan(vectors([None, [1, None]], 2)).sum() == 3
    )
    for texts in (["a", "b"], [[1.0], [1.0, 2.0]]):
        with pytest.raises(NoForm, match="not vectors of numbers"):
            vectors(texts, 2)
    with pytest.raises(NoForm, match="different lengths"):
        numbers((np.zeros((1, 2)), np.zeros((1, 3))))
    assert numbers((np.array([[np.inf]]), np.array([[3.0]])))[0][0, 0] == 1e9


def test_a_tool_pays_the_time_of_the_library_and_reads_no_output_twice():
    mechanism = Recorded((np.arange(10.0)[:, None], np.arange(10.0)[:, None]), cost=0.5)

    def attack(size):
        first = mechanism.sample(np.zeros(1), size, None)
        return Answer(False, float(first[-1, 0] + mechanism.sample(np.zeros(1), size, None)[0, 0]))

    answer, cost = driver._timed(lambda: attack(3), 60.0, mechanism)
    assert answer.bound == 2 + 3 and cost == pytest.approx(6 * 0.5, abs=0.2)
    # the library alone takes 3 seconds
    assert driver._timed(lambda: attack(3), 2.0, mechanism)[0] is None
    assert driver._timed(lambda: attack(6), 60.0, mechanism)[0] is None and mechanism.exhausted
    with pytest.raises(Exhausted):
        mechanism.sample(np.zeros(1), 11, None)


def test_the_campaign_gives_the_pair_of_our_audit_to_the_peers_and_resumes(home, monkeypatch):
    bugs, asked, tool = (
        [entry("bugs.py", name) for name in ("noisy", "text")],
        [],
        tools()["statdp_test"],
    )

    def audit(bug, key):
        return Run(*key, "answer", violated=True, cpu_seconds=3.0), {"d0": [bug.name]}

    def write(bug, pair, seconds):
        assert pair == {"d0": [bug.name]}
        if bug.name == "bug-text":
            raise NoForm("outputs are texts")
        recording(bug, seconds).parent.mkdir(exist_ok=True)
        recording(bug, seconds).touch()

    def attacks(tool, keys, checkouts, recordings):
        asked.extend(keys)
        return iter([Run(*key, "answer", violated=True) for key in keys])

    monkeypatch.setattr(campaigns, "_audit", audit)
    monkeypatch.setattr(campaigns, "record", write)
    monkeypatch.setattr(campaigns, "attacks", attacks)
    for _ in range(2):
        corpus_campaign(bugs, [tool], {}, lambda line: None, home / "runs.json")
    runs = stored(home / "runs.json")
    assert asked == [(tool.name, settings, "bug-noisy", BUDGET, SEED) for settings in SETTINGS]
    assert {run.state for run in runs.values() if run.case == "bug-text" and run.tool != OWN} == {
        "not expressible"
    }
    assert sum(run.tool == OWN and run.violated for run in runs.values()) == 2
    assert missed(bugs, runs, BUDGET) == []
    late = Run(OWN, "default", "bug-text", BUDGET, SEED, "error")
    assert missed(bugs, runs | {late.key: late}, BUDGET) == [bugs[1]]


def test_recall_counts_what_a_tool_can_express_and_names_what_only_a_peer_finds():
    made = [
        Run(OWN, "default", "a", BUDGET, SEED, "answer", violated=True, cpu_seconds=9.0),
        Run(OWN, "default", "b", BUDGET, SEED, "answer", cpu_seconds=11.0),
        Run(OWN, "default", "c", BUDGET, SEED, "answer", violated=True, cpu_seconds=1.0),
        Run("dp_sniper", "best", "a", BUDGET, SEED, "no answer"),
        Run("dp_sniper", "best", "b", BUDGET, SEED, "answer", violated=True),
        *(
            Run(name, "best", "c", BUDGET, SEED, "not expressible", note="outputs are texts")
            for name in ("dp_sniper", "statdp_test")
        ),
    ]
    runs = {run.key: run for run in made}
    assert corpus_page.audited(runs) == ["a", "b", "c"]
    assert corpus_page.recall(runs, "dp_sniper", "best", "abc") == corpus_page.Recall(1, 2, 3, 1)
    assert [(row.case, row.met) for row in corpus_page.rows(runs)] == [
        ("bugs of the recall corpus found", True),
        ("bugs of the recall corpus that only a peer finds", False),
    ]
    text = "\n".join(corpus_page.section(runs, 42))
    assert "| dpwitness | default | 2 of 3 | 2 of 3 | 0 | 0 |" in text and "at most 11." in text
    assert (
        "Only a peer finds: b, 10 s (DP-Sniper, best)." in text and "c: outputs are texts" in text
    )
    more = [
        Run(OWN, "default", "b", BUDGETS[1], SEED, "answer", violated=True),
        Run("dp_sniper", "best", "b", BUDGETS[1], SEED, "answer"),
    ]
    text = "\n".join(corpus_page.section(runs | {run.key: run for run in more}, 42))
    assert (
        "No peer finds a bug that our audit misses" in text
        and "With fewer CPU seconds only a peer finds: b, 10 s" in text
    )
    text = "\n".join(corpus_page.section(runs, 42))
    assert "the first 3 in an order" in text and corpus_page.section({}, 42) == []
