"""Two reports held against each other: what counts as moved, how often that is false, what is new,
what is accepted.
"""

import copy
import json

import numpy as np
import pytest
from audit_rows import NEAR, TALLY, report, row

import dpwitness as dpw
from dpwitness import audit_sensitivity, audit_utility
from dpwitness.auditors import MeanBound
from dpwitness.auditors.audit import options
from dpwitness.cli import main
from dpwitness.mechanisms import Laplace, Records
from dpwitness.reports.comparison import intervals as limits
from dpwitness.reports.comparison.compare import html, markdown, terminal
from dpwitness.reports.comparison.intervals import BITS, VALUE, GuessCounts, intervals
from dpwitness.reports.phrasing.summary import fingerprint, rules_of


def changes(old, new):
    return {found.name: found.changes for found in dpw.compare(report(*old), report(*new)).rows}


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


def test_seeds_do_not_move(runs):
    """45 pairs of runs, none with a probability of a false alarm above 0.01 by the criterion if
    their events show the same; measured: 0.
    """
    found = [dpw.compare(report(a), report(b)) for i, a in enumerate(runs) for b in runs[i + 1 :]]
    assert sum(c.counts["rose"] + c.counts["fell"] for c in found) == 0
    assert all(c.verdict is dpw.Verdict.NOT_REFUTED for c in found)
    assert len({r.parameter_lower for r in runs}) == 10  # and yet each certified another bound


def test_another_pair_is_no_move():
    """A pilot of few runs may pick a pair that tells little: what it shows lies apart, and the
    mechanism is the same.
    """
    pairs = [dpw.Pair(np.array([0.0]), np.array([x])) for x in (0.25, 1.0)]
    runs = [
        report(dpw.audit(Laplace(1.0), pair=pair, trials=20_000, seed=1, name="n"))
        for pair in pairs
    ]
    assert dpw.compare(runs[0], runs[1]).rows[0].changes == ("higher elsewhere",)
    assert dpw.compare(runs[1], runs[0]).rows[0].changes == ("lower elsewhere",)


def test_half_the_noise_rises():
    old = dpw.audit(Laplace(1.0), claim="pure:4", pair=NEAR, trials=20_000, seed=1, name="x")
    new = dpw.audit(
        Laplace(1.0, noise_multiplier=0.5),
        claim="pure:4",
        pair=NEAR,
        trials=20_000,
        seed=2,
        name="x",
    )
    assert "rose" in dpw.compare(report(old), report(new)).rows[0].changes
    assert "fell" in dpw.compare(report(new), report(old)).rows[0].changes
    assert dpw.compare(report(old), report(old)).rows[0].changes == ("same",)


def test_enclosures_and_measures():
    exact = [
        dpw.certify(Laplace(1.0, noise_multiplier=m), NEAR, "pure:4", name="x") for m in (1.0, 0.9)
    ]
    assert changes([exact[0]], [exact[1]]) == {"x": ("rose",)} and changes(
        [exact[1]], [exact[0]]
    ) == {"x": ("fell",)}
    elsewhere = dpw.certify(
        Laplace(1.0), dpw.Pair(np.array([0.0]), np.array([0.5])), "pure:4", name="x"
    )
    assert changes([exact[0]], [elsewhere]) == {"x": ("lower elsewhere",)}
    mean = audit_sensitivity(np.mean, 0.25, Records(4), evaluations=200, name="s").to_json()
    larger = mean | {
        "ratio": 1.3,
        "ratio_lower": 1.3,
        "ratio_upper": 1.3,
        "verdict": "VIOLATED",
        "headline": "",
    }
    assert "rose" in changes([mean], [larger])["s"]
    assert changes(
        [mean], [mean | {"ratio": 1.0, "ratio_upper": 1.0, "ratio_lower": mean["ratio_lower"]}]
    )["s"] == ("same",)
    errors = [
        audit_utility(
            lambda size, rng, mean=mean: rng.uniform(0, 2 * mean, size),
            MeanBound(2.0, high=4.0),
            runs=4_000,
            seed=i,
            name="u",
        )
        for i, mean in enumerate((1.0, 1.0, 1.5))
    ]
    assert changes(errors[:1], errors[1:2]) == {"u": ("same",)} and changes(
        errors[:1], errors[2:]
    ) == {"u": ("rose",)}


def test_low_bits_of_another_event_are_not_compared():
    tallies = [{"correct": c, "wrong": 0, "rounds": 1000, "directions": 1} for c in (600, 60)]
    (old, new), event = [row(bits="VIOLATED") for _ in tallies], {"kind": "low bits"}
    for each, tally in zip((old, new), tallies, strict=True):
        each["bit_level"] |= {
            "tally": tally | {"wrong": 5 if tally["correct"] == 600 else 50},
            "event": event,
            "pair": each["pair"],
        }
    assert changes([old], [new]) == {"m": ("fell",)}
    new["bit_level"]["event"] = {"kind": "lattice"}  # which may have been missed
    assert changes([old], [new]) == {"m": ("lower elsewhere",)}


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


