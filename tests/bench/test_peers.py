"""The comparison with other tools: figures, page, installation, and the search for the number of
runs.
"""

import pytest

from dpwitness.benchmarks.peers import campaign as campaigns
from dpwitness.benchmarks.peers.campaign import Run, attacks, campaign, store, stored
from dpwitness.benchmarks.peers.cases import NAMES, Case, case_named
from dpwitness.benchmarks.peers.drivers import __main__ as driver
from dpwitness.benchmarks.peers.drivers.task import Answer
from dpwitness.benchmarks.peers.figures import only_a_peer, ratio, seconds_to_truth, summary, table
from dpwitness.benchmarks.peers.page import write_page
from dpwitness.benchmarks.peers.tools import OWN, tools
from dpwitness.core.values.validation import InvalidArgument


def run(
    tool, case, bound=None, violated=False, budget=5.0, seed=1, state="answer", settings="best"
):
    return Run(tool, settings, case, budget, seed, state, bound, violated)


def keyed(*runs):
    return {one.key: one for one in runs}


RUNS = keyed(
    run(OWN, "laplace", 0.97),
    run(OWN, "laplace", 0.9, budget=1.0),
    run(OWN, "svt4", 1.5, True),
    run(OWN, "laplace-0.9", 0.99),
    run("dp_sniper", "laplace", 1.02, True),
    run("dp_sniper", "laplace-0.9", 1.05, True),
    run("dp_sniper", "svt4", state="no answer"),
    run("dp_sniper", "gaussian-0.8", state="not expressible"),
    run("statdp_test", "laplace", state="not installed"),
)


def test_the_cases_are_true_and_broken_claims_with_a_worst_pair():
    assert (
        sum(Case(name).broken for name in NAMES)
        == 7
        == len(NAMES) - sum(Case(name).broken for name in NAMES)
    )
    assert all(Case(name).mechanism.worst_pair() for name in NAMES)
    with pytest.raises(InvalidArgument, match="case must be one of"):
        case_named("lapalce")


def test_bounds_are_divided_by_the_truth_and_statements_counted_by_the_truth():
    own, peer = (
        summary([one for one in RUNS.values() if one.tool == name and one.budget == 5])
        for name in (OWN, "dp_sniper")
    )
    assert own.found == (1, 2) and own.alarms == (0, 1)
    assert own.ratio == pytest.approx(0.99 * 0.9)  # the median of three
    # the case that cannot be expressed is no miss, the one without an answer is
    assert peer.found == (1, 2)
    assert peer.alarms == (1, 1) and peer.without == 1 and peer.late == 1
    assert ratio([run(OWN, "svt5", 4.0)], "svt5") is None  # its truth is infinite


def test_a_peer_that_finds_more_is_a_missed_row_and_a_name():
    assert only_a_peer(RUNS) == ["laplace-0.9, best settings, 5 s: DP-Sniper"]
    late = keyed(
        run(OWN, "svt4", 2.0, True), run(OWN, "svt4", settings="default", state="no answer")
    )
    assert only_a_peer(late | keyed(run("dp_sniper", "svt4", 2.0, True, settings="default"))) == [
        "svt4, default settings, 5 s: DP-Sniper"
    ]
    found = table(RUNS)
    met = {row.case: row.met for row in found.rows}
    assert met["broken mechanisms that only a peer finds"] is False
    assert met["broken mechanisms found, 5 CPU s"] is True  # one each
    assert any("clone" in note or note.startswith("not installed") for note in found.notes)
    assert any(note.startswith("not compared: dp-recorder") for note in found.notes)


def test_the_time_to_the_truth_is_the_smallest_budget_whose_bound_is_near():
    assert seconds_to_truth(RUNS, OWN, "laplace") == 5.0
    assert seconds_to_truth(RUNS, OWN, "svt4") is None


def test_the_page_shows_statements_in_bold_and_what_only_a_peer_finds(tmp_path):
    write_page(RUNS, tmp_path)
    text = (tmp_path / "peers.md").read_text()
    assert "| laplace | 1 | 1 | 0.97 |" in text and "**1.02**" in text
    assert "Only a peer finds: laplace-0.9, best settings, 5 s: DP-Sniper." in text
    assert "filled: violation stated" in (tmp_path / "peers.svg").read_text()


def test_a_tool_without_a_clone_is_said_with_what_to_do_and_tried_again(tmp_path):
    file, said = tmp_path / "peers.json", []
    tool = tools()["delta_siege"]
    for _ in range(2):
        campaign([tool], [("best", "laplace", 5.0, 1)], {}, said.append, file)
    (only,) = stored(file).values()
    assert only.state == "not installed" and len(said) == 2
    assert "--checkout delta_siege=FOLDER" in only.note and "eth-sri/Delta-Siege" in only.note


def test_a_campaign_resumes(tmp_path, monkeypatch):
    file = tmp_path / "peers.json"
    store(RUNS.values(), file)
    monkeypatch.setattr(
        campaigns,
        "attacks",
        lambda tool, keys, checkouts, known: iter(
            [run(*key[:1], key[2], 1.0, budget=key[3]) for key in keys]
        ),
    )
    campaign(
        [tools()[OWN]],
        [("best", "laplace", 5.0, 1), ("best", "laplace", 9.0, 1)],
        {},
        lambda line: None,
        file,
    )
    assert stored(file) == RUNS | keyed(run(OWN, "laplace", 1.0, budget=9.0))


def test_a_case_that_ends_the_process_is_an_error_and_the_rest_is_run(tmp_path, monkeypatch):
    script = tmp_path / "python"
    script.write_text(
        "#!/usr/bin/env python3\nimport json, sys\nprint('noise')\nfor task in "
        "json.loads(sys.argv[3]):\n"
        "    if task['case'] == 'svt4':\n        sys.exit(3)\n    print(json.dumps({'state': "
        "'answer', 'bound': 1.0}), flush=True)\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(campaigns.Tool, "interpreter", lambda self, checkouts: str(script))
    keys = [(OWN, "best", case, 5.0, 1) for case in ("laplace", "svt4", "svt1")]
    assert [(one.case, one.state) for one in attacks(tools()[OWN], keys, {})] == [
        ("laplace", "answer"),
        ("svt4", "error"),
        ("svt1", "answer"),
    ]


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_the_largest_attack_within_the_budget_counts(constant):
    def attempt(size, limit):
        cost = constant + size / 1e6  # CPU seconds
        return (Answer(False, float(size)) if cost <= limit else None), cost

    answer, cost, size = driver._largest(attempt, 5.0)
    assert answer is not None and answer.bound == size and 4.0 <= cost <= 5.0
    assert driver._largest(lambda size, limit: (None, 1000.0), 5.0)[0] is None
