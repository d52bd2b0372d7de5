"""The comparison with other tools: figures, page, installation, and the search for the number of
runs.
"""

import pytest

from dpwitness.benchmarks.peers.campaign import OWN, Run
from dpwitness.benchmarks.peers.cases import NAMES, Case, case_named
from dpwitness.benchmarks.peers.figures import ratio, summary
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
