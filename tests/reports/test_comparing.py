"""Two reports held against each other: what counts as moved, how often that is false, what is new,
what is accepted.
"""

import numpy as np
import pytest
from audit_rows import TALLY, report, row

import dpwitness as dpw
from dpwitness.auditors.audit import options
from dpwitness.reports import intervals as limits
from dpwitness.reports.intervals import BITS, VALUE, GuessCounts, intervals
from dpwitness.reports.summary import fingerprint, rules_of


@pytest.mark.parametrize("claim", ["pure:1", "approx:1,1e-3", "gdp:1", "zcdp:0.5"])
def test_each_end_misses_as_often_as_it_says(claim):
    """3000 runs of one event, ends at error 0.05 each: misses beyond the bounds below have
    probability below 1e-7 (binomial).
    """
    claim, rng, error, runs = dpw.parse_claim(claim), np.random.default_rng(3), 0.05, 3000
    s, theta, rounds = 0.4, 0.7, 4_000
    truth = float(limits.parameter_from_rates(claim, np.array(s), np.array(theta), 2))
    misses = np.zeros(2)
    for made in rng.binomial(rounds, s, runs):
        correct = int(rng.binomial(made, theta))
        low, high = GuessCounts(claim, correct, int(made) - correct, rounds, 2, error).limits()
        misses += low > truth, high < truth
    assert np.all(misses <= 225)  # mean at most 150, standard deviation 12
    assert not claim.is_pure or np.all(misses >= 75)  # exact: of one limit alone, no slack


def test_two_events_that_show_the_same_move_less_often_than_stated():
    """4000 pairs of runs at confidence 0.5, whose bound on false alarms is 0.5: above 0.56 has
    probability below 1e-13.
    """
    rng, alarms, pairs = np.random.default_rng(5), 0, 4000
    for made in rng.binomial(4_000, 0.4, (pairs, 2)):
        counts = [(int(c), int(m - c)) for m, c in zip(made, rng.binomial(made, 0.7), strict=True)]
        both = [row(confidence=0.5, tally=TALLY | {"correct": c, "wrong": w}) for c, w in counts]
        old, new = (intervals(each)[VALUE] for each in both)
        alarms += old.above(new) or new.above(old)
    assert alarms / pairs <= 0.56


def test_all_looks_are_paid_for():
    assert len(options.LOOKS) == limits.LOOKS
    found = intervals(row(bits="VIOLATED") | {"bit_level": {"verdict": "VIOLATED", "tally": TALLY}})
    with_looks, without = found[VALUE], found[BITS]
    assert with_looks.guesses.error == pytest.approx(
        0.01 / 4 / 8
    ) and without.guesses.error == pytest.approx(0.01 / 4)


@pytest.mark.slow
def test_seeds_do_not_move(runs):
    """45 pairs of runs, none with a probability of a false alarm above 0.01 by the criterion if
    their events show the same; measured: 0.
    """
    found = [dpw.compare(report(a), report(b)) for i, a in enumerate(runs) for b in runs[i + 1 :]]
    assert sum(c.counts["rose"] + c.counts["fell"] for c in found) == 0
    assert all(c.verdict is dpw.Verdict.NOT_REFUTED for c in found)
    assert len({r.parameter_lower for r in runs}) == 10  # and yet each certified another bound


@pytest.mark.parametrize(
    ("old", "new", "change", "verdict"),
    [
        ([row()], [row(verdict="VIOLATED")], ("new violation", "verdict changed"), "VIOLATED"),
        ([], [row(verdict="VIOLATED")], ("new violation", "came"), "VIOLATED"),
        (
            [row(bits="NOT_REFUTED")],
            [row(bits="VIOLATED")],
            ("new violation", "verdict changed"),
            "VIOLATED",
        ),
        (
            [row(verdict="VIOLATED")],
            [row(verdict="VIOLATED", bits="VIOLATED")],
            ("new violation", "verdict changed"),
            "VIOLATED",
        ),
        ([row(verdict="VIOLATED")], [row(verdict="VIOLATED")], ("same",), "NOT_REFUTED"),
        ([row(verdict="VIOLATED")], [row()], ("verdict changed",), "NOT_REFUTED"),
        (
            [row()],
            [row(verdict="ERROR", relation=None, tally=None)],
            ("no verdict", "verdict changed"),
            "INCONCLUSIVE",
        ),
        (
            [row(verdict="ERROR", relation=None, tally=None)],
            [row()],
            ("verdict changed",),
            "NOT_REFUTED",
        ),
        ([row(verdict="VIOLATED")], [], ("went",), "NOT_REFUTED"),
        ([], [row()], ("came",), "NOT_REFUTED"),
    ],
)
def test_changes_and_verdict(old, new, change, verdict):
    found = dpw.compare(report(*old), report(*new))
    assert [each.changes for each in found.rows] == [change] and found.verdict.value == verdict


def test_a_fingerprint_is_of_what_is_broken_and_not_of_the_run():
    first = row(
        target={"target": "a:F", "kwargs": {"file": "f.py", "python": "/one", "time_limit": 3.0}}
    )
    again = row(
        "renamed",
        target={"target": "a:F", "kwargs": {"file": "f.py", "python": "/two"}},
        seed=9,
        parameter_lower=3.0,
    )
    assert (
        fingerprint(first, "VALUE") == fingerprint(again, "VALUE")
        and len(fingerprint(first, "VALUE")) == 32
    )
    others = [
        row(target=None),
        first | {"claim": "pure:2"},
        first | {"relation": "l1"},
        first | {"target": {"target": "a:G"}},
    ]
    assert (
        len(
            {fingerprint(each, "VALUE") for each in (first, *others)} | {fingerprint(first, "BITS")}
        )
        == 6
    )


@pytest.mark.parametrize(
    ("result", "rules"),
    [
        (row(), []),
        (row(verdict="ERROR"), []),
        (row(kind="white box", verdict="VIOLATED"), ["VALUE"]),
        (row(kind="sensitivity", verdict="VIOLATED"), ["SENSITIVITY"]),
        (row(kind="utility", verdict="VIOLATED"), ["UTILITY"]),
        (row(kind="trace", verdict="VIOLATED", findings=[{}]), ["VALUE", "TRACE"]),
        (row(kind="checks", verdict="ERROR", findings=[{"status": "failed"}]), ["CHECK"]),
        (row(kind="checks", findings=[{"status": "passed"}]), []),
    ],
)
def test_rules_of_a_result(result, rules):
    assert rules_of(result) == rules