def test_rows_are_matched_by_all_that_names_them():
    old = [
        row(),
        row(test="a"),
        row(claim="pure:2"),
        row(relation="add-remove"),
        row(kind="white box"),
        row("other"),
    ]
    found = dpw.compare(report(*old), report(*reversed(copy.deepcopy(old))))
    assert [each.changes for each in found.rows] == [("same",)] * 6
    new = copy.deepcopy(old)
    new[1] |= {"verdict": "VIOLATED", "parameter_lower": 1.1}
    (broken, *rest) = dpw.compare(report(*old), report(*new)).rows
    assert broken.result["test"] == "a" and all(each.changes == ("same",) for each in rest)
    assert broken.violations[0]["fingerprint"] == fingerprint(new[1], "VALUE")


def test_duplicates_are_matched_in_their_order():
    low, high = row(), row(tally=TALLY | {"correct": 9_400, "wrong": 600})
    assert [each.changes for each in dpw.compare(report(low, high), report(low, high)).rows] == [
        ("same",),
        ("same",),
    ]
    found = dpw.compare(report(low, high), report(high, low, low))
    assert sorted(each.changes[0] for each in found.rows) == ["came", "fell", "rose"]


def test_worst_first_in_all_forms(tmp_path, capsys, parsed):
    evil = row("<script>|x`", verdict="VIOLATED")
    old = report(row("b"), row("gone"), row("same"))
    new = report(row("same"), row("b", tally=TALLY | {"correct": 9_400, "wrong": 600}), evil)
    for name, document in (("old", old), ("new", new)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    files = [str(tmp_path / f"{name}.json") for name in ("old", "new")]
    assert (
        main(
            ["compare", *files, "--explain", "--report", str(tmp_path / "r"), "--format", "md,html"]
        )
        == 1
    )
    told = capsys.readouterr().out
    assert told.startswith("VIOLATED: 1 new violation, 1 rose, 1 went, 1 same")
    places = [
        told.index(word)
        for word in ("new violation (VALUE)", "rose   ", "went   ", "A number has changed")
    ]
    assert places == sorted(places)
    assert {file.name for file in (tmp_path / "r").iterdir()} == {
        "compare.md",
        "compare.html",
        "compare.json",
    }
    text, shown = ((tmp_path / "r" / f"compare.{suffix}").read_text() for suffix in ("md", "html"))
    assert (
        "The same within their error: 1." in text
        and "release nothing under a claim that is newly violated" in text
    )
    assert shown.count("<script") == 1 and "&lt;script&gt;" in shown  # the page's own
    opened = parsed(shown).tags
    assert opened.count("tr") == 4 and opened.count("td") == 18
    assert main(["compare", *files, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data == json.loads((tmp_path / "r" / "compare.json").read_text())
    assert [each["name"] for each in data["rows"]] == [
        "<script>|x`",
        "b",
        "gone",
        "same",
    ] and "disjoint" in data["criterion"]
    assert (
        data["rows"][0]["new_violations"][0]["rule"] == "VALUE"
        and data["rows"][1]["moves"][0]["change"] == "rose"
    )
    assert main(["compare", files[0], files[0]]) == 0 and main(["compare", *reversed(files)]) == 0


def test_empty_reports_are_compared():
    found = dpw.compare(report(), report())
    assert found.headline() == "NO NEW VIOLATION: no audits" and "Nothing." in markdown(found)
    assert terminal(found, explain=True).startswith(terminal(found) + "\n\n") and html(found)
    with pytest.raises(TypeError, match="not a truth value"):
        bool(found)


def test_what_is_asked_is_checked(tmp_path):
    with pytest.raises(
        dpw.InvalidArgument, match="compare: old must be a path or a document, got int"
    ):
        dpw.compare(3, report())
    with pytest.raises(dpw.InvalidArgument, match="compare: new must be a report of dpwitness"):
        dpw.compare(report(), {})
    (tmp_path / "a.json").write_text(json.dumps(report()))
    assert (
        main(["compare", str(tmp_path / "a.json"), str(tmp_path / "a.json"), "--format", "md"]) == 2
    )
    assert (
        main(
            [
                "compare",
                str(tmp_path / "a.json"),
                str(tmp_path / "a.json"),
                "--report",
                str(tmp_path),
                "--format",
                "pdf",
            ]
        )
        == 2
    )


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
